"""What a Tick looks at: all queues and connections, in turns that stay short; and memory, whose bound is kept."""

import json
from collections.abc import Callable

import pytest

from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.routing.admission import Admission
from radiator.model.commands import AUTO, Closed, Event, Open, Read, Tick
from radiator.model.limits import BATCH_BYTES, GIB, LOOKS_PER_TURN, MIB, Limits
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import begin, commit, header, queues, send, subscribe, unsubscribe

QUEUES = 10_000
PRODUCERS = 3000
CONNECTIONS = 20_000


def tick(node: Node, seconds: float = 0.25) -> list[Event]:
    node.now_s += seconds
    node.now_ms += int(seconds * 1000)
    return [Tick(GIB, node.disk.used_bytes())]


def connect(node: Node, count: int, held_bytes: int = 0) -> None:
    """So many connections, with half a frame each; none of them is asked what it has got."""
    node.broker.turn([Open(number) for number in range(1000, 1000 + count)], node.now_s, node.now_ms)
    for number in range(1000, 1000 + count):
        node.broker.turn([Read(number, [], held_bytes)], node.now_s, node.now_ms)


def held(node: Node) -> int:
    return sum(one.held_bytes for one in node.broker.connections.values() if not one.is_closing)


def declared(**settings: object) -> Declarations:
    """Queues m.NUMBER are in memory, with these settings."""
    patterns = [("m.#", QueueSettings(persistent=False, **settings))]  # type: ignore[arg-type]
    return Declarations(create_queues=True, create_topics=True, queue_patterns=patterns)


# ---- turns ----------------------------------------------------------------------------------------------------------


@measures_turns
def test_a_tick_with_many_queues_and_connections_makes_no_long_turn() -> None:
    node = Timed(declared(expires_ms=10**9))
    for number in range(QUEUES):
        node.broker.destinations.queues.get(f"{'m' if number % 2 else 'q'}.{number}").used()
    node.turn([])
    connect(node, CONNECTIONS, held_bytes=100)
    assert node.longest_turn_s(lambda: tick(node)) <= TURN_MAX_S
    assert node.broker.parts.memory.weighed_bytes == CONNECTIONS * 100


@measures_turns
def test_so_does_one_that_closes_thousands_for_memory() -> None:
    node = Timed(limits=Limits(max_memory_bytes=200 * MIB))

    def make() -> list[Event]:
        node.turn([Closed(number) for number in [*node.broker.connections]])
        connect(node, CONNECTIONS)
        for number in range(1000, 1000 + CONNECTIONS):
            node.broker.turn([Read(number, [], 17_000 + number * 7919 % 6000)], node.now_s, node.now_ms)
        return tick(node)

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert 199 * MIB < held(node) <= 200 * MIB, "all that it takes, and no more, before the next Tick"


@measures_turns
def test_so_does_one_that_finds_thousands_waiting_for_memory() -> None:
    node = Timed(limits=Limits(max_memory_bytes=200 * MIB))

    def make() -> list[Event]:
        node.turn([Closed(number) for number in [*node.broker.connections]])
        node.turn(tick(node))
        connect(node, CONNECTIONS, held_bytes=20_000)
        node.turn(tick(node))
        for number in [n for n, one in node.broker.connections.items() if not one.is_closing]:
            node.broker.turn(
                [Read(number, [send(number, "q")], 17_000 + number * 7919 % 2000)], node.now_s, node.now_ms
            )
        assert len(node.broker.admission.memory_wait_list.waiters) > 10_000
        return tick(node)

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert not node.broker.blocking.connections, "memory has room: all have gone on"


@measures_turns
def test_a_purge_that_makes_room_for_thousands_makes_no_long_turn() -> None:
    node = Timed(queues(q=QueueSettings(max_messages=2 * PRODUCERS)))
    node.open(1)

    def make() -> list[Event]:
        node.turn([Closed(number) for number in [*node.broker.connections] if number != 1])
        connect(node, PRODUCERS)
        node.turn([Read(1, [send(1, "q") for _ in range(2 * PRODUCERS - len(node.stored("q")))])])
        many = [send(1000, "q") for _ in range(PRODUCERS)]
        node.turn([Read(1000, many[:1], 0)])
        node.turn([Read(1000, many[1:], 0)])
        for number in range(1001, 1000 + PRODUCERS):
            node.broker.turn([Read(number, [send(number, "q")], 0)], node.now_s, node.now_ms)
        assert len(node.broker.blocking.connections) == PRODUCERS
        return [purge(1)]

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert not node.broker.blocking.connections and len(node.stored("q")) == 2 * PRODUCERS - 1


@measures_turns
def test_so_does_one_that_finds_thousands_parked_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Timed()
    node.auto = False

    def make() -> list[Event]:
        node.broker.turn([Closed(number) for number in [*node.broker.connections]], node.now_s, node.now_ms)
        connect(node, 3000)
        node.broker.admission.disk_wait_list.is_tight = True
        for number in range(1000, 4000):
            node.broker.turn([Read(number, [send(number, "q")], 0)], node.now_s, node.now_ms)
        assert len(node.broker.blocking.connections) == 3000
        node.auto = True
        return tick(node, node.limits.block_timeout_s)

    monkeypatch.setattr(type(node.broker.parts.disk), "judge", lambda disk: None)
    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert not node.broker.blocking.connections and node.broker.context.counters["refusals"] % 3000 == 0


@measures_turns
def test_so_does_one_that_finds_thousands_of_transactions_open_for_too_long() -> None:
    node = Timed()

    def make() -> list[Event]:
        node.turn([Closed(number) for number in [*node.broker.connections]])
        connect(node, 3000)
        for number in range(1000, 4000):
            node.broker.turn([Read(number, [begin(number)], 0)], node.now_s, node.now_ms)
        return tick(node, node.limits.transaction_max_s)

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert all(one.is_closing for one in node.broker.connections.values())


@measures_turns
@pytest.mark.parametrize("name", ["m", "q"])
def test_so_does_one_that_finds_thousands_of_queues_unused(name: str) -> None:
    settings = QueueSettings(persistent=name == "q", expires_ms=1000)
    node = Timed(Declarations(create_queues=True, queue_patterns=[("#", settings)]))
    node.open(1)

    def make() -> list[Event]:
        for number in range(3000):
            node.broker.destinations.queues.get(f"{name}{number}")
        node.turn([])
        node.turn([Read(1, [send(1, f"{name}{number}") for number in range(0, 3000, 10)])])
        return tick(node, 2)

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert not node.broker.destinations.queues.all


# ---- slices ---------------------------------------------------------------------------------------------------------


def many(limits: Limits | None = None, declarations: Declarations | None = None) -> Node:
    """A round takes some turns: connections 1000 and so on are looked at in the second and later ones."""
    node = Node(declarations, limits)
    for number in range(LOOKS_PER_TURN):
        node.broker.destinations.queues.get(f"m.{number:04}")
    node.open(1, 2)
    connect(node, 3 * LOOKS_PER_TURN, held_bytes=1)
    node.auto = False
    return node


def test_a_round_ends_before_the_next_tick_begins_another() -> None:
    node = many()
    node.turn(tick(node))
    first = node.broker.parts.rounds.looks
    assert first is not None and node.again
    node.turn(tick(node))
    assert node.broker.parts.rounds.looks is first
    turns = 0
    while node.broker.parts.rounds.looks is not None:
        node.turn([])
        turns += 1
    assert turns <= 4
    node.turn([])
    assert not node.again


def test_a_round_goes_on_while_the_open_batch_is_full() -> None:
    node = many(Limits(max_memory_bytes=64 * MIB))
    node.say(send(1, "q", bytes(BATCH_BYTES + 1)))
    node.turn([Read(3000, [], 60 * MIB)])
    node.turn(tick(node))
    for _ in range(5):
        node.turn([])
    assert node.broker.admission.memory_wait_list.is_tight and node.broker.context.open.size > BATCH_BYTES


def halfway(node: Node) -> Callable[[], None]:
    """A round has begun: the queues have been weighed, and of the connections the first; then: it goes on to its
    end.
    """
    node.turn(tick(node))
    node.turn([])
    assert node.broker.parts.rounds.looks is not None

    def end() -> None:
        while node.broker.parts.rounds.looks is not None:
            node.turn([])

    return end


@pytest.mark.parametrize("connection", [1, 3999])
def test_what_moves_into_a_queue_while_it_is_weighed_counts_once_for_who_would_go(connection: int) -> None:
    node = many(Limits(max_memory_bytes=64 * MIB), declared())
    part = send(connection, "m.0000", bytes(4 * MIB), transaction=b"t")
    node.turn([Read(connection, [begin(connection), *[part] * 10])])
    end = halfway(node)
    node.turn([Read(connection, [commit(connection)])])
    end()
    memory = node.broker.parts.memory
    assert memory.weighed_bytes <= 41 * MIB, "it is in the transaction, or in the queue"
    assert memory.bytes >= 40 * MIB, "and counts at least once for who wants to bring more"
    assert not any(one.is_closing for one in node.broker.connections.values())
    node.turn(tick(node))
    halfway(node)()
    assert 40 * MIB <= memory.bytes == memory.weighed_bytes <= 41 * MIB


def test_what_comes_in_while_it_is_weighed_counts_at_once() -> None:
    node = many(Limits(max_memory_bytes=10 * MIB), declared())
    end = halfway(node)
    node.turn([Read(1, [send(1, "m.0000", bytes(MIB)) for _ in range(9)])])
    end()
    assert node.broker.parts.memory.bytes >= 9 * MIB and not node.broker.admission.memory_wait_list.is_tight
    assert node.broker.parts.memory.weighed_bytes < MIB
    blocked = Admission.blocked(
        node.broker.admission, node.broker.connections[2], node.broker.destinations.queues.all["m.0001"], False, 2 * MIB
    )
    assert blocked is node.broker.destinations.queues.all["m.0001"], "for the next there is no room"


def test_who_has_let_go_of_it_meanwhile_is_not_closed() -> None:
    node = many(Limits(max_memory_bytes=10 * MIB))
    node.turn([Read(1, [], 12 * MIB)])
    end = halfway(node)
    node.turn([Read(1, [], 0)])
    end()
    assert not node.is_refused(1)


def test_queues_are_watched_in_every_slice() -> None:
    node = many(declarations=declared(message_ttl_ms=100))
    names = ("m.0000", f"m.{LOOKS_PER_TURN - 1:04}", "z")
    node.say(*(send(1, name) for name in names))
    node.auto = True
    node.turn(tick(node, 1))
    assert [node.numbers(name)["expired"] for name in names] == [1, 1, 0]


# ---- what comes back ------------------------------------------------------------------------------------------------


def returned(node: Node, count: int) -> None:
    """So many messages of `q` have come back, and nobody is subscribed."""
    for _ in range(0, count, 1000):
        node.turn([Read(1, [send(1, "q", b"x" * 100)] * 1000)])
    node.open(2)
    node.say(subscribe(2, "q", prefetch_count=65_535))
    node.close(2)
    assert len(node.broker.destinations.queues.all["q"].returned) >= count


def purge(connection: int) -> Event:
    return Read(connection, [send(connection, "/admin", b'{"do":"purge","queue":"q"}', reply_to="t")])


@measures_turns
def test_a_purge_of_very_many_that_have_come_back_makes_no_long_turn() -> None:
    node = Timed()
    node.open(1)

    def make() -> list[Event]:
        returned(node, 30_000)
        return [purge(1), Read(1, [send(1, "q", b"after")])]

    assert node.longest_turn_s(make) <= TURN_MAX_S
    noted = [note.fields["messages"] for note in node.notes if note.event == "purged"]
    assert sum(noted) == 30_000 * len(noted) + len(noted) - 1 and node.stored("q") == [b"after"]
    queue = node.broker.destinations.queues.all["q"]
    assert isinstance(queue, DurableQueue)
    assert (queue.window.stubs, queue.window.stub_bytes, queue.window.size) == (0, 0, 5) and queue.windows.size == 5
    assert node.crashed().stored("q") == [b"after"]


def test_what_is_being_purged_is_delivered_to_nobody() -> None:
    node = Node()
    node.open(1, 3)
    returned(node, 5000)
    node.auto = False
    node.turn([purge(1), Read(3, [subscribe(3, "q", prefetch_count=100)])])
    node.turn([purge(1)])
    assert 0 < node.broker.destinations.queues.all["q"].ledger.stored < 5000
    node.auto = True
    node.turn([Read(1, [send(1, "q", b"after")])])
    assert node.bodies(3) == [b"after"]
    assert [json.loads(body)["purged"] for body in node.bodies(1)] == [5000, 5000]


def test_a_queue_that_goes_while_it_is_purged_takes_the_rest_along() -> None:
    node = Node()
    node.open(1)
    returned(node, 5000)
    node.auto = False
    node.turn([purge(1)])
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    node.auto = True
    node.turn([])
    assert not node.broker.background and node.broker.destinations.windows.size == 0
    assert not node.crashed().has("q")


# ---- queues that go by themselves -----------------------------------------------------------------------------------


def bound(node: Node, count: int, **settings: object) -> None:
    """`b` has so many bindings, and a consumer."""
    node.admin(1, do="declare", queue="b", **settings)
    for number in range(count):
        node.broker.destinations.bind("amq.direct", f"k{number}", "b")
    node.say(subscribe(2, "b"))


@measures_turns
@pytest.mark.parametrize("settings", [{"auto_delete": True}, {"expires_ms": 1000}])
def test_a_queue_with_very_many_bindings_that_goes_makes_no_long_turn(settings: dict[str, object]) -> None:
    node = Timed()
    node.open(1, 2)

    def make() -> list[Event]:
        bound(node, 20_000, **settings)
        node.turn(tick(node, 1))
        last: list[Event] = [Read(2, [unsubscribe(2, "b")])]
        if "expires_ms" in settings:
            node.turn(last)
            node.turn(tick(node, 0))
            last = tick(node, 2)
        return last

    assert node.longest_turn_s(make) <= TURN_MAX_S
    exchanges = node.broker.destinations.exchanges
    assert not node.has("b") and not exchanges.count and not exchanges.unbinding
    assert not node.crashed().has("b")


def going() -> Node:
    """`b` is about to go: some of its bindings have gone."""
    node = Node()
    node.open(1, 2)
    bound(node, 5000, auto_delete=True)
    node.auto = False
    node.say(unsubscribe(2, "b"))
    assert 0 < node.broker.destinations.exchanges.count < 5000
    return node


def test_nothing_is_routed_to_a_queue_that_is_about_to_go() -> None:
    node = going()
    node.turn([Read(1, [send(1, f"/exchange/amq.direct/k{number}") for number in (0, 4999)])])
    node.auto = True
    node.turn([])
    assert not node.has("b")


@pytest.mark.parametrize("use", ["send", "subscribe", "bind"])
def test_who_uses_it_before_it_has_gone_keeps_it(use: str) -> None:
    node = going()
    asked = {"do": "bind", "exchange": "amq.direct", "key": "k0", "queue": "b"}
    words = {
        "send": send(1, "b", b"kept", b"r"),
        "subscribe": subscribe(1, "b"),
        "bind": send(1, "/admin", json.dumps(asked).encode()),
    }
    node.say(words[use])
    if use == "bind":
        node.say(send(1, "/exchange/amq.direct/k0", b"kept"))
    node.auto = True
    node.turn([])
    assert node.has("b") and node.broker.destinations.exchanges.count == (use == "bind")
    assert not node.broker.destinations.exchanges.unbinding
    assert node.crashed().stored("b") == ([] if use == "subscribe" else [b"kept"])


# ---- who is idle ----------------------------------------------------------------------------------------------------


def looks_of_a_round(node: Node) -> int:
    """What a round costs, in looks."""
    rounds = node.broker.parts.rounds
    assert rounds.looks is None
    return sum(rounds._looks())


def test_connections_that_hold_nothing_cost_nothing() -> None:
    node = Node()
    node.wait(0.25)
    before = looks_of_a_round(node)
    connect(node, 3000)
    assert looks_of_a_round(node) == before + 3000, "each has come just now"
    assert looks_of_a_round(node) == before
    node.turn([Read(1000, [], 100)])
    assert [looks_of_a_round(node) for _ in range(3)] == [before + 1] * 3
    assert node.broker.parts.memory.weighed_bytes == 100
    node.turn([Read(1000, [], 0)])
    assert [looks_of_a_round(node) for _ in range(2)] == [before + 1, before]
    assert node.broker.parts.memory.weighed_bytes == 0


def test_who_is_idle_is_weighed_once_anything_comes_to_it() -> None:
    node = Node()
    node.open(1, 2)
    node.reads_slowly.add(1)
    node.say(subscribe(1, "q", prefetch_count=10))
    node.wait(0.25)
    assert node.broker.connections[1].is_idle
    node.say(send(2, "q", b"x" * 1000))
    assert not node.broker.connections[1].is_idle
    node.wait(0.25)
    assert 1000 < node.broker.parts.memory.weighed_bytes == node.broker.connections[1].held_bytes


def test_what_others_send_to_its_own_queues_counts_though_it_does_nothing() -> None:
    node = Node(Declarations(create_queues=True, queue_patterns=[("work", QueueSettings(persistent=False))]))
    node.open(1, 2)
    node.say(subscribe(2, "work", AUTO), send(1, "work", reply_to="t"))
    address = header(node.messages(2)[-1].message, b"reply-to")
    assert address is not None
    node.say(unsubscribe(1, "/temp-queue/t"))
    for _ in range(2):
        node.wait(0.25)
    node.say(send(2, address.decode(), b"x" * 5000))
    node.wait(0.25)
    assert node.broker.parts.memory.weighed_bytes >= 5000
