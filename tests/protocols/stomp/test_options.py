"""What the headers of a client's frame ask for: valid, at the limit, one past it, and where it means nothing."""

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.errors import Violation
from radiator.model.limits import ACK_TIMEOUT_MAX_S, CONSUMER_NAME_MAX_BYTES, DEDUP_ID_MAX_BYTES, ID_MAX_BYTES
from radiator.protocols.stomp.options import (
    ack_timeout_s,
    check_ids,
    consumer_name_of,
    consumer_priority_of,
    dedup_id,
    group_of,
    survives_refusal,
    temp_queue_of,
)


@pytest.mark.parametrize("header", [b"id", b"transaction"])
def test_a_kept_id_has_at_most_so_many_bytes(header: bytes) -> None:
    check_ids({header: b"i" * ID_MAX_BYTES})
    check_ids({b"other": b"i" * (ID_MAX_BYTES + 1)})
    with pytest.raises(Violation, match=f"{header.decode()} .* has {ID_MAX_BYTES + 1} bytes: at most {ID_MAX_BYTES}"):
        check_ids({header: b"i" * (ID_MAX_BYTES + 1)})


def test_a_dedup_id_has_1_to_so_many_bytes() -> None:
    assert dedup_id({}) is None
    for size in (1, DEDUP_ID_MAX_BYTES):
        assert dedup_id({b"dedup-id": b"d" * size}) == b"d" * size
    for size in (0, DEDUP_ID_MAX_BYTES + 1):
        with pytest.raises(Violation, match=f"has {size} bytes"):
            dedup_id({b"dedup-id": b"d" * size})


def test_a_refusal_is_survived_where_its_receipt_can_tell_it() -> None:
    assert not survives_refusal({b"receipt": b"r"})
    assert survives_refusal({b"on-refusal": b"receipt", b"receipt": b"r"})
    for more in ({}, {b"receipt": b"r", b"transaction": b"t"}):
        with pytest.raises(Violation, match="for a SEND with `receipt`, and without `transaction`"):
            survives_refusal({b"on-refusal": b"receipt", **more})
    with pytest.raises(Violation, match="is not `receipt`"):
        survives_refusal({b"on-refusal": b"error", b"receipt": b"r"})


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_a_consumer_of_a_queue_has_a_priority(value: int) -> None:
    headers = {b"destination": b"/queue/q", b"consumer-priority": b"%d" % value}
    assert consumer_priority_of(headers, "/queue/q") == value
    assert consumer_priority_of({b"destination": b"/topic/t"}, "/topic/t") == 0


@pytest.mark.parametrize(
    "value", [b"", b"-", b"--1", b"+1", b"1.5", b"1_0", b"%d" % 2**31, b"%d" % (-(2**31) - 1), b"9" * 99]
)
def test_what_is_no_consumer_priority_is_refused(value: bytes) -> None:
    with pytest.raises(Violation, match="is not a whole number from -2147483648 to 2147483647"):
        consumer_priority_of({b"destination": b"/queue/q", b"consumer-priority": value}, "/queue/q")


@pytest.mark.parametrize("destination", ["/topic/t", "/log/l", "/temp-queue/x", "/exchange/x/k"])
def test_only_consumers_of_a_queue_have_priorities(destination: str) -> None:
    headers = {b"destination": destination.encode(), b"consumer-priority": b"1"}
    with pytest.raises(Violation, match="only consumers of a queue"):
        consumer_priority_of(headers, destination)


def test_a_group_is_of_a_log_and_of_who_acks() -> None:
    headers = {b"destination": b"/log/l", b"group": b"g"}
    assert group_of(headers, "/log/l", CLIENT) == "g"
    assert group_of({b"destination": b"/log/l"}, "/log/l", AUTO) is None
    with pytest.raises(Violation, match="with ack:auto"):
        group_of(headers, "/log/l", AUTO)


@pytest.mark.parametrize("header", [b"from", b"until", b"partition", b"group"])
def test_what_only_a_log_has_is_refused_elsewhere(header: bytes) -> None:
    with pytest.raises(Violation, match=f"with {header.decode()}: only a log"):
        group_of({b"destination": b"/queue/q", header: b"1"}, "/queue/q", CLIENT)


@pytest.mark.parametrize("header", [b"ack-timeout-s", b"ack_timeout_s"])
def test_an_ack_timeout_has_two_spellings_and_bounds(header: bytes) -> None:
    assert ack_timeout_s({}) is None
    for value in (1, ACK_TIMEOUT_MAX_S):
        assert ack_timeout_s({header: b"%d" % value}) == value
    for wrong in (0, ACK_TIMEOUT_MAX_S + 1):
        with pytest.raises(Violation, match=header.decode()):
            ack_timeout_s({header: b"%d" % wrong})


def test_reply_to_names_a_temp_queue_or_travels() -> None:
    assert temp_queue_of({}) is None
    assert temp_queue_of({b"reply-to": b"/queue/q"}) is None
    assert temp_queue_of({b"reply-to": b"/temp-queue/a"}) == "a"
    with pytest.raises(Violation, match="reply-to '/temp-queue/' names nothing"):
        temp_queue_of({b"reply-to": b"/temp-queue/"})


def consumer_of(name: bytes, destination: str = "/queue/q") -> str:
    return consumer_name_of({b"destination": destination.encode(), b"consumer-name": name}, destination)


def test_the_name_of_a_consumer_has_1_to_so_many_bytes() -> None:
    assert consumer_name_of({b"destination": b"/queue/q"}, "/queue/q") == ""
    for name in (b"p", b"n" * CONSUMER_NAME_MAX_BYTES, "\u00fc".encode() * (CONSUMER_NAME_MAX_BYTES // 2)):
        assert consumer_of(name) == name.decode()
    for size in (0, CONSUMER_NAME_MAX_BYTES + 1):
        with pytest.raises(Violation, match=f"has {size} bytes: the name of a consumer has 1 to"):
            consumer_of(b"n" * size)
    with pytest.raises(Violation, match="has the control character U\\+000A"):
        consumer_of(b"a\nb")


@pytest.mark.parametrize("destination", ["/topic/t", "/log/l", "/exchange/x/k", "/temp-queue/t"])
def test_only_consumers_of_queues_have_names(destination: str) -> None:
    with pytest.raises(Violation, match="with consumer-name: only consumers of a queue"):
        consumer_of(b"p", destination)
    assert consumer_of(b"p", "/amq/queue/q") == "p"
