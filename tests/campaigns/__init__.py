"""The campaigns of `scripts/prove`: trouble made on purpose, many times, and judged each time. See README.md here."""
