"""Reads requests about connections and about unacked messages: JSON to commands, as requests.py does."""

from collections.abc import Callable, Mapping

from radiator.model import administration as commands
from radiator.model.administration import AdminCommand
from radiator.model.checks import number
from radiator.model.limits import ACK_TIMEOUT_MAX_S, EXTEND_MIN_S, SIZE_MAX, UNACKED_PAGE, UNACKED_PAGE_MAX
from radiator.model.story import message_id_in
from radiator.model.unacked import place_in
from radiator.model.validation import mistake
from radiator.protocols.administration.asked import Asked

_seconds = number(EXTEND_MIN_S, ACK_TIMEOUT_MAX_S, "of seconds ")


def _connections(asked: Asked) -> AdminCommand:
    asked.has_only("user", "after", "limit")
    user = asked.text("user", "the name of a user") if "user" in asked else None
    limit = asked.whole("limit", None, SIZE_MAX) if "limit" in asked else None
    return commands.ListConnections(user, asked.number("after", SIZE_MAX, 0), limit)


def _connection(asked: Asked) -> AdminCommand:
    asked.has_only("number")
    return commands.DescribeConnection(asked.whole("number", None, SIZE_MAX))


def _disconnect(asked: Asked) -> AdminCommand:
    asked.has_only("number")
    return commands.CloseConnection(asked.whole("number", None, SIZE_MAX))


def _unacked(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "after", "limit")
    after = None
    if "after" in asked:
        try:
            after = place_in(asked.text("after", "the `next` of the page before"))
        except ValueError as error:
            raise mistake("after", str(error)) from None
    return commands.ListUnacked(asked.name("queue"), after, asked.whole("limit", UNACKED_PAGE, UNACKED_PAGE_MAX))


def _extend_unacked(asked: Asked) -> AdminCommand:
    asked.has_only("queue", "message_id", "seconds")
    text = asked.text("message_id", "a message-id, as `unacked` has it")
    try:
        message_id = message_id_in(text)
    except ValueError as error:
        raise mistake("message_id", str(error)) from None
    try:
        seconds = _seconds(asked.given.get("seconds"))
    except ValueError as error:
        raise mistake("seconds", str(error)) from None
    return commands.ExtendUnacked(asked.name("queue"), message_id, seconds)


READERS: Mapping[str, Callable[[Asked], AdminCommand]] = {
    "connections": _connections,
    "connection": _connection,
    "disconnect": _disconnect,
    "unacked": _unacked,
    "extend-unacked": _extend_unacked,
}
"""The reader of each request, by the request's name."""
