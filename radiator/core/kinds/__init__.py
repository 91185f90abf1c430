"""The kinds of addresses: what can be done with each of them (kind.py), and which there are (table.py)."""
