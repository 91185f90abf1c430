"""Random histories of logs, with crashes: what each reader and each group may see, whatever happens in what order."""

from random import Random
from typing import Any

import pytest

from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, EARLIEST
from radiator.model.limits import Limits
from radiator.model.replies import Deliver, RecordPlace, Refuse
from radiator.model.settings import Declarations, LogSettings
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe, unsubscribe

CONNECTIONS = (2, 3, 4, 5)
PARTITIONS = 3
STEPS = [*["append", "ack"] * 3, "subscribe", "unsubscribe", "nack", "close", "slow", "fast"]
Place = tuple[int, int]


def place_of(deliver: Deliver) -> Place:
    assert isinstance(deliver.log, RecordPlace)
    return deliver.log.partition, deliver.log.offset


class History:
    """One log `l`, read by groups `g` and `h` and by readers without a group; what must hold is asserted as it goes.

    sent: bodies by partition, as they must be there. seen, acked: of each group. held: unacked, by connection.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        declared = Declarations(logs={"l": LogSettings(partitions=PARTITIONS)}, create_queues=True)
        self.node = Node(declared, limits=Limits(outbox_max_bytes=self.random.choice((2000, 4 << 20))))
        self.sent = 0
        self.next_name = 0
        self.bodies: dict[Place, bytes] = {}
        self.seen: dict[str, set[Place]] = {"g": set(), "h": set()}
        self.acked: dict[str, set[Place]] = {"g": set(), "h": set()}
        self.begin()

    def begin(self) -> None:
        self.open: dict[int, dict[bytes, str | None]] = {}
        self.held: dict[bytes, tuple[int, str | None, Place, bytes]] = {}
        self.last: dict[tuple[int, bytes, int], int] = {}
        self.back: set[tuple[int, bytes, Place]] = set()
        self.node.open(1)

    def step(self) -> None:
        random = self.random
        what = random.choice(STEPS)
        getattr(self, what)()
        self.look()

    def append(self) -> None:
        for _ in range(self.random.choice((1, 3, 40))):
            key = b"" if self.random.random() < 0.3 else b"partition-key:%d\n" % self.random.randrange(9)
            self.node.say(send(1, "/log/l", b"%d" % self.sent, headers=key))
            self.sent += 1

    def subscribe(self) -> None:
        random = self.random
        number = random.choice(CONNECTIONS)
        if number not in self.open:
            self.node.open(number)
            self.open[number] = {}
        group = random.choice(("g", "g", "h", None))
        how = random.choice((CLIENT, CLIENT_INDIVIDUAL)) if group else random.choice((AUTO, CLIENT, CLIENT_INDIVIDUAL))
        name = b"s%d" % self.next_name
        self.next_name += 1
        partition = random.randrange(PARTITIONS) if random.random() < 0.2 else None
        self.open[number][name] = group
        more: dict[str, Any] = {"prefetch_count": random.choice((1, 2, 7, 100, None))}
        self.node.say(
            subscribe(number, "/log/l", how, name=name, start=(EARLIEST, 0), group=group, partition=partition, **more)
        )

    def unsubscribe(self) -> None:
        number, names = self.some_connection()
        if names:
            name = self.random.choice(sorted(names))
            del names[name]
            self.node.say(unsubscribe(number, name.decode()))

    def close(self) -> None:
        number, _ = self.some_connection()
        if number and self.random.random() < 0.5:
            self.look()
            self.node.reads_slowly.discard(number)
            self.node.close(number)
            del self.open[number]
            self.held = {key: held for key, held in self.held.items() if held[0] != number}

    def slow(self) -> None:
        self.node.reads_slowly.add(self.random.choice(CONNECTIONS))

    def fast(self) -> None:
        self.node.reads_slowly.clear()
        self.node.turn([])

    def some_connection(self) -> tuple[int, dict[bytes, str | None]]:
        if not self.open:
            return 0, {}
        number = self.random.choice(sorted(self.open))
        return number, self.open[number]

    def ack(self) -> None:
        self.settle(is_ack=True)

    def nack(self) -> None:
        self.settle(is_ack=False)

    def settle(self, is_ack: bool) -> None:
        """One of those that are held, or, of an `ack:client` subscription, what the core says that it names."""
        if not self.held:
            return
        message_id = self.random.choice(sorted(self.held))
        number, group, _, _ = self.held[message_id]
        before = dict(self.node.broker.connections[number].unacked)
        deliver = Deliver(number, None, message_id, None, True)  # type: ignore[arg-type]
        self.node.say(ack(deliver) if is_ack else nack(deliver))
        for named in before.keys() - self.node.broker.connections[number].unacked.keys():
            _, group, place, name = self.held.pop(named)
            if is_ack and group is not None:
                self.acked[group].add(place)
            if not is_ack:
                self.back.add((number, name, place))

    # ---- what must hold

    def look(self) -> None:
        for number in list(self.open):
            for replies in self.node.take(number):
                assert not isinstance(replies, Refuse), replies
                if isinstance(replies, Deliver):
                    self.delivered(number, replies)
        unacked = {key for n in self.open for key in self.node.broker.connections[n].unacked}
        assert unacked == self.held.keys()
        out: dict[tuple[str, int], set[tuple[int, bytes]]] = {}
        for number, group, (partition, _), name in self.held.values():
            if group is not None:
                out.setdefault((group, partition), set()).add((number, name))
        assert all(len(holders) == 1 for holders in out.values()), f"a partition is out with two members: {out}"
        for group, acked in self.acked.items():
            for partition, position in enumerate(self.positions(group)):
                there = {offset for at, offset in acked if at == partition}
                assert there.issuperset(range(position)), f"{group} goes on at {position} of {partition}: {there}"

    def positions(self, group: str) -> list[int]:
        return self.node.disk.platter.positions.get((1, group), [0] * PARTITIONS)

    def delivered(self, number: int, deliver: Deliver) -> None:
        place, name = place_of(deliver), deliver.subscription or b""
        body = self.bodies.setdefault(place, deliver.message.body)
        assert body == deliver.message.body
        group = self.open[number].get(name)
        if name not in self.open[number]:
            return  # an end that overtook what was on its way
        partition, offset = place
        is_back = (number, name, place) in self.back
        self.back.discard((number, name, place))
        if group is not None:
            assert place not in self.acked[group], f"{group} got {place} again, which it had acked"
            assert deliver.redelivered or place not in self.seen[group]
            self.seen[group].add(place)
        elif not is_back:
            assert offset == self.last.get((number, name, partition), -1) + 1
        assert deliver.redelivered or not is_back
        if not is_back:
            assert offset > self.last.get((number, name, partition), -1) or deliver.redelivered
            self.last[number, name, partition] = offset
        if deliver.ack_due:
            self.held[deliver.message_id] = (number, group, place, name)

    def crash(self) -> None:
        self.node = self.node.crashed()
        for group in self.acked:
            positions = self.positions(group)
            self.acked[group] = {(at, offset) for at, offset in self.acked[group] if offset < positions[at]}
        self.begin()

    def end(self) -> None:
        """Each group, read to the end, has seen all; nobody has left anything behind."""
        for number in list(self.open):
            self.node.reads_slowly.clear()
            self.look()
            self.node.close(number)
            del self.open[number]
        self.held.clear()
        for number, group in enumerate(("g", "h"), 10):
            self.node.open(number)
            self.open[number] = {b"end": group}
            self.node.say(
                subscribe(number, "/log/l", CLIENT, name=b"end", start=(EARLIEST, 0), group=group, prefetch_count=65535)
            )
            self.look()
            assert len(self.seen[group]) == self.sent == len(self.bodies)
            assert len(set(self.bodies.values())) == self.sent
            self.node.close(number)
            del self.open[number]
            self.held.clear()
        readers = self.node.broker.destinations.readers
        log = self.node.broker.destinations.logs.all["l"]
        assert not (readers.all or readers.due or readers.timed or readers.memory_bytes)
        assert not log.has_readers and not any(group.owners for group in log.groups.values())


@pytest.mark.parametrize("seed", range(60))
def test_a_random_history_keeps_what_is_promised(seed: int) -> None:
    history = History(seed)
    for number in range(120):
        history.step()
        if number % 40 == 39:
            history.crash()
    history.end()
