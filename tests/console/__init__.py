"""The console in a real browser, with a real broker behind it."""
