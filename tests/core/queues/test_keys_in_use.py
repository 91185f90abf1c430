"""Keys of partitioned queues in transactions, leases and the requests of an operator: who has a key keeps it."""

import json

import pytest

from radiator.model.commands import Nack
from radiator.model.leases import Action
from radiator.model.replies import Deliver
from tests.core import leased
from tests.core.keyed import consume, drained, got, is_clean, keyed, names, say
from tests.core.words import abort, ack, begin, commit, nack, send, unsubscribe

BOTH = pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "memory"])


def late(deliver: Deliver, delay_ms: int) -> Nack:
    return nack(deliver, delay_ms=delay_ms)


# ---- transactions ---------------------------------------------------------------------------------------------------


@BOTH
def test_an_ack_in_an_open_transaction_keeps_the_key_until_its_commit(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(begin(1), ack(out["a1"], transaction=b"t"))
    assert names(node) == ""
    node.say(commit(1))
    assert names(node) == "a2"


@BOTH
def test_an_abort_keeps_the_key_and_the_message(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(begin(1), ack(out["a1"], transaction=b"t"), abort(1))
    assert names(node) == ""
    node.say(ack(out["a1"]))
    assert names(node) == "a2"


@BOTH
def test_what_a_transaction_sends_comes_in_its_order(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1), begin(9))
    say(node, "a1 b1 a2", transaction=b"t")
    assert names(node) == ""
    node.say(commit(9))
    assert drained(node) == ["a1", "b1", "a2"]


# ---- leases ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_lease_has_its_key_and_takes_one_of_each(persistent: bool) -> None:
    node = keyed(persistent)
    leased.join(node, 5, 6)
    say(node, "a1 a2 b1 1")
    first = leased.take(node, 5)
    assert leased.bodies(first) == [b"a1", b"b1", b"1"] and leased.take(node, 6) == []
    assert leased.outcome(node, 5, leased.done(first[0])) == [""]
    assert leased.bodies(leased.take(node, 6)) == [b"a2"]


@BOTH
def test_a_lease_that_is_over_gives_its_key_back_with_the_message_first(persistent: bool) -> None:
    node = keyed(persistent)
    leased.join(node, 5)
    say(node, "a1 a2")
    assert leased.bodies(leased.take(node, 5, lease_ms=1000)) == [b"a1"]
    node.wait(1.5)
    node.wait(1)
    assert leased.bodies(leased.take(node, 5)) == [b"a1"]


@BOTH
def test_a_lease_released_with_a_delay_holds_the_key(persistent: bool) -> None:
    node = keyed(persistent)
    leased.join(node, 5)
    say(node, "a1 a2 b1")
    a1, b1 = leased.take(node, 5)
    assert leased.outcome(node, 5, leased.done(a1, Action.RELEASE, delay_ms=1000), leased.done(b1)) == ["", ""]
    assert leased.take(node, 5) == []
    node.wait(1)
    assert leased.bodies(leased.take(node, 5)) == [b"a1"]


@BOTH
def test_a_receive_that_waits_gets_the_key_when_it_is_free(persistent: bool) -> None:
    node = keyed(persistent)
    leased.join(node, 5)
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(unsubscribe(1, "q"), leased.receive(5, wait_ms=10_000))
    assert leased.answers(node, 5) == []
    node.say(ack(out["a1"]))
    assert [leased.bodies(one.messages) for one in leased.answers(node, 5)] == [[b"a2"]]


# ---- the operator ---------------------------------------------------------------------------------------------------


@BOTH
def test_a_purge_spares_what_is_out_and_the_key_goes_on(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1 b2 1")
    out = got(node)
    node.say(late(out["1"], 1000))
    assert node.admin(9, do="purge", queue="q")["purged"] == 3
    say(node, "a4")
    assert names(node) == ""
    node.say(ack(out["a1"]), ack(out["b1"]))
    assert drained(node) == ["a4"] and node.numbers("q")["messages"] == 0 and is_clean(node)


@BOTH
def test_a_purge_frees_keys_that_are_held(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(late(got(node)["a1"], 10_000))
    assert node.admin(9, do="purge", queue="q")["purged"] == 2
    say(node, "a3")
    assert drained(node) == ["a3"] and is_clean(node)


@BOTH
def test_of_a_deleted_queue_nothing_holds_a_key(persistent: bool) -> None:
    node = keyed()
    bounds = {} if persistent else {"max_messages": 10, "max_bytes": 1000}
    made = {"queue": "n", "persistent": persistent, "partition_key": "header:key", **bounds}
    assert node.admin(9, do="declare", **made)["created"]
    node.say(consume(1, "n"))
    say(node, "a1 a2 b1", to="n")
    out = got(node)
    node.say(late(out["b1"], 1000))
    node.close(1)
    assert node.admin(9, do="delete", queue="n")["deleted"]
    assert node.admin(9, do="declare", **made)["created"]
    node.say(consume(2, "n"))
    node.wait(2)
    say(node, "a1 a2", to="n")
    assert names(node, 2) == "a1"


@BOTH
def test_peek_shows_all_in_their_order(persistent: bool) -> None:
    node = keyed(persistent)
    node.say(consume(1))
    say(node, "a1 a2 b1 b2 1")
    assert names(node) == "a1 b1 1"
    answer = node.admin(9, do="peek", queue="q", count=10)
    assert [one["body"] for one in answer["messages"]] == ["a1", "a2", "b1", "b2", "1"]


@BOTH
def test_move_takes_only_what_is_free_and_says_how_many(persistent: bool) -> None:
    node = keyed(persistent, max_messages=10, max_bytes=1000)
    node.say(consume(1))
    say(node, "a1 a2 b1 b2")
    out = got(node)
    node.say(unsubscribe(1, "q"), late(out["b1"], 1000))
    say(node, "c1 c2 1")
    assert node.admin(9, do="move", to="t", **{"from": "q"})["moved"] == 3
    assert node.admin(9, do="move", to="t", count=5, **{"from": "q"})["moved"] == 0
    node.say(ack(out["a1"]))
    assert node.admin(9, do="move", to="t", **{"from": "q"})["moved"] == 1
    node.say(consume(2, "t"))
    assert names(node, 2) == "c1 c2 1 a2"


def test_a_checkout_takes_only_what_is_free() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(unsubscribe(1, "q"))
    say(node, "b1 b2 1 2")
    asked = {"do": "checkout", "queue": "q", "group": "g"}
    assert node.admin(9, max_messages=3, **asked)["next"] == 3
    assert node.admin(9, max_messages=3, **asked)["next"] == 4
    node.say(ack(out["a1"]))
    assert node.admin(9, max_messages=3, **asked)["next"] == 5
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


def test_who_waits_for_something_to_check_out_waits_for_what_is_free() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    out = got(node)
    node.say(unsubscribe(1, "q"))
    body = b'{"do":"await","queue":"q","timeout_ms":60000}'
    node.say(send(2, "/admin", body, reply_to="admin", correlation_id=b"1"))
    assert node.messages(2) == []
    node.say(ack(out["a1"]))
    assert json.loads(node.message(2).message.body)["ok"]
