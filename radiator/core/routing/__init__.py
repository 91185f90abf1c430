"""Finds which destinations a SEND leads to, and whether it is admitted there."""
