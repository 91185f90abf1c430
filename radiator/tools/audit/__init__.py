"""Questions to the journal: is every message accounted for (`radiator audit`), and what became of one (`explain`)?

table.py     the table of verdicts, which Spark's `conserve` asks too. Pure
verdicts.py  the rules of docs/ARCHIVE.md, in one pass over the events, or two where something is odd. Pure
journal.py   the events: of a store, or of an archive
story.py     one message's life, and those that it came from and went on as
"""
