"""Checkout: each message is in the queue or the group's, never in both; a number always means the same message."""

import json

import pytest

from radiator.core.logs import checkouts
from radiator.model.commands import CLIENT_INDIVIDUAL, EARLIEST, END, OFFSET, Read, Send, Subscribe
from radiator.model.limits import AWAIT_MAX_MS, AWAITS_MAX, CHECKOUT_MESSAGES_MAX, LOAD_MESSAGES, WINDOW_MESSAGES
from radiator.model.settings import Declarations, LogSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe

LOG = "$checkout/q/g"


def node(*, auto: bool = True, has_journal: bool = False, **queues: QueueSettings) -> Node:
    logs = {"journal": LogSettings()} if has_journal else {}
    broker = Node(
        Declarations(queues=queues, create_queues=True, has_journal=has_journal, logs=logs),
        auto=auto,
    )
    broker.open(1, 2, 9)
    return broker


def bodies(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def fill(broker: Node, count: int, queue: str = "q", first: int = 0, **more: object) -> None:
    broker.say(*(send(1, queue, body, **more) for body in bodies(first, first + count)))


def take(broker: Node, count: int, **more: object) -> tuple[int, int]:
    """First and next."""
    answer = broker.admin(9, **{"do": "checkout", "queue": "q", "group": "g", "max_messages": count, **more})
    assert answer["ok"], answer
    return answer["first"], answer["next"]


def code(broker: Node, **request: object) -> str:
    answer = broker.admin(9, **request)
    assert not answer["ok"] and answer["error"].endswith("."), answer
    assert not broker.is_refused(9)
    return str(answer["code"])


def read(broker: Node, first: int = 0, end: int | None = None, log: str = LOG) -> list[bytes]:
    """What a subscriber gets from there on, as often as it asks."""
    until = (END, 0) if end is None else (OFFSET, end)
    start = (OFFSET, first) if first else (EARLIEST, 0)
    broker.open(8)
    name = f"/log/{log}"
    broker.say(Subscribe(8, b"r", name, CLIENT_INDIVIDUAL, 60_000, start=start, until=until))
    found = [deliver.message.body for deliver in broker.messages(8)]
    assert not broker.is_refused(8), broker.inbox[8]
    broker.close(8)
    assert found.pop() == b"", "the end"
    return found


# ---- taking ---------------------------------------------------------------------------------------------------------


def test_what_is_taken_leaves_the_queue_and_has_consecutive_numbers() -> None:
    broker = node()
    fill(broker, 5)
    answer = broker.admin(9, do="checkout", queue="q", group="g", max_messages=3)
    log = broker.broker.destinations.logs.all[LOG]
    assert answer == {"ok": True, "log": LOG, "incarnation": log.incarnation, "first": 0, "next": 3}
    assert broker.stored("q") == bodies(3, 5) and read(broker) == bodies(0, 3)
    numbers = broker.numbers("q")
    assert (numbers["messages"], numbers["acked"], numbers["accepted"]) == (2, 3, 5)
    assert take(broker, 10) == (0, 5)
    assert read(broker) == bodies(0, 5) and broker.stored("q") == []


@pytest.mark.durability("D29")
def test_the_same_numbers_are_the_same_messages_also_after_a_crash() -> None:
    broker = node()
    fill(broker, 5)
    take(broker, 4)
    for _ in range(3):
        assert read(broker, 1, 3) == bodies(1, 3)
        broker = broker.crashed()
        broker.open(9)
    assert take(broker, 0) == (0, 4)


@pytest.mark.durability("D29")
def test_it_is_taken_wherever_the_power_fails_whole_or_not_at_all() -> None:
    broker = node()
    fill(broker, 5)
    broker.auto = False
    body = b'{"do": "checkout", "queue": "q", "group": "g", "max_messages": 3}'
    broker.say(send(9, "/admin", body, reply_to="admin"))
    seen = set()
    while True:
        again = broker.crashed()
        taken = read(again) if LOG in again.broker.destinations.logs.all else []
        assert taken + again.stored("q") == bodies(0, 5)
        seen.add(len(taken))
        if broker.messages(9):
            assert len(taken) == 3
        if not broker.step():
            break
    assert seen == {0, 3}


def test_more_than_a_window_is_taken() -> None:
    count = 2 * WINDOW_MESSAGES + 5
    broker = node()
    fill(broker, count)
    assert take(broker, count - 1) == (0, count - 1)
    assert read(broker) == bodies(0, count - 1) and broker.stored("q") == bodies(count - 1, count)
    assert broker.broker.destinations.windows.out == 0


def test_messages_keep_all_they_had() -> None:
    broker = node()
    broker.say(send(1, "q", b"body", headers=b"k:v\ncontent-type:text/plain\n", expiration_ms=60_000))
    (kept,) = broker.disk.platter.messages.values()
    take(broker, 1)
    (record,) = broker.disk.platter.records.values()
    assert record[0] == kept


def test_what_is_in_flight_or_delayed_is_not_taken() -> None:
    broker = node()
    broker.say(subscribe(2, "q"))
    fill(broker, 3)
    broker.say(send(1, "q", b"late", delay_ms=1000))
    out = broker.message(2)
    assert take(broker, 10) == (0, 2) and read(broker) == bodies(1, 3)
    broker.say(nack(out))
    assert broker.message(2).message.body == b"0"


def test_what_had_expired_is_not_taken() -> None:
    broker = node()
    fill(broker, 2, expiration_ms=1000)
    fill(broker, 2, first=2)
    broker.now_s, broker.now_ms = broker.now_s + 2, broker.now_ms + 2000
    assert take(broker, 3) == (0, 2) and read(broker) == bodies(2, 4)
    assert broker.numbers("q")["expired"] == 2


def test_no_more_bytes_than_asked_for_but_at_least_one_message() -> None:
    broker = node()
    broker.say(*(send(1, "q", b"%d" % number * 10) for number in range(9)))
    assert take(broker, 100, max_bytes=29) == (0, 2)
    assert take(broker, 100, max_bytes=30) == (0, 5)
    assert take(broker, 100, max_bytes=0) == (0, 6)


def test_nothing_ready_is_an_answer_and_a_group() -> None:
    broker = node(q=QueueSettings())
    assert take(broker, 100) == (0, 0) and take(broker, 0) == (0, 0)
    fill(broker, 1)
    assert take(broker, 0) == (0, 0) and take(broker, 1) == (0, 1)


def test_groups_share_the_messages() -> None:
    broker = node()
    fill(broker, 4)
    take(broker, 2)
    assert take(broker, 2, group="other") == (0, 2)
    assert read(broker) == bodies(0, 2) and read(broker, log="$checkout/q/other") == bodies(2, 4)


def test_a_producer_that_waits_goes_on() -> None:
    broker = node(q=QueueSettings(max_messages=2))
    fill(broker, 3)
    assert 1 in broker.paused
    take(broker, 1)
    assert 1 not in broker.paused and broker.stored("q") == bodies(1, 3)


@pytest.mark.parametrize("count", [CHECKOUT_MESSAGES_MAX + 1, -1, True, 1.5, None, "1"])
def test_a_wrong_count_is_refused(count: object) -> None:
    broker = node(q=QueueSettings())
    assert code(broker, do="checkout", queue="q", group="g", max_messages=count) == "bad-request"


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"queue": "none", "group": "g"}, "no-such-destination"),
        ({"queue": "m", "group": "g"}, "bad-request"),
        ({"queue": "q", "group": ""}, "bad-request"),
        ({"queue": "q"}, "bad-request"),
        ({"queue": "q", "group": "a/b"}, "bad-request"),
        ({"queue": "q", "group": "a\nb"}, "bad-request"),
        ({"queue": "q", "group": "g" * (255 - len("$checkout/q/") + 1)}, "bad-request"),
        ({"queue": "q", "group": "g", "max_bytes": -1}, "bad-request"),
        ({"queue": "q", "group": "g", "count": 1}, "bad-request"),
    ],
)
def test_a_wrong_request_is_refused_and_leaves_no_log(request_: dict[str, object], wanted: str) -> None:
    broker = node(q=QueueSettings(), m=QueueSettings(persistent=False))
    assert code(broker, do="checkout", max_messages=1, **request_) == wanted
    assert broker.broker.destinations.logs.all == {} and broker.broker.parts.checkouts.groups == {}


def test_the_longest_group_is_taken_and_a_queue_may_have_a_slash() -> None:
    longest = "g" * (255 - len("$checkout/a/b/"))
    broker = node()
    fill(broker, 1, "a/b")
    assert take(broker, 1, queue="a/b", group=longest) == (0, 1)
    assert list(broker.crashed().broker.parts.checkouts.groups["a/b"]) == [longest]


def test_queues_of_durable_subscriptions_are_not_checked_out() -> None:
    broker = node()
    broker.say(Subscribe(2, b"d", "/exchange/amq.topic/#", durable=True))
    (name,) = broker.broker.destinations.queues.durables
    assert code(broker, do="checkout", queue=name, group="g", max_messages=1) == "reserved"


# ---- await ----------------------------------------------------------------------------------------------------------


def ask(broker: Node, connection: int, timeout_ms: int, queue: str = "q") -> None:
    """Without waiting for the answer."""
    request = {"do": "await", "queue": queue, "timeout_ms": timeout_ms}
    broker.say(send(connection, "/admin", json.dumps(request).encode(), reply_to="admin"))


def answered(broker: Node, connection: int) -> list[int]:
    """How many were ready, in each answer so far."""
    answers = [json.loads(body) for body in broker.bodies(connection)]
    assert all(answer["ok"] for answer in answers), answers
    return [answer["ready"] for answer in answers]


def test_what_is_ready_is_told_at_once_and_without_a_timeout_nothing_is_waited_for() -> None:
    broker = node()
    fill(broker, 2)
    assert broker.admin(9, do="await", queue="/queue/q", timeout_ms=60_000) == {"ok": True, "ready": 2}
    take(broker, 2)
    assert broker.admin(9, do="await", queue="q", timeout_ms=0) == {"ok": True, "ready": 0}


def test_a_message_is_heard_of_when_it_is_on_the_disk() -> None:
    broker = node(q=QueueSettings())
    ask(broker, 9, 60_000)
    ask(broker, 2, 60_000)
    broker.auto = False
    fill(broker, 1)
    broker.seal()
    assert answered(broker, 9) == answered(broker, 2) == []
    broker.commit()
    assert answered(broker, 9) == answered(broker, 2) == [1]
    assert not broker.broker.parts.checkouts.waiting and broker.broker.destinations.queues.all["q"].observers == ()
    broker.auto = True
    assert take(broker, 1) == (0, 1)


@pytest.mark.parametrize("way", ["delay", "nack", "release", "load"])
def test_whatever_makes_a_message_ready_is_heard_of(way: str) -> None:
    broker = node(q=QueueSettings())
    if way == "delay":
        fill(broker, 1, delay_ms=5000)
    elif way == "nack":
        fill(broker, 1)
        broker.say(subscribe(2, "q"))
    elif way == "release":
        fill(broker, 1)
        take(broker, 1)
    ask(broker, 9, 60_000)
    assert answered(broker, 9) == []
    if way == "delay":
        broker.wait(5)
        broker.wait(0.25)
    elif way == "nack":
        broker.close(2)
    elif way == "release":
        broker.open(3)
        broker.admin(3, do="checkout-release", queue="q", group="g")
    else:
        fill(broker, LOAD_MESSAGES * 3)
    assert answered(broker, 9)[0] >= 1


def test_who_waits_is_answered_in_time() -> None:
    broker = node(q=QueueSettings())
    ask(broker, 9, 1000)
    broker.wait(0.999)
    assert answered(broker, 9) == []
    broker.wait(0.001)
    assert answered(broker, 9) == [0]


def test_a_queue_that_goes_is_waited_for_no_more() -> None:
    broker = node()
    broker.admin(2, do="declare", queue="other")
    ask(broker, 9, 60_000, "other")
    assert broker.admin(2, do="delete", queue="other")["ok"]
    broker.wait(0.25)
    assert json.loads(broker.bodies(9)[0])["code"] == "no-such-destination"
    assert not broker.broker.parts.checkouts.waiting


def test_who_is_gone_waits_no_more_and_of_too_many_the_first_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.logs.checkouts.AWAITS_OF_ONE_MAX", 2)
    broker = node(q=QueueSettings())
    for connection in (1, 2, 9):
        ask(broker, connection, 60_000)
    assert (answered(broker, 1), answered(broker, 2), answered(broker, 9)) == ([0], [], [])
    broker.close(2)
    broker.wait(0.25)
    assert [len(waiters.all) for waiters, _ in broker.broker.parts.checkouts.waiting.values()] == [1]
    broker.close(9)
    broker.wait(0.25)
    assert not broker.broker.parts.checkouts.waiting
    fill(broker, 1)
    broker.open(9)
    assert take(broker, 1) == (0, 1)


def test_so_many_requests_of_a_connection_may_wait() -> None:
    broker = node(q=QueueSettings())
    for _ in range(AWAITS_MAX + 1):
        ask(broker, 9, 60_000)
    assert [json.loads(body)["code"] for body in broker.bodies(9)] == ["bad-request"]
    fill(broker, 1)
    assert len(broker.bodies(9)) == AWAITS_MAX
    ask(broker, 9, 0)
    assert json.loads(broker.bodies(9)[-1]) == {"ok": True, "ready": 1}


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({"queue": "q"}, "bad-request"),
        ({"queue": "q", "timeout_ms": -1}, "bad-request"),
        ({"queue": "q", "timeout_ms": AWAIT_MAX_MS + 1}, "bad-request"),
        ({"queue": "q", "timeout_ms": 1, "next": [0]}, "bad-request"),
        ({"queue": "q", "log": "l", "timeout_ms": 1}, "bad-request"),
        ({"queue": "none", "timeout_ms": 1}, "no-such-destination"),
        ({"queue": "memory", "timeout_ms": 1}, "bad-request"),
        ({"timeout_ms": 1}, "bad-request"),
    ],
)
def test_what_cannot_be_waited_for(request_: dict[str, object], wanted: str) -> None:
    broker = node(q=QueueSettings(), memory=QueueSettings(persistent=False))
    assert code(broker, do="await", **request_) == wanted


# ---- ack ------------------------------------------------------------------------------------------------------------


def test_what_is_acked_is_gone_and_the_numbers_go_on() -> None:
    broker = node()
    fill(broker, 6)
    take(broker, 4)
    assert broker.admin(9, do="checkout-ack", queue="q", group="g", before=3) == {
        "ok": True,
        "first": 3,
    }
    assert read(broker, 3) == bodies(3, 4)
    broker = broker.crashed()
    broker.open(1, 9)
    assert take(broker, 1) == (3, 5)
    for before, first in ((5, 5), (2, 5), (5, 5)):
        answer = broker.admin(9, do="checkout-ack", queue="q", group="g", before=before)
        assert answer == {"ok": True, "first": first}
    broker.wait(1)
    broker.wait(1)
    assert all(not records for records in broker.disk.platter.records.values())
    broker = broker.crashed()
    broker.open(9)
    assert take(broker, 5) == (5, 6) and read(broker, 5) == bodies(5, 6)


def test_the_answer_of_an_ack_waits_for_the_disk() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 2)
    broker.auto = False
    broker.say(send(9, "/admin", b'{"do": "checkout-ack", "queue": "q", "group": "g", "before": 2}', reply_to="admin"))
    assert broker.messages(9) == [] and read(broker.crashed()) == bodies(0, 2)
    broker.seal()
    broker.commit()
    assert json.loads(broker.message(9).message.body) == {"ok": True, "first": 2}
    again = broker.crashed()
    again.open(9)
    assert take(again, 0) == (2, 2)


def test_wrong_acks_are_refused() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 1)
    ask = {"do": "checkout-ack", "queue": "q", "group": "g"}
    assert code(broker, **ask, before=2) == "no-such-offset"
    assert (
        code(broker, **ask, before=-1)
        == code(broker, **ask)
        == code(broker, **ask, before=1, all=True)
        == "bad-request"
    )
    assert code(broker, **{**ask, "group": "none"}, before=0) == "no-such-destination"
    assert code(broker, **{**ask, "queue": "none"}, before=0) == "no-such-destination"


# ---- release --------------------------------------------------------------------------------------------------------


def release(broker: Node) -> dict[str, object]:
    return broker.admin(9, do="checkout-release", queue="q", group="g")


def test_what_is_released_goes_to_the_end_of_its_queue_as_it_was() -> None:
    broker = node()
    fill(broker, 5, headers=b"k:v\n")
    take(broker, 3)
    broker.admin(9, do="checkout-ack", queue="q", group="g", before=1)
    kept = dict(broker.disk.platter.records[min(broker.disk.platter.records)])
    assert release(broker) == {"ok": True, "released": 2}
    assert broker.stored("q") == [b"3", b"4", b"1", b"2"]
    assert list(broker.disk.platter.messages.values())[-2:] == [kept[1], kept[2]]
    assert broker.numbers("q")["accepted"] == 7 and LOG not in broker.broker.destinations.logs.all
    assert broker.broker.parts.checkouts.groups == {} and not broker.broker.parts.checkouts.ending
    broker = broker.crashed()
    broker.open(9)
    before = broker.broker.destinations.logs.all
    assert before == {} and take(broker, 1) == (0, 1)


def step(broker: Node) -> bool:
    """One step, the disk first: so that slices come in batches of their own."""
    if broker.seal():
        broker.commit()
        return True
    return broker.step()


def test_another_log_of_the_same_name_has_another_incarnation() -> None:
    broker = node()
    fill(broker, 1)
    seen = set()
    for _ in range(3):
        seen.add(broker.admin(9, do="checkout", queue="q", group="g", max_messages=1)["incarnation"])
        release(broker)
        broker = broker.crashed()
        broker.open(9)
    assert len(seen) == 3


@pytest.mark.durability("D29")
def test_a_release_in_slices_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "LOAD_MESSAGES", 4)
    broker = node()
    fill(broker, 11)
    take(broker, 10)
    broker.auto = False
    broker.say(send(9, "/admin", b'{"do": "checkout-release", "queue": "q", "group": "g"}', reply_to="admin"))
    sizes = set()
    while step(broker):
        again = broker.crashed()
        taken = read(again) if LOG in again.broker.destinations.logs.all else []
        assert sorted(taken + again.stored("q"), key=int) == bodies(0, 11)
        sizes.add(len(taken))
        again.open(9)
        if taken:
            assert release(again) == {"ok": True, "released": len(taken)}
        assert sorted(again.stored("q"), key=int) == bodies(0, 11)
    assert sizes == {10, 6, 2, 0}


def test_more_than_the_bound_is_taken_back() -> None:
    broker = node(q=QueueSettings(max_messages=2))
    fill(broker, 2)
    take(broker, 2)
    fill(broker, 2, first=2)
    assert release(broker)["released"] == 2
    assert broker.stored("q") == [b"2", b"3", b"0", b"1"]


def test_what_is_read_just_now_is_not_released() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 2)
    broker.say(Subscribe(2, b"r", f"/log/{LOG}", CLIENT_INDIVIDUAL, 10, start=(EARLIEST, 0)))
    assert code(broker, do="checkout-release", queue="q", group="g") == "in-use"
    broker.close(2)
    assert release(broker)["released"] == 2


def test_who_comes_to_read_while_it_is_released_keeps_the_log_and_nothing_is_lost() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 2)
    broker.auto = False
    broker.say(send(9, "/admin", b'{"do": "checkout-release", "queue": "q", "group": "g"}', reply_to="admin"))
    broker.say(Subscribe(2, b"r", f"/log/{LOG}", CLIENT_INDIVIDUAL, 10))
    broker.auto = True
    broker.turn([])
    assert json.loads(broker.message(9).message.body)["code"] == "in-use"
    assert broker.stored("q") == bodies(0, 2) and take(broker, 0) == (2, 2)
    broker.close(2)
    assert release(broker) == {"ok": True, "released": 0} and LOG not in broker.broker.destinations.logs.all


@pytest.mark.parametrize("count", [0, 3])
def test_release_in_the_same_breath_as_the_checkout_comes_after_it(count: int) -> None:
    broker = node()
    broker.broker.destinations.queues.get("q")
    fill(broker, count)
    requests = [
        {"do": "checkout", "max_messages": 9},
        {"do": "checkout-release"},
        {"do": "checkout", "max_messages": 0},
    ]
    answered = [json.dumps({**request, "queue": "q", "group": "g"}).encode() for request in requests]
    broker.turn([Read(9, [Send(9, "/admin", b"", 2, body, reply_to="admin") for body in answered])])
    answers = [json.loads(reply.message.body) for reply in broker.messages(9)]
    assert [answer.get("code") for answer in answers] == ["in-use", None, None]
    assert (answers[1]["next"], answers[2]["released"]) == (count, count)
    assert broker.stored("q") == bodies(0, count) and LOG not in broker.broker.destinations.logs.all


def test_nothing_is_taken_while_it_is_released_and_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "STEP_MESSAGES", 1)
    broker = node()
    fill(broker, 3)
    take(broker, 1)
    broker.auto = False

    def ask(**request: object) -> None:
        broker.say(Send(9, "/admin", b"", 2, json.dumps(request).encode(), reply_to="admin"))

    ask(do="checkout-release", queue="q", group="g")
    ask(do="checkout", queue="q", group="g", max_messages=1)
    ask(do="checkout-ack", queue="q", group="g", before=0)
    assert [json.loads(d.message.body)["code"] for d in broker.messages(9)] == ["in-use", "in-use"]
    while broker.step():
        pass
    assert json.loads(broker.message(9).message.body)["released"] == 1
    ask(do="checkout", queue="q", group="g", max_messages=3)
    ask(do="checkout", queue="q", group="g", max_messages=0)
    ask(do="checkout-release", queue="q", group="g")
    for request in ("checkout", "checkout-release"):
        ask(do=request, queue="q", group="g", **({"max_messages": 1} if request == "checkout" else {}))
        assert json.loads(broker.message(9).message.body)["code"] == "in-use"
    while broker.step():
        pass
    answers = [json.loads(d.message.body) for d in broker.messages(9)]
    assert sorted(answer.get("next", -1) for answer in answers) == [-1, 3, 3], answers
    assert answers[-1] == {"ok": True, "released": 3}, "it goes back when all has been taken"
    assert sorted(broker.stored("q")) == bodies(0, 3) and LOG not in broker.broker.destinations.logs.all


def test_a_group_that_is_not_there_is_not_released() -> None:
    assert code(node(), do="checkout-release", queue="q", group="g") == "no-such-destination"


# ---- the queue and the log ------------------------------------------------------------------------------------------


def test_a_queue_that_is_checked_out_is_not_deleted() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 1)
    answer = broker.admin(9, do="delete", queue="q")
    assert answer["code"] == "in-use" and "`radiator release q GROUP`" in answer["error"]
    release(broker)
    assert broker.admin(9, do="delete", queue="q")["deleted"] == 2


def test_a_queue_that_deletes_itself_stays_while_it_is_checked_out() -> None:
    broker = node(q=QueueSettings(auto_delete=True, expires_ms=1000))
    fill(broker, 1)
    take(broker, 1)
    broker.say(subscribe(2, "q"))
    broker.close(2)
    broker.wait(5)
    broker.wait(5)
    assert broker.has("q")
    assert release(broker)["released"] == 1
    broker.wait(5)
    broker.wait(5)
    assert not broker.has("q")


def test_a_purge_lets_go_of_what_is_in_the_queue_alone() -> None:
    broker = node()
    fill(broker, 4)
    take(broker, 2)
    assert broker.admin(9, do="purge", queue="q")["purged"] == 2
    assert read(broker) == bodies(0, 2)


def test_the_log_is_the_brokers_own() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 1)
    assert code(broker, do="delete", log=LOG) == code(broker, do="declare", log="$checkout/x/y") == "reserved"
    broker.say(send(2, f"/log/{LOG}"))
    assert broker.refusal(2).code == "reserved"


def test_how_many_are_checked_out_is_shown() -> None:
    broker = node()
    fill(broker, 5)
    take(broker, 2)
    take(broker, 1, group="other")
    broker.admin(9, do="checkout-ack", queue="q", group="g", before=1)
    assert broker.admin(9, do="describe", queue="q")["checked_out"] == 2
    (listed,) = broker.admin(9, do="queues")["queues"]
    assert listed["checked_out"] == 2
    assert broker.stats()["queues"]["q"]["checked_out"] == 2


def test_the_journal_tells_of_what_is_taken_and_of_what_comes_back() -> None:
    broker = node(has_journal=True)
    fill(broker, 2)
    take(broker, 1)
    release(broker)
    events = [
        (answered.event, answered.other_queue, answered.reason, answered.client)
        for records in broker.disk.platter.records.values()
        for answered in records.values()
        if getattr(answered, "queue", "") == "q"
    ]
    assert ("checked-out", f"/log/{LOG}", "", "g") in events and ("accepted", f"/log/{LOG}", "released", "") in events


def test_a_slice_is_no_longer_than_a_load() -> None:
    count = 2 * LOAD_MESSAGES + 1
    broker = node()
    fill(broker, count)
    take(broker, count)
    assert release(broker)["released"] == count
    assert broker.stored("q") == bodies(0, count)


def test_dead_letters_of_what_had_expired_go_their_way_while_others_are_taken() -> None:
    broker = node(q=QueueSettings(dead_letter="dead"))
    fill(broker, 1, expiration_ms=1000)
    fill(broker, 1, first=1)
    broker.now_s, broker.now_ms = broker.now_s + 2, broker.now_ms + 2000
    assert take(broker, 5) == (0, 1)
    assert broker.stored("dead") == [b"0"] and read(broker) == [b"1"]


def test_readers_ack_and_the_checkout_stays() -> None:
    broker = node()
    fill(broker, 2)
    take(broker, 2)
    broker.say(Subscribe(2, b"r", f"/log/{LOG}", CLIENT_INDIVIDUAL, 10, start=(EARLIEST, 0)))
    broker.say(*(ack(deliver) for deliver in broker.messages(2)))
    assert read(broker) == bodies(0, 2)


def test_a_sentence_names_the_first_groups_only() -> None:
    broker = node()
    fill(broker, 5)
    for group in "abcde":
        assert broker.admin(9, do="checkout", queue="q", group=group, max_messages=1)["ok"]
    sentence = broker.admin(9, do="delete", queue="q")["error"]
    assert "by a (1 message), b (1 message), c (1 message) and 2 more: `radiator release q GROUP`" in sentence


def test_what_is_checked_out_is_not_released_into_memory() -> None:
    broker = node()
    fill(broker, 3)
    take(broker, 3)
    in_memory = Declarations(queues={"q": QueueSettings(persistent=False)}, create_queues=True)
    again = broker.crashed(declarations=in_memory)
    again.open(9)
    assert code(again, do="checkout-release", queue="q", group="g") == "bad-request"
    assert read(again) == bodies(0, 3)
