"""A node among others: links, topics and queues that span nodes, and messages that change their owner.

Start reading here. `cluster.py` knows who is linked and gives each word to whom it concerns: `handover.py` moves
messages from store to store, never lost and never twice; `sharing.py` says which messages go where; `gossip.py`
carries topics to those who want them (`interest.py`), over the graph (`routes.py`) that everybody's news (`news.py`)
describes. docs/CLUSTER.md has the same as numbered procedures.
"""
