"""Which headers of SUBSCRIBE and UNSUBSCRIBE ask for a durable subscription, and its name.

Each broker has headers of its own, and its clients send them to every other. To ignore one would silently lose what is
sent while its subscriber is away: so each is understood, or refused.
"""

from radiator.model.errors import Violation, shown
from radiator.model.limits import ID_MAX_BYTES
from radiator.protocols.stomp.values import flag

# true or false; the name is the `id`. `persistent` is RabbitMQ's older word, and Apollo's.
_FLAGS = (b"durable", b"persistent")
# the name itself, which needs CONNECT's `client-id`: ActiveMQ's header, and the three of Artemis
_NAMES = (
    b"durable-subscriber-name",
    b"durable-subscription-name",
    b"activemq.subscriptionName",
    b"activemq.subcriptionName",  # as ActiveMQ up to 5.6 spelt it
)
_UNDERSTOOD = frozenset((*_FLAGS, *_NAMES))
_SIGNS = (b"durable", b"persistent", b"subscriptionname", b"subscribername", b"xqueuename")
_BETWEEN = b"-_. "
_NO = (b"false", b"0", b"no", b"")


def check_client_id(headers: dict[bytes, bytes]) -> bytes | None:
    """Returns CONNECT's `client-id`, or None. Raises Violation if it is empty or too long."""
    value = headers.get(b"client-id")
    if value is not None and not 1 <= len(value) <= ID_MAX_BYTES:
        raise Violation(f"client-id {shown(value)} has {len(value)} bytes: it must have 1 to {ID_MAX_BYTES}.")
    return value


def durable_name(
    headers: dict[bytes, bytes], subscription: bytes | None, client_id: bytes | None, destination: str
) -> bytes | None:
    """Returns the name of the durable subscription that a SUBSCRIBE or UNSUBSCRIBE asks for; None: it asks for none.

    For Radiator's own header, and for `persistent`, the name is the `id`. For the headers of ActiveMQ and Artemis it is
    CLIENT-ID/NAME, with `/` and `%` of CLIENT-ID as %2F and %25. On a queue these headers ask only for what a queue
    does anyway, so it is None. Raises Violation for a header that cannot be honoured.
    """
    is_durable = [header for header in _FLAGS if flag(headers, header, absent=False)]
    if destination and not destination.startswith(("/topic/", "/exchange/")):
        _check_stays(headers, is_durable)
        return None
    _refuse_unknown(headers)
    names = {headers[header]: header for header in _NAMES if header in headers}
    if len(names) > 1:
        (one, word), (other, word_2) = list(names.items())[:2]
        raise Violation(
            f"{word.decode()} {shown(one)} and {word_2.decode()} {shown(other)} are two names of one durable "
            "subscription: one of them is enough."
        )
    _check_stays(headers, [*names.values(), *is_durable])
    if not names and not is_durable:
        return None
    asks = next(iter(names.values())).decode() if names else f"{is_durable[0].decode()}:true"
    if not names:
        if subscription is None:
            raise Violation(f"{asks} without the header 'id': a durable subscription is known by its id.")
        return subscription
    name = next(iter(names))
    if client_id is None:
        raise Violation(
            f"{asks} {shown(name)} without a client-id in CONNECT: together they name a durable subscription."
        )
    if not 1 <= len(name) <= ID_MAX_BYTES:
        raise Violation(f"{asks} {shown(name)} has {len(name)} bytes: it must have 1 to {ID_MAX_BYTES}.")
    return client_id.replace(b"%", b"%25").replace(b"/", b"%2F") + b"/" + name


def _check_stays(headers: dict[bytes, bytes], asking: list[bytes]) -> None:
    """Raises Violation if auto-delete contradicts durability. asking: the headers that ask for that, if any."""
    if flag(headers, b"auto-delete", absent=False) and asking:
        raise Violation(f"{asking[0].decode()} with auto-delete:true: a durable subscription stays until UNSUBSCRIBE.")


def _refuse_unknown(headers: dict[bytes, bytes]) -> None:
    """Refuses a header that asks for durability and is not understood here."""
    for header, value in headers.items():
        if header in _UNDERSTOOD or value.lower() in _NO:
            continue
        plain = header.lower().translate(None, _BETWEEN)
        if any(sign in plain for sign in _SIGNS):
            raise Violation(
                f"{shown(header)} is not supported, and what it asks for would be lost: a durable subscription "
                "has durable:true and an id."
            )
