"""Receipts and errors: their order, and what they say (contract 1)."""

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED

CONFIG = EVERYTHING_MAY_BE_CREATED + '[queue."memory.#"]\npersistent = false\n'


def test_receipts_leave_in_the_order_asked_for(wire: Wire, queue: str, name: str) -> None:
    """A memory queue's receipt, a BEGIN's, waits for the disk where an earlier one does."""
    asked = []
    for round_ in range(20):
        for headers in (
            {"destination": queue},
            {"destination": f"/queue/memory.{name}"},
            {"destination": f"/topic/{name}"},
        ):
            asked.append(wire.begin_ask("SEND", headers, b"x"))
        asked.append(wire.begin_ask("BEGIN", {"transaction": f"t{round_}"}))
        asked.append(wire.begin_ask("ABORT", {"transaction": f"t{round_}"}))
    assert [wire.read("RECEIPT")["receipt-id"] for _ in asked] == asked


def test_any_frame_may_ask_for_a_receipt(wire: Wire, queue: str) -> None:
    wire.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client-individual"})
    wire.ask("SEND", {"destination": queue}, b"one")
    wire.ask("BEGIN", {"transaction": "t"})
    wire.ask("SEND", {"destination": queue, "transaction": "t"}, b"two")
    wire.ask("COMMIT", {"transaction": "t"})
    wire.ask("BEGIN", {"transaction": "t"})
    wire.ask("ABORT", {"transaction": "t"})
    wire.ask("NACK", wire.naming(wire.message()))
    wire.ask("ACK", wire.naming(wire.message()))
    wire.ask("UNSUBSCRIBE", {"id": "1"})
    wire.ask("DISCONNECT")
    assert wire.is_closed()


def test_receipt_id_comes_back_as_it_was_sent(wire: Wire, queue: str) -> None:
    for receipt in ("7", " padded ", "mail:to\\me\nagain", "ü"):
        wire.send_frame("SEND", {"destination": queue, "receipt": receipt}, b"x")
        assert wire.read("RECEIPT")["receipt-id"] == receipt


def test_error_waits_behind_receipts_due(wire: Wire, queue: str) -> None:
    asked = [wire.begin_ask("SEND", {"destination": queue}, b"x") for _ in range(10)]
    bad = wire.begin_ask("SEND", {"destination": "/nowhere/at-all"}, b"x")
    assert [wire.read("RECEIPT")["receipt-id"] for _ in asked] == asked
    error = wire.refusal()
    assert error["receipt-id"] == bad
    assert b"/nowhere/at-all" in error.body


def test_broken_protocol_waits_behind_receipts_due(wire: Wire, queue: str) -> None:
    asked = [wire.begin_ask("SEND", {"destination": queue}, b"x") for _ in range(10)]
    wire.send_raw(b"NONSENSE\nreceipt:bad\n\n\0")
    assert [wire.read("RECEIPT")["receipt-id"] for _ in asked] == asked
    assert b"NONSENSE" in wire.refusal().body


@pytest.mark.parametrize("end", [b"NONSENSE\n\n\0", b"SEND\ndestination:/nowhere/x\n\n\0", b"DISCONNECT\n\n\0"])
def test_frames_before_the_end_are_carried_out_and_none_after(
    connect: Connect, wire: Wire, queue: str, end: bytes
) -> None:
    before = wire.frame("SEND", {"destination": queue}, b"before")
    after = wire.frame("SEND", {"destination": queue}, b"after")
    wire.send_raw(before + end + after)
    with pytest.raises(Exception, match="closed"):
        while True:
            wire.read_frame()
    other = connect()
    other.send(queue, "last")
    other.subscribe(queue, ack="auto")
    assert other.bodies(2) == ["before", "last"]


def test_disconnect_receipt_waits_behind_receipts_due(wire: Wire, queue: str) -> None:
    asked = [wire.begin_ask("SEND", {"destination": queue}, b"x") for _ in range(10)]
    asked.append(wire.begin_ask("DISCONNECT"))
    assert [wire.read("RECEIPT")["receipt-id"] for _ in asked] == asked
    assert wire.is_closed()


def test_error_in_a_transaction_command_names_the_receipt(wire: Wire) -> None:
    asked = wire.begin_ask("COMMIT", {"transaction": "never-begun"})
    error = wire.refusal()
    assert error["receipt-id"] == asked
    assert b"never-begun" in error.body


def test_message_ids_never_repeat(connect: Connect, wire: Wire, queue: str) -> None:
    other = connect()
    for number in range(50):
        wire.send(f"{queue}-{number % 5}", f"{number}")
    seen = set()
    for number in range(5):
        other.subscribe(f"{queue}-{number}", id=str(number), ack="auto")
        seen |= {message["message-id"] for message in other.messages(10)}
    assert len(seen) == 50
