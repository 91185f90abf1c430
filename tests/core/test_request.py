"""One request: who hears its answer."""

import json

import pytest

from radiator.model.replies import Receipt, RefusedReceipt
from radiator.protocols.stomp.frame import encode_error, encode_refused
from radiator.protocols.stomp.session import request_of
from radiator.protocols.stomp.spec import V1_2
from tests.core.admin.asking import node_of, node_with
from tests.core.node import Node
from tests.core.words import header, send


def test_answer_goes_to_the_senders_temp_queue_with_its_correlation_id() -> None:
    node = Node()
    node.open(9)
    node.say(send(9, "/admin", b'{"do":"stats"}', b"r", reply_to="t", correlation_id=b"c:1"))
    message = node.message(9).message
    assert header(message, b"content-type") == b"application/json"
    assert header(message, b"correlation-id") == b"c\\c1"
    assert json.loads(message.body)["ok"] is True and node.receipts(9) == [b"r"]


def test_request_without_reply_to_is_carried_out_unheard() -> None:
    node = node_with(3)
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', b"r"))
    assert node.receipts(9) == [b"r"] and node.stored("q") == []


@pytest.mark.parametrize("body", [b"{", b'{"do":"nothing"}', b'{"do":"purge","queue":"none"}', b'{"do":"purge"}'])
def test_a_refused_request_without_reply_to_is_a_refused_send(body: bytes) -> None:
    node = node_with(3)
    node.say(send(9, "/admin", body, b"r"))
    refuse = node.refusal(9)
    assert refuse.receipt == b"r" and refuse.code in ("bad-request", "unknown-request", "no-such-destination")
    assert node.receipts(9) == []


def test_its_refusal_is_a_receipt_where_it_asked_for_that() -> None:
    node = node_with(3)
    node.say(request_of(send(9, "/admin", b"{", b"r", survives_refusal=True)), send(9, "q", b"on", b"s"))
    refused, receipt = (one for one in node.inbox[9] if isinstance(one, Receipt))
    assert isinstance(refused, RefusedReceipt) and (refused.receipt, refused.code) == (b"r", "bad-request")
    assert receipt.receipt == b"s" and not node.is_refused(9)


def test_what_is_refused_behind_its_receipt_is_in_the_log() -> None:
    node = node_of()
    node.say(send(1, "/admin", b'{"do":"await","queue":"q","timeout_ms":60000}', b"r"))
    assert node.receipts(1) == [b"r"] and not [note for note in node.notes if note.event == "request_refused"]
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    node.wait(1)
    (noted,) = (note for note in node.notes if note.event == "request_refused")
    assert noted.fields["code"] == "no-such-destination" and not node.is_refused(1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"do":"declare","queue":"n","dead_letter":"\\ud800"}',
        b'{"do":"declare","queue":"n","\\ud800":1}',
        b'{"do":"declare","log":"n","partition_key":"\\ud800"}',
        b'{"do":"\\ud800"}',
    ],
)
def test_a_sentence_with_half_a_surrogate_pair_can_be_said(body: bytes) -> None:
    node = node_with(3)
    node.say(send(9, "/admin", body, b"r"))
    refuse = node.refusal(9)
    assert encode_error(refuse.code, refuse.sentence, refuse.receipt, V1_2).endswith(b"\0\n")
    assert encode_refused(b"r", V1_2, refuse.code, refuse.sentence)
