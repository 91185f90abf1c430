"""Logs and the journal as Parquet files: `radiator archive`, from a process of its own. The broker never imports this.

    rows.py      records and events as columns, and the checksum of rows
    source.py    what is read of a store, in short read transactions
    manifest.py  what an archive says that it has: one JSON object a line
    sealing.py   one file, from its temporary name to its line in the manifest
    archiver.py  what is copied when
    verify.py    whether an archive has what its manifest says
    history.py   the journal of an archive, read back

Needs pyarrow (the extra `archive`). docs/ARCHIVE.md says what is promised.
"""
