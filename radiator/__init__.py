"""Radiator: a durable message broker for STOMP and AMQP 0-9-1. Where to start reading: docs/READING.md."""

__version__ = "0.1.0"
