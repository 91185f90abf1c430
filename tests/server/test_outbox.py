import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.limits import WRITE_BYTES
from radiator.server.outbox import ChannelsBuffer, OutgoingBuffer


def test_outbox_joins_small_pieces_into_one_write() -> None:
    outbox = OutgoingBuffer()
    for piece in (b"one ", b"two ", b"three"):
        outbox.append(piece)
    assert outbox.next() == b"one two three"
    assert outbox.pending_bytes == 13


def test_outbox_joins_no_more_than_write_bytes() -> None:
    outbox = OutgoingBuffer()
    for _ in range(5):
        outbox.append(b"x" * (WRITE_BYTES // 4))
    assert len(outbox.next()) == WRITE_BYTES


def test_outbox_does_not_copy_a_large_piece() -> None:
    large = b"x" * (2 * WRITE_BYTES)
    outbox = OutgoingBuffer()
    outbox.append(large)
    outbox.append(b"small")
    assert outbox.next() is large
    assert not outbox.took(1000)
    rest = outbox.next()
    assert isinstance(rest, memoryview) and rest.obj is large and len(rest) == 2 * WRITE_BYTES - 1000


def test_outbox_counts_a_deliver_when_its_last_byte_is_taken() -> None:
    outbox = OutgoingBuffer()
    outbox.append(b"1234", is_deliver=True)
    outbox.append(b"receipt")
    outbox.append(b"5678", is_deliver=True)
    outbox.next()
    assert not outbox.took(3)
    outbox.next()
    assert outbox.took(1) and outbox.delivered == 1
    outbox.next()
    assert not outbox.took(10) and outbox.delivered == 1
    outbox.next()
    assert outbox.took(1) and outbox.delivered == 2
    assert outbox.pending_bytes == 0 and outbox.sent_bytes == 15


def test_outbox_forgets_everything_when_cleared() -> None:
    outbox = OutgoingBuffer()
    outbox.append(b"x" * 100, is_deliver=True)
    outbox.clear()
    assert outbox.pending_bytes == 0 and outbox.delivered == 0


def test_many_small_pieces_take_little_more_memory_than_their_bytes() -> None:
    outbox = OutgoingBuffer()
    tracemalloc.start()
    for number in range(100_000):
        outbox.append(b"%010d" % number)
    traced_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert traced_bytes < 1.2 * outbox.pending_bytes
    taken = []
    while outbox.pending_bytes:
        taken.append(bytes(outbox.next()))
        outbox.took(len(taken[-1]))
    assert b"".join(taken) == b"".join(b"%010d" % number for number in range(100_000))
    assert max(map(len, taken)) <= WRITE_BYTES < 2 * min(map(len, taken[:-1])), "and no more writes than it takes"


@given(st.data())
def test_outbox_loses_and_changes_no_byte_however_it_is_taken(data: st.DataObject) -> None:
    outbox, sent, found, ends = OutgoingBuffer(), bytearray(), bytearray(), []
    for _ in range(data.draw(st.integers(1, 30))):
        sizes = data.draw(st.lists(st.sampled_from([1, 10, 1000, WRITE_BYTES // 2, WRITE_BYTES + 5]), max_size=4))
        for size in sizes + [7] * data.draw(st.sampled_from([0, 0, 70, 200])):
            piece = bytes([len(found) % 251]) * size
            is_deliver = size == 7 or data.draw(st.booleans())
            outbox.append(piece, is_deliver)
            found += piece
            if is_deliver:
                ends.append(len(found))
        if outbox.pending_bytes:
            offered = outbox.next()
            taken = data.draw(st.integers(0, len(offered)))
            sent += bytes(offered[:taken])
            grew = outbox.took(taken)
            delivered = sum(end <= len(sent) for end in ends)
            assert outbox.delivered == delivered
            assert not grew or taken
        assert outbox.pending_bytes == len(found) - len(sent)
    assert found.startswith(sent)


def test_drop_keeps_only_what_was_begun() -> None:
    outbox = OutgoingBuffer()
    outbox.append(b"first", is_deliver=True)
    outbox.append(b"second", is_deliver=True)
    assert outbox.drop()
    assert outbox.pending_bytes == 0 and not outbox.drop()
    outbox.append(b"a" * WRITE_BYTES, is_deliver=True)
    outbox.append(b"second", is_deliver=True)
    outbox.next()
    outbox.took(10)
    assert outbox.drop()
    assert outbox.pending_bytes == WRITE_BYTES - 10
    outbox.append(b"ERROR")
    assert bytes(outbox.next()) == b"a" * (WRITE_BYTES - 10) + b"ERROR"
    assert not outbox.took(outbox.pending_bytes)
    assert not outbox.drop()
    assert outbox.pending_bytes == 0


def test_a_large_frame_is_not_copied() -> None:
    body = b"x" * (2 * WRITE_BYTES)
    outbox = OutgoingBuffer()
    outbox.append(b"small")
    outbox.append_pieces((b"head", body, b"\0"))
    outbox.append(b"next")
    assert outbox.next() == b"smallhead"
    assert not outbox.took(9)
    rest = outbox.next()
    assert isinstance(rest, memoryview) and rest.obj is body
    assert not outbox.took(len(body)) and outbox.delivered == 0
    assert bytes(outbox.next()) == b"\0next"
    assert outbox.took(1) and outbox.delivered == 1


@given(st.data())
def test_drop_leaves_whole_frames_however_they_were_taken(data: st.DataObject) -> None:
    outbox, frames, sent = OutgoingBuffer(), [b""], b""
    for number in range(data.draw(st.integers(1, 8))):
        body = bytes([number]) * data.draw(st.sampled_from([1, 1000, WRITE_BYTES // 2, WRITE_BYTES + 5]))
        if len(body) > WRITE_BYTES:
            outbox.append_pieces((b"head", body, b"\xff"))
        else:
            outbox.append(b"head" + body + b"\xff", is_deliver=True)
        frames.append(frames[-1] + b"head" + body + b"\xff")
        for _ in range(data.draw(st.sampled_from([0, 0, 0, 70]))):
            outbox.append(b"small\xff", is_deliver=True)
            frames.append(frames[-1] + b"small\xff")
        if data.draw(st.booleans()):
            offered = outbox.next()
            taken = data.draw(st.sampled_from([0, 1, 3, len(offered) // 2, len(offered)]))
            sent += bytes(offered[: min(taken, len(offered))])
            outbox.took(min(taken, len(offered)))
            if not outbox.pending_bytes:
                break
    outbox.drop()
    while outbox.pending_bytes:
        offered = outbox.next()
        sent += bytes(offered)
        outbox.took(len(offered))
    assert sent in frames


# ---- several connections --------------------------------------------------------------------------------------------


def test_the_delivers_of_each_connection_are_counted() -> None:
    outbox = ChannelsBuffer()
    outbox.append(b"one of 1", True, 1)
    outbox.append(b"an answer")
    outbox.append(b"one of 2", True, 2)
    outbox.append_pieces((b"head", b"x" * 20, b"\0"), number=1)
    outbox.append_pieces((b"head", b"x" * 20, b"\0"), is_deliver=False, number=3)
    assert outbox.taken(9) == []
    assert len(outbox.next()) > 25 and outbox.took(25)
    assert sorted(outbox.taken(9)) == [(1, 1), (2, 1)], "and the third is not wholly taken"
    while outbox.pending_bytes:
        outbox.took(len(outbox.next()))
    assert outbox.taken(9) == [(1, 2)] and outbox.taken(9) == []
    assert outbox.delivered == 3


def test_nothing_is_counted_of_a_connection_that_is_over() -> None:
    outbox = ChannelsBuffer()
    outbox.append(b"1", True, 1)
    outbox.append(b"2", True, 2)
    outbox.forget(1)
    outbox.forget(7)
    outbox.next()
    outbox.took(2)
    assert outbox.taken(9) == [(2, 1)]
    outbox.append(b"2", True, 2)
    outbox.next()
    outbox.took(1)
    outbox.forget(2)
    assert outbox.taken(9) == []


@pytest.mark.parametrize("drop", [ChannelsBuffer.drop, ChannelsBuffer.clear])
def test_what_was_dropped_is_nobodys_delivery(drop: Callable[[ChannelsBuffer], object]) -> None:
    outbox = ChannelsBuffer()
    outbox.append(b"1", True, 1)
    drop(outbox)
    outbox.append(b"2", True, 2)
    outbox.next()
    outbox.took(1)
    assert outbox.taken(9) == [(2, 1)]


@given(st.data())
def test_each_connection_gets_what_is_its_own_however_it_is_taken(data: st.DataObject) -> None:
    outbox, ends, counts = ChannelsBuffer(), [], {}
    appended = taken_bytes = 0
    for _ in range(data.draw(st.integers(1, 20))):
        for size in data.draw(st.lists(st.integers(1, 40), max_size=4)):
            number = data.draw(st.sampled_from([0, 1, 2, 3]))
            outbox.append(b"x" * size, number > 0, number)
            appended += size
            if number:
                ends.append((appended, number))
        if outbox.pending_bytes:
            taken = data.draw(st.integers(0, len(outbox.next())))
            outbox.took(taken)
            taken_bytes += taken
        counts |= dict(outbox.taken(9))
        for number in (1, 2, 3):
            assert counts.get(number, 0) == sum(end <= taken_bytes and one == number for end, one in ends)
