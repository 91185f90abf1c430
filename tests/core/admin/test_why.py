"""The request `why`: each reason for which nothing moves, and what stands beside it."""

from typing import Any

import pytest

from radiator.core.admin.why import of_queue
from radiator.core.crowd import Crowd
from radiator.model.commands import AUTO, CLIENT, CLIENT_INDIVIDUAL, Tick
from radiator.model.limits import GIB, WHY_CONSUMERS, WINDOW_FULL_S, Limits
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, send, subscribe

DECLARED = Declarations(queues={"q": QueueSettings()}, logs={"l": LogSettings()}, create_queues=True)


def node_of(declarations: Declarations = DECLARED, **more: Any) -> Node:
    node = Node(declarations, **more)
    node.open(1, 2, 3, 9)
    return node


def why(node: Node, **what: str) -> dict[str, Any]:
    answer = node.admin(9, do="why", **(what or {"queue": "q"}))
    assert answer.pop("ok") is True, answer
    assert answer["sentence"].endswith(".")
    return answer


def blocked_notes(node: Node) -> list[dict[str, Any]]:
    return [note.fields for note in node.notes if note.event == "window_full"]


def verdict(node: Node, **what: str) -> str:
    return str(why(node, **what)["verdict"])


def test_an_empty_queue() -> None:
    answer = why(node_of())
    assert answer["verdict"] == "empty" and answer["messages"] == 0 and answer["consumer_list"] == []
    assert answer["sentence"] == "It is empty: nothing has come to it yet."


def test_what_has_become_of_what_is_gone() -> None:
    node = node_of()
    node.say(subscribe(2, "q"), *(send(1, "q") for _ in range(3)))
    node.say(ack(node.message(2)))
    node.close(2)
    node.admin(9, do="purge", queue="q")
    assert why(node)["sentence"] == (
        "It is empty: of 3 messages that came here, 1 was acked or handed over, 2 were purged or moved."
    )


def test_nobody_is_subscribed() -> None:
    node = node_of()
    node.say(send(1, "q"), send(1, "q"))
    answer = why(node)
    assert answer["verdict"] == "no-consumer" and answer["sentence"].startswith("2 messages are ready, and nobody")


def test_a_full_window_without_acks_is_named_with_what_helps() -> None:
    node = node_of()
    node.say(subscribe(2, "q", CLIENT), *(send(1, "q") for _ in range(3)))
    node.wait(1)
    node.wait(WINDOW_FULL_S - 1)
    assert why(node)["sentence"].endswith("Connection 2 has 1 of 1.") and not blocked_notes(node)
    node.wait(1)
    assert "prefetch-count" in why(node)["sentence"] and "ack_client_window" in why(node)["sentence"]
    (line,) = blocked_notes(node)
    assert (line["connection"], line["subscription"], line["queue"], line["unacked"]) == (2, "q", "q", 1)
    assert "prefetch-count" in line["sentence"] and "[limits] ack_client_window" in line["sentence"]
    node.wait(5 * WINDOW_FULL_S)
    assert len(blocked_notes(node)) == 1
    node.say(ack(node.messages(2)[0]))
    assert why(node)["sentence"].endswith("Connection 2 has 1 of 1.")


@pytest.mark.parametrize("ack_mode", [CLIENT_INDIVIDUAL, AUTO])
def test_window_of_another_mode_or_with_acks_is_not_told(ack_mode: str) -> None:
    node = node_of()
    node.say(subscribe(2, "q", ack_mode), subscribe(3, "r", CLIENT), *(send(1, "q") for _ in range(3)))
    node.say(*(send(1, "r") for _ in range(30)))
    for _ in range(20):
        node.wait(WINDOW_FULL_S / 2)
        node.say(ack(node.messages(3)[-1]))
    assert not blocked_notes(node)


def test_window_that_has_all_there_is_is_not_told() -> None:
    node = node_of()
    node.say(subscribe(2, "q", CLIENT), send(1, "q"))
    for _ in range(3):
        node.wait(WINDOW_FULL_S)
    assert not blocked_notes(node)


def test_all_are_at_their_window() -> None:
    node = node_of()
    node.say(subscribe(2, "q", CLIENT, prefetch_count=2), subscribe(3, "q"))
    node.say(*(send(1, "q") for _ in range(5)))
    answer = why(node)
    assert answer["verdict"] == "window" and "Connection 2 has 2 of 2." in answer["sentence"]
    assert [(one["connection"], one["stands"], one["unacked"], one["window"]) for one in answer["consumer_list"]] == [
        (2, "window", 2, 2),
        (3, "window", 1, 1),
    ]
    node.say(ack(node.messages(3)[0]), ack(node.messages(2)[1]))
    assert verdict(node) == "unacked"


def test_all_that_is_there_is_out() -> None:
    node = node_of()
    node.say(subscribe(2, "q"), send(1, "q"))
    assert why(node)["sentence"] == "No message is ready; 1 is with connection 2, and not acked yet."
    node.say(subscribe(3, "q"), send(1, "q"))
    assert "with 2 connections" in why(node)["sentence"]


def test_nobody_reads() -> None:
    node = node_of(limits=Limits(outbox_max_bytes=65_536))
    node.reads_slowly.add(2)
    node.say(subscribe(2, "q", AUTO), *(send(1, "q", b"x" * 40_000) for _ in range(4)))
    answer = why(node)
    assert answer["verdict"] == "outbox-full"
    assert (answer["consumer_list"][0]["stands"], answer["consumer_list"][0]["window"]) == ("outbox-full", None)


def test_delayed() -> None:
    node = node_of()
    node.say(subscribe(2, "q"), send(1, "q", delay_ms=90_000), send(1, "q", delay_ms=60_000))
    answer = why(node)
    assert answer["verdict"] == "delayed" and "2 are delayed, the next for 60.0 s." in answer["sentence"]
    assert answer["next_due_ms"] == node.now_ms + 60_000


def now(node: Node) -> str:
    """While nothing is answered, since an answer waits for the disk."""
    asked, crowd = node.broker.destinations.queues.all["q"], Crowd()
    assert [*crowd.look([*asked.subscriptions]), *crowd.look_at_holders(asked)] == []
    return of_queue(node.broker, asked, crowd)[0]


def test_on_the_way_to_the_disk_and_back() -> None:
    node = node_of()
    node.auto = False
    node.say(subscribe(2, "q"), send(1, "q"))
    assert now(node) == "storing"
    node.auto = True
    node.turn([])
    assert now(node) == "unacked"
    node = node.crashed()
    node.open(2, 3)
    assert now(node) == "no-consumer"
    node.auto = False
    node.say(subscribe(2, "q"))
    assert now(node) == "loading"
    node.auto = True
    node.turn([])
    assert now(node) == "unacked"


def test_producers_that_wait_are_told_of() -> None:
    node = node_of(Declarations(queues={"q": QueueSettings(max_messages=1)}))
    node.say(send(1, "q"), send(1, "q"), send(2, "q"))
    answer = why(node)
    assert answer["verdict"] == "no-consumer" and answer["blocked"] == 2
    assert answer["sentence"].endswith(
        " It is full, with 1 message of 1 byte (max_messages 1): 2 producers wait for room (overflow block)."
    )


@pytest.mark.parametrize(
    ("overflow", "sentence"),
    [
        ("block", "the next SEND waits for room"),
        ("reject", "SENDs are refused"),
        ("drop-oldest", "each SEND drops its oldest message"),
        ("dead-letter", "each SEND makes its oldest message a dead letter"),
    ],
)
@pytest.mark.parametrize("bound", [{"max_messages": 2}, {"max_bytes": 11}])
def test_a_full_queue_is_said_to_be_full_and_what_becomes_of_a_send(
    bound: dict[str, int], overflow: str, sentence: str
) -> None:
    settings = QueueSettings(**bound, overflow=overflow, dead_letter="d" if overflow == "dead-letter" else None)
    node = node_of(Declarations(queues={"q": settings}, create_queues=True))
    node.say(send(1, "q", b"body"))
    assert why(node)["sentence"] == "1 message is ready, and nobody is subscribed."
    assert why(node)["is_full"] is False
    node.say(send(1, "q", b"body"))
    ((name, most),) = bound.items()
    answer = why(node)
    assert (answer["verdict"], answer["is_full"]) == ("no-consumer", True)
    assert answer["sentence"] == (
        "2 messages are ready, and nobody is subscribed. "
        f"It is full, with 2 messages of 8 bytes ({name} {most}): {sentence} (overflow {overflow})."
    )
    # and it is so
    node.say(send(2, "q", b"body"))
    assert node.is_refused(2) is (overflow == "reject")


def test_a_queue_full_of_what_is_out_drops_nothing() -> None:
    node = node_of(Declarations(queues={"q": QueueSettings(max_messages=1, overflow="drop-oldest")}))
    node.say(subscribe(2, "q"), send(1, "q"))
    sentence = why(node)["sentence"]
    assert sentence.startswith("No message is ready; 1 is with connection 2, and not acked yet. It is full,")
    assert sentence.endswith(
        ": SENDs are refused, since what it holds is unacked or delayed, which is not dropped (overflow drop-oldest)."
    )
    node.say(send(3, "q"))
    assert node.is_refused(3)


def test_the_disk_is_nearly_full() -> None:
    node = node_of()
    node.broker.parts.disk.free_min = GIB
    node.turn([Tick(GIB - 1, 0)])
    node.say(send(1, "q"))
    answer = why(node)
    assert answer["verdict"] == "disk-tight" and answer["blocked_by_disk"] == 1 and answer["is_disk_tight"] is True


def test_checked_out() -> None:
    node = node_of()
    node.say(send(1, "q"))
    node.admin(9, do="checkout", queue="q", group="g", max_messages=10, max_bytes=10_000)
    answer = why(node)
    assert answer["verdict"] == "checked-out" and answer["checked_out"] == 1
    assert answer["sentence"] == (
        "No message is ready; /queue/q is checked out by g (1 message): `radiator release q GROUP` ends that."
    )


def test_no_more_consumers_are_listed_than_fit() -> None:
    node = node_of()
    node.say(*(subscribe(2, "q", name=b"%d" % number) for number in range(WHY_CONSUMERS + 1)))
    answer = why(node)
    assert len(answer["consumer_list"]) == WHY_CONSUMERS and answer["consumers"] == WHY_CONSUMERS + 1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"queue": "nothing"}, "no-such-destination"),
        ({"log": "nothing"}, "no-such-destination"),
        ({}, "bad-request"),
        ({"queue": "q", "log": "l"}, "bad-request"),
        ({"queue": "q", "count": 1}, "bad-request"),
        ({"log": "l", "count": 1}, "bad-request"),
        ({"queue": 7}, "bad-request"),
    ],
)
def test_what_cannot_be_asked(asked: dict[str, Any], code: str) -> None:
    answer = node_of().admin(9, do="why", **asked)
    assert answer["ok"] is False and answer["code"] == code


# ---- logs


def test_a_log() -> None:
    node = node_of()
    assert verdict(node, log="l") == "empty"
    node.say(send(1, "/log/l"), send(1, "/log/l"))
    assert verdict(node, log="/log/l") == "no-consumer"
    node.say(subscribe(2, "/log/l", CLIENT, group="g", start=("earliest", 0)))
    answer = why(node, log="l")
    assert answer["verdict"] == "window" and answer["sentence"].endswith("Group 'g' is 2 records behind.")
    assert (answer["records"], answer["readers"], answer["unread"]) == (2, 1, {"g": 2})
    node.say(ack(node.messages(2)[0]))
    node.say(ack(node.messages(2)[0]))
    assert verdict(node, log="l") == "done"
    node.say(subscribe(3, "/log/l", AUTO))
    assert verdict(node, log="l") == "moving"


def test_a_group_is_not_behind_of_what_retention_has_taken() -> None:
    node = node_of()
    node.say(*(send(1, "/log/l") for _ in range(5)))
    assert node.admin(9, do="position", log="l", group="g", offsets=[1])["ok"]
    assert why(node, log="l")["unread"] == {"g": 4}
    node.broker.destinations.logs.all["l"].let_go(3)
    answer = why(node, log="l")
    assert answer["unread"] == {"g": 2} and answer["sentence"].endswith("Group 'g' is 2 records behind.")
