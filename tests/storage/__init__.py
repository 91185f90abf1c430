"""The store, on real LMDB files."""
