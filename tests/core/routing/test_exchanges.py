"""Exchanges: matching, bindings and their life, SEND as one plan, subscribers with queues of their own."""

import pytest

from radiator.core.routing import admission
from radiator.core.routing import exchanges as module
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, Read
from radiator.model.errors import Refusal
from radiator.model.limits import KEY_WORDS_MAX, PATTERN_WILDCARDS_MAX, Limits
from radiator.model.replies import Refuse
from radiator.model.settings import (
    DIRECT,
    STANDARD_EXCHANGES,
    TOPIC,
    Binding,
    Declarations,
    ExchangeSettings,
    QueueSettings,
)
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, send, subscribe, unsubscribe

MEMORY = QueueSettings(persistent=False)


def declared(**more: object) -> Declarations:
    """Queues a and b on the disk, m in memory; an exchange of each type, with config.toml's word."""
    return Declarations(
        queues={"a": QueueSettings(), "b": QueueSettings(), "m": MEMORY},
        exchanges={"d": ExchangeSettings(type=DIRECT), "t": ExchangeSettings(type=TOPIC)},
        create_queues=True,
        create_topics=True,
        **more,  # type: ignore[arg-type]
    )


def node_with(*bindings: tuple[str, str, str], **more: object) -> Node:
    node = Node(declared(), **more)  # type: ignore[arg-type]
    for binding in bindings:
        assert bind(node, *binding)
    node.turn([])
    return node


def bind(node: Node, exchange: str, key: str, queue: str) -> bool:
    return node.broker.destinations.bind(exchange, key, queue)


def code(call: object, *arguments: object) -> str:
    with pytest.raises(Refusal) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def counts(node: Node, *queues: str) -> list[int]:
    return [node.numbers(queue)["messages"] for queue in queues]


# ---- matching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exchange", "key", "sent", "matches"),
    [
        ("amq.direct", "k", "k", True),
        ("amq.direct", "k", "K", False),
        ("amq.direct", "", "", True),
        ("amq.direct", "a.*", "a.b", False),
        ("amq.direct", "a.*", "a.*", True),
        ("amq.direct", "a/b", "a/b", True),
        ("amq.topic", "a.*", "a.b", True),
        ("amq.topic", "a.*", "a", False),
        ("amq.topic", "a.#", "a", True),
        ("amq.topic", "#", "", True),
        ("amq.topic", "*", "", True),
        ("amq.topic", "a.b", "a.b", True),
        ("amq.topic", "a.b", "a.b.c", False),
        ("amq.fanout", "k", "other", True),
        ("amq.fanout", "", "", True),
    ],
)
def test_binding_matches(exchange: str, key: str, sent: str, matches: bool) -> None:
    node = node_with((exchange, key, "a"))
    node.open(1)
    node.say(send(1, f"/exchange/{exchange}/{sent}", receipt=b"r"))
    assert counts(node, "a") == [int(matches)] and node.receipts(1) == [b"r"]


def test_address_without_a_key_has_the_empty_one() -> None:
    node = node_with(("amq.direct", "", "a"))
    node.open(1, 2)
    node.say(send(1, "/exchange/amq.direct"), send(1, "/exchange/amq.direct/"), subscribe(2, "a", AUTO))
    assert [d.message.destination for d in node.messages(2)] == ["/exchange/amq.direct", "/exchange/amq.direct/"]


def test_queue_that_several_bindings_match_gets_one_copy() -> None:
    node = node_with(
        ("t", "a.*", "a"), ("t", "a.#", "a"), ("t", "a.b", "a"), ("amq.fanout", "1", "a"), ("amq.fanout", "2", "a")
    )
    node.open(1)
    node.say(send(1, "/exchange/t/a.b"), send(1, "/exchange/amq.fanout/x"))
    assert counts(node, "a") == [2]


def test_queue_that_is_bound_to_a_fanout_twice_goes_with_the_last_binding() -> None:
    node = node_with(("amq.fanout", "1", "a"), ("amq.fanout", "2", "a"))
    node.open(1)
    for key in ("1", "2"):
        node.say(send(1, "/exchange/amq.fanout/x"))
        node.broker.destinations.unbind("amq.fanout", key, "a")
    node.say(send(1, "/exchange/amq.fanout/x"))
    assert counts(node, "a") == [2]


def test_every_queue_that_matches_gets_a_copy_with_its_own_settings() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(message_ttl_ms=1000), "b": QueueSettings(), "m": MEMORY}))
    for queue in ("a", "b", "m"):
        bind(node, "amq.fanout", "", queue)
    node.open(1, 2, 3, 4)
    for connection, queue in ((2, "a"), (3, "b"), (4, "m")):
        node.say(subscribe(connection, queue, AUTO))
    node.say(send(1, "/exchange/amq.fanout/key", b"body", headers=b"x:1\n", expiration_ms=5000))
    found = [node.message(connection).message for connection in (2, 3, 4)]
    assert [m.expires_ms - node.now_ms for m in found] == [1000, 5000, 5000]
    assert {(m.destination, m.body, m.headers) for m in found} == {("/exchange/amq.fanout/key", b"body", b"x:1\n")}


@pytest.mark.parametrize(
    ("bound", "key", "arrives"),
    [
        ("feed.#", "feed.#", True),
        ("feed.*", "feed.*", True),
        ("feed.*", "feed.#", True),
        ("#", "*", True),
        ("feed.*.x", "feed.#", False),
        ("feed.a", "feed.*", False),
        ("feed.a", "#", False),
    ],
)
def test_wildcard_in_the_key_of_a_send_is_a_word_like_any_other(bound: str, key: str, arrives: bool) -> None:
    node = node_with()
    node.open(1, 2)
    bind(node, "t", bound, "a")
    node.say(subscribe(2, "a", AUTO), send(1, f"/exchange/t/{key}", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and len(node.messages(2)) == arrives
    node.say(send(1, f"/exchange/t/{key}", mandatory=True))
    assert node.is_refused(1) != arrives


def test_key_of_a_topic_exchange_has_few_words() -> None:
    node = node_with()
    node.open(1, 2, 3, 4)
    longest = ".".join(["w"] * KEY_WORDS_MAX)
    wild = ".".join(["*"] * KEY_WORDS_MAX)
    node.say(send(1, f"/exchange/t/{wild}", receipt=b"r"), send(2, f"/exchange/t/{longest}.w"))
    node.say(send(3, f"/exchange/t/{longest}", receipt=b"r"))
    assert node.receipts(1) == node.receipts(3) == [b"r"] and node.refusal(2).code == "too-many-words"
    node.say(send(4, "/exchange/d/a.*", receipt=b"r"))
    assert node.receipts(4) == [b"r"]


def test_key_of_a_binding_to_a_topic_exchange_is_bounded() -> None:
    node = node_with()
    assert bind(node, "t", ".".join(["w"] * KEY_WORDS_MAX), "a")
    assert code(bind, node, "t", ".".join(["w"] * (KEY_WORDS_MAX + 1)), "a") == "too-many-words"
    assert bind(node, "t", ".".join(["#"] * PATTERN_WILDCARDS_MAX), "a")
    assert code(bind, node, "t", ".".join(["#"] * (PATTERN_WILDCARDS_MAX + 1)), "a") == "too-many-words"
    assert code(bind, node, "t", ".".join(["w", *["*"] * (PATTERN_WILDCARDS_MAX + 1)]), "a") == "too-many-words"
    assert bind(node, "t", ".".join(["*"] * KEY_WORDS_MAX), "a")
    assert bind(node, "d", ".".join(["*"] * 60), "a")
    assert bind(node, "d", "x" * 255, "a") and code(bind, node, "d", "x" * 256, "a") == "bad-request"
    assert code(bind, node, "d", "a\nb", "a") == "bad-request"


@pytest.mark.parametrize("seconds", [1, 2, 5, 2**27, 2**28 - 1])
def test_delays_by_a_level_for_each_bit_are_routed_as_celery_and_nservicebus_bind_them(seconds: int) -> None:
    """28 exchanges, each with a queue for the keys with a 1 at its place; those with a 0 go on to the next."""
    node = node_with()
    node.open(9)
    levels = range(27, -1, -1)
    for at, level in enumerate(levels):
        stars = "*." * at
        assert node.admin(9, do="declare", exchange=f"level-{level}", type="topic")["ok"]
        assert node.admin(9, do="declare", queue=f"level-{level}")["ok"]
        assert bind(node, f"level-{level}", f"{stars}1.#", f"level-{level}")
    assert node.admin(9, do="declare", exchange="due", type="topic")["ok"] and bind(node, "due", "#.orders.new", "a")
    for at, level in enumerate(levels):
        onward = f"/exchange/level-{level - 1}" if level else "/exchange/due"
        assert bind(node, f"level-{level}", "*." * at + "0.#", onward)
    key = ".".join(f"{seconds:028b}") + ".orders.new"
    highest = seconds.bit_length() - 1
    for exchange, queue in (("level-27", f"level-{highest}"), ("due", "a")):
        route = node.admin(9, do="route", exchange=exchange, key=key)
        assert [one["destination"] for one in route["targets"]] == [f"/queue/{queue}"]


# ---- one transaction -------------------------------------------------------------------------------------------------


@pytest.mark.durability("D23")
def test_receipt_means_synced_in_all_queues_at_once() -> None:
    node = node_with(("amq.fanout", "", "a"), ("amq.fanout", "", "b"), ("amq.fanout", "", "m"))
    node.open(1, 2)
    node.say(subscribe(2, "m", AUTO))
    node.auto = False
    node.say(send(1, "/exchange/amq.fanout", b"x", b"r"))
    assert node.receipts(1) == [] and node.bodies(2) == [] and counts(node, "m") == [0]
    assert node.crashed().stored("a") == node.crashed().stored("b") == []
    node.seal()
    node.commit()
    assert node.receipts(1) == [b"r"] and node.bodies(2) == [b"x"]
    assert node.crashed().stored("a") == node.crashed().stored("b") == [b"x"]


def test_receipt_without_a_persistent_queue_needs_no_disk() -> None:
    node = node_with(("amq.fanout", "", "m"))
    node.open(1)
    node.auto = False
    node.say(send(1, "/exchange/amq.fanout", receipt=b"r"), send(1, "/exchange/amq.topic/none", receipt=b"s"))
    assert node.receipts(1) == [b"r", b"s"] and counts(node, "m") == [1]


def test_one_full_queue_refuses_the_whole() -> None:
    full = QueueSettings(max_messages=1, overflow="reject")
    node = Node(Declarations(queues={"a": QueueSettings(), "full": full}))
    bind(node, "amq.fanout", "", "a")
    bind(node, "amq.fanout", "", "full")
    node.open(1, 2)
    node.say(send(1, "full"), send(2, "/exchange/amq.fanout"))
    assert node.refusal(2).code == "queue-full" and counts(node, "a", "full") == [0, 1]
    assert node.broker.destinations.exchanges.get("amq.fanout").accepted == 0


def test_one_full_queue_makes_the_sender_wait() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(), "full": QueueSettings(max_messages=1)}))
    bind(node, "amq.fanout", "", "a")
    bind(node, "amq.fanout", "", "full")
    node.open(1, 2, 3)
    node.say(send(1, "full", b"1"), send(2, "/exchange/amq.fanout", b"2", b"r"))
    assert 2 in node.paused and counts(node, "a") == [0]
    node.say(subscribe(3, "full", AUTO))
    assert node.receipts(2) == [b"r"] and counts(node, "a") == [1] and node.bodies(3) == [b"1", b"2"]


def test_transaction_goes_to_exchanges_and_queues_whole_or_not_at_all() -> None:
    node = node_with(("d", "k", "a"), ("d", "k", "m"))
    node.open(1, 2)
    node.say(begin(1), send(1, "/exchange/d/k", transaction=b"t"), send(1, "b", transaction=b"t"))
    assert counts(node, "a", "b", "m") == [0, 0, 0]
    node.say(commit(1, receipt=b"r"))
    assert counts(node, "a", "b", "m") == [1, 1, 1] and node.receipts(1) == [b"r"]
    node.say(begin(2), send(2, "b", transaction=b"t"), send(2, "/exchange/d/none", transaction=b"t", mandatory=True))
    node.say(commit(2, receipt=b"r"))
    assert node.refusal(2).code == "no-subscriber" and counts(node, "a", "b", "m") == [1, 1, 1]


def test_unrouted_is_dropped_counted_and_receipted_unless_mandatory() -> None:
    node = node_with(("d", "k", "a"))
    node.open(1, 2)
    node.say(send(1, "/exchange/d/none", receipt=b"1"), send(1, "/exchange/d/k", receipt=b"2", mandatory=True))
    exchange = node.broker.destinations.exchanges.get("d")
    assert node.receipts(1) == [b"1", b"2"] and (exchange.accepted, exchange.unrouted) == (2, 1)
    node.say(send(2, "/exchange/d/none", mandatory=True))
    assert node.refusal(2).code == "no-subscriber" and (exchange.accepted, exchange.unrouted) == (2, 1)


def test_exchange_is_never_made_by_first_use() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(
        send(1, "/exchange/none/k"), subscribe(2, "/exchange/none/k"), subscribe(3, "/exchange/none", durable=True)
    )
    assert [node.refusal(c).code for c in (1, 2, 3)] == ["no-such-destination"] * 3


def test_dedup_id_counts_in_each_queue() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(dedup_window_s=60), "b": QueueSettings()}))
    bind(node, "amq.fanout", "", "a")
    bind(node, "amq.fanout", "", "b")
    node.open(1)
    node.say(*(send(1, "/exchange/amq.fanout", dedup_id=b"1", receipt=b"r") for _ in range(2)))
    assert counts(node, "a", "b") == [1, 2] and node.receipts(1) == [b"r", b"r"]


def test_delayed_copies_wait_in_every_queue_and_for_subscribers() -> None:
    node = node_with(("d", "k", "a"), ("d", "k", "m"))
    node.open(1, 2)
    node.say(subscribe(2, "/exchange/d/k", AUTO), send(1, "/exchange/d/k", b"x", b"r", delay_ms=2000))
    assert node.receipts(1) == [b"r"] and node.bodies(2) == [] and counts(node, "a", "m") == [1, 1]
    assert [node.numbers(queue)["ready"] for queue in "am"] == [0, 0]
    node.wait(2.5)
    assert node.bodies(2) == [b"x"] and [node.numbers(queue)["ready"] for queue in "am"] == [1, 1]


# ---- declaring and deleting ------------------------------------------------------------------------------------------


def test_standard_exchanges_always_exist() -> None:
    node = Node(Declarations())
    destinations = node.broker.destinations
    assert {"amq.direct", "amq.topic", "amq.fanout", "amq.headers", "amq.match"} == {*STANDARD_EXCHANGES}
    for name, type_ in STANDARD_EXCHANGES.items():
        assert destinations.exchanges.get(name).type == type_
        assert not node.declare_exchange(name, ExchangeSettings(type=type_))
        assert code(node.declare_exchange, name, ExchangeSettings(type=type_, auto_delete=True)) == (
            "declared-otherwise"
        )
        assert code(destinations.exchanges.delete, name) == "reserved"
    assert code(node.declare_exchange, "amq.mine", ExchangeSettings()) == "reserved"


def test_declaring_again_with_the_same_settings_makes_nothing() -> None:
    node = Node()
    assert node.declare_exchange("x", ExchangeSettings(type=TOPIC))
    assert not node.declare_exchange("x", ExchangeSettings(type=TOPIC))
    for other in (ExchangeSettings(type=DIRECT), ExchangeSettings(type=TOPIC, durable=False)):
        assert code(node.declare_exchange, "x", other) == "declared-otherwise"


@pytest.mark.parametrize("name", ["", "a/b", "a.*", "#", "x" * 256, "a\nb"])
def test_wrong_name_of_an_exchange_is_refused(name: str) -> None:
    assert code(Node().declare_exchange, name, ExchangeSettings()) == "bad-request"


def test_exchange_of_the_configuration_cannot_be_deleted_nor_its_bindings() -> None:
    node = Node(declared(bindings=[Binding("d", "k", "a"), Binding("amq.topic", "#", "new")]))
    destinations = node.broker.destinations
    assert code(destinations.exchanges.delete, "d") == "declared"
    assert code(destinations.unbind, "d", "k", "a") == "declared" == code(destinations.unbind, "amq.topic", "#", "new")
    assert not destinations.bind("d", "k", "a")
    assert [*destinations.bindings_of(destinations.queues.all["new"])] == [("amq.topic", "#")]


def test_deleted_exchange_takes_its_bindings_along() -> None:
    node = Node(declared())
    destinations = node.broker.destinations
    node.declare_exchange("x", ExchangeSettings())
    for key in ("1", "2"):
        bind(node, "x", key, "a")
        bind(node, "x", key, "m")
    bind(node, "d", "k", "a")
    destinations.exchanges.delete("x")
    node.turn([])
    assert [*destinations.bindings_of(destinations.queues.all["a"])] == [("d", "k")]
    assert [*destinations.bindings_of(destinations.queues.all["m"])] == [] and destinations.exchanges.count == 1
    assert code(destinations.exchanges.delete, "x") == "no-such-destination"
    assert node.disk.platter.declared == {} and len(node.disk.platter.bindings) == 1


def test_auto_delete_exchange_goes_with_its_last_binding() -> None:
    node = Node(declared())
    destinations = node.broker.destinations
    node.declare_exchange("x", ExchangeSettings(auto_delete=True))
    bind(node, "x", "1", "a")
    bind(node, "x", "2", "m")
    assert destinations.unbind("x", "1", "a") and "x" in destinations.exchanges.all
    assert destinations.unbind("x", "2", "m") and "x" not in destinations.exchanges.all
    node.turn([])
    assert node.disk.platter.declared == {} and not destinations.exchanges.bound


@pytest.mark.durability("D24")
def test_deleted_queue_takes_its_bindings_along() -> None:
    node = Node(declared())
    destinations = node.broker.destinations
    node.declare_exchange("x", ExchangeSettings(auto_delete=True))
    node.open(1)
    node.say(subscribe(1, "q"), unsubscribe(1, "q"))
    bind(node, "x", "k", "q")
    bind(node, "amq.topic", "#", "q")
    node.turn([])
    assert len(node.disk.platter.bindings) == 2
    node.broker.parts.lifetimes.delete(destinations.queues.all["q"])
    node.turn([])
    assert not node.disk.platter.bindings and not node.disk.platter.declared and "x" not in destinations.exchanges.all
    node.say(send(1, "/exchange/amq.topic/k", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and not node.has("q")


def test_binding_names_an_exchange_and_a_queue_that_are_there() -> None:
    node = Node(declared())
    assert code(bind, node, "none", "k", "a") == "no-such-destination" == code(bind, node, "d", "k", "none")
    assert code(bind, node, "d", "k", "$durable/topic/t/1") == "reserved" == code(bind, node, "d", "k", "$outbox/b")
    assert bind(node, "d", "k", "a") and not bind(node, "d", "k", "a")
    unbind = node.broker.destinations.unbind
    assert not unbind("d", "other", "a") and unbind("d", "k", "a") and not unbind("d", "k", "a")
    assert code(unbind, "none", "k", "a") == "no-such-destination"


def test_bindings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BINDINGS_MAX", 3)
    node = Node(declared())
    node.open(1, 2)
    node.say(subscribe(1, "/exchange/d/1"), subscribe(1, "/topic/t", durable=True))
    assert bind(node, "d", "2", "a") and code(bind, node, "d", "3", "a") == "too-many-bindings"
    node.say(subscribe(2, "/topic/u", durable=True))
    assert node.refusal(2).code == "too-many-bindings"
    assert not any("/topic/u" in name for name in node.broker.destinations.queues.durables)
    node.close(1)
    assert bind(node, "d", "3", "a") and code(bind, node, "d", "4", "a") == "too-many-bindings"


def test_exchanges_and_durable_subscriptions_count_as_destinations() -> None:
    node = Node(Declarations(create_queues=True, create_topics=True), Limits(max_destinations=3))
    destinations = node.broker.destinations
    node.open(1, 2, 3)
    assert node.declare_exchange("x", ExchangeSettings())
    node.say(subscribe(1, "/topic/t", durable=True), subscribe(1, "q"))
    assert code(node.declare_exchange, "y", ExchangeSettings()) == "too-many-destinations"
    node.say(subscribe(2, "/topic/u", durable=True))
    assert node.refusal(2).code == "too-many-destinations"
    destinations.exchanges.delete("x")
    assert node.declare_exchange("y", ExchangeSettings())


# ---- restart ---------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D24")
def test_durable_exchange_and_its_bindings_to_persistent_queues_outlive_a_restart() -> None:
    node = Node(declared())
    node.declare_exchange("x", ExchangeSettings(type=TOPIC, auto_delete=True))
    node.declare_exchange("gone", ExchangeSettings(durable=False))
    for queue in ("a", "m"):
        for exchange in ("x", "gone", "amq.fanout", "d"):
            bind(node, exchange, "k.#", queue)
    node.turn([])
    again = node.crashed()
    there = again.broker.destinations
    assert there.exchanges.get("x").settings == ExchangeSettings(type=TOPIC, auto_delete=True)
    assert "gone" not in there.exchanges.all
    assert sorted(there.bindings_of(there.queues.all["a"])) == [("amq.fanout", "k.#"), ("d", "k.#"), ("x", "k.#")]
    assert [*there.bindings_of(there.queues.all["m"])] == []
    again.open(1)
    again.say(send(1, "/exchange/x/k.1"))
    assert counts(again, "a", "m") == [1, 0]
    assert there.unbind("x", "k.#", "a") and there.unbind("d", "k.#", "a") and there.unbind("amq.fanout", "k.#", "a")
    again.turn([])
    assert not again.disk.platter.bindings and not again.disk.platter.declared


def test_what_was_not_committed_is_not_bound_after_a_crash() -> None:
    node = Node(declared())
    node.auto = False
    node.declare_exchange("x", ExchangeSettings())
    bind(node, "x", "k", "a")
    again = node.crashed()
    assert "x" not in again.broker.destinations.exchanges.all and again.broker.destinations.exchanges.count == 0


def test_bindings_of_the_configuration_are_made_at_each_start_and_only_there() -> None:
    with_binding = declared(bindings=[Binding("d", "k", "a"), Binding("t", "#", "m")])
    node = Node(with_binding)
    assert not node.disk.platter.bindings
    again = node.again_on(node.disk.platter)
    there = again.broker.destinations
    assert [[*there.bindings_of(there.queues.all[queue])] for queue in "am"] == [[("d", "k")], [("t", "#")]]
    without = again.again_on(again.disk.platter, declarations=declared()).broker.destinations
    assert without.exchanges.count == 0


def test_binding_that_the_configuration_now_has_too_stays_and_cannot_be_unbound() -> None:
    node = node_with(("d", "k", "a"))
    node.turn([])
    again = node.again_on(node.disk.platter, declarations=declared(bindings=[Binding("d", "k", "a")]))
    there = again.broker.destinations
    assert there.exchanges.count == 1 and code(there.unbind, "d", "k", "a") == "declared"


def test_exchange_that_left_the_configuration_takes_its_bindings_along() -> None:
    node = node_with(("d", "k", "a"), ("amq.direct", "k", "a"))
    again = node.again_on(node.disk.platter, declarations=Declarations())
    there = again.broker.destinations
    assert [*there.bindings_of(there.queues.all["a"])] == [("amq.direct", "k")]
    again.turn([])
    assert len(again.disk.platter.bindings) == 1


def test_what_the_configuration_now_declares_is_as_that_says_and_keeps_its_bindings() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(), "b": QueueSettings()}))
    node.declare_exchange("x", ExchangeSettings(type=DIRECT))
    node.declare_fanout("f", ("a",))
    bind(node, "x", "k.#", "a")
    bind(node, "x", ".".join(["w"] * 50), "a")
    node.turn([])
    now = Declarations(
        queues={"a": QueueSettings(), "b": QueueSettings()},
        exchanges={"x": ExchangeSettings(type=TOPIC)},
        fanouts={"f": ("b",)},
    )
    again = node.again_on(node.disk.platter, declarations=now)
    there = again.broker.destinations
    assert there.exchanges.get("x").type == TOPIC and there.fanouts.get("f").children == ("b",)
    assert [*there.bindings_of(there.queues.all["a"])] == [("x", "k.#")], "a topic exchange has no key of 50 words"
    assert len(again.disk.platter.bindings) == 1
    back = again.again_on(again.disk.platter, declarations=Declarations()).broker.destinations
    assert back.exchanges.get("x").type == DIRECT and back.fanouts.get("f").children == ("a",)
    assert [*back.bindings_of(back.queues.all["a"])] == [("x", "k.#")]


def test_queue_of_the_configuration_is_bound_again_when_first_use_makes_it_again() -> None:
    queues = {"q": QueueSettings(auto_delete=True)}
    node = Node(Declarations(queues=queues, bindings=[Binding("amq.fanout", "", "q")]))
    node.open(1)
    node.say(subscribe(1, "q"), unsubscribe(1, "q"))
    assert not node.has("q")
    node.say(subscribe(1, "q", AUTO), send(1, "/exchange/amq.fanout", b"x"))
    assert node.bodies(1) == [b"x"]


# ---- subscribers -----------------------------------------------------------------------------------------------------


def test_subscriber_gets_a_queue_of_its_own_with_the_windows_of_any_queue() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(subscribe(1, "/exchange/t/a.*", receipt=b"r"), subscribe(2, "/exchange/t/a.#", AUTO))
    assert node.receipts(1) == [b"r"]
    node.say(send(3, "/exchange/t/a.b", b"1", b"r"), send(3, "/exchange/t/a.c", b"2"), send(3, "/exchange/t/a", b"3"))
    assert node.receipts(3) == [b"r"] and node.bodies(2) == [b"1", b"2", b"3"]
    first = node.message(1)
    assert (first.message.body, first.message.destination, first.ack_due) == (b"1", "/exchange/t/a.b", True)
    node.say(nack(first))
    again = node.message(1)
    assert (again.message.body, again.redelivered) == (b"1", True)
    node.say(ack(again))
    assert node.message(1).message.body == b"2"
    assert node.disk.platter.messages == {} and node.broker.destinations.exchanges.count == 2


def test_own_queue_goes_with_its_subscription_or_its_connection() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(subscribe(1, "/exchange/t/a"), subscribe(2, "/exchange/t/#"), send(3, "/exchange/t/a"))
    unacked = node.message(1)
    node.say(unsubscribe(1, "/exchange/t/a"), ack(unacked, receipt=b"r"))
    node.close(2)
    exchanges = node.broker.destinations.exchanges
    assert node.receipts(1) == [b"r"] and not exchanges.private and not exchanges.bound and exchanges.count == 0
    assert not exchanges.get("t").bindings and not exchanges.get("t").things
    assert node.in_use_bytes() == 0


def test_own_queue_takes_its_auto_delete_exchange_along() -> None:
    node = Node(declared())
    node.declare_exchange("x", ExchangeSettings(auto_delete=True))
    node.open(1)
    node.say(subscribe(1, "/exchange/x/k"))
    node.close(1)
    assert "x" not in node.broker.destinations.exchanges.all


def test_pattern_of_a_subscriber_is_checked_as_a_binding() -> None:
    node = node_with()
    node.open(1, 2)
    node.say(subscribe(1, "/exchange/t/w.*.*.*.*"), subscribe(2, "/exchange/t/" + ".".join(["w"] * 49)))
    assert node.refusal(1).code == "too-many-words" == node.refusal(2).code
    assert not node.broker.destinations.exchanges.private


@pytest.mark.parametrize("bound", ["MEMORY_MESSAGES_MAX", "MEMORY_BYTES_MAX"])
def test_slow_subscriber_is_closed_and_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(module, bound, 5)
    node = node_with(("d", "k", "a"))
    node.open(1, 2, 3)
    node.say(subscribe(1, "/exchange/d/k", name=b"1"), subscribe(1, "/exchange/d/other", name=b"2"))
    node.say(subscribe(2, "/exchange/d/k", AUTO))
    for number in range(5):
        node.say(send(3, "/exchange/d/k", b"x", b"%d" % number))
    assert not node.is_refused(1)
    node.say(send(3, "/exchange/d/k", b"x", b"5", mandatory=True))
    refusal = node.refusal(1)
    assert refusal.code == "slow-subscriber" and "5 messages" in refusal.sentence
    assert node.receipts(3) == [b"%d" % n for n in range(6)] and len(node.bodies(2)) == 6 and counts(node, "a") == [6]
    exchanges = node.broker.destinations.exchanges
    assert len(exchanges.private) == 1, "the other subscription of the closed connection has gone too"
    node.say(send(3, "/exchange/d/k", b"x", b"6"))
    assert not any(isinstance(reply, Refuse) for reply in node.inbox[1])
    node.close(1)
    assert len(exchanges.private) == 1 and exchanges.count == 2
    assert [n.event for n in node.notes].count("slow_subscriber") == 1
    counters = node.broker.context.counters
    assert (counters["refusals"], counters["slow_exchange_subscribers"]) == (1, 1)


def test_memory_of_own_queues_is_weighed_and_the_largest_holder_closed() -> None:
    node = Node(declared(), Limits(max_memory_bytes=100_000))
    node.open(1, 2, 3)
    node.say(subscribe(1, "/exchange/d/k"), subscribe(2, "/exchange/d/other"))
    node.say(begin(3), *(send(3, "/exchange/d/k", b"x" * 5000, transaction=b"t") for _ in range(14)), commit(3))
    assert 14 * 5000 < node.in_use_bytes() < 100_000
    node.say(begin(3), *(send(3, "/exchange/d/k", b"x" * 5000, transaction=b"t") for _ in range(7)), commit(3))
    node.wait(0.25)
    assert node.refusal(1).code == "memory" and not node.is_refused(2) and not node.is_refused(3)
    node.close(1)
    node.wait(0.25)
    assert node.in_use_bytes() == 0


def test_what_a_connection_sends_does_not_overtake_what_waits_for_the_disk() -> None:
    node = node_with(("d", "both", "a"))
    node.open(1, 2)
    node.say(subscribe(2, "/exchange/d/both", AUTO, name=b"1"), subscribe(2, "/exchange/d/alone", AUTO, name=b"2"))
    node.auto = False
    node.say(send(1, "/exchange/d/both", b"1"), send(1, "/exchange/d/alone", b"2", b"r"))
    assert node.bodies(2) == [] and node.receipts(1) == []
    node.auto = True
    node.turn([])
    assert node.bodies(2) == [b"1", b"2"] and node.receipts(1) == [b"r"]


def test_copies_of_one_turn_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "COPIES_PER_TURN", 10)
    node = Node(Declarations(create_queues=True))
    node.open(1)
    for number in range(6):
        node.say(send(1, f"m{number}"))
        bind(node, "amq.fanout", "", f"m{number}")
    node.turn([])
    node.auto = False
    node.turn([Read(1, [send(1, "/exchange/amq.fanout", receipt=b"%d" % n) for n in range(4)])])
    turns = 1
    while node.broker.backlog:
        node.turn([])
        turns += 1
    node.auto = True
    node.turn([])
    assert turns == 4 and node.receipts(1) == [b"0", b"1", b"2", b"3"]


# ---- immediate -------------------------------------------------------------------------------------------------------


def test_immediate_counts_the_window_that_two_subscriptions_share_once() -> None:
    node = node_with()
    node.open(1, 2)
    node.say(subscribe(1, "a", name=b"1"), subscribe(1, "a", name=b"2"))
    node.say(begin(2), send(2, "a", transaction=b"t", immediate=True), send(2, "a", transaction=b"t", immediate=True))
    node.say(commit(2))
    assert node.refusal(2).code == "no-consumer"


@pytest.mark.parametrize("queue", ["a", "m"])
def test_immediate_needs_a_consumer_with_room(queue: str) -> None:
    node = node_with(("d", "k", queue))
    node.open(1, 2, 3, 4)
    node.say(send(1, queue, immediate=True))
    assert node.refusal(1).code == "no-consumer"
    node.say(subscribe(2, queue), send(3, "/exchange/d/k", b"1", b"r", immediate=True))
    assert node.receipts(3) == [b"r"]
    first = node.message(2)
    node.say(send(3, queue, immediate=True))
    assert node.refusal(3).code == "no-consumer"
    node.say(ack(first), send(4, queue, b"2", b"r", immediate=True))
    assert node.receipts(4) == [b"r"] and node.bodies(2) == [b"2"]


def test_immediate_counts_what_is_on_its_way_to_the_disk() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(subscribe(1, "a", prefetch_count=2))
    node.auto = False
    node.say(send(2, "a", immediate=True), send(2, "a"), send(3, "a", immediate=True))
    assert node.is_refused(3) and not node.is_refused(2)


def test_immediate_is_judged_at_commit_for_all_at_once() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(subscribe(1, "a", prefetch_count=2))
    for connection, number in ((2, 3), (3, 2)):
        node.say(begin(connection))
        node.say(*(send(connection, "a", transaction=b"t", immediate=True) for _ in range(number)))
        node.say(commit(connection, receipt=b"r"))
    assert node.refusal(2).code == "no-consumer" and node.receipts(3) == [b"r"] and len(node.bodies(1)) == 2


def test_immediate_needs_a_consumer_of_every_queue() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(), "b": QueueSettings()}, fanouts={"f": ("a", "b")}))
    bind(node, "amq.fanout", "", "a")
    bind(node, "amq.fanout", "", "b")
    node.open(1, 2, 3, 4, 5)
    node.say(subscribe(1, "a", AUTO), send(2, "/exchange/amq.fanout", immediate=True))
    node.say(send(3, "/fanout/f", immediate=True))
    assert node.refusal(2).code == "no-consumer" == node.refusal(3).code and counts(node, "a", "b") == [0, 0]
    node.say(subscribe(5, "b", AUTO), send(4, "/exchange/amq.fanout", b"1", immediate=True))
    node.say(send(4, "/fanout/f", b"2", immediate=True))
    assert node.bodies(1) == node.bodies(5) == [b"1", b"2"]


def test_immediate_to_an_exchange_that_nobody_is_behind_is_refused() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(send(1, "/exchange/d/k", immediate=True))
    assert node.refusal(1).code == "no-consumer"
    node.say(subscribe(2, "/exchange/d/k"), send(3, "/exchange/d/k", b"1", b"r", immediate=True))
    assert node.bodies(2) == [b"1"] and node.receipts(3) == [b"r"]
    node.say(send(3, "/exchange/d/k", immediate=True))
    assert node.refusal(3).code == "no-consumer"


def test_immediate_and_a_delay_contradict_each_other() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(subscribe(1, "a", AUTO), send(2, "a", immediate=True, delay_ms=1000))
    node.say(send(3, "a", b"now", immediate=True, delay_ms=0))
    assert node.refusal(2).code == "no-consumer" and node.bodies(1) == [b"now"]


def test_immediate_to_replies() -> None:
    node = node_with()
    node.open(1, 2, 3, 4)
    node.say(subscribe(1, "a", AUTO), send(2, "a", reply_to="back"))
    address = (header(node.message(1).message, b"reply-to") or b"").decode()
    node.say(send(1, address, b"answer", b"r", immediate=True))
    assert node.receipts(1) == [b"r"] and node.bodies(2) == [b"answer"]
    node.say(send(3, "/temp-queue/mine", immediate=True))
    assert node.refusal(3).code == "no-consumer"
    node.close(2)
    node.say(send(4, address, immediate=True))
    assert node.refusal(4).code == "no-consumer"


def test_immediate_to_a_topic_needs_a_subscriber() -> None:
    node = node_with()
    node.open(1, 2, 3)
    node.say(send(1, "/topic/t", immediate=True))
    assert node.refusal(1).code == "no-consumer"
    node.say(subscribe(2, "/topic/t", AUTO), send(3, "/topic/t", b"x", immediate=True))
    assert node.bodies(2) == [b"x"]


# ---- run-time queues and fanouts -------------------------------------------------------------------------------------


def test_queue_declared_at_run_time_keeps_its_settings_over_a_restart() -> None:
    node = Node(Declarations())
    destinations = node.broker.destinations
    settings = QueueSettings(max_messages=1, overflow="reject", dead_letter="dead")
    given = {"max_messages": 1, "overflow": "reject", "dead_letter": "dead"}
    assert destinations.queues.declare("q", settings, given) and not destinations.queues.declare("q", settings, given)
    assert node.has("dead")
    assert code(destinations.queues.declare, "q", QueueSettings(), "{}") == "declared-otherwise"
    node.turn([])
    again = node.again_on(node.disk.platter)
    assert again.broker.destinations.queues.all["q"].settings == settings
    pattern = Declarations(queue_patterns=[("#", QueueSettings(max_messages=7, message_ttl_ms=9))])
    by_pattern = again.again_on(again.disk.platter, declarations=pattern).broker.destinations.queues.all["q"].settings
    assert (by_pattern.max_messages, by_pattern.overflow, by_pattern.message_ttl_ms) == (1, "reject", 9)
    exact = Declarations(queues={"q": QueueSettings(max_messages=9)})
    assert again.again_on(again.disk.platter, declarations=exact).broker.destinations.queues.all["q"].settings == (
        QueueSettings(max_messages=9)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("$durable/x", "reserved"),
        ("$outbox/x", "reserved"),
        ("a.*", "wildcard"),
        ("", "bad-request"),
        ("x" * 256, "bad-request"),
    ],
)
def test_wrong_name_of_a_queue_is_refused(name: str, expected: str) -> None:
    assert code(Node().broker.destinations.queues.declare, name, QueueSettings(), "{}") == expected


def test_dead_letter_queue_is_made_again_whatever_create_says() -> None:
    node = Node(Declarations())
    destinations = node.broker.destinations
    destinations.queues.declare("q", QueueSettings(dead_letter="dead"), {"dead_letter": "dead"})
    node.broker.parts.lifetimes.delete(destinations.queues.all["dead"])
    node.open(1)
    node.say(subscribe(1, "q"), send(1, "q", b"x"))
    node.say(nack(node.message(1), requeue=False))
    assert counts(node, "q", "dead") == [0, 1]


def test_fanout_declared_at_run_time() -> None:
    node = Node(Declarations())
    assert node.declare_fanout("f", ("a", "b")) and not node.declare_fanout("f", ("b", "a"))
    assert code(node.declare_fanout, "f", ("a",)) == "declared-otherwise"
    node.turn([])
    again = node.again_on(node.disk.platter)
    again.open(1)
    again.say(send(1, "/fanout/f", receipt=b"r"))
    assert again.receipts(1) == [b"r"] and counts(again, "a", "b") == [1, 1]
    again.broker.destinations.fanouts.delete("f")
    again.turn([])
    assert again.disk.platter.declared == {} and again.has("a")
    assert code(again.broker.destinations.fanouts.delete, "f") == "no-such-destination"
    config = Node(Declarations(queues={"a": QueueSettings()}, fanouts={"f": ("a",)}))
    fanouts = config.broker.destinations.fanouts
    assert code(fanouts.delete, "f") == "declared" and not config.declare_fanout("f", ("a",))


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_stats_tell_of_exchanges() -> None:
    node = node_with(("d", "k", "a"))
    node.open(1)
    node.say(send(1, "/exchange/d/k"), send(1, "/exchange/d/none"))
    numbers = node.admin(1, do="stats")["exchanges"]
    assert numbers["d"] == {
        "type": "direct", "durable": True, "auto_delete": False, "accepted": 2, "unrouted": 1, "bindings": 1,
    }  # fmt: skip
    assert set(numbers) == {*STANDARD_EXCHANGES, "d", "t"}


def test_consumer_of_a_deleted_queue_gets_nothing_more_and_may_ack_what_it_has() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a", prefetch_count=2), *(send(2, "a", b"%d" % n) for n in range(3)))
    first, second = node.messages(1)
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["a"])
    node.turn([])
    node.say(ack(first, receipt=b"1"), nack(second, receipt=b"2"))
    assert node.receipts(1) == [b"1", b"2"] and node.bodies(1) == []
    assert node.disk.platter.messages == {} and node.broker.destinations.windows.out == 0
    node.say(unsubscribe(1, "a", receipt=b"3"), send(2, "a", b"new"))
    assert node.receipts(1) == [b"1", b"2", b"3"] and node.stored("a") == [b"new"]
    node.say(subscribe(1, "a", CLIENT_INDIVIDUAL))
    assert node.bodies(1) == [b"new"]


# ---- /amq/queue: what is there, and nothing else ---------------------------------------------------------------------


def test_existing_queue_gets_what_is_sent_and_one_that_is_not_there_is_never_made() -> None:
    node = node_with()
    node.open(1)
    node.say(send(1, "/amq/queue/a", b"there", receipt=b"1"), send(1, "/amq/queue/new", b"lost", receipt=b"2"))
    assert node.stored("a") == [b"there"] and not node.has("new")
    assert node.broker.context.counters["unrouted"] == 1
    node.say(subscribe(1, "/amq/queue/a", ack=CLIENT_INDIVIDUAL))
    assert node.message(1).message.destination == "/amq/queue/a"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (send(1, "/amq/queue/new", mandatory=True), "no-subscriber"),
        (send(1, "/amq/queue/new", immediate=True), "no-consumer"),
        (subscribe(1, "/amq/queue/new"), "no-such-destination"),
    ],
)
def test_queue_that_is_not_there_is_refused_where_that_matters(command: object, code: str) -> None:
    node = node_with()
    node.open(1)
    node.say(command)  # type: ignore[arg-type]
    assert node.refusal(1).code == code and not node.has("new")


def test_queue_that_is_deleted_while_a_message_is_on_its_way_to_the_disk_delivers_it_no_more() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(1, "a", AUTO))
    node.auto = False
    node.say(send(2, "a", b"x", b"r"))
    node.seal()
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["a"])
    node.auto = True
    node.turn([])
    assert node.receipts(2) == [b"r"] and node.bodies(1) == [] and node.disk.platter.messages == {}


def test_duplicate_that_is_immediate_is_receipted_though_nobody_is_there() -> None:
    node = Node(Declarations(queues={"a": QueueSettings(dedup_window_s=60)}))
    node.open(1, 2)
    node.say(subscribe(1, "a", AUTO), send(2, "a", dedup_id=b"1", immediate=True), unsubscribe(1, "a"))
    node.say(send(2, "a", dedup_id=b"1", immediate=True, receipt=b"r"))
    assert node.receipts(2) == [b"r"] and counts(node, "a") == [0]


def test_immediate_to_a_queue_that_is_not_there_makes_none() -> None:
    node = Node(Declarations(create_queues=True))
    node.open(1, 2)
    node.say(send(1, "new", immediate=True), begin(2), send(2, "new", transaction=b"t", immediate=True), commit(2))
    assert node.refusal(1).code == "no-consumer" == node.refusal(2).code and not node.has("new")


def test_reply_does_not_overtake_one_that_waits_for_the_disk() -> None:
    node = node_with()
    node.open(1, 2)
    node.say(subscribe(1, "m", AUTO), send(2, "m", reply_to="back"))
    address = (header(node.message(1).message, b"reply-to") or b"").decode()
    node.auto = False
    node.say(begin(1), send(1, "a", transaction=b"t"), send(1, address, b"1", transaction=b"t"), commit(1))
    node.say(send(1, address, b"2", b"r"))
    assert node.bodies(2) == [] and node.receipts(1) == []
    node.auto = True
    node.turn([])
    assert node.bodies(2) == [b"1", b"2"] and node.receipts(1) == [b"r"]


def test_request_with_a_reply_address_is_bounded_as_any_other() -> None:
    node = Node(Declarations(queues={"q": QueueSettings(max_messages=1, overflow="drop-oldest")}))
    node.open(1, 2)
    node.say(*(send(1, "q", b"%d" % n, b"%d" % n, reply_to="back") for n in range(2)), subscribe(2, "q", AUTO))
    request = node.message(2).message
    assert request.body == b"1" and node.receipts(1) == [b"0", b"1"]
    assert (header(request, b"reply-to") or b"").startswith(b"/reply-queue/")
