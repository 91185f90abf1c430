"""Receive: what it takes and when it is answered, where it is refused, and how leases end by themselves."""

import gc
from dataclasses import replace
from pathlib import Path

import pytest

from radiator.core.lease_owner import Lease, Receiving
from radiator.core.rights import Rights
from radiator.model.commands import Closed, Read, Reread, Unsubscribe
from radiator.model.errors import Refusal
from radiator.model.leases import Action, Leased, Receive
from radiator.model.limits import AWAIT_MAX_MS, LEASE_MAX_MS, LEASE_MIN_MS, LEASED_AT_ONCE_MAX, LOAD_MESSAGES
from radiator.model.principal import ANYONE, Principal, RecognisedBy, unix_principal
from radiator.model.replies import Receipt, Refuse
from radiator.model.rights import Rules
from radiator.model.settings import (
    Config,
    Declarations,
    ExchangeSettings,
    LogSettings,
    QueueSettings,
)
from radiator.model.users import User, UserBounds
from tests.core.leased import HOUR_MS, answers, bodies, done, join, outcome, receive, settle, take, verdicts
from tests.core.node import Node
from tests.core.test_journal_writer import events_on, sentences_of
from tests.core.test_usage import ANN, BOB
from tests.core.words import ack, queue, queues, send, subscribe

OVER = "lease-over"


def node_of(**settings: object) -> Node:
    node = Node(queue(**settings))
    join(node, 1, 2, 3)
    return node


def fill(node: Node, count: int, name: str = "q") -> None:
    for number in range(count):
        node.say(send(3, name, b"%d" % number))


# ---- when it is answered --------------------------------------------------------------------------------------------


def test_it_is_answered_at_once_with_what_is_there_in_order() -> None:
    node = node_of()
    fill(node, 3)
    node.say(receive(1, most=10, wait_ms=60_000, receipt=b"me"))
    (answer,) = answers(node, 1)
    assert (answer.receipt, bodies(answer.messages)) == (b"me", [b"0", b"1", b"2"])
    assert [one.redelivered for one in answer.messages] == [False] * 3
    assert node.numbers("q")["unacked"] == 3 and node.numbers("q")["consumers"] == 0


def test_without_a_wait_it_is_answered_at_once_with_nothing() -> None:
    node = node_of()
    node.auto = False
    node.say(receive(1))
    assert [one.messages for one in answers(node, 1)] == [[]]


def test_it_waits_for_the_first_message_and_not_for_more() -> None:
    node = node_of()
    node.say(receive(1, wait_ms=60_000))
    assert answers(node, 1) == []
    fill(node, 1)
    (answer,) = answers(node, 1)
    assert bodies(answer.messages) == [b"0"]


def test_what_comes_in_one_turn_comes_in_one_answer() -> None:
    node = node_of(persistent=False)
    node.say(receive(1, wait_ms=60_000))
    node.turn([Read(3, [send(3, "q", b"%d" % number) for number in range(5)])])
    (answer,) = answers(node, 1)
    assert len(answer.messages) == 5


@pytest.mark.parametrize("wait_ms", [500, 1000, 60_000])
def test_when_its_time_is_over_it_is_answered_with_nothing(wait_ms: int) -> None:
    node = node_of()
    node.say(receive(1, wait_ms=wait_ms))
    node.wait(wait_ms / 1000 - 0.01)
    assert answers(node, 1) == []
    node.wait(0.27)
    assert [one.messages for one in answers(node, 1)] == [[]]
    node.wait(60)
    assert answers(node, 1) == [] and node.numbers("q")["consumers"] == 0


def test_one_that_waits_does_nothing_while_nothing_comes() -> None:
    node = node_of()
    join(node, *range(10, 1010))
    node.say(*(receive(number, wait_ms=60_000) for number in range(10, 1010)))
    leases = node.broker.parts.leases
    calls = 0

    class Watched(dict):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            return super().__iter__()

    leases.filled = Watched()
    for _ in range(20):
        node.wait(0.25)
    assert calls == 0, "no turn looks at them"


def test_what_is_on_the_disk_alone_is_waited_for_even_without_a_wait() -> None:
    node = node_of()
    fill(node, 3)
    node = node.crashed()
    join(node, 1)
    assert bodies(take(node, 1)) == [b"0", b"1", b"2"]


def test_it_is_answered_without_where_the_disk_is_slow() -> None:
    node = node_of()
    fill(node, 1)
    node = node.crashed()
    join(node, 1)
    node.auto = False
    node.say(receive(1))
    assert answers(node, 1) == [] and node.read_requests
    node.wait(0.9)
    assert answers(node, 1) == []
    node.wait(0.4)
    assert [one.messages for one in answers(node, 1)] == [[]]
    node.auto = True
    node.turn([])
    assert node.numbers("q")["ready"] == 1


def test_many_are_answered_a_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.leases.OFFERS_PER_TURN", 4)
    node = node_of()
    join(node, *range(10, 20))
    node.say(*(receive(number, wait_ms=1000) for number in range(10, 20)))
    node.auto = False
    node.wait(2)
    assert sum(len(answers(node, number)) for number in range(10, 20)) == 4 and node.again
    node.auto = True
    node.turn([])
    assert sum(len(answers(node, number)) for number in range(10, 20)) == 6


def test_many_messages_are_leased_a_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.leases.STEP_MESSAGES", 5)
    node = node_of()
    fill(node, 12)
    node.auto = False
    node.turn([Read(number, [receive(number, most=5)]) for number in (1, 2)])
    assert node.numbers("q")["unacked"] == 5
    node.turn([])
    assert node.numbers("q")["unacked"] == 10
    assert len(answers(node, 1)[0].messages) == len(answers(node, 2)[0].messages) == 5


def test_a_queue_longer_than_its_window_is_leased_whole() -> None:
    node = node_of()
    fill(node, 3 * LOAD_MESSAGES)
    node = node.crashed()
    join(node, 1)
    came: list[bytes] = []
    while some := take(node, 1, most=1000):
        came += bodies(some)
        assert set(outcome(node, 1, *map(done, some))) == {""}
    assert came == [b"%d" % number for number in range(3 * LOAD_MESSAGES)]


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("max_messages", 1, LEASED_AT_ONCE_MAX),
        ("wait_ms", 0, AWAIT_MAX_MS),
        ("lease_ms", LEASE_MIN_MS, LEASE_MAX_MS),
    ],
)
def test_its_numbers_at_their_limits_and_one_past_them(field: str, least: int, most: int) -> None:
    for value, is_right in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
        node = node_of()
        node.say(replace(receive(1), **{field: value}))  # type: ignore[arg-type]
        if is_right:
            assert not node.is_refused(1)
        else:
            refusal = node.refusal(1)
            assert (refusal.code, refusal.receipt) == ("bad-request", b"r")
            assert str(value) in refusal.sentence and str(most) in refusal.sentence and field in refusal.sentence


def test_one_receive_of_a_connection_waits_and_a_second_is_refused() -> None:
    node = node_of()
    node.say(receive(1, wait_ms=60_000), receive(1, "other", receipt=b"2"))
    refusal = node.refusal(1)
    assert (refusal.code, refusal.receipt) == ("too-many-receives", b"2")
    fill(node, 1)
    assert len(answers(node, 1)) == 1
    node.say(receive(1))
    assert not node.is_refused(1)


def test_so_many_wait_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.leases.RECEIVES_MAX", 2)
    node = node_of()
    node.say(receive(1, wait_ms=60_000), receive(2, "other", wait_ms=60_000), receive(3, wait_ms=60_000))
    assert node.refusal(3).code == "too-many-receives"
    assert not node.is_refused(1) and not node.is_refused(2)
    node.close(1)
    node.say(receive(3, wait_ms=60_000))
    assert not node.is_refused(3)


# ---- of what --------------------------------------------------------------------------------------------------------

DECLARED = Declarations(
    queues={"there": QueueSettings(), "alone": QueueSettings(exclusive=True)},
    fanouts={"f": ("there",)},
    logs={"l": LogSettings(), "audit": LogSettings()},
    exchanges={"x": ExchangeSettings()},
    create_topics=True,
)


@pytest.mark.parametrize(
    ("destination", "code", "words"),
    [
        ("/queue/there", "", ""),
        ("/amq/queue/there", "", ""),
        ("/amq/queue/not", "no-such-destination", "There is no /queue/not"),
        ("/queue/not", "no-such-destination", "[create] does not allow"),
        ("/queue/a.*", "wildcard", "has a wildcard"),
        ("/queue/$durable/topic/t/1", "reserved", "durable subscription"),
        ("/log/l", "no-lease", "/log/l is not a queue: only messages of queues are leased. Subscribe"),
        ("/topic/t", "no-lease", "/topic/t is not a queue"),
        ("/fanout/f", "no-lease", "/fanout/f is not a queue"),
        ("/exchange/x/key", "no-lease", "is not a queue"),
        ("/temp-queue/mine", "no-lease", "is not a queue"),
        ("/reply-queue/1", "no-lease", "is not a queue"),
        ("/admin", "no-lease", "/admin is not a queue"),
        ("/nothing/x", "unknown-destination", "is not a destination"),
        ("queue", "unknown-destination", "is not a destination"),
    ],
)
def test_of_which_addresses_messages_are_leased(destination: str, code: str, words: str) -> None:
    node = Node(DECLARED)
    join(node, 1)
    node.say(Receive(1, b"r", destination, 1, 0, 1000))
    if not code:
        assert [one.messages for one in answers(node, 1)] == [[]]
        return
    refusal = node.refusal(1)
    assert refusal.code == code and words in refusal.sentence, refusal
    assert not node.broker.connections[1].is_closing


def test_first_use_creates_a_queue_where_that_is_allowed() -> None:
    node = Node(queue())
    join(node, 1)
    node.say(receive(1, "new", wait_ms=60_000))
    assert node.has("new")
    node.say(send(1, "new"))
    assert len(answers(node, 1)) == 1


def test_an_exclusive_queue_has_one_consumer() -> None:
    node = Node(DECLARED)
    join(node, 1, 2)
    node.say(receive(1, "alone", wait_ms=60_000), receive(2, "alone"))
    assert node.refusal(2).code == "exclusive"
    node.wait(61)
    node.say(receive(2, "alone"))
    assert not node.is_refused(2)
    node.say(subscribe(1, "alone"), receive(2, "alone"))
    assert node.refusal(2).code == "exclusive"


def test_beside_subscribers_it_is_one_consumer_more() -> None:
    node = node_of()
    node.say(subscribe(1, "q"), receive(2, wait_ms=60_000))
    fill(node, 2)
    assert len(node.messages(1)) + len(answers(node, 2)[0].messages) == 2
    assert node.numbers("q")["unacked"] == 2


def test_an_auto_delete_queue_does_not_end_with_a_receive() -> None:
    node = Node(queues(a=QueueSettings(auto_delete=True, persistent=False)))
    join(node, 1)
    assert take(node, 1, "a") == []
    node.wait(1)
    assert node.has("a"), "as a getter of STOMP, it is no consumer that such a queue waits for"
    node.say(subscribe(1, "a"), Unsubscribe(1, b"a"))
    assert not node.has("a")


def test_a_queue_expires_when_no_receive_waits_and_nothing_is_leased() -> None:
    node = Node(queues(e=QueueSettings(expires_ms=5000)))
    join(node, 1, 2)
    node.say(receive(1, "e", wait_ms=60_000))
    for _ in range(20):
        node.wait(1)
    assert node.has("e")
    node.say(send(2, "e"))
    (one,) = answers(node, 1)[0].messages
    for _ in range(20):
        node.wait(1)
    assert node.has("e"), "a message is leased"
    assert outcome(node, 1, done(one)) == [""]
    for _ in range(7):
        node.wait(1)
    assert not node.has("e")


def test_of_a_queue_that_is_deleted_meanwhile_it_is_answered_with_nothing() -> None:
    node = node_of()
    node.say(receive(1, wait_ms=5000))
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    fill(node, 1)
    assert answers(node, 1) == []
    node.wait(6)
    assert [one.messages for one in answers(node, 1)] == [[]]
    assert len(take(node, 1)) == 1, "of the one that is there now"


def test_children_of_a_fanout_delayed_and_expired_messages() -> None:
    node = Node(DECLARED)
    join(node, 1, 2)
    node.say(send(2, "/fanout/f", b"copy"), send(2, "/queue/there", b"late", delay_ms=5000))
    node.say(send(2, "/queue/there", b"short", expiration_ms=100))
    node.wait(1)
    (one,) = take(node, 1, "there")
    assert one.message.body == b"copy"
    node.wait(6)
    assert bodies(take(node, 1, "there")) == [b"late"]


# ---- how it ends ----------------------------------------------------------------------------------------------------


def test_what_is_not_settled_in_time_comes_again_and_that_counts() -> None:
    node = node_of()
    fill(node, 1)
    (one,) = take(node, 1, lease_ms=2000)
    node.wait(1.9)
    assert take(node, 2) == []
    node.wait(1.5)
    assert outcome(node, 1, done(one)) == [OVER]
    (again,) = take(node, 2)
    assert (again.message_id, again.redelivered, again.redeliveries) == (one.message_id, True, 1)
    assert not node.is_refused(1) and not node.is_refused(2), "nobody is closed for that"
    assert node.stats()["counters"]["leases_overdue"] == 1


def test_the_end_is_exact_for_who_settles() -> None:
    node = node_of()
    fill(node, 2)
    one, two = take(node, 1, lease_ms=2000)
    node.now_s += 1.999
    assert outcome(node, 1, done(one)) == [""]
    node.now_s += 0.001
    assert outcome(node, 1, done(two)) == [OVER], "although no Tick has come since"


def test_what_is_overdue_too_often_is_dead() -> None:
    node = node_of(dead_letter="d", max_redeliveries=2)
    fill(node, 1)
    for _ in range(3):
        (one,) = take(node, 1, lease_ms=1000)
        node.wait(2.5)
        assert outcome(node, 1, done(one)) == [OVER]
    assert take(node, 1) == []
    assert bodies(take(node, 1, "d")) == [b"0"]


def test_the_queues_ack_timeout_is_not_for_leases() -> None:
    node = node_of(ack_timeout_s=1)
    fill(node, 1)
    (one,) = take(node, 1, lease_ms=30_000)
    for _ in range(10):
        node.wait(1)
    assert outcome(node, 1, done(one)) == [""]


def test_who_waits_gets_what_is_overdue() -> None:
    node = node_of()
    fill(node, 1)
    take(node, 1, lease_ms=1000)
    node.say(receive(2, wait_ms=60_000))
    node.wait(2.5)
    (answer,) = answers(node, 2)
    assert answer.messages[0].redeliveries == 1


def test_very_many_are_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.leases.OVERDUE_AT_ONCE", 3)
    node = node_of()
    fill(node, 8)
    take(node, 1, lease_ms=1000)
    for left in (5, 2, 0):
        node.wait(2.5 if left == 5 else 0.25)
        assert node.numbers("q")["unacked"] == left


def test_leases_outlive_their_connection() -> None:
    node = node_of()
    fill(node, 2)
    one, two = take(node, 1)
    node.close(1)
    assert node.numbers("q")["unacked"] == 2
    assert outcome(node, 2, done(one), done(two, Action.RELEASE)) == ["", ""]


def test_a_receive_whose_connection_closes_takes_nothing_more() -> None:
    node = node_of()
    node.say(receive(1, wait_ms=60_000))
    node.close(1)
    fill(node, 1)
    assert node.numbers("q")["ready"] == 1
    assert node.broker.parts.leases.asked == {}


@pytest.mark.parametrize("has_turn", [False, True])
def test_an_answer_that_was_never_sent_is_given_back_uncounted(has_turn: bool) -> None:
    node = node_of()
    fill(node, 1)
    node.auto = False
    # its RECEIPT waits for the disk, and so what comes behind it
    reads = [Read(1, [send(1, "other", receipt=b"r"), receive(1, lease_ms=HOUR_MS)])]
    if has_turn:
        node.turn([*reads])
        assert node.numbers("q")["unacked"] == 1 and node.inbox[1] == []
        node.turn([Closed(1)])
    else:
        node.turn([*reads, Closed(1)])
    node.turn([])
    assert node.numbers("q")["unacked"] == 0
    node.auto = True
    node.turn([])
    (one,) = take(node, 2)
    assert one.redeliveries == 0


def test_an_answer_that_was_sent_to_who_has_gone_stays_leased() -> None:
    node = node_of()
    fill(node, 1)
    assert len(take(node, 1, lease_ms=5000)) == 1
    node.auto = False
    node.say(send(1, "other", receipt=b"r"))
    node.close(1)
    assert node.numbers("q")["unacked"] == 1, "a RECEIPT that is held later says nothing of it"
    node.auto = True
    node.wait(7)
    assert take(node, 2)[0].redeliveries == 1


@pytest.mark.parametrize("end", ["ack", "release", "overdue", "deleted", "refused", "never sent"])
def test_nothing_is_left_of_a_lease_that_is_over_not_even_for_the_collector(end: str) -> None:
    node = node_of()
    fill(node, 20)
    gc.collect()
    gc.disable()  # as in a broker, where cycles of references stay for an hour
    try:
        for _ in range(3):
            tokens = [one.lease for one in take(node, 1, most=20, lease_ms=1000)]
            if end == "never sent":
                node.auto = False
                node.turn([Read(2, [send(2, "other", receipt=b"r"), receive(2, lease_ms=HOUR_MS)]), Closed(2)])
                node.auto = True
                node.turn([])
                join(node, 2)
            elif end == "refused":
                node.say(receive(2, wait_ms=60_000))
                owner = node.broker.parts.leases.owners[""]
                owner.refuse(node.broker.context, "memory", "It holds too much.")
            elif end == "deleted":
                node.admin(3, do="delete", queue="q")
                fill(node, 20)
            elif end != "overdue":
                assert outcome(node, 1, *(done(token, Action(end)) for token in tokens)) == [""] * 20
                fill(node, 20 if end == "ack" else 0)
            node.wait(2.5)
            node.inbox = {number: [] for number in node.inbox}
        assert [one for one in gc.get_objects() if isinstance(one, Lease | Receiving)] == []
    finally:
        gc.enable()


def test_what_is_leased_keeps_neither_its_answer_nor_who_asked() -> None:
    node = node_of()
    fill(node, 1)
    (one,) = take(node, 1)
    receiving = node.broker.parts.leases.owners[""].unacked[one.message_id].subscription
    assert isinstance(receiving, Receiving)
    assert (receiving.messages, receiving.leases, receiving.asker) == ([], [], receiving.connection)


def test_the_answer_comes_behind_the_receipts_due_before_it() -> None:
    node = node_of()
    fill(node, 1)
    node.auto = False
    node.turn([Read(1, [send(1, "other", receipt=b"r"), receive(1)])])
    assert node.inbox[1] == []
    node.seal()
    node.commit()
    assert [type(reply) for reply in node.take(1)] == [Receipt, Leased]


def test_a_clean_stop_marks_what_is_leased_and_a_restart_ends_all_leases() -> None:
    node = node_of()
    fill(node, 2)
    (one,) = take(node, 1, most=1)
    node.say(receive(2, "other", wait_ms=60_000))
    node.stop()
    again = node.crashed()
    join(again, 1)
    assert outcome(again, 1, done(one)) == [OVER]
    first, second = take(again, 1)
    assert (first.redelivered, first.redeliveries) == (True, 0)
    assert (second.redelivered, second.redeliveries) == (False, 0)
    assert first.lease != one.lease and outcome(again, 1, done(one), done(first)) == [OVER, ""]


# ---- users ----------------------------------------------------------------------------------------------------------

ANONYMOUS = User(name="anonymous", rules=Rules(read=("/queue/q",)))


def with_users(*names: str, read: tuple[str, ...] = ("/queue/#",), **bounds: int) -> dict[str, User]:
    return {name: User(name=name, rules=Rules(read=read, write=("/#",)), bounds=UserBounds(**bounds)) for name in names}


def guarded(**users: User) -> Node:
    return Node(replace(queue()), authorizer=Rights(users or with_users("ann", "bob"), 1000))


def reload(node: Node, users: dict[str, User]) -> None:
    node.turn([Reread(Config(data_dir=Path("/d"), disk_free_min=0, declarations=replace(queue()), users=users))])


def test_a_receive_needs_the_right_to_read() -> None:
    node = guarded(**with_users("ann", read=("/queue/mine",)))
    join(node, 1, principal=ANN)
    node.say(receive(1, "mine"))
    assert not node.is_refused(1)
    node.say(receive(1, "/amq/queue/mine"))
    assert not node.is_refused(1)
    node.say(receive(1, "q"), receive(1, "/topic/x", receipt=b"2"))
    assert [one.code for one in node.take(1) if isinstance(one, Refuse)] == ["forbidden"] * 2


def test_who_is_who() -> None:
    node = guarded(ann=with_users("ann")["ann"], anonymous=ANONYMOUS)
    for number, principal in enumerate(
        (ANN, ANYONE, Principal("ann"), unix_principal(0, 0), Principal("ann", RecognisedBy.JWT)), 1
    ):
        join(node, number, principal=principal)
    for _ in range(5):
        node.say(send(1, "q"))
    leased = [take(node, number, most=1)[0] for number in range(1, 6)]
    assert [*node.broker.parts.leases.owners] == ["ann", "anonymous", "uid:0"]
    for number, mine in ((1, [0, 4]), (2, [1, 2]), (3, [1, 2]), (4, [3]), (5, [0, 4])):
        node.say(settle(number, *(done(one, Action.EXTEND) for one in leased)))
        assert verdicts(node, number) == ["" if index in mine else OVER for index in range(5)], number


def test_a_right_that_is_taken_away_ends_receives_and_a_user_that_is_gone_his_leases() -> None:
    node = guarded()
    join(node, 1, 2, principal=ANN)
    join(node, 3, 4, principal=BOB)
    node.say(send(1, "q", b"ann's"), send(1, "r", b"bob's"))
    (of_ann,) = take(node, 1)
    (of_bob,) = take(node, 3, "r")
    node.say(receive(2, wait_ms=60_000), receive(4, "r", wait_ms=60_000))
    reload(node, with_users("ann", read=("/queue/other",)))
    assert [one.code for one in node.take(2) if isinstance(one, Refuse)] == ["forbidden"]
    assert not node.broker.connections[2].is_closing, "that command alone"
    assert outcome(node, 1, done(of_ann)) == [""], "what is leased may be settled"
    assert node.broker.connections[4].is_closing
    assert node.numbers("r")["ready"] == 1
    reload(node, with_users("ann", "bob"))
    for number in (3, 4):
        node.close(number)
    join(node, 5, principal=BOB)
    assert outcome(node, 5, done(of_bob)) == [OVER]
    (again,) = take(node, 5, "r")
    assert (again.redelivered, again.redeliveries) == (True, 0)


def test_a_receive_that_may_go_on_goes_on_over_a_reload() -> None:
    node = guarded()
    join(node, 1, principal=ANN)
    node.say(receive(1, wait_ms=60_000))
    reload(node, with_users("ann", "cid"))
    node.say(send(1, "q"))
    assert len(answers(node, 1)) == 1


def test_the_first_users_end_what_everybody_shared() -> None:
    node = Node(replace(queue()))
    join(node, 1, principal=unix_principal(0, 0))
    node.say(send(1, "q"))
    (one,) = take(node, 1)
    reload(node, with_users("ann"))
    assert node.numbers("q")["ready"] == 1
    assert outcome(node, 1, done(one)) == [OVER]


def test_a_reload_lowers_max_leases_for_what_comes() -> None:
    node = node_of()
    fill(node, 3)
    leased = take(node, 1, most=2)
    node.broker.parts.limits.max_leases = 1
    node.say(receive(1))
    assert node.refusal(1).code == "too-many-leases"
    assert outcome(node, 1, *map(done, leased)) == ["", ""]
    assert len(take(node, 1)) == 1


# ---- what is seen of it ---------------------------------------------------------------------------------------------


def test_the_journal_has_the_user_as_the_consumer() -> None:
    declared = sentences_of(q=QueueSettings())
    node = Node(replace(declared), authorizer=Rights(with_users("ann"), 1000))
    join(node, 1, 2, principal=ANN)
    node.say(send(1, "q"), send(1, "q"))
    one, _ = take(node, 1, lease_ms=1000)
    assert outcome(node, 1, done(one)) == [""]
    node.wait(2.5)
    assert len(take(node, 2)) == 1
    node.broker.parts.leases.end(node.broker.parts.leases.owners["ann"], Refusal("memory", "There is none."))
    node.turn([])
    node.wait(1)
    events = [(event.event, event.client, event.reason) for event in events_on(node.disk.platter) if event.client]
    assert events == [
        ("delivered", "user/ann", ""),
        ("delivered", "user/ann", ""),
        ("acked", "user/ann", ""),
        ("returned", "user/ann", "ack-timeout"),
        ("delivered", "user/ann", ""),
        ("returned", "user/ann", "unused"),
    ]


def test_what_was_leased_and_what_was_delivered_do_not_get_mixed_up() -> None:
    node = node_of()
    fill(node, 2)
    (one,) = take(node, 1, most=1)
    node.say(subscribe(1, "q"))
    deliver = node.message(1)
    node.say(ack(deliver))
    assert outcome(node, 1, done(deliver.message_id), done(one)) == [OVER, ""]
    assert node.numbers("q")["messages"] == 0


def test_why_names_who_holds_the_leases() -> None:
    node = node_of()
    fill(node, 1)
    take(node, 1)
    node.open(9)
    answer = node.admin(9, do="why", queue="q")
    assert answer["verdict"] == "unacked" and "1 is with leases of all clients" in answer["sentence"], answer
