"""Requests about exchanges and their bindings."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.core.rights import rights_of
from radiator.model.administration import AddBinding, RemoveBinding
from radiator.model.answers import Declared, Deleted
from radiator.model.commands import Administer, Open
from radiator.model.errors import Refusal
from radiator.model.limits import DESCRIBED_BINDINGS
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import Rules
from radiator.model.settings import ExchangeSettings
from radiator.model.users import User
from tests.core.admin.asking import DECLARED, code, node_of
from tests.core.admin.test_commands import Direct
from tests.core.node import Node
from tests.core.words import send


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"exchange": "y", "type": "header"}, "bad-request"),
        ({"exchange": "y", "type": "topic", "durable": "yes"}, "bad-request"),
        ({"exchange": "y", "kind": "topic"}, "bad-request"),
        ({"exchange": "a/b", "type": "topic"}, "bad-request"),
        ({"exchange": "a.*", "type": "topic"}, "bad-request"),
        ({"exchange": "", "type": "topic"}, "bad-request"),
        ({"exchange": "x" * 256, "type": "topic"}, "bad-request"),
        ({"exchange": "amq.new", "type": "topic"}, "reserved"),
        ({"exchange": "amq.topic", "type": "direct"}, "declared-otherwise"),
        ({"exchange": "x", "type": "direct"}, "declared-otherwise"),
        ({"exchange": "x", "auto_delete": True}, "declared-otherwise"),
        ({"exchange": "x", "passive": True, "type": "fanout"}, "declared-otherwise"),
    ],
)
def test_what_is_no_exchange_is_refused(more: dict[str, Any], sentence: str) -> None:
    assert code(node_of(), do="declare", **more) == sentence


def test_an_exchange_is_direct_unless_it_is_said() -> None:
    node = node_of()
    assert node.admin(9, do="declare", exchange="y") == {"ok": True, "created": True}
    for again in ({}, {"type": "direct"}, {"type": "direct", "durable": True, "auto_delete": False}):
        assert node.admin(9, do="declare", exchange="/exchange/y", **again) == {"ok": True, "created": False}


def test_a_binding_is_made_once_and_undone_once() -> None:
    node = node_of()
    binding = {"exchange": "amq.topic", "key": "a.*", "queue": "q"}
    assert node.admin(9, do="bind", **binding) == {"ok": True, "created": True}
    assert node.admin(9, do="bind", **binding) == {"ok": True, "created": False}
    node.say(send(1, "/exchange/amq.topic/a.1", b"1"))
    assert node.admin(9, do="unbind", **binding) == {"ok": True, "deleted": 1}
    assert node.admin(9, do="unbind", **binding) == {"ok": True, "deleted": 0}
    node.say(send(1, "/exchange/amq.topic/a.1", b"2"))
    assert node.stored("q") == [b"1"]
    numbers = node.admin(9, do="describe", exchange="amq.topic")
    assert (numbers["accepted"], numbers["unrouted"]) == (2, 1)


def test_a_key_may_be_left_out_where_it_says_nothing() -> None:
    node = node_of()
    assert node.admin(9, do="bind", exchange="amq.fanout", queue="q")["created"]
    assert node.admin(9, do="describe", queue="q")["bindings"] == [
        {"exchange": "x", "key": "a.#"},
        {"exchange": "amq.fanout", "key": ""},
    ]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"exchange": "none", "key": "k", "queue": "q"}, "no-such-destination"),
        ({"exchange": "x", "key": "k", "queue": "none"}, "no-such-destination"),
        ({"exchange": "x", "key": "k"}, "bad-request"),
        ({"key": "k", "queue": "q"}, "bad-request"),
        ({"exchange": "x", "key": 1, "queue": "q"}, "bad-request"),
        ({"exchange": "x", "key": "k" * 256, "queue": "q"}, "bad-request"),
        ({"exchange": "x", "key": "k\n", "queue": "q"}, "bad-request"),
        ({"exchange": "x", "key": "\ud800", "queue": "q"}, "bad-request"),
        ({"exchange": "x", "key": "k", "queue": "q", "routing_key": "k"}, "bad-request"),
        ({"exchange": "x", "key": ".".join("w" * 49), "queue": "q"}, "too-many-words"),
        ({"exchange": "x", "key": "#.*.*.#", "queue": "q"}, "too-many-words"),
        ({"exchange": "x", "key": "k", "queue": "$outbox/b"}, "reserved"),
    ],
)
def test_what_is_no_binding_is_refused(more: dict[str, Any], sentence: str) -> None:
    node = node_of()
    assert code(node, do="bind", **more) == sentence
    assert node.admin(9, do="describe", exchange="x")["bindings_count"] == 1


def test_the_longest_binding_is_taken() -> None:
    node = node_of()
    for key in ("k" * 255, ".".join("w" * 13) + ".*.#.*"):
        assert node.admin(9, do="bind", exchange="x", key=key, queue="q")["created"]


def test_a_binding_of_the_configuration_stays() -> None:
    node = node_of()
    assert node.admin(9, do="bind", exchange="x", key="a.#", queue="q")["created"] is False
    assert code(node, do="unbind", exchange="x", key="a.#", queue="q") == "declared"


def test_an_auto_delete_exchange_goes_with_its_last_binding() -> None:
    node = node_of()
    node.admin(9, do="declare", exchange="y", auto_delete=True)
    for key in ("a", "b"):
        node.admin(9, do="bind", exchange="y", key=key, queue="q")
    node.admin(9, do="unbind", exchange="y", key="a", queue="q")
    assert node.admin(9, do="describe", exchange="y")["bindings_count"] == 1
    node.admin(9, do="unbind", exchange="y", key="b", queue="q")
    assert code(node, do="describe", exchange="y") == "no-such-destination"


def test_of_many_bindings_the_first_are_told() -> None:
    node = node_of()
    for number in range(DESCRIBED_BINDINGS + 1):
        node.broker.destinations.bind("amq.direct", str(number), "q")
    for request in ({"exchange": "amq.direct"}, {"queue": "q"}):
        described = node.admin(9, do="describe", **request)
        assert len(described["bindings"]) == DESCRIBED_BINDINGS
        assert described["bindings_count"] == DESCRIBED_BINDINGS + 1 + ("queue" in request)


def test_bindings_go_with_either_end() -> None:
    node = node_of()
    node.admin(9, do="declare", queue="new")
    node.admin(9, do="declare", exchange="y")
    node.admin(9, do="bind", exchange="y", key="k", queue="new")
    node.admin(9, do="bind", exchange="x", key="k", queue="new")
    assert node.admin(9, do="delete", exchange="y") == {"ok": True, "deleted": 1}
    assert node.admin(9, do="describe", queue="new")["bindings"] == [{"exchange": "x", "key": "k"}]
    node.admin(9, do="delete", queue="new")
    assert node.admin(9, do="describe", exchange="x")["bindings"] == [{"key": "a.#", "queue": "q"}]


@pytest.mark.parametrize("command", [AddBinding, RemoveBinding])
@pytest.mark.parametrize(("rule", "exchange", "may"), [
    ("/exchange/h/mine", "h", False), ("/exchange/h/#", "h", True), ("/exchange/none/mine", "none", False),
    ("/exchange/x/mine", "x", True), ("/exchange/x/other", "x", False),
])  # fmt: skip
def test_arguments_of_an_exchange_of_type_headers_are_judged_as_any_key(
    command: type, rule: str, exchange: str, may: bool
) -> None:
    """Its key says nothing there."""
    users = {"ann": User(name="ann", rules=Rules(read=(rule,), write=("/queue/q",)))}
    node = Node(replace(DECLARED, exchanges={"h": ExchangeSettings(type="headers"), "x": ExchangeSettings()}),
                authorizer=rights_of(users, 0))  # fmt: skip
    node.inbox[1], node.delivers[1] = [], 0
    node.turn([Open(1, principal=Principal("ann", RecognisedBy.PASSWORD))])
    direct = Direct(command(exchange, "mine", "q", "{}" if exchange == "x" else '{"a":"1"}'))
    node.say(Administer(1, b"0", direct, 2, b"r", is_answered=True))
    (answer,) = direct.answers
    assert isinstance(answer, Declared | Deleted) if may else isinstance(answer, Refusal)
    if isinstance(answer, Refusal):
        assert answer.code == ("no-such-destination" if exchange == "none" else "forbidden")


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout"])
def test_arguments_are_those_of_exchanges_of_type_headers_alone(kind: str) -> None:
    node = Node(replace(DECLARED, exchanges={"x": ExchangeSettings(type=kind)}))
    node.open(1)
    for arguments, is_taken in (("", True), ("{}", True), ('{"a":"1"}', False)):
        for command, answer in ((AddBinding, Declared), (RemoveBinding, Deleted)):
            direct = Direct(command("x", "k", "q", arguments))
            node.say(Administer(1, b"0", direct, 2, b"r", is_answered=True))
            (found,) = direct.answers
            if is_taken:
                assert isinstance(found, answer)
            elif command is AddBinding:
                assert isinstance(found, Refusal) and found.code == "bad-request"
                assert "/exchange/x is not of type headers" in str(found) and '"a=1"' in str(found)
            else:
                assert found == Deleted(0), "there is no such binding"
