"""What every test has: hypothesis runs the same examples each time, and prints how to get a failing one again."""

from hypothesis import settings

settings.register_profile("radiator", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("radiator")
