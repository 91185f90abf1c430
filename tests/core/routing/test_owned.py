"""Queues that one connection alone may use, with its channels."""

import pytest

from radiator.model.administration import (
    AddBinding,
    AdminCommand,
    AwaitQueue,
    DeclareDestination,
    DeleteDestination,
    DescribeDestination,
    MoveMessages,
    PeekQueue,
    PurgeQueue,
    RemoveBinding,
    TakeCheckout,
)
from radiator.model.answers import QueueDeclared, QueueDescribed
from radiator.model.commands import Administer, Closed, Open
from radiator.model.consumers import DrainConsumer, RegisterConsumer
from radiator.model.errors import Refusal
from radiator.model.limits import UNBINDINGS_PER_STEP
from radiator.model.returning import ReturnMessages
from radiator.model.unacked import ExtendUnacked
from tests.core.admin.test_commands import Direct
from tests.core.leased import answers, join, receive
from tests.core.node import Node
from tests.core.words import send, subscribe

OWNED = DeclareDestination("queue", "q", {}, is_owned=True)


@pytest.fixture
def node() -> Node:
    """Connection 1 has the channels 11 and 12; 2 is another, with the channel 21. The queue q is 1's."""
    node = Node()
    node.open(1, 2)
    for number, owner in ((11, 1), (12, 1), (21, 2)):
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, channel_of=owner)])
    assert asked(node, 11, OWNED) == QueueDeclared(0, 0, 0, True)
    return node


def asked(node: Node, by: int, command: AdminCommand) -> object:
    direct = Direct(command)
    node.say(Administer(by, b"0", direct, 2, b"r", reply_to=None, is_answered=True))
    (answer,) = direct.answers
    return answer


def code(answer: object) -> str:
    return answer.code if isinstance(answer, Refusal) else ""


@pytest.mark.parametrize(
    "command",
    [
        OWNED,
        DeclareDestination("queue", "q", {}),
        DeclareDestination("queue", "q", {}, passive=True),
        DeclareDestination("fanout", "f", {"children": ["q"]}),
        MoveMessages("q", "other"),
        ReturnMessages("q"),
        TakeCheckout("q", "g", 1),
        AwaitQueue("q", 1000),
        RegisterConsumer("q", "pod", True, 1000),
        DrainConsumer("q", "pod", 0),
        ExtendUnacked("q", "x-1-1", 5.0),
        AddBinding("amq.direct", "k", "q"),
        RemoveBinding("amq.direct", "k", "q"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_others_are_refused_and_the_owner_and_its_channels_are_not(node: Node, command: AdminCommand) -> None:
    refusal = asked(node, 21, command)
    assert code(refusal) == code(asked(node, 2, command)) == "locked" and "/queue/q is owned by" in str(refusal)
    own = asked(node, 12, command)
    assert code(own) != "locked" or "already exists, and is owned by this connection" in str(own)


@pytest.mark.parametrize("command", [PurgeQueue("q"), DeleteDestination("queue", "q")])
def test_an_operator_may_end_it_and_no_channel_of_another(node: Node, command: AdminCommand) -> None:
    assert code(asked(node, 21, command)) == "locked"
    assert not isinstance(asked(node, 2, command), Refusal)


def test_nobody_leases_what_is_in_it(node: Node) -> None:
    join(node, 3)
    node.say(send(2, "q"), receive(3))
    assert node.refusal(3).code == "locked" and answers(node, 3) == []


def test_others_may_send_to_it_and_look_and_not_consume(node: Node) -> None:
    node.say(send(21, "q"))
    assert code(asked(node, 2, PeekQueue("q", 1))) == ""
    node.say(subscribe(21, "q"))
    assert node.is_refused(21) and not node.messages(21)
    node.say(subscribe(12, "q"))
    assert len(node.messages(12)) == 1


def test_whose_it_is_is_told(node: Node) -> None:
    found = asked(node, 2, DescribeDestination("queue", "q"))
    assert isinstance(found, QueueDescribed) and found.exclusive_to == 1
    asked(node, 2, DeclareDestination("queue", "other", {}))
    other = asked(node, 2, DescribeDestination("queue", "other"))
    assert isinstance(other, QueueDescribed) and other.exclusive_to is None


def test_it_ends_with_its_owner_and_not_with_a_channel(node: Node) -> None:
    node.turn([Closed(11)])
    assert "q" in node.broker.destinations.queues.all
    node.turn([Closed(12), Closed(1)])
    assert "q" not in node.broker.destinations.queues.all and not node.broker.destinations.queues.owned.owners
    assert asked(node, 21, OWNED) == QueueDeclared(0, 0, 0, True)


def test_many_go_in_slices_and_their_names_are_free_at_once(node: Node) -> None:
    names = [f"q{number}" for number in range(3 * UNBINDINGS_PER_STEP)]
    for name in names:
        asked(node, 11, DeclareDestination("queue", name, {}, is_owned=True))
    node.auto = False
    node.broker.turn([Closed(11), Closed(12), Closed(1)], node.now_s, node.now_ms)
    left = [name for name in names if name in node.broker.destinations.queues.all]
    assert left
    node.auto = True
    assert asked(node, 21, DeclareDestination("queue", left[0], {}, is_owned=True)) == QueueDeclared(0, 0, 0, True)
    node.turn([])
    assert [name for name in names if name in node.broker.destinations.queues.all] == [left[0]]


def test_a_queue_cannot_become_owned_nor_an_owned_one_shared(node: Node) -> None:
    assert code(asked(node, 1, DeclareDestination("queue", "q", {}))) == "locked"
    asked(node, 1, DeclareDestination("queue", "shared", {"persistent": False}))
    assert code(asked(node, 1, DeclareDestination("queue", "shared", {}, is_owned=True))) == "locked"
    assert asked(node, 1, OWNED) == QueueDeclared(0, 0, 0, False)


def test_a_channel_of_no_connection_is_refused(node: Node) -> None:
    node.inbox[31], node.delivers[31] = [], 0
    node.turn([Open(31, channel_of=3)])
    assert node.is_refused(31)
