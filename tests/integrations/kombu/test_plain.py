"""Headers of kombu as those of a SEND, and exchanges of type headers that look at them."""

from typing import Any

import kombu
import pytest

from radiator.client import Client
from radiator.integrations.kombu.plain import LINES_MAX_BYTES, lines
from radiator.model.header_bindings import ARGUMENTS_MAX_BYTES
from radiator.protocols.stomp.spec import HOP_HEADERS
from tests.broker_process import BrokerProcess
from tests.integrations.kombu.test_channel import Collected, declared, publish


@pytest.mark.parametrize(
    ("value", "text"),
    [("pdf", "pdf"), (7, "7"), (1.5, "1.5"), (True, "true"), (False, "false"), (None, ""), ([1, "é"], '[1,"é"]')],
)
def test_values_are_text_as_those_of_amqp_are(value: Any, text: str) -> None:
    assert lines({"a": value}) == [("a", text)]


def test_what_stomp_cannot_carry_has_no_header() -> None:
    assert lines({"": "x", "a": "\0", "b\0": "x", "c": "\ud800", 5: "x", "d": object(), "e": [object()]}) == []


def test_what_steers_a_send_is_not_taken_for_it() -> None:
    names = ["destination", "transaction", "delay", "deliver-at", "expires", "dedup-id", "mandatory", "immediate"]
    for name in [*names, *(name.decode() for name in HOP_HEADERS)]:
        assert lines({name: "x"}) == [(f"amqp-{name}", "x")]


def test_their_bound() -> None:
    longest = "x" * ARGUMENTS_MAX_BYTES
    assert lines({"a": longest + "y"}) == [("a", longest)]
    full = {f"h{number}": longest[:-2] for number in range(LINES_MAX_BYTES // ARGUMENTS_MAX_BYTES)}
    assert len(lines(full)) == len(full)
    assert len(lines({**full, "i": ""})) == len(full)
    assert lines({**full, "h0": "short", "i": ""})[-1] == ("i", "")


def test_an_exchange_of_type_headers(channel: Any, name: str) -> None:
    exchange = kombu.Exchange(name, "headers")
    wanted = {
        "both": {"format": "pdf", "pages": 3},
        "any": {"format": "pdf", "pages": 3, "x-match": "any"},
        "there": {"pages": None},
        "all": {},
    }
    queues = {}
    for word, arguments in wanted.items():
        queue = kombu.Queue(f"{name}-{word}", exchange, binding_arguments=arguments)(channel)
        queue.declare()
        queues[word] = Collected(channel, queue.name)
    producer = kombu.Producer(channel, exchange)
    for body, headers in (("1", {"format": "pdf", "pages": 3}), ("2", {"format": "pdf"}), ("3", {"pages": 7})):
        producer.publish(body, headers=headers, routing_key="whatever")
    assert queues["both"].wait_for(1).messages[0].headers == {"format": "pdf", "pages": 3}
    counts = {"both": 1, "any": 2, "there": 2, "all": 3}
    got = {word: sorted(queues[word].wait_for(count).bodies) for word, count in counts.items()}
    assert got == {"both": [b"1"], "any": [b"1", b"2"], "there": [b"1", b"3"], "all": [b"1", b"2", b"3"]}


def test_a_binding_with_arguments_is_undone(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "headers", durable=True)
    declared(channel, name)
    channel.queue_bind(name, name, "", {"a": 1})
    channel.queue_bind(name, name, "", {"b": 1})
    channel.queue_unbind(name, name, "", {"a": 1})
    channel.queue_unbind(name, name, "", {"a": 1})
    publish(channel, b"a", "", name, headers={"a": 1})
    publish(channel, b"b", "", name, headers={"b": 1})
    assert Collected(channel, name).wait_for(1).bodies == [b"b"]
    channel.exchange_delete(name)
    channel.queue_unbind(name, name, "", {"b": 1})


def test_headers_are_looked_at_behind_another_exchange_too(channel: Any, name: str) -> None:
    channel.exchange_declare(f"{name}-first", "topic", durable=True)
    channel.exchange_declare(name, "headers", durable=True)
    channel.exchange_bind(name, f"{name}-first", "a.#")
    declared(channel, name)
    channel.queue_bind(name, name, "", {"format": "pdf"})
    for number, (key, kind) in enumerate([("a.b", "pdf"), ("a.b", "txt"), ("c", "pdf")]):
        publish(channel, b"%d" % number, key, f"{name}-first", headers={"format": kind})
    assert Collected(channel, name).wait_for(1).bodies == [b"0"]


def test_large_headers_go_to_an_exchange_as_well(channel: Any, name: str) -> None:
    channel.exchange_declare(name, "direct", durable=True)
    declared(channel, name)
    channel.queue_bind(name, name, "k")
    headers = {f"h{number}": ":" * 20_000 for number in range(20)}
    publish(channel, b"x", "k", name, headers=headers)
    assert Collected(channel, name).wait_for(1).messages[0].headers == headers


def test_other_clients_get_them_as_headers(broker: BrokerProcess, channel: Any, name: str) -> None:
    channel.exchange_declare(name, "fanout", durable=True)
    declared(channel, name)
    channel.queue_bind(name, name)
    publish(channel, b"x", "", name, headers={"format": "pdf", "delay": 60_000})
    with Client(broker.address) as client:
        client.subscribe(f"/queue/{name}")
        message = client.receive(5)
    assert message is not None
    assert (message.headers["format"], message.headers["amqp-delay"]) == ("pdf", "60000")
