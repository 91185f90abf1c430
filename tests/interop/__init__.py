"""Clients that others have written, against a real broker."""
