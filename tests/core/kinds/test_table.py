"""Each kind of address has one object, and what can be done with what is of it stands there alone."""

import ast
from pathlib import Path

import pytest

import radiator.core
from radiator.core.kinds.kind import Kind
from radiator.core.kinds.table import KINDS
from radiator.model import addresses
from radiator.model.addresses import ADMIN, EXISTING, declared_kinds
from radiator.model.administration import PEERS, USERS, sections
from radiator.model.commands import Send
from radiator.model.reloading import RELOAD
from tests.core.node import Node
from tests.core.words import send, subscribe

CORE = Path(radiator.core.__file__).parent
WORDS = {"QUEUE", "FANOUT", "TOPIC", "EXCHANGE", "LOG", "TEMP", "REPLY", "EXISTING"}
# what nodes tell each other of has a protocol of its own: queues, fanouts and topics, and no more
BESIDE = (
    "cluster/", "kinds/", "routing/exchange.py", "routing/exchanges.py", "routing/matcher.py", "routing/ways.py",
)  # fmt: skip  # whose types have one called so too
FILES = sorted(name for path in CORE.rglob("*.py") if not (name := str(path.relative_to(CORE))).startswith(BESIDE))


def test_every_kind_of_address_has_a_row_and_only_one() -> None:
    assert all(name == kind.name for name, kind in KINDS.items())
    assert sorted(KINDS) == sorted([*addresses.KINDS, EXISTING, ADMIN.removeprefix("/")])


def test_what_others_must_know_of_a_kind_is_what_it_does() -> None:
    for name, row in addresses.KINDS.items():
        kind = KINDS[name]
        assert row.is_declared == (kind.declare is not Kind.declare) == (kind.delete is not Kind.delete), name
        assert bool(row.section) == (kind.names is not Kind.names) == (kind.numbers is not Kind.numbers), name
        assert row.is_declared <= (kind.recover is not Kind.recover), name


def test_each_section_is_of_one_kind_and_each_kind_has_one_config_can_declare() -> None:
    of_kinds = [row.section for row in addresses.KINDS.values() if row.section]
    assert sorted([*of_kinds, PEERS, USERS]) == sorted(sections())
    assert set(declared_kinds()) <= set(RELOAD)


def test_tables_become_what_is_declared_in_one_place() -> None:
    """Who reads config.toml, and who reads it again, need not know which kinds it declares."""
    found = [
        str(path.relative_to(CORE.parent))
        for path in CORE.parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Declarations"
        if any(keyword.arg in ("queues", "fanouts", "topics", "exchanges", "logs") for keyword in node.keywords)
    ]
    assert found == ["model/reloading.py"]


@pytest.mark.parametrize("file", FILES)
def test_nobody_else_tells_kinds_apart(file: str) -> None:
    for node in ast.walk(ast.parse((CORE / file).read_text())):
        if isinstance(node, ast.Compare):
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            assert not names & WORDS, f"line {node.lineno}"


@pytest.mark.parametrize("file", FILES)
def test_nobody_asks_of_which_class_a_queue_is(file: str) -> None:
    classes = {"Queue", "DurableQueue", "MemoryQueue", "LogConsumer", "Log", "Consumable"}
    for node in ast.walk(ast.parse((CORE / file).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            names = {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
            assert not names & classes, f"line {node.lineno}"


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
