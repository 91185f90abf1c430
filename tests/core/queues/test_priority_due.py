"""Delayed messages of a queue with priorities, when their time has come."""

from tests.core.backlogs import durable
from tests.core.prior import back, consume, drained, got, is_clean, priorities, say, urgent
from tests.core.words import ack, nack


def test_one_among_those_on_the_disk_alone_is_read_back_with_them(small: None) -> None:
    node = urgent(highest=1)
    say(node, " ".join(f"1{n:02}" for n in range(5)))
    say(node, "1late", delay_ms=1000)
    say(node, " ".join(f"1{n:02}" for n in range(5, 20)))
    again = back(node)
    again.wait(1.1)
    assert durable(again).window.beyond == 21
    again.say(consume(1, prefetch_count=1))
    seen = drained(again).split()
    assert seen == sorted(f"1{n:02}" for n in range(5)) + ["1late"] + [f"1{n:02}" for n in range(5, 20)]
    assert is_clean(again) and not again.disk.platter.keys


def test_an_urgent_one_needs_no_room(small: None) -> None:
    node = urgent(highest=2)
    node.say(consume(1, prefetch_count=1))
    say(node, "2a " + " ".join(f"0{n}" for n in range(20)))
    node.say(nack(got(node)["2a"], delay_ms=1000))
    (first,) = got(node).values()
    assert durable(node).window.beyond > 0
    node.wait(1.1)
    assert priorities(node).lanes[2].count == 1
    node.say(ack(first))
    assert [*got(node)] == ["2a"]


def test_those_that_find_no_room_wait_for_it(small: None) -> None:
    """As many as the window may have are there at once, more only when these have gone."""
    node = urgent(highest=1)
    say(node, " ".join(f"1d{n:02}" for n in range(20)), delay_ms=1000)
    say(node, " ".join(f"1{n:02}" for n in range(6)))
    node.wait(1.1)
    assert durable(node).window.count < 20
    node.say(consume(1, prefetch_count=1))
    seen = drained(node).split()
    assert len(seen) == len({*seen}) == 26 and is_clean(node)
    assert [one for one in seen if "d" in one] == [f"1d{n:02}" for n in range(20)]


def test_it_has_no_hash_while_it_is_delayed(small: None) -> None:
    node = urgent()
    node.say(consume(1))
    say(node, "5a")
    node.say(nack(got(node)["5a"], delay_ms=1000))
    assert not node.disk.platter.held and not node.disk.platter.keys
    node = back(node)
    node.wait(1.1)
    assert len(node.disk.platter.keys) == 1
    node.say(consume(1))
    assert drained(node) == "5a" and is_clean(node)
