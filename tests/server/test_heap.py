"""The heap is kept, where malloc is glibc's: freeing and taking 100 KiB again costs no page faults. What is freed of
much goes back to the system, whatever stands behind it.
"""

import platform
import subprocess
import sys

import gevent
import pytest

from radiator.model.limits import HEAP_FREED_BYTES, HEAP_TRIM_AFTER_S
from radiator.server.heap import HeapTrimmer

NEEDS_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's malloc that is told")

PROGRAM = """
import resource, sys
if sys.argv[1] == "keep":
    from radiator.server.heap import keep_heap
    keep_heap()
def turn():
    held = [bytearray(40_000) for _ in range(5)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
turn()
before = faults()
for _ in range(200):
    turn()
print(faults() - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@NEEDS_GLIBC
def test_kept_heap_is_not_given_back_and_taken_again() -> None:
    assert faults("keep") < 200
    # in each of 200 turns glibc 2.36 has seventeen, 2.43 seven
    assert faults("leave alone") > 1000, "the negative control: this machine's malloc keeps its heap anyway"


PINNED = """
import sys, gevent
from radiator.server.heap import HeapTrimmer, keep_heap, occupied_bytes
keep_heap()
before = occupied_bytes()
trimmer = HeapTrimmer(gevent.get_hub().loop, lambda: 0, occupied_bytes)
held = [bytearray(40_000) for _ in range(2_000)]
last = [bytearray(1_000) for _ in range(2_000)]  # some find no hole before
held.clear()
if sys.argv[1] == "trim":
    assert [trimmer.look(now_s) for now_s in (2.0, 4.0)] == [False, True]
print(occupied_bytes() - before)
"""


def left_bytes(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PINNED, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@NEEDS_GLIBC
def test_what_was_freed_goes_back_though_a_block_stands_behind_it_and_nobody_saw_it_used() -> None:
    assert left_bytes("trim") < 8_000_000
    assert left_bytes("leave alone") > 70_000_000, "the negative control: this machine's malloc returns it anyway"


def looks(*steps: tuple[int, int, float]) -> list[bool]:
    """Of (bytes occupied, bytes used, seconds): whether each look trims."""
    occupied, used = [0], [0]
    trimmer = HeapTrimmer(gevent.get_hub().loop, lambda: used[0], lambda: occupied[0])
    done = []
    for occupied[0], used[0], now_s in steps:
        done.append(trimmer.look(now_s))
    return done


def test_the_heap_is_trimmed_once_where_much_more_is_occupied_than_used_for_a_while() -> None:
    late_s = 5.0 + HEAP_TRIM_AFTER_S
    much = HEAP_FREED_BYTES
    steps = ((much, much, 4.0), (much, 0, 5.0), (much, 0, late_s - 0.01), (much, 0, late_s), (much, 0, late_s + 9))
    # where the trim returns nothing, it is not tried again
    assert looks(*steps) == [False] * 3 + [True, False]
    # nobody has seen it used
    assert looks((much, 0, 5.0), (much, 0, late_s)) == [False, True]
    # one byte less
    assert looks((much, much, 4.0), (much - 1, 0, 5.0), (much - 1, 0, late_s)) == [False] * 3
    # it is used again in between: the time begins anew
    assert looks((much, 0, 5.0), (much, much, 5.5), (much, 0, late_s), (much, 0, late_s + 0.1)) == [False] * 4
    # what it needs beside has become less: that is what later looks compare with
    assert looks((2 * much, 2 * much, 4.0), (much, much + 9, 4.5), (much - 9, 0, 5.0), (much - 9, 0, late_s)) == (
        [False] * 3 + [True]
    )
