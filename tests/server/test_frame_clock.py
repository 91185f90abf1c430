"""How long a frame may take; time is an argument."""

import pytest

from radiator.model.limits import CLIENT_LIMITS, FRAME_BYTES_PER_S, MIB, Limits
from radiator.protocols.peer.frame import Frames
from radiator.protocols.peer.spec import AFTER_PROOF
from radiator.protocols.stomp.session import StompSession
from radiator.server.frame_clock import FrameClock

CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


class Client:
    """Says bytes to a session, and has its frame timed as a connection does."""

    def __init__(self) -> None:
        self.session = StompSession(1, "s", Limits())
        self.clock = FrameClock(60)
        self.say(0, CONNECT)

    def say(self, now_s: float, data: bytes) -> None:
        self.session.receive(data)
        self.clock.read(now_s, len(data), self.session.buffered_bytes)

    def due_s(self) -> float:
        assert self.session.buffered_bytes, "no frame is unfinished"
        return self.clock.due_s(self.session.frame_bytes)


def test_bytes_that_come_one_by_one_do_not_move_the_end() -> None:
    client = Client()
    frame = b"SEND\ndestination:/queue/a\n\n".ljust(120, b"x")
    for number in range(120):
        client.say(100 + number / 2, frame[number : number + 1])
        assert client.due_s() == 160


def test_content_length_gives_a_large_frame_its_time_from_the_start() -> None:
    client = Client()
    client.say(7, b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % (8 * MIB))
    assert client.due_s() == pytest.approx(7 + 512, abs=0.1)
    client.say(300, b"x" * MIB)
    assert client.due_s() == pytest.approx(7 + 512, abs=0.1)


def test_without_content_length_what_has_come_counts() -> None:
    client = Client()
    client.say(0, b"SEND\ndestination:/queue/a\n\n")
    assert client.due_s() == 60
    client.say(1, b"x" * (60 * FRAME_BYTES_PER_S))
    assert 60 < client.due_s() < 60.1
    client.say(2, b"x" * MIB)
    assert client.due_s() == pytest.approx(124, abs=0.1)


def test_next_frame_has_its_own_time() -> None:
    client = Client()
    client.say(10, b"SEND\ndestination:/queue/a\n\nha")
    client.say(50, b"lf\0SEND\nde")
    assert client.due_s() == 110
    client.say(70, b"stination:/queue/a\n\n\0")
    client.say(90, b"SE")
    assert client.due_s() == 150


@pytest.mark.parametrize(("first", "beat"), [(b"\n", b"\n"), (b"\r\n", b"\r\n"), (b"\r", b"\n\r")])
def test_heart_beats_between_frames_are_no_frame(first: bytes, beat: bytes) -> None:
    """A carriage return whose line feed has not come is held, and is a new one each time."""
    client = Client()
    client.say(1, first)
    for now_s in range(2, 500):
        client.say(now_s, beat)
        assert not client.session.buffered_bytes or client.due_s() == now_s + 60


def test_clock_stands_still_while_nothing_is_read() -> None:
    client = Client()
    client.say(10, b"SEND\n")
    client.clock.stand_still(20)
    client.clock.go_on(500)
    assert client.due_s() == 550
    client.say(510, b"dest")
    assert client.due_s() == 550


def test_words_of_a_link_say_their_size_in_their_head() -> None:
    frames = Frames(CLIENT_LIMITS, AFTER_PROOF)
    kind = max(AFTER_PROOF, key=lambda kind: AFTER_PROOF[kind].most_bytes(CLIENT_LIMITS))
    list(frames.words((4 * MIB).to_bytes(4, "big")))
    assert frames.frame_bytes == 5
    list(frames.words(bytes([kind])))
    assert frames.frame_bytes == 4 * MIB + 4
