"""What is told of the life of a message: which events, in which batch, and that the ledgers and the journal agree."""

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from radiator.core.turn import Batch
from radiator.model import journal
from radiator.model.commands import AUTO, CLIENT, Command, Send, Tick
from radiator.model.headers import ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE
from radiator.model.journal import COLUMNS, NUMBERS, JournalEvent, as_json
from radiator.model.limits import EVENT_BYTES, GIB
from radiator.model.message import message_id, position_of
from radiator.model.replies import Deliver
from radiator.model.settings import JOURNAL, Declarations, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.writes import AppendEvent, Ledger, Put, Remove, Retire
from tests.core.cluster.nodes import Nodes, declared
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, subscribe, unsubscribe
from tests.sim.disk import Platter, SimDisk

EMPTY = QueueSettings()


def sentences_of(**queues: QueueSettings) -> Declarations:
    """Those queues, and a journal; everything else is created by first use."""
    for one in list(queues.values()):
        if one.dead_letter is not None:
            queues.setdefault(one.dead_letter, QueueSettings())
    return Declarations(
        queues=queues,
        fanouts={"f": ("a", "b", "m")},
        logs={JOURNAL: LogSettings()},
        has_journal=True,
        create_queues=True,
        create_topics=True,
    )


def started(declarations: Declarations | None = None, **more: Any) -> Node:
    node = Node(declarations or sentences_of(), **more)
    node.open(1, 2)
    return node


def events_on(platter: Platter) -> list[JournalEvent]:
    """The whole journal, as it is on the disk."""
    (number,) = [number for number, name in platter.logs.items() if name == JOURNAL]
    rows = platter.records.get((number, 0), {})
    assert sorted(rows) == list(range(len(rows)))
    events = [row for _, row in sorted(rows.items())]
    assert all(isinstance(row, JournalEvent) for row in events)
    return events  # type: ignore[return-value]


def story(node: Node, queue: str = "q") -> list[tuple[str, ...]]:
    """Event and reason of all that is told of a queue, but of starts."""
    node.wait(0)
    events = [one for one in events_on(node.disk.platter) if one.queue == queue and one.event != journal.STARTED]
    return [(one.event, one.reason) if one.reason else (one.event,) for one in events]


def one(node: Node, event: str, queue: str = "q") -> JournalEvent:
    """The only such event of the queue."""
    (found,) = [row for row in events_on(node.disk.platter) if (row.event, row.queue) == (event, queue)]
    return found


def books_of(platter: Platter) -> dict[str, Ledger]:
    return {name: ledger for name, ledger in platter.queues.values() if not name.startswith("$outbox/")}


def assert_books_agree(platter: Platter) -> None:
    """Each column of each queue has as many messages, and bytes, as its events, since the queue is there."""
    counted: Counter[tuple[str, str]] = Counter()
    columns = {event: column for column, events in COLUMNS.items() for event in events}
    for row in events_on(platter):
        if row.event == journal.DELETED:
            left = sum(sign * counted[row.queue, name] for name, sign in SIGNS)
            assert left == row.number, f"{row}, and {left} were left"
            counted = Counter({key: count for key, count in counted.items() if key[0] != row.queue})
        elif row.event in columns:
            counted[row.queue, columns[row.event]] += 1
            counted[row.queue, f"{columns[row.event]}_bytes"] += row.size
    for queue, ledger in books_of(platter).items():
        for column in COLUMNS:
            for name in (column, f"{column}_bytes"):
                assert counted[queue, name] == getattr(ledger, name), f"{name} of {queue}"


SIGNS = [(column, 1 if column == "accepted" else -1) for column in COLUMNS]


# ---- one message, told from its beginning to its end


def test_a_message_is_accepted_delivered_and_acked() -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q", b"body", headers=b"a:b\n"))
    out = node.message(2)
    node.say(ack(out))
    assert story(node) == [("accepted",), ("delivered",), ("acked",)]
    accepted, delivered, acked = (one(node, event) for event in ("accepted", "delivered", "acked"))
    assert message_id(node.disk.platter.store_id, accepted.position) == out.message_id
    assert {accepted.position} == {delivered.position, acked.position}
    assert (accepted.size, delivered.size, acked.size) == (8, 8, 8)
    assert (accepted.client, delivered.client, acked.client) == ("", "2/q", "2/q")
    assert accepted.ms == node.now_ms


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACED = f"traceparent:{TRACEPARENT}\n".encode()  # no block that has one is shorter


def test_the_trace_of_a_message_is_told_wherever_it_is_accepted_and_nowhere_else() -> None:
    node = started(sentences_of(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=EMPTY))
    node.say(subscribe(2, "q"), send(1, "q", headers=TRACED))
    node.say(nack(node.message(2)))
    node.wait(0)
    node.admin(2, **{"do": "move", "from": "dead", "to": "again"})
    node.say(send(1, "/fanout/f", headers=TRACED), send(1, "later", headers=TRACED, delay_ms=5), send(1, "none"))
    node.wait(0)
    found = [(row.queue, row.event) for row in events_on(node.disk.platter) if row.traceparent == TRACEPARENT]
    accepted = {(row.queue, row.event) for row in events_on(node.disk.platter) if row.event == "accepted"}
    assert sorted(found) == sorted(accepted - {("none", "accepted")})
    assert {queue for queue, _ in found} == {"q", "dead", "again", "a", "b", "m", "later"}


@pytest.mark.parametrize(
    "headers",
    [
        b"traceparent:00-1-2-01\n",
        b"traceparent:\n",
        TRACED.upper(),
        TRACED.replace(b"00-", b"01-"),
        b"x-" + TRACED,
        b"Traceparent" + TRACED[11:],
        b"x:y" * 30 + b"\n",
        b"traceparent:the first of several counts\n" + TRACED,
        b"",
    ],
)
def test_what_is_no_traceparent_goes_with_the_message_and_is_not_told(headers: bytes) -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q", headers=headers))
    assert node.message(2).message.headers == headers
    node.wait(0)
    assert one(node, "accepted").traceparent == ""


@pytest.mark.parametrize("headers", [TRACED, b"a:b\n" + TRACED, b"a:traceparent:\n" + TRACED + b"c:d\n", TRACED * 2])
def test_the_header_is_found_wherever_it_stands(headers: bytes) -> None:
    node = started()
    node.say(send(1, "q", headers=headers))
    node.wait(0)
    assert one(node, "accepted").traceparent == TRACEPARENT


def test_the_correlation_id_of_a_message_is_told_wherever_it_is_accepted_and_nowhere_else() -> None:
    node = started(
        replace(
            sentences_of(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=EMPTY, routed=EMPTY),
            exchanges={"x": ExchangeSettings(type="topic")},
        )
    )
    name = b"correlation-id:task 7\n"
    node.admin(1, do="bind", exchange="x", key="a.#", queue="routed")
    node.say(subscribe(2, "q"), send(1, "q", headers=name))
    node.say(nack(node.message(2)))
    node.wait(0)
    node.admin(2, **{"do": "move", "from": "dead", "to": "again"})
    node.say(send(1, "/fanout/f", headers=name), send(1, "later", headers=name, delay_ms=5), send(1, "none"))
    node.say(send(1, "/exchange/x/a.b", headers=name), begin(1), send(1, "whole", headers=name, transaction=b"t"))
    node.say(commit(1))
    node.wait(0)
    rows = events_on(node.disk.platter)
    found = [(row.queue, row.event) for row in rows if row.correlation_id]
    assert {row.correlation_id for row in rows} == {"", "task 7"}
    assert sorted(found) == sorted(
        (row.queue, row.event) for row in rows if row.event == "accepted" and row.queue != "none"
    )
    assert {queue for queue, _ in found} == {"q", "dead", "again", "a", "b", "m", "later", "routed", "whole"}


@pytest.mark.parametrize("length", [255, 256])
def test_a_correlation_id_is_told_up_to_its_bound(length: int) -> None:
    node = started()
    value = b"x" * length
    node.say(subscribe(2, "q"), send(1, "q", headers=b"correlation-id:%b\n" % value))
    assert node.message(2).message.headers == b"correlation-id:%b\n" % value
    node.wait(0)
    assert one(node, "accepted").correlation_id == ("x" * 255 if length == 255 else "")


@pytest.mark.parametrize(("headers", "escaping", "kept"), [
    (b"correlation-id:a\\cb\\nc\\\\d\\re\n", ESCAPING_ALL, "a:b\nc\\d\re"),
    (b"correlation-id:a\\cb\\re\n", ESCAPING_BUT_CR, "a:b\\re"),
    (b"correlation-id: a\\cb:c \n", ESCAPING_NONE, "a\\cb:c"),
    (b"a:correlation-id:no\ncorrelation-id:yes\ncorrelation-id:later\n", ESCAPING_ALL, "yes"),
    (b"correlation-id:1\n", ESCAPING_ALL, "1"),
    (b"correlation-id:\n", ESCAPING_ALL, ""),
    (b"Correlation-id:no\n", ESCAPING_ALL, ""),
    (b"x-correlation-id:no\n", ESCAPING_ALL, ""),
    (b"correlation-id:\xff\xfe\n", ESCAPING_ALL, ""),  # no session lets it in
    ("correlation-id:größe\n".encode(), ESCAPING_ALL, "größe"),
])  # fmt: skip
def test_it_is_told_as_its_sender_meant_it(headers: bytes, escaping: int, kept: str) -> None:
    node = started()
    node.say(replace(send(1, "q", headers=headers), escaping=escaping))
    node.wait(0)
    assert one(node, "accepted").correlation_id == kept


def test_an_auto_message_is_acked_by_being_written() -> None:
    node = started()
    node.say(subscribe(2, "q", AUTO), send(1, "q"))
    assert story(node) == [("accepted",), ("delivered",), ("acked", "written")]


def test_each_of_those_that_one_ack_means_is_acked() -> None:
    node = started()
    node.say(subscribe(2, "q", CLIENT, prefetch_count=3), *[send(1, "q")] * 3)
    node.say(ack(node.messages(2)[-1]))
    assert [event for event, *_ in story(node)].count("acked") == 3


def test_what_comes_back_is_told_with_its_attempt() -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q"))
    node.say(nack(node.message(2)))
    node.close(2)
    node.open(3)
    node.say(subscribe(3, "q", ack_timeout_s=1))
    node.wait(2)
    assert story(node) == [
        ("accepted",), ("delivered",), ("nacked",), ("delivered",), ("returned", "lost"), ("delivered",),
        ("returned", "ack-timeout"),
    ]  # fmt: skip
    events = [
        (t.event, t.client, t.attempt) for t in events_on(node.disk.platter) if t.event in ("delivered", "returned")
    ]
    assert events == [
        ("delivered", "2/q", 0), ("delivered", "2/q", 1), ("returned", "2/q", 1), ("delivered", "3/q", 2),
        ("returned", "3/q", 2),
    ]  # fmt: skip


def test_a_rejected_message_is_dropped_or_goes_to_its_dead_letter_queue() -> None:
    node = started(sentences_of(q=QueueSettings(dead_letter="dead")))
    node.say(subscribe(2, "q"), subscribe(2, "p"), send(1, "q", b"1"), send(1, "p", b"2"))
    for _ in range(2):
        node.say(nack(node.message(2), requeue=False))
    assert story(node) == [("accepted",), ("delivered",), ("nacked", "rejected"), ("dead-lettered", "rejected")]
    assert story(node, "p") == [("accepted",), ("delivered",), ("nacked", "rejected"), ("dropped", "rejected")]
    assert story(node, "dead") == [("accepted", "dead-letter")]
    dead, dead_lettered = one(node, "accepted", "dead"), one(node, "dead-lettered")
    assert (dead.other, dead.other_queue) == (dead_lettered.position, "q")
    assert (dead_lettered.other, dead_lettered.other_queue) == (dead.position, "dead")
    assert_books_agree(node.disk.platter)


def test_a_message_that_has_come_back_too_often_is_dead() -> None:
    node = started(sentences_of(q=QueueSettings(dead_letter="dead", max_redeliveries=0)))
    node.say(subscribe(2, "q"), send(1, "q"))
    node.say(nack(node.message(2)))
    assert story(node) == [("accepted",), ("delivered",), ("nacked",), ("dead-lettered", "redeliveries")]


def test_one_that_is_dropped_for_coming_back_is_told_of() -> None:
    node = started(sentences_of(q=QueueSettings(drop_after_redeliveries=0)))
    node.say(subscribe(2, "q"), send(1, "q"))
    node.say(nack(node.message(2)))
    assert story(node) == [("accepted",), ("delivered",), ("nacked",), ("dropped", "redeliveries")]


@pytest.mark.parametrize("dead_letter", [None, "dead"])
def test_an_expired_message_is_told_of(dead_letter: str | None) -> None:
    node = started(sentences_of(q=QueueSettings(dead_letter=dead_letter)))
    node.say(send(1, "q", expiration_ms=10))
    node.wait(1)
    assert story(node) == [("accepted",), ("expired",) if dead_letter is None else ("dead-lettered", "expired")]


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_what_overflows_is_told_of(overflow: str) -> None:
    dead_letter = "dead" if overflow == "dead-letter" else None
    node = started(sentences_of(q=QueueSettings(max_messages=1, overflow=overflow, dead_letter=dead_letter)))
    node.say(send(1, "q", b"1"), send(1, "q", b"2"))
    gone = ("dropped", "overflow") if dead_letter is None else ("dead-lettered", "overflow")
    assert story(node) == [("accepted",), gone, ("accepted",)]


def test_what_is_kept_back_is_told_with_its_time() -> None:
    node = started()
    node.say(send(1, "q", delay_ms=1000))
    node.wait(1.5)
    node.say(subscribe(2, "q"))
    node.say(nack(node.message(2), delay_ms=500))
    node.wait(1)
    assert story(node) == [
        ("accepted",), ("delayed",), ("due",), ("delivered",), ("nacked",), ("delayed",), ("due",), ("delivered",),
    ]  # fmt: skip
    first, second = (row for row in events_on(node.disk.platter) if row.event == "delayed")
    assert first.number == first.ms + 1000 and (second.number, second.attempt) == (second.ms + 500, 1)


def test_purged_and_moved_messages_are_told_of() -> None:
    node = started()
    node.say(send(1, "q", b"1"), send(1, "q", b"2", delay_ms=60_000), send(1, "p", b"3"))
    assert node.admin(2, do="purge", queue="q")["purged"] == 2
    assert story(node) == [("accepted",), ("accepted",), ("delayed",), ("purged",), ("purged",)]
    assert node.admin(2, **{"do": "move", "from": "p", "to": "r"})["moved"] == 1
    assert story(node, "p") == [("accepted",), ("moved",)] and story(node, "r") == [("accepted", "moved")]
    left, came = one(node, "moved", "p"), one(node, "accepted", "r")
    assert (left.other, left.other_queue) == (came.position, "r")
    assert (came.other, came.other_queue) == (left.position, "p")
    assert_books_agree(node.disk.platter)


def test_copies_of_a_fanout_have_what_is_common() -> None:
    node = started(sentences_of(a=EMPTY, b=EMPTY, m=QueueSettings(persistent=False, max_messages=9, max_bytes=999)))
    node.say(subscribe(2, "a"), send(1, "/fanout/f", headers=b"x:1:2\n"), send(1, "/fanout/f"))
    common = dict(line.split(b":", 1) for line in node.message(2).message.headers.splitlines())[b"fanout-message-id"]
    assert story(node, "b") == [("accepted",), ("fanout-copy",)] * 2
    copies = [row for row in events_on(node.disk.platter) if row.event == "fanout-copy"]
    assert [row.queue for row in copies] == ["a", "b", "a", "b"]
    assert {(row.address, row.number) for row in copies} == {("/fanout/f", 2)}
    ids = [message_id(node.disk.platter.store_id, row.other) for row in copies]
    assert ids[0] == ids[1] == common and ids[2] == ids[3] != common


def test_copies_that_a_dedup_id_keeps_out_are_not_counted() -> None:
    node = started(sentences_of(a=QueueSettings(dedup_window_s=60), b=EMPTY, m=EMPTY))
    node.say(send(1, "/fanout/f", dedup_id=b"1"), send(1, "/fanout/f", dedup_id=b"1"))
    copies = [row for row in events_on(node.disk.platter) if row.event == "fanout-copy"]
    assert [(row.queue, row.number) for row in copies] == [("a", 3), ("b", 3), ("m", 3), ("b", 2), ("m", 2)]
    assert_books_agree(node.disk.platter)


def test_what_was_sent_to_another_address_says_so() -> None:
    node = started()
    node.admin(2, do="declare", queue="q")
    node.admin(2, do="bind", exchange="amq.topic", key="#", queue="q")
    node.say(send(1, "/exchange/amq.topic/k"), send(1, "q"))
    node.say(subscribe(2, "/topic/t", durable=True, name=b"d"), send(1, "/topic/t"))
    events = [(t.queue, t.address) for t in events_on(node.disk.platter) if t.event == "accepted"]
    assert events == [("q", "/exchange/amq.topic/k"), ("q", ""), ("$durable/topic/t/d", "/topic/t")]


def test_a_deleted_queue_is_the_end_of_all_that_is_in_it() -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q", b"1"), send(1, "q", b"22"))
    out = node.message(2)
    node.say(unsubscribe(2, "q"))
    node.say(ack(out))
    node.say(send(1, "q", b"333"))
    assert node.admin(2, do="delete", queue="q")["deleted"] == 2
    gone = one(node, "deleted")
    assert (gone.number, gone.size, gone.position) == (2, 5, 0)
    node.say(send(1, "q"))
    assert story(node)[-2:] == [("deleted",), ("accepted",)]
    assert_books_agree(node.disk.platter)


def test_a_durable_subscription_that_ends_takes_with_it_what_is_out() -> None:
    node = started()
    node.say(subscribe(2, "/topic/t", durable=True, name=b"d"), send(1, "/topic/t"))
    node.message(2)
    node.say(replace(unsubscribe(2, "d"), durable=True))
    assert story(node, "$durable/topic/t/d") == [("accepted",), ("delivered",), ("deleted",)]
    node.close(2)
    node.wait(1)
    assert story(node, "$durable/topic/t/d")[-1] == ("deleted",)


def test_what_is_in_memory_is_not_told_of() -> None:
    node = started(sentences_of(q=QueueSettings(persistent=False, max_messages=9, max_bytes=999, dead_letter="dead")))
    node.say(subscribe(2, "q"), send(1, "q"), send(1, "/topic/t"), send(1, "/temp-queue/t"))
    node.say(nack(node.message(2), requeue=False))
    assert story(node) == []
    assert story(node, "dead") == [("accepted", "dead-letter")]
    assert one(node, "accepted", "dead").other_queue == "q"


# ---- between nodes


def test_a_message_that_is_handed_over_is_acked_here_and_accepted_there() -> None:
    nodes = Nodes("ab", declarations=replace(declared(), logs={JOURNAL: LogSettings()}, has_journal=True))
    for name in "ab":
        nodes[name].open(1)
    nodes["a"].say(subscribe(1, "work", name=b"s"), send(1, "work", headers=b"correlation-id:task 7\n"))
    nodes["a"].say(nack(nodes["a"].message(1)))
    nodes["a"].message(1)
    nodes["a"].close(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.wait(1)
    nodes["b"].say(ack(nodes["b"].message(1)))
    assert story(nodes["a"], "work")[-2:] == [("returned", "lost"), ("acked", "handed-over")]
    assert story(nodes["b"], "work") == [("accepted", "handed-over"), ("delivered",), ("acked",)]
    left = [row for row in events_on(nodes["a"].disk.platter) if row.event == "acked"][0]
    came = one(nodes["b"], "accepted", "work")
    assert (left.client, left.attempt, came.client, came.attempt) == ("node/b", 2, "node/a", 2)
    accepted = one(nodes["a"], "accepted", "work")
    assert (accepted.correlation_id, left.correlation_id, came.correlation_id) == ("task 7", "", "task 7")


@pytest.mark.parametrize("is_crash", [False, True])
def test_one_that_was_in_doubt_when_the_node_stopped_is_told_of_all_the_same(is_crash: bool) -> None:
    nodes = Nodes("ab", declarations=replace(declared(), logs={JOURNAL: LogSettings()}, has_journal=True))
    nodes["a"].open(1)
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work", b"four"))
    while not nodes["b"].stored("work"):
        nodes.step()
    if is_crash:
        nodes.crash("a")
    else:
        nodes.cut("a", "b")
    nodes.link("a", "b")
    nodes.wait(1)
    assert story(nodes["a"], "work") == [("accepted",), ("acked", "handed-over")]
    assert one(nodes["a"], "acked", "work").size == 4
    for name in "ab":
        assert_books_agree(nodes[name].disk.platter)


def test_copies_of_another_nodes_fanout_are_accepted_from_it_and_its_outbox_is_not_told_of() -> None:
    nodes = Nodes("ab", declarations=replace(declared(), logs={JOURNAL: LogSettings()}, has_journal=True))
    nodes["a"].open(1)
    nodes["a"].say(send(1, "/fanout/events"))
    nodes.run()
    assert story(nodes["a"], "x") == [("accepted",), ("fanout-copy",)]
    assert story(nodes["b"], "x") == [("accepted", "handed-over")]
    assert one(nodes["b"], "accepted", "x").client == "node/a"
    assert {event.queue for event in events_on(nodes["a"].disk.platter)} == {"", "work", "x", "y"}


def test_what_no_link_can_carry_is_told_once_a_run_and_is_still_there() -> None:
    queues = {"work": QueueSettings(scope="cluster")}
    declarations = replace(sentences_of(**queues), cluster_fanouts=frozenset({"f"}), fanouts={"f": ("x", "y")})
    nodes = Nodes("ab", declarations=declarations)
    nodes.cut("a", "b")
    nodes["a"].open(1)
    nodes["a"].say(send(1, "work", b"x" * 3000), send(1, "work"), send(1, "/fanout/f", b"x" * 3000))
    nodes.limits = replace(nodes.limits, max_frame_bytes=2000)
    for _ in range(2):
        for name in "ab":
            nodes.crash(name)
            nodes[name].open(1)
        nodes.link("a", "b")
        nodes["b"].say(subscribe(1, "work", prefetch_count=9))
        for _ in range(20):
            nodes.wait(0.25)
    of_it = [row.position for row in events_on(nodes["a"].disk.platter) if row.event == journal.SET_ASIDE]
    assert len(of_it) == 2 and len({*of_it}) == 1, "once in each run; of copies in an outbox nothing is told"
    assert one(nodes["a"], journal.ACKED, "work").position != of_it[0]
    (position,) = (at for number, at in nodes["a"].disk.platter.messages if at == of_it[0])
    assert position and nodes["a"].numbers("work")["set_aside"] == 1


# ---- the batch


def events_in(batch: Batch) -> list[JournalEvent]:
    return [event for write in batch.writes if isinstance(write, AppendEvent) for event in write.events]


@pytest.mark.durability("D27")
def test_an_event_is_in_the_batch_of_its_change() -> None:
    node = started()
    node.auto = False
    node.say(subscribe(2, "q"), send(1, "q", b"1"), send(1, "q", b"2"))
    batch = node.broker.seal()
    assert batch is not None
    assert [write.position for write in batch.writes if isinstance(write, Put)] == [
        t.position for t in events_in(batch)
    ]
    node.being_committed = batch
    node.commit()
    node.say(ack(node.message(2)))
    batch = node.broker.seal()
    assert batch is not None
    (removed,) = (write.position for write in batch.writes if isinstance(write, Remove))
    assert [(row.event, row.position) for row in events_in(batch)][:2] == [
        ("delivered", removed),
        ("acked", removed),
    ]


@pytest.mark.durability("D27")
def test_a_transaction_tells_all_or_nothing() -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q", b"1"))
    out = node.message(2)
    node.auto = False
    node.say(begin(2), ack(out, transaction=b"t"), send(2, "p", transaction=b"t"), commit(2, receipt=b"r"))
    before = node.crashed()
    assert story(before) == [("accepted",)] and story(before, "p") == []
    while node.step():
        pass
    after = node.crashed()
    assert story(after) == [("accepted",), ("delivered",), ("acked",)] and story(after, "p") == [("accepted",)]


@pytest.mark.durability("D27")
def test_a_dead_letter_is_told_of_in_one_batch() -> None:
    node = started(sentences_of(q=QueueSettings(dead_letter="dead")))
    node.say(subscribe(2, "q"), send(1, "q"))
    node.auto = False
    node.say(nack(node.message(2), requeue=False))
    batch = node.broker.seal()
    assert batch is not None
    assert [row.event for row in events_in(batch)][-3:] == ["nacked", "accepted", "dead-lettered"]


def test_deliveries_alone_are_on_the_disk_after_a_tick() -> None:
    node = started()
    node.say(send(1, "q"))
    node.say(subscribe(2, "q"))
    assert [row.event for row in events_on(node.disk.platter)][-1] == "accepted"
    node.wait(0.25)
    assert [row.event for row in events_on(node.disk.platter)][-1] == "delivered"
    batches = node.broker.context.batches
    node.wait(0.25)
    assert node.broker.context.batches == batches


def test_a_receipt_speaks_for_the_events_too() -> None:
    node = started()
    node.auto = False
    node.say(send(1, "q", receipt=b"r"))
    node.seal()
    assert not node.receipts(1)
    node.commit()
    assert node.receipts(1) == [b"r"] and [row.event for row in events_on(node.disk.platter)][-1] == "accepted"


@pytest.mark.parametrize("times", [1, 50])
def test_while_the_disk_is_tight_the_journal_grows_no_more(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Also where several of its segments are filled between two Ticks."""
    monkeypatch.setattr("radiator.core.logs.log.SEGMENT_RECORDS", 10)
    node = started()
    node.say(subscribe(2, "q"), *[send(1, "q")] * 20)
    log = node.broker.destinations.logs.all[JOURNAL].partitions[0]
    node.turn([Tick(GIB, GIB)])
    size_bytes, first = log.size, log.first
    for _ in range(30):
        for _ in range(times):
            node.say(nack(node.message(2)))
        node.turn([Tick(GIB, GIB)])
    assert log.first > first and log.size <= size_bytes + 10 * EVENT_BYTES
    assert [note.level for note in node.notes if note.event == "journal_cut"][:1] == ["warning"]
    first = log.first
    for _ in range(30):
        node.say(nack(node.message(2)))
        node.wait(0.25)
    assert log.first == first


# ---- starts


def test_a_start_tells_what_it_has_found() -> None:
    node = started()
    node.say(send(1, "q", b"1"), send(1, "q", b"22"), send(1, "p", delay_ms=1000))
    again = node.crashed()
    events = [t for t in events_on(again.disk.platter) if t.event == "started"]
    boot = again.disk.recovery.boot
    assert [(t.queue, t.number, t.size, t.reason) for t in events] == [
        ("", 0, 0, "clean"), ("", 0, 0, "unclean"), ("q", 2, 3, "unclean"), ("p", 1, 1, "unclean"),
    ]  # fmt: skip
    assert events[-1].position == position_of(boot, 0)
    again.stop()
    third = again.again_on(again.disk.platter)
    assert events_on(third.disk.platter)[-1].reason == "clean"


def test_what_was_out_is_delivered_again_after_a_start() -> None:
    node = started()
    node.say(subscribe(2, "q"), send(1, "q"))
    node.wait(1)
    again = node.crashed()
    again.open(1, 2)
    again.say(subscribe(2, "q"))
    again.say(ack(again.message(2)))
    assert story(again) == [("accepted",), ("delivered",), ("delivered",), ("acked",)]


def test_the_journal_goes_on_where_it_was_off_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    # the disk would hold it against the journal
    monkeypatch.setattr("tests.core.node.SimDisk", lambda platter, has_journal: SimDisk(platter))
    node = started()
    node.say(send(1, "q", b"1"))
    off = node.crashed(declarations=replace(node.declarations, has_journal=False, logs={}))
    off.open(1)
    off.say(send(1, "q", b"2"))
    on = off.crashed(declarations=node.declarations)
    events = events_on(on.disk.platter)
    assert [row.position >> 64 for row in events if row.event == "started" and not row.queue] == [1, 3]
    assert (events[-1].queue, events[-1].number) == ("q", 2)


def test_off_means_that_nothing_is_told() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q"))
    node.say(ack(node.message(2)))
    assert node.disk.platter.logs == {} and node.disk.platter.records == {}
    assert all(queue.journal is None for queue in node.broker.destinations.queues.everything())


# ---- the ledgers and the journal


ANY = sentences_of(
    a=QueueSettings(dead_letter="b", max_redeliveries=1),
    b=QueueSettings(max_messages=6, overflow="drop-oldest"),
    m=QueueSettings(redelivery_delay_ms=500, ack_timeout_s=3, max_messages=9, overflow="dead-letter", dead_letter="d"),
)


@pytest.mark.durability("D28")
@pytest.mark.parametrize("seed", range(40))
def test_the_books_and_the_journal_agree_over_any_history(seed: int) -> None:
    random = Random(seed)
    node = Node(ANY)
    for _ in range(4):
        history = History(node, random)
        for _ in range(40):
            node.auto = random.random() < 0.7
            history.step()
        if random.random() < 0.5:
            node.stop()
        node = node.again_on(node.disk.platter)
    assert_books_agree(node.disk.platter)
    assert_order(events_on(node.disk.platter))


class History:
    """Somebody does something, step by step. No number of a connection comes twice, as in a shell."""

    def __init__(self, node: Node, random: Random) -> None:
        self.node = node
        self.random = random
        self.clients = [1, 2, 3]
        node.open(*self.clients)
        self.outs: list[Deliver] = []
        self.prepared = 0

    def new_client(self, number: int) -> None:
        """In the place of one that has gone."""
        self.node.close(number)
        self.outs = [out for out in self.outs if out.connection != number]
        self.clients[self.clients.index(number)] = new = max(self.clients) + 1
        self.node.open(new)

    def step(self) -> None:
        node, random = self.node, self.random
        for number in self.clients:
            if node.is_refused(number):
                self.new_client(number)
        self.outs += [out for number in self.clients for out in node.messages(number)]
        client, name = random.choice(self.clients), random.choice(["a", "b", "m", "q"])
        what = random.randrange(16)
        if what < 3:
            more: dict[str, Any] = {"delay_ms": random.randrange(2000)} if random.random() < 0.3 else {}
            more |= {"expiration_ms": random.randrange(1, 3000)} if random.random() < 0.3 else {}
            node.say(send(client, name, random.randbytes(random.randrange(9)), **more))
        elif what == 3:
            node.say(send(client, "/fanout/f", b"copy"))
        elif what == 4 and name.encode() not in node.broker.connections[client].queue_subscriptions:
            node.say(subscribe(client, name, random.choice([AUTO, "client-individual"]), prefetch_count=4))
        elif what < 8 and self.outs:
            out = self.outs.pop(random.randrange(len(self.outs)))
            if out.connection in self.clients:
                settle: list[Command] = [ack(out), nack(out), nack(out, requeue=False), nack(out, delay_ms=300)]
                node.say(random.choice(settle))
        elif what == 8:
            self.new_client(client)
        elif what == 9:
            node.wait(random.random() * 2)
        elif what == 10:
            self.ask(do="purge", queue=name)
        elif what == 11:
            self.ask(**{"do": "move", "from": name, "to": random.choice(["a", "q"]), "count": 2})
        elif what == 12:
            self.ask(do="delete", queue="q", if_unused=False)
        elif what == 13:
            self.ask(do="checkout", queue=name, group="g", max_messages=random.randrange(4))
        elif what == 14:
            self.ask(do="checkout-release", queue=name, group="g")
        elif what == 15:
            self.prepared += 1
            prepared = f"{node.disk.recovery.boot}-{self.prepared}"
            words = [send(client, to, b"p", transaction=b"t") for to in (name, "/fanout/f")]
            node.say(begin(client), *words, replace(commit(client), prepare=prepared))
            self.ask(do="commit", prepared=[prepared], app="app", version=random.randrange(99))
        else:
            node.step()

    def ask(self, **request: Any) -> None:
        """Whatever the answer: a queue may not be there, or be in use."""
        self.node.say(Send(self.clients[0], "/admin", b"", 2, json.dumps(request).encode(), reply_to="admin"))


def assert_order(events: list[JournalEvent]) -> None:
    """Of each message: accepted first, its end last, and each settlement behind its delivery."""
    there: dict[int, str] = {}
    out: set[int] = set()
    ends = {event for column, of in COLUMNS.items() if column != "accepted" for event in of}
    for row in events:
        at = row.position
        if row.event == journal.STARTED:
            out.clear()
        elif row.event == journal.DELETED:
            there = {position: queue for position, queue in there.items() if queue != row.queue}
        elif row.event == journal.ACCEPTED:
            assert at not in there
            there[at] = row.queue
        else:
            assert there.get(at) == row.queue, row
            if row.event == journal.DELIVERED:
                out.add(at)
            elif row.event in (journal.ACKED, journal.NACKED, journal.RETURNED):
                assert at in out, row
                out.discard(at)
            if row.event in ends:
                del there[at]


@pytest.mark.durability("D27")
def test_a_retire_and_its_event_are_in_one_batch() -> None:
    node = started()
    node.say(send(1, "q"))
    node.auto = False
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    batch = node.broker.seal()
    assert batch is not None and any(isinstance(write, Retire) for write in batch.writes)
    assert [row.event for row in events_in(batch)] == ["deleted"]


# ---- names, and what a reader gets


def test_a_long_name_of_a_client_is_cut() -> None:
    node = started()
    node.say(subscribe(2, "q", name=b"\xc3\xa4\xff" + b"x" * 900), send(1, "q"))
    node.wait(1)
    client = one(node, "delivered").client
    assert len(client) == journal.CLIENT_CHARACTERS and client.startswith("2/ä�xxx")


def test_every_event_as_json() -> None:
    whole = JournalEvent(
        "acked", 5, "q", position_of(3, 7), "12/s", 2, 200, position_of(3, 9), "dead", "lost", "/fanout/f", 0
    )
    assert json.loads(as_json(whole, 41, "ab")) == {
        "seq": 41, "event": "acked", "ms": 5, "queue": "q", "message_id": "ab-3-7", "attempt": 2, "bytes": 200,
        "client": "12/s", "other_id": "ab-3-9", "other_queue": "dead", "address": "/fanout/f", "reason": "lost",
    }  # fmt: skip
    least = JournalEvent("deleted", 5, "ä\n", 0)
    assert (
        as_json(least, 0, "ab").decode() == '{"seq":0,"event":"deleted","ms":5,"queue":"ä\\n","bytes":0,"messages":0}'
    )
    for event, key in NUMBERS.items():
        assert json.loads(as_json(JournalEvent(event, 1, "q", 1, number=9), 0, "ab"))[key] == 9
