"""Kinds of destination: queues in memory and on the disk, topics. A fanout has no more to it than its children."""
