"""Connections of kombu: addresses, loss and retry, forks, kombu's event loop, heart-beats."""

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import kombu
import pytest
from kombu.asynchronous import Hub
from kombu.exceptions import OperationalError

import radiator.kombu
from radiator.integrations.kombu.failures import ConnectionLost, OperationRefused
from tests.broker_process import BrokerProcess
from tests.integrations.kombu.conftest import CONFIG, url
from tests.integrations.kombu.test_channel import Collected, declared, publish
from tests.ports import free_port


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that the test may stop and start again at the same port."""
    limits = "[limits]\nheart_beat_ms = [1000, 1000]\n"
    with BrokerProcess(tmp_path, limits + CONFIG) as running:
        server = f'[server]\nlisten = ["{running.address}"]\ndata_dir = "data"\nmap_size = "8GiB"\n'
        running.config_file.write_text(server + limits + CONFIG)
        yield running


# ---- addresses


def test_without_an_import_the_transport_is_named(broker: BrokerProcess) -> None:
    address = f"stomp://{broker.host}:{broker.port}"
    with kombu.Connection(address, transport="radiator.kombu:Transport") as connection:
        connection.connect()
        assert isinstance(connection.transport, radiator.kombu.Transport)
        assert connection.transport.driver_version() == radiator.__version__


def test_an_address_as_people_write_it(broker: BrokerProcess) -> None:
    for end in ("", "/", "//"):
        with kombu.Connection(f"radiator://me:secret@{broker.host}:{broker.port}{end}") as connection:
            connection.connect()
            assert connection.as_uri() == f"radiator://me:**@{broker.host}:{broker.port}//"
    assert pickle.loads(pickle.dumps(connection)).as_uri() == connection.as_uri()


def test_what_an_address_cannot_have_is_refused(broker: BrokerProcess) -> None:
    with pytest.raises(OperationRefused, match="virtual hosts.*'shop'"):
        kombu.Connection(url(broker) + "/shop").connect()
    with pytest.raises(OperationRefused, match="TLS"):
        kombu.Connection(url(broker), ssl=True).connect()


def test_of_several_addresses_the_one_that_answers_is_taken(broker: BrokerProcess) -> None:
    with kombu.Connection(f"radiator://127.0.0.1:{free_port()};{url(broker)}") as connection:
        connection.ensure_connection(interval_start=0, interval_step=0, max_retries=3)
        declared(connection.channel(), "failover")


def test_nobody_there_is_an_operational_error() -> None:
    connection = kombu.Connection(f"radiator://127.0.0.1:{free_port()}", connect_timeout=0.2)
    tried: list[Exception] = []
    with pytest.raises(OperationalError, match="Is the broker running"):
        connection.ensure_connection(
            max_retries=1, interval_start=0, interval_step=0, errback=lambda error, _: tried.append(error)
        )
    assert tried and all(isinstance(error, OSError) for error in tried)  # as with RabbitMQ


def test_one_address_is_tried_until_its_broker_is_there(tmp_path: Path) -> None:
    """As a program that publishes while the broker restarts; with several addresses the next is tried at once."""
    port = free_port()
    listen = f'[server]\nlisten = ["stomp://127.0.0.1:{port}"]\n'
    broker = BrokerProcess(tmp_path, listen)
    starting = threading.Timer(0.7, broker.start)
    starting.start()
    try:
        # asked of the transport: kombu's own connect() tries again by itself, after 2 s
        connection = kombu.Connection(f"radiator://127.0.0.1:{port}", connect_timeout=10)
        connection.transport.establish_connection().close()
    finally:
        starting.join()
        broker.kill()
    began_s = time.monotonic()
    nobody = f"radiator://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectionLost):
        kombu.Connection(f"{nobody};{nobody}", connect_timeout=10).transport.establish_connection()
    assert time.monotonic() - began_s < 5
    with pytest.raises(ConnectionLost):
        kombu.Connection(nobody, connect_timeout=0.5).transport.establish_connection()


# ---- loss


def test_a_publish_is_tried_again_on_a_new_connection(own_broker: BrokerProcess) -> None:
    with kombu.Connection(url(own_broker)) as connection:
        producer = connection.Producer()
        queue = kombu.Queue("q")
        policy = {"interval_start": 0.05, "interval_step": 0.05, "interval_max": 0.2, "max_retries": 100}

        def say(number: int) -> None:
            producer.publish(
                {"number": number}, routing_key="q", declare=[queue], retry=True, retry_policy=policy, delivery_mode=2
            )

        say(1)
        own_broker.kill()
        threading.Timer(0.3, own_broker.start).start()
        say(2)
        with connection.SimpleQueue("q") as simple:
            assert [simple.get(timeout=5).payload["number"] for _ in range(2)] == [1, 2]


def test_a_lost_connection_is_said_to_everybody(own_broker: BrokerProcess) -> None:
    connection = kombu.Connection(url(own_broker))
    channel = connection.channel()
    declared(channel, "q")
    publish(channel, b"x", "q")
    message = Collected(channel, "q").wait_for(1).messages[0]
    own_broker.kill()
    with pytest.raises(ConnectionLost):
        connection.drain_events(timeout=5)
    assert not connection.connected and channel.connection is None
    for what in (message.ack, lambda: publish(channel, b"x", "q")):
        with pytest.raises(connection.connection_errors):
            what()
    own_broker.start()
    again = connection.channel()
    assert Collected(again, "q").wait_for(1).messages[0].delivery_info["redelivered"]
    connection.release()


def test_what_nobody_awaits_an_answer_for_is_not_sent_into_a_connection_that_is_lost(own_broker: BrokerProcess) -> None:
    """As the first result of a worker after a restart of the broker: an event loop does not watch that connection."""
    with kombu.Connection(url(own_broker)) as connection:
        channel = connection.channel()
        declared(channel, "q")
        publish(channel, b"1", "q", delivery_mode=1)
        own_broker.stop()
        own_broker.start()
        with pytest.raises(connection.connection_errors):
            publish(channel, b"2", "q", delivery_mode=1)


def acks(channel: Any, messages: list[Any]) -> None:
    for message in messages:  # the first finds room in the system's buffer
        message.ack()
        time.sleep(0.01)


def publishes(channel: Any, messages: list[Any]) -> None:
    publish(channel, b"x", "q", delivery_mode=1)


@pytest.mark.parametrize("meet", [acks, publishes])
def test_consumers_hear_of_a_loss_that_somebody_else_has_met(
    own_broker: BrokerProcess, meet: Callable[[Any, Any], None]
) -> None:
    """An ACK or a SEND meets it; whoever waits for messages must not wait on a new connection that has no consumers."""
    connection = kombu.Connection(url(own_broker))
    channel = connection.channel()
    declared(channel, "q")
    collected = Collected(channel, "q")
    for number in range(20):
        publish(channel, b"%d" % number, "q")
    messages = collected.wait_for(20).messages
    own_broker.stop()
    own_broker.start()
    with pytest.raises(connection.connection_errors):
        meet(channel, messages)
    with pytest.raises(ConnectionLost):
        connection.drain_events(timeout=5)
    assert not connection.connected
    connection.release()


def test_a_consumer_goes_on_after_a_loss_as_kombu_revives_it(own_broker: BrokerProcess) -> None:
    got: list[Any] = []
    connection = kombu.Connection(url(own_broker))
    consumer = connection.Consumer(
        [kombu.Queue("q")], callbacks=[lambda body, message: (got.append(body), message.ack())]
    )
    consumer.consume()
    connection.Producer().publish(1, routing_key="q")
    connection.drain_events(timeout=5)
    own_broker.stop()
    own_broker.start()
    drain = connection.ensure(consumer, connection.drain_events, max_retries=50, interval_start=0.05, interval_step=0)
    threading.Timer(0.2, lambda: kombu.Connection(url(own_broker)).Producer().publish(2, routing_key="q")).start()
    drain(timeout=5)
    assert got == [1, 2]
    connection.release()


# ---- forks


def test_a_child_lets_go_of_its_parents_connection(connection: kombu.Connection, name: str) -> None:
    """And the parent's goes on: nothing of it was said to the broker."""
    channel = connection.channel()
    declared(channel, name)
    consumer = Collected(channel, name)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            connection.collect()
            publish(connection.channel(), b"child", name)
            connection.release()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    publish(channel, b"parent", name)
    assert sorted(consumer.wait_for(2).bodies) == [b"child", b"parent"]


# ---- signals


def test_a_handler_of_signals_may_cancel_whatever_it_has_interrupted(connection: kombu.Connection, name: str) -> None:
    """As Celery's cold shutdown does. What it has interrupted goes on, and then it is done."""
    channel = connection.channel()
    declared(channel, name)
    consumer = Collected(channel, name)
    before = signal.signal(signal.SIGUSR1, lambda *_: channel.basic_cancel(consumer.tag))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.5)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert channel.queue_declare(name, passive=True).consumer_count == 0


# ---- kombu's event loop


def turns(hub: Hub, until: Any, timeout_s: float = 5.0) -> None:
    end_s = time.monotonic() + timeout_s
    hub.timer.call_repeatedly(0.05, lambda: None)  # no turn takes longer
    while not until():
        assert time.monotonic() < end_s, "the loop has not done it in time"
        hub.run_once()


def test_the_loop_hands_on_what_comes(connection: kombu.Connection, name: str) -> None:
    hub = Hub()
    channel = connection.channel()
    declared(channel, name)
    consumer = Collected(channel, name)
    connection.register_with_event_loop(hub)
    for number in range(200):
        publish(channel, b"%d" % number, name, delivery_mode=1)
    turns(hub, lambda: len(consumer.messages) == 200)
    assert consumer.bodies == [b"%d" % number for number in range(200)]


@pytest.mark.alone("at once is within half a second")
@pytest.mark.parametrize("is_refused", [False, True])
def test_what_comes_while_an_answer_is_awaited_is_handed_on_all_the_same(
    connection: kombu.Connection, broker: BrokerProcess, name: str, is_refused: bool
) -> None:
    """The trap: what was read behind an answer does not make the socket readable. No timer helps the loop here."""
    hub = Hub()
    channel = connection.channel()
    declared(channel, name)
    came_s: list[float] = []
    channel.basic_consume(name, callback=lambda message: came_s.append(time.monotonic()))
    connection.register_with_event_loop(hub)
    with kombu.Connection(url(broker)) as other:
        publish(other.channel(), b"x", name)
    while not channel.connection.broker.waiting and not channel.connection._arrived:
        with pytest.raises(OperationRefused) if is_refused else nullcontext():
            channel.queue_declare(f"{name}-none" if is_refused else name, passive=True)
    assert came_s == []  # never from within another call
    began_s = time.monotonic()
    hub.run_once()
    assert came_s and came_s[0] - began_s < 0.5


def test_a_callback_may_ask_the_broker(connection: kombu.Connection, name: str) -> None:
    hub = Hub()
    channel = connection.channel()
    declared(channel, name)
    declared(channel, name + "-2")
    got: list[Any] = []

    def pass_on(message: Any) -> None:
        publish(channel, message.body, name + "-2")
        message.ack()

    channel.basic_consume(name, callback=pass_on)
    channel.basic_consume(name + "-2", callback=got.append)
    connection.register_with_event_loop(hub)
    for number in range(50):
        publish(channel, b"%d" % number, name, delivery_mode=1)
    turns(hub, lambda: len(got) == 50)


def test_the_loop_hears_of_a_loss(own_broker: BrokerProcess) -> None:
    for is_in_call in (False, True):
        connection = kombu.Connection(url(own_broker))
        hub = Hub()
        hub.propagate_errors = connection.connection_errors
        channel = connection.channel()
        connection.register_with_event_loop(hub)
        own_broker.kill()
        if is_in_call:
            with pytest.raises(ConnectionLost):
                channel.queue_declare("q", passive=True)
        with pytest.raises(ConnectionLost):
            turns(hub, lambda: False)
        connection.collect()
        hub.close()  # nothing is left in it that would tell of it again
        own_broker.start()


def test_the_loop_hears_of_a_loss_that_an_ack_has_met(own_broker: BrokerProcess) -> None:
    """Nobody awaits its answer, so it raises nothing; and a socket that it has closed wakes no loop."""
    connection = kombu.Connection(url(own_broker))
    hub = Hub()
    hub.propagate_errors = connection.connection_errors
    channel = connection.channel()
    declared(channel, "q")
    consumer = Collected(channel, "q")
    connection.register_with_event_loop(hub)
    for body in (b"1", b"2"):
        publish(channel, body, "q")
    turns(hub, lambda: len(consumer.messages) == 2)
    own_broker.kill()
    for message in consumer.messages:
        channel.basic_ack(message.delivery_tag)
        time.sleep(0.05)  # the answer to what is sent to a dead one is on its way
    with pytest.raises(ConnectionLost):
        turns(hub, lambda: False)
    connection.collect()
    hub.close()


def test_what_came_last_is_handed_on_before_the_loss_is_told(own_broker: BrokerProcess) -> None:
    connection, other = kombu.Connection(url(own_broker)), kombu.Connection(url(own_broker))
    hub = Hub()
    channel = connection.channel()
    declared(channel, "q")
    consumer = Collected(channel, "q", no_ack=True)
    connection.register_with_event_loop(hub)
    publish(other.channel(), b"last", "q")
    assert own_broker.stop() == 0
    with pytest.raises(ConnectionLost):
        turns(hub, lambda: False)
    assert consumer.bodies == [b"last"]
    for one in (connection, other):
        one.collect()


# ---- heart-beats


def test_heart_beats_are_asked_of_the_broker_and_checked(own_broker: BrokerProcess) -> None:
    connection = kombu.Connection(url(own_broker), heartbeat=1)
    connection.connect()
    assert connection.get_heartbeat_interval() == 1
    os.kill(own_broker.pid, signal.SIGSTOP)  # it is there, and silent
    try:
        began_s = time.monotonic()
        with pytest.raises(ConnectionLost, match="silent"):
            while time.monotonic() - began_s < 10:
                connection.heartbeat_check()
                time.sleep(0.1)
        assert 2 < time.monotonic() - began_s < 6
    finally:
        os.kill(own_broker.pid, signal.SIGCONT)
    connection.collect()


def test_who_computes_for_long_is_not_taken_for_dead(own_broker: BrokerProcess) -> None:
    """A solo worker looks at nothing while a task runs: it promises no heart-beats, and breaks none."""
    with kombu.Connection(url(own_broker), heartbeat=1) as connection:
        channel = connection.channel()
        declared(channel, "q")
        time.sleep(3.3)  # longer than the broker would wait for one who had promised to beat each second
        declared(channel, "q")
        connection.heartbeat_check()
