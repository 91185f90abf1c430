"""What `why` says of dead letters that an exchange would lead nowhere."""

import pytest

from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import nack, queue, send, subscribe


@pytest.mark.parametrize(
    ("exchange", "key", "ending"),
    [
        ("x", "k", ""),
        ("x", "other", 'Its dead letters are dropped and counted: no binding of /exchange/x matches the key "other".'),
        ("x", None, ""),
        ("y", None, "Its dead letters are dropped and counted: /exchange/y has no binding."),
        ("z", "k", "Its dead letters are dropped and counted: /exchange/z is not declared."),
        ("z", None, "Its dead letters are dropped and counted: /exchange/z is not declared."),
        ("onward", "k", ""),
        ("onward", "other", 'and counted: no binding of /exchange/onward matches the key "other".'),
        ("onward", None, ""),
        ("h", "k", ""),
        ("", "dead", ""),
        ("", "gone", "Its dead letters are dropped and counted: there is no /queue/gone."),
        ("", None, ""),
        (None, None, ""),
    ],
)
def test_why_says_that_dead_letters_are_dropped(exchange: str | None, key: str | None, ending: str) -> None:
    settings = QueueSettings(dead_letter_exchange=exchange, dead_letter_key=key)
    node = Node(
        Declarations(
            queues={"q": settings, "dead": QueueSettings()},
            exchanges={
                **{name: ExchangeSettings() for name in ("x", "y", "onward")},
                "h": ExchangeSettings(type="headers"),
            },
            bindings=[
                Binding("x", "k", "dead"),
                Binding("onward", "k", "/exchange/x"),
                Binding("h", '{"a":"1"}', "dead"),
            ],
        )
    )
    node.open(1)
    sentence = node.admin(1, do="why", queue="q")["sentence"]
    assert sentence.endswith(ending) and ("dropped and counted" in sentence) == bool(ending)


@pytest.mark.parametrize("persistent", [True, False])
def test_why_says_that_a_queue_without_dead_letters_drops_what_comes_back_too_often(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, drop_after_redeliveries=1))
    node.open(1)
    node.say(send(1, "q", b"a"), send(1, "q", b"b"), subscribe(1, "q", prefetch_count=1))
    node.say(nack(node.message(1)))
    node.say(nack(node.message(1)))
    sentence = node.admin(1, do="why", queue="q")["sentence"]
    assert sentence.endswith(
        "It drops messages that come back more than 1 time (drop_after_redeliveries); 1 message dropped so far."
    )
