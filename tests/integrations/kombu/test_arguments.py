"""Arguments of AMQP as settings of queues and exchanges, as keys of bindings, and as headers of consumers."""

from typing import Any

import pytest

from radiator.integrations.kombu.arguments import binding_key, consumer_headers, exchange_settings, queue_settings
from radiator.integrations.kombu.failures import OperationRefused
from radiator.model.amqp_arguments import SETTINGS, WITHOUT_EFFECT


def settings(
    arguments: dict[str, Any], durable: bool = True, exclusive: bool = False, auto_delete: bool = False
) -> Any:
    return queue_settings(arguments, durable=durable, exclusive=exclusive, auto_delete=auto_delete)


MAILBOX = {"persistent": False, "auto_delete": True, "overflow": "drop-oldest"}


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({}, {"persistent": True, "auto_delete": False}),
        ({"durable": False}, {"persistent": False, "auto_delete": False}),
        ({"auto_delete": True}, {"persistent": True, "auto_delete": True}),
        (
            {"durable": False, "auto_delete": True},
            {"persistent": False, "auto_delete": True, "overflow": "drop-oldest"},
        ),
        ({"exclusive": True}, {"persistent": False, "auto_delete": True, "overflow": "drop-oldest"}),
    ],
)
def test_kinds_of_queues(flags: dict[str, bool], wanted: dict[str, Any]) -> None:
    assert settings({}, **flags) == wanted


def test_a_queue_for_replies_is_in_memory_unless_it_shall_be_kept() -> None:
    arguments = {"x-expires": 1000}
    assert not settings(arguments, auto_delete=True)["persistent"]
    kept = queue_settings(arguments, durable=True, exclusive=False, auto_delete=True, keeps_replies=True)
    assert kept == {"persistent": True, "auto_delete": True, "expires_ms": 1000}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"x-expires": 1000}, {"expires_ms": 1000}),
        ({"x-message-ttl": 5}, {"message_ttl_ms": 5}),
        ({"x-max-length": 3}, {"max_messages": 3, "overflow": "drop-oldest"}),
        ({"x-max-length": 3, "x-overflow": "reject-publish"}, {"max_messages": 3, "overflow": "reject"}),
        (
            {"x-max-length": 3, "x-dead-letter-exchange": "dlx"},
            {"max_messages": 3, "overflow": "dead-letter", "dead_letter_exchange": "dlx"},
        ),
        ({"x-max-length-bytes": 9}, {"max_bytes": 9, "overflow": "drop-oldest"}),
        ({"x-max-priority": 9}, {"max_priority": 9}),
        ({"x-max-priority": 0}, {}),
        ({"x-delivery-limit": 4, "dead_letter": "dead"}, {"max_redeliveries": 4, "dead_letter": "dead"}),
        ({"x-delivery-limit": 4, "x-dead-letter-exchange": ""}, {"max_redeliveries": 4, "dead_letter_exchange": ""}),
        ({"x-delivery-limit": 4}, {"drop_after_redeliveries": 4}),
        ({"x-delivery-limit": -1}, {}),
        (
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
            {"dead_letter_exchange": "", "dead_letter_key": "dead"},
        ),
        ({"x-dead-letter-exchange": "dlx"}, {"dead_letter_exchange": "dlx"}),
        ({"x-dead-letter-routing-key": "dead"}, {"dead_letter": "dead"}),
        ({"x-consumer-timeout": 1500}, {"ack_timeout_s": 1.5}),
        ({"x-single-active-consumer": True}, {"single_active_consumer": True}),
        ({"x-queue-type": "quorum", "x-queue-mode": "lazy", "x-quorum-initial-group-size": 3}, {}),
        ({"dedup_window_s": 60, "ack_timeout_s": 5}, {"dedup_window_s": 60, "ack_timeout_s": 5}),
    ],
)
def test_arguments(arguments: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert settings(arguments) == {"persistent": True, "auto_delete": False, **wanted}


def test_each_argument_that_an_amqp_client_may_give_is_known_here_too() -> None:
    for name, (setting, _) in SETTINGS.items():
        if name != "x-overflow":  # which means nothing without a bound there
            value = 1000 if name == "x-consumer-timeout" else 1
            assert setting in settings({"x-dead-letter-exchange": "", name: value}), name
    for name in WITHOUT_EFFECT:
        assert settings({name: 1}) == settings({})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x-queue-type": "stream"}, "'x-queue-type' = 'stream' means nothing to Radiator"),
        ({"x-overflow": "reject-publish-dlx"}, "'x-overflow' = 'reject-publish-dlx' means nothing to Radiator"),
        ({"x-nonsense": 1}, "'x-nonsense' = 1 means nothing to Radiator"),
    ],
)
def test_what_means_nothing_here_is_refused_and_named(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OperationRefused, match=sentence):
        settings(arguments)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (None, {}),
        ({"alternate-exchange": "rest"}, {"alternate": "rest"}),
        ({"x-alternate-exchange": "rest"}, {"alternate": "rest"}),
        ({"alternate-exchange": ""}, {"alternate": None}),
        ({"internal": True}, {"internal": True}),
    ],
)
def test_arguments_of_an_exchange(arguments: dict[str, Any] | None, wanted: dict[str, Any]) -> None:
    assert exchange_settings("e", "topic", arguments) == {"type": "topic", **wanted}


def test_an_exchange_that_is_not_known_here_is_refused() -> None:
    with pytest.raises(OperationRefused, match="'x-delayed-message': use direct, topic, fanout, headers"):
        exchange_settings("e", "x-delayed-message", None)
    with pytest.raises(OperationRefused, match="'x-delayed-type' = 'direct' of the exchange 'e' means nothing"):
        exchange_settings("e", "direct", {"x-delayed-type": "direct"})


def test_arguments_of_a_binding() -> None:
    arguments = {"format": "pdf", "size": 3, "x-match": "any"}
    assert binding_key("q", "headers", arguments) == '{"format":"pdf","size":"3","x-match":"any"}'
    with pytest.raises(OperationRefused, match="which an exchange of type topic does not look at"):
        binding_key("q", "topic", arguments)
    with pytest.raises(OperationRefused, match="The binding of 'q' has x-match = \"nix\"; it is one of all, any"):
        binding_key("q", "headers", {"x-match": "nix"})


@pytest.mark.parametrize("priority", [-(2**31), 0, 2**31 - 1])
def test_the_priority_of_a_consumer(priority: int) -> None:
    arguments = {"x-priority": priority, "x-cancel-on-ha-failover": True, "note": "ours"}
    assert consumer_headers(arguments) == [("consumer-priority", str(priority))]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-priority": -(2**31) - 1},
        {"x-priority": 2**31},
        {"x-priority": True},
        {"x-priority": "1"},
        {"x-stream-offset": 1},
    ],
)
def test_an_argument_of_a_consumer_that_cannot_be_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(OperationRefused, match=next(iter(arguments))):
        consumer_headers(arguments)
