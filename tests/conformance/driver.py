"""A whole broker without sockets, disk or clock: bytes -> session -> broker.turn -> session -> bytes.

The disk is a dictionary that commits at once, or when the test says so. What the server says is read by a small strict
reader of its own, so that a mistake of our codec cannot hide itself.
"""

from dataclasses import dataclass, field

from radiator.core.broker import Broker
from radiator.core.parts import Machine
from radiator.core.turn import Batch
from radiator.model.commands import Closed, Committed, Event, Open, Read, Written
from radiator.model.limits import GIB, MIB, Limits
from radiator.model.message import Message
from radiator.model.reads import Found, Loaded, ReadQueue, ReadRequest, StoredMessage
from radiator.model.recovery import Recovery
from radiator.model.replies import Bye, Deliver, Refuse, Reply
from radiator.model.settings import Declarations
from radiator.model.writes import Put, Remove
from radiator.protocols.stomp.session import StompSession

ESCAPES = {
    "1.0": {},
    "1.1": {"\\": "\\", "n": "\n", "c": ":"},
    "1.2": {"\\": "\\", "n": "\n", "c": ":", "r": "\r"},
}


@dataclass(slots=True)
class ReadFrame:
    """A frame as a strict reader sees it. headers: in order, decoded."""

    command: str
    headers: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return next(value for header, value in self.headers if header == name)

    def __contains__(self, name: str) -> bool:
        return any(header == name for header, _ in self.headers)


def decoded(text: str, version: str) -> str:
    """By the letter of "Value Encoding"; an undefined escape is a KeyError."""
    escapes, out, characters = ESCAPES[version], "", iter(text)
    for character in characters:
        out += escapes[next(characters)] if character == "\\" and escapes else character
    return out


def read_frames(wire: bytes, version: str) -> list[ReadFrame]:
    """Every frame of `wire`, which must hold whole frames and line feeds only. CONNECTED is not unescaped."""
    frames = []
    while wire := wire.lstrip(b"\n"):
        head, blank, rest = wire.partition(b"\n\n")
        assert blank, "a frame has a blank line"
        command, *lines = head.decode().split("\n")
        escaping = "1.0" if command == "CONNECTED" else version
        headers = []
        for line in lines:
            name, colon, value = line.partition(":")
            assert colon and name
            assert version == "1.0" or command == "CONNECTED" or ":" not in value, "a colon must be escaped"
            assert version != "1.2" or "\r" not in line, "a carriage return must be escaped"
            headers.append((decoded(name, escaping), decoded(value, escaping)))
        frame = ReadFrame(command, headers, b"")
        length = int(frame["content-length"]) if "content-length" in frame else rest.index(b"\0")
        frame.body = rest[:length]
        assert rest[length : length + 1] == b"\0", "a frame ends with NUL"
        wire = rest[length + 1 :]
        frames.append(frame)
    return frames


@dataclass(slots=True)
class Peer:
    """A client's end: what it says goes to the broker, what it was sent since is `heard`."""

    house: "House"
    number: int
    session: StompSession
    version: str
    wire: bytearray = field(default_factory=bytearray)
    delivers: int = 0
    is_closed: bool = False

    def say(self, wire: bytes | str) -> list[ReadFrame]:
        """Send those bytes; what was sent to it since the last look."""
        self.send_wire(wire)
        return self.heard()

    def send_wire(self, wire: bytes | str) -> None:
        """Send those bytes."""
        data = wire.encode() if isinstance(wire, str) else wire
        printed = self.session.receive(data)
        self.wire += self.session.take_outgoing()
        events: list[Event] = [word for word in printed if isinstance(word, Open)]
        commands = [word for word in printed if not isinstance(word, Open)]
        if commands:
            events.append(Read(self.number, commands, self.session.buffered_bytes))
        if self.session.is_closing:
            self.is_closed = True
        self.house.run(events)

    def heard(self) -> list[ReadFrame]:
        """What was sent to it since the last look."""
        wire = bytes(self.wire)
        self.wire.clear()
        return read_frames(wire, self.version)

    def vanish(self) -> None:
        """The connection is lost."""
        self.is_closed = True
        self.house.run([Closed(self.number)])


class House:
    """Broker, disk and clock. holds_commits: nothing is committed until `commit`."""

    def __init__(self, declarations: Declarations | None = None, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.now_s, self.now_ms = 100.0, 1_700_000_000_000
        self.broker = Broker(
            declarations or Declarations(create_queues=True, create_topics=True),
            self.limits,
            Recovery("store", 1, 1, True),
            Machine(
                map_size=GIB,
                disk_free_min=MIB,
                entropy=lambda count: b"e" * count,
                version="test",
                now_s=self.now_s,
                now_ms=self.now_ms,
            ),
        )
        self.peers: dict[int, Peer] = {}
        self.numbers = 0
        self.stored: dict[int, dict[int, Message]] = {}
        self.being_committed: Batch | None = None
        self.holds_commits = False

    def peer(self, version: str = "1.2") -> Peer:
        """A connection that has said nothing yet; what it hears is read by that version's rules."""
        self.numbers += 1
        peer = Peer(self, self.numbers, StompSession(self.numbers, f"s-{self.numbers}", self.limits), version)
        self.peers[peer.number] = peer
        return peer

    def connect(self, version: str = "1.2") -> Peer:
        """A connection that is open in that version."""
        peer = self.peer(version)
        (connected,) = peer.say(f"CONNECT\naccept-version:{version}\nhost:h\n\n\0")
        assert connected.command == "CONNECTED" and connected["version"] == version
        return peer

    def commit(self) -> None:
        """What is being committed reaches the disk."""
        assert self.being_committed is not None
        self.run([self._stored(self.being_committed)])

    def run(self, events: list[Event]) -> None:
        """Turn until nothing is left to do."""
        again = True
        while events or again or self.broker.wants_turn:
            turn = self.broker.turn(events, self.now_s, self.now_ms)
            again = turn.again
            events = [self._answer(read_request) for read_request in turn.read_requests]
            events += self._post(turn.replies)
            if self.being_committed is None:
                self.being_committed = self.broker.seal()
            if self.being_committed is not None and not self.holds_commits:
                events.append(self._stored(self.being_committed))

    def _post(self, replies: list[Reply]) -> list[Event]:
        events: list[Event] = []
        for reply in replies:
            peer = self.peers[reply.connection]
            if peer.is_closed:
                continue
            peer.wire += peer.session.encode(reply)
            if isinstance(reply, Deliver):
                peer.delivers += 1
                events.append(Written(peer.number, peer.delivers))
            if isinstance(reply, Refuse | Bye):
                peer.is_closed = True
                events.append(Closed(peer.number))
        return events

    def _answer(self, question: ReadRequest) -> Event:
        if not isinstance(question, ReadQueue):
            return Found(question.request, False)
        stored = self.stored.get(question.queue, {})
        found = [StoredMessage(p, stored[p], 0, False) for p in sorted(stored) if p > question.after]
        return Loaded(question.request, found[: question.messages_max], len(found) > question.messages_max)

    def _stored(self, batch: Batch) -> Committed:
        for write in batch.writes:
            if isinstance(write, Put):
                self.stored.setdefault(write.queue, {})[write.position] = write.message
            elif isinstance(write, Remove):
                del self.stored[write.queue][write.position]
        self.being_committed = None
        return Committed(batch.number)
