"""Logs: partitions and segments, their consumers and groups, retention, and checkouts."""
