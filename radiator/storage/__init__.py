"""The disk. `contract.py` says what a store promises; `codec/` how it is encoded; `lmdb/` is the store itself."""
