"""A scenario: some two hundred deeds of one client, and what a store may hold after a crash in the midst of them.

They are SENDs, ACKs, NACKs, fanouts, transactions, dead letters, dedup-ids, delays, exchanges with their bindings,
durable subscriptions, queues with keys, a log and ACKs of its group, checkouts and prepared transactions. All go over
one connection, so they come to the store in their order: what is found must be exactly what the first N of them leave,
for one N that is not less than that of any deed whose receipt, answer or message had come (lost, torn, altered, undone,
doubled and disordered all differ from every such state). What waits for its time stands at its own place. The deeds
depend on the seed alone. The journal is on: `journal_mistake` holds it against what is stored.

It cannot see what goes wrong only between several connections: tests/crash/books.py judges that.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from radiator.model.patterns import matches
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
partition_key = "header:key"
partition_window = 1000

[queue."right"]
partition_key = "header:key"
partition_window = 1000

[queue."once"]
dedup_window_s = 3600

[fanout."events"]
children = ["events.a", "events.b", "events.c", "/log/taps"]

[log."taps"]
retention_ms = 0

[journal]
enabled = true

[exchange."trade"]
type = "topic"

[topic."news"]
"""
WORK, DEAD, ONCE, LEFT, RIGHT = "work", "dead", "once", "left", "right"
CHILDREN = ("events.a", "events.b", "events.c")
COME_AGAIN = (WORK, ONCE, LEFT, RIGHT, *CHILDREN)
QUEUES = (*COME_AGAIN, DEAD)
TRADE, SIDE, TOPICS = "trade", "side", ""  # exchanges: of the configuration, and made at run time; and what topics have
EXTRA = "extra"  # a queue that is made at run time; while there are deeds nobody consumes it
DURABLE, LISTENER = "$durable/exchange/trade/t.#/listener", "listener"
NEWS, READER = "$durable/topic/news/reader", "reader"
DURABLES = {DURABLE: ("/exchange/trade/t.#", LISTENER), NEWS: ("/topic/news", READER)}
SUBSCRIPTIONS = {LISTENER: DURABLE, READER: NEWS}
TAPS, GROUP = "taps", "readers"  # a log, and the group that reads it
TAKEN, ENGINE = "taken", "engine"  # a queue that nobody consumes, and the group that checks it out
PLACED = "placed"  # where prepared transactions go; nobody consumes it while there are deeds, and it has no order
APP = "app"
# in the place of queues: what else there is
BINDINGS, DECLARED = "the bindings", "what is declared"
LOG, CHECKED_OUT = "the log", "what is checked out"
POSITION, FIRST, VERSION = "the group's position", "the first that is checked out", "the version of the app"
PREPARED = "what is prepared"
NUMBERS = (POSITION, FIRST, VERSION)  # as text; 0 is not there
NO_QUEUES = (BINDINGS, DECLARED, LOG, CHECKED_OUT, PREPARED, *NUMBERS)
KEYS = {TRADE: ("t.a", "t.*", "#"), SIDE: ("k", "l")}
ADDRESSES = ("/exchange/trade/t.a", "/exchange/trade/t.b", "/exchange/trade/u", "/exchange/side/k", "/topic/news")
BINDABLE = (WORK, LEFT, RIGHT, EXTRA)
DELAYS_MS = (0, 30, 150, 400)


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

    def dead_letter(self, place: Place, reason: str) -> "State":
        state, message = self.take(place)
        return state.put(DEAD, Stored(message.body, message.redeliveries, reason)) if place[0] == WORK else state

    def nack(self, place: Place) -> "State":
        """Back to its place, and counted; to the dead letters where it came back too often."""
        queue, body = place
        message = next(one for one in self.queues[queue] if one.body == body)
        if queue == WORK and message.redeliveries >= MAX_REDELIVERIES:
            return self.dead_letter(place, "redeliveries")
        again = Stored(body, message.redeliveries + 1)
        return self.with_queue(queue, (again if one is message else one for one in self.queues[queue]))

    def has(self, what: str, name: str) -> bool:
        """Whether that is bound, or declared."""
        return Stored(name.encode()) in self.queues.get(what, ())

    def with_one(self, what: str, name: str, is_there: bool) -> "State":
        """Bound or declared, or not, from now on."""
        others = {one for one in self.queues.get(what, ()) if one.body != name.encode()}
        ours = {Stored(name.encode())} if is_there else set()
        return self.with_queue(what, sorted(others | ours, key=lambda one: one.body))

    def number(self, what: str) -> int:
        """One of NUMBERS."""
        return int(self.queues[what][0].body) if what in self.queues else 0

    def with_number(self, what: str, number: int) -> "State":
        return self.with_queue(what, [Stored(b"%d" % number)] if number else [])

    def bound(self, exchange: str, key: str) -> list[str]:
        """Queues that what is sent there goes to, each once."""
        found = []
        for one in self.queues.get(BINDINGS, ()):
            there, bound_key, queue = split_binding(one.body)
            is_match = matches(bound_key, key) if exchange in (TRADE, TOPICS) else bound_key == key
            if there == exchange and is_match and queue not in found:
                found.append(queue)
        return found

    def without_queue(self, queue: str) -> "State":
        """Deleted: with what is in it, and its bindings."""
        state = self.with_queue(queue, ()).with_one(DECLARED, queue, False)
        for one in self.queues.get(BINDINGS, ()):
            if split_binding(one.body)[2] == queue:
                state = state.with_one(BINDINGS, one.body.decode(), False)
        return state

    def without_exchange(self, exchange: str) -> "State":
        state = self.with_one(DECLARED, f"exchange {exchange}", False)
        for one in self.queues.get(BINDINGS, ()):
            if split_binding(one.body)[0] == exchange:
                state = state.with_one(BINDINGS, one.body.decode(), False)
        return state


def binding(exchange: str, key: str, queue: str) -> str:
    return json.dumps([exchange, key, queue])


def split_binding(text: bytes) -> list[str]:
    found: list[str] = json.loads(text)
    return found


def found_besides(bindings: Iterable[tuple[str, str, str]], declared: Iterable[str]) -> "Queues":
    """The bindings, and what was declared at run time, as a State has them."""
    state = State()
    for one in bindings:
        state = state.with_one(BINDINGS, binding(*one), True)
    for name in declared:
        state = state.with_one(DECLARED, name, True)
    return state.queues


def prepared(name: str, count: int) -> str:
    """A prepared transaction of so many SENDs that is not committed."""
    return f"{name}: {count}"


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


def put_bound(exchange: str, key: str, body: bytes) -> Effect:
    def effect(state: State) -> State:
        for queue in state.bound(exchange, key):
            state = state.put(queue, Stored(body))
        return state

    return effect


def standing(what: str, name: str, is_there: bool) -> Effect:
    return lambda state: state.with_one(what, name, is_there)


def append(body: bytes) -> Effect:
    return put(LOG, body)


def counted(what: str, value: int) -> Effect:
    return lambda state: state.with_number(what, value)


def check_out(count: int) -> Effect:
    """The first so many are the group's."""

    def effect(state: State) -> State:
        here = state.queues[TAKEN]
        state = state.with_queue(CHECKED_OUT, (*state.queues.get(CHECKED_OUT, ()), *here[:count]))
        return state.with_queue(TAKEN, here[count:])

    return effect


def ack_checked_out(count: int) -> Effect:
    def effect(state: State) -> State:
        state = state.with_number(FIRST, state.number(FIRST) + count)
        return state.with_queue(CHECKED_OUT, state.queues[CHECKED_OUT][count:])

    return effect


def place(bodies: list[bytes]) -> Effect:
    """Into the queue that has no order."""

    def effect(state: State) -> State:
        there = [*state.queues.get(PLACED, ()), *map(Stored, bodies)]
        return state.with_queue(PLACED, sorted(there, key=lambda one: one.body))

    return effect


def reject(place: Place) -> Effect:
    return lambda state: state.dead_letter(place, "rejected")


@dataclass
class History:
    """states[n]: after the first n deeds. answered: the last of them that has its receipt, or a message of which came.

    That deed and all before it must outlast any crash. Of one that changes nothing a receipt says nothing. births: the
    deed that put each message there. due_ms: until when some are kept back. ids: what each message-id was of.
    mistakes: what else the broker should not have said, whatever the crash.
    """

    states: list[State] = field(default_factory=lambda: [State()])
    answered: int = 0
    births: dict[Place, int] = field(default_factory=dict)
    due_ms: dict[Place, int] = field(default_factory=dict)  # kept back until then, at least
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

    def changes(self, number: int) -> bool:
        """Whether that deed changes what is stored: else its receipt may come before that of an earlier one."""
        return self.states[number] != self.states[number - 1]

    def place_of(self, found: Queues, reported: int) -> int | None:
        """After how many deeds the store looks like that: the largest such number; None where no crash leaves it."""
        for number in range(self.count, reported - 1, -1):
            if self.states[number].queues == found:
                return number
        return None

    def complaint(self, found: Queues, reported: int) -> str:
        """In what that differs from all that it may be, in a sentence; "" where it is one of these."""
        if self.place_of(found, reported) is not None:
            return ""
        knew = f"deed {reported} of {self.count} was receipted, or a message of it delivered"
        earlier = self.place_of(found, 0)
        if earlier is not None:
            return f"{knew}, and the store is as after {earlier}"
        near = {number: differences(self.states[number].queues, found) for number in range(reported, self.count + 1)}
        nearest = min(near, key=lambda number: len(near[number]))
        return f"{knew}; as after {nearest}, it should be, but {'; '.join(near[nearest][:4])}"

    def go_on_from(self, number: int) -> None:
        """A crash has left the first so many deeds: the others have never been."""
        del self.states[number + 1 :]
        self.answered = number


def differences(wanted: Queues, found: Queues) -> list[str]:
    seen = []
    for queue in sorted({*wanted, *found}):
        here, there = wanted.get(queue, ()), found.get(queue, ())
        if here != there:
            missing = [one for one in here if one not in there]
            more = [one for one in there if one not in here]
            if not missing and not more:
                seen.append(f"{queue} is in another order")
            seen += [f"{one} is not in {queue}" for one in missing] + [f"{one} is in {queue}" for one in more]
    return seen


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
        self._asked: set[int] = set()  # of /admin: an answer has no place among receipts
        self._last_of: dict[str, tuple[int, int]] = {}
        self.held: dict[Place, str] = {}  # -> what its ACK must name
        self.arrived: dict[str, dict[tuple[int, int], Stored]] = {}  # all MESSAGEs by their places
        self.not_marked: list[Stored] = []  # came without redelivered:true
        self._free: list[Place] = []  # stored and not answered at the last moment when all was receipted
        self._transactions = 0
        self._comes_late: set[Place] = set()  # whether or not it has come
        self.not_before_ms: dict[Place, int] = {}  # given back with a delay: a crash may forget that
        self._may_delete = True
        self._sure = history.states[-1]  # when all was receipted for the last time
        self.acks: dict[int, str] = {}  # offset -> what the ACK of the record must name
        self._next_offset = 0
        self.waits_for: dict[str, list[bytes]] = {}  # names of prepared transactions -> bodies
        self.names: dict[str, str] = {}  # message-ids of all MESSAGEs of queues, and whose they are

    def begin(self, position: int = 0) -> None:
        """position: where the group that reads the log goes on."""
        self.wire.connect()
        for queue in QUEUES:
            headers = {"id": queue, "destination": f"/queue/{queue}", "ack": "client-individual"}
            self.wire.send_frame("SUBSCRIBE", {**headers, "prefetch-count": "1000", "receipt": f"subscribed-{queue}"})
            self._read_until(lambda queue=queue: self._last == f"subscribed-{queue}")  # type: ignore[misc]
        headers = {"id": LOG, "destination": f"/log/{TAPS}", "ack": "client-individual", "from": "earliest"}
        self._next_offset = position
        self.wire.send_frame("SUBSCRIBE", {**headers, "group": GROUP, "prefetch-count": "1000", "receipt": "reading"})
        self._read_until(lambda: self._last == "reading")

    def _subscribe_durable(self, name: str) -> None:
        destination, id = DURABLES[name]
        headers = {"id": id, "destination": destination, "ack": "client-individual", "durable": "true"}
        self.wire.send_frame("SUBSCRIBE", {**headers, "auto-delete": "false", "prefetch-count": "1000"})

    def look(self, count: int, others: Iterable[str]) -> Queues:
        """All that the broker delivers, which is said to be so many messages, and not one more. others: queues that are
        there beside those that always are.
        """
        self._may_delete = False  # what is consumed
        for name in others:
            if name in DURABLES:
                self._subscribe_durable(name)
            else:
                headers = {"id": name, "destination": f"/queue/{name}", "ack": "client-individual"}
                self.wire.send_frame("SUBSCRIBE", {**headers, "prefetch-count": "1000"})
        self._read_until(lambda: sum(map(len, self.arrived.values())) >= count)
        for step in ("BEGIN", "ABORT"):  # what there is to deliver is delivered before their receipts
            self.wire.send_frame(step, {"transaction": "look", "receipt": step})
            self._read_until(lambda step=step: self._last == step)  # type: ignore[misc]
        self._free = [*self.held]
        found = {queue: tuple(there[place] for place in sorted(there)) for queue, there in self.arrived.items()}
        if PLACED in found:
            found[PLACED] = tuple(sorted(found[PLACED], key=lambda one: one.body))
        return found

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
                if queue not in NO_QUEUES
            ]
            self._sure = self.history.states[-1]

    def hear_the_last(self) -> None:
        """What was sent to us before the broker was gone counts as said."""
        try:
            while True:
                self._hear(self.wire.read_frame())
        except (Gone, ConnectionError):
            pass

    # ---- deeds

    def _do_one(self) -> None:
        deeds = (self._send, self._send_once, self._fan_out, self._transact, self._ack, self._nack, self._reject,
                 self._send_bound, self._bind, self._declare, self._listen, self._append, self._ack_record,
                 self._check_out, self._prepare)  # fmt: skip
        self.chance.choices(deeds, (20, 10, 10, 16, 26, 14, 6, 20, 8, 4, 4, 10, 12, 10, 10))[0]()

    def _say(
        self, effects: Iterable[Effect], frames: list[bytes], last: str, headers: dict[str, str], body: bytes
    ) -> None:
        """One deed: the frames, then the last one, which asks for the receipt."""
        number = self.history.add(effects)
        self.waiting.append(number)
        asking = self.wire.frame(last, {**headers, "receipt": f"deed-{number}"}, body)
        self.wire.send_raw(b"".join([*frames, asking]))

    def _ask(self, effects: Iterable[Effect], **request: object) -> None:
        """A deed by /admin: its answer is the receipt."""
        number = self.history.add(effects)
        self.waiting.append(number)
        self._asked.add(number)
        headers = {"destination": "/admin", "reply-to": "/temp-queue/answers", "correlation-id": f"deed-{number}"}
        self.wire.send_frame("SEND", headers, json.dumps(request).encode())

    def _delay(self, places: Iterable[Place]) -> dict[str, str]:
        """Now and then: headers by which these are kept back."""
        if self.chance.random() > 0.25:
            return {}
        delay_ms = self.chance.choice(DELAYS_MS)
        due_ms = int(time.time() * 1000) + delay_ms
        for place in places:
            self.history.due_ms[place] = due_ms
            self._comes_late.add(place)
        return {"delay": str(delay_ms)} if self.chance.random() < 0.7 else {"deliver-at": str(due_ms)}

    def _key(self) -> dict[str, str]:
        """A header that two of the queues take their keys from, on most messages."""
        number = self.chance.randrange(4)
        return {"key": f"k{number}"} if number else {}

    def _body(self, part: str = "") -> bytes:
        """Contents that nothing else has; now and then they take several pages of the store."""
        name = f"{self.name}.{self.history.count}{part}".encode()
        size = self.chance.choice((0, 40, 300, 300, 1000, 2500)) if self.chance.random() < 0.93 else 12_000
        return name + b"\n" + self.chance.randbytes(size)

    def _send(self) -> None:
        body = self._body()
        headers = {"destination": "/queue/work", **self._key(), **self._delay([(WORK, body)])}
        self._say([put(WORK, body)], [], "SEND", headers, body)

    def _send_once(self) -> None:
        body = self._body()
        known = sorted(self.history.states[-1].dedup_ids)
        dedup_id = self.chance.choice(known) if known and self.chance.random() < 0.4 else f"id-{self.history.count}"
        headers = {"destination": "/queue/once", "dedup-id": dedup_id, **self._delay([(ONCE, body)])}
        self._say([put_once(body, dedup_id)], [], "SEND", headers, body)

    def _fan_out(self) -> None:
        body = self._body()
        headers = {"destination": "/fanout/events", **self._delay([(child, body) for child in CHILDREN])}
        self._say([*(put(queue, body) for queue in CHILDREN), append(body)], [], "SEND", headers, body)

    def _send_bound(self) -> None:
        """To an exchange, or a topic that is durably subscribed to."""
        state = self.history.states[-1]
        addresses = [one for one in ADDRESSES if "side" not in one or state.has(DECLARED, f"exchange {SIDE}")]
        destination = self.chance.choice(addresses)
        kind, _, name = destination[1:].partition("/")
        exchange, key = (TOPICS, name) if kind == "topic" else name.split("/")
        body = self._body()
        places = [(queue, body) for queue in state.bound(exchange, key)]
        headers = {"destination": destination, **(self._delay(places) if kind != "topic" else {})}
        self._say([put_bound(exchange, key, body)], [], "SEND", headers, body)

    def _bind(self) -> None:
        """Or unbind, where that is bound."""
        state = self.history.states[-1]
        exchanges = [TRADE] + [SIDE] * state.has(DECLARED, f"exchange {SIDE}")
        exchange = self.chance.choice(exchanges)
        key = self.chance.choice(KEYS[exchange])
        queue = self.chance.choice([one for one in BINDABLE if one != EXTRA or state.has(DECLARED, EXTRA)])
        name = binding(exchange, key, queue)
        is_there = state.has(BINDINGS, name)
        do = "unbind" if is_there else "bind"
        self._ask([standing(BINDINGS, name, not is_there)], do=do, exchange=exchange, key=key, queue=queue)

    def _declare(self) -> None:
        """A queue or an exchange at run time; or its end, with all that goes with it."""
        state = self.history.states[-1]
        if self.chance.random() < 0.5:
            if not state.has(DECLARED, f"exchange {SIDE}"):
                effect = standing(DECLARED, f"exchange {SIDE}", True)
                self._ask([effect], do="declare", exchange=SIDE, type="direct", durable=True)
            else:
                self._ask([lambda state: state.without_exchange(SIDE)], do="delete", exchange=SIDE)
        elif not state.has(DECLARED, EXTRA):
            self._ask([standing(DECLARED, EXTRA, True)], do="declare", queue=EXTRA, max_redeliveries=7)
        elif self._may_delete:
            self._ask([lambda state: state.without_queue(EXTRA)], do="delete", queue=EXTRA)
        else:
            self._send()

    def _listen(self) -> None:
        """A durable subscription; or its end, and that of what it has collected."""
        name = self.chance.choice([*DURABLES])
        destination, id = DURABLES[name]
        headers = {"id": id, "destination": destination, "durable": "true"}
        if not self.history.states[-1].has(DECLARED, name):
            exchange, _, key = destination.removeprefix("/exchange/").rpartition("/")
            bound = binding(TOPICS if destination.startswith("/topic/") else exchange, key, name)
            effects = [standing(DECLARED, name, True), standing(BINDINGS, bound, True)]
            headers |= {"auto-delete": "false", "ack": "client-individual", "prefetch-count": "1000"}
            self._say(effects, [], "SUBSCRIBE", headers, b"")
        elif self._may_delete:
            self._free = [place for place in self._free if place[0] != name]
            self._say([lambda state: state.without_queue(name)], [], "UNSUBSCRIBE", headers, b"")
        else:
            self._send()

    def _append(self) -> None:
        body = self._body()
        self._say([append(body)], [], "SEND", {"destination": f"/log/{TAPS}"}, body)

    def _ack_record(self) -> None:
        """The next of the log, where it is there for sure."""
        offset = self.history.states[-1].number(POSITION)
        if offset >= len(self._sure.queues.get(LOG, ())):
            self._append()
            return
        self._read_until(lambda: offset in self.acks)
        self._say([counted(POSITION, offset + 1)], [], "ACK", {"id": self.acks.pop(offset)}, b"")

    def _check_out(self) -> None:
        """Or another one that may be taken, or the end of what was."""
        state = self.history.states[-1]
        sure = [one for one in self._sure.queues.get(TAKEN, ()) if one in state.queues.get(TAKEN, ())]
        checked_out = [
            one for one in self._sure.queues.get(CHECKED_OUT, ()) if one in state.queues.get(CHECKED_OUT, ())
        ]
        way = self.chance.random()
        if self._may_delete and len(sure) >= 2 and way < 0.5:
            count = self.chance.randint(1, len(sure))
            self._ask([check_out(count)], do="checkout", queue=TAKEN, group=ENGINE, max_messages=count)
        elif self._may_delete and checked_out and way < 0.8:
            count = self.chance.randint(1, len(checked_out))
            before = state.number(FIRST) + count
            self._ask([ack_checked_out(count)], do="checkout-ack", queue=TAKEN, group=ENGINE, before=before)
        else:
            body = self._body()
            self._say([put(TAKEN, body)], [], "SEND", {"destination": f"/queue/{TAKEN}"}, body)

    def _prepare(self) -> None:
        """A transaction that is carried out later; or that, of what is prepared for sure; or its end."""
        known = {one.body for one in self._sure.queues.get(PREPARED, ())}
        ready = [name for name, bodies in self.waits_for.items() if prepared(name, len(bodies)).encode() in known]
        way = self.chance.random()
        if ready and way < 0.6:
            names = self.chance.sample(ready, self.chance.randint(1, min(2, len(ready))))
            bodies = [self.waits_for.pop(name) for name in names]
            gone = [
                standing(PREPARED, prepared(name, len(there)), False) for name, there in zip(names, bodies, strict=True)
            ]
            version = self.history.states[-1].number(VERSION) + 1
            effects = [*gone, *(place(there) for there in bodies), counted(VERSION, version)]
            if len(names) == 1 and self.chance.random() < 0.5:
                headers = {"transaction": names[0], "txn-app-id": APP, "txn-version": str(version)}
                self._say(effects, [], "COMMIT", headers, b"")
            else:
                self._ask(effects, do="commit", prepared=names, app=APP, version=version)
        elif ready and way < 0.7:
            name = self.chance.choice(ready)
            effects = [standing(PREPARED, prepared(name, len(self.waits_for.pop(name))), False)]
            self._ask(effects, do="abort", prepared=[name])
        else:
            self._prepare_one()

    def _prepare_one(self) -> None:
        self._transactions += 1
        name = f"{self.name}-{self.history.count}"
        within = {"transaction": f"t{self._transactions}"}
        frames, bodies = [self.wire.frame("BEGIN", within)], []
        for _ in range(self.chance.randint(1, 5)):
            bodies.append(self._body(f"-{len(frames)}"))
            frames.append(self.wire.frame("SEND", {**within, "destination": f"/queue/{PLACED}"}, bodies[-1]))
        self.waits_for[name] = bodies
        effects = [standing(PREPARED, prepared(name, len(bodies)), True)]
        self._say(effects, frames, "COMMIT", {**within, "prepare": name}, b"")

    def _transact(self) -> None:
        """SENDs to two queues, and an answer to what was delivered; one in six is taken back."""
        self._transactions += 1
        within = {"transaction": f"t{self._transactions}"}
        effects, frames = [], [self.wire.frame("BEGIN", within)]
        for queue in self.chance.sample((LEFT, RIGHT, LEFT, RIGHT), self.chance.randint(2, 4)):
            body = self._body(f"-{len(frames)}")
            effects.append(put(queue, body))
            headers = {**within, "destination": f"/queue/{queue}", **self._key(), **self._delay([(queue, body)])}
            frames.append(self.wire.frame("SEND", headers, body))
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
            name = self._give_up(place)
            self._say([nack(place)], [], "NACK", {"id": name, **self._delay_again(place)}, b"")

    def _delay_again(self, place: Place) -> dict[str, str]:
        if self.chance.random() > 0.3:
            return {}
        delay_ms = self.chance.choice(DELAYS_MS)
        self._comes_late.add(place)
        self.not_before_ms[place] = int(time.time() * 1000) + delay_ms
        return {"delay": str(delay_ms)}

    def _reject(self) -> None:
        place = self._choose((WORK,))
        if place is None:
            self._send()
        else:
            self._say([reject(place)], [], "NACK", {"id": self._give_up(place), "requeue": "false"}, b"")

    def _choose(self, queues: tuple[str, ...]) -> Place | None:
        """A message of one of these queues, to be answered; None where there is none."""
        places = [
            place
            for place in self._free
            if place[0] in (*queues, *DURABLES) and (place in self.held or place not in self._comes_late)
        ]
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
            earlier = [deed for deed in self.waiting if deed < int(number) and deed not in self._asked]
            if earlier:
                self.history.mistakes.append(f"the receipt of deed {number} came before that of {earlier[0]}")
            self._answered(int(number))

    def _answered(self, number: int) -> None:
        self.waiting.remove(number)
        if self.history.changes(number):
            self.history.answered = max(self.history.answered, number)

    def _hear_message(self, frame: Frame) -> None:
        if frame["subscription"].startswith("/temp-queue/"):
            answer = json.loads(frame.body)
            if not answer["ok"]:
                self.history.mistakes.append(f"{frame['correlation-id']} was refused: {answer}")
            self._answered(int(frame["correlation-id"].removeprefix("deed-")))
            return
        if frame["subscription"] == LOG:
            self._hear_record(frame)
            return
        queue = SUBSCRIPTIONS.get(frame["subscription"], frame["subscription"])
        stored = Stored(frame.body, int(frame.get("redelivery-count") or 0), frame.get("dead-letter-reason") or "")
        place = queue, frame.body
        if frame["redelivered"] != "true" and queue != PLACED:  # that may have come there only now
            self.not_marked.append(stored)
        if place in self.history.births:
            self.history.answered = max(self.history.answered, self.history.births[place])
        name = frame["message-id"]
        self.names[name] = queue
        if self.history.ids.setdefault(name, place) != place:
            self.history.mistakes.append(f"message-id {name} is of two messages, in {queue} of {stored}")
        if place in self.held:
            self.history.mistakes.append(f"{stored} of {queue} came twice, and was not given back")
        due_ms = max(self.history.due_ms.pop(place, 0), self.not_before_ms.pop(place, 0))
        if time.time() * 1000 < due_ms:
            self.history.mistakes.append(f"{stored} of {queue} came before its time")
        self.held[place] = frame["ack"]
        _, boot, sequence = name.split("-")
        there = self.arrived.setdefault(queue, {})
        at = int(boot), int(sequence)
        if place not in self._comes_late and stored.redeliveries == 0 and self.name == "load":
            line = f"{queue} {frame.get('key') or name}" if queue in (WORK, RIGHT) else queue
            if at < self._last_of.get(line, at):
                self.history.mistakes.append(f"{stored} of {line} came behind {self._last_of[line]}")
            self._last_of[line] = at
        there[at] = stored

    def _hear_record(self, frame: Frame) -> None:
        """Of the log, in order."""
        offset, there = int(frame["offset"] or -1), (LOG, frame.body)
        if offset != self._next_offset:
            self.history.mistakes.append(f"the group was given {offset} of the log, and {self._next_offset} is next")
        self._next_offset = offset + 1
        if there in self.history.births:
            self.history.answered = max(self.history.answered, self.history.births[there])
        self.acks[offset] = frame["ack"]


def read_log(wire: Wire, name: str) -> list[Frame]:
    """All records that it has now."""
    headers = {"id": f"all of {name}", "destination": f"/log/{name}", "ack": "auto", "from": "earliest", "until": "end"}
    wire.send_frame("SUBSCRIBE", headers)
    found = []
    while (frame := wire.message()).get("end") != "true":
        found.append(frame)
    return found


def logs_now(broker: tuple[str, int]) -> tuple[Queues, dict[str, str]]:
    """What a broker says of its log, of the group that reads it, and of what is checked out and prepared, when all that
    is committed is where it belongs; and of which messages the journal says then that they are stored: their queues.
    """
    with Wire(broker) as wire:
        wire.connect()

        def ask(**request: object) -> Any:
            return json.loads(wire.admin(json.dumps(request).encode()))

        waiting = ask(do="prepared")["prepared"]
        while any(one["is_committed"] for one in waiting):
            time.sleep(0.01)
            waiting = ask(do="prepared")["prepared"]
        state = State().with_queue(LOG, [Stored(frame.body) for frame in read_log(wire, TAPS)])
        offsets = ask(do="position", log=TAPS, group=GROUP)["offsets"]
        state = state.with_number(POSITION, offsets[0] if offsets else 0)
        state = state.with_number(VERSION, ask(do="version", app=APP)["version"] or 0)
        answer = ask(do="describe", log=f"$checkout/{TAKEN}/{ENGINE}")
        if answer["ok"]:
            state = state.with_number(FIRST, answer["partitions"]["first"][0])
            records = read_log(wire, f"$checkout/{TAKEN}/{ENGINE}")
            state = state.with_queue(CHECKED_OUT, [Stored(frame.body) for frame in records])
        for one in waiting:
            state = state.with_one(PREPARED, prepared(one["name"], one["messages"]), True)
        answered = stored_by_journal(frame.body for frame in read_log(wire, "journal"))
    return state.queues, answered


# events by which a message leaves, and the columns of its queue's ledger
ENDS = {
    "acked": "acked",
    "checked-out": "acked",
    "expired": "expired",
    "dropped": "dropped",
    "purged": "purged",
    "moved": "purged",
    "dead-lettered": "dead_lettered",
}
Columns = dict[str, Counter[str]]  # of each queue


def stored_by_journal(events: Iterable[bytes], columns: Columns | None = None) -> dict[str, str]:
    """By the journal: the messages that are stored, and the queue of each. AssertionError where that cannot be.

    columns: gets how many there have been of each, but for queues that are gone.
    """
    there: dict[str, str] = {}
    columns = {} if columns is None else columns
    for number, body in enumerate(events):
        answer = json.loads(body)
        event, queue, name = answer["event"], answer["queue"], answer.get("message_id", "")
        assert answer["seq"] == number, f"event {number} of the journal is {answer}"
        if event == "accepted":
            assert name not in there, f"accepted twice: {answer}"
            there[name] = queue
            columns.setdefault(queue, Counter())["accepted"] += 1
        elif event == "deleted":
            gone = [one for one, where in there.items() if where == queue]
            assert answer["messages"] == len(gone), f"{answer}, and by its events {len(gone)} were there"
            there = {one: where for one, where in there.items() if where != queue}
            columns.pop(queue, None)
        elif event == "started":
            count = sum(where == queue for where in there.values())
            assert not queue or answer["messages"] == count, f"{answer}, and by its events {count} are there"
        else:
            assert there.get(name) == queue, f"told of what is not there: {answer}"
            if event in ENDS:
                del there[name]
                columns[queue][ENDS[event]] += 1
    return there


def journal_mistake(reported: dict[str, str], stored: dict[str, str]) -> str:
    """In what the journal and the store differ, in a sentence; "" where they agree."""
    lost, ghosts = stored.items() - reported.items(), reported.items() - stored.items()
    return f"stored, and by the journal not: {lost}; by the journal alone: {ghosts}" if lost or ghosts else ""


def declared_now(broker: tuple[str, int]) -> tuple[Queues, list[str]]:
    """What a broker says of bindings and of what was declared at run time; and which of its queues were."""
    with Wire(broker) as wire:
        wire.connect()

        def ask(**request: object) -> Any:
            return json.loads(wire.admin(json.dumps(request).encode()))

        queues = [queue["name"] for queue in ask(do="queues")["queues"]]
        others = [name for name in queues if name in (EXTRA, *DURABLES)]
        bindings = []
        for name in queues:
            answer = ask(do="describe", queue=name)
            assert answer["ok"], answer
            bindings += [(one["exchange"], one["key"], name) for one in answer["bindings"]]
            if name == EXTRA:
                assert answer["settings"]["max_redeliveries"] == 7, f"{EXTRA} has forgotten its settings: {answer}"
        side = ask(do="describe", exchange=SIDE)
    declared = others + ([f"exchange {SIDE}"] if side["ok"] else [])
    return found_besides(bindings, declared), others
