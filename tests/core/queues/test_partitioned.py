"""Of each key one message at a time, in order, whatever becomes of it; other keys go on meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from radiator.core.queues import partitions
from radiator.model.commands import AUTO, CLIENT, Nack
from radiator.model.replies import Deliver
from tests.core.keyed import consume, drained, got, is_clean, keyed, names, of_key, say, settings, word
from tests.core.keyed import partitions as partitions_of
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


def late(deliver: Deliver, delay_ms: int) -> Nack:
    return nack(deliver, delay_ms=delay_ms)


# ---- one key, one at a time -----------------------------------------------------------------------------------------


@BOTH
def test_of_a_key_the_next_comes_when_the_one_before_is_acked(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 a3")
    for expected in ("a1", "a2", "a3"):
        out = got(node)
        assert [*out] == [expected]
        node.say(ack(out[expected]))
    assert names(node) == "" and node.numbers("q")["messages"] == 0 and is_clean(node)


@BOTH
def test_of_a_key_the_next_comes_to_a_consumer_without_acks_when_the_one_before_is_written(persistent: bool) -> None:
    """Not when its removal is on the disk: a batch that only removes waits for others."""
    node = keyed(persistent)
    say(node, "a1 a2 a3")
    node.auto = False
    node.say(consume(1, ack=AUTO))
    seen = [names(node)]
    for _ in range(2):
        node.turn([])
        seen.append(names(node))
    assert seen == ["a1", "a2", "a3"] and node.broker.has_batch == persistent


@BOTH
def test_other_keys_and_messages_without_one_go_on_meanwhile(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1 1 b2 2 c1")
    out = got(node)
    assert [*out] == ["a1", "b1", "1", "2", "c1"]
    node.say(ack(out["b1"]))
    assert names(node) == "b2"
    node.say(ack(out["a1"]), ack(out["c1"]), ack(out["1"]), ack(out["2"]))
    assert names(node) == "a2"


@BOTH
def test_two_consumers_never_have_one_key_at_once(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), consume(2))
    say(node, "a1 a2 a3 b1 b2 b3 c1 c2 d1")
    held: dict[str, int] = {}
    seen: list[str] = []
    waiting: list[Deliver] = []
    while new := node.messages(1) + node.messages(2) or waiting:
        waiting = [*waiting, *new] if new is not waiting else waiting
        for deliver in new if new is not waiting else []:
            body = deliver.message.body.decode()
            assert body[0] not in held
            held[body[0]] = deliver.connection
            seen.append(body)
        one = waiting.pop(0)
        del held[one.message.body.decode()[0]]
        node.say(ack(one))
    assert sorted(seen) == ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "d1"]
    assert all(of_key(seen, key) == sorted(of_key(seen, key)) for key in "abcd")


@BOTH
@pytest.mark.parametrize("mode", [AUTO, CLIENT])
def test_every_mode_of_ack_keeps_the_order(persistent: bool, mode: str) -> None:
    node = keyed(persistent)
    node.reads_slowly.add(1)
    node.say(consume(1, ack=mode))
    say(node, "a1 b1 a2 a3 b2")
    out = got(node)
    assert [*out] == ["a1", "b1"]
    if mode == AUTO:
        node.reads_slowly.clear()
        node.turn([])
        assert names(node) == "a2 b2 a3"
    else:
        node.say(ack(out["b1"]))  # and a1, which came before
        assert names(node) == "a2 b2"


@BOTH
def test_a_nacked_message_is_first_of_its_key_again(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1")
    out = got(node)
    node.say(nack(out["a1"]))
    again = got(node)
    assert [*again] == ["a1"] and again["a1"].redelivered
    node.say(ack(again["a1"]))
    assert names(node) == "a2"


@BOTH
def test_what_a_lost_consumer_had_goes_to_another_before_the_next_of_its_key(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1 b2 1")
    assert names(node) == "a1 b1 1"
    node.say(consume(2))
    assert names(node, 2) == ""
    node.close(1)
    out = got(node, 2)
    assert [*out] == ["a1", "b1", "1"] and all(one.redelivered for one in out.values())
    node.say(ack(out["a1"]), ack(out["b1"]), ack(out["1"]))
    assert names(node, 2) == "a2 b2"


@BOTH
def test_an_overdue_message_is_first_of_its_key_again(persistent: bool) -> None:
    node = keyed(persistent, ack_timeout_s=5)
    node.say(consume(1))
    say(node, "a1 a2")
    assert names(node) == "a1"
    node.say(consume(2))
    node.wait(4)
    assert names(node, 2) == ""
    node.wait(2)
    node.wait(2)
    assert names(node, 2) == "a1"


@BOTH
def test_who_unsubscribes_keeps_its_keys_until_it_settles_what_it_has(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(unsubscribe(1, "q"), consume(2))
    assert names(node, 2) == ""
    node.say(ack(out["a1"]))
    assert names(node, 2) == "a2" and names(node) == ""


@BOTH
def test_a_rejected_message_frees_its_key(persistent: bool) -> None:
    node = keyed(persistent, dead_letter="dead")
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"], requeue=False))
    assert names(node) == "a2" and node.numbers("q")["dead_lettered"] == 1


@BOTH
def test_a_dead_letter_frees_its_key(persistent: bool) -> None:
    node = keyed(persistent, dead_letter="dead", max_redeliveries=1)
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"]))
    node.say(nack(got(node)["a1"]))
    assert names(node) == "a2" and node.numbers("dead")["ready"] == 1


@BOTH
def test_dead_letters_may_be_partitioned_too(persistent: bool) -> None:
    dead = settings(persistent=persistent)
    node = Node(queues(q=settings(persistent=persistent, dead_letter="dead", max_redeliveries=0), dead=dead))
    node.open(1, 2, 9)
    node.say(consume(1), consume(2, "dead"))
    say(node, "a1 a2 b1")
    for _ in range(2):
        for deliver in node.messages(1):
            node.say(nack(deliver))
    out = got(node, 2)
    assert [*out] == ["a1", "b1"]
    node.say(ack(out["a1"]))
    assert names(node, 2) == "a2"


# ---- expiry ---------------------------------------------------------------------------------------------------------


@BOTH
def test_what_expires_frees_its_key(persistent: bool) -> None:
    node = keyed(persistent)
    say(node, "a1 b1", expiration_ms=1000)
    say(node, "a2 b2")
    node.wait(2)
    node.say(consume(1))
    assert names(node) == "a2 b2" and node.numbers("q")["expired"] == 2


@BOTH
def test_what_expires_while_it_is_out_frees_its_key_when_it_comes_back(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), word("a1", expiration_ms=1000), word("a2"))
    out = got(node)
    node.wait(2)
    assert names(node) == ""
    node.say(nack(out["a1"]))
    assert names(node) == "a2"


# ---- delays ---------------------------------------------------------------------------------------------------------


@BOTH
def test_one_that_came_back_with_a_delay_holds_its_key_until_it_is_settled(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1 b2")
    out = got(node)
    node.say(late(out["a1"], 1000), ack(out["b1"]))
    assert names(node) == "b2" and node.numbers("q")["delayed"] == 1
    say(node, "a3 c1")
    assert names(node) == "c1"
    node.wait(0.999)
    assert names(node) == ""
    node.wait(0.001)
    again = got(node)
    assert [*again] == ["a1"] and again["a1"].redelivered
    node.say(ack(again["a1"]))
    assert names(node) == "a2"


@BOTH
def test_it_may_be_delayed_again_and_again(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2")
    for _ in range(3):
        node.say(late(got(node)["a1"], 500))
        assert names(node) == ""
        node.wait(0.5)
    node.say(ack(got(node)["a1"]))
    node.say(ack(got(node)["a2"]))
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


@BOTH
def test_redelivery_delay_ms_holds_the_key(persistent: bool) -> None:
    node = keyed(persistent, redelivery_delay_ms=1000)
    node.say(consume(1))
    say(node, "a1 a2 b1")
    out = got(node)
    node.say(nack(out["a1"]))
    node.say(ack(out["b1"]))
    assert names(node) == ""
    node.wait(1)
    node.say(ack(got(node)["a1"]))
    assert names(node) == "a2"


@BOTH
def test_one_sent_with_a_delay_holds_nobody_up_and_joins_its_key_when_it_is_due(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), word("a0", delay_ms=1000))
    say(node, "a1 a2 a3")
    out = got(node)
    assert [*out] == ["a1"]
    node.wait(1)
    assert names(node) == "", "one of its key is out"
    node.say(ack(out["a1"]))
    assert [*(out := got(node))] == ["a0"], "it was accepted before the others"
    node.say(ack(out["a0"]))
    assert names(node) == "a2"


@BOTH
def test_a_delayed_message_that_expires_frees_its_key(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), word("a1", expiration_ms=1000), word("a2"))
    node.say(late(got(node)["a1"], 5000))
    node.wait(0.9)
    assert names(node) == ""
    node.wait(0.2)
    assert names(node) == "a2" and node.numbers("q")["expired"] == 1


@BOTH
def test_one_without_a_key_that_is_delayed_holds_nobody(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "1 2")
    out = got(node)
    node.say(late(out["1"], 1000))
    assert len(partitions_of(node).at) == 1, "nothing is remembered of it"
    say(node, "3")
    assert names(node) == "3"
    node.wait(1)
    assert names(node) == "1"


# ---- more than one of a key -----------------------------------------------------------------------------------------


@BOTH
def test_partition_window_gives_one_consumer_so_many_of_a_key_in_order(persistent: bool) -> None:
    node = keyed(persistent, 3)
    node.say(consume(1), consume(2))
    say(node, "a1 a2 a3 a4 a5")
    one, two = got(node), got(node, 2)
    out = one or two
    assert [*out] == ["a1", "a2", "a3"] and not (one and two)
    at = 1 if one else 2
    node.say(ack(out["a2"]))
    assert names(node, at) == "a4" and names(node, 3 - at) == ""
    node.say(ack(out["a1"]), ack(out["a3"]))
    assert names(node, at) == "a5"


@BOTH
def test_what_came_back_is_next_even_if_later_ones_are_out(persistent: bool) -> None:
    node = keyed(persistent, 3)
    node.say(consume(1))
    say(node, "a1 a2 a3 a4")
    out = got(node)
    node.say(nack(out["a1"]))
    assert names(node) == "a1"
    node.say(late(out["a2"], 1000), ack(out["a3"]))
    assert names(node) == ""
    node.wait(1)
    assert names(node) == "a2 a4"


@BOTH
def test_a_key_changes_its_consumer_only_when_nothing_of_it_is_out(persistent: bool) -> None:
    node = keyed(persistent, 3)
    node.say(consume(1))
    say(node, "a1 a2 a3 a4 a5")
    out = got(node)
    node.say(consume(2), unsubscribe(1, "q"))
    node.say(ack(out["a1"]), ack(out["a2"]))
    assert names(node, 2) == ""
    node.say(ack(out["a3"]))
    assert names(node, 2) == "a4 a5"


@BOTH
def test_a_hot_key_leaves_room_for_others_of_its_consumer(persistent: bool) -> None:
    node = keyed(persistent, 3)
    node.say(consume(1, prefetch_count=2))
    say(node, "a1 a2 a3 b1")
    waiting, seen = node.messages(1), []
    for number in range(4, 20):
        say(node, f"a{number}")
        one = waiting.pop(0)
        seen.append(one.message.body)
        node.say(ack(one))
        waiting += node.messages(1)
    assert seen.index(b"b1") == 3


# ---- who gets what --------------------------------------------------------------------------------------------------


@BOTH
def test_nobody_waits_while_there_is_work(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1, prefetch_count=1), consume(2, prefetch_count=1))
    say(node, "a1 b1 c1 d1 e1 f1")
    (kept,) = got(node)
    assert sorted([kept, *drained(node, 2)]) == ["a1", "b1", "c1", "d1", "e1", "f1"]


# ---- bounds ---------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_overflow_takes_the_oldest_that_nobody_has(persistent: bool, overflow: str) -> None:
    dead = {"dead_letter": "dead"} if overflow == "dead-letter" else {}
    node = keyed(persistent, max_messages=3, overflow=overflow, **dead)
    node.say(consume(1, prefetch_count=1))
    say(node, "a1 a2 b1 c1 a3")
    numbers = node.numbers("q")
    assert numbers["dead_lettered" if dead else "dropped"] == 2 and numbers["messages"] == 3
    assert drained(node) == ["a1", "c1", "a3"] and is_clean(node)
    if dead:
        node.say(consume(2, "dead"))
        assert names(node, 2) == "a2 b1"


@BOTH
def test_overflow_spares_what_is_delayed_and_holds_its_key(persistent: bool) -> None:
    node = keyed(persistent, max_messages=2, overflow="drop-oldest")
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(late(got(node)["a1"], 1000))
    say(node, "a3 a4")
    assert names(node) == ""
    node.wait(1)
    assert drained(node) == ["a1", "a4"]


# ---- keys -----------------------------------------------------------------------------------------------------------


@BOTH
def test_two_keys_of_one_hash_do_not_stop_each_other(persistent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "hash_of", lambda key: b"the same")
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 b1 a2 b2 a3")
    out = got(node)
    assert [*out] == ["a1", "b1"]
    node.say(late(out["a1"], 1000), ack(out["b1"]))
    assert names(node) == "b2"
    node.wait(1)
    assert names(node) == "a1"


@BOTH
@pytest.mark.parametrize(
    ("sources", "bodies", "first"),
    [
        (("/id",), [b'{"id":1}', b'{"id":1,"n":2}', b'{"id":2}', b"no JSON", b"no JSON"], [0, 2, 3, 4]),
        (("/id",), [b'{"id":"1"}', b'{"id":1}', b'{"id":null}', b'{"id":[]}', b'{"id":[]}'], [0, 2, 3, 4]),
        (("/a/0/b",), [b'{"a":[{"b":"x"}]}', b'{"a":[{"b":"x"},1]}', b'{"a":[]}'], [0, 2]),
        (("header:key", "/id"), [b'{"id":1}', b'{"id":1}'], [0]),
    ],
)
def test_keys_are_found_in_json(persistent: bool, sources: Any, bodies: list[bytes], first: list[int]) -> None:
    node = Node(queues(q=replace(settings(persistent=persistent), partition_key=sources)))
    node.open(1, 9)
    node.say(consume(1), *(send(9, "q", body) for body in bodies))
    assert node.bodies(1) == [bodies[number] for number in first]


@BOTH
def test_a_header_with_an_empty_value_is_a_key(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), *(send(9, "q", b"%d" % number, headers=b"key:\n") for number in range(3)))
    assert node.bodies(1) == [b"0"]
