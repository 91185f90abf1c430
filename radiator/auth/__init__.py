"""Finds out who a client is, if there are users: passwords, tokens, and how many attempts are answered. Pure: no clock,
no socket, no randomness.

Adding a mechanism, a way in which a user proves who he is: a file with a Mechanism, and a row in `mechanisms.py`.
"""
