"""Addresses: which are destinations, and which first use may create (contract 2)."""

import pytest

from tests.acceptance.conftest import Connect
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED

CONFIG = EVERYTHING_MAY_BE_CREATED + '[fanout."fan"]\nchildren = ["fan.child"]\n'


def arrives(wire: Wire, sent_to: str, subscribed_to: str) -> str:
    """Sends and receives one message: the destination that MESSAGE names."""
    wire.subscribe(subscribed_to, ack="auto")
    wire.send(sent_to, "here")
    message = wire.message()
    assert message.body == b"here"
    return message["destination"]


@pytest.mark.parametrize(
    "address", ["/queue/test/ruby/stomp", "/queue//", "/queue/a b", "/queue/a.b..c", "/queue/ü€😀"]
)
def test_name_may_have_any_character_but_control(wire: Wire, address: str) -> None:
    assert arrives(wire, address, address) == address


def test_name_may_have_a_colon(wire: Wire) -> None:
    assert arrives(wire, "/queue/a:b", "/queue/a:b") == "/queue/a:b"


def test_name_without_leading_slash_is_a_queue(wire: Wire, name: str) -> None:
    assert arrives(wire, name, f"/queue/{name}") == f"/queue/{name}"


def test_subscribe_without_leading_slash_is_to_a_queue(wire: Wire, name: str) -> None:
    assert arrives(wire, f"/queue/{name}", name) == name


def test_name_without_leading_slash_may_have_slashes(wire: Wire, name: str) -> None:
    assert arrives(wire, f"queue/{name}", f"/queue/queue/{name}") == f"/queue/queue/{name}"


@pytest.mark.parametrize("word", ["x" * 255, "é" * 127 + "x"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_name_of_255_bytes_works(wire: Wire, kind: str, word: str) -> None:
    assert arrives(wire, f"/{kind}/{word}", f"/{kind}/{word}") == f"/{kind}/{word}"


@pytest.mark.parametrize("word", ["x" * 256, "é" * 128])
@pytest.mark.parametrize("address", ["/queue/{}", "/topic/{}", "/fanout/{}", "{}"])
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_name_of_256_bytes_is_refused(wire: Wire, command: str, address: str, word: str) -> None:
    wire.send_frame(command, {"destination": address.format(word), "id": "1"})
    assert b"255" in wire.refusal().body


@pytest.mark.parametrize(
    "address", ["/queue/", "/topic/", "/fanout/", "", "/", "/queue", "//queue/x", "/exchange/x/y", "/ADMIN"]
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_address_of_no_destination_is_refused(wire: Wire, command: str, address: str) -> None:
    wire.send_frame(command, {"destination": address, "id": "1"})
    wire.refusal()


@pytest.mark.parametrize("control", ["\n", "\r", "\t", "\x01", "\x7f", "\x85"])
def test_control_character_in_a_name_is_refused(wire: Wire, control: str) -> None:
    wire.send_frame("SEND", {"destination": f"/queue/a{control}b"}, b"x")
    wire.refusal()


def test_name_that_is_no_utf8_is_refused(wire: Wire) -> None:
    wire.send_raw(b"SEND\ndestination:/queue/\xff\xfe\n\nx\0")
    wire.refusal()


def test_queues_fanouts_and_topics_have_separate_names(connect: Connect, wire: Wire) -> None:
    wire.subscribe("/queue/fan", id="queue", ack="auto")
    wire.subscribe("/topic/fan", id="topic", ack="auto")
    wire.subscribe("/queue/fan.child", id="child", ack="auto")
    for kind in ("queue", "topic", "fanout"):
        wire.send(f"/{kind}/fan", kind)
    got = sorted((message["subscription"], message.body.decode()) for message in wire.messages(3))
    assert got == [("child", "fanout"), ("queue", "queue"), ("topic", "topic")]
    assert wire.is_silent()


@pytest.mark.parametrize("address", ["/queue/*", "/queue/#", "/queue/a.*", "/queue/a.#.b", "a.*"])
def test_wildcard_in_a_queue_subscribe_is_refused(wire: Wire, address: str) -> None:
    wire.send_frame("SUBSCRIBE", {"destination": address, "id": "1"})
    wire.refusal()


@pytest.mark.parametrize("address", ["/queue/a.*", "/queue/#", "/topic/a.*", "/topic/#", "/topic/a.#.b"])
def test_wildcard_in_a_send_is_refused(wire: Wire, address: str) -> None:
    wire.send_frame("SEND", {"destination": address}, b"x")
    wire.refusal()


def test_star_within_a_word_is_no_wildcard(wire: Wire) -> None:
    assert arrives(wire, "/queue/a*b.c#", "/queue/a*b.c#") == "/queue/a*b.c#"


@pytest.mark.parametrize("address", ["/fanout/fan", "/reply-queue/00112233445566778899aabbccddeeff", "/admin"])
def test_destination_that_is_for_send_only_refuses_subscribe(wire: Wire, address: str) -> None:
    wire.send_frame("SUBSCRIBE", {"destination": address, "id": "1"})
    wire.refusal()


def test_fanout_that_is_not_declared_is_refused(wire: Wire) -> None:
    wire.send_frame("SEND", {"destination": "/fanout/other"}, b"x")
    assert b"/fanout/other" in wire.refusal().body
