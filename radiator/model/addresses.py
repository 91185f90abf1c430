"""Addresses: what a SEND can name. One table of their kinds, read by sessions, links, the broker and all tools.

So a link can carry whatever a client may send: a message keeps the address that it was sent to on every node. What each
kind does is in core/kinds/, whose table has the same names.
"""

import re
from dataclasses import dataclass

from radiator.model.errors import Refusal
from radiator.model.limits import NAME_MAX_BYTES

QUEUE, FANOUT, TOPIC, EXCHANGE, LOG = "queue", "fanout", "topic", "exchange", "log"
TEMP, REPLY = "temp-queue", "reply-queue"
EXISTING = "amq/queue"  # an existing queue: never made by its use
EXISTING_PREFIX = f"/{EXISTING}/"
ADMIN = "/admin"
CHECKOUT_LOGS = "$checkout/"  # logs of what groups have taken out of queues: $checkout/QUEUE/GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressKind:
    """What all parts of the program know of one kind of address.

    section: of the numbers in `stats`, with a row for each destination; "": it has none. is_declared: it can be
    declared, described and deleted at run time. leads_by: the setting that names queues, which must exist for that.
    has_contents: deleting one may depend on its consumers and messages (`if_unused`, `if_empty`). is_target: a fanout
    or a binding may lead to it. has_key: its name is followed by a slash and a key. has_patterns: a SUBSCRIBE may name
    a pattern of them. is_private: it belongs to one connection, and needs no right.
    """

    section: str = ""
    is_declared: bool = False
    leads_by: str = ""
    has_contents: bool = False
    is_target: bool = False
    has_key: bool = False
    has_patterns: bool = False
    is_private: bool = False


KINDS: dict[str, AddressKind] = {
    QUEUE: AddressKind(
        section="queues",
        is_declared=True,
        leads_by="dead_letter",
        has_contents=True,
        is_target=True,
    ),
    FANOUT: AddressKind(section="fanouts", is_declared=True, leads_by="children"),
    TOPIC: AddressKind(section="topics", has_patterns=True),
    EXCHANGE: AddressKind(section="exchanges", is_declared=True, has_key=True, has_patterns=True),
    LOG: AddressKind(section="logs", is_declared=True, is_target=True),
    TEMP: AddressKind(is_private=True),
    REPLY: AddressKind(is_private=True),
}
"""By the first word of their addresses: `/queue/NAME`. EXISTING, which is two words, and ADMIN are not in it."""

ADDRESS_MAX_BYTES = len("/reply-queue/") + 2 * NAME_MAX_BYTES + 1  # at most: an exchange's has a name and a key
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def declared_kinds() -> tuple[str, ...]:
    """The kinds that can be declared at run time: queues, and the others by name."""
    return (QUEUE, *sorted(name for name, kind in KINDS.items() if kind.is_declared and name != QUEUE))


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
        f"{address} is not a destination: one begins with {named} or {EXISTING_PREFIX}, or be {ADMIN}.",
    )


def name_in(kind: str, text: str) -> str:
    """The NAME of something of that kind, which may be given as its address too. Raises ValueError for an address of
    another kind: a name like that would be a mistake, since no SEND could reach it.
    """
    if kind == QUEUE and text.startswith(EXISTING_PREFIX):
        return text.removeprefix(EXISTING_PREFIX)
    name = text.removeprefix(f"/{kind}/")
    if name == text and text.startswith((*(f"/{one}/" for one in KINDS), EXISTING_PREFIX)):
        raise ValueError(f"is {text!r:.80}, the address of something else; write NAME or /{kind}/NAME")
    return name


def queue_address(address: str) -> str:
    """The one address of a queue that has two; any other as it is."""
    return f"/{QUEUE}/{address.removeprefix(EXISTING_PREFIX)}" if address.startswith(EXISTING_PREFIX) else address


def address_mistake(address: str) -> str:
    """What is wrong with the names in it, as text after the address; "" where they are right. Whether its kind is known
    is checked by `split`.
    """
    if _CONTROL.search(address):
        return "has a control character in it: a name may have none"
    if address.startswith(EXISTING_PREFIX):
        return _length_mistake(address[len(EXISTING_PREFIX) :], EXISTING_PREFIX)
    kind, slash, name = address[1:].partition("/")
    if not slash or kind not in KINDS:
        return ""
    if KINDS[kind].has_key:
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
