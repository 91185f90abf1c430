"""What a refusal leaves sound, and for which sessions it is the end of the connection."""

from radiator.model.commands import CLIENT, Command, Fail, Open, Read, Tick
from radiator.model.replies import Refuse, Reply, Scope
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, begin, commit, send, subscribe

FULL = Declarations(create_queues=True, queues={"full": QueueSettings(max_messages=1, overflow="reject")})


def opened(closes_at: Scope, declarations: Declarations | None = None) -> Node:
    node = Node(declarations)
    node.inbox[1], node.delivers[1] = [], 0
    node.turn([Open(1, closes_at=closes_at)])
    return node


def refusals(replies: list[Reply]) -> list[tuple[str, Scope]]:
    return [(reply.code, reply.scope) for reply in replies if isinstance(reply, Refuse)]


SENDS: list[Command] = [send(1, "full", b"1"), send(1, "full", b"2"), send(1, "other", b"3")]


def test_a_session_that_closes_at_a_command_says_nothing_behind_a_refused_one() -> None:
    node = opened(Scope.COMMAND, FULL)
    node.turn([Read(1, SENDS)])
    assert refusals(node.inbox[1]) == [("queue-full", Scope.COMMAND)]
    assert node.stored("full") == [b"1"] and not node.has("other")
    node.turn([Read(1, [send(1, "other", b"4")])])
    assert not node.has("other")


def test_a_session_that_closes_for_less_goes_on_behind_a_refused_command() -> None:
    node = opened(Scope.CONNECTION, FULL)
    node.turn([Read(1, SENDS)])
    assert refusals(node.inbox[1]) == [("queue-full", Scope.COMMAND)]
    assert node.stored("full") == [b"1"] and node.stored("other") == [b"3"]


def test_a_transaction_that_is_open_too_long_ends_and_the_connection_goes_on() -> None:
    node = opened(Scope.CONNECTION)
    node.turn([Read(1, [begin(1, b"t"), send(1, "q", b"1", transaction=b"t")])])
    node.now_s += node.limits.transaction_max_s + 1
    node.turn([Tick(1 << 40, 0)])
    node.turn([Tick(1 << 40, 0)])
    assert refusals(node.inbox[1]) == [("transaction-timeout", Scope.CHANNEL)]
    assert not node.broker.parts.transactions.all
    node.turn([Read(1, [commit(1, b"t"), send(1, "q", b"2")])])
    assert refusals(node.inbox[1])[1:] == [("transaction", Scope.COMMAND)]
    assert node.stored("q") == [b"2"]


def test_a_message_that_is_overdue_comes_back_and_the_connection_goes_on() -> None:
    node = opened(Scope.CONNECTION)
    node.turn([Read(1, [subscribe(1, "q", CLIENT, ack_timeout_s=5.0), send(1, "q", b"1")])])
    (first,) = node.messages(1)
    node.now_s += 6
    node.turn([Tick(1 << 40, 0)])
    assert refusals(node.inbox[1]) == [("ack-timeout", Scope.CHANNEL)]
    (second,) = node.messages(1)
    assert (first.redelivered, second.redelivered) == (False, True)
    node.turn([Read(1, [ack(second)])])
    assert node.numbers("q")["messages"] == 0


def test_what_the_session_calls_broken_is_the_end_of_the_connection() -> None:
    node = opened(Scope.CONNECTION)
    node.turn([Read(1, [Fail(1, "Not my protocol."), send(1, "q", b"1")])])
    assert refusals(node.inbox[1]) == [("protocol", Scope.CONNECTION)]
    assert not node.has("q")
