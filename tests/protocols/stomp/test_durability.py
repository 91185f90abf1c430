"""Words of other brokers for durable subscriptions: each is understood or refused, none is ignored."""

import pytest

from radiator.model.commands import Fail, Subscribe, Unsubscribe
from radiator.model.limits import ID_MAX_BYTES, Limits
from radiator.protocols.stomp.session import StompSession

NAMES = [
    b"durable-subscriber-name",
    b"durable-subscription-name",
    b"activemq.subscriptionName",
    b"activemq.subcriptionName",
]


def command_of(
    lines: bytes, command: bytes = b"SUBSCRIBE", to: bytes = b"/topic/t", client: bytes | None = b"c"
) -> object:
    session = StompSession(7, "s-1", Limits())
    named = b"" if client is None else b"client-id:%b\n" % client
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n%b\n\0" % named)
    (word,) = session.receive(b"%b\ndestination:%b\n%b\n\n\0" % (command, to, lines))
    return word


def refusal(lines: bytes, to: bytes = b"/topic/t", client: bytes | None = b"c") -> str:
    word = command_of(lines, to=to, client=client)
    assert isinstance(word, Fail)
    return word.sentence


def durable_name(word: object) -> tuple[bool, bytes | None]:
    assert isinstance(word, Subscribe | Unsubscribe)
    return word.durable, word.durable_name


@pytest.mark.parametrize("word", [b"durable:true", b"persistent:true", b"durable:True", b"persistent:True"])
@pytest.mark.parametrize("to", [b"/topic/t", b"/exchange/x/k"])
def test_yes_makes_it_durable_under_its_id(word: bytes, to: bytes) -> None:
    assert durable_name(command_of(b"id:0\n" + word, to=to)) == (True, None)
    assert durable_name(command_of(b"id:0\n" + word, b"UNSUBSCRIBE", to)) == (True, None)
    assert "without the header 'id'" in refusal(word, to)
    assert "auto-delete:true" in refusal(b"id:0\nauto-delete:true\n" + word, to)


@pytest.mark.parametrize("word", [b"durable:false", b"persistent:false", b"x-durable:false", b"auto-delete:false"])
def test_no_asks_for_nothing(word: bytes) -> None:
    assert durable_name(command_of(b"id:0\n" + word)) == (False, None)


@pytest.mark.parametrize("header", NAMES)
@pytest.mark.parametrize("subscription", [b"", b"id:0\n"])
def test_name_is_that_of_client_and_subscription(header: bytes, subscription: bytes) -> None:
    lines = subscription + header + b":n"
    word = command_of(lines)
    assert durable_name(word) == (True, b"c/n")
    assert isinstance(word, Subscribe) and word.subscription == (b"0" if subscription else b"/topic/t")
    assert durable_name(command_of(lines, b"UNSUBSCRIBE")) == (True, b"c/n")
    assert "without a client-id in CONNECT" in refusal(lines, client=None)
    assert "auto-delete:true" in refusal(lines + b"\nauto-delete:true")


def test_no_two_clients_have_the_same_name() -> None:
    names = [
        durable_name(command_of(b"activemq.subscriptionName:%b" % name, client=client))[1]
        for client, name in ((b"a", b"b/c"), (b"a/b", b"c"), (b"a%2Fb", b"c"), (b"a%2Fb/c", b""), (b"a%", b"2Fb"))
        if name
    ]
    assert names == [b"a/b/c", b"a%2Fb/c", b"a%252Fb/c", b"a%25/2Fb"]


def test_two_names_that_differ_are_refused() -> None:
    one, other = b"activemq.subscriptionName:a\n", b"durable-subscription-name:"
    assert durable_name(command_of(one + other + b"a")) == (True, b"c/a")
    assert "two names of one durable subscription" in refusal(one + other + b"b")


@pytest.mark.parametrize("header", NAMES)
def test_length_of_a_name_is_bounded(header: bytes) -> None:
    assert durable_name(command_of(header + b":" + b"n" * ID_MAX_BYTES))[0]
    assert f"must have 1 to {ID_MAX_BYTES}" in refusal(header + b":" + b"n" * (ID_MAX_BYTES + 1))
    assert f"must have 1 to {ID_MAX_BYTES}" in refusal(header + b":")


@pytest.mark.parametrize(
    "line",
    [
        b"x-durable:true",
        b"durable-subscription:n",
        b"subscription-name:n",
        b"JMS.subscriptionName:n",
        b"activemq.durable:1",
        b"X-Persistent:yes",
        b"x-queue-name:n",
        b"durable_subscriber_name:n",
    ],
)
def test_word_that_is_not_understood_is_refused(line: bytes) -> None:
    sentence = refusal(b"id:0\n" + line)
    assert line.partition(b":")[0].decode() in sentence and "durable:true and an id" in sentence
    assert isinstance(command_of(b"id:0\n" + line, to=b"/queue/q"), Subscribe)


@pytest.mark.parametrize("line", [b"durable:yes", b"persistent:1"])
@pytest.mark.parametrize("to", [b"/topic/t", b"/queue/q"])
def test_yes_or_no_is_one_of_both(line: bytes, to: bytes) -> None:
    assert "neither true nor false" in refusal(b"id:0\n" + line, to)


@pytest.mark.parametrize("line", [b"durable:true", b"persistent:true", *[header + b":n" for header in NAMES]])
def test_queue_keeps_what_is_sent_to_it_anyhow(line: bytes) -> None:
    assert durable_name(command_of(b"id:0\n" + line, to=b"/queue/q", client=None)) == (False, None)


def unsubscribed(lines: bytes) -> object:
    session = StompSession(7, "s-1", Limits())
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    (word,) = session.receive(b"UNSUBSCRIBE\n%b\n\n\0" % lines)
    return word


@pytest.mark.parametrize("line", [b"x-durable:true", b"activemq.subscriptionName:n"])
def test_end_without_destination_may_be_that_of_a_queue(line: bytes) -> None:
    """Only the broker knows what the id names."""
    word = unsubscribed(b"id:0\n" + line)
    assert isinstance(word, Unsubscribe) and word.durable and word.mistake is not None
    assert line.partition(b":")[0].decode() in word.mistake
    for wrong in (b"id:0\ndestination:/topic/t\n" + line, line, b"id:0\nauto-delete:true\ndurable:true\n" + line):
        assert isinstance(unsubscribed(wrong), Fail)


@pytest.mark.parametrize(("client", "is_right"), [(b"x", True), (b"x" * ID_MAX_BYTES, True), (b"", False)])
def test_client_id_is_bounded(client: bytes, is_right: bool) -> None:
    session = StompSession(7, "s-1", Limits())
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:%b\n\n\0" % client)
    assert session.is_open == is_right
    session = StompSession(7, "s-1", Limits())
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:%b\n\n\0" % (b"x" * (ID_MAX_BYTES + 1)))
    assert b"client-id 'xxx" in session.take_outgoing()
