"""Keeps what an operator sees at a glance: the last hour, rates of queues, their order. Nothing else in the core needs
it.
"""
