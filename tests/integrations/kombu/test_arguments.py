"""Queue arguments of AMQP as settings of a queue."""

from typing import Any

import pytest

from radiator.integrations.kombu.arguments import queue_settings
from radiator.integrations.kombu.failures import OperationRefused


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
        ({"x-max-length-bytes": 9}, {"max_bytes": 9, "overflow": "drop-oldest"}),
        ({"x-delivery-limit": 4}, {"max_redeliveries": 4}),
        ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}, {"dead_letter": "dead"}),
        ({"x-dead-letter-routing-key": "dead"}, {"dead_letter": "dead"}),
        ({"x-queue-type": "quorum"}, {}),
        ({"dedup_window_s": 60, "ack_timeout_s": 5}, {"dedup_window_s": 60, "ack_timeout_s": 5}),
    ],
)
def test_arguments(arguments: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert settings(arguments) == {"persistent": True, "auto_delete": False, **wanted}


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-priority": 9},
        {"x-dead-letter-exchange": "dlx"},
        {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "dead"},
        {"x-dead-letter-exchange": ""},
        {"x-overflow": "reject-publish-dlx"},
        {"x-single-active-consumer": True},
    ],
)
def test_what_means_nothing_here_is_refused_and_named(arguments: dict[str, Any]) -> None:
    with pytest.raises(OperationRefused) as refused:
        settings(arguments)
    assert any(name in str(refused.value) for name in arguments)
