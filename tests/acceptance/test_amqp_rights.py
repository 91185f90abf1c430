"""What users of AMQP try to get round their rights and their bounds, and what others are sent and they are not."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import amqp
import pytest
from amqp import exceptions

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.client import Client
from tests.acceptance.amqp_clients import LISTENING, WAIT_MAX_S, Inbox, connected, declare, publish
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess

SECRET = "cor:rect horse"
TOKEN = text_of(bytes(32))
HASH = made(SECRET.encode(), bytes(16), Cost(ln=10))
RULES = """read = ["/queue/eve.#", "/exchange/eve.#", "/exchange/shop/eve.#", "/exchange/by-headers/eve.#"]
write = ["/queue/eve.#", "/exchange/eve.#", "/exchange/shop/eve.#"]
declare = ["/queue/eve.#", "/exchange/eve.#"]
see = ["/queue/eve.#"]
"""
EVE = f'[user.eve]\npassword = "{HASH}"\n{RULES}'
BOUNDED = """max_connections = 2
max_subscriptions = 3
max_destinations = 3
"""
CONFIG = (
    LISTENING
    + EVERYTHING_MAY_BE_CREATED
    + f'[user.ann]\npassword = "{HASH}"\nrole = "operator"\n'
    + f'[user.few]\npassword = "{HASH}"\nrole = "operator"\n{BOUNDED}'
    + EVE
)
Do = Callable[[amqp.Channel], Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        with connected(running, userid="ann", password=SECRET) as connection:
            channel = connection.channel()
            declare(channel, "secret")
            channel.exchange_declare("shop", "topic", durable=True, auto_delete=False)
            channel.exchange_declare("secrets", "fanout", durable=True, auto_delete=False)
            channel.exchange_declare("by-headers", "headers", durable=True, auto_delete=False)
            channel.queue_bind("secret", "secrets")
            channel.queue_bind("secret", "shop", "#")
            channel.queue_purge("secret")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log
        assert SECRET not in running.log and TOKEN not in running.log


@pytest.fixture
def ann(broker: BrokerProcess) -> Iterator[amqp.Channel]:
    with connected(broker, userid="ann", password=SECRET) as opened:
        channel = opened.channel()
        channel.queue_purge("secret")
        yield channel
        assert channel.basic_get("secret") is None, "something has come to where eve may not write"


@pytest.fixture
def eve(broker: BrokerProcess, ann: amqp.Channel) -> Iterator[amqp.Connection]:
    with connected(broker, userid="eve", password=SECRET) as opened:
        yield opened


def refused(connection: amqp.Connection, do: Do, right: str, what: str) -> None:
    says = f"ACCESS_REFUSED - {right} access to {what} in vhost '/' refused for user 'eve': there is no rule of"
    with pytest.raises(exceptions.AccessRefused) as raised:
        do(connection.channel())
    assert raised.value.message.startswith(says), raised.value.message


# ---- rights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["secret", "of-nobody"])
def test_a_passive_declare_tells_nothing_to_who_may_not_see(eve: amqp.Connection, name: str) -> None:
    """Not even whether it is there."""
    refused(eve, lambda one: one.queue_declare(name, passive=True), "see", f"queue '{name}'")
    refused(eve, lambda one: one.exchange_declare(name, "", passive=True), "see", f"exchange '{name}'")


@pytest.mark.parametrize("key", ["orders", "even", "EVE.a", "", "evil.eve"])
def test_a_key_that_no_rule_has_is_refused_at_the_same_exchange(eve: amqp.Connection, key: str) -> None:
    refused(eve, lambda one: publish(one, key, "x", "shop"), "write", f"topic '{key}' in exchange 'shop'")


def test_a_binding_takes_one_rule_for_all_that_it_matches(eve: amqp.Connection) -> None:
    declare(eve.channel(), "eve.q")
    for key in ("#", "*", "eve", "*.eve", "eve.#.x"):
        if key.split(".")[0] == "eve":
            eve.channel().queue_bind("eve.q", "shop", key)
        else:
            refused(
                eve,
                lambda one, key=key: one.queue_bind("eve.q", "shop", key),
                "read",
                f"topic '{key}' in exchange 'shop'",
            )
    with pytest.raises(exceptions.AccessRefused, match="read access to topic '#' in exchange 'by-headers'"):
        eve.channel().queue_bind("eve.q", "by-headers", "eve.k", arguments={"x-match": "any", "a": 1})
    eve.channel().queue_delete("eve.q")


TO_SHOP = {"x-dead-letter-exchange": "shop", "x-dead-letter-routing-key": "s"}
TO_SECRET = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "secret"}
WAYS: dict[str, tuple[Do, str, str]] = {
    "exchange-to-exchange": (lambda one: one.exchange_bind("secrets", "eve.x", "k"), "write", "exchange 'secrets'"),
    "back": (lambda one: one.exchange_bind("eve.x", "secrets", "k"), "read", "topic 'k' in exchange 'secrets'"),
    "unbind": (lambda one: one.exchange_unbind("secrets", "shop", "#"), "read", "topic '#' in exchange 'shop'"),
    "queue": (lambda one: one.queue_bind("secret", "eve.x", "k"), "write", "queue 'secret'"),
    "queue-unbind": (lambda one: one.queue_unbind("secret", "eve.x", "k"), "write", "queue 'secret'"),
    "alternate": (
        lambda one: one.exchange_declare("eve.y", "direct", arguments={"alternate-exchange": "secrets"}),
        "write", "exchange 'secrets'",
    ),
    "dead-letter-exchange": (
        lambda one: declare(one, "eve.d", arguments={"x-dead-letter-exchange": "secrets"}),
        "write", "topic '#' in exchange 'secrets'",
    ),
    "dead-letter-key": (
        lambda one: declare(one, "eve.d", arguments=TO_SHOP),
        "write", "topic 's' in exchange 'shop'",
    ),
    "dead-letter-without-a-key": (
        lambda one: declare(one, "eve.d", arguments={"x-dead-letter-exchange": "shop"}),
        "write", "topic '#' in exchange 'shop'",
    ),
    "dead-letter-by-the-default-exchange": (
        lambda one: declare(one, "eve.d", arguments=TO_SECRET),
        "write", "queue 'secret'",
    ),
    "dead-letter-to-any-queue": (
        lambda one: declare(one, "eve.d", arguments={"x-dead-letter-exchange": ""}), "write", "queue '#'",
    ),
    "delete": (lambda one: one.queue_delete("secret"), "declare", "queue 'secret'"),
    "delete-exchange": (lambda one: one.exchange_delete("secrets"), "declare", "exchange 'secrets'"),
    "purge": (lambda one: one.queue_purge("secret"), "declare", "queue 'secret'"),
    "get": (lambda one: one.basic_get("secret"), "read", "queue 'secret'"),
    "consume": (lambda one: one.basic_consume("secret"), "read", "queue 'secret'"),
    "publish": (lambda one: publish(one, "secret", "x"), "write", "queue 'secret'"),
    "publish-to-a-fanout": (
        lambda one: publish(one, "eve.k", "x", "secrets"), "write", "topic 'eve.k' in exchange 'secrets'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_no_way_round_leads_where_a_user_may_not_write_or_read(eve: amqp.Connection, way: str) -> None:
    eve.channel().exchange_declare("eve.x", "topic", durable=False, auto_delete=False)
    refused(eve, *WAYS[way])


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("is_transaction", [False, True])
def test_each_further_key_takes_its_own_right(eve: amqp.Connection, header: str, is_transaction: bool) -> None:
    declare(eve.channel(), "eve.q")
    eve.confirm_publish = not is_transaction
    for exchange, key, more, what in (
        ("", "eve.q", ["secret"], "queue 'secret'"),
        ("shop", "eve.k", ["eve.l", "orders"], "topic 'orders' in exchange 'shop'"),
    ):

        def send(channel: amqp.Channel) -> None:
            if is_transaction:
                channel.tx_select()
            publish(channel, key, "x", exchange, application_headers={header: more})  # noqa: B023
            if is_transaction:
                channel.tx_commit()

        refused(eve, send, "write", what)
    assert eve.channel().basic_get("eve.q") is None
    eve.channel().queue_delete("eve.q")


def test_the_answers_of_another_are_nobodys_and_no_key_is_guessed(
    eve: amqp.Connection, broker: BrokerProcess, ann: amqp.Channel
) -> None:
    answers = Inbox(ann, "amq.rabbitmq.reply-to", no_ack=True)
    declare(ann, "asked")
    publish(ann, "asked", "?", reply_to="amq.rabbitmq.reply-to")
    own = ann.basic_get("asked", no_ack=True).reply_to
    assert own.startswith("amq.rabbitmq.reply-to.") and len(own.rpartition(".")[2]) >= 22
    for do in (
        lambda one: one.basic_consume(own, no_ack=True),
        lambda one: one.basic_get(own),
        lambda one: one.queue_declare(f"{own[:-1]}{'0' if own[-1] != '0' else '1'}", passive=True),
        lambda one: one.queue_purge(own),
        lambda one: one.queue_bind(own, "shop", "eve.k"),
    ):
        with pytest.raises((exceptions.AccessRefused, exceptions.NotFound)):
            do(eve.channel())
    # who has the key may answer, so he may know whether it is of any use, and no more
    for passive in (True, False):
        assert eve.channel().queue_declare(own, passive=passive) == (own, 0, 1)
    # what she sends as an answer with further keys goes to none of them
    with pytest.raises(exceptions.AMQPError):
        publish(eve.channel(), own, "x", application_headers={"CC": ["secret"]})
    publish(eve.channel(), "amq.rabbitmq.reply-to." + "x" * 30, "lost")
    with pytest.raises(exceptions.PreconditionFailed, match="fast reply consumer does not exist"):
        publish(eve.channel(), "eve.q", "?", reply_to="amq.rabbitmq.reply-to")
    assert answers.is_silent()


def test_nobody_sends_as_another_user(broker: BrokerProcess, eve: amqp.Connection) -> None:
    declare(eve.channel(), "eve.q")
    with pytest.raises(exceptions.PreconditionFailed, match="user_id is 'ann'"):
        publish(eve.channel(), "eve.q", "x", user_id="ann")
    publish(eve.channel(), "eve.q", "x", user_id="eve")
    assert eve.channel().basic_get("eve.q", no_ack=True).properties["user_id"] == "eve"
    with Client(broker.address, user="eve", password=SECRET) as client:
        client.send("/queue/eve.q", "x", {"user-id": "ann"})
    found = eve.channel().basic_get("eve.q", no_ack=True)
    assert "user_id" not in found.properties and found.headers["user-id"] == "ann"
    eve.channel().queue_delete("eve.q")


@pytest.mark.parametrize(
    "name", ["$outbox/b", "$durable/a/b", "$outbox/", "/log/journal", "/log/audit", "/queue/secret"]
)
def test_what_the_broker_keeps_for_itself_is_no_queue_of_amqp(
    broker: BrokerProcess, ann: amqp.Channel, name: str
) -> None:
    for do in (
        lambda one: one.queue_declare(name, passive=True),
        lambda one: one.basic_consume(name),
        lambda one: one.basic_get(name),
    ):
        with connected(broker, userid="ann", password=SECRET) as other, pytest.raises(exceptions.AMQPError):
            do(other.channel())


# ---- what is taken away ---------------------------------------------------------------------------------------------


def test_a_token_that_runs_out_ends_a_consumer(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        until_s = time.time() + 8  # once the broker is there: on a busy machine its start may take as long
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until_s))
        token = f'tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}", until = {until} }}]'
        broker.config_file.write_text(f'{CONFIG}[user.ci]\n{token}\nrole = "operator"\n')
        assert broker.process is not None
        broker.process.send_signal(1)
        broker.wait_for_log("reloaded")
        consumer = connected(broker, userid="ci", password=TOKEN)
        channel = consumer.channel()
        declare(channel, "eve.q")
        inbox = Inbox(channel, "eve.q", no_ack=True)
        with pytest.raises(exceptions.AccessRefused, match="has expired"):
            consumer.drain_events(timeout=WAIT_MAX_S)
        assert until_s - 1 <= time.time() < until_s + 3
        consumer.collect()
        with connected(broker, userid="ann", password=SECRET) as ann:
            publish(ann.channel(), "eve.q", "late")
            assert ann.channel().basic_get("eve.q", no_ack=True).body == "late"
        assert not inbox._messages
        with pytest.raises(exceptions.AccessRefused):
            connected(broker, userid="ci", password=TOKEN)


def test_a_right_that_is_taken_away_ends_a_consumer_and_no_other(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG) as broker:
        eve = connected(broker, userid="eve", password=SECRET)
        channel, other = eve.channel(), eve.channel()
        declare(channel, "eve.q")
        Inbox(channel, "eve.q", no_ack=True)
        since = len(broker.log.splitlines())
        broker.config_file.write_text(CONFIG.replace('read = ["/queue/eve.#", ', "read = ["))
        assert broker.process is not None
        broker.process.send_signal(1)
        broker.wait_for_log("reloaded", since=since)
        with pytest.raises(exceptions.AccessRefused, match="read access to queue 'eve.q'"):
            eve.drain_events(timeout=WAIT_MAX_S)
        publish(other, "eve.q", "kept")
        with pytest.raises(exceptions.AccessRefused):
            other.basic_get("eve.q")
        since = len(broker.log.splitlines())
        broker.config_file.write_text(CONFIG.replace(EVE, ""))
        broker.process.send_signal(1)
        broker.wait_for_log("reloaded", since=since)
        with pytest.raises((exceptions.AccessRefused, exceptions.ConnectionForced)):
            while True:
                eve.drain_events(timeout=WAIT_MAX_S)
        eve.collect()


# ---- bounds of a user -----------------------------------------------------------------------------------------------


def test_connections_of_a_user_over_amqp_at_the_bound_and_one_past_it(broker: BrokerProcess) -> None:
    with connected(broker, userid="few", password=SECRET) as one, connected(broker, userid="few", password=SECRET):
        channels = [one.channel() for _ in range(20)]  # they are no connections of his
        assert all(channel.is_open for channel in channels)
        third = connected(broker, userid="few", password=SECRET)
        with pytest.raises(exceptions.AMQPError, match="max_connections of that user is 2"):
            third.channel()
        third.collect()


def test_consumers_and_queues_of_a_user_over_amqp_at_the_bound_and_one_past_it(broker: BrokerProcess) -> None:
    with connected(broker, userid="few", password=SECRET) as connection:
        channel = connection.channel()
        declare(channel, "few.1", durable=False, exclusive=True)
        for number in range(3):
            connection.channel().basic_consume("few.1", consumer_tag=f"c{number}")
        with pytest.raises(exceptions.PreconditionFailed, match="max_subscriptions of that user is 3"):
            connection.channel().basic_consume("few.1")
        declare(channel, "few.2")
        channel.exchange_declare("few.x", "direct", durable=False, auto_delete=False)
        for do in (
            lambda one: declare(one, "few.3"),
            lambda one: declare(one, durable=False, exclusive=True),
            lambda one: one.exchange_declare("few.y", "direct"),
        ):
            with pytest.raises(exceptions.PreconditionFailed, match="max_destinations of that user is 3"):
                do(connection.channel())
        channel.queue_delete("few.2")
        channel.exchange_delete("few.x")
