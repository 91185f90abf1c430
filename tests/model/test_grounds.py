"""Grounds of refusals become the sentences that STOMP, HTTP and the log have of them, to the byte."""

import pytest

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

NONE = "no-such-destination"
OTHERWISE = "declared-otherwise"
FANOUT = ExchangeSettings(type="fanout", durable=False, alternate="rest")


@pytest.mark.parametrize(("grounds", "code", "sentence"), [
    (NoSuchQueue("a.b"), NONE, "There is no /queue/a.b."),
    (NoSuchQueue("a", is_log=True), NONE, "There is no /queue/a. There is a /log/a."),
    (NoSuchQueue("a b", DECLARE_FIRST), NONE, "There is no /queue/a b: declare it first."),
    (NoSuchQueue("a", TAKING_MAKES_NONE), NONE, "There is no /queue/a, and receiving from it creates none."),
    (NoSuchQueue("a", ADDRESS_MAKES_NONE), NONE, "There is no /queue/a, and this address creates none."),
    (NoSuchQueue("a" * 300), NONE, f"There is no /queue/{'a' * 255}."),
    (QueueNotDeclared("a"), NONE,
     "/queue/a is not declared, and [create] does not allow queues to be created by first use."),
    (NobodyAsks("1f"), NONE, "/reply-queue/1f has no receiver (any more)."),
    (NoSuchExchange("x.y"), NONE,
     "/exchange/x.y is not declared: config.toml or a request to /admin declares an exchange."),
    (Locked("a", 17), "locked",
     "/queue/a is owned by connection 17: others may only send to it. It is deleted with that connection."),
    (OwnedOtherwise("a", True), "locked",
     "/queue/a already exists, and is owned by this connection: declare it again as it is."),
    (OwnedOtherwise("a", False), "locked",
     "/queue/a already exists, and is owned by no connection: declare it again as it is."),
    (InExclusiveUse("a"), "exclusive", "/queue/a already has its one exclusive consumer."),
    (QueueOtherwise("a", "message_ttl_ms", 1000, None), OTHERWISE,
     "/queue/a already exists: its message_ttl_ms is 1000, not null."),
    (QueueGivenOtherwise("a", "max_messages", None, 5), OTHERWISE,
     "/queue/a already exists: it was declared with nothing as its max_messages, and not 5."),
    (QueueGivenOtherwise("a", "overflow", "reject", None), OTHERWISE,
     '/queue/a already exists: it was declared with "reject" as its overflow, and not nothing.'),
    (QueueOtherwise("a", "persistent", True, False), OTHERWISE,
     "/queue/a already exists: its persistent is true, not false."),
    (QueueOtherwise("a", "partition_key", "/b", ["/a", "header:x"]), OTHERWISE,
     '/queue/a already exists: its partition_key is "/b", not ["/a", "header:x"].'),
    (ExchangeOtherwise("x", ExchangeSettings(), FANOUT), OTHERWISE,
     '/exchange/x already exists, with type "direct", durable true, auto_delete false, alternate none, internal '
     "false."),
    (ExchangeOtherwise("x", FANOUT, ExchangeSettings()), OTHERWISE,
     '/exchange/x already exists, with type "fanout", durable false, auto_delete false, alternate rest, internal '
     "false."),
    (NoRight("ann", "read", "/queue/a"), "forbidden",
     "The user ann may not read /queue/a: there is no rule of `read` that matches it."),
    (NoRight("ann", "write", "/topic/#", is_pattern=True), "forbidden",
     "The user ann may not write /topic/#: there is no rule of `write` that contains it."),
    (NoRight("ann", "read", "/queue/" + "a" * 700), "forbidden",
     f"The user ann may not read /queue/{'a' * 593}: there is no rule of `read` that matches it."),
])  # fmt: skip
def test_it_becomes_a_refusal(grounds: Grounds, code: str, sentence: str) -> None:
    refusal = Refusal.on(grounds)
    assert (refusal.code, str(refusal), refusal.grounds) == (code, sentence, grounds)


def test_a_refusal_without_grounds_has_its_sentence_alone() -> None:
    assert Refusal("queue-full", "It is full.").grounds is None
