"""What the headers of a client's frame ask for beyond its command, checked."""

from radiator.model.addresses import queue_address
from radiator.model.commands import AUTO
from radiator.model.errors import Violation, shown
from radiator.model.limits import ACK_TIMEOUT_MAX_S, DEDUP_ID_MAX_BYTES, ID_MAX_BYTES, NUMBER_DIGITS_MAX
from radiator.model.patterns import consumer_name_mistake
from radiator.protocols.stomp.values import LOG, TEMP_QUEUE, address, name, number

_KEPT_IDS = (b"transaction", b"id")
QUEUE_PREFIX = "/queue/"
_PRIORITY_MIN, _PRIORITY_MAX = -(1 << 31), (1 << 31) - 1  # the range that AMQP clients have
_LOG_OPTIONS = (b"from", b"until", b"partition", b"group")


def check_ids(headers: dict[bytes, bytes]) -> None:
    """Checks the length of a client's ids, which are kept as long as what they name."""
    for header in _KEPT_IDS:
        value = headers.get(header)
        if value is not None and len(value) > ID_MAX_BYTES:
            raise Violation(
                f"{header.decode()} {shown(value)} has {len(value)} bytes: at most {ID_MAX_BYTES} are allowed."
            )


def dedup_id(headers: dict[bytes, bytes]) -> bytes | None:
    """Returns the dedup-id, of 1 to DEDUP_ID_MAX_BYTES bytes, or None if the header is absent."""
    value = headers.get(b"dedup-id")
    if value is not None and not 1 <= len(value) <= DEDUP_ID_MAX_BYTES:
        raise Violation(f"dedup-id {shown(value)} has {len(value)} bytes: it must have 1 to {DEDUP_ID_MAX_BYTES}.")
    return value


def survives_refusal(headers: dict[bytes, bytes]) -> bool:
    """Returns whether a refusal of this SEND comes as its RECEIPT, and the connection stays open."""
    value = headers.get(b"on-refusal")
    if value is None:
        return False
    if value != b"receipt":
        raise Violation(f"on-refusal {shown(value)} is not `receipt`; without this header a refusal is an ERROR.")
    if not asks_for_receipt(headers):
        raise Violation("on-refusal:receipt is for a SEND with `receipt`, and without `transaction`.")
    return True


def asks_for_receipt(headers: dict[bytes, bytes]) -> bool:
    """Returns whether a SEND asks for its refusal as a RECEIPT, and can get it, whatever else is wrong with it."""
    return headers.get(b"on-refusal") == b"receipt" and b"receipt" in headers and b"transaction" not in headers


def consumer_name_of(headers: dict[bytes, bytes], destination: str) -> str:
    """Returns the name that a SUBSCRIBE gives its consumer, or "". Only consumers of queues have names."""
    value = headers.get(b"consumer-name")
    if value is None:
        return ""
    if not queue_address(destination).startswith(QUEUE_PREFIX):
        raise Violation(
            f"SUBSCRIBE to {shown(headers[b'destination'])} with consumer-name: only consumers of a queue "
            f"({QUEUE_PREFIX}NAME) have one."
        )
    wrong = consumer_name_mistake(value.decode())
    if wrong:
        raise Violation(f"consumer-name {shown(value)} {wrong}.")
    return value.decode()


def consumer_priority_of(headers: dict[bytes, bytes], destination: str) -> int:
    """Returns the consumer's priority, or 0 if SUBSCRIBE gives none. Only consumers of queues have priorities."""
    value = headers.get(b"consumer-priority")
    if value is None:
        return 0
    if not queue_address(destination).startswith(QUEUE_PREFIX):
        raise Violation(
            f"SUBSCRIBE to {shown(headers[b'destination'])} with consumer-priority: only consumers of a queue "
            f"({QUEUE_PREFIX}NAME) have one."
        )
    digits = value.removeprefix(b"-")
    if digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX:
        priority = int(value)
        if _PRIORITY_MIN <= priority <= _PRIORITY_MAX:
            return priority
    raise Violation(f"consumer-priority {shown(value)} is not a whole number from {_PRIORITY_MIN} to {_PRIORITY_MAX}.")


def group_of(headers: dict[bytes, bytes], destination: str, ack: str) -> str | None:
    """Returns the group of a SUBSCRIBE to a log, or None. For other destinations, headers of logs are refused."""
    given = [header for header in _LOG_OPTIONS if header in headers]
    if given and not destination.startswith(LOG):
        raise Violation(
            f"SUBSCRIBE to {shown(headers[b'destination'])} with {given[0].decode()}: only a log ({LOG}NAME) has it."
        )
    group = name(headers, b"group")
    if group is not None and ack == AUTO:
        raise Violation(
            f"group {shown(headers[b'group'])} with ack:auto: ACK moves a group's position, so it needs ack:client or "
            "ack:client-individual."
        )
    return group


def ack_timeout_s(headers: dict[bytes, bytes]) -> float | None:
    """Returns the ack timeout in seconds, under either spelling, or None."""
    seconds = number(headers, b"ack-timeout-s", 1, ACK_TIMEOUT_MAX_S)
    return number(headers, b"ack_timeout_s", 1, ACK_TIMEOUT_MAX_S) if seconds is None else seconds


def temp_queue_of(headers: dict[bytes, bytes]) -> str | None:
    """Returns the NAME of the sender's temp queue, if `reply-to` names one."""
    value = headers.get(b"reply-to")
    if value is None or not value.startswith(TEMP_QUEUE):
        return None
    return address(value, "reply-to").removeprefix(TEMP_QUEUE.decode())
