"""Partitioned queues on the disk: what was out, delayed or waiting when the broker ended keeps its order."""

import pytest

from radiator.core.queues import partitions
from radiator.core.queues.entry import cost_of
from radiator.core.queues.queue_partition import KEY_COST_BYTES
from radiator.model.commands import Read
from radiator.model.writes import Delay, MakeDue, Put, Remove
from tests.core.backlogs import durable
from tests.core.conftest import shrink
from tests.core.keyed import consume, drained, got, is_clean, keyed, names, of_key, say, settings, word
from tests.core.keyed import partitions as partitions_of
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queues, send, unsubscribe


def back(node: Node) -> Node:
    """The node after a power cut, with the same clients."""
    again = node.crashed()
    again.open(1, 2, 9)
    return again


# ---- over a restart -------------------------------------------------------------------------------------------------


def test_a_backlog_keeps_its_order(small: None) -> None:
    node = keyed()
    say(node, "a1 a2 b1 1 a3 b2 c1 a4 a5 b3 2 a6 a7 a8 a9")
    again = back(node)
    again.say(consume(1, prefetch_count=2))
    seen = drained(again)
    assert of_key(seen, "a") == [f"a{number}" for number in range(1, 10)]
    assert of_key(seen, "b") == ["b1", "b2", "b3"] and len(seen) == 15
    assert again.numbers("q")["messages"] == 0 and is_clean(again)


def test_what_was_out_is_first_of_its_key_again() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2 b1")
    assert names(node) == "a1 b1"
    again = back(node)
    again.say(consume(1))
    out = got(again)
    assert [*out] == ["a1", "b1"] and all(one.redelivered for one in out.values())
    again.say(ack(out["a1"]))
    assert names(again) == "a2"


def test_a_delayed_message_holds_its_key_over_a_restart() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2 b1 b2")
    out = got(node)
    node.say(nack(out["a1"], delay_ms=1000), ack(out["b1"]))
    again = back(back(node))
    again.say(consume(1))
    say(again, "a3 c1")
    assert names(again) == "b2 c1"
    again.wait(0.9)
    assert names(again) == ""
    again.wait(0.2)
    a1 = got(again)
    assert [*a1] == ["a1"] and a1["a1"].redeliveries == 1
    again.say(nack(a1["a1"], delay_ms=1000))
    assert names(again) == ""
    again.wait(1)
    assert drained(again) == ["a1", "a2", "a3"]


def test_one_sent_with_a_delay_holds_nobody_after_a_restart() -> None:
    node = keyed()
    say(node, "a1", delay_ms=1000)
    say(node, "a2")
    again = back(node)
    again.say(consume(1))
    out = got(again)
    assert [*out] == ["a2"]
    again.wait(1)
    assert names(again) == ""
    again.say(ack(out["a2"]))
    assert names(again) == "a1"


def test_one_due_while_the_broker_was_off_is_first_of_its_key() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"], delay_ms=1000))
    node.now_ms += 5000
    again = back(node)
    again.say(consume(1))
    again.wait(0.1)
    assert drained(again) == ["a1", "a2"]


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_however_many_keys_are_held_all_are_found(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.queues.key_read_back.HELD_AT_ONCE", at_once)
    node = keyed()
    node.say(consume(1))
    say(node, "a1 b1 c1 d1 a2 b2 c2 d2 1")
    for one in node.messages(1):
        node.say(nack(one, delay_ms=1000))
    again = back(node)
    again.say(consume(1))
    say(again, "e1")
    assert names(again) == "e1"
    again.wait(1)
    assert drained(again) == ["a1", "b1", "c1", "d1", "1", "a2", "b2", "c2", "d2"]
    again.say(consume(2))
    again.close(1)
    assert names(again, 2) == "e1"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_nothing_is_delivered_while_delays_hold_as_many_keys_as_they_may(is_restarted: bool) -> None:
    """Each takes memory until it is due, which may be in a year."""
    node = keyed(True)
    node.say(consume(1, prefetch_count=1))
    say(node, " ".join(f"{key}{number}" for key in "abcde" for number in (1, 2)) + " 1")
    durable(node).windows.held_max = 3 * KEY_COST_BYTES
    for key in "abc":
        (deliver,) = node.messages(1)
        assert deliver.message.body.decode() == f"{key}1"  # one less than the bound does no harm
        node.say(nack(deliver, delay_ms=60_000 if key == "a" else 120_000))
    if is_restarted:
        node = node.crashed()
        node.open(1, 2, 9)
        durable(node).windows.held_max = 3 * KEY_COST_BYTES
        node.say(consume(1, prefetch_count=1))
    assert durable(node).held_keys_bytes >= 3 * KEY_COST_BYTES and drained(node) == []
    why = node.admin(9, do="why", queue="q")
    assert (
        why["verdict"] == "keys"
        and "very many keys are held by messages that were given back with a delay" in why["sentence"]
    )
    node.wait(1)
    assert node.broker.destinations.windows.held == durable(node).held_keys_bytes  # and counts
    node.wait(60)
    seen = drained(node)
    assert seen[0] == "a1" and {*seen} == {"a1", "a2", "d1", "d2", "e1", "e2", "1"}
    node.wait(60)
    assert of_key(drained(node), "b") == ["b1", "b2"] and is_clean(node)


def test_those_that_are_out_may_be_held_beyond_the_bound() -> None:
    node = keyed(True)
    node.say(consume(1))
    say(node, "a1 b1 c1 a2")
    durable(node).windows.held_max = KEY_COST_BYTES
    node.say(*(nack(deliver, delay_ms=1000) for deliver in node.messages(1)))
    say(node, "d1")
    assert durable(node).held_keys_bytes == 3 * (KEY_COST_BYTES + 1) and names(node) == ""
    node.wait(1)
    assert {*drained(node)} == {"a1", "a2", "b1", "c1", "d1"} and is_clean(node)


def test_what_keys_of_a_queue_in_memory_take_counts() -> None:
    node = keyed(False)
    queue = node.broker.destinations.queues.find("q")
    assert queue is not None
    say(node, "a1 a2 1")
    ledger = queue.ledger
    assert queue.memory_bytes == cost_of(ledger.stored, ledger.stored_bytes) + 2 * KEY_COST_BYTES
    node.say(consume(1))
    drained(node)
    partitions.Partitions.look(queue.partitions)  # type: ignore[attr-defined]
    assert queue.memory_bytes == 0


def test_a_purge_after_a_restart_frees_keys_that_are_held() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"], delay_ms=10_000))
    again = back(node)
    again.say(consume(1))
    assert again.admin(9, do="purge", queue="q")["purged"] == 2
    say(again, "a3")
    assert drained(again) == ["a3"] and is_clean(again)
    assert not again.disk.platter.keys and not again.disk.platter.held


def test_an_expiry_after_a_restart_frees_the_key() -> None:
    node = keyed()
    node.say(consume(1), word("a1", expiration_ms=1000), word("a2"))
    node.say(nack(got(node)["a1"], delay_ms=500))
    again = back(node)
    again.say(consume(1))
    again.wait(2)
    assert drained(again) == ["a2"] and is_clean(again)


def test_dead_letters_after_a_restart_free_the_key() -> None:
    node = keyed(dead_letter="dead", max_redeliveries=1)
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"], delay_ms=1000))
    again = back(node)
    again.say(consume(1))
    again.wait(1)
    again.say(nack(got(again)["a1"]))
    assert names(again) == "a2" and again.stored("dead") == [b"a1"]


def test_an_ack_of_a_transaction_that_was_never_committed_is_none() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(begin(1), ack(out["a1"], transaction=b"t"))
    again = back(node)
    again.say(consume(1))
    assert drained(again) == ["a1", "a2"]


def test_a_commit_frees_the_key_at_once_and_for_ever() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(begin(1), ack(out["a1"], transaction=b"t"), commit(1))
    again = back(node)
    again.say(consume(1))
    assert drained(again) == ["a2"]


@pytest.mark.parametrize("window", [1, 3])
def test_a_hash_that_two_keys_have_changes_nothing(window: int, monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    monkeypatch.setattr(partitions, "hash_of", lambda key: b"the same")
    node = keyed(window=window)
    say(node, "a1 a2 a3 a4 b1 a5 a6 c1 b2 a7 c2 b3 a8 a9 b4 c3")
    again = back(node)
    again.say(consume(1))
    first = got(again)
    assert {"a1", "b1", "c1"} <= {*first}
    again.say(*map(ack, first.values()))
    seen = [*first, *drained(again)]
    assert len(seen) == 16 and all(of_key(seen, key) == sorted(of_key(seen, key)) for key in "abc")


# ---- what is written ------------------------------------------------------------------------------------------------


def test_rows_of_keys_come_and_go_with_messages() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2 1")
    platter = node.disk.platter
    assert len(platter.keys) == 2 and not platter.held
    out = got(node)
    node.say(nack(out["a1"], delay_ms=1000), nack(out["1"], delay_ms=1000))
    assert len(platter.keys) == 1 and len(platter.held) == 1, "one without a key holds none"
    node.wait(1)
    assert len(platter.keys) == 2 and not platter.held
    drained(node)
    assert not platter.keys and not platter.messages and not platter.counts and is_clean(node)


def test_a_message_without_a_key_has_no_row_of_one() -> None:
    node = keyed()
    node.auto = False
    say(node, "1 a1")
    node.seal()
    assert node.being_committed is not None
    puts = [write for write in node.being_committed.writes if isinstance(write, Put)]
    assert [bool(write.key) for write in puts] == [False, True]
    assert not any(isinstance(write, Remove | Delay | MakeDue) for write in node.being_committed.writes)


def test_nothing_is_delivered_before_it_is_on_the_disk() -> None:
    node = keyed()
    node.say(consume(1))
    node.auto = False
    say(node, "a1 b1 a2")
    assert names(node) == ""
    node.seal()
    assert names(node) == ""
    node.commit()
    assert names(node) == "a1 b1"


# ---- a long backlog -------------------------------------------------------------------------------------------------


def test_a_purge_reaches_what_was_passed_over_and_spares_what_comes_later(small: None) -> None:
    node = keyed()
    node.say(consume(1, prefetch_count=1))
    say(node, " ".join([*(f"a{number}" for number in range(40)), "b1 b2 c1"]))
    out = got(node)
    assert node.admin(9, do="purge", queue="q")["purged"] == 42
    say(node, "a100 b100 a101")
    node.say(ack(out["a0"]))
    assert drained(node) == ["a100", "b100", "a101"]
    assert node.numbers("q")["messages"] == 0 and is_clean(node) and not node.disk.platter.keys


def test_a_purge_of_a_key_that_is_behind_and_beyond_the_window_counts_each_message_once(small: None) -> None:
    """What is read back beyond is not off the disk yet when those before it are read back by their key."""
    node = keyed()
    say(node, " ".join([*(f"a{number}" for number in range(9)), "b1 b2 b3 b4 b5 b6 c1 d1 e1 a9 a10 a11"]))
    assert durable(node).window.beyond and partitions_of(node).behind
    assert node.admin(9, do="purge", queue="q")["purged"] == 21
    say(node, "a100 b100 a101")
    node.say(consume(1))
    assert drained(node) == ["a100", "b100", "a101"] and is_clean(node) and not node.disk.platter.keys


@pytest.mark.parametrize("small_bytes", [False, True])
def test_a_purge_while_bytes_are_on_the_disk_alone(
    small_bytes: bool, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"STEP_MESSAGES": 1} | ({"WINDOWS_BYTES": 1, "LOAD_BYTES": 1} if small_bytes else {}))
    node = keyed(window=2)
    node.say(consume(1))
    for key in "abcdef":
        say(node, f"{key}1 {key}2 {key}3")
    node.say(unsubscribe(1, "q"))
    for one in node.messages(1):
        node.say(nack(one))
    durable(node).window.shrink()
    node.auto = False
    node.say(consume(2, prefetch_count=2))
    body = b'{"do":"purge","queue":"q"}'
    node.say(send(9, "/admin", body, reply_to="admin", correlation_id=b"1"))
    say(node, "g1")
    node.auto = True
    node.turn([])
    assert node.numbers("q")["purged"] >= 14
    seen = drained(node, 2)
    assert seen[-1] == "g1" and node.numbers("q")["messages"] == 0 and is_clean(node)


def test_a_deleted_queue_leaves_nothing_behind(small: None) -> None:
    node = Node()
    node.open(1, 9)
    assert node.admin(9, do="declare", queue="n", partition_key="header:key")["created"]
    node.say(consume(1, "n", prefetch_count=1))
    say(node, " ".join(f"a{number} b{number}" for number in range(20)), to="n")
    node.close(1)
    assert node.admin(9, do="delete", queue="n")["deleted"]
    for _ in range(30):
        node.wait(1)
    assert not node.has("n") and not node.disk.platter.messages


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_overflow_of_a_long_backlog_keeps_the_order_of_each_key(small: None, overflow: str) -> None:
    dead = {"dead_letter": "dead"} if overflow == "dead-letter" else {}
    node = keyed(max_messages=20, overflow=overflow, **dead)
    for number in range(40):
        say(node, f"a{number:02}" if number % 4 else f"b{number:02}")
    assert node.numbers("q")["messages"] == 20
    again = back(node)
    say(again, "a98 a99")
    again.say(consume(1))
    seen = drained(again)
    assert len(seen) == 20 and of_key(seen, "a") == sorted(of_key(seen, "a"))
    assert of_key(seen, "b") == sorted(of_key(seen, "b")) and "a99" in seen
    assert is_clean(again) and len(again.stored("dead")) == (22 if dead else 0)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("count", [1, 5, 20, 100])
def test_peek_shows_what_was_passed_over_in_its_place(small: None, count: int, is_restarted: bool) -> None:
    node = keyed()
    bodies = [
        *(f"a{number}" for number in range(20)),
        "b1",
        "b2",
        "1",
        "c1",
        *(f"a{number}" for number in range(20, 40)),
    ]
    say(node, " ".join(bodies))
    if is_restarted:
        node = back(node)
    node.say(consume(1))
    for deliver in node.messages(1)[:2]:
        node.say(ack(deliver))
        bodies.remove(deliver.message.body.decode())
    node.say(unsubscribe(1, "q"))
    answer = node.admin(9, do="peek", queue="q", count=count)
    assert [one["body"] for one in answer["messages"]] == bodies[:count]
    node.say(consume(2))
    node.close(1)
    assert of_key(drained(node, 2), "a") == of_key(bodies, "a")


def test_settings_that_change_apply_to_what_is_delivered_next() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2 a3 a4")
    assert names(node) == "a1"
    durable(node).use(settings(partition_window=3))
    say(node, "a5")
    assert names(node) == "a2 a3"


def test_two_partitioned_queues_know_nothing_of_each_other() -> None:
    node = Node(queues(q=settings(), r=settings()))
    node.open(1, 2, 9)
    node.say(consume(1), consume(2, "r"))
    say(node, "a1 a2")
    say(node, "a1 a2", to="r")
    assert names(node) == "a1" and names(node, 2) == "a1"


def test_the_age_is_that_of_the_oldest_that_is_ready() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1")
    node.wait(5)
    say(node, "a2")
    node.wait(3)
    assert durable(node).oldest_ms == 3000


def test_a_body_of_any_size_goes_through(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"WINDOW_BYTES": 100, "LOAD_BYTES": 100, "WINDOWS_BYTES": 100})
    node = keyed()
    for number in range(6):
        node.say(word(f"a{number}" + "x" * 1000), word(f"b{number}" + "x" * 10))
    node.say(consume(1))
    seen = [body[:2] for body in drained(node)]
    assert of_key(seen, "a") == [f"a{number}" for number in range(6)] and len(seen) == 12
    assert durable(node).windows.size == durable(node).windows.out == 0


# ---- what goes to a consumer as soon as it is stored ----------------------------------------------------------------


def test_a_message_alone_of_its_key_goes_out_with_its_commit() -> None:
    node = keyed()
    node.say(consume(1), consume(2))
    for number in range(40):
        say(node, f"{chr(97 + number % 20)}{number}")
        deliver = next(iter(node.messages(1) or node.messages(2)))
        assert not partitions_of(node).entries and not partitions_of(node).free
        node.say(ack(deliver))
    assert is_clean(node) and node.numbers("q")["acked"] == 40


def test_a_message_is_behind_the_first_of_its_key_and_goes_to_who_has_room() -> None:
    node = keyed()
    node.say(consume(1, prefetch_count=2))
    say(node, "a1 b1 c1 a2 d1")
    assert names(node) == "a1 b1"  # and there is no room
    node.say(consume(2, prefetch_count=1))
    assert names(node, 2) == "c1"


def test_one_that_is_due_goes_before_one_that_was_sent_in_the_same_batch() -> None:
    node = keyed()
    node.say(consume(1), word("a1", delay_ms=1000))
    node.auto = False
    node.wait(1)
    while node.read_requests:
        node.answer()
    node.turn([Read(9, [word("a2")])])
    node.auto = True
    node.turn([])
    assert names(node) == "a1" and len(partitions_of(node).entries) == 1


@pytest.mark.parametrize("ttl_ms", [None, 60_000])  # one that expires is looked at before it goes out
def test_what_has_no_key_goes_to_all_by_turns(ttl_ms: int | None) -> None:
    node = keyed(message_ttl_ms=ttl_ms)
    node.say(consume(1), consume(2))
    bodies = [f"{letter}0" for letter in "abcdefgh"] + [f"{number}" for number in range(20)]
    node.turn([Read(9, [word(body) for body in bodies])])
    for connection in (1, 2):
        seen = names(node, connection).split()
        assert len([body for body in seen if body.isdigit()]) == 10 and len(seen) > 10


def test_one_that_has_expired_goes_to_nobody() -> None:
    node = keyed(message_ttl_ms=1000)
    say(node, "a1 b1")
    node.wait(2)
    node.say(consume(1))
    say(node, "a2")
    assert names(node) == "a2"


def test_one_that_expires_on_its_way_to_the_disk_goes_to_nobody() -> None:
    node = keyed(message_ttl_ms=1000)
    node.say(consume(1))
    node.auto = False
    node.turn([Read(9, [word("a1")])])
    node.now_ms += 1000
    node.auto = True
    node.turn([])
    assert names(node) == "" and node.numbers("q")["expired"] == 1 and is_clean(node)
