"""The sentences of refusals over AMQP, as they come from a broker: they begin as RabbitMQ's do."""

from collections.abc import Callable, Iterator
from typing import Any

import amqp
import pytest
from amqp import exceptions

from radiator.model.limits import SETTLED_PER_TRANSACTION
from tests.acceptance.amqp_clients import Inbox, bodies, connected, declare, publish
from tests.acceptance.test_amqp_operators import CONFIG
from tests.server.web import SECRET, WebBroker

IN = "in vhost '/'"
MORE = CONFIG + '[user.carl]\npassword = "{}"\nread = ["/queue/of-carl"]\ndeclare = ["/queue/of-carl"]\n'.format(
    CONFIG.partition('password = "')[2].partition('"')[0]
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("broker"), MORE) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def channel(broker: WebBroker) -> Iterator[amqp.Channel]:
    with connected(broker, userid="ann", password=SECRET) as opened:
        yield opened.channel()


def refused(do: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(exceptions.AMQPError) as raised:
        do()
    return raised.value.code, raised.value.message  # type: ignore[attr-defined]


NIX: dict[str, Callable[[amqp.Channel], Any]] = {
    "passive": lambda channel: channel.queue_declare("nix.a", passive=True),
    "consume": lambda channel: channel.basic_consume("nix.a"),
    "get": lambda channel: channel.basic_get("nix.a"),
    "purge": lambda channel: channel.queue_purge("nix.a"),
    "bind": lambda channel: channel.queue_bind("nix.a", "amq.direct", "k"),
}


@pytest.mark.parametrize("do", NIX.values(), ids=NIX)
def test_no_queue(channel: amqp.Channel, do: Callable[[amqp.Channel], Any]) -> None:
    assert refused(lambda: do(channel)) == (404, f"NOT_FOUND - no queue 'nix.a' {IN}")


NIX_EXCHANGE: dict[str, Callable[[amqp.Channel], Any]] = {
    "passive": lambda channel: channel.exchange_declare("nix.x", "direct", passive=True),
    "publish": lambda channel: publish(channel, "k", "", "nix.x"),
    "queue-bind": lambda channel: channel.queue_bind(declare(channel, "there"), "nix.x", "k"),
    "bind": lambda channel: channel.exchange_bind("amq.direct", "nix.x", "k"),
    "bind-to": lambda channel: channel.exchange_bind("nix.x", "amq.direct", "k"),
}


@pytest.mark.parametrize("do", NIX_EXCHANGE.values(), ids=NIX_EXCHANGE)
def test_no_exchange(channel: amqp.Channel, do: Callable[[amqp.Channel], Any]) -> None:
    assert refused(lambda: do(channel)) == (404, f"NOT_FOUND - no exchange 'nix.x' {IN}")


def test_declared_otherwise(broker: WebBroker, channel: amqp.Channel) -> None:
    def again(**settings: Any) -> tuple[int, str]:
        return refused(lambda: declare(channel, "other", **settings))

    declare(channel, "other", arguments={"x-message-ttl": 1000})
    begins = f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'other' {IN}: received "
    assert again(arguments={"x-message-ttl": 2000}) == (406, f"{begins}'2000' but current is '1000'")
    assert again() == (406, f"{begins}none but current is '1000'")
    code, sentence = again(durable=False, arguments={"x-message-ttl": 1000})
    assert (code, sentence.partition(" received")[0]) == (
        406, f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'other' {IN}:",
    )  # fmt: skip
    channel.exchange_declare("other", "direct")
    code, sentence = refused(lambda: channel.exchange_declare("other", "fanout"))
    assert (code, sentence[: sentence.index(":")]) == (
        406, f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'other' {IN}",
    )  # fmt: skip


def test_locked_and_exclusive(broker: WebBroker, channel: amqp.Channel) -> None:
    declare(channel, "mine", durable=False, exclusive=True)
    declare(channel, "one-only")
    channel.basic_consume("one-only", exclusive=True)
    with connected(broker, userid="ann", password=SECRET) as other:
        code, sentence = refused(lambda: other.channel().basic_consume("mine"))
        begins = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine' {IN}: connection "
        assert code == 405 and sentence.startswith(begins)
        assert refused(lambda: other.channel().basic_consume("one-only")) == (
            403, f"ACCESS_REFUSED - queue 'one-only' {IN} in exclusive use",
        )  # fmt: skip


def test_what_a_user_may_not(broker: WebBroker, channel: amqp.Channel) -> None:
    declare(channel, "of-ann")
    with connected(broker, userid="carl", password=SECRET) as carl:
        assert refused(lambda: carl.channel().basic_consume("of-ann")) == (
            403,
            f"ACCESS_REFUSED - read access to queue 'of-ann' {IN} refused for user 'carl': there is no rule of `read` "
            "that matches /queue/of-ann",
        )
        assert refused(lambda: publish(carl.channel(), "k", "", "amq.direct")) == (
            403,
            f"ACCESS_REFUSED - write access to topic 'k' in exchange 'amq.direct' {IN} refused for user 'carl': there "
            "is no rule of `write` that matches /exchange/amq.direct/k",
        )


@pytest.mark.parametrize("login", [{"userid": "ann", "password": "wrong"}, {"userid": "nobody", "password": "x"}])
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_login(broker: WebBroker, login: dict[str, str], mechanism: str) -> None:
    before = len(broker.log.splitlines())
    assert refused(lambda: connected(broker, login_method=mechanism, **login)) == (
        403,
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}: it takes the name of a user "
        "of this broker with the password, or one of the tokens, of that user",
    )
    broker.wait_for_log("login_failed", since=before)


def test_a_new_secret_that_is_wrong(broker: WebBroker) -> None:
    connection = connected(broker, userid="ann", password=SECRET)
    connection.send_method((10, 70), "Ss", ("wrong", "no reason"))
    code, sentence = refused(lambda: connection.drain_events(timeout=10))
    assert (code, sentence.partition(":")[0]) == (403, "ACCESS_REFUSED - New secret was refused")
    connection.collect()


def test_one_ack_too_many_is_refused_by_its_own_name(broker: WebBroker) -> None:
    acks = {(60, 80): ("Lb", False), (60, 120): ("Lbb", False, True), (60, 90): ("Lb", True)}
    with connected(broker, userid="ann", password=SECRET, confirm_publish=False) as connection:
        queue = declare(connection.channel(), "many", durable=False)
        publisher = connection.channel()
        for _ in range(SETTLED_PER_TRANSACTION + 1):
            publish(publisher, queue)
        for number, (types, *arguments) in acks.items():
            channel = connection.channel()
            channel.tx_select()
            inbox = Inbox(channel, queue)
            for tag in range(1, SETTLED_PER_TRANSACTION + 2):
                assert inbox.next().delivery_tag == tag
            channel.basic_ack(SETTLED_PER_TRANSACTION, multiple=True)
            channel.send_method(number, types, (SETTLED_PER_TRANSACTION + 1, *arguments))
            with pytest.raises(exceptions.PreconditionFailed, match="8193 messages would be acked") as raised:
                channel.tx_commit()
            assert raised.value.method_sig == number
        assert len(bodies(connection.channel(), queue)) == SETTLED_PER_TRANSACTION + 1
