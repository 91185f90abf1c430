"""In which order a channel that is closed by an error has its answers: over a socket, all in one write."""

from collections.abc import Iterator
from typing import Any

import pytest

from radiator.protocols.amqp import methods as m
from tests.acceptance.amqp_clients import CONFIG, port_of
from tests.acceptance.amqp_wire import AmqpWire
from tests.broker_process import BrokerProcess
from tests.protocols.amqp.talking import method, publish

LATER = {
    "qos": m.BasicQos(0, 3),
    "global qos": m.BasicQos(0, 3, True),
    "declare": m.QueueDeclare(queue="q"),
    "passive": m.QueueDeclare(queue="q", passive=True),
    "reply-to": m.QueueDeclare(queue="amq.rabbitmq.reply-to", passive=True),
    "bind": m.QueueBind(queue="q", exchange="amq.direct"),
    "purge": m.QueuePurge(queue="q"),
    "delete": m.QueueDelete(queue="none"),
    "exchange": m.ExchangeDeclare(exchange="amq.direct", passive=True),
    "consume": m.BasicConsume(queue="q"),
    "cancel": m.BasicCancel("tag"),
    "cancel nothing": m.BasicCancel("nobody"),
    "get": m.BasicGet(queue="q"),
    "recover": m.BasicRecover(True),
    "flow": m.ChannelFlow(True),
    "confirm": m.ConfirmSelect(),
}
REFUSED = {
    "publish": (publish(1, exchange="none"), (60, 40)),
    "declare": (method(1, m.QueueDeclare(queue="none", passive=True)), (50, 10)),
    "get": (method(1, m.BasicGet(queue="none")), (60, 70)),
    "consume": (method(1, m.BasicConsume(queue="none")), (60, 20)),
    "bind": (method(1, m.QueueBind(queue="q", exchange="none")), (50, 20)),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.mark.parametrize(("refused", "of"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_what_came_before_is_answered_before_the_close_and_nothing_behind_it(
    broker: BrokerProcess, later: Any, refused: bytes, of: tuple[int, int]
) -> None:
    with AmqpWire(port_of(broker)) as wire:
        wire.greet()
        wire.open()
        before = (
            m.QueueDeclare(queue="q"), m.ConfirmSelect(), m.BasicConsume(queue="q", consumer_tag="tag"),
            m.BasicCancel("tag"), m.BasicConsume(queue="q", consumer_tag="tag"), m.BasicGet(queue="other"),
            m.BasicQos(0, 9),
        )  # fmt: skip
        first = method(1, m.QueueDeclare(queue="other")) + publish(1, "other")
        wire.send(first, *(method(1, one) for one in before), publish(1, "nobody"), refused, method(1, later))
        heard: list[Any] = []
        while not isinstance(found := wire.next(), m.ChannelClose):
            heard += [] if isinstance(found, bytes) else [found]
        kinds = [type(one) for one in heard if not isinstance(one, m.BasicAck)]
        assert kinds == [
            m.QueueDeclareOk, m.QueueDeclareOk, m.ConfirmSelectOk, m.BasicConsumeOk, m.BasicCancelOk, m.BasicConsumeOk,
            m.BasicGetOk, m.BasicQosOk,
        ]  # fmt: skip
        assert [one.delivery_tag for one in heard if isinstance(one, m.BasicAck)] == [1], "what was stored is confirmed"
        assert (found.reply_code, found.class_id, found.method_id) == (404, *of)
        wire.send(method(1, m.ChannelCloseOk()), method(1, m.ChannelOpen()), method(1, m.QueueDelete(queue="other")))
        assert [type(wire.next()) for _ in range(2)] == [m.ChannelOpenOk, m.QueueDeleteOk]
