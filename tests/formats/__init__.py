"""Stores that released formats have written, and what must be found in them: one folder for each format."""
