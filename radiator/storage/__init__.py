"""The disk. `contract.py` defines what a store promises; `codec/` how it is encoded; `lmdb/` is the store itself."""
