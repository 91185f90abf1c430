"""Short ways to lease messages of a Node, and to settle them."""

from radiator.model.commands import Open
from radiator.model.leases import Action, Leased, LeasedMessage, Receive, Settle, Settled, Settlement
from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Scope
from tests.core.node import Node
from tests.core.words import address

HOUR_MS = 3_600_000


def join(node: Node, *numbers: int, principal: Principal = ANYONE) -> None:
    """Connections that a refused command does not end, as those of HTTP."""
    for number in numbers:
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, closes_at=Scope.CONNECTION, principal=principal)])


def receive(
    number: int, name: str = "q", most: int = 10, wait_ms: int = 0, lease_ms: int = 30_000, receipt: bytes = b"r"
) -> Receive:
    return Receive(number, receipt, address(name), most, wait_ms, lease_ms)


def answers(node: Node, number: int) -> list[Leased]:
    """The new answers to its Receives; all else new stays."""
    replies = node.inbox[number]
    node.inbox[number] = [reply for reply in replies if not isinstance(reply, Leased)]
    return [reply for reply in replies if isinstance(reply, Leased)]


def take(node: Node, number: int, name: str = "q", most: int = 10, **more: int) -> list[LeasedMessage]:
    """What a Receive is answered with at once."""
    node.say(receive(number, name, most, **more))
    (answer,) = answers(node, number)
    return answer.messages


def bodies(messages: list[LeasedMessage]) -> list[bytes]:
    return [one.message.body for one in messages]


def settle(number: int, *settlements: Settlement, receipt: bytes = b"s") -> Settle:
    return Settle(number, receipt, [*settlements])


def done(one: LeasedMessage | bytes, action: Action = Action.ACK, **more: int) -> Settlement:
    """One settlement, of a message or a token."""
    return Settlement(one.lease if isinstance(one, LeasedMessage) else one, action, **more)


def verdicts(node: Node, number: int) -> list[str]:
    """The codes in the one new answer to a Settle; "": settled."""
    replies = node.inbox[number]
    node.inbox[number] = [reply for reply in replies if not isinstance(reply, Settled)]
    (answer,) = [reply for reply in replies if isinstance(reply, Settled)]
    assert all(bool(one.code) == bool(one.sentence) for one in answer.verdicts)
    return [one.code for one in answer.verdicts]


def outcome(node: Node, number: int, *settlements: Settlement) -> list[str]:
    """What a Settle is answered with."""
    node.say(settle(number, *settlements))
    return verdicts(node, number)
