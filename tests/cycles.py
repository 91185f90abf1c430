"""What only Python's collector of reference cycles could free."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Collects what is there already, and nothing more by itself until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def in_cycles() -> list[object]:
    """The objects that were made `without_collector`, are referred to by nobody, and are still there."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    return gc.garbage
