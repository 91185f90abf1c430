"""Checks of a call's arguments: a wrong type raises TypeError, a wrong value Violation, before anything is sent."""

from collections.abc import Mapping

from radiator.client.reconnect import Reconnect
from radiator.model.errors import Violation
from radiator.protocols.stomp.client import Headers, Message


def text(name: str, given: object) -> None:
    """Must be a str: anything else would be sent as Python prints it, and None would make a queue called "None"."""
    if not isinstance(given, str):
        raise TypeError(f"{name} {given!r:.80} is of type {type(given).__name__}: it must be a str.")


def text_or_none(name: str, given: object) -> None:
    """Must be a str or None."""
    if given is not None:
        text(name, given)


def login(user: object, password: object) -> None:
    """Checks a client's login. A wrong value is not shown: the two may be swapped."""
    for name, given in (("user", user), ("password", password)):
        if given is not None and not isinstance(given, str):
            raise TypeError(f"{name} is of type {type(given).__name__}: it must be a str, or None.")


def octets(body: bytes | str) -> bytes:
    """Returns the bytes of a body."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"body {body!r:.80} is of type {type(body).__name__}: it must be bytes or str.")


def pairs(headers: Headers) -> list[tuple[str, str]]:
    """Returns the headers as a new list."""
    try:
        kept: list[tuple[str, str]] = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    except TypeError:
        raise TypeError(f"headers {headers!r:.80} must be pairs of str, or a mapping from str to str.") from None
    for pair in kept:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(one, str) for one in pair)):
            raise TypeError(f"headers have {pair!r:.80}: they must be pairs of str, or a mapping from str to str.")
    return kept


def seconds(name: str, given: object) -> None:
    """Must be a number of seconds."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{name} {given!r:.80} is of type {type(given).__name__}: it must be a number of seconds.")


def seconds_or_none(name: str, given: object) -> None:
    """Must be a number of seconds; None: no bound, or the client's default."""
    if given is not None:
        seconds(name, given)


def whole(name: str, given: object, least: int) -> None:
    """Must be a whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{name} {given!r:.80} is of type {type(given).__name__}: it must be a whole number.")
    if given < least:
        raise Violation(f"{name} {given} must be {least} or more.")


def message(given: object) -> None:
    """Must be a message that was received."""
    if not isinstance(given, Message):
        raise TypeError(f"{given!r:.80} is of type {type(given).__name__}: it must be a Message that was received.")


def confirming(given: object) -> None:
    """Must be True, False or None."""
    if given is not None and not isinstance(given, bool):
        raise TypeError(f"confirm {given!r:.80} must be True, False or None.")


def policy(given: object) -> Reconnect | None:
    """Returns the policy that `reconnect` stands for."""
    if isinstance(given, bool):
        return Reconnect() if given else None
    if not isinstance(given, Reconnect):
        raise TypeError(f"reconnect {given!r:.80} must be True, False or a Reconnect(...).")
    return given


def of_a_client(connect_timeout_s: float, answer_timeout_s: float, window: int, received_max_bytes: int) -> None:
    """Checks the arguments that both clients take."""
    seconds("connect_timeout_s", connect_timeout_s)
    seconds("answer_timeout_s", answer_timeout_s)
    whole("window", window, 1)
    whole("received_max_bytes", received_max_bytes, 1)
