"""Radiator: a durable STOMP message broker. Where to start reading: docs/READING.md."""

__version__ = "0.1.0"
