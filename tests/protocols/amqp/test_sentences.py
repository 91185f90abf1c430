"""Refusals of the broker in the words of AMQP. tests/acceptance/test_amqp_refusals.py has them from a broker."""

import pytest

from radiator.model import grounds as model
from radiator.model.errors import Grounds, Refusal
from radiator.model.grounds import (
    ADDRESS_MAKES_NONE,
    DECLARE_FIRST,
    TAKING_MAKES_NONE,
    ExchangeOtherwise,
    InExclusiveUse,
    Locked,
    NobodyAsks,
    NoRight,
    NoSuchExchange,
    NoSuchQueue,
    OwnedOtherwise,
    QueueGivenOtherwise,
    QueueNotDeclared,
    QueueOtherwise,
)
from radiator.model.settings import ExchangeSettings
from radiator.protocols.amqp.sentences import WORDS, in_words, login_refused, secret_refused

IN = "in vhost '/'"


@pytest.mark.parametrize(("grounds", "words"), [
    (NoSuchQueue("a.b"), f"no queue 'a.b' {IN}"),
    (NoSuchQueue("a", is_log=True), f"no queue 'a' {IN}"),
    (NoSuchQueue("a b", DECLARE_FIRST), f"no queue 'a b' {IN}"),
    (NoSuchQueue("a", TAKING_MAKES_NONE), f"no queue 'a' {IN}"),
    (NoSuchQueue("a", ADDRESS_MAKES_NONE), f"no queue 'a' {IN}"),
    (NoSuchQueue("ä/\n\u20ac"), f"no queue 'ä/\n\u20ac' {IN}"),
    (QueueNotDeclared("a"), f"no queue 'a' {IN}"),
    (NobodyAsks("1f"), f"no queue 'amq.rabbitmq.reply-to.1f' {IN}"),
    (NoSuchExchange("x.y"), f"no exchange 'x.y' {IN}"),
    (Locked("a", 17),
     f"cannot obtain exclusive access to locked queue 'a' {IN}: connection 17 has declared it, and it is deleted "
     "with that connection. Others may publish to it"),
    (OwnedOtherwise("a", True),
     f"cannot obtain exclusive access to locked queue 'a' {IN}: received exclusive 'false' but current is 'true'"),
    (OwnedOtherwise("a", False),
     f"cannot obtain exclusive access to locked queue 'a' {IN}: received exclusive 'true' but current is 'false'"),
    (InExclusiveUse("a"), f"queue 'a' {IN} in exclusive use"),
    (QueueOtherwise("a", "message_ttl_ms", 1000, 2000),
     f"inequivalent arg 'x-message-ttl' for queue 'a' {IN}: received '2000' but current is '1000'"),
    (QueueOtherwise("a", "persistent", True, False),
     f"inequivalent arg 'durable' for queue 'a' {IN}: received 'false' but current is 'true'"),
    (QueueOtherwise("a", "single_active_consumer", False, True),
     f"inequivalent arg 'x-single-active-consumer' for queue 'a' {IN}: received 'true' but current is 'false'"),
    (QueueOtherwise("a", "drop_after_redeliveries", 5, None),
     f"inequivalent arg 'x-delivery-limit' for queue 'a' {IN}: received none but current is '5'"),
    (QueueOtherwise("a", "overflow", "reject", "drop-oldest"),
     f"inequivalent arg 'x-overflow' for queue 'a' {IN}: received 'drop-head' but current is 'reject-publish'"),
    (QueueOtherwise("a", "overflow", "drop-oldest", "dead-letter"),
     f"inequivalent arg 'x-overflow' for queue 'a' {IN}: received 'drop-head, to x-dead-letter-exchange' but current "
     "is 'drop-head'"),
    (QueueOtherwise("a", "overflow", "block", "reject"),
     f"inequivalent arg 'x-overflow' for queue 'a' {IN}: received 'reject-publish' but current is 'block'"),
    (QueueOtherwise("a", "partition_key", ["/a"], []),
     f"inequivalent arg 'partition_key' for queue 'a' {IN}: received '[]' but current is '[\"/a\"]'"),
    (QueueOtherwise("a", "ack_timeout_s", None, 5.0),
     f"inequivalent arg 'x-consumer-timeout' for queue 'a' {IN}: received '5000' but current is none"),
    (QueueGivenOtherwise("a", "max_messages", None, 5),
     f"inequivalent arg 'x-max-length' for queue 'a' {IN}: received '5' but current is none"),
    (QueueGivenOtherwise("a", "max_messages", 5, None),
     f"inequivalent arg 'x-max-length' for queue 'a' {IN}: received none but current is '5'"),
    (QueueGivenOtherwise("a", "dead_letter_exchange", None, "dlx"),
     f"inequivalent arg 'x-dead-letter-exchange' for queue 'a' {IN}: received 'dlx' but current is none"),
    (ExchangeOtherwise("x", ExchangeSettings(), ExchangeSettings(type="fanout", durable=False)),
     f"inequivalent arg 'type' for exchange 'x' {IN}: received 'fanout' but current is 'direct'"),
    (ExchangeOtherwise("x", ExchangeSettings(), ExchangeSettings(durable=False)),
     f"inequivalent arg 'durable' for exchange 'x' {IN}: received 'false' but current is 'true'"),
    (ExchangeOtherwise("x", ExchangeSettings(alternate="rest"), ExchangeSettings()),
     f"inequivalent arg 'alternate-exchange' for exchange 'x' {IN}: received none but current is 'rest'"),
    (NoRight("ann", "read", "/queue/a b"),
     f"read access to queue 'a b' {IN} refused for user 'ann': there is no rule of `read` that matches /queue/a b"),
    (NoRight("ann", "declare", "/exchange/x", is_pattern=True),
     f"declare access to exchange 'x' {IN} refused for user 'ann': there is no rule of `declare` that contains "
     "/exchange/x"),
    (NoRight("ann", "write", "/exchange/x/a.b"),
     f"write access to topic 'a.b' in exchange 'x' {IN} refused for user 'ann': there is no rule of `write` that "
     "matches /exchange/x/a.b"),
    (NoRight("ann", "read", "/topic/a"),
     "The user ann may not read /topic/a: there is no rule of `read` that matches it."),
])  # fmt: skip
def test_it_begins_as_rabbitmq_does(grounds: Grounds, words: str) -> None:
    assert in_words(str(Refusal.on(grounds)), grounds) == words


def test_all_grounds_that_there_are_have_words() -> None:
    assert set(WORDS) == {one for one in vars(model).values() if isinstance(one, type) and issubclass(one, Grounds)} - {
        Grounds
    }


@pytest.mark.parametrize("sentence", [
    "", "There is no /queue/a.", "/queue/full is full: it holds 1 message of 22 bytes (max_messages 1).",
])  # fmt: skip
def test_a_sentence_without_grounds_stays(sentence: str) -> None:
    assert in_words(sentence, None) == sentence


def test_a_login_is_spoken_of_as_amqp_has_it() -> None:
    stomp = "CONNECT needs the login and the passcode of a user of this broker."
    assert login_refused(stomp, "PLAIN") == (
        "Login was refused using authentication mechanism PLAIN: it takes the name of a user of this broker with the "
        "password, or one of the tokens, of that user"
    )
    assert login_refused(stomp, "EXTERNAL") == (
        "Login was refused using authentication mechanism EXTERNAL: no user of this broker is recognised by what this "
        "connection proves"
    )
    assert login_refused("Too many; try again.", "AMQPLAIN").endswith("mechanism AMQPLAIN: Too many; try again")
    assert secret_refused("ann").startswith("New secret was refused: it must be") and "'ann'" in secret_refused("ann")
