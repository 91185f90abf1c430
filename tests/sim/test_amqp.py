"""Clients of AMQP on a simulated node: all that they do happens, and what they must not find they say."""

from collections import Counter
from typing import Any

import pytest

from radiator.model.commands import CLIENT_INDIVIDUAL, Subscribe
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.replies import Deliver, Reply
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.codec import encode_method
from tests.sim.amqp import CONFIRMS, TRANSACTIONS, AmqpClient
from tests.sim.amqp_channel import Attempt, Handed
from tests.sim.bindings import Routes
from tests.sim.books import Books, Job
from tests.sim.history import History
from tests.sim.simulation import Scheduler, SimNode

SEEDS = range(60)
QUEUES = ("a", "x", "y")
TWO: Job = ("/queue/x", "/queue/y")


class Bench:
    """One node with some queues, and one client that publishes as it is asked, and stays."""

    def __init__(self, seed: int, jobs: list[Job], is_careful: bool = True) -> None:
        self.scheduler = Scheduler(seed)
        self.books = Books(Routes(), lambda: self.scheduler.now_s)
        declarations = Declarations(queues={name: QueueSettings() for name in QUEUES})
        self.node = SimNode(self.scheduler, "one", declarations, Limits())
        self.node.on_deliver = self.handed
        self.client = AmqpClient(self.scheduler, self.node, self.books, b"q", jobs, [*QUEUES])
        self.client.is_careful = is_careful

    def handed(self, deliver: Deliver) -> None:
        if deliver.subscription is not None:
            self.books.times_out[deliver.subscription.decode(), deliver.message_id] += 1

    def run(self, seconds: float) -> None:
        self.scheduler.run(self.scheduler.now_s + seconds)

    def mistakes(self, first: str) -> list[str]:
        return [mistake for mistake in self.books.mistakes if mistake.startswith(first)]


class Consume:
    """Somebody over STOMP who takes all that is in these queues, beside whoever else does."""

    def __init__(self, bench: Bench, *queues: str) -> None:
        link = bench.node.connect(self.hear)
        assert link is not None
        for queue in queues:
            link.say(Subscribe(link.number, queue.encode(), f"/queue/{queue}", CLIENT_INDIVIDUAL))

    def hear(self, reply: Reply | None) -> None: ...


def handed(times: int, queue: str = "a") -> Handed:
    message = Message("/amq/queue/a", b"", ESCAPING_ALL, b"body", 1)
    return Handed(queue, Deliver(0, queue.encode(), b"id", message, True), times)


def test_all_that_clients_of_amqp_can_do_happens() -> None:
    done: Counter[str] = Counter()
    for seed in SEEDS:
        history = History(seed)
        assert history.books.mistakes == [], f"RADIATOR_SEED={seed}"
        for client in history.amqp_clients:
            for what in ("confirms", "nacks", "returns", "commits", "rollbacks"):
                done[what] += getattr(client, what)
            done["given back"] += len(client.given_back)
            done["acked in transactions"] += sum(len(attempt.acked) for attempt in client.attempts)
            done["got"] += sum(one.deliver.left is not None for life in client.lives for one in life.handed)
            done["lives"] += len(client.lives)
            done["refused"] += sum(life.is_refused for life in client.lives)
    assert len(done) == 10 and min(done.values()) > 0, done
    assert done["confirms"] > 3 * len(SEEDS) and done["commits"] > 2 * len(SEEDS), done


def test_what_it_publishes_is_stored_once_it_is_confirmed_or_committed() -> None:
    bench = Bench(1, [("/queue/a",), ("/queue/a",), TWO])
    Consume(bench, "a", "x", "y")
    bench.run(2)
    assert bench.client.is_done and (bench.client.confirms, bench.client.commits > 0) == (2, True)
    assert all(one.receipted_s is not None for one in bench.books.sent.values())
    bench.client.judge()
    assert bench.books.mistakes == []


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_not_settled_and_does_not_come_again_is_missed(times: int) -> None:
    bench = Bench(2, [])
    bench.run(1)
    bench.client.lives[0].handed.append(handed(1))
    bench.books.times_out["a", b"id"] = times
    bench.client.judge()
    assert len(bench.mistakes("gone")) == (times == 1)


@pytest.mark.parametrize("has_come", [True, False])
@pytest.mark.parametrize("times", [1, 2])
def test_a_transaction_of_which_its_message_or_its_ack_alone_has_happened_is_seen(has_come: bool, times: int) -> None:
    bench = Bench(3, [])
    bench.run(1)
    bench.client.attempts.append(Attempt(b"body", TWO, [handed(1)]))
    bench.books.times_out["a", b"id"] = times
    if has_come:
        bench.books.came["x", b"body"].add(b"another id")
    bench.client.judge()
    assert len(bench.mistakes("in part")) == (has_come is (times == 2))


def test_a_client_that_waits_for_ever_is_stuck() -> None:
    bench = Bench(4, [("/queue/a",)])
    bench.node.stop()
    bench.client.judge()
    assert bench.mistakes("stuck")


OUT_OF_PLACE: list[tuple[int, Any, str]] = [
    (CONFIRMS, m.BasicAck(1), "and 1 is next of 0"),
    (TRANSACTIONS, m.BasicAck(1), "nothing is confirmed here"),
    (TRANSACTIONS, m.TxCommitOk(), "is next"),
    (
        CONFIRMS,
        m.ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 7"),
        "it keeps the rules, and is closed",
    ),
]


@pytest.mark.parametrize(("wire", "word", "sentence"), OUT_OF_PLACE)
def test_a_word_that_must_not_come_is_a_mistake(wire: int, word: Any, sentence: str) -> None:
    bench = Bench(5, [])
    bench.run(1)
    assert bench.books.mistakes == []
    bench.client.hear(encode_method(wire, word))
    assert [sentence in mistake for mistake in bench.mistakes("amqp")] == [True]


def test_a_client_comes_again_after_a_crash_and_goes_on() -> None:
    bench = Bench(6, [("/queue/a",)] * 3)
    Consume(bench, "a")
    bench.run(0.05)
    before = len(bench.client.lives)
    bench.node.crash()
    bench.run(3)
    assert bench.client.is_done and len(bench.client.lives) >= before + 2
    assert bench.books.mistakes == []
