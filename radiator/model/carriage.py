"""Whether a link can carry a message: the sending node checks it by the same rules that the receiving node applies.

A message that this node accepted passes them. One that fails was accepted under other limits, or is damaged: it is set
aside where it is, and the link goes on with the rest.
"""

from functools import lru_cache

from radiator.model.addresses import ADMIN, address_mistake, split
from radiator.model.amqp_properties import check_stored
from radiator.model.errors import Refusal, Violation, shown
from radiator.model.headers import check_block
from radiator.model.limits import LINK_HEADERS_GROWTH, LINK_TEXTS_KEPT, TIME_MAX_MS, Limits, largest_message_bytes
from radiator.model.message import Message


def block_bytes(limits: Limits) -> int:
    """The size of the largest header block that a link takes, in bytes."""
    return largest_message_bytes(limits) - limits.max_frame_bytes


@lru_cache(LINK_TEXTS_KEPT)
def carried_address(raw: bytes) -> str:
    """`raw` as text. Raises Violation where it is not an address that a stored message can have."""
    try:
        address = raw.decode()
        split(address)
    except (UnicodeDecodeError, Refusal) as error:
        raise Violation(f"{shown(raw)} is not an address: {error}") from None
    if wrong := address_mistake(address):
        raise Violation(f"{shown(raw)} is not an address: it {wrong}.")
    if address == ADMIN:
        raise Violation(f"{ADMIN} is not an address of a message: nothing that was sent there is stored.")
    return address


def check_sizes(headers_bytes: int, body_bytes: int, accepted_ms: int, expires_ms: int, limits: Limits) -> None:
    """Raises Violation where a message is larger than a link takes, or its times are too far in the future."""
    if headers_bytes > block_bytes(limits) or body_bytes > limits.max_frame_bytes:
        raise Violation(
            f"A message has {headers_bytes} bytes of headers and {body_bytes} of body: at most {block_bytes(limits)} "
            f"({LINK_HEADERS_GROWTH} x max_header_bytes, and some for nodes) and {limits.max_frame_bytes} "
            "(max_frame_bytes) are taken here."
        )
    if accepted_ms > TIME_MAX_MS or expires_ms > 2 * TIME_MAX_MS:
        raise Violation(f"A message of the time {accepted_ms}, to expire at {expires_ms}: both are too far away.")


def carriage_mistake(message: Message, limits: Limits) -> str:
    """Why no link can carry the message; "" if links can."""
    try:
        check_sizes(len(message.headers), len(message.body), message.accepted_ms, message.expires_ms, limits)
        check_block(message.headers, message.escaping, limits)
        check_stored(message.headers, message.escaping)
        carried_address(message.destination.encode())
    except Violation as mistake:
        return str(mistake)
    return ""
