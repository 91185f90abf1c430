"""Each kind of address has one object, and what a SEND or a SUBSCRIBE may do with it stands there alone."""

import ast
from pathlib import Path

import pytest

import radiator.core
from radiator.core.kinds.table import KINDS
from radiator.model import addresses
from radiator.model.addresses import ADMIN, EXISTING
from radiator.model.commands import Send
from tests.core.node import Node
from tests.core.words import send, subscribe

CORE = Path(radiator.core.__file__).parent
FILES = (
    "broker.py",
    "subscriptions.py",
    *(f"routing/{name}.py" for name in ("admission", "router", "incoming", "plan")),
)


def test_every_kind_of_address_has_a_row_and_only_one() -> None:
    names = [kind.name for kind in KINDS]
    assert sorted(names) == sorted([*addresses.KINDS, EXISTING, ADMIN.removeprefix("/")])


@pytest.mark.parametrize("file", FILES)
def test_nobody_on_the_way_of_a_send_tells_kinds_apart(file: str) -> None:
    kinds = {"QUEUE", "FANOUT", "TOPIC", "EXCHANGE", "LOG", "TEMP", "REPLY", "EXISTING"}
    for node in ast.walk(ast.parse((CORE / file).read_text())):
        if isinstance(node, ast.Compare):
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            assert not names & kinds, f"line {node.lineno}"


@pytest.mark.parametrize("address", ["/reply-queue/nobody", ADMIN])
def test_a_kind_that_says_nothing_of_subscriptions_can_only_be_sent_to(address: str) -> None:
    node = Node()
    node.open(1)
    node.say(subscribe(1, address))
    refusal = node.refusal(1)
    assert refusal.code == "send-only" and refusal.sentence == f"{address} can only be sent to."


@pytest.mark.parametrize("address", ["/topic/t", "/temp-queue/t", "/reply-queue/nobody"])
def test_a_kind_keeps_nothing_back_unless_it_says_so(address: str) -> None:
    node = Node()
    node.open(1)
    command = send(1, address, delay_ms=1000)
    assert isinstance(command, Send)
    node.say(command)
    assert node.refusal(1).code == "no-delay"
