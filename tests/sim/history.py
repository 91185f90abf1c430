"""One random history of clients, a disk, a network and crashes, all of it from one seed.

Its seed also draws how small the broker's bounds are (windows of one message, batches of a few hundred bytes, memory
for a few connections), how slow and how faulty the disk is, and how the wall clock jumps: so that edges are met which
no realistic load would meet. What must hold whatever happens is judged by the clients' books (books.py).

It sees only the core: sessions, sockets, threads and LMDB are not part of it. One node; a second would be one more
SimNode on the same scheduler, with clients of its own.
"""

import traceback
from dataclasses import replace
from random import Random
from zlib import crc32

import pytest

from radiator.core.connections import SUBSCRIPTION_COST_BYTES
from radiator.core.queues import partitions
from radiator.core.rights import Rights
from radiator.core.turn import Batch
from radiator.model.leases import Leased
from radiator.model.limits import GIB, KIB, MIB, Limits
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Deliver
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import JOURNAL, TOPIC, Declarations, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.users import User
from radiator.model.writes import MakeDue
from tests.core.conftest import shrink
from tests.sim.amqp import AmqpClient, can_publish
from tests.sim.amqp_line import queue_of
from tests.sim.bindings import BOUND, EXCHANGES, KEYS, Binder, Durable, Routes
from tests.sim.books import Books, Client, Consumer, Job, Producer
from tests.sim.faults import draw_ends, draw_slowness, during_the_faults, end_the_faults
from tests.sim.keys import KeyJudge
from tests.sim.priorities import PriorityJudge
from tests.sim.simulation import Scheduler, SimNode
from tests.sim.web import BatchProducer, Lessee, Tokens, deliver_of

FANOUTS = {"f": ("x", "y")}
JOBS: list[Job] = [
    ("/queue/a",),
    ("/queue/a",),
    ("/queue/b",),
    ("/queue/once",),
    ("/queue/tight",),
    ("/queue/timeout",),
    ("/queue/brief",),
    ("/fanout/f",),
    ("/queue/x", "/queue/y"),
    ("/queue/later",),
    ("/exchange/kept/k.a",),
    ("/exchange/kept/k.b",),
    ("/exchange/amq.topic/k.a",),
    ("/exchange/amq.direct/k.a",),
    ("/exchange/made/k.b",),
    ("/queue/y", "/exchange/kept/k.a"),
    ("/topic/t.a",),
    ("/topic/t.b",),
]
AMQP_JOBS = [*filter(can_publish, JOBS), ("/queue/x", "/queue/y"), ("/queue/y", "/queue/a")]
DURABLE = ("/topic/t.a", "/topic/t.*", "/exchange/kept/k.*", "/exchange/amq.direct/k.a")
USERS = {name: User(name=name, rules=Rules(role=OPERATOR)) for name in ("anonymous", "ann", "bob")}
USER_OF = [Principal(name, RecognisedBy.TOKEN) for name in ("ann", "bob")]
END_S = 90.0
LIVES_MAX = 5
HOUR_MS = 3_600_000


def drawn_queues(random: Random) -> dict[str, QueueSettings]:
    return {
        "a": QueueSettings(),
        "b": QueueSettings(dead_letter="dead", max_redeliveries=random.choice([0, 1, 2, 2, 5])),
        "brief": QueueSettings(message_ttl_ms=random.choice([50, 300])),
        "dead": QueueSettings(),
        "later": QueueSettings(
            redelivery_delay_ms=random.choice([20, 100]), redelivery_delay_factor=2, redelivery_delay_max_ms=300
        ),
        "once": QueueSettings(dedup_window_s=10_000),  # longer than the clock can jump
        "tight": QueueSettings(max_messages=random.choice([1, 4])),
        "timeout": QueueSettings(ack_timeout_s=1),
        "x": QueueSettings(),
        "y": QueueSettings(),
    }


def partitioned(random: Random, queues: dict[str, QueueSettings]) -> dict[str, QueueSettings]:
    """Some of them, in some histories."""
    share = random.choice([0, 0, 0.5, 1])
    return {
        name: replace(settings, partition_key=("header:key",), partition_window=random.choice([1, 1, 3]))
        if random.random() < share
        else settings
        for name, settings in queues.items()
    }


def with_priorities(random: Random, queues: dict[str, QueueSettings]) -> dict[str, QueueSettings]:
    """Some of those that have no keys, in some histories. random: one of its own."""
    share = random.choice([0, 0.5, 1])
    return {
        name: replace(settings, max_priority=random.choice([1, 3, 10]))
        if random.random() < share and not settings.partition_key
        else settings
        for name, settings in queues.items()
    }


def drawn_bounds(random: Random) -> dict[str, int]:
    """Bounds of radiator/model/limits.py. Windows keep what that file asserts of them."""
    if random.random() < 0.2:
        return {}  # as it is
    window = random.choice([1, 2, 3, 6, 20])
    load_bytes = random.choice([1, 100, MIB])
    return {
        "WINDOW_MESSAGES": window,
        "LOAD_MESSAGES": random.choice([count for count in (1, 2, 4) if count <= window]),
        "STEP_MESSAGES": random.choice([count for count in (1, 3) if count <= window]),
        "WINDOW_BYTES": max(load_bytes, random.choice([1, 200, 2 * MIB])),
        "LOAD_BYTES": load_bytes,
        "WINDOWS_BYTES": random.choice([1, 500, 32 * MIB, 32 * MIB]),
        "BATCH_BYTES": random.choice([200, 1500, 4 * MIB]),
        "FORGET_MESSAGES": random.choice([1, 1000]),
        "KEY_MESSAGES": random.choice([1, 2, 16]),
        "KEYS_HELD_BYTES": random.choice([1, 1300, 64 * MIB]),
    }


def drawn_limits(random: Random, keyed: int = 0) -> Limits:
    """keyed: how many queues have keys. There is memory for who subscribes to all of these."""
    return Limits(
        block_timeout_s=random.choice([0.5, 5, 60]),
        outbox_max_bytes=random.choice([1, 4000, 4 * MIB]),
        max_memory_bytes=random.choice([4000, 20_000, GIB, GIB, GIB]) + 4 * SUBSCRIPTION_COST_BYTES * keyed,
    )


class History:
    """Runs as it is made. `books.mistakes` must be empty then. has_journal: what is committed is held against it."""

    def __init__(self, seed: int, has_journal: bool = False) -> None:
        self.scheduler = Scheduler(seed)
        self.routes = Routes()
        self.books = Books(self.routes, lambda: self.scheduler.now_s)
        random = self.scheduler.random
        self.queues = with_priorities(Random(seed), partitioned(random, drawn_queues(random)))
        self.declarations = Declarations(
            queues=self.queues,
            fanouts=FANOUTS,
            topics=["t.#"],
            exchanges={"kept": ExchangeSettings(type=TOPIC)},
            logs={JOURNAL: LogSettings(retention_ms=None)} if has_journal else {},
            has_journal=has_journal,
        )
        with pytest.MonkeyPatch.context() as patch:
            drawn_apart = {
                "COMMITTED_PER_TURN": Random(seed).choice([1, 3, 4096]),
                "SMALL_BYTES": Random(seed + 1).choice([500, 64 * KIB]),
            }
            shrink(patch, drawn_bounds(random) | drawn_apart)
            if random.random() < 0.5:
                patch.setattr(partitions, "hash_of", lambda key: b"%08d" % (crc32(key) % 2))
            self.node = self.drawn_node(random)
            self.clients = self.drawn_clients(random)
            self.draw_faults(random)
            try:
                self.play()
            except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
                self.books.mistakes.append(f"the broker would have ended: {traceback.format_exc()}")
            else:
                self.judge()

    def drawn_node(self, random: Random) -> SimNode:
        authorizer = random.choice([None, Rights(USERS, 0)])
        self.books.keyed = {name for name, settings in self.queues.items() if settings.partition_key}
        limits = drawn_limits(random, len(self.books.keyed))
        node = SimNode(self.scheduler, "one", self.declarations, limits, authorizer=authorizer)
        draw_slowness(random, node)
        settings_of = self.declarations.queue_settings
        self.keys = KeyJudge(node, self.books)
        self.priorities = PriorityJudge(node, self.books)
        node.on_turn = self.priorities.begin

        def handed(deliver: Deliver) -> None:
            if deliver.left is not None:  # of a Get, which names the queue
                deliver = replace(deliver, subscription=queue_of(node.links[deliver.connection], deliver).encode())
            self.books.handed(deliver, settings_of, node.now_ms, node.boots)
            if deliver.subscription is not None:
                self.keys.handed(self.name_of(deliver.subscription.decode()), deliver)
                self.priorities.handed(self.name_of(deliver.subscription.decode()), deliver)

        node.on_deliver = handed
        node.on_leased = self.leased
        node.on_commit = self.committed
        self.tokens = Tokens()
        self.books.is_leased = lambda queue, id: self.tokens.holding(queue, id, node.boots, self.scheduler.now_s)
        return node

    def leased(self, answer: Leased) -> None:
        asked = self.tokens.asked[answer.receipt]
        for one in answer.messages if not asked.is_stale(self.scheduler.now_s) else ():
            deliver = deliver_of(one, asked.queue)
            self.books.handed(deliver, self.declarations.queue_settings, self.node.now_ms, self.node.boots)

    def drawn_clients(self, random: Random) -> list[Client]:
        scheduler, node, books = self.scheduler, self.node, self.books
        self.producers: list[Producer] = [
            random.choice([Producer, Producer, BatchProducer])(
                scheduler, node, books, b"p%d" % n, [random.choice(JOBS) for _ in range(random.randrange(5, 25))]
            )
            for n in range(3)
        ]
        # no leases where memory is short: what waits there has no end; nor of what expires while an answer has to wait
        leasable = sorted(set(self.queues) - {"brief"})
        self.lessees = [
            Lessee(scheduler, node, books, b"l%d" % n, random.sample(leasable, 3), self.tokens, USER_OF[n % 2])
            for n in range(random.randrange(4) if node.limits.max_memory_bytes >= GIB else 0)
        ]
        self.amqp_clients = [self.drawn_amqp_client(random, b"q%d" % n) for n in range(random.choice((0, 0, 1, 2)))]
        self.consumers = [
            Consumer(scheduler, node, books, b"c%d" % n, random.sample(sorted(self.queues), 4))
            for n in range(random.choice([1, 3]) if self.lessees or self.amqp_clients else 3)
        ]
        self.binders = [
            Binder(scheduler, node, books, b"binder%d" % n, [self.drawn_binding(random, n) for _ in range(2)])
            for n in range(random.randrange(1, 3))
        ]
        self.durables = [
            Durable(scheduler, node, books, b"d%d" % n, random.choice(DURABLE)) for n in range(random.randrange(3))
        ]
        books.leased = {queue for lessee in self.lessees for queue in lessee.queues}
        books.name_of = self.name_of
        return [*self.producers, *self.consumers, *self.binders, *self.durables, *self.lessees, *self.amqp_clients]

    def drawn_amqp_client(self, random: Random, name: bytes) -> AmqpClient:
        """While a channel waits for room its acks are not read: who publishes holds nothing of what has little room."""
        publishes = random.random() < 0.75
        queues = random.sample(sorted(set(self.queues) - ({"tight"} if publishes else set())), 3)
        jobs = [random.choice(AMQP_JOBS) for _ in range(random.randrange(20) if publishes else 0)]
        return AmqpClient(self.scheduler, self.node, self.books, name, jobs, queues)

    def drawn_binding(self, random: Random, n: int) -> tuple[str, str, str]:
        """No two binders have one in common."""
        exchange = random.choice(sorted(EXCHANGES))
        return exchange, random.choice(KEYS[EXCHANGES[exchange]]), random.choice(BOUND[n::2])

    def name_of(self, subscription: str) -> str:
        """What the books call the queue that it consumes."""
        for durable in self.durables:
            if durable.name.decode() == subscription and durable.span is not None:
                return durable.span.queue
        return subscription

    def draw_faults(self, random: Random) -> None:
        draw_ends(self.scheduler, self.node, self.clients, 3)
        for _ in range(random.choice([0, 0, 0, 1, 2])):
            jump_ms = random.randrange(-HOUR_MS, HOUR_MS)
            during_the_faults(self.scheduler, lambda jump_ms=jump_ms: self.set_clock(jump_ms))  # type: ignore[misc]

    def set_clock(self, ahead_ms: int) -> None:
        self.books.peaks.append((self.scheduler.now_s, self.node.now_ms))
        self.node.set_clock(ahead_ms)

    def play(self) -> None:
        scheduler = self.scheduler
        end_the_faults(scheduler, self.node)
        for consumer in (*self.consumers, *self.lessees):
            consumer.is_careful = True
        for client in self.amqp_clients:
            client.is_careful = True
        for binder in self.binders:
            binder.is_over = True
        for durable in self.durables:
            durable.is_careful = True
        self.set_clock(HOUR_MS)  # nothing that is kept back has to wait for long
        Consumer(scheduler, self.node, self.books, b"rest", sorted(self.queues)).is_careful = True
        # a channel that takes most of a short memory by itself is refused after block_timeout_s, and tries again
        is_short = self.node.limits.max_memory_bytes < GIB
        end_s = END_S + is_short * LIVES_MAX * self.node.limits.block_timeout_s
        while scheduler.now_s < end_s and not self.is_done:
            scheduler.run(scheduler.now_s + 1)

    def committed(self, batch: Batch) -> None:
        for name, ledger in self.node.disk.platter.queues.values():
            most = self.declarations.queue_settings(name).max_messages
            if most is not None and ledger.stored > most:
                self.books.mistakes.append(f"bound: {name} holds {ledger.stored} messages, of {most} at most")
        latest_ms = self.books.latest_ms(0.0, self.node.now_ms)
        early = [write.due_ms for write in batch.writes if isinstance(write, MakeDue) and write.due_ms > latest_ms]
        if early:
            self.books.mistakes.append(f"woken early: messages due at {early}, and it was {latest_ms} at the latest")

    @property
    def left(self) -> dict[str, int]:
        return {name: ledger.stored for name, ledger in self.node.disk.platter.queues.values()}

    @property
    def is_done(self) -> bool:
        is_waiting = any(not one.is_done for one in self.producers) or any(not one.is_done for one in self.amqp_clients)
        return not is_waiting and not any(self.left.values())

    def judge(self) -> None:
        books = self.books
        for producer in self.producers:
            if not producer.is_done:
                books.mistakes.append(f"stuck: {producer.name!r} has {len(producer.waiting)} without receipt")
        for client in self.amqp_clients:
            client.judge()
        queues_of = {f"/queue/{name}": (name,) for name in self.queues} | {"/fanout/f": FANOUTS["f"]}
        books.judge(queues_of, self.left, may_expire={"brief"})
