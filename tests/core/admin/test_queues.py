"""Requests about queues: declare, describe, move, delete."""

import json

import pytest

from radiator.model.commands import AUTO, CLIENT
from radiator.model.settings import Declarations, QueueSettings
from tests.core.admin.asking import node_with
from tests.core.node import Node
from tests.core.words import ack, begin, commit, header, nack, queue, queues, send, subscribe, unsubscribe


def test_delete_frees_the_name_at_once_and_sweeps_later(small: None) -> None:
    node = node_with(20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    assert not node.has("q") and node.messages(9) == []
    node.say(send(1, "q", b"new"))
    node.auto = True
    node.turn([])
    assert json.loads(node.message(9).message.body) == {"ok": True, "deleted": 20}
    assert node.stored("q") == [b"new"] and len(node.disk.platter.messages) == 1 and not node.disk.platter.retired


def test_sweep_goes_on_after_a_crash(small: None) -> None:
    node = node_with(20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    node.seal()
    node.commit()
    node.messages(9)
    assert len(node.disk.platter.messages) == 17 and len(node.disk.platter.retired) == 1
    again = node.crashed()
    again.turn([])
    assert not again.disk.platter.messages and not again.disk.platter.retired and not again.has("q")


def test_delete_of_a_queue_in_use_is_refused() -> None:
    node = node_with(1)
    node.say(subscribe(1, "q", CLIENT))
    assert node.admin(9, do="delete", queue="q")["code"] == "in-use"
    assert node.stored("q") == [b"0"]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("is_subscribed", [True, False])
@pytest.mark.parametrize("how", ["ack", "nack", "transaction", "lost", "timeout"])
def test_delete_takes_what_is_unacked_along(persistent: bool, is_subscribed: bool, how: str) -> None:
    """As AMQP has it: what becomes of such a message later is receipted, and has no effect."""
    dead = queues(q=QueueSettings(persistent=persistent, dead_letter="dead", ack_timeout_s=5), dead=QueueSettings())
    node = Node(
        Declarations(queue_patterns=[("q", dead.queues["q"])], queues={"dead": dead.queues["dead"]}, create_queues=True)
    )
    node.open(1, 2, 9)
    for number in range(3):
        node.say(send(1, "q", b"%d" % number))
    node.say(subscribe(2, "q", CLIENT, prefetch_count=2))
    first, second = node.messages(2)
    if how == "transaction":
        node.say(begin(2), ack(second, transaction=b"t"))
    if not is_subscribed:
        node.say(unsubscribe(2, "q"))
    assert node.admin(9, do="delete", queue="q", if_unused=not is_subscribed) == {"ok": True, "deleted": 3}
    node.say(send(1, "q", b"new", b"r"))
    assert node.receipts(1)[-1:] == [b"r"] and node.bodies(2) == []
    found = {
        "ack": [ack(second, b"r")],
        "nack": [nack(first, b"r", requeue=False), nack(second, b"s")],
        "transaction": [commit(2, receipt=b"r")],
    }
    if how == "lost":
        node.close(2)
    elif how == "timeout":
        node.wait(6)
    else:
        node.say(*found[how])
        assert node.receipts(2)[:1] == [b"r"]
    assert node.stored("q") == [b"new"] if persistent else node.numbers("q")["ready"] == 1
    assert node.stored("dead") == [] and node.broker.connections.keys() == ({1, 9} if how == "lost" else {1, 2, 9})
    assert node.crashed().stored("q") == ([b"new"] if persistent else [])


def test_delete_of_a_declared_queue_is_refused() -> None:
    node = Node(queue())
    node.open(9)
    assert node.admin(9, do="delete", queue="q")["code"] == "declared"


def test_delete_right_after_a_send_leaves_nothing() -> None:
    node = Node(auto=False)
    node.open(1, 9)
    node.say(send(1, "q", b"1", b"1"))
    node.seal()
    node.say(send(1, "q", b"2", b"2"), send(9, "/admin", b'{"do":"delete","queue":"q"}', reply_to="t"))
    node.auto = True
    node.turn([])
    assert not node.disk.platter.messages and not node.disk.platter.queues and node.receipts(1) == [b"1", b"2"]


@pytest.mark.parametrize("count, moved", [(None, 20), (7, 7), (100, 20)])
def test_move_takes_the_oldest_in_order(small: None, count: int | None, moved: int) -> None:
    node = node_with(20)
    request = {"do": "move", "from": "q", "to": "r"} | ({} if count is None else {"count": count})
    assert node.admin(9, **request) == {"ok": True, "moved": moved}
    assert node.stored("r") == [b"%d" % n for n in range(moved)]
    assert node.stored("q") == [b"%d" % n for n in range(moved, 20)]
    assert node.numbers("q")["purged"] == moved and node.numbers("r")["accepted"] == moved
    node.say(subscribe(1, "r", AUTO))
    out = node.messages(1)
    assert [d.message.body for d in out] == [b"%d" % n for n in range(moved)]
    assert {d.message.destination for d in out} == {"/queue/r"}


def test_move_makes_its_target_unless_it_is_told_not_to(small: None) -> None:
    node = node_with(3)
    refused = node.admin(9, **{"do": "move", "from": "q", "to": "new", "create": False})
    assert refused == {"ok": False, "code": "no-such-destination", "error": "There is no /queue/new."}
    assert node.numbers("q")["stored"] == 3 and "new" not in node.broker.destinations.queues.all
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new"})["moved"] == 3
    assert node.admin(9, **{"do": "move", "from": "new", "to": "/queue/q", "create": False})["moved"] == 3
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new", "create": 1})["code"] == "bad-request"
    assert node.admin(9, **{"do": "move", "from": "q", "to": "new", "creat": False})["code"] == "bad-request"


def test_move_is_answered_when_it_is_on_the_disk(small: None) -> None:
    node = node_with(2)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"move","from":"q","to":"r"}', reply_to="t"))
    node.seal()
    assert node.messages(9) == []
    node.commit()
    assert len(node.messages(9)) == 1


def test_move_stops_where_the_target_is_full() -> None:
    node = Node(queues(r=QueueSettings(max_messages=3)))
    node.open(1, 9)
    for number in range(5):
        node.say(send(1, "q", b"%d" % number))
    assert node.admin(9, **{"do": "move", "from": "q", "to": "r"})["moved"] == 3
    assert node.stored("q") == [b"3", b"4"] and node.stored("r") == [b"0", b"1", b"2"]


def test_move_leaves_what_is_in_flight() -> None:
    node = node_with(3)
    node.say(subscribe(1, "q", CLIENT))
    held = node.message(1)
    assert node.admin(9, **{"do": "move", "from": "q", "to": "r"})["moved"] == 2
    node.say(nack(held))
    assert node.bodies(1) == [b"0"]


def test_dead_letters_can_be_moved_back_and_consumed() -> None:
    node = Node(queue(dead_letter="dead", max_redeliveries=0))
    node.open(1, 9)
    node.say(send(1, "q", b"1", headers=b"a:b\n"), subscribe(1, "q"))
    node.say(nack(node.message(1)))
    assert node.admin(9, **{"do": "move", "from": "dead", "to": "q"})["moved"] == 1
    deliver = node.message(1)
    assert deliver.message.body == b"1" and deliver.message.destination == "/queue/q"
    node.say(nack(deliver))
    assert node.stored("dead") == [b"1"]


def test_move_of_a_dead_letter_drops_the_count_that_it_died_with() -> None:
    node = Node(queues(q=QueueSettings(dead_letter="dead", max_redeliveries=0), dead=QueueSettings()))
    node.open(1, 2)
    node.say(send(1, "q"), subscribe(2, "q"))
    node.say(nack(node.message(2)))
    node.say(send(1, "/admin", b'{"do":"move","from":"dead","to":"q"}', reply_to="t"))
    again = node.message(2)
    assert header(again.message, b"redelivery-count") is None
    assert header(again.message, b"dead-letter-reason") == b"redeliveries"
    assert (again.redelivered, again.redeliveries) == (False, 0)


def test_move_that_is_refused_makes_no_queue() -> None:
    node = node_with(1)
    node.say(send(1, "/admin", b'{"do":"move","from":"q","to":"new","count":0}', reply_to="t"))
    assert json.loads(node.bodies(1)[-1])["code"] == "bad-request" and not node.has("new")


def test_move_to_an_address_of_another_kind_is_refused() -> None:
    node = node_with(1)
    node.say(send(1, "/admin", b'{"do":"move","from":"q","to":"/topic/x"}', reply_to="t"))
    answer = json.loads(node.bodies(1)[-1])
    assert not answer["ok"] and "address of something else" in answer["error"]
