"""What an operator sees of AMQP's connections, channels and queues over HTTP, and how he ends them."""

import json
from collections.abc import Iterator
from typing import Any

import amqp
import pytest
from amqp import exceptions

from tests.acceptance.amqp_clients import WAIT_MAX_S, Inbox, connected, declare, publish
from tests.acceptance.wire import Wire
from tests.server.web import SECRET, USERS, WebBroker, WebClient, basic

CONFIG = USERS.replace('"http://127.0.0.1:0",', '"http://127.0.0.1:0", "amqp://127.0.0.1:0",')


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def web(broker: WebBroker) -> Iterator[WebClient]:
    with broker.client() as client:
        ask(client, "/v1/queues")
        yield client


@pytest.fixture
def connection(broker: WebBroker, web: WebClient) -> Iterator[amqp.Connection]:
    with connected(broker, userid="ann", password=SECRET) as opened:
        yield opened


def ask(web: WebClient, path: str, method: str = "GET", body: dict[str, Any] | None = None) -> dict[str, Any]:
    text, kind = (b"", None) if body is None else (json.dumps(body).encode(), "application/json")
    answer = web.ask(method, path, text, Authorization=basic("ann"), Content_Type=kind)
    found: dict[str, Any] = json.loads(answer.body)
    return found


def newest(web: WebClient) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The newest connection of AMQP, and its channels."""
    rows = ask(web, "/v1/connections")["connections"]
    connection = [one for one in rows if one["protocol"] == "AMQP 0-9-1"][-1]
    return connection, [one for one in rows if one["channel_of"] == connection["number"]]


def test_a_channel_is_shown_with_its_connection_and_that_one_with_its_channels(
    connection: amqp.Connection, web: WebClient
) -> None:
    first, second = connection.channel(), connection.channel()
    whole, channels = newest(web)
    assert (whole["channel_of"], whole["channels"], whole["user"]) == (None, 2, "ann")
    assert [one["protocol"] for one in channels] == ["AMQP 0-9-1 channel 1", "AMQP 0-9-1 channel 2"]
    assert {one["address"] for one in channels} == {whole["address"]}
    numbers = [one["number"] for one in channels]
    assert ask(web, f"/v1/connections/{whole['number']}")["channel_list"] == numbers
    second.close()
    assert ask(web, f"/v1/connections/{whole['number']}")["channel_list"] == numbers[:1]
    one = ask(web, f"/v1/connections/{numbers[0]}")
    assert (one["channel_of"], one["channels"], one["channel_list"]) == (whole["number"], 0, [])
    first.close()


def test_a_queue_says_to_whom_it_is_exclusive_and_who_is_its_active_consumer(
    connection: amqp.Connection, web: WebClient
) -> None:
    channel = connection.channel()
    queue = declare(channel, durable=False, exclusive=True)
    whole, channels = newest(web)
    assert ask(web, f"/v1/queues/{queue}")["exclusive_to"] == whole["number"]
    declare(channel, "single", auto_delete=True, arguments={"x-single-active-consumer": True})
    found = ask(web, "/v1/queues/single")
    assert (found["exclusive_to"], found["active_consumer"]) == (None, None)
    other = connection.channel()
    channel.basic_consume("single", consumer_tag="first")
    other.basic_consume("single", consumer_tag="second")
    number = channels[0]["number"]
    assert ask(web, "/v1/queues/single")["active_consumer"] == {"connection": number, "subscription": "first"}
    channel.basic_cancel("first")
    other.basic_qos(0, 1, False)
    assert ask(web, "/v1/queues/single")["active_consumer"]["subscription"] == "second"
    assert ask(web, "/v1/queues/single")["settings"]["auto_delete"]


def test_one_channel_is_closed_and_the_others_go_on(connection: amqp.Connection, web: WebClient) -> None:
    closed, other = connection.channel(), connection.channel()
    declare(other, "given-back")
    inbox = Inbox(closed, "given-back")
    publish(other, "given-back", "1")
    assert inbox.next().body == "1"
    _, channels = newest(web)
    assert ask(web, f"/v1/connections/{channels[0]['number']}", "DELETE")["user"] == "ann"
    says = "^(?!Basic).*This channel was closed by an operator: 'ann', on connection"  # it is of no method
    with pytest.raises(exceptions.PreconditionFailed, match=says):
        connection.drain_events(timeout=WAIT_MAX_S)
    again = other.basic_get("given-back")
    assert (again.body, again.delivery_info["redelivered"]) == ("1", True)
    other.basic_ack(again.delivery_tag)
    there = [one["number"] for one in newest(web)[1]]  # py-amqp opens another one in its place
    assert channels[0]["number"] not in there and channels[1]["number"] in there


def test_a_connection_is_closed_with_all_its_channels(broker: WebBroker, web: WebClient) -> None:
    connection = connected(broker, userid="ann", password=SECRET)
    channel = connection.channel()
    queue = declare(channel, durable=False, exclusive=True)
    whole, channels = newest(web)
    ask(web, f"/v1/connections/{whole['number']}", "DELETE")
    with pytest.raises(exceptions.ConnectionForced, match="This connection was closed by an operator: 'ann', on conn"):
        connection.drain_events(timeout=WAIT_MAX_S)
    connection.collect()
    assert ask(web, f"/v1/queues/{queue}")["code"] == "no-such-destination"
    gone = {whole["number"], *(one["number"] for one in channels)}
    assert not gone & {one["number"] for one in ask(web, "/v1/connections")["connections"]}


def test_an_exclusive_queue_is_sent_to_looked_at_and_ended_by_others_and_not_used(
    broker: WebBroker, connection: amqp.Connection, web: WebClient
) -> None:
    channel = connection.channel()
    for queue in ("mine", "/amq/mine"):
        declare(channel, queue, durable=False, exclusive=True)
    for address in ("/queue/mine", "/amq/queue/mine"):
        with Wire((broker.host, broker.port)) as wire:
            wire.connect({"login": "ann", "passcode": SECRET})
            wire.send_frame("SUBSCRIBE", {"id": "1", "destination": address})
            refusal = wire.read("ERROR")
            assert refusal["code"] == "locked" and b"/queue/mine is owned by connection" in refusal.body
    with Wire((broker.host, broker.port)) as wire:
        wire.connect({"login": "ann", "passcode": SECRET})
        for text in ("1", "2"):
            wire.send("/queue/mine", text)
    assert channel.basic_get("mine", no_ack=True).body == b"1"
    assert ask(web, "/v1/queues/mine/peek?count=5")["messages"][0]["body"] == "2"
    assert ask(web, "/v1/queues/mine/receive", "POST", {"max": 1})["code"] == "locked"
    assert ask(web, "/v1/queues/mine/move", "POST", {"to": "other"})["code"] in ("locked", "bad-request")
    with connected(broker, userid="ann", password=SECRET) as other:
        for do in (
            lambda one: one.queue_purge("mine"),
            lambda one: one.queue_delete("mine"),
            lambda one: one.basic_get("mine"),
            lambda one: one.queue_declare("mine", passive=True),
        ):
            with pytest.raises(
                exceptions.ResourceLocked, match="cannot obtain exclusive access to locked queue 'mine'"
            ):
                do(other.channel())
    assert ask(web, "/v1/queues/mine/purge", "POST", {})["purged"] == 1
    assert ask(web, "/v1/queues/mine", "DELETE")["deleted"] == 0
    assert ask(web, "/v1/queues/mine")["code"] == "no-such-destination"
