"""Queues with priorities, in memory and on the disk, against a model that sorts what is ready."""

import random
from dataclasses import dataclass, field

import pytest

from radiator.core.queues import priority_due
from radiator.model.commands import Read
from radiator.model.replies import Deliver
from tests.core.backlogs import durable
from tests.core.node import Node
from tests.core.prior import back, consume, drained, got, is_clean, names, priorities, say, urgent, word
from tests.core.words import ack, begin, commit, nack

BOTH = pytest.mark.parametrize("persistent", [True, False])


# ---- order ----------------------------------------------------------------------------------------------------------


@BOTH
def test_the_highest_priority_is_first_and_each_in_order(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "0a 3a 5a 0b 3b x 9a 5b")
    node.say(consume(1, prefetch_count=1))
    assert drained(node) == "5a 9a 5b 3a 3b 0a 0b x"  # 9 counts as 5
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


@BOTH
def test_what_comes_back_goes_to_its_own_place_within_its_priority(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "3a 3b 1a")
    node.say(consume(1, prefetch_count=2))
    out = got(node)
    say(node, "3c 5a")
    node.say(nack(out["3b"]))
    assert names(node) == "5a"
    node.close(1)
    node.say(consume(2, prefetch_count=1))
    assert drained(node, 2) == "5a 3a 3b 3c 1a" and is_clean(node)


@BOTH
def test_what_a_consumer_has_stays_there_though_something_urgent_comes(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "0a 0b 0c")
    node.say(consume(1, prefetch_count=2))
    say(node, "5a")
    assert drained(node) == "0a 0b 5a 0c"


@BOTH
def test_low_priorities_wait_while_there_are_higher_ones(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "0a")
    say(node, "1a")
    node.say(consume(1, prefetch_count=1))
    for round_ in range(20):
        ((body, deliver),) = got(node).items()
        assert body.startswith("1"), round_
        say(node, f"1{round_}")
        node.say(ack(deliver))
    assert drained(node).endswith(" 0a")


@BOTH
def test_a_delayed_message_joins_its_priority_when_it_is_due(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "5late", delay_ms=1000)
    say(node, "3a 3b")
    node.say(consume(1, prefetch_count=1))
    (first,) = got(node).values()
    node.say(nack(first, delay_ms=500))
    second = got(node)
    assert [*second] == ["3b"]
    node.wait(1.1)
    say(node, "3c")
    node.say(*map(ack, second.values()))
    assert drained(node) == "5late 3a 3c" and is_clean(node)


# ---- a backlog on the disk alone ------------------------------------------------------------------------------------


def test_however_long_the_backlog_is_the_urgent_one_is_next(small: None) -> None:
    node = urgent()
    say(node, " ".join(f"0{n}" for n in range(40)) + " 5a 0z 3a 5b")
    assert durable(node).window.beyond > 30
    again = back(node)
    again.say(consume(1, prefetch_count=1))
    assert drained(again) == "5a 5b 3a " + " ".join(f"0{n}" for n in range(40)) + " 0z"
    assert is_clean(again) and not again.disk.platter.keys


def test_an_urgent_one_has_room_in_memory_beside_a_backlog(small: None) -> None:
    node = urgent(highest=2)
    say(node, " ".join(f"0{n}" for n in range(20)))
    say(node, "2a")
    assert [entry.message.body for entry in priorities(node).entries.values()][-1] == b"2a"
    say(node, "2b")
    assert priorities(node).lanes[2].is_open  # its share is one of six
    node.say(consume(1, prefetch_count=1))
    assert drained(node).startswith("2a 2b 00 01")


def test_no_lower_one_is_delivered_while_a_higher_one_is_on_the_disk_alone(small: None) -> None:
    node = urgent(highest=1)
    say(node, " ".join(f"0{n}" for n in range(6)))
    say(node, " ".join(f"1{n}" for n in range(10)))
    node.say(consume(1, prefetch_count=3))
    seen = drained(node).split()
    assert seen == [f"1{n}" for n in range(10)] + [f"0{n}" for n in range(6)]


# ---- bounds ---------------------------------------------------------------------------------------------------------


@BOTH
def test_a_full_queue_drops_what_is_least_urgent_and_of_that_the_oldest(persistent: bool, small: None) -> None:
    node = urgent(persistent, max_messages=12, overflow="drop-oldest")
    say(node, "0a 3a " + " ".join(f"1{n}" for n in range(10)))
    say(node, "5a")  # for 0a
    say(node, "0b")  # for 10
    say(node, "5b")  # for 0b
    node.say(consume(1, prefetch_count=1))
    assert drained(node) == "5a 5b 3a " + " ".join(f"1{n}" for n in range(1, 10))
    assert node.numbers("q")["dropped"] == 3 and is_clean(node)


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_of_more_at_once_than_there_is_room_for_the_least_urgent_go(
    overflow: str, persistent: bool, small: None
) -> None:
    """Though only urgent ones are in memory, and the others must be read back first."""
    node = urgent(persistent, max_messages=3, overflow=overflow, bounds_count="ready", dead_letter="dead")
    low = [f"0{n}" for n in range(12)]
    sends = [word(body, transaction=b"t") for body in ("3a", "3b", *low)]
    node.turn([Read(9, [begin(9), *sends, commit(9, receipt=b"r")])])
    assert node.receipts(9) == [b"r"] and node.numbers("q")["messages"] == 3
    node.say(consume(1, prefetch_count=1), consume(2, "dead"))
    assert drained(node) == f"3a 3b {low[-1]}" and is_clean(node)
    assert names(node, 2) == ("" if overflow == "drop-oldest" else " ".join(low[:-1]))


def test_what_is_dropped_is_found_on_the_disk_after_a_restart(small: None) -> None:
    node = urgent(max_messages=12, overflow="dead-letter", dead_letter="dead")
    say(node, "3a 3b 3c 3d 3e 3f 3g 3h 0a 3i 0b 3j")
    again = back(node)
    again.say(consume(1, prefetch_count=1))
    (held,) = again.messages(1)
    say(again, "3k 3l 3m")
    again.say(ack(held))
    assert drained(again) == " ".join(f"3{c}" for c in "cdefghijklm")
    assert again.stored("dead") == [b"0a", b"0b", b"3b"] and is_clean(again)


@BOTH
def test_what_has_expired_goes_when_it_is_next(persistent: bool) -> None:
    node = urgent(persistent)
    say(node, "0a", expiration_ms=100)
    say(node, "5a 5b")
    node.wait(1)
    node.say(consume(1, prefetch_count=1))
    assert drained(node) == "5a 5b"
    numbers = node.numbers("q")
    assert (numbers["messages"], numbers["expired"]) == (0, 1) and is_clean(node)


@BOTH
def test_a_purge_takes_all_priorities(persistent: bool, small: None) -> None:
    node = urgent(persistent)
    say(node, " ".join(f"{n % 6}{n}" for n in range(40)))
    say(node, "3late", delay_ms=60_000)
    if persistent:
        node = back(node)
    assert node.admin(9, do="purge", queue="q")["purged"] == 41
    say(node, "0a 1a")
    node.say(consume(1))
    assert drained(node) == "1a 0a" and is_clean(node)


# ---- what is asked of it --------------------------------------------------------------------------------------------


@BOTH
def test_peek_shows_them_in_the_order_of_their_acceptance(persistent: bool, small: None) -> None:
    node = urgent(persistent, highest=2)
    sent = [f"{n % 3}{n}" for n in range(20)]
    say(node, " ".join(sent))
    for count in (3, 20):
        shown = node.admin(9, do="peek", queue="q", count=count)["messages"]
        assert [one["body"] for one in shown] == sent[:count]


@BOTH
def test_a_move_takes_the_most_urgent_first(persistent: bool, small: None) -> None:
    node = urgent(persistent, highest=2)
    say(node, " ".join(f"{n % 3}{n}" for n in range(20)))
    assert node.admin(9, do="move", **{"from": "q", "to": "other"}, count=3)["moved"] == 3
    node.say(consume(2, to="other"))
    assert names(node, 2) == "22 25 28"


def test_the_age_of_the_oldest_counts_what_is_on_the_disk_alone(small: None) -> None:
    node = urgent(highest=1)
    say(node, " ".join(f"0{n}" for n in range(20)))
    node.wait(5)
    again = back(node)
    say(again, "1a")
    assert again.admin(9, do="scale", queue="q")["oldest_ms"] >= 5000
    assert (durable(again).oldest_ms or 0) >= 5000  # known from now on


def test_a_checkout_is_refused() -> None:
    node = urgent()
    answer = node.admin(9, do="checkout", queue="q", group="g", max_messages=1)
    assert answer["error"] == "/queue/q has max_priority, and a checkout takes what is oldest."


# ---- against a model ------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """What is ready, by priority and order; what is out, by body; what is delayed, by body: when it is due."""

    ready: dict[str, tuple[int, int]] = field(default_factory=dict)
    out: dict[str, tuple[int, int]] = field(default_factory=dict)
    delayed: dict[str, tuple[float, tuple[int, int]]] = field(default_factory=dict)
    room: int = 0

    def expected(self) -> list[str]:
        """Hands out what there is room for."""
        bodies = sorted(self.ready, key=self.ready.__getitem__)[: max(0, self.room - len(self.out))]
        self.out |= {body: self.ready.pop(body) for body in bodies}
        return bodies


def lived(chance: random.Random, persistent: bool, steps: int) -> None:
    """One history, in which each MESSAGE is what the model says."""
    highest = chance.choice([1, 2, 5, 10])
    node, model = urgent(persistent, highest), Model()
    delivers: dict[str, Deliver] = {}
    now_s, is_there = 0.0, False
    for number in range(steps):
        action = chance.choices(
            ["send", "burst", "ack", "nack", "delay", "wait", "subscribe", "leave", "cut"],
            [30, 4, 30, 10, 3, 3, 6, 2, 2 if persistent else 0],
        )[0]
        bodies: list[str] = []
        if action in ("send", "burst"):
            bodies = [f"{chance.choice('000123579')}-{number}-{one}" for one in range(1 if action == "send" else 15)]
            if action == "burst":  # all at once: no MESSAGE in between
                bodies.sort(key=lambda body: -min(highest, int(body[0])))
            for place, body in enumerate(bodies):
                priority = min(highest, int(body[0]))
                node.say(word(body))
                model.ready[body] = (-priority, number * 100 + place)
                check(node, model, delivers)
        elif action in ("ack", "nack", "delay") and model.out:
            body = chance.choice([*model.out])
            place = model.out.pop(body)
            if action == "ack":
                node.say(ack(delivers[body]))
            elif action == "nack":
                node.say(nack(delivers[body]))
                model.ready[body] = place
            else:
                node.say(nack(delivers[body], delay_ms=1000 + 10 * number))
                model.delayed[body] = (now_s + 1 + number / 100, place)
        elif action == "wait":
            for _ in range(chance.randrange(100, 300)):
                node.wait(0.01)
                now_s += 0.01
                for body, (due_s, place) in [*model.delayed.items()]:
                    if due_s <= now_s + 0.0001:
                        model.ready[body] = place
                        del model.delayed[body]
                if model.delayed or model.ready:
                    check(node, model, delivers)
        elif action == "subscribe" and not is_there:
            is_there, model.room = True, chance.choice([1, 1, 2, 5, 40])
            node.say(consume(1, prefetch_count=model.room))
        elif action in ("leave", "cut") and is_there:
            is_there, model.room = False, 0
            model.ready |= model.out
            model.out = {}
            if action == "leave":
                node.close(1)
                node.open(1)
        if action == "cut":
            node = back(node)
            is_there, model.room = False, 0
        check(node, model, delivers)
    finish(node, model, delivers, is_there)


def check(node: Node, model: Model, delivers: dict[str, Deliver]) -> None:
    new = got(node)
    assert [*new] == model.expected()
    delivers |= new


def finish(node: Node, model: Model, delivers: dict[str, Deliver], is_there: bool) -> None:
    """All that is left comes, in order, and nothing is remembered of it."""
    if is_there:
        node.close(1)
        model.ready |= model.out
    node.wait(30)
    model.ready |= {body: place for body, (_, place) in model.delayed.items()}
    node.say(consume(2, prefetch_count=1))
    assert drained(node, 2).split() == sorted(model.ready, key=model.ready.__getitem__)
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


@BOTH
@pytest.mark.parametrize("number", range(30))
def test_any_history_goes_as_the_model_says(
    number: int, persistent: bool, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priority_due, "WINDOW_MESSAGES", 1000)  # what is due waits for no room
    lived(random.Random(number), persistent, 150)
