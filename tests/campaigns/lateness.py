"""T35: what expires, and what is delayed, is handled at its time, also if no Tick comes.

A Tick some four times a second finds what was missed, so a broker without any precise time would still do everything,
up to 0.25 s late, and no other campaign would notice. Here Ticks are up to a second apart, as in a broker with very
many queues, and whatever is due before the next one must have a turn of its own: after each step of a random history,
and at each time at which something happens, the server's timer is set for the end of the step (DUE_STEP_MS) in which
something is due next, or earlier; and nothing is left whose step is over.

The queues are in memory and on the disk, with keys, priorities, bounds, times to live, dead letters (by queue and by
exchange) and single active consumers. What is due is read from the queues and from the disk, not from what is
registered. Heads change by every way there is: consumers, Gets, leases, moves, returns, purges, checkouts, evictions,
and consumers of another node.

It cannot see the clock of the loop itself, nor what the rounds alone do: ack timeouts, leases, unused queues. Nor does
it see a head that is only on the disk, as in a queue that is longer than memory or after a start: the next Tick reads
that back.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from random import Random

import pytest

from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL
from radiator.model.getting import Get
from radiator.model.leases import Action
from radiator.model.limits import Limits
from radiator.model.peer import Transfer
from radiator.model.replies import Deliver
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, READY, REJECT, STORED, Declarations, QueueSettings
from tests.campaigns.campaign import Campaign, Run
from tests.core import leased
from tests.core.cluster.nodes import Nodes, declared
from tests.core.conftest import SMALL, shrink
from tests.core.words import ack, address, nack, send, subscribe, unsubscribe
from tests.sim.disk import Platter
from tests.sim.punctual import TICK_MS, Judge, PunctualNode

QUEUES = ("q0", "q1", "q2")
DEAD = {True: "dead", False: "dead.memory"}
STEPS = 60
LINKED_EVERY = 4  # such a history is one of two nodes
BEGIN_MS = 1_700_000_000_000
LESSEE, OPERATOR = 90, 99
SHAPES: tuple[dict[str, object], ...] = ({}, {"max_priority": 3}, {"partition_key": ("header:key",)})


def times_ms(chance: Random) -> int:
    """At once, within a step, before the next Tick, about it, and much later."""
    return chance.choice((0, chance.randrange(12), chance.randrange(250), chance.randrange(1100), 3000))


def settings_of(chance: Random) -> QueueSettings:
    """Of one queue."""
    more = dict(chance.choice(SHAPES))
    persistent = chance.random() < 0.5
    if "partition_key" not in more and chance.random() < 0.2:
        more["single_active_consumer"] = True
    if chance.random() < 0.4:
        more["message_ttl_ms"] = times_ms(chance)
    if chance.random() < 0.6:
        more["max_messages"] = chance.randrange(1, 6)
        more["overflow"] = chance.choice((BLOCK, REJECT, DROP_OLDEST, DROP_OLDEST, DROP_OLDEST))
        more["bounds_count"] = chance.choice((STORED, READY))
    if chance.random() < 0.3:
        more["redelivery_delay_ms"] = chance.randrange(1, 300)
    kind = chance.randrange(3)
    if kind == 1:
        more["dead_letter"] = DEAD[persistent]
    elif kind == 2:
        more |= {"dead_letter_exchange": "", "dead_letter_key": DEAD[persistent]}
    if kind and more.get("overflow") == DROP_OLDEST and chance.random() < 0.5:
        more["overflow"] = DEAD_LETTER
    return QueueSettings(persistent=persistent, max_redeliveries=chance.randrange(1, 4), **more)  # type: ignore[arg-type]


class IsLate(Exception):
    """The history ends: what follows would be late for the same reason."""


class History:
    """One node, its clients, and what they do in random order."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.chance = chance = Random(number)
        self.number = number
        queues = {name: settings_of(chance) for name in QUEUES}
        for persistent, name in DEAD.items():
            ttl_ms = times_ms(chance) + 1 if chance.random() < 0.4 else None
            queues[name] = QueueSettings(persistent=persistent, message_ttl_ms=ttl_ms)
        self.declared = Declarations(queues=queues, create_queues=True)
        self.tick_ms = TICK_MS * chance.choice((1, 2, 4))
        self.steps: list[str] = []
        self.judges = {"": Judge()}
        self.opened = 100
        self.is_small = chance.random() < 0.5
        self.commit_ms = chance.choice((0, 3, 100, 400))
        self.start(self.node_on())

    def node_on(self, platter: Platter | None = None, now_ms: int = BEGIN_MS) -> PunctualNode:
        declared, limits = deepcopy(self.declared), Limits()
        return PunctualNode(declared, limits, platter, now_ms=now_ms, tick_ms=self.tick_ms, commit_ms=self.commit_ms)

    def start(self, node: PunctualNode) -> None:
        """With nobody connected yet. The first Tick is at once: before it nothing is known of what is on the disk."""
        self.node = node
        self.out: dict[int, list[Deliver]] = {}
        self.subscribed: list[tuple[int, str]] = []
        self.leases: list[bytes] = []
        self.senders: dict[str, int] = {}
        node.open(OPERATOR)
        leased.join(node, LESSEE)
        node.until(node.now_ms, lambda: None)

    def client(self) -> int:
        self.opened += 1
        self.node.open(self.opened)
        self.out[self.opened] = []
        return self.opened

    # ---- steps ------------------------------------------------------------------------------------------------------

    def some_queue(self) -> str:
        return self.chance.choice(QUEUES)

    def some_client(self) -> int:
        there = [*self.out]
        return self.chance.choice(there) if there and self.chance.random() < 0.8 else self.client()

    def send(self) -> None:
        """Of a few words at once. Each queue has a sender of its own: one may be blocked."""
        chance = self.chance
        name = chance.choice((*QUEUES, *QUEUES, *DEAD.values()))
        sender = self.senders.get(name)
        if sender is None or sender not in self.out:
            sender = self.senders[name] = self.client()
        for _ in range(chance.choice((1, 1, 2, 4))):
            more: dict[str, object] = {}
            if chance.random() < 0.6:
                more["expires_ms"] = self.node.now_ms + times_ms(chance)
            if chance.random() < 0.4:
                more["delay_ms"] = times_ms(chance) or None
            headers = b"key:%d\npriority:%d\n" % (chance.randrange(3), chance.randrange(5))
            self.note(f"send {name} {more}")
            self.node.say(send(sender, name, b"x", headers=headers, **more))

    def subscribe(self) -> None:
        name, client, mode = self.some_queue(), self.some_client(), self.chance.choice((AUTO, CLIENT_INDIVIDUAL))
        if (client, name) in self.subscribed:
            return
        self.subscribed.append((client, name))
        settings = self.declared.queues[name]
        priority = 0 if settings.partition_key else self.chance.choice((0, 0, 1))
        count = self.chance.randrange(1, 4)
        self.note(f"subscribe {client} {name} {mode} {count}")
        self.node.say(subscribe(client, name, mode, prefetch_count=count, consumer_priority=priority))

    def unsubscribe(self) -> None:
        if self.subscribed:
            client, name = self.subscribed.pop(self.chance.randrange(len(self.subscribed)))
            self.note(f"unsubscribe {client} {name}")
            self.node.say(unsubscribe(client, name))

    def settle(self) -> None:
        """One message, wherever it is out."""
        there = [client for client, out in self.out.items() if out]
        if there:
            out = self.out[self.chance.choice(there)]
            deliver = out.pop(self.chance.randrange(len(out)))
            how = self.chance.randrange(4)
            self.note(f"settle {deliver.connection} {how}")
            delay_ms = times_ms(self.chance) if how == 2 else None
            self.node.say(nack(deliver, requeue=how != 1, delay_ms=delay_ms) if how else ack(deliver))

    def close(self) -> None:
        if self.out:
            self.leave(self.chance.choice([*self.out]))

    def leave(self, client: int) -> None:
        self.note(f"close {client}")
        self.node.close(client)
        del self.out[client]
        self.subscribed = [one for one in self.subscribed if one[0] != client]

    def get(self) -> None:
        client, name = self.some_client(), self.some_queue()
        self.note(f"get {client} {name}")
        self.node.say(Get(client, address(name), b"g", self.chance.choice((AUTO, CLIENT_INDIVIDUAL))))

    def lease(self) -> None:
        name, most = self.some_queue(), self.chance.randrange(1, 4)
        self.note(f"lease {name} {most}")
        self.node.say(leased.receive(LESSEE, name, most, lease_ms=60_000))

    def end_lease(self) -> None:
        if self.leases:
            token = self.leases.pop(self.chance.randrange(len(self.leases)))
            action = self.chance.choice((Action.ACK, Action.RELEASE))
            self.note(f"end of a lease: {action}")
            self.node.say(leased.settle(LESSEE, leased.done(token, action)))

    def ask(self, **request: object) -> None:
        self.note(f"{request}")
        self.node.say(send(OPERATOR, "/admin", json.dumps(request).encode(), reply_to="admin", correlation_id=b"1"))

    def move(self) -> None:
        one, other = self.chance.sample(QUEUES, 2)
        self.ask(**{"do": "move", "from": one, "to": other, "count": self.chance.randrange(1, 4)})

    def give_back(self) -> None:
        """Dead letters go back."""
        self.ask(do="return", queue=self.chance.choice([*DEAD.values()]), count=self.chance.randrange(1, 4))

    def purge(self) -> None:
        self.ask(do="purge", queue=self.chance.choice((*QUEUES, *DEAD.values())))

    def check_out(self) -> None:
        name = self.some_queue()
        if self.declared.queues[name].persistent:
            self.ask(do="checkout", queue=name, group="g", max_messages=self.chance.randrange(1, 4))

    def crash(self) -> None:
        self.note("crash")
        self.judges[""].expected.clear()
        self.start(self.node_on(self.node.disk.platter, self.node.now_ms))

    def wait(self) -> None:
        ms = self.chance.choice((1, self.chance.randrange(30), self.chance.randrange(300), 1500))
        self.note(f"wait {ms} ms")
        self.node.until(self.node.now_ms + ms, self.judge)

    def take_in(self) -> None:
        """What the clients were told; who was refused is gone."""
        for client in [*self.out]:
            self.out[client] += [one for one in self.node.messages(client) if one.ack_due]
            if self.node.is_refused(client):
                self.leave(client)
        for answer in leased.answers(self.node, LESSEE):
            self.leases += [one.lease for one in answer.messages]

    def go(self) -> None:
        ways: list[Callable[[], None]] = [self.send] * 12 + [self.wait] * 10 + [self.settle] * 6
        ways += [self.subscribe, self.unsubscribe, self.get, self.lease, self.end_lease, self.move, self.move] * 2
        ways += [self.close, self.purge] + [self.give_back, self.check_out] * 3
        for _ in range(STEPS):
            (self.crash if self.chance.random() < 0.01 else self.chance.choice(ways))()
            self.judge()
            self.take_in()
            self.judge()
        self.node.until(self.node.now_ms + 4000, self.judge)

    # ---- the judge --------------------------------------------------------------------------------------------------

    def note(self, step: str) -> None:
        self.steps.append(f"{self.node.now_ms % 10**7} {step}")

    def judge(self) -> None:
        mistake = self.judges[""].mistake(self.node)
        if mistake:
            self.violation(mistake)

    def violation(self, sentence: str) -> None:
        settings = {name: one for name, one in self.declared.queues.items() if name in sentence}
        steps = "\n".join(self.steps[-12:])
        self.run.violation(f"History {self.number}: {sentence}.\n{settings}\n{steps}")
        raise IsLate


class LinkedHistory:
    """Two nodes that share a queue: consumers of the one take what was sent to the other. One clock for both."""

    def __init__(self, run: Run, number: int) -> None:
        self.run = run
        self.chance = chance = Random(number)
        self.number = number
        tick_ms, commit_ms = TICK_MS * chance.choice((1, 2, 4)), chance.choice((0, 3, 300))
        settings = QueueSettings(scope="cluster", message_ttl_ms=chance.choice((None, 300, 900)))

        class PunctualNodes(Nodes):
            node_type = partial(PunctualNode, tick_ms=tick_ms, commit_ms=commit_ms)

        self.nodes = PunctualNodes("ab", declarations=declared(work=settings))
        self.judges = {name: Judge() for name in self.nodes.at}
        for node in self.nodes.at.values():
            node.open(1, 2, 3)
        self.consumers: set[tuple[str, int]] = set()
        self.out_at: list[tuple[str, Deliver]] = []
        self.steps: list[str] = []

    @property
    def handed_over(self) -> int:
        return len(self.nodes.sent(Transfer))

    def node(self, name: str) -> PunctualNode:
        node = self.nodes[name]
        assert isinstance(node, PunctualNode)
        return node

    def send(self, name: str) -> None:
        lives_ms = times_ms(self.chance) if self.chance.random() < 0.6 else None
        self.nodes[name].say(send(1, "work", b"x", expiration_ms=lives_ms))
        self.steps.append(f"send at {name}, for {lives_ms} ms")

    def come_or_go(self, name: str) -> None:
        client = self.chance.choice((2, 3))
        if (name, client) in self.consumers:
            self.consumers.discard((name, client))
            self.nodes[name].say(unsubscribe(client, "work"))
        else:
            self.consumers.add((name, client))
            self.nodes[name].say(subscribe(client, "work", prefetch_count=self.chance.randrange(1, 4)))
        self.steps.append(f"come or go {client} at {name}")

    def settle(self, name: str) -> None:
        out = [deliver for node, deliver in self.out_at if node == name]
        if out:
            deliver = self.chance.choice(out)
            self.out_at.remove((name, deliver))
            self.nodes[name].say(ack(deliver))
            self.steps.append(f"ack at {name}")

    def wait(self, _: str) -> None:
        ms = self.chance.choice((1, self.chance.randrange(30), self.chance.randrange(300), 1000))
        self.steps.append(f"wait {ms} ms")
        for name in self.nodes.at:
            node = self.node(name)
            node.until(node.now_ms + ms, partial(self.judge, name))

    def go(self) -> None:
        ways = [self.send] * 4 + [self.come_or_go] * 2 + [self.settle] + [self.wait] * 3
        for _ in range(STEPS):
            self.chance.choice(ways)(self.chance.choice("ab"))
            self.nodes.run()
            for name, node in self.nodes.at.items():
                self.judge(name)
                self.out_at += [(name, deliver) for client in (2, 3) for deliver in node.messages(client)]

    def judge(self, name: str) -> None:
        mistake = self.judges[name].mistake(self.node(name))
        if mistake:
            steps = "\n".join(self.steps[-12:])
            self.run.violation(f"History {self.number} of two nodes: at {name} {mistake}.\n{steps}")
            raise IsLate


def simulate(run: Run) -> None:
    handled = latest_ms = woken = handed_over = 0
    began_s = time.monotonic()
    while not run.is_over:
        number = run.chance.randrange(10**12)
        history = LinkedHistory(run, number) if run.done % LINKED_EVERY == 0 else History(run, number)
        with suppress(IsLate), pytest.MonkeyPatch.context() as patch:
            if isinstance(history, History) and history.is_small:
                shrink(patch, SMALL)
            history.go()
        for judge in history.judges.values():
            handled += judge.handled
            latest_ms = max(latest_ms, judge.latest_ms)
        if isinstance(history, History):
            woken += history.node.woken
        else:
            handed_over += history.handed_over
        run.case()
    run.figures |= {
        "handled at their times": handled,
        "ms late at most": latest_ms,
        "turns of the timer": woken,
        "handed over": handed_over,
        "histories a second": round(run.done / (time.monotonic() - began_s)),
    }
    enough = handled > 5 * run.done and woken > 2 * run.done and handed_over > run.done / LINKED_EVERY
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T35",
        name="lateness",
        title="random histories of what expires and is delayed, on simulated time with few Ticks: nothing is late",
        unit="histories",
        run=simulate,
        cases=(300, 50_000, 500_000),
        mutants=(
            "delay-not-registered",
            "next-delay-not-registered",
            "head-without-consumers-not-watched",
            "registered-for-the-latest-time",
            "registered-once",
            "woken-once",
            "earlier-wake-ignored",
            "woken-too-late",
            "next-head-forgotten-by-expiry",
            "next-head-forgotten-by-a-move",
            "next-head-forgotten-by-a-hand-over",
            "next-head-forgotten-behind-one-that-may-not-wait",
            "dead-letter-in-memory-not-watched",
            # seldom, so in longer runs
            "next-head-forgotten-by-a-return",
            "next-head-forgotten-by-a-checkout",
            "next-head-forgotten-by-an-eviction",
        ),
        mutant_cases=6000,
        quick_mutants=13,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
