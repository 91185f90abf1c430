"""AMQP 0-9-1 from outside: real clients that others have written, at a real broker with a real disk."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import kombu
import pika
import pytest
from amqp import exceptions

from radiator.auth.scrypt import Cost, made
from radiator.model.limits import LINGER_S
from radiator.protocols.amqp.connection_methods import ConnectionCloseOk
from radiator.protocols.amqp.methods import ChannelOpen, ConfirmSelect
from tests.acceptance import amqp_clients
from tests.acceptance.amqp_clients import (
    LISTENING,
    WAIT_MAX_S,
    Inbox,
    bodies,
    connected,
    declare,
    pika_channel,
    port_of,
    publish,
)
from tests.acceptance.amqp_wire import AmqpWire
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.certificates import Authority
from tests.protocols.amqp import talking

CONFIG = amqp_clients.CONFIG
SECRET = "cor:rect horse"
USERS = f"""
[user."shop"]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
role = "operator"
"""


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[amqp.Connection]:
    with connected(broker) as opened:
        yield opened


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


# ---- publishing and consuming ----------------------------------------------------------------------------------------


def test_confirmed_message_is_there_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        channel = connected(broker).channel()
        declare(channel, "q")
        for number in range(20):
            publish(channel, "q", str(number), delivery_mode=2)
        broker.kill()
        broker.start()
        assert bodies(connected(broker).channel(), "q") == [str(number) for number in range(20)]
        assert broker.stop() == 0


def test_a_broker_that_stops_says_so_behind_the_confirms(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        connection = connected(broker, confirm_publish=False)
        channel, confirmed = connection.channel(), []
        channel.confirm_select()
        channel.events["basic_ack"].add(lambda tag, multiple: confirmed.append(tag))
        declare(channel, "q")
        publish(channel, "q", "x", delivery_mode=2)
        declare(channel, "q")  # what was published is read when this is answered
        assert broker.stop() == 0
        with pytest.raises(exceptions.ConnectionForced, match="closure with reason 'shutdown'"):
            while True:
                connection.drain_events(timeout=WAIT_MAX_S)
        assert confirmed == [1]


def test_prefetch_of_one_and_every_answer_to_a_message(broker: BrokerProcess, name: str) -> None:
    channel = pika_channel(broker)
    channel.queue_declare(name, durable=True)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", name, body)
    channel.basic_qos(prefetch_count=1)
    taken = channel.consume(name, inactivity_timeout=WAIT_MAX_S)

    def step() -> tuple[bytes, bool, int]:
        method, _, body = next(taken)
        return body, method.redelivered, method.delivery_tag

    body, again, tag = step()
    assert (body, again) == (b"1", False) and channel.get_waiting_message_count() == 0
    channel.basic_nack(tag, requeue=True)
    body, again, tag = step()
    assert (body, again) == (b"1", True)
    channel.basic_reject(tag, requeue=True)
    body, again, tag = step()
    assert (body, again) == (b"1", True)
    channel.basic_reject(tag, requeue=False)
    body, again, tag = step()
    assert (body, again) == (b"2", False)
    channel.basic_nack(tag, requeue=False)
    body, again, tag = step()
    assert (body, again) == (b"3", False)
    channel.basic_ack(tag)
    assert channel.cancel() == 0
    assert channel.basic_get(name) == (None, None, None)
    channel.connection.close()


def test_window_holds_back_what_is_ready(channel: amqp.Channel, name: str) -> None:
    declare(channel, name)
    channel.basic_qos(0, 1, False)
    inbox = Inbox(channel, name)
    publish(channel, name, "1")
    publish(channel, name, "2")
    first = inbox.next()
    assert first.body == "1" and inbox.is_silent()
    channel.basic_ack(first.delivery_tag)
    assert inbox.next().body == "2"


def test_get_and_multiple_ack(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    declare(channel, name)
    assert channel.basic_get(name) is None
    for body in ("1", "2", "3", "4"):
        publish(channel, name, body)
    got = [channel.basic_get(name) for _ in range(3)]
    assert [message.delivery_info["message_count"] for message in got] == [3, 2, 1]
    channel.basic_ack(got[1].delivery_tag, multiple=True)
    channel.close()
    other = connection.channel()
    left = [other.basic_get(name) for _ in range(2)]
    assert [(message.body, message.delivery_info["redelivered"]) for message in left] == [("3", True), ("4", False)]
    other.basic_ack(0, multiple=True)  # all of them
    assert other.queue_declare(name, passive=True).message_count == 0


def test_get_sees_what_was_published_before_it(broker: BrokerProcess, name: str) -> None:
    with connected(broker, confirm_publish=False) as connection:
        channel = connection.channel()
        declare(channel, name)
        for number in range(20):
            publish(channel, name, str(number))
            assert bodies(channel, name) == [str(number)]


def test_ack_of_an_unknown_tag_closes_the_channel_alone(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    channel.basic_ack(7)
    with pytest.raises(exceptions.PreconditionFailed):
        declare(channel, name)
    assert declare(connection.channel(), name) == name


def test_mandatory_message_comes_back_before_its_confirm(broker: BrokerProcess, name: str) -> None:
    channel = pika_channel(broker, confirms=True)
    with pytest.raises(pika.exceptions.UnroutableError) as returned:
        channel.basic_publish("", name, b"lost", pika.BasicProperties(headers={"a": 1}), mandatory=True)
    (message,) = returned.value.messages
    assert (message.method.reply_code, message.method.exchange, message.method.routing_key) == (312, "", name)
    assert (message.body, message.properties.headers) == (b"lost", {"a": 1})
    channel.basic_publish("", name, b"dropped")  # confirmed all the same
    channel.queue_declare(name)
    channel.basic_publish("", name, b"kept", mandatory=True)
    channel.connection.close()


def test_mandatory_answer_to_nobody_comes_back(broker: BrokerProcess) -> None:
    channel, key = pika_channel(broker, confirms=True), f"amq.rabbitmq.reply-to.{'0' * 32}"
    with pytest.raises(pika.exceptions.UnroutableError) as returned:
        channel.basic_publish("", key, b"lost", mandatory=True)
    (message,) = returned.value.messages
    assert (message.method.reply_code, message.method.exchange, message.method.routing_key) == (312, "", key)
    channel.connection.close()


def test_mandatory_message_comes_back_before_what_its_client_asked_next(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    returned: list[Any] = []
    channel.events["basic_return"].add(lambda *message: returned.append(message))
    asked = talking.publish(channel.channel_id, name, mandatory=True)
    connection.transport.sock.sendall(asked + talking.method(channel.channel_id, ConfirmSelect()))
    channel.wait(amqp.spec.Confirm.SelectOk, timeout=WAIT_MAX_S)
    assert len(returned) == 1


def test_transaction_over_two_queues(broker: BrokerProcess, channel: amqp.Channel, name: str) -> None:
    one, two = declare(channel, f"{name}-1"), declare(channel, f"{name}-2")
    sender = connected(broker, confirm_publish=False).channel()
    sender.tx_select()
    publish(sender, one, "back")
    publish(sender, two, "back")
    sender.tx_rollback()
    publish(sender, one, "1")
    publish(sender, two, "2")
    assert bodies(channel, one) == bodies(channel, two) == []
    sender.tx_commit()
    assert (bodies(channel, one), bodies(channel, two)) == (["1"], ["2"])
    sender.connection.close()


def test_acks_of_a_transaction_that_is_rolled_back_do_not_count(connection: amqp.Connection, name: str) -> None:
    declare(connection.channel(), name)
    publish(connection.channel(), name, "1")
    channel = connection.channel()
    channel.tx_select()
    message = channel.basic_get(name)
    channel.basic_ack(message.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(message.delivery_tag)  # it is unacked still
    channel.tx_rollback()
    channel.close()
    again = connection.channel().basic_get(name)
    assert (again.body, again.delivery_info["redelivered"]) == ("1", True)


def test_recover_gives_back_all_that_is_unacked(channel: amqp.Channel, name: str) -> None:
    declare(channel, name)
    publish(channel, name, "1")
    assert channel.basic_get(name).body == "1"
    channel.basic_recover(requeue=True)
    assert channel.basic_get(name).delivery_info["redelivered"]


def test_large_body_and_an_empty_one(broker: BrokerProcess, name: str) -> None:
    large = bytes(range(256)) * 40 * 1024
    channel = connected(broker).channel()
    declare(channel, name)
    publish(channel, name, large)
    publish(channel, name, b"")
    inbox = Inbox(channel, name)
    assert inbox.next().body == large and len(large) == 10 * 1024 * 1024
    assert inbox.next().body in (b"", "")
    channel.connection.close()


def test_two_hundred_channels(connection: amqp.Connection, name: str) -> None:
    channels = [connection.channel() for _ in range(200)]
    declare(channels[0], name)
    for number, channel in enumerate(channels):
        publish(channel, name, str(number))
        assert channel.basic_get(name, no_ack=True).body == str(number)
    for channel in channels:
        channel.close()


def test_direct_reply_to(broker: BrokerProcess, connection: amqp.Connection, name: str) -> None:
    caller, server = connection.channel(), connection.channel()
    declare(server, name)
    answers = Inbox(caller, "amq.rabbitmq.reply-to", no_ack=True)
    publish(caller, name, "2", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    question = Inbox(server, name, no_ack=True).next()
    assert question.reply_to.startswith("amq.rabbitmq.reply-to.")
    publish(server, question.reply_to, "4", correlation_id=question.correlation_id)
    answer = answers.next()
    assert (answer.body, answer.correlation_id) == ("4", "7")
    with connected(broker) as other:
        for asking in (server, other.channel()):
            assert asking.queue_declare(question.reply_to, passive=True) == (question.reply_to, 0, 1)
        caller.close()
        with pytest.raises(exceptions.NotFound):
            other.channel().queue_declare(question.reply_to, passive=True)


def test_every_property_comes_as_it_went(channel: amqp.Channel, name: str) -> None:
    declare(channel, name)
    headers = {"n": -1, "large": 1 << 40, "real": 0.5, "yes": True, "none": None, "in": {"a": [1, "b"]}, "ä": "ö:\n\\"}
    given: dict[str, Any] = {
        "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 3,
        "correlation_id": "c", "reply_to": "r", "message_id": "m", "type": "t", "app_id": "a",
    }  # fmt: skip
    publish(channel, name, "1", application_headers=headers, **given)
    message = channel.basic_get(name, no_ack=True)
    assert message.headers == headers
    assert {key: message.properties[key] for key in given} == given


# ---- beside STOMP and kombu ------------------------------------------------------------------------------------------


def test_stomp_and_amqp_read_each_other(channel: amqp.Channel, wire: Wire, name: str) -> None:
    declare(channel, name)
    wire.send(f"/queue/{name}", "from stomp", {"colour": "r:ed", "content-type": "text/plain", "correlation-id": "7"})
    message = channel.basic_get(name, no_ack=True)
    assert (message.body, message.headers["colour"]) == (b"from stomp", "r:ed")
    assert (message.content_type, message.correlation_id) == ("text/plain", "7")
    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == ("", name)
    publish(
        channel, name, "from amqp", application_headers={"colour": "bl:ue", "n": 5},
        content_type="text/html", correlation_id="8",
    )  # fmt: skip
    wire.subscribe(f"/queue/{name}", ack="auto")
    frame = wire.message()
    assert (frame.body, frame["colour"], frame["n"]) == (b"from amqp", "bl:ue", "5")
    assert (frame["content-type"], frame["correlation-id"]) == ("text/html", "8")
    assert frame["destination"] == f"/queue/{name}"


def test_kombu_over_amqp(broker: BrokerProcess, name: str) -> None:
    exchange = kombu.Exchange(name, "topic")
    queue = kombu.Queue(name, exchange, routing_key="a.#")
    with kombu.Connection(f"amqp://guest:guest@127.0.0.1:{port_of(broker)}//", confirm_publish=True) as connection:
        found: list[object] = []

        def take(body: object, message: kombu.Message) -> None:
            found.append(body)
            message.ack()

        connection.Producer().publish({"n": 1}, exchange=exchange, routing_key="a.b", declare=[queue])
        with connection.Consumer(queue, callbacks=[take]):
            connection.drain_events(timeout=WAIT_MAX_S)
        assert found == [{"n": 1}]
        with connection.SimpleQueue(f"{name}-simple") as simple:
            simple.put("job")
            message = simple.get(timeout=WAIT_MAX_S)
            message.reject()
            assert message.payload == "job" and simple.qsize() == 0


# ---- logging in ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a user, and a listener that encrypts."""
    directory = tmp_path_factory.mktemp("guarded")
    Authority(directory).pair("server")
    tls = '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
    config = LISTENING.replace('"amqp:', '"amqps://127.0.0.1:0", "amqp:') + tls + EVERYTHING_MAY_BE_CREATED + USERS
    with BrokerProcess(directory, config) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log and SECRET not in running.log
        assert running.stop() == 0


@pytest.mark.parametrize("method", ["PLAIN", "AMQPLAIN"])
def test_password_is_checked(guarded: BrokerProcess, method: str) -> None:
    with connected(guarded, userid="shop", password=SECRET, login_method=method) as connection:
        assert declare(connection.channel(), durable=False)
    with pytest.raises(exceptions.AccessRefused) as refused:
        connected(guarded, userid="shop", password="hunter2", login_method=method)
    assert refused.value.reply_code == 403


@pytest.mark.parametrize("is_answered", [True, False])
def test_the_broker_hangs_up_behind_the_answer_to_its_close(broker: BrokerProcess, is_answered: bool) -> None:
    """rabbitpy takes a hanging up that comes with the close for a lost connection."""
    with AmqpWire(port_of(broker)) as wire:
        wire.greet()
        wire.send(talking.method(1, ChannelOpen()) * 2)
        while type(wire.next()).__name__ != "ConnectionClose":
            pass
        wire.socket.settimeout(LINGER_S / 4)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        wire.socket.settimeout(WAIT_MAX_S)
        began_s = time.monotonic()
        if is_answered:
            left = talking.publish(1) + talking.method(0, ConnectionCloseOk())
            wire.send(left[:-5])
            time.sleep(0.05)
            wire.send(left[-5:])
        assert wire.socket.recv(1) == b""
        assert (time.monotonic() - began_s < LINGER_S / 2) is is_answered


def test_another_virtual_host_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(exceptions.NotAllowed) as refused:
        connected(broker, virtual_host="other")
    assert refused.value.reply_code == 530


def test_new_secret_on_a_living_connection(guarded: BrokerProcess) -> None:
    login = pika.PlainCredentials("shop", SECRET)
    parameters = pika.ConnectionParameters("127.0.0.1", port_of(guarded), credentials=login)
    connection = pika.BlockingConnection(parameters)
    connection.update_secret(SECRET, "renewed")
    assert connection.channel().queue_declare("", exclusive=True).method.queue
    connection.close()


def test_wrong_new_secret_does_not_pass(guarded: BrokerProcess) -> None:
    login = pika.PlainCredentials("shop", SECRET)
    parameters = pika.ConnectionParameters("127.0.0.1", port_of(guarded), credentials=login)
    connection = pika.BlockingConnection(parameters)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.update_secret("hunter2", "renewed")


def test_encrypted_listener(guarded: BrokerProcess) -> None:
    tls = {"ca_certs": str(guarded.directory / "ca.pem"), "server_hostname": "localhost"}
    with connected(guarded, "amqps", userid="shop", password=SECRET, ssl=tls) as connection:
        channel = connection.channel()
        queue = declare(channel, durable=False, exclusive=True)
        publish(channel, queue, "secret")
        assert bodies(channel, queue) == ["secret"]
