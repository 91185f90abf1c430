"""Avro over HTTP at a real broker, with fastavro as the client: batches, leases, and bodies for a schema."""

import json
from collections.abc import Iterator

import pytest

from tests.avro_bodies import GOOD, ORDER_TEXT, VALUE, as_json
from tests.broker_process import BrokerProcess
from tests.protocols.http.test_avro import read, written
from tests.server.web import OPEN, WebClient, port_of

AVRO = {"Content_Type": "avro/binary"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebClient]:
    config = f"{OPEN}\n[queue.orders]\nschema = '{ORDER_TEXT}'\n"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        running.wait_for_log("listening address=http://")
        with WebClient(port_of(running.log, "http")) as made:
            yield made
        assert running.is_running and "Traceback" not in running.log, running.log


def test_a_batch_is_published_leased_and_acked(client: WebClient) -> None:
    data = written([("", {"colour": "blue"}, b"\xff\0"), ("/queue/a", {}, b"")])
    answer = client.ask("POST", "/v1/queues/a/messages", data, **AVRO)
    ids = json.loads(answer.body)["ids"]
    assert answer.status == 201 and len(ids) == 2
    asked = json.dumps({"max": 10}).encode()
    answer = client.ask("POST", "/v1/queues/a/receive", asked, Content_Type="application/json", Accept="avro/binary")
    assert answer.status == 200 and answer.headers["Content-Type"] == "avro/binary"
    (to, headers, body), (_, other, _) = read(answer.body)
    assert (to, body, headers["colour"], headers["redelivered"]) == ("/queue/a", b"\xff\0", "blue", "false")
    assert [headers["message-id"], other["message-id"]] == ids
    settlements = [{"lease": one["ack"], "action": "ack"} for one in (headers, other)]
    asked = json.dumps({"settlements": settlements}).encode()
    answer = client.ask("POST", "/v1/settle", asked, Content_Type="application/json")
    assert json.loads(answer.body) == {"verdicts": [{"ok": True}] * 2}


def test_a_body_that_is_none_of_the_schema_refuses_the_whole_batch(client: WebClient) -> None:
    kind = {"content-type": "avro/binary"}
    good, bad = ("", kind, GOOD), ("", kind, GOOD + b"\0")
    answer = client.ask("POST", "/v1/queues/orders/messages", written([good, bad]), **AVRO)
    found = json.loads(answer.body)
    assert (answer.status, found["code"]) == (422, "bad-body")
    assert "goes on for 1 byte after the end of order" in found["detail"]
    one = {"Content_Type": "application/json", "message_content_type": "application/json"}
    wrong = as_json(json.loads(ORDER_TEXT), VALUE).replace(b"2.0", b'"abc"')
    answer = client.ask("POST", "/v1/queues/orders/messages", wrong, **one)
    assert (
        answer.status == 422
        and 'order.items[1].price is "abc"; it must be a double' in json.loads(answer.body)["detail"]
    )
    assert json.loads(client.ask("GET", "/v1/queues/orders").body)["ready"] == 0
    assert client.ask("POST", "/v1/queues/orders/messages", written([good]), **AVRO).status == 201
    one = AVRO | {"message_content_type": "avro/binary"}
    assert client.ask("POST", "/v1/queues/orders/messages", GOOD, **one).status == 201
    assert json.loads(client.ask("GET", "/v1/queues/orders").body)["ready"] == 2
