"""The memory that the windows of all queues share, and what is read back for them at a time."""

from collections.abc import Callable

import pytest

from radiator.core.queues.windows import Windows
from radiator.model.limits import (
    DELAYED_READS_AT_ONCE,
    GIB,
    LOAD_BYTES,
    LOAD_MESSAGES,
    MIB,
    OUT_BYTES,
    WINDOWS_BYTES,
    WINDOWS_SHARE,
)
from radiator.model.reads import Loaded, LoadedDelayed, ReadDelayed, ReadQueue
from tests.core import bare
from tests.core.backlogs import drained, numbered
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import send, subscribe, unsubscribe


def test_all_windows_together_are_bounded(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOWS_BYTES": 3000, "LOAD_BYTES": 1000})
    node = Node()
    node.open(1, 9)
    for number in range(20):
        for name in "abcdefgh":
            node.say(send(9, name, b"%d" % number + bytes(500)))
    windows = node.broker.destinations.windows
    assert windows.size <= 3000 + 8 * 502
    for name in "abcdefgh":
        node.say(subscribe(1, name, name=name.encode()))
        assert [body.rstrip(b"\0") for body in drained(node)] == numbered(0, 20)
        node.say(unsubscribe(1, name))
    assert windows.size == windows.out == 0


# ---- by themselves --------------------------------------------------------------------------------------------------


class Reader:
    """Delayed messages of one queue. asks: how often it was told that it may ask."""

    def __init__(self, number: int, again: Callable[["Reader"], None]) -> None:
        self.number = number
        self.again = again
        self.asks = 0
        self.answers: list[LoadedDelayed] = []

    def read_request(self) -> ReadDelayed:
        return ReadDelayed(self.number, 1, 0, 0, 1, 1)

    def answered(self, answer: LoadedDelayed) -> None:
        self.answers.append(answer)

    def ask(self) -> None:
        self.asks += 1
        self.again(self)


def test_they_have_a_share_of_the_memory_and_at_most_so_much() -> None:
    some = Windows(MIB)
    assert some.size_max == MIB // WINDOWS_SHARE and some.out_max == some.load_bytes == some.size_max // 2
    some.bound(1000 * GIB)
    assert (some.size_max, some.out_max, some.load_bytes) == (WINDOWS_BYTES, OUT_BYTES, LOAD_BYTES)


@pytest.mark.parametrize(("more", "is_crowded"), [(0, False), (1, True)])
def test_they_are_crowded_where_one_read_may_be_too_much(more: int, is_crowded: bool) -> None:
    some = Windows(GIB)
    some.size = some.size_max - some.load_bytes + more
    assert some.is_crowded is is_crowded


def test_a_read_is_answered_by_its_request() -> None:
    some, turns, answers = Windows(GIB), bare.context(), []
    load = ReadQueue(5, 1, 0, 1, 1)
    some.ask(turns, load, answers.append)
    assert turns.turn.read_requests == [load]
    some.waiting.pop(5)(Loaded(5))
    assert answers == [Loaded(5)]


def test_so_many_reads_are_of_delayed_messages_and_the_next_wait_in_line() -> None:
    some, turns = Windows(GIB), bare.context()
    readers = [
        Reader(number, lambda reader: some.ask_delayed(turns, reader)) for number in range(DELAYED_READS_AT_ONCE + 2)
    ]
    for reader in (*readers, readers[-1]):  # twice is once
        some.ask_delayed(turns, reader)
    requests = turns.turn.read_requests
    assert [one.request for one in requests] == [reader.number for reader in readers[:DELAYED_READS_AT_ONCE]]
    for count in (1, 2, 2):
        request = requests.pop(0).request
        some.waiting.pop(request)(LoadedDelayed(request))
        assert readers[request].answers and sum(reader.asks for reader in readers) == count
    assert [reader.asks for reader in readers[-2:]] == [1, 1] and some.delayed_reads == DELAYED_READS_AT_ONCE - 1


@pytest.mark.parametrize("size", [0, LOAD_BYTES // LOAD_MESSAGES + 1])
def test_a_batch_releases_so_many_delayed_messages_or_bytes(size: int) -> None:
    some, turns = Windows(GIB), bare.context()
    count = 0
    while not some.have_released_enough(turns):
        some.count_released(size)
        count += 1
    assert count == (LOAD_MESSAGES if size == 0 else -(-LOAD_BYTES // size))
    bare.commit(turns)
    assert not some.have_released_enough(turns), "the next batch takes as many"
