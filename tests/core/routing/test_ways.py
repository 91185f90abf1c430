"""Where messages go through exchanges: alternates, bindings to exchanges, headers, several keys; and after a crash."""

from random import Random

import pytest

from radiator.core.routing import exchanges as module
from radiator.core.routing import ways
from radiator.core.routing.matcher import NO_HEADERS
from radiator.model.errors import Refusal
from radiator.model.header_bindings import HEADERS_BINDINGS_MAX, arguments_key, match_of, words_of
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import KEY_WORDS_MAX
from radiator.model.patterns import matches
from radiator.model.settings import DIRECT, FANOUT, HEADERS, TOPIC, Binding, Declarations, ExchangeSettings
from radiator.model.settings import QueueSettings as Queue
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe

QUEUES = {name: Queue() for name in "abc"} | {"m": Queue(persistent=False)}


def node_of(**exchanges: ExchangeSettings) -> Node:
    node = Node(Declarations(queues=dict(QUEUES)))
    for name, settings in exchanges.items():
        node.declare_exchange(name, settings)
    node.open(1, 2)
    return node


def bind(node: Node, *bindings: tuple[str, str, str]) -> None:
    for binding in bindings:
        assert node.broker.destinations.bind(*binding)
    node.turn([])


def counts(node: Node, queues: str = "abc") -> list[int]:
    return [node.numbers(queue)["messages"] for queue in queues]


def code(call: object, *arguments: object) -> str:
    with pytest.raises(Refusal) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def numbers(node: Node, name: str) -> tuple[int, int]:
    exchange = node.broker.destinations.exchanges.get(name)
    return exchange.accepted, exchange.unrouted


# ---- alternates ------------------------------------------------------------------------------------------------------


def test_what_goes_nowhere_goes_to_the_alternate_and_on() -> None:
    node = node_of(
        x=ExchangeSettings(alternate="y"), y=ExchangeSettings(alternate="z"), z=ExchangeSettings(type="fanout")
    )
    bind(node, ("x", "a", "a"), ("y", "b", "b"), ("z", "", "c"))
    node.say(*(send(1, f"/exchange/x/{key}", receipt=b"r", mandatory=True) for key in "abc"))
    assert counts(node) == [1, 1, 1] and numbers(node, "x") == (3, 0) and numbers(node, "y") == (0, 0)


def test_alternate_that_is_not_there_or_leads_back_ends_the_way() -> None:
    node = node_of(
        x=ExchangeSettings(alternate="y"), y=ExchangeSettings(alternate="x"), w=ExchangeSettings(alternate="no")
    )
    node.say(send(1, "/exchange/x/k", receipt=b"1"), send(1, "/exchange/w/k", receipt=b"2"))
    assert node.receipts(1) == [b"1", b"2"] and numbers(node, "x") == (1, 1) == numbers(node, "w")
    assert numbers(node, "y") == (0, 0)
    node.say(send(1, "/exchange/x/k", mandatory=True))
    assert node.refusal(1).code == "no-subscriber"


def test_key_with_too_many_words_is_refused_where_it_reaches_a_topic_exchange() -> None:
    node = node_of(x=ExchangeSettings(alternate="t"), t=ExchangeSettings(type=TOPIC), f=ExchangeSettings(type=FANOUT))
    bind(node, ("t", "#", "a"), ("x", "b", "b"), ("f", "", "c"))
    node.broker.destinations.exchanges.lead_on("f", "", "t", is_declared=False)
    long = ".".join("a" * (KEY_WORDS_MAX + 1))
    node.open(3)
    for connection, name in enumerate("xf", 1):
        with pytest.raises(Refusal) as caught:
            node.broker.destinations.exchanges.ways(node.broker.destinations.exchanges.get(name), (long,), NO_HEADERS)
        assert caught.value.code == "too-many-words" and "/exchange/t" in str(caught.value)
        node.say(send(connection, f"/exchange/{name}/{long}", receipt=b"long"))
        assert node.refusal(connection).code == "too-many-words"
    node.say(send(3, "/exchange/x/" + long[2:], receipt=b"r"), send(3, f"/exchange/f/{long[2:]}"))
    assert node.receipts(3) == [b"r"] and counts(node) == [2, 0, 1]


def test_dead_letter_with_too_many_words_passes_a_topic_exchange_by_and_goes_to_the_others() -> None:
    node = node_of(f=ExchangeSettings(type=FANOUT), t=ExchangeSettings(type=TOPIC))
    bind(node, ("t", "#", "a"), ("f", "", "c"))
    node.broker.destinations.exchanges.lead_on("f", "", "t", is_declared=False)
    long = ".".join("a" * (KEY_WORDS_MAX + 1))
    assert [target.name for target in node.broker.destinations.dead_letter_targets("f", long)[0]] == ["c"]
    assert {target.name for target in node.broker.destinations.dead_letter_targets("f", long[2:])[0]} == {"a", "c"}


# ---- bindings to exchanges -------------------------------------------------------------------------------------------


def test_each_queue_gets_one_copy_on_whatever_ways_and_a_cycle_ends() -> None:
    node = node_of(x=ExchangeSettings(type=TOPIC), y=ExchangeSettings(type=FANOUT), z=ExchangeSettings())
    bind(node, ("x", "k.#", "/exchange/y"), ("y", "", "/exchange/z"), ("z", "k.1", "/exchange/x"), ("x", "#", "a"))
    bind(node, ("y", "", "a"), ("z", "k.1", "a"), ("z", "k.1", "b"), ("x", "#", "/exchange/x"))
    node.say(send(1, "/exchange/x/k.1"), send(1, "/exchange/x/k.2"), send(1, "/exchange/x/other"))
    assert counts(node) == [3, 1, 0]


def test_private_subscribers_and_transactions_are_reached_too() -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings())
    bind(node, ("x", "k", "/exchange/y"), ("y", "k", "a"))
    node.say(subscribe(2, "/exchange/y/k"), begin(1), send(1, "/exchange/x/k", b"1", transaction=b"t"))
    assert counts(node) == [0, 0, 0]
    node.say(commit(1, receipt=b"r"))
    assert counts(node) == [1, 0, 0] and node.bodies(2) == [b"1"] and node.receipts(1) == [b"r"]


def test_binding_is_made_once_undone_once_and_counted() -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings())
    there = node.broker.destinations
    assert (
        there.bind("x", "k", "/exchange/y") and not there.bind("x", "k", "/exchange/y") and there.exchanges.count == 1
    )
    assert there.unbind("x", "k", "/exchange/y") and not there.unbind("x", "k", "/exchange/y")
    assert there.exchanges.count == 0 and there.exchanges.get("x").is_plain
    for source, to in (("none", "/exchange/x"), ("x", "/exchange/none")):
        assert code(there.bind, source, "k", to) == "no-such-destination" == code(there.unbind, source, "k", to)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings())
    there = node.broker.destinations
    monkeypatch.setattr(module, "SOURCES_MAX", 2)
    bind(node, ("x", "1", "/exchange/y"), ("x", "2", "/exchange/y"))
    assert code(there.bind, "x", "3", "/exchange/y") == "too-many-bindings"
    monkeypatch.setattr(module, "BINDINGS_MAX", 3)
    bind(node, ("x", "1", "/exchange/amq.topic"))
    assert code(there.bind, "x", "2", "/exchange/amq.topic") == "too-many-bindings"


def test_message_through_too_many_exchanges_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "VISITED_MAX", 3)
    node = node_of(**{f"x{n}": ExchangeSettings(type=FANOUT) for n in range(5)})
    bind(node, *((f"x{n}", "", f"/exchange/x{n + 1}") for n in range(4)), ("x4", "", "a"))
    node.say(send(1, "/exchange/x2/k"))
    assert counts(node) == [1, 0, 0]
    node.say(send(1, "/exchange/x1/k"))
    assert node.refusal(1).code == "too-many-bindings" and counts(node) == [1, 0, 0]


def test_either_exchange_takes_the_binding_along_and_auto_delete_goes_up_the_chain() -> None:
    node = node_of(x=ExchangeSettings(auto_delete=True), y=ExchangeSettings(auto_delete=True), z=ExchangeSettings())
    exchanges = node.broker.destinations.exchanges
    bind(node, ("x", "k", "/exchange/y"), ("y", "k", "/exchange/z"), ("z", "k", "/exchange/amq.topic"))
    exchanges.delete("z")
    node.turn([])
    assert {"x", "y", "z"}.isdisjoint(exchanges.all) and exchanges.count == 0 and not node.disk.platter.declared
    assert not exchanges.get("amq.topic").sources


@pytest.mark.parametrize("leads", ["xy", "xx", "xy yx", "xy yz zx", "xx xy", "yx zx"])
def test_auto_delete_exchange_that_leads_on_is_deleted_once(leads: str) -> None:
    node = node_of(**{name: ExchangeSettings(type=FANOUT, auto_delete=True) for name in "xyz"})
    exchanges = node.broker.destinations.exchanges
    bind(node, *((one, "", f"/exchange/{to}") for one, to in leads.split()))
    exchanges.delete("x")
    node.turn([])
    assert "x" not in exchanges.all and exchanges.count == 0
    assert code(exchanges.delete, "x") == "no-such-destination"


def test_long_chain_of_auto_delete_goes_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCES_MAX", 4)
    node = node_of(**{f"x{n}": ExchangeSettings(auto_delete=True) for n in range(9)}, end=ExchangeSettings())
    exchanges = node.broker.destinations.exchanges
    bind(node, *((f"x{n}", "", f"/exchange/x{n + 1}") for n in range(8)), ("x8", "", "/exchange/end"))
    exchanges.delete("end")
    assert "x0" in exchanges.all and "x8" not in exchanges.all
    for _ in range(10):
        node.wait(2)
    assert not [name for name in exchanges.all if name.startswith("x")] and exchanges.count == 0


# ---- after a crash ---------------------------------------------------------------------------------------------------


@pytest.mark.durability("D24")
def test_bindings_between_durable_exchanges_outlive_a_crash_and_no_others_do() -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings(alternate="z"), gone=ExchangeSettings(durable=False))
    bind(node, ("x", "k", "/exchange/y"), ("x", "k", "/exchange/gone"), ("gone", "k", "/exchange/y"), ("y", "k", "a"))
    bind(node, ("amq.headers", '{"f":"1"}', "b"), ("amq.topic", "#", "/exchange/amq.headers"))
    again = node.crashed()
    exchanges = again.broker.destinations.exchanges
    assert [(one.name, key) for one, key in exchanges.get("y").sources] == [("x", "k")] and exchanges.count == 4
    assert exchanges.get("y").settings == ExchangeSettings(alternate="z")
    again.open(1)
    again.say(send(1, "/exchange/x/k"), send(1, "/exchange/amq.topic/k", headers=b"f:1\n"))
    assert counts(again) == [1, 1, 0]
    assert again.broker.destinations.unbind("x", "k", "/exchange/y")
    again.turn([])
    third = again.crashed().broker.destinations.exchanges
    assert not third.get("y").sources and third.get("amq.headers").sources


def test_binding_that_was_not_committed_is_not_there_after_a_crash() -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings())
    node.turn([])
    node.auto = False
    node.broker.destinations.bind("x", "k", "/exchange/y")
    assert not node.crashed().broker.destinations.exchanges.get("y").sources


def test_binding_of_an_exchange_that_has_another_type_now_goes() -> None:
    node = node_of(x=ExchangeSettings(), y=ExchangeSettings())
    bind(node, ("x", "k", "/exchange/y"))
    other = Declarations(queues=dict(QUEUES), exchanges={"x": ExchangeSettings(type=HEADERS)})
    there = node.again_on(node.disk.platter, declarations=other).broker.destinations
    assert not there.exchanges.get("y").sources and there.exchanges.count == 0


def test_bindings_of_the_configuration_are_made_at_a_start_and_not_undone() -> None:
    declared = Declarations(
        queues=dict(QUEUES),
        exchanges={"x": ExchangeSettings(alternate="y"), "y": ExchangeSettings(internal=True)},
        bindings=[Binding("x", "k", "/exchange/y"), Binding("y", "k", "a"), Binding("amq.match", '{"f":"1"}', "b")],
    )
    node = Node(declared)
    node.open(1)
    node.say(send(1, "/exchange/x/k"), send(1, "/exchange/amq.match", headers=b"f:1\n"))
    assert counts(node) == [1, 1, 0] and not node.disk.platter.declared
    assert code(node.broker.destinations.unbind, "x", "k", "/exchange/y") == "declared"


# ---- headers, internal, several keys ---------------------------------------------------------------------------------


def test_headers_bindings_are_told_apart_by_their_arguments() -> None:
    node = node_of()
    there = node.broker.destinations
    bind(node, ("amq.headers", '{"f":1}', "a"), ("amq.headers", '{"f":2}', "a"), ("amq.match", "", "b"))
    assert not there.bind("amq.headers", '{ "f": "1" }', "a")
    node.say(*(send(1, "/exchange/amq.headers/k", headers=b"f:%d\n" % n) for n in (1, 2, 3)))
    node.say(send(1, "/exchange/amq.match"))
    assert counts(node) == [2, 1, 0] and numbers(node, "amq.headers") == (3, 1)
    assert there.unbind("amq.headers", '{"f":1}', "a") and not there.unbind("amq.headers", '{"f":1}', "a")
    assert code(there.bind, "amq.headers", "k", "a") == "bad-request"


def test_exchange_of_type_headers_has_so_many_bindings_and_no_more() -> None:
    node = node_of()
    bind(node, *(("amq.headers", arguments_key({"n": n}), "a") for n in range(HEADERS_BINDINGS_MAX)))
    bind_ = node.broker.destinations.bind
    assert (
        code(bind_, "amq.headers", "{}", "a")
        == "too-many-bindings"
        == code(bind_, "amq.headers", "{}", "/exchange/amq.topic")
    )


def test_nobody_sends_to_an_internal_exchange_and_others_lead_to_it() -> None:
    node = node_of(x=ExchangeSettings(), i=ExchangeSettings(internal=True))
    bind(node, ("x", "k", "/exchange/i"), ("i", "k", "a"))
    node.say(send(1, "/exchange/x/k"), send(2, "/exchange/i/k"))
    assert counts(node) == [1, 0, 0] and node.refusal(2).code == "reserved"


def test_several_keys_make_one_copy_for_each_queue() -> None:
    node = node_of(x=ExchangeSettings(type=TOPIC))
    bind(node, ("x", "1", "a"), ("x", "2", "b"), ("x", "*", "c"))
    node.say(send(1, "/exchange/x/1", more_keys=("2", "3"), receipt=b"r"), send(1, "/exchange/x/a.b", more_keys=("3",)))
    assert counts(node) == [1, 1, 2] and numbers(node, "x") == (2, 0)


@pytest.mark.parametrize("address", ["/queue/a", "/amq/queue/a"])
def test_several_queues_get_one_copy_each_where_they_are_there(address: str) -> None:
    node = node_of()
    node.say(send(1, address, more_keys=("b", "none", "a"), receipt=b"r"))
    assert counts(node) == [1, 1, 0] and not node.stats().get("unrouted", 0)
    node.say(send(1, "/amq/queue/none", more_keys=("c",), mandatory=True))
    assert counts(node) == [1, 1, 1]
    node.say(send(1, "/amq/queue/none", more_keys=("nor",), mandatory=True))
    assert node.refusal(1).code == "no-subscriber"


# ---- against a small model -------------------------------------------------------------------------------------------


def model_of(
    exchanges: dict[str, ExchangeSettings],
    bindings: list[tuple[str, str, str]],
    to: str,
    keys: tuple[str, ...],
    headers: bytes,
) -> set[str]:
    """Follows every binding of everything that is reached, until nothing new is."""
    reached, found = {to}, set()
    words = words_of(headers, ESCAPING_ALL)

    def does_match(name: str, bound: str) -> bool:
        type_ = exchanges[name].type
        if type_ == HEADERS:
            return match_of(bound).matches(words)
        return type_ == FANOUT or any(bound == key if type_ == DIRECT else matches(bound, key) for key in keys)

    while True:
        before = len(reached), len(found)
        for name in sorted(reached):
            there = {target for source, bound, target in bindings if source == name and does_match(name, bound)}
            alternate = exchanges[name].alternate
            if not there and alternate in exchanges:
                there = {f"/exchange/{alternate}"}
            reached |= {one.removeprefix("/exchange/") for one in there if one.startswith("/exchange/")}
            found |= {one for one in there if not one.startswith("/exchange/")}
        if before == (len(reached), len(found)):
            return found


@pytest.mark.parametrize("start", range(60))
def test_messages_go_where_a_naive_model_says(start: int) -> None:
    random = Random(start)
    names = [f"x{n}" for n in range(6)]
    exchanges = {
        name: ExchangeSettings(
            type=random.choice((DIRECT, TOPIC, FANOUT, HEADERS)),
            alternate=random.choice((None, None, *names, "none")),
        )
        for name in names
    }
    node = node_of(**exchanges)
    bindings: list[tuple[str, str, str]] = []
    for _ in range(random.randrange(4, 24)):
        name = random.choice(names)
        key = random.choice(("1", "1.2", "*", "#", "1.*"))
        if exchanges[name].type == HEADERS:
            match = random.choice(("all", "any", "all-with-x"))
            key = arguments_key({random.choice("fgx"): random.choice(("1", None)), "x-match": match})
        to = random.choice(("a", "b", "c", "m", *(f"/exchange/{one}" for one in names)))
        if node.broker.destinations.bind(name, key, to):
            bindings.append((name, key, to))
        if random.random() < 0.2:
            gone = bindings.pop(random.randrange(len(bindings)))
            assert node.broker.destinations.unbind(*gone)
    node.turn([])
    for _ in range(8):
        to = random.choice(names)
        keys = tuple(random.sample(("1", "1.2", "3"), random.randrange(1, 3)))
        headers = random.choice((b"", b"f:1\n", b"f:1\ng:2\n", b"x:1\n"))
        before = counts(node, "abcm")
        node.say(send(1, f"/exchange/{to}/{keys[0]}", more_keys=keys[1:], headers=headers))
        got = {name for name, old, new in zip("abcm", before, counts(node, "abcm"), strict=True) if new == old + 1}
        assert sum(counts(node, "abcm")) == sum(before) + len(got)
        assert got == model_of(exchanges, bindings, to, keys, headers)
