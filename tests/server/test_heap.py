"""The heap is kept: where malloc is glibc's, freeing and taking 100 KiB again costs no page faults."""

import platform
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc's malloc that is told")
def test_kept_heap_is_not_given_back_and_taken_again() -> None:
    assert faults("keep") < 200
    # in each of 200 turns glibc 2.36 has seventeen, 2.43 seven
    assert faults("leave alone") > 1000, "the negative control: this machine's malloc keeps its heap anyway"
