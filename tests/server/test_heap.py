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
from radiator.server.heap import HeapTrimmer, keep_heap
keep_heap()
def resident_bytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
used = [0]
trimmer = HeapTrimmer(gevent.get_hub().loop, lambda: used[0])
before = resident_bytes()
held = [bytearray(40_000) for _ in range(2_000)]
used[0] = 80_000_000
last = [bytearray(1_000) for _ in range(2_000)]  # some find no hole before
trimmer.look(1.0)
held.clear()
used[0] = 0
if sys.argv[1] == "trim":
    assert [trimmer.look(now_s) for now_s in (2.0, 4.0)] == [False, True]
print(resident_bytes() - before)
"""


def left_bytes(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PINNED, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@NEEDS_GLIBC
def test_what_was_freed_goes_back_though_a_block_stands_behind_it() -> None:
    assert left_bytes("trim") < 8_000_000
    assert left_bytes("leave alone") > 70_000_000, "the negative control: this machine's malloc returns it anyway"


def looks(*steps: tuple[int, float]) -> list[bool]:
    """Of (bytes used, seconds): whether each look trims."""
    used = [0]
    trimmer = HeapTrimmer(gevent.get_hub().loop, lambda: used[0])
    done = []
    for used[0], now_s in steps:
        done.append(trimmer.look(now_s))
    return done


def test_the_heap_is_trimmed_once_where_much_less_is_used_for_a_while() -> None:
    late_s = 5.0 + HEAP_TRIM_AFTER_S
    much = HEAP_FREED_BYTES
    assert looks((much, 4.0), (0, 5.0), (0, late_s - 0.01), (0, late_s), (0, late_s + 9)) == [False] * 3 + [True, False]
    # one byte less
    assert looks((much - 1, 4.0), (0, 5.0), (0, late_s)) == [False] * 3
    # it is used again in between: the time begins anew
    assert looks((much, 4.0), (0, 5.0), (much, 5.5), (0, late_s), (0, late_s + 0.1)) == [False] * 5
    # and what stays in use counts from then on
    assert looks((3 * much, 4.0), (much, 5.0), (much, late_s), (0, 9.0), (0, 10.0)) == [False, False, True, False, True]
