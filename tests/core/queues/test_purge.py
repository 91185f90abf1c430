"""A purge takes all that is there when it begins, but for what is in flight."""

import pytest

from tests.core.backlogs import drained, fill, numbered
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import nack, send, subscribe


@pytest.mark.parametrize("count", [0, 1, 6, 7, 10, 11, 50])
def test_purge_lets_go_of_all_but_what_is_in_flight(small: None, count: int) -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=2))
    fill(node, 2)
    out = node.messages(1)
    fill(node, 2 + count, 2)
    assert node.admin(9, do="purge", queue="q") == {"ok": True, "purged": count}
    assert node.stored("q") == [b"0", b"1"] and node.numbers("q")["purged"] == count
    node.say(nack(out[0]))
    assert node.bodies(1) == [b"0"]


def test_purge_spares_what_is_accepted_after_it(small: None) -> None:
    node = Node()
    node.open(1, 9)
    fill(node, 20)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    fill(node, 25, 20)
    node.auto = True
    node.turn([])
    assert node.stored("q") == numbered(20, 25)
    node.say(subscribe(1, "q"))
    assert drained(node) == numbered(20, 25)


def test_purge_reaches_messages_that_are_still_storing(small: None) -> None:
    node = Node(auto=False)
    node.open(1, 9)
    fill(node, 3)
    node.seal()
    fill(node, 5, 3)
    node.say(send(9, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    node.auto = True
    node.turn([])
    assert node.stored("q") == [] and node.numbers("q")["purged"] == 5


def test_two_purges_at_once_are_both_answered(small: None) -> None:
    node = Node()
    node.open(8, 9)
    fill(node, 30)
    node.auto = False
    for connection in (8, 9):
        node.say(send(connection, "/admin", b'{"do":"purge","queue":"q"}', reply_to="admin"))
    node.auto = True
    node.turn([])
    assert len(node.messages(8)) == len(node.messages(9)) == 1 and node.stored("q") == []


def test_long_purge_goes_in_batches(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.open(9)
    fill(node, 100)
    shrink(monkeypatch, {"BATCH_BYTES": 640})
    node.disk.commits = 0
    assert node.admin(9, do="purge", queue="q")["purged"] == 100
    assert node.disk.commits >= 5
