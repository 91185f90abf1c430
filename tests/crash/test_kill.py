"""`kill -9` at random times, under 4 producers and 4 consumers, with books kept over all of it.

A kill proves that what is written together is there together, that nothing is answered before it is handed to the
operating system, and that a start finds it. That it is on the platter too, only a power cut proves: see
docs/DURABILITY.md.

Negative controls, made by hand in a copy, each found in its first run of ten kills: RECEIPTs not held until Committed
(237 faults: lost, acked and delivered again); messages READY before their batch is synced (105 faults: seen and gone,
torn); stored messages not marked after an unclean stop. Made again whenever this file or the core's `held` changes.
"""

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import queues_that_do_not_add_up, stats
from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.crash.books import Books, Copy, body_of

KILLS = 10
LOAD_S = (0.3, 1.2)
WINDOW = 20  # SENDs, or ACKs, of one client that wait for their receipts
HELD = 5  # messages that a consumer has always seen and not answered

CONFIG = EVERYTHING_MAY_BE_CREATED + '[fanout."events"]\nchildren = ["events.a", "events.b"]\n'
WORK, LEFT, RIGHT, A, B = "/queue/work", "/queue/left", "/queue/right", "/queue/events.a", "/queue/events.b"
QUEUES = (WORK, LEFT, RIGHT, A, B)
END_OF_TALK = (Gone, ConnectionError, TimeoutError)


class Producer:
    """Sends to a queue, to a fanout, and to two queues in one transaction; WINDOW of them unreceipted."""

    def __init__(self, number: int, books: Books, seed: str) -> None:
        self.name = f"p{number}"
        self.books = books
        self.random = random.Random(f"{seed} {self.name}")
        self.count = 0

    def run(self, wire: Wire) -> None:
        waiting: deque[str] = deque()
        while True:
            while len(waiting) < WINDOW:
                waiting.append(self.send_one(wire))
            receipt = wire.read("RECEIPT")["receipt-id"]
            assert receipt == waiting.popleft()
            self.books.sent(receipt)

    def send_one(self, wire: Wire) -> str:
        name = f"{self.name}.{self.count}"
        self.count += 1
        kind = self.random.choice(("queue", "fanout", "transaction"))
        if kind == "queue":
            self.books.sending(name, (WORK,))
            wire.send_frame("SEND", {"destination": WORK, "receipt": name}, body_of(name))
        elif kind == "fanout":
            self.books.sending(name, (A, B))
            wire.send_frame("SEND", {"destination": "/fanout/events", "receipt": name}, body_of(name))
        else:
            self.books.sending(name, (LEFT, RIGHT))
            frames = [wire.frame("BEGIN", {"transaction": name})]
            for queue in (LEFT, RIGHT):
                frames.append(wire.frame("SEND", {"destination": queue, "transaction": name}, body_of(name)))
            frames.append(wire.frame("COMMIT", {"transaction": name, "receipt": name}))
            wire.send_raw(b"".join(frames))
        return name


class Consumer:
    """ACKs with receipts, NACKs now and then. in_order: queues that it has alone; there it NACKs nothing."""

    def __init__(
        self, number: int, books: Books, seed: str, queues: tuple[str, ...], in_order: tuple[str, ...]
    ) -> None:
        self.books = books
        self.random = random.Random(f"{seed} c{number}")
        self.queues = queues
        self.in_order = in_order

    def run(self, wire: Wire) -> None:
        for queue in self.queues:
            headers = {"id": queue, "destination": queue, "ack": "client-individual", "prefetch-count": str(WINDOW)}
            wire.send_frame("SUBSCRIBE", headers)
        unanswered: deque[tuple[Copy, Frame]] = deque()
        waiting: deque[Copy | None] = deque()
        while True:
            frame = wire.read_frame()
            if frame.command == "RECEIPT":
                copy = waiting.popleft()
                if copy is not None:
                    self.books.acked(copy)
            else:
                unanswered.append(self.note(frame))
                if len(unanswered) > HELD:
                    waiting.append(self.answer(wire, *unanswered.popleft()))

    def note(self, message: Frame) -> tuple[Copy, Frame]:
        assert message.command == "MESSAGE", message
        queue = message["subscription"]
        redelivered = message["redelivered"] == "true"
        copy = self.books.delivered(queue, message.body, message["message-id"], redelivered, queue in self.in_order)
        return copy, message

    def answer(self, wire: Wire, copy: Copy, message: Frame) -> Copy | None:
        """ACKs or NACKs it: the copy that is acked once the receipt comes."""
        self.books.giving_up(copy)
        is_acked = message["subscription"] in self.in_order or self.random.random() < 0.8
        wire.send_frame("ACK" if is_acked else "NACK", {"id": message["ack"], "receipt": "1"})
        return copy if is_acked else None


def talk(broker: BrokerProcess, run: Callable[[Wire], None], crashed: list[BaseException]) -> None:
    """One client until the broker is gone."""
    try:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            run(wire)
    except END_OF_TALK:
        pass
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        crashed.append(error)


def run_until_killed(broker: BrokerProcess, runs: list[Callable[[Wire], None]], seconds: float) -> None:
    crashed: list[BaseException] = []
    threads = [threading.Thread(target=talk, args=(broker, run, crashed)) for run in runs]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    broker.kill()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a client is stuck"
    if crashed:
        raise crashed[0]


def drain(broker: BrokerProcess, books: Books) -> None:
    """Everything that is left, one queue after the other, in order."""
    for queue in QUEUES:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.subscribe(queue, id=queue, headers={"prefetch-count": "1000"})
            wire.send_frame("SEND", {"destination": queue, "receipt": "end"}, b"end")
            is_receipted = is_ended = False
            while not (is_receipted and is_ended):
                # read back from the disk, a message may come before the RECEIPT of its SEND: both are after the sync
                message = wire.read_frame() if not wire.early else wire.early.pop(0)
                if message.command == "RECEIPT":
                    is_receipted = True
                    continue
                if message.body != b"end":
                    redelivered = message["redelivered"] == "true"
                    copy = books.delivered(queue, message.body, message["message-id"], redelivered, in_order=True)
                    books.giving_up(copy)
                wire.send_frame("ACK", {"id": message["ack"]})
                is_ended = is_ended or message.body == b"end"
            wire.fence()
    drained = {queue: stats(broker)["queues"][queue.removeprefix("/queue/")]["messages"] for queue in QUEUES}
    assert set(drained.values()) == {0}, drained


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.durability("D12")
def test_kill_at_random_times_breaks_no_promise(tmp_path: Path) -> None:
    seed = os.environ.get("RADIATOR_SEED") or str(random.SystemRandom().randrange(10**9))
    print(f"RADIATOR_SEED={seed}")
    chance = random.Random(seed)
    books = Books()
    producers = [Producer(number, books, seed) for number in range(4)]
    consumers = [
        Consumer(1, books, seed, (WORK, A), ()),
        Consumer(2, books, seed, (WORK, LEFT), ()),
        Consumer(3, books, seed, (LEFT, A), ()),
        Consumer(4, books, seed, (RIGHT, B), (RIGHT, B)),
    ]
    broker = BrokerProcess(tmp_path, CONFIG)
    try:
        for _ in range(KILLS):
            broker.start()
            run_until_killed(broker, [one.run for one in (*producers, *consumers)], chance.uniform(*LOAD_S))
            books.broker_ended()
        broker.start()
        assert queues_that_do_not_add_up(broker) == []
        drain(broker, books)
        assert queues_that_do_not_add_up(broker) == []
        assert broker.stop() == 0
    finally:
        broker.kill()
    print(
        f"{len(books.attempted)} sent, {len(books.receipted)} receipted, {len(books.ack_receipts)} acked with receipt"
    )
    faults = books.faults()
    one_of_each_kind = {fault.partition(":")[0]: fault for fault in faults}
    assert not faults, f"RADIATOR_SEED={seed}: {len(faults)} faults, such as {list(one_of_each_kind.values())}"
    assert len(books.receipted) > 100 * KILLS, "there was load"
    assert "Traceback" not in broker.log, broker.log
