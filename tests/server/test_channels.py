"""Several connections of the broker over one socket: what the broker hears of them, and in which order."""

from collections.abc import Iterator
from typing import Any

import pytest

from radiator.model.amqp_limits import AMQP_FRAME_BYTES
from radiator.model.commands import Closed, Disconnect, Open, Read, Send, Written
from radiator.model.getting import SetWindow
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import COMMANDS_AT_ONCE
from radiator.model.message import Message
from radiator.model.replies import Bye, Deliver, Receipt, Refuse, RefusedReceipt, Reply
from radiator.protocols.amqp import methods as m
from tests.protocols.amqp.talking import greeting, kinds, method, publish
from tests.server.shell import Shell, read, until

RPC = b"rpc"
ROOM = AMQP_FRAME_BYTES - 20  # for properties: of a frame and of a content header the rest


@pytest.fixture
def shell() -> Iterator[Shell]:
    one = Shell()
    yield one
    one.close()


def heard(shell: Shell, count: int) -> list[Any]:
    """What the broker has heard, once it is so much. Reads that have nothing in them are left out."""

    def events() -> list[Any]:
        return [event for event in shell.heard() if not isinstance(event, Read) or event.commands]

    until(lambda: len(events()) >= count)
    found = events()
    assert len(found) == count, found
    shell.events.clear()
    return found


def post(shell: Shell, number: int, *replies: Reply) -> None:
    """What a turn of the broker does with its replies."""
    connection = shell.connections.open[number]
    for reply in replies:
        connection.post(reply)
    connection.flush()


def opened(shell: Shell, channels: int = 2, more: bytes = b"") -> tuple[Any, list[int]]:
    """A client, and the numbers of its connection and its channels."""
    client = shell.client(scheme="amqp")
    client.send(greeting() + b"".join(method(wire, m.ChannelOpen()) for wire in range(1, channels + 1)) + more)
    events = heard(shell, 1 + 2 * channels)
    numbers = [event.connection for event in events if isinstance(event, Open)]
    assert numbers == sorted(numbers) and len(set(numbers)) == 1 + channels
    first, *others = [event for event in events if isinstance(event, Open)]
    assert first.channel_of == 0 and all(other.channel_of == first.connection for other in others)
    assert all(event.address == "peer" for event in [first, *others])
    windows = [event.commands for event in events if isinstance(event, Read)]
    assert windows == [[SetWindow(number, 0, properties_max_bytes=ROOM)] for number in numbers[1:]]
    assert kinds(read(client))[-channels:] == [(wire, m.ChannelOpenOk) for wire in range(1, channels + 1)]
    return client, numbers


def test_each_channel_is_opened_and_read_as_a_connection(shell: Shell) -> None:
    client, (_, first, second) = opened(shell)
    client.send(publish(1) * 3 + publish(2) + publish(1))
    reads = heard(shell, 3)
    assert [(event.connection, len(event.commands)) for event in reads] == [(first, 3), (second, 1), (first, 1)]
    assert all(command.connection == event.connection for event in reads for command in event.commands)
    assert set(shell.connections.open) >= {first, second}


def test_the_broker_is_told_what_the_session_holds_when_that_changes(shell: Shell) -> None:
    client, (number, first, _) = opened(shell)
    shell.events.clear()

    def reads(count: int) -> list[tuple[int, int, int]]:
        until(lambda: len(shell.heard()) >= count)
        found = [(event.connection, len(event.commands), event.buffered_bytes) for event in shell.heard()]  # type: ignore[union-attr]
        shell.events.clear()
        return found

    whole = publish(1)
    client.send(whole)
    assert reads(1) == [(first, 1, 0)]
    client.send(whole + whole[:3])
    assert reads(2) == [(first, 1, 0), (number, 0, 3)]
    client.send(whole[3:])
    assert reads(2) == [(first, 1, 0), (number, 0, 0)]
    client.send(whole)
    assert reads(1) == [(first, 1, 0)] and shell.heard() == []


def test_a_channel_is_closed_once_and_its_number_is_used_again(shell: Shell) -> None:
    client, (_, first, _) = opened(shell)
    client.send(method(1, m.ChannelClose()))
    assert heard(shell, 1)[0].commands == [Disconnect(first, RPC)]
    post(shell, first, Receipt(first, RPC), Bye(first))
    assert kinds(read(client)) == [(1, m.ChannelCloseOk)]
    assert heard(shell, 1) == [Closed(first, "closed")] and first not in shell.connections.open
    client.send(method(1, m.ChannelOpen()))
    again, _ = heard(shell, 2)
    assert isinstance(again, Open) and again.connection > first


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_a_channel_that_is_refused_is_closed_once(shell: Shell, is_confirmed: bool) -> None:
    client, (_, first, second) = opened(shell)
    client.send(method(1, m.ConfirmSelect(True)) + publish(1))
    heard(shell, 1)
    refused = RefusedReceipt(first, b"1", "locked", "No.") if is_confirmed else Refuse(first, "locked", "No.")
    post(shell, first, refused)
    assert kinds(read(client)) == [(1, m.ChannelClose)]
    assert [type(event) for event in heard(shell, 1)] == [Closed]
    client.send(publish(1) + publish(2))
    assert [event.connection for event in heard(shell, 1)] == [second], "and what it sends is nobody's"


def test_the_channels_of_a_connection_that_is_lost_are_closed_before_it(shell: Shell) -> None:
    client, (number, first, second) = opened(shell)
    client.close()
    assert [event.connection for event in heard(shell, 3)] == [first, second, number]
    assert not shell.connections.open


def test_the_channels_of_a_connection_that_is_refused_are_closed_before_it(shell: Shell) -> None:
    client, (number, first, second) = opened(shell)
    post(shell, number, Refuse(number, "memory", "No."))
    assert kinds(read(client)) == [(0, m.ConnectionClose)]
    assert heard(shell, 3) == [Closed(one, "refused: memory") for one in (first, second, number)]


def test_a_client_closes_its_connection(shell: Shell) -> None:
    client, (number, first, second) = opened(shell)
    client.send(method(0, m.ConnectionClose()))
    assert [event.commands for event in heard(shell, 2)] == [[Disconnect(first, RPC)], [Disconnect(second, RPC)]]
    post(shell, first, Receipt(first, RPC), Bye(first))
    post(shell, second, Receipt(second, RPC), Bye(second))
    assert kinds(read(client)) == [(0, m.ConnectionCloseOk)] and read(client) == b""
    ends = heard(shell, 3)
    assert [event.connection for event in ends] == [first, second, number]
    assert all(isinstance(event, Closed) for event in ends)


def test_written_deliveries_are_counted_for_each_channel(shell: Shell) -> None:
    client, (_, first, second) = opened(shell)

    def deliver(number: int, body: bytes = b"body") -> Deliver:
        message = Message("/queue/q", b"", ESCAPING_ALL, body, 1)
        return Deliver(number, b"t", b"m", message, False, False, written_due=True)  # type: ignore[call-arg]

    post(shell, first, deliver(first), deliver(second), deliver(first, b"x" * 300_000))
    until(lambda: read(client) != b"" and not shell.connections.open[first]._outbox.pending_bytes)
    until(lambda: sum(isinstance(event, Written) for event in shell.heard()) >= 2)
    last = {event.connection: event.delivers for event in shell.events if isinstance(event, Written)}
    assert last == {first: 2, second: 1}


def test_a_channel_that_is_far_ahead_of_the_broker_is_read_no_further(shell: Shell) -> None:
    client, (_, first, _) = opened(shell)
    client.send(publish(1) * (COMMANDS_AT_ONCE + 1))
    (connection,) = {shell.connections.open[first]}
    until(lambda: connection._holds)
    client.send(publish(2))
    sent: list[Send] = []

    def all_is_there() -> bool:
        sent.extend(command for event in shell.heard() if isinstance(event, Read) for command in event.commands)  # type: ignore[misc]
        shell.events.clear()
        return len(sent) == COMMANDS_AT_ONCE + 2

    until(all_is_there)
    assert [command.connection for command in sent] == [first] * (COMMANDS_AT_ONCE + 1) + [first + 1]


def test_channels_share_the_turn_of_their_connection(shell: Shell) -> None:
    """Others wait for 16 commands of a client, on however many channels, and its next read waits for all of these."""
    channels = 3 * COMMANDS_AT_ONCE
    client, (_, first, *_) = opened(shell, channels)
    (connection,) = {shell.connections.open[first]}
    inbox = shell.inbox
    client.send(b"".join(publish(wire) for wire in range(1, channels + 1)) * 2)
    until(lambda: connection._holds)
    turns = [sum(len(event.commands) for event in inbox.take() if isinstance(event, Read)) for _ in range(4)]
    assert max(turns[1:]) == COMMANDS_AT_ONCE, "and the first has what came before others were queued"
