"""The administration without JSON: typed commands in, typed answers out, as another protocol would have them."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from radiator.core import admin
from radiator.model.administration import (
    AddBinding,
    AdminCommand,
    DeclareDestination,
    DescribeDestination,
    ListQueues,
    PeekQueue,
    PurgeQueue,
)
from radiator.model.answers import (
    AdminAnswer,
    BindingOfQueue,
    Declared,
    Purged,
    QueueDeclared,
    QueueDescribed,
    Queues,
)
from radiator.model.commands import Administer
from radiator.model.errors import Refusal
from radiator.model.numbers import PAUSE, Rows
from radiator.model.peeking import Peeked
from tests.core.node import Node
from tests.core.words import send


class Direct:
    """A Rendering that writes nothing: a request is the number of a command, and answers are kept as they are."""

    content_type = b"application/x-number"

    def __init__(self, *commands: AdminCommand) -> None:
        self.commands = commands
        self.answers: list[AdminAnswer | Refusal] = []

    def read(self, body: bytes) -> AdminCommand:
        return self.commands[int(body)]

    def refusal(self, refusal: Refusal) -> bytes:
        self.answers.append(refusal)
        return b"refused"

    def whole(self, answer: AdminAnswer) -> bytes:
        self.answers.append(answer)
        return b"answered"

    def pieces(self, answer: AdminAnswer) -> Iterator[str]:
        self.answers.append(answer)
        yield "answered"


def asked(node: Node, *commands: AdminCommand) -> list[AdminAnswer | Refusal]:
    """What each is answered."""
    direct = Direct(*commands)
    for number in range(len(commands)):
        node.say(Administer(9, b"%d" % number, direct, 2, b"r%d" % number, reply_to="t"))
    return direct.answers


def test_typed_commands_have_typed_answers() -> None:
    node = Node()
    node.open(1, 9)
    assert asked(
        node,
        DeclareDestination("queue", "q", {"max_messages": 5}),
        DeclareDestination("exchange", "x", {"type": "topic"}),
        AddBinding("x", "a.*", "q"),
    ) == [QueueDeclared(0, 0, 0, True), Declared(True), Declared(True)]
    node.say(send(1, "/exchange/x/a.b", b"one"))
    described, peeked, queues, purged = asked(
        node, DescribeDestination("queue", "q"), PeekQueue("q", 1), ListQueues(limit=1), PurgeQueue("q")
    )
    assert isinstance(described, QueueDescribed) and described.settings.max_messages == 5 and described.ready == 1
    assert rows(described.bindings) == [BindingOfQueue("x", "a.*")]
    assert isinstance(peeked, Peeked) and isinstance(queues, Queues) and purged == Purged(1)
    assert node.receipts(9) == [b"r0", b"r1", b"r2", b"r0", b"r1", b"r2", b"r3"]


def rows(found: Rows[object]) -> list[object]:
    return [row for row in found.rows if row is not PAUSE]


def test_a_refusal_is_answered_by_the_same_rendering() -> None:
    node = Node()
    node.open(9)
    (refusal,) = asked(node, PurgeQueue("none"))
    assert isinstance(refusal, Refusal) and refusal.code == "no-such-destination"
    assert node.bodies(9) == [b"refused"] and not node.is_refused(9)


def test_every_command_has_a_handler() -> None:
    assert {*admin._HANDLERS} == {*get_args(AdminCommand)}


@pytest.mark.parametrize("path", sorted(Path(admin.__file__).parent.glob("*.py")), ids=lambda path: str(path.stem))
def test_a_handler_knows_neither_the_broker_nor_a_protocol(path: Path) -> None:
    text = path.read_text()
    for module in ("radiator.core.broker", "radiator.core.parts", "radiator.protocols"):
        assert module not in text
    # the settings of a declared queue are kept on the disk as they were given
    assert "import json" not in text or path.stem == "queues"
