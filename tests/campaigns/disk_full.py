"""T6: a store is filled until SENDs are refused, and consumed until it is empty, again and again.

Once by a file system of its own that is nearly full, once by a small map_size. Full, the broker refuses what would be
stored and nothing else: memory queues, topics, ACKs, NACKs and dead letters go on, through a kill and a restart too.
In every second round most of it is delayed, and due when nothing more fits. Empty again, it takes as much as the first
time, and its file is no longer than the bound.

Full by other nodes: two of them send to a fanout, and the one between them has a small disk and stores each copy four
times. It never stops, and keeps half of `disk_free_min` free; what finds no room waits at its sender, and each child
gets each copy once when there is room again.

It cannot see a disk that another program fills faster than the broker looks at it: that ends in 74, which is T5's.
"""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from tests.acceptance.conftest import queue_stats, queues_that_do_not_add_up, stats
from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.disks import command, mount_for_this_process_only
from tests.nodes.cluster import Node, Nodes, chain

MIB = 1 << 20
DISK_BYTES = 64 * MIB
DISK_FREE_MIN_BYTES = 16 * MIB
MAP_BYTES = 24 * MIB
PRODUCERS = 3
WINDOW = 8
BODY_BYTES = (50, 200, 1000, 3000, 20_000, 100_000)
FULL_WITHIN_S = 60.0
REFUSED_WITHIN_S = 5.0
ROOM_WITHIN_S = 5.0
DUE_AFTER_S = 4.0  # about as long as it takes until it is full
CAPACITY_SHARE_MIN = 0.6  # of the first round's: pages are not filled in the same way each time

NODE_DISK_BYTES = 160 * MIB
NODE_FREE_MIN_BYTES = 16 * MIB  # as tests/nodes/cluster.py has it
NODE_HEART_BEAT_MS = 2000
NODE_CHILDREN = ("k1", "k2", "k3", "k4")
NODE_BODY_BYTES = (2000, 100_000, 1_000_000, 1_000_000)
NODE_COPIES = 60  # of each sender
NODE_LIMITS = 'max_frame_bytes = "2MiB"\nmax_batch_bytes = "16MiB"\n'
NODE_TABLES = """\
[fanout."events"]
children = ["k1", "k2", "k3", "k4"]
scope = "cluster"
[queue."k1"]
[queue."k2"]
[queue."k3"]
[queue."k4"]
"""

CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "{data_dir}"
disk_free_min = {disk_free_min}
map_size = {map_size}

[limits]
block_timeout_s = 0.8
max_frame_bytes = "1MiB"
max_batch_bytes = "1MiB"

[create]
topics = true

[queue."work"]
dead_letter = "dead"
[queue."dead"]
[queue."memory"]
persistent = false
"""


def body_of(name: str) -> bytes:
    """The contents that belong to a name, and to no other."""
    digest = hashlib.sha256(name.encode()).digest()
    return name.encode() + b"\n" + Random(digest).randbytes(BODY_BYTES[digest[0] % len(BODY_BYTES)])


@dataclass
class Account:
    """What was said and heard of each message, by its name. Used by many threads, each with names of its own."""

    attempted: set[str] = field(default_factory=set)
    receipted: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    mistakes: list[str] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        """It was delivered, and its ACK was receipted."""
        name = body.partition(b"\n")[0].decode("utf-8", "replace")
        if name not in self.attempted or body_of(name) != body:
            self.mistakes.append(f"a message is altered, or was never sent: {body[:60]!r}")
        elif name in self.taken:
            self.mistakes.append(f"{name} was acked and came again")
        self.taken.add(name)

    def complaint(self) -> str:
        """After everything was taken out: what is wrong; "" where nothing is."""
        lost = sorted(self.receipted - self.taken)
        if lost:
            return f"{len(lost)} receipted messages are lost, such as {lost[:3]}"
        return self.mistakes[0] if self.mistakes else ""


class Store:
    """One data directory with a bound, over all its rounds. AssertionError: a promise is broken."""

    def __init__(self, run: Run, config: str, data_dir: Path) -> None:
        directory = run.directory / "config"
        directory.mkdir()
        self.chance = run.chance
        self.run = run
        self.file = data_dir / "data.mdb"
        self.broker = BrokerProcess(directory, config)
        self.account = Account()
        self.rounds = 0
        self.first_capacity_bytes = 0
        self.due_s = 0.0  # of this round's messages, 0: of none

    def connected(self) -> Wire:
        wire = Wire((self.broker.host, self.broker.port))
        wire.connect()
        return wire

    def round(self) -> None:
        """Fills it, looks at what goes on and what does not, empties it, and sees that it takes SENDs again."""
        self.due_s = time.time() + DUE_AFTER_S if self.rounds % 2 else 0.0
        accepted_bytes = sum(self.fill())
        assert accepted_bytes, "not one SEND was receipted before it was full"
        self.refuses()
        if self.chance.random() < 0.5:
            self.broker.kill()
            self.broker.start()
            self.refuses()
        time.sleep(max(0.0, self.due_s - time.time()))
        self.empty()
        self.takes_again()
        assert queues_that_do_not_add_up(self.broker) == []
        complaint = self.account.complaint()
        assert not complaint, complaint
        first_bytes = self.first_capacity_bytes = self.first_capacity_bytes or accepted_bytes
        assert accepted_bytes > CAPACITY_SHARE_MIN * first_bytes, (
            f"round {self.rounds} took {accepted_bytes} bytes until it was full, the first one {first_bytes}"
        )
        self.rounds += 1
        if self.chance.random() < 0.3:
            assert self.broker.stop() == 0
            self.broker.start()

    # ---- full

    def fill(self) -> list[int]:
        """SENDs until every producer is refused: how many bytes each of them got in."""
        sizes = [0] * PRODUCERS
        wrong: list[str] = []
        threads = [
            threading.Thread(target=self._fill_from, args=(f"r{self.rounds}.{number}", sizes, number, wrong))
            for number in range(PRODUCERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, f"{wrong[0]}\n{self.broker.log[-1500:]}"
        assert self.broker.is_running, self.broker.log[-1500:]
        return sizes

    def _fill_from(self, prefix: str, sizes: list[int], number: int, wrong: list[str]) -> None:
        """The broker reckons with the worst and then looks, so there may be room again a moment after a refusal."""
        deadline_s = time.monotonic() + FULL_WITHIN_S
        try:
            for life in count():
                assert time.monotonic() < deadline_s, f"{sizes[number]} bytes were taken, and it is not full"
                with self.connected() as wire:
                    size = self._send_until_refused(wire, f"{prefix}.{life}", deadline_s)
                sizes[number] += size
                if not size:
                    return
        except (AssertionError, Gone, ConnectionError, TimeoutError) as mistake:
            wrong.append(f"a producer was not told that there is no room: {mistake!r}")

    def _send_until_refused(self, wire: Wire, prefix: str, deadline_s: float) -> int:
        waiting: deque[str] = deque()
        names = (f"{prefix}.{number}" for number in count())
        size = 0
        while True:
            assert time.monotonic() < deadline_s, f"{size} bytes were taken, and it is not full"
            while len(waiting) < WINDOW:
                name = next(names)
                self.account.attempted.add(name)
                waiting.append(name)
                late = {"deliver-at": str(int(self.due_s * 1000))} if len(waiting) % 3 and self.due_s else {}
                wire.send_frame("SEND", {"destination": "/queue/work", "receipt": name, **late}, body_of(name))
            answer = wire.read_frame(REFUSED_WITHIN_S)
            name = waiting.popleft()
            if answer.command == "ERROR":
                assert answer["receipt-id"] == name and answer["message"], answer
                assert wire.is_closed(), "an ERROR closes"
                return size
            assert answer.command == "RECEIPT" and answer["receipt-id"] == name, answer
            self.account.receipted.add(name)
            size += len(body_of(name))

    def refuses(self) -> None:
        """One more SEND is refused, and what needs no disk goes on."""
        with self.connected() as sender, self.connected() as other:
            name = f"refused.{self.rounds}"
            sender.send_frame("SEND", {"destination": "/queue/work", "receipt": name}, b"x" * 1000)
            other.subscribe("/queue/memory", id="memory", ack="auto")
            other.subscribe("/topic/t", id="topic", ack="auto")
            for place in ("/queue/memory", "/topic/t"):
                other.send(place, "goes on")
                assert other.message().body == b"goes on"
            error = sender.read_frame(REFUSED_WITHIN_S)
            assert error.command == "ERROR" and error["receipt-id"] == name, f"it is full, and answers {error}"

    # ---- empty

    def empty(self) -> None:
        """Everything is consumed, a part of it by way of the dead letters, each answer with a receipt."""
        with self.connected() as wire:
            wire.subscribe("/queue/work", id="work", headers={"prefetch-count": "20"})
            self._consume(wire, "work", self.chance.choice((0.0, 0.1, 0.5)))
        with self.connected() as wire:
            wire.subscribe("/queue/dead", id="dead", headers={"prefetch-count": "20"})
            self._consume(wire, "dead", 0.0)
        left = {name: numbers["messages"] for name, numbers in stats(self.broker)["queues"].items()}
        assert not any(left.values()), f"there should be nothing left, and there is {left}"

    def _consume(self, wire: Wire, queue: str, rejected_share: float) -> None:
        waiting: deque[bytes | None] = deque()
        left = queue_stats(self.broker, f"/queue/{queue}")["messages"]
        while left or waiting:
            frame = wire.early.pop(0) if wire.early else wire.read_frame()
            if frame.command == "RECEIPT":
                body = waiting.popleft()
                if body is not None:
                    self.account.take(body)
                continue
            assert frame.command == "MESSAGE", f"while it was emptied it said {frame}"
            left -= 1
            waiting.append(self._answer(wire, frame, self.chance.random() < rejected_share))

    def _answer(self, wire: Wire, message: Frame, is_rejected: bool) -> bytes | None:
        if is_rejected:
            wire.send_frame("NACK", {"id": message["ack"], "requeue": "false", "receipt": "r"})
            return None
        wire.send_frame("ACK", {"id": message["ack"], "receipt": "r"})
        return message.body

    def takes_again(self) -> None:
        """Soon after it is empty a SEND is receipted."""
        deadline_s = time.monotonic() + ROOM_WITHIN_S
        name = f"again.{self.rounds}"
        while True:
            with self.connected() as wire:
                self.account.attempted.add(name)
                wire.send_frame("SEND", {"destination": "/queue/work", "receipt": name}, body_of(name))
                answer = wire.read_frame(REFUSED_WITHIN_S)
                if answer.command == "RECEIPT":
                    self.account.receipted.add(name)
                    wire.subscribe("/queue/work")
                    message = wire.message()
                    wire.ack(message)
                    self.account.take(message.body)
                    return
            assert time.monotonic() < deadline_s, (
                f"it is empty for {ROOM_WITHIN_S} s, and still refuses: {answer}; {stats(self.broker)['store']}"
            )


def rounds(run: Run, store: Store, bound_bytes: int) -> None:
    """Rounds on one store. bound_bytes: how long its file may ever be."""
    try:
        store.broker.start()
        while not run.is_over:
            try:
                store.round()
            except (AssertionError, Gone, ConnectionError, TimeoutError) as mistake:
                run.violation(f"round {store.rounds}: {mistake!r}\n{store.broker.log[-1500:]}")
                return
            file_bytes = store.file.stat().st_size
            if file_bytes > bound_bytes:
                run.violation(f"round {store.rounds}: the file has {file_bytes} bytes, its bound is {bound_bytes}")
            run.case()
        assert store.broker.stop() == 0, store.broker.log[-1500:]
    finally:
        store.broker.kill()
    run.figures["receipted"] = len(store.account.receipted)
    run.figures["file MiB"] = round(store.file.stat().st_size / MIB, 1)
    run.figures["MiB until full"] = round(store.first_capacity_bytes / MIB, 1)


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """An ext4 of its own."""
    mount_for_this_process_only()
    image, place = directory / "image", directory / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    command("mkfs.ext4", "-q", "-F", "-m0", image)
    command("mount", "-o", "loop", image, place)
    try:
        yield place
    finally:
        command("umount", place)


def fill_disk(run: Run) -> None:
    with small_disk(run.directory) as place:
        config = CONFIG.format(data_dir=place / "data", disk_free_min=DISK_FREE_MIN_BYTES, map_size='"1GiB"')
        rounds(run, Store(run, config, place / "data"), DISK_BYTES - DISK_FREE_MIN_BYTES // 2)


def fill_map(run: Run) -> None:
    data_dir = run.directory / "data"
    config = CONFIG.format(data_dir=data_dir, disk_free_min=0, map_size=MAP_BYTES)
    rounds(run, Store(run, config, data_dir), MAP_BYTES)


# ---- filled by other nodes


def fill_by_nodes(run: Run) -> None:
    """A tmpfs of its own for the node in the middle; its senders have room enough."""
    mount_for_this_process_only()
    number = 0
    while not run.is_over:
        directory = run.directory / f"nodes-{number}"
        directory.mkdir()
        number += 1
        nodes = Nodes(directory, chain("abc"), NODE_TABLES, heart_beat_ms=NODE_HEART_BEAT_MS, limits=NODE_LIMITS)
        data_dir = directory / "b" / "data"
        data_dir.mkdir(mode=0o700)
        command("mount", "-t", "tmpfs", "-o", f"size={NODE_DISK_BYTES},mode=700", "tmpfs", data_dir)
        try:
            nodes.start()
            nodes.wait_until_linked()
            run.figures["MiB until full"] = round(_fill_middle(run, nodes) / MIB, 1)
        except (AssertionError, Gone, ConnectionError, TimeoutError) as mistake:
            run.violation(f"round {number}: {mistake!r}\n{nodes['b'].log[-1500:]}")
            return
        finally:
            nodes.close()
            command("umount", data_dir)
        run.case()


def _fill_middle(run: Run, nodes: Nodes) -> int:
    """What was on its disk when it took no more."""
    names = {sender: [f"{sender}.{number}" for number in range(NODE_COPIES)] for sender in "ac"}
    attempted = {name for sent in names.values() for name in sent}
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda sender: _send_copies(nodes[sender], names[sender]), names))
    middle, least_bytes, before, deadline_s = nodes["b"], NODE_DISK_BYTES, -1, time.monotonic() + FULL_WITHIN_S
    while True:
        time.sleep(1)
        assert middle.is_running, "it has stopped"
        store, stored = stats(middle)["store"], sum(_stored(middle).values())
        least_bytes = min(least_bytes, store["disk_free_bytes"])
        assert least_bytes >= NODE_FREE_MIN_BYTES // 2, f"only {least_bytes} bytes of its disk are left"
        if stored == before:
            break
        before = stored
        assert time.monotonic() < deadline_s, "it never ends"
    assert stored < len(attempted) * len(NODE_CHILDREN), "it was never full"
    waiting = {name: nodes[name].peers()["b"]["outbox"] for name in "ac"}
    assert max(waiting.values()) < NODE_COPIES, f"one of the two got nothing: {waiting}"
    if run.chance.random() < 0.5:
        middle.kill()
        middle.start()
        nodes.wait_until_linked()
    taken: set[tuple[str, str]] = set()
    with middle.wire() as wire:
        for child in NODE_CHILDREN:
            wire.subscribe(f"/queue/{child}", id=child, headers={"prefetch-count": "9"})
        while len(taken) < len(attempted) * len(NODE_CHILDREN):
            message = wire.message()
            child, name = message["subscription"], message.body.partition(b"\n")[0].decode()
            assert name in attempted and message.body == _copy(name), f"{child}: altered: {name!r:.60}"
            assert (child, name) not in taken, f"{child}: {name} came twice"
            taken.add((child, name))
            wire.ack(message)
    assert not sum(_stored(middle).values()), "more was left than was sent"
    return NODE_DISK_BYTES - least_bytes


def _copy(name: str) -> bytes:
    digest = hashlib.sha256(name.encode()).digest()
    return name.encode() + b"\n" + Random(digest).randbytes(NODE_BODY_BYTES[digest[0] % len(NODE_BODY_BYTES)])


def _send_copies(node: Node, names: list[str]) -> None:
    """Each is receipted there, though the other node's disk cannot hold them."""
    with node.wire() as wire:
        for name in names:
            wire.send("/fanout/events", _copy(name))


def _stored(node: Node) -> dict[str, int]:
    queues = stats(node)["queues"]
    return {child: queues[child]["messages"] for child in NODE_CHILDREN}


CAMPAIGNS = (
    Campaign(
        number="T6",
        name="map-full",
        title="fills a store to its map_size and empties it, again and again",
        unit="rounds",
        run=fill_map,
        cases=(2, 50, 200),
        mutants=("stale-reader", "no-reserve"),
        mutant_cases=2,
        quick_mutants=1,
        needs=("linux",),
        is_waiting=True,
    ),
    Campaign(
        number="T6b",
        name="disk-full",
        title="fills a small file system and empties the store on it, again and again",
        unit="rounds",
        run=fill_disk,
        cases=(2, 50, 200),
        mutants=("no-reserve",),
        mutant_cases=2,
        needs=("loop_mount", "own_mounts"),
        is_waiting=True,
    ),
    Campaign(
        number="T6c",
        name="disk-full-nodes",
        title="lets two nodes fill the small disk of a third with copies of a fanout, and empties it",
        unit="rounds",
        run=fill_by_nodes,
        cases=(1, 10, 50),
        mutants=("room-without-end",),
        needs=("loop_mount",),
    ),
)
