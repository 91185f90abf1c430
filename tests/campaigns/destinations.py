"""S10: first use and /admin create destinations up to max_destinations and not one more, whichever way it comes.

In the simulated node: every way of first use, queues, exchanges and fanouts that are declared at run time, durable
subscriptions, deletes, topics that come and go, crashes, and bounds that were lowered, against a model that counts.
First in a real broker: 10,000 queues, one more is refused, and a restart with all of them takes less than
RESTART_MAX_S. Temp queues are not counted here: max_subscriptions bounds them (S9), nor bindings: BINDINGS_MAX (S9d).
"""

import time
from collections.abc import Callable

from radiator.model.commands import Unsubscribe
from radiator.model.limits import Limits
from radiator.model.replies import Refuse
from radiator.model.settings import STANDARD_EXCHANGES, Declarations, QueueSettings
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe, unsubscribe

MOST = 10_000
RESTART_MAX_S = 5.0
STEPS = 25
NAMES = 12
CODE = "too-many-destinations"


class Creator:
    """A node, and a model of what is there: names of queues, and topics that somebody is subscribed to."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.chance = run.chance
        self.most = self.chance.randrange(2, 9)
        self.fanouts = {"events": ("child",)} if self.chance.random() < 0.5 else {}
        children = {child: QueueSettings() for names in self.fanouts.values() for child in names}
        self.declared = Declarations(queues=children, fanouts=self.fanouts, create_queues=True, create_topics=True)
        self.node = Node(self.declared, Limits(max_destinations=self.most), seed=run.done)
        self.queues = set(children)
        self.topics: set[str] = set()
        self.exchanges: set[str] = set()  # made at run time
        self.more_fanouts: set[str] = set()
        self.durables: set[str] = set()
        self.opened = 10
        self.listener = 1
        self.node.open(self.listener)
        self.ways: list[Callable[[str], None]] = [
            self.by_send, self.by_subscribe, self.by_transaction, self.by_topic, self.by_sent_topic, self.leave_topic,
            self.delete, self.restart, self.by_fanout, self.declare_queue, self.declare_exchange, self.declare_fanout,
            self.by_durable, self.end_durable, self.delete_exchange,
        ]  # fmt: skip

    @property
    def count(self) -> int:
        made = len(self.exchanges) + len(self.more_fanouts) + len(self.durables)
        return len(self.queues) + len(self.fanouts) + len(self.topics) + made

    def violation(self, sentence: str) -> None:
        self.run.violation(
            f"seed {self.run.seed}, case {self.run.done}, max_destinations {self.most}, with {sorted(self.queues)}, "
            f"{sorted(self.topics)}, {sorted(self.exchanges)}, {sorted(self.more_fanouts)}, {sorted(self.durables)} "
            f"and {len(self.fanouts)} fanouts: {sentence}"
        )

    def client(self) -> int:
        self.opened += 1
        self.node.open(self.opened)
        return self.opened

    def judge(self, client: int, name: str, is_known: bool, is_topic: bool = False) -> None:
        """What this first use came to; the model follows."""
        codes = [reply.code for reply in self.node.take(client) if isinstance(reply, Refuse)]
        if is_known or self.count < self.most:
            if codes:
                self.violation(f"{name} was refused as {codes}")
            (self.topics if is_topic else self.queues).add(name)
        elif codes != [CODE]:
            self.violation(f"{name} is one too many, and the answer was {codes}")

    def by_send(self, name: str) -> None:
        client = self.client()
        self.node.say(send(client, name))
        self.judge(client, name, name in self.queues)
        self.node.close(client)

    def by_subscribe(self, name: str) -> None:
        client = self.client()
        self.node.say(subscribe(client, name))
        self.judge(client, name, name in self.queues)
        self.node.close(client)

    def by_transaction(self, name: str) -> None:
        client = self.client()
        self.node.say(begin(client), send(client, name, transaction=b"t"), commit(client))
        self.judge(client, name, name in self.queues)
        self.node.close(client)

    def by_fanout(self, name: str) -> None:
        """Its children are declared: nothing is created."""
        if self.fanouts:
            client = self.client()
            self.node.say(send(client, "/fanout/events"))
            self.judge(client, "child", is_known=True)
            self.node.close(client)

    def by_topic(self, name: str) -> None:
        """It lasts as long as somebody is subscribed; who is refused loses all."""
        if name in self.topics:
            return
        client = self.client() if self.count >= self.most else self.listener
        self.node.say(subscribe(client, f"/topic/{name}"))
        self.judge(client, name, is_known=False, is_topic=True)

    def by_sent_topic(self, name: str) -> None:
        """Nobody keeps anything for it, so there is nothing to count."""
        client = self.client()
        self.node.say(send(client, f"/topic/{name}"))
        if self.node.is_refused(client):
            self.violation(f"a SEND to /topic/{name} was refused")
        self.node.close(client)

    def asked(self, there: set[str], name: str, more: int, **request: object) -> bool:
        """A `declare` of something that makes so many destinations: whether it was made."""
        client = self.client()
        answer = self.node.admin(client, do="declare", **request)
        self.node.close(client)
        wanted = {"ok": True, "created": name not in there}
        if name not in there and self.count + more > self.most:
            wanted = {"ok": False, "code": CODE}
        if not wanted.items() <= answer.items():
            self.violation(f"declare {request} was answered {answer}, not {wanted}")
        return answer.get("created") is True

    def declare_queue(self, name: str) -> None:
        if self.asked(self.queues, name, 1, queue=name):
            self.queues.add(name)

    def declare_exchange(self, name: str) -> None:
        if self.asked(self.exchanges, name, 1, exchange=name):
            self.exchanges.add(name)

    def declare_fanout(self, name: str) -> None:
        """With a child that may not be there."""
        child = f"child.{name}"
        if self.asked(self.more_fanouts, name, 1 + (child not in self.queues), fanout=name, children=[child]):
            self.more_fanouts.add(name)
            self.queues.add(child)

    def delete_exchange(self, name: str) -> None:
        if name in self.exchanges:
            client = self.client()
            answer = self.node.admin(client, do="delete", exchange=name)
            if not answer["ok"]:
                self.violation(f"delete of the exchange {name} was answered {answer}")
            self.exchanges.remove(name)
            self.node.close(client)

    def by_durable(self, name: str) -> None:
        client = self.client()
        self.node.say(subscribe(client, "/exchange/amq.topic/k", name=name.encode(), durable=True))
        codes = [reply.code for reply in self.node.take(client) if isinstance(reply, Refuse)]
        if name in self.durables or self.count < self.most:
            if codes:
                self.violation(f"the durable subscription {name} was refused as {codes}")
            self.durables.add(name)
        elif codes != [CODE]:
            self.violation(f"the durable subscription {name} is one too many, and the answer was {codes}")
        self.node.close(client)

    def end_durable(self, name: str) -> None:
        if name in self.durables:
            client = self.client()
            found = Unsubscribe(client, name.encode(), durable=True, destination="/exchange/amq.topic/k")
            self.node.say(found)
            if self.node.is_refused(client):
                self.violation(f"the end of the durable subscription {name} was refused")
            self.durables.remove(name)
            self.node.close(client)

    def leave_topic(self, name: str) -> None:
        if name in self.topics:
            self.node.say(unsubscribe(self.listener, f"/topic/{name}"))
            self.topics.remove(name)

    def delete(self, name: str) -> None:
        if name in self.queues and name != "child":
            client = self.client()
            answer = self.node.admin(client, do="delete", queue=name)
            if not answer["ok"]:
                self.violation(f"delete of {name} was answered {answer}")
            self.queues.remove(name)
            self.node.close(client)

    def restart(self, name: str) -> None:
        """What is stored is there whatever the bound says now; only new ones are refused."""
        if self.chance.random() < 0.3:
            self.most = max(2, self.most - 1)
        platter = self.node.crashed().disk.platter
        self.node = Node(self.declared, Limits(max_destinations=self.most), platter, seed=self.run.done)
        self.topics.clear()
        self.node.open(self.listener)

    def step(self) -> None:
        self.chance.choice(self.ways)(f"n{self.chance.randrange(NAMES)}")
        there = set(self.node.broker.destinations.queues.all)
        destinations = self.node.broker.destinations
        if there != self.queues:
            self.violation(f"there should be other queues than {sorted(there)}")
        made = {*destinations.exchanges.all} - {*STANDARD_EXCHANGES}
        if made != self.exchanges or {*destinations.fanouts.all} != {*self.fanouts, *self.more_fanouts}:
            self.violation(f"there should be others than {sorted(made)} and {sorted(destinations.fanouts.all)}")
        if len(destinations.queues.durables) != len(self.durables):
            self.violation(f"there should be other durable subscriptions than {sorted(destinations.queues.durables)}")


def create(run: Run) -> None:
    create_for_real(run)
    run.case()
    while not run.is_over:
        creator = Creator(run)
        for _ in range(STEPS):
            creator.step()
        run.case()


def create_for_real(run: Run) -> None:
    with BrokerProcess(run.directory, f"[limits]\nmax_destinations = {MOST}\n{EVERYTHING_MAY_BE_CREATED}") as broker:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            for first in range(0, MOST - 1, 500):
                frames = [wire.frame("SEND", {"destination": f"/queue/q{n}"}, b"x") for n in range(first, first + 500)]
                wire.send_raw(b"".join(frames[: MOST - 1 - first]))
            wire.subscribe("/topic/last", "last")  # the ten thousandth
            one_too_many_is_refused(broker)
            wire.send("/topic/last", "is it there?")
            assert wire.message().body == b"is it there?"
            wire.ask("UNSUBSCRIBE", {"id": "last"})
            wire.send("/queue/instead", "x")
            one_too_many_is_refused(broker)
        for end in (broker.stop, broker.kill):
            end()
            began_s = time.monotonic()
            broker.start()
            with Wire((broker.host, broker.port)) as wire:
                wire.connect()
            took_s = time.monotonic() - began_s
            run.figures[f"s to start after {end.__name__}"] = round(took_s, 2)
            assert took_s < RESTART_MAX_S, f"a start with {MOST} queues took {took_s:.1f} s"
            numbers = stats(broker)["queues"]
            assert len(numbers) == MOST, f"of {MOST} queues {len(numbers)} are there after {end.__name__}"
            assert all(queue["stored"] == 1 for queue in numbers.values()), "a queue has lost its message"
            one_too_many_is_refused(broker)


def one_too_many_is_refused(broker: BrokerProcess) -> None:
    for command, headers in (("SEND", {}), ("SUBSCRIBE", {"id": "0"})):
        for destination in ("/queue/one.more", "/topic/one.more"):
            if (command, destination) == ("SEND", "/topic/one.more"):
                continue
            with Wire((broker.host, broker.port)) as wire:
                wire.connect()
                wire.send_frame(command, {"destination": destination, "receipt": "r", **headers})
                refusal = wire.read_frame()
                assert refusal.command == "ERROR", f"{command} {destination} is one too many: {refusal}"
                assert b"max_destinations" in refusal.body, refusal


CAMPAIGNS = (
    Campaign(
        number="S10",
        name="destinations",
        title="creates destinations in every way, up to the bound and one more; restarts with 10,000",
        unit="histories",
        run=create,
        cases=(250, 30_000, 500_000),
        mutants=(
            "destination-limit-off",
            "destination-limit-off-by-one",
            "topics-not-counted",
            "exchanges-not-counted",
        ),
        mutant_cases=60,
    ),
)
