"""All connections: who is let in, who has to go for one more, and the end of all."""

from collections.abc import Iterator

import pytest

from radiator.model.commands import Closed, Open
from radiator.model.replies import Published, Refuse, Scope
from tests.protocols.http.asking import answers, request
from tests.server.shell import Shell, read, until

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell(connections=2, half_open=3)
    yield made
    made.close()


def connected(shell: Shell, **more: object) -> object:
    other = shell.client(**more)  # type: ignore[arg-type]
    other.send(CONNECT)
    assert read(other).startswith(b"CONNECTED\n")
    return other


def test_each_has_a_number_of_its_own_and_is_told_once(shell: Shell) -> None:
    connected(shell)
    other = connected(shell)
    assert [event.connection for event in shell.heard() if isinstance(event, Open)] == [1, 2]
    assert shell.connections.ended == 0 and [*shell.connections.open] == [1, 2]
    other.close()  # type: ignore[attr-defined]
    until(lambda: [*shell.connections.open] == [1])
    until(lambda: shell.connections.ended == 1)
    assert [event.connection for event in shell.heard() if isinstance(event, Closed)] == [2]


def test_one_past_the_places_is_told_so_and_one_of_operators_is_not(shell: Shell) -> None:
    connected(shell)
    connected(shell)
    refused = shell.client()
    answer = read(refused)
    assert answer.startswith(b"ERROR\n") and b"All 2 connections" in answer
    connected(shell, is_operator=True)
    assert b"All 1 connections" in read(shell.client(is_operator=True))


def test_one_that_is_half_open_goes_for_one_more_and_those_that_are_open_stay(shell: Shell) -> None:
    connected(shell)
    waiting = [shell.client(network="n") for _ in range(3)]
    assert shell.connections.half_open == 3
    shell.client(network="n")
    assert shell.connections.half_open == 3
    gone = [other for other in waiting if _has_ended(other)]
    assert len(gone) == 1 and [*shell.connections.open] == [1]


def _has_ended(other: object) -> bool:
    try:
        return other.recv(65536).startswith(b"ERROR\n")  # type: ignore[attr-defined, no-any-return]
    except BlockingIOError:
        return False


def test_one_that_has_said_connect_by_then_does_not_go(shell: Shell) -> None:
    waiting = [shell.client(network="n") for _ in range(3)]
    for other in waiting[:2]:
        other.send(CONNECT)  # the hub has not looked yet
    shell.client(network="n")
    assert shell.connections.half_open == 4 - len(shell.connections.open) - sum(map(_has_ended, waiting))


def test_without_a_node_nobody_is_linked(shell: Shell) -> None:
    other = shell.client(scheme="peer")
    assert read(other) == b"" and "link_refused" in shell.log.events


def test_at_the_stop_nothing_more_is_read_and_at_the_end_all_are_gone(shell: Shell) -> None:
    other, half = connected(shell), shell.client()
    shell.connections.stop_reading()
    assert read(half) == b"", "it had said nothing"
    shell.heard()
    other.send(b"SEND\ndestination:/queue/q\n\nx\0")  # type: ignore[attr-defined]
    assert shell.connections.are_written and not shell.connections.are_gone
    shell.connections.close()
    assert shell.connections.are_gone and read(other) == b""  # type: ignore[arg-type]
    assert not any(event for event in shell.heard() if getattr(event, "commands", None))


# ---- refused for what it holds


PUBLISHES = request("POST", "/v1/queues/q/messages", b"x", Content_Type="text/plain") * 3


@pytest.mark.parametrize("unsent", [0, 2])
def test_no_refusal_passes_for_the_answer_to_a_request_that_was_carried_out(shell: Shell, unsent: int) -> None:
    """Its answers were dropped, since they hold too much: then nothing is said."""
    other = shell.client(scheme="http")
    other.send(PUBLISHES)
    until(lambda: 1 in shell.connections.open)
    connection = shell.connections.open[1]
    for number in range(unsent):
        connection.post(Published(1, b"%d" % (number + 1), [b"1-1"], 0))
    connection.post(Refuse(1, "memory", "It holds too much.", scope=Scope.CONNECTION))
    connection.flush()
    answer = read(other)
    assert answer.startswith(b"HTTP/1.1 503 ") if not unsent else answer == b""


def test_a_request_that_is_refused_for_want_of_memory_leaves_the_answers_to_others(shell: Shell) -> None:
    other = shell.client(scheme="http")
    other.send(PUBLISHES)
    until(lambda: 1 in shell.connections.open)
    connection = shell.connections.open[1]
    connection.post(Published(1, b"1", [b"1-1"], 0))
    connection.post(Refuse(1, "memory", "There is no room.", b"2", Scope.COMMAND))
    connection.post(Published(1, b"3", [b"1-2"], 0))
    connection.flush()
    assert [one.status for one in answers(read(other))] == [201, 503, 201]
    assert [*shell.connections.open] == [1]
