"""Queues of all kinds: in memory, durable, and what is delayed."""
