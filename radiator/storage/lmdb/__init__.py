"""The store in one file of LMDB."""
