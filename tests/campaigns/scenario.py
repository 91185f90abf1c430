"""A scenario: some two hundred deeds of one client, and what a store may hold after a crash in the midst of them.

They are SENDs, ACKs, NACKs, fanouts, transactions, dead letters and dedup-ids. All go over one connection, so they come
to the store in their order: what is found must be exactly what the first N of them leave, for one N that is not less
than that of any deed whose receipt, or whose message, had come (C1 to C10 and C14 of the plan at once: lost, torn,
altered, undone, doubled and disordered all differ from every such state). The deeds depend on the seed alone.

It cannot see what goes wrong only between several connections: tests/crash/books.py judges that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from tests.acceptance.wire import Frame, Gone, Wire

MAX_REDELIVERIES = 1
DEEDS_AT_ONCE = 12
DEEDS = 200

CONFIG = f"""\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "data"
disk_free_min = "16MiB"
map_size = "64MiB"

[create]
queues = true

[queue."work"]
dead_letter = "dead"
max_redeliveries = {MAX_REDELIVERIES}

[queue."once"]
dedup_window_s = 3600

[fanout."events"]
children = ["events.a", "events.b", "events.c"]
"""
WORK, DEAD, ONCE, LEFT, RIGHT = "work", "dead", "once", "left", "right"
CHILDREN = ("events.a", "events.b", "events.c")
COME_AGAIN = (WORK, ONCE, LEFT, RIGHT, *CHILDREN)
QUEUES = (*COME_AGAIN, DEAD)


@dataclass(frozen=True, slots=True)
class Stored:
    """One message, as a consumer or the store shows it."""

    body: bytes
    redeliveries: int = 0
    dead_letter_reason: str = ""

    def __repr__(self) -> str:
        name = self.body.partition(b"\n")[0].decode(errors="replace")
        return f"{name} ({len(self.body)} bytes) x{self.redeliveries} {self.dead_letter_reason}".rstrip()


Queues = dict[str, tuple[Stored, ...]]  # those that hold something
Place = tuple[str, bytes]  # queue, body


@dataclass(frozen=True, slots=True)
class State:
    """What is stored. Never changed: each deed makes a new one."""

    queues: Queues = field(default_factory=dict)
    dedup_ids: frozenset[str] = frozenset()

    def with_queue(self, queue: str, messages: Iterable[Stored]) -> "State":
        queues = {**self.queues, queue: tuple(messages)}
        return State({name: there for name, there in queues.items() if there}, self.dedup_ids)

    def put(self, queue: str, message: Stored) -> "State":
        return self.with_queue(queue, (*self.queues.get(queue, ()), message))

    def take(self, place: Place) -> tuple["State", Stored]:
        queue, body = place
        message = next(one for one in self.queues[queue] if one.body == body)
        return self.with_queue(queue, (one for one in self.queues[queue] if one is not message)), message

    def bury(self, place: Place, reason: str) -> "State":
        state, message = self.take(place)
        return state.put(DEAD, Stored(message.body, message.redeliveries, reason)) if place[0] == WORK else state

    def nack(self, place: Place) -> "State":
        """Back to its place, and counted; to the dead letters where it came back too often."""
        queue, body = place
        message = next(one for one in self.queues[queue] if one.body == body)
        if queue == WORK and message.redeliveries >= MAX_REDELIVERIES:
            return self.bury(place, "redeliveries")
        again = Stored(body, message.redeliveries + 1)
        return self.with_queue(queue, (again if one is message else one for one in self.queues[queue]))


Effect = Callable[[State], State]


def put(queue: str, body: bytes) -> Effect:
    return lambda state: state.put(queue, Stored(body))


def put_once(body: bytes, dedup_id: str) -> Effect:
    def effect(state: State) -> State:
        if dedup_id in state.dedup_ids:
            return state
        state = state.put(ONCE, Stored(body))
        return State(state.queues, state.dedup_ids | {dedup_id})

    return effect


def ack(place: Place) -> Effect:
    return lambda state: state.take(place)[0]


def nack(place: Place) -> Effect:
    return lambda state: state.nack(place)


def reject(place: Place) -> Effect:
    return lambda state: state.bury(place, "rejected")


@dataclass
class History:
    """states[n]: after the first n deeds. told: the last of them that has its receipt, or a message of which came.

    That deed and all before it must outlast any crash. births: the deed that put each message there. ids: what each
    message-id was of. mistakes: what else the broker should not have said, whatever the crash.
    """

    states: list[State] = field(default_factory=lambda: [State()])
    told: int = 0
    births: dict[Place, int] = field(default_factory=dict)
    ids: dict[str, Place] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.states) - 1

    def add(self, effects: Iterable[Effect]) -> int:
        """The number of a new deed with all these effects or none."""
        state = self.states[-1]
        for effect in effects:
            state = effect(state)
        self.states.append(state)
        for queue, messages in state.queues.items():
            for message in messages:
                self.births.setdefault((queue, message.body), self.count)
        return self.count

    def place_of(self, found: Queues, told: int) -> int | None:
        """After how many deeds the store looks like that: the largest such number; None where no crash leaves it."""
        for number in range(self.count, told - 1, -1):
            if self.states[number].queues == found:
                return number
        return None

    def complaint(self, found: Queues, told: int) -> str:
        """In what that differs from all that it may be, in a sentence; "" where it is one of these."""
        if self.place_of(found, told) is not None:
            return ""
        knew = f"deed {told} of {self.count} was receipted, or a message of it delivered"
        earlier = self.place_of(found, 0)
        if earlier is not None:
            return f"{knew}, and the store is as after {earlier}"
        near = {number: differences(self.states[number].queues, found) for number in range(told, self.count + 1)}
        nearest = min(near, key=lambda number: len(near[number]))
        return f"{knew}; as after {nearest}, it should be, but {'; '.join(near[nearest][:4])}"

    def go_on_from(self, number: int) -> None:
        """A crash has left the first so many deeds: the others have never been."""
        del self.states[number + 1 :]
        self.told = number


def differences(wanted: Queues, found: Queues) -> list[str]:
    told = []
    for queue in sorted({*wanted, *found}):
        here, there = wanted.get(queue, ()), found.get(queue, ())
        if here != there:
            missing = [one for one in here if one not in there]
            more = [one for one in there if one not in here]
            if not missing and not more:
                told.append(f"{queue} is in another order")
            told += [f"{one} is not in {queue}" for one in missing] + [f"{one} is in {queue}" for one in more]
    return told


class Client:
    """Does the deeds, and keeps their history. It consumes every queue, and holds what it has not answered.

    AssertionError: the broker says what it must not. Gone, ConnectionError: it is not there any more.
    """

    def __init__(self, wire: Wire, history: History, chance: Random, name: str) -> None:
        self.wire = wire
        self.history = history
        self.chance = chance
        self.name = name
        self.waiting: list[int] = []  # deeds, for their receipts
        self.held: dict[Place, str] = {}  # -> what its ACK must name
        self.arrived: dict[str, list[Stored]] = {}  # all MESSAGEs in their order
        self.not_marked: list[Stored] = []  # came without redelivered:true
        self._free: list[Place] = []  # stored and not answered at the last moment when all was receipted
        self._transactions = 0

    def begin(self) -> None:
        self.wire.connect()
        for queue in QUEUES:
            headers = {"id": queue, "destination": f"/queue/{queue}", "ack": "client-individual"}
            self.wire.send_frame("SUBSCRIBE", {**headers, "prefetch-count": "1000", "receipt": f"subscribed-{queue}"})
            self._read_until(lambda queue=queue: self._last == f"subscribed-{queue}")  # type: ignore[misc]

    def look(self, count: int) -> Queues:
        """All that the broker delivers, which is said to be so many messages, and not one more."""
        self._read_until(lambda: sum(map(len, self.arrived.values())) >= count)
        for step in ("BEGIN", "ABORT"):  # what there is to deliver is delivered before their receipts
            self.wire.send_frame(step, {"transaction": "look", "receipt": step})
            self._read_until(lambda step=step: self._last == step)  # type: ignore[misc]
        self._free = [*self.held]
        return {queue: tuple(messages) for queue, messages in self.arrived.items()}

    def do_all(self, count: int) -> None:
        """So many deeds, some one by one and some many at once, all of them receipted in the end."""
        done = 0
        while done < count:
            at_once = min(self.chance.choice((1, 1, 2, 5, DEEDS_AT_ONCE)), count - done)
            for _ in range(at_once):
                self._do_one()
            done += at_once
            self._read_until(lambda: not self.waiting)
            self._free = [
                (queue, message.body)
                for queue, messages in self.history.states[-1].queues.items()
                for message in messages
            ]

    def hear_the_last(self) -> None:
        """What was sent to us before the broker was gone counts as said."""
        try:
            while True:
                self._hear(self.wire.read_frame())
        except (Gone, ConnectionError):
            pass

    # ---- deeds

    def _do_one(self) -> None:
        deeds = (self._send, self._send_once, self._fan_out, self._transact, self._ack, self._nack, self._reject)
        self.chance.choices(deeds, (20, 10, 10, 16, 26, 14, 6))[0]()

    def _say(
        self, effects: Iterable[Effect], frames: list[bytes], last: str, headers: dict[str, str], body: bytes
    ) -> None:
        """One deed: the frames, then the last one, which asks for the receipt."""
        number = self.history.add(effects)
        self.waiting.append(number)
        asking = self.wire.frame(last, {**headers, "receipt": f"deed-{number}"}, body)
        self.wire.send_raw(b"".join([*frames, asking]))

    def _body(self, part: str = "") -> bytes:
        """Contents that nothing else has; now and then they take several pages of the store."""
        name = f"{self.name}.{self.history.count}{part}".encode()
        size = self.chance.choice((0, 40, 300, 300, 1000, 2500)) if self.chance.random() < 0.93 else 12_000
        return name + b"\n" + self.chance.randbytes(size)

    def _send(self) -> None:
        body = self._body()
        self._say([put(WORK, body)], [], "SEND", {"destination": "/queue/work"}, body)

    def _send_once(self) -> None:
        body = self._body()
        known = sorted(self.history.states[-1].dedup_ids)
        dedup_id = self.chance.choice(known) if known and self.chance.random() < 0.4 else f"id-{self.history.count}"
        self._say([put_once(body, dedup_id)], [], "SEND", {"destination": "/queue/once", "dedup-id": dedup_id}, body)

    def _fan_out(self) -> None:
        body = self._body()
        self._say([put(queue, body) for queue in CHILDREN], [], "SEND", {"destination": "/fanout/events"}, body)

    def _transact(self) -> None:
        """SENDs to two queues, and an answer to what was delivered; one in six is taken back."""
        self._transactions += 1
        within = {"transaction": f"t{self._transactions}"}
        effects, frames = [], [self.wire.frame("BEGIN", within)]
        for queue in self.chance.sample((LEFT, RIGHT, LEFT, RIGHT), self.chance.randint(2, 4)):
            body = self._body(f"-{len(frames)}")
            effects.append(put(queue, body))
            frames.append(self.wire.frame("SEND", {**within, "destination": f"/queue/{queue}"}, body))
        is_kept = self.chance.random() > 1 / 6
        for answer, effect in self.chance.sample((("ACK", ack), ("NACK", nack)), self.chance.randint(0, 2)):
            place = self._choose(COME_AGAIN)
            if place is not None:
                name = self._give_up(place)
                effects.append(effect(place))
                frames.append(self.wire.frame(answer, {**within, "id": name}))
                if not is_kept:
                    self.held[place] = name
        self._say(effects if is_kept else [], frames, "COMMIT" if is_kept else "ABORT", within, b"")

    def _ack(self) -> None:
        place = self._choose(QUEUES)
        if place is None:
            self._send()
        else:
            self._say([ack(place)], [], "ACK", {"id": self._give_up(place)}, b"")

    def _nack(self) -> None:
        place = self._choose(COME_AGAIN)
        if place is None:
            self._send()
        else:
            self._say([nack(place)], [], "NACK", {"id": self._give_up(place)}, b"")

    def _reject(self) -> None:
        place = self._choose((WORK,))
        if place is None:
            self._send()
        else:
            self._say([reject(place)], [], "NACK", {"id": self._give_up(place), "requeue": "false"}, b"")

    def _choose(self, queues: tuple[str, ...]) -> Place | None:
        """A message of one of these queues, to be answered; None where there is none."""
        places = [place for place in self._free if place[0] in queues]
        if not places:
            return None
        place = self.chance.choice(places)
        self._free.remove(place)
        return place

    def _give_up(self, place: Place) -> str:
        """What the answer to it must name; it is no longer held."""
        self._read_until(lambda: place in self.held)
        return self.held.pop(place)

    # ---- what is heard

    _last = ""

    def _read_until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            try:
                frame = self.wire.read_frame()
            except TimeoutError as silence:
                raise AssertionError(
                    f"the broker owes a receipt or a message, and says nothing: deeds {self.waiting} of"
                    f" {self.history.count} are not receipted, {len(self.held)} messages are held"
                ) from silence
            self._hear(frame)

    def _hear(self, frame: Frame) -> None:
        if frame.command == "MESSAGE":
            self._hear_message(frame)
            return
        assert frame.command == "RECEIPT", f"the broker said {frame}"
        self._last = frame["receipt-id"]
        kind, _, number = self._last.partition("-")
        if kind == "deed":
            if int(number) != self.waiting[0]:
                self.history.mistakes.append(f"the receipt of deed {number} came before that of {self.waiting[0]}")
            self.waiting.remove(int(number))
            self.history.told = max(self.history.told, int(number))

    def _hear_message(self, frame: Frame) -> None:
        queue = frame["subscription"]
        stored = Stored(frame.body, int(frame.get("redelivery-count") or 0), frame.get("dead-letter-reason") or "")
        place = queue, frame.body
        if frame["redelivered"] != "true":
            self.not_marked.append(stored)
        if place in self.history.births:
            self.history.told = max(self.history.told, self.history.births[place])
        name = frame["message-id"]
        if self.history.ids.setdefault(name, place) != place:
            self.history.mistakes.append(f"message-id {name} is of two messages, in {queue} of {stored}")
        if place in self.held:
            self.history.mistakes.append(f"{stored} of {queue} came twice, and was not given back")
        self.held[place] = frame["ack"]
        self.arrived.setdefault(queue, []).append(stored)
