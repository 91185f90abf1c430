"""Addresses: what a SEND can name. One table, read by the sessions of clients, by the broker, and by links.

So a link can carry whatever a client may send: a message keeps the address that it was sent to, wherever it goes.
"""

import re

from radiator.model.errors import Refusal
from radiator.model.limits import NAME_MAX_BYTES

QUEUE, FANOUT, TOPIC, EXCHANGE, LOG = "queue", "fanout", "topic", "exchange", "log"
TEMP, REPLY = "temp-queue", "reply-queue"
EXISTING = "amq/queue"  # a queue that is there: never made by its use
EXISTING_PREFIX = f"/{EXISTING}/"
ADMIN = "/admin"

KINDS = (QUEUE, FANOUT, TOPIC, EXCHANGE, LOG, TEMP, REPLY)
_PREFIXES = (*(f"/{kind}/" for kind in KINDS), EXISTING_PREFIX)
ADDRESS_MAX_BYTES = len("/reply-queue/") + 2 * NAME_MAX_BYTES + 1  # at most: an exchange's has a name and a key
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def split(address: str) -> tuple[str, str]:
    """`/queue/a/b` -> (`queue`, `a/b`). Raises Refusal for an address of no known kind."""
    if address.startswith(EXISTING_PREFIX):
        return EXISTING, address.removeprefix(EXISTING_PREFIX)
    kind, _, name = address[1:].partition("/")
    if address == ADMIN or (name and kind in KINDS and address[0] == "/"):
        return kind, name
    named = ", ".join(f"/{kind}/" for kind in KINDS)
    raise Refusal(
        "unknown-destination",
        f"{address} is no destination: it would begin with {named} or {EXISTING_PREFIX}, or be {ADMIN}.",
    )


def name_in(kind: str, text: str) -> str:
    """The NAME of something of that kind, which may be given as its address too. Raises ValueError for the address of
    something else: nothing may be called so by a slip, since nobody would reach it.
    """
    if kind == QUEUE and text.startswith(EXISTING_PREFIX):
        return text.removeprefix(EXISTING_PREFIX)
    name = text.removeprefix(f"/{kind}/")
    if name == text and text.startswith(_PREFIXES):
        raise ValueError(f"is {text!r:.80}, the address of something else; write NAME or /{kind}/NAME")
    return name


def queue_address(address: str) -> str:
    """The one address of a queue that has two; any other as it is."""
    return f"/{QUEUE}/{address.removeprefix(EXISTING_PREFIX)}" if address.startswith(EXISTING_PREFIX) else address


def address_mistake(address: str) -> str:
    """What is wrong with the names in it, to stand behind the address; "" where they are right. Whether it is of a
    known kind, `split` says.
    """
    if _CONTROL.search(address):
        return "has a control character in it: a name may have none"
    if address.startswith(EXISTING_PREFIX):
        return _length_mistake(address[len(EXISTING_PREFIX) :], EXISTING_PREFIX)
    kind, slash, name = address[1:].partition("/")
    if not slash or kind not in KINDS:
        return ""
    if kind == EXCHANGE:
        name, _, key = name.partition("/")
        if len(key.encode()) > NAME_MAX_BYTES:
            return f"has a routing key of more than {NAME_MAX_BYTES} bytes"
    return _length_mistake(name, f"/{kind}/")


def _length_mistake(name: str, prefix: str) -> str:
    if not name:
        return f"names nothing: after {prefix} must stand a name of 1 to {NAME_MAX_BYTES} bytes"
    size = len(name.encode())
    if size > NAME_MAX_BYTES:
        return f"has a name of {size} bytes: at most {NAME_MAX_BYTES} (of UTF-8) are allowed"
    return ""
