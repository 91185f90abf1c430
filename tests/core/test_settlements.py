"""Settle: what becomes of leased messages, what the answer waits for, and which tokens are nobody's."""

import pytest

from radiator.core.settlements import Tokens
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.commands import Read
from radiator.model.leases import LEASE_OVER, Action, LeasedMessage, Settlement
from radiator.model.limits import (
    ACKED_PER_BATCH,
    COMMANDS_PER_TURN,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    SETTLED_AT_ONCE_MAX,
    TIME_MAX_MS,
)
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Refuse
from radiator.model.settings import QueueSettings
from tests.core.leased import answers, bodies, done, join, outcome, receive, settle, take, verdicts
from tests.core.node import Node
from tests.core.test_usage import ANN, BOB, node_of
from tests.core.words import queue, queues, send

ACK, RELEASE, REJECT, EXTEND = Action.ACK, Action.RELEASE, Action.REJECT, Action.EXTEND
OVER = LEASE_OVER


def node_with(count: int, **settings: object) -> Node:
    node = Node(queue(**settings))
    join(node, 1, 2)
    for number in range(count):
        node.say(send(2, "q", b"%d" % number))
    return node


# ---- what becomes of it ---------------------------------------------------------------------------------------------


def test_each_action_does_what_its_word_for_acks_does() -> None:
    node = node_with(4, dead_letter="d")
    one, two, three, four = take(node, 1)
    given = [done(one), done(two, RELEASE), done(three, REJECT), done(four, EXTEND)]
    assert outcome(node, 1, *given) == ["", "", "", ""]
    numbers = node.numbers("q")
    assert (numbers["acked"], numbers["dead_lettered"], numbers["ready"], numbers["unacked"]) == (1, 1, 1, 1)
    (again,) = take(node, 2)
    assert (again.message.body, again.redelivered, again.redeliveries) == (b"1", True, 1)
    assert again.lease != two.lease and again.message_id == two.message_id
    assert bodies(take(node, 2, "d")) == [b"2"]


def test_a_released_message_comes_after_its_delay() -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    assert outcome(node, 1, done(one, RELEASE, delay_ms=5000)) == [""]
    assert node.numbers("q")["delayed"] == 1
    node.wait(4)
    assert take(node, 1) == []
    node.wait(2)
    (again,) = take(node, 1)
    assert again.redeliveries == 1


def test_what_is_released_too_often_is_dead() -> None:
    node = node_with(1, dead_letter="d", max_redeliveries=1)
    for _ in range(2):
        assert outcome(node, 1, done(take(node, 1)[0], RELEASE)) == [""]
    assert bodies(take(node, 1, "d")) == [b"0"]


def test_a_lease_is_extended_from_now_on() -> None:
    node = node_with(2)
    one, two = take(node, 1, lease_ms=10_000)
    node.wait(6)
    assert outcome(node, 1, done(one, EXTEND), done(two, EXTEND, lease_ms=20_000)) == ["", ""]
    node.wait(9.5)
    assert node.numbers("q")["unacked"] == 2
    node.wait(2)
    assert node.numbers("q")["unacked"] == 1, "the first was leased for 10 s"
    assert outcome(node, 1, done(one), done(two)) == [OVER, ""]


def test_a_lease_is_cut_by_a_shorter_extension() -> None:
    node = node_with(1)
    (one,) = take(node, 1, lease_ms=60_000)
    assert outcome(node, 1, done(one, EXTEND, lease_ms=1000)) == [""]
    node.wait(2.5)
    assert outcome(node, 1, done(one)) == [OVER]
    assert len(take(node, 1)) == 1


@pytest.mark.parametrize(
    ("settlement", "code"),
    [
        ({"action": RELEASE, "delay_ms": 0}, ""),
        ({"action": RELEASE, "delay_ms": -1}, "bad-request"),
        ({"action": RELEASE, "delay_ms": TIME_MAX_MS + 1}, "bad-request"),
        ({"action": ACK, "delay_ms": 1}, "bad-request"),
        ({"action": REJECT, "delay_ms": 1}, "bad-request"),
        ({"action": EXTEND, "delay_ms": 1}, "bad-request"),
        ({"action": EXTEND, "lease_ms": LEASE_MIN_MS}, ""),
        ({"action": EXTEND, "lease_ms": LEASE_MIN_MS - 1}, "bad-request"),
        ({"action": EXTEND, "lease_ms": LEASE_MAX_MS}, ""),
        ({"action": EXTEND, "lease_ms": LEASE_MAX_MS + 1}, "bad-request"),
        ({"action": ACK, "lease_ms": 1000}, "bad-request"),
    ],
)
def test_what_a_settlement_may_say(settlement: dict[str, object], code: str) -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    assert outcome(node, 1, Settlement(one.lease, **settlement)) == [code]  # type: ignore[arg-type]
    if code:
        assert outcome(node, 1, done(one)) == [""], "a mistake changes nothing"


def test_one_settle_may_have_so_many_and_one_more_is_refused() -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    most = [done(b"x")] * (SETTLED_AT_ONCE_MAX - 1)
    assert outcome(node, 1, *most, done(one)) == [OVER] * (SETTLED_AT_ONCE_MAX - 1) + [""]
    node.say(settle(1, *most, done(b"x"), done(b"x")))
    assert node.refusal(1).code == "too-large"
    assert outcome(node, 1) == []


# ---- the disk -------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D40")
@pytest.mark.parametrize("action", [ACK, RELEASE, REJECT])
def test_the_answer_waits_for_the_disk_also_where_only_some_are_settled(action: Action) -> None:
    node = node_with(2)
    one, _ = take(node, 1)
    node.auto = False
    node.say(settle(1, done(b"nobody's"), done(one, action)))
    assert node.inbox[1] == []
    node.seal()
    assert node.inbox[1] == []
    node.commit()
    assert verdicts(node, 1) == [OVER, ""]


def test_what_changes_nothing_on_the_disk_is_answered_at_once() -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    node.auto = False
    assert outcome(node, 1, done(one, EXTEND), done(b"x")) == ["", OVER]


def test_on_a_memory_queue_it_is_answered_at_once() -> None:
    node = node_with(1, persistent=False)
    (one,) = take(node, 1)
    node.auto = False
    assert outcome(node, 1, done(one)) == [""]


@pytest.mark.durability("D40")
def test_what_was_answered_as_settled_never_comes_again_and_all_else_does() -> None:
    node = node_with(3)
    one, two, three = take(node, 1)
    assert outcome(node, 1, done(one)) == [""]
    node.auto = False
    node.say(settle(1, done(two)))
    again = node.crashed()
    join(again, 1)
    assert bodies(take(again, 1)) == [b"1", b"2"], "the second was not answered"
    assert outcome(again, 1, *(done(old) for old in (one, two, three))) == [OVER] * 3


def test_a_long_one_goes_on_in_slices_and_forgets_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.settlements.STEP_MESSAGES", 3)
    node = node_with(10)
    leased = take(node, 1)
    node.auto = False
    turns = node.broker.context.turn_number
    node.say(settle(1, *(done(one) for one in leased), done(leased[0])))
    assert node.numbers("q")["acked"] == 3
    while node.broker.behind:
        node.turn([])
    assert node.broker.context.turn_number - turns == 4
    assert node.inbox[1] == []
    node.seal()
    node.commit()
    assert verdicts(node, 1) == [""] * 10 + [OVER]


def test_what_it_rejects_into_an_exchange_takes_more_of_a_turn() -> None:
    node = node_with(100, dead_letter_exchange="", dead_letter_key="q")
    leased = take(node, 1, most=100)
    node.auto = False
    node.say(settle(1, *(done(one, REJECT) for one in leased)))
    made = [0, node.numbers("q")["dead_lettered"]]
    while node.broker.behind:
        node.turn([])
        made.append(node.numbers("q")["dead_lettered"])
    assert made == [0, -(-COMMANDS_PER_TURN // 3), 100]


def test_it_does_not_wait_for_dead_letters_that_others_make() -> None:
    node = node_with(1)
    (leased,) = take(node, 1)
    node.admin(2, do="declare", queue="full", max_messages=1, overflow="dead-letter", dead_letter_exchange="")
    node.auto = False
    flood = [send(2, "full") for _ in range(COMMANDS_PER_TURN + 1)]
    node.turn([Read(2, flood), Read(1, [settle(1, done(leased))])])
    assert node.broker.context.dead_letters_cost >= COMMANDS_PER_TURN and node.numbers("q")["acked"] == 1


def test_its_rest_comes_behind_what_others_have_said_unless_they_have_left_no_time_for_any_of_it() -> None:
    some = ((1, COMMANDS_PER_TURN), (2, 2 * COMMANDS_PER_TURN + 1))
    node = node_with(sum(most for _, most in some), dead_letter="d")
    node.open(3)
    filling, long = ([done(one, REJECT) for one in take(node, number, most=most)] for number, most in some)
    node.auto, other = False, Read(3, [send(3, "other")])
    node.turn([Read(1, [settle(1, *filling)]), Read(2, [settle(2, *long)]), other])
    assert [*node.broker.behind] == [2, 3]
    node.turn([])
    assert [*node.broker.behind] == [3, 2]
    node.turn([other])
    assert [*node.broker.behind] == [3, 2]
    node.turn([])
    assert not node.broker.backlog and node.numbers("q")["dead_lettered"] == 3 * COMMANDS_PER_TURN + 1


def test_it_waits_while_the_open_batch_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.settlements.ACKED_PER_BATCH", 4)
    assert ACKED_PER_BATCH > 4
    node = node_with(6)
    leased = take(node, 1)
    node.auto = False
    node.say(settle(1, *map(done, leased)))
    assert node.numbers("q")["acked"] == 4 and 1 in node.broker.blocking.connections
    node.auto = True
    node.turn([])
    assert verdicts(node, 1) == [""] * 6 and node.numbers("q")["acked"] == 6


def test_who_closes_meanwhile_leaves_the_rest_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.settlements.ACKED_PER_BATCH", 4)
    node = node_with(6)
    leased = take(node, 1)
    node.auto = False
    node.say(settle(1, *map(done, leased)))
    node.close(1)
    node.auto = True
    node.turn([])
    assert (node.numbers("q")["acked"], node.numbers("q")["unacked"]) == (4, 2)
    assert node.broker.parts.leases.settlements.settling == {}
    assert outcome(node, 2, *map(done, leased)) == [OVER] * 4 + ["", ""]


def stubs(node: Node) -> list[LeasedMessage]:
    """What is leased; its bytes are on the disk alone."""
    leased = take(node, 1)
    durable = node.broker.destinations.queues.stored[1]
    node.broker.destinations.windows.out_max = 0
    durable.let_go_of_bytes(durable.out_bytes)
    assert all(delivery.entry.is_stub for delivery in durable.entries_out.values())
    node.broker.destinations.windows.out_max = 1 << 30
    return leased


@pytest.mark.parametrize(("action", "more"), [(REJECT, {}), (RELEASE, {"delay_ms": 9000})])
def test_what_is_stored_anew_is_read_back_first(action: Action, more: dict[str, int]) -> None:
    node = node_with(3, dead_letter="d")
    leased = stubs(node)
    assert outcome(node, 1, *(done(one, action, **more) for one in leased)) == [""] * 3
    if action is REJECT:
        assert bodies(take(node, 1, "d")) == [b"0", b"1", b"2"]
    else:
        node.wait(10)
        assert bodies(take(node, 1)) == [b"0", b"1", b"2"]


def test_what_is_damaged_is_over_and_the_others_are_settled() -> None:
    node = node_with(3, dead_letter="d")
    leased = stubs(node)
    node.auto = False
    node.say(settle(1, *(done(one, REJECT) for one in leased)))
    answer = node.disk.load(node.read_requests.pop(0))  # type: ignore[arg-type]
    answer.messages[1].message = None
    node.auto = True
    node.turn([answer])
    assert verdicts(node, 1) == ["", OVER, ""]
    assert node.numbers("q")["damaged"] == 1
    assert node.broker.parts.leases.owners[""].leases == {}


# ---- tokens ---------------------------------------------------------------------------------------------------------


def test_nobody_learns_what_is_wrong_with_a_token() -> None:
    node = node_of()
    join(node, 1, principal=ANN)
    join(node, 2, principal=BOB)
    for number in range(4):
        node.say(send(1, "q", b"%d" % number))
    mine, settled, late, _ = take(node, 1, lease_ms=60_000)
    (old,) = [settled]
    assert outcome(node, 1, done(old), done(late, EXTEND, lease_ms=1000)) == ["", ""]
    node.wait(3)
    token = mine.lease
    other = b"%x%b" % (99, token[token.index(b".") :])
    wrong = [
        b"", b".", b"x", b"1", token[:-1], token + b"A", token[:10], token.swapcase(), other, b"0" + token,
        b" " + token, b"-1.x", b"1_0.x", "\u0661.x".encode(), b"\xff" * 40, b"f" * 10_000, old.lease, late.lease,
    ]  # fmt: skip
    replies = []
    for text in wrong:
        node.say(settle(1, done(text)))
        replies.append(node.take(1)[0].verdicts[0])  # type: ignore[union-attr]
    node.say(settle(2, done(token)))
    replies.append(node.take(2)[0].verdicts[0])  # type: ignore[union-attr]
    assert len({(one.code, one.sentence) for one in replies}) == 1 and replies[0].code == OVER
    assert outcome(node, 1, done(mine)) == [""], "and it is still leased"


def test_tokens_are_of_a_number_a_user_a_run_and_a_key() -> None:
    tokens = Tokens(b"k" * 32, 7)
    token = tokens.of(26, "ann")
    assert tokens.number(token, "ann") == 26
    assert tokens.number(token, "bob") == tokens.number(token, "") == 0
    assert Tokens(b"l" * 32, 7).number(token, "ann") == Tokens(b"k" * 32, 8).number(token, "ann") == 0
    text = token.decode()
    assert text.isascii() and all(c.isalnum() or c in "-_." for c in text), "it may stand in a URL as it is"
    for at in range(len(token)):
        changed = bytearray(token)
        changed[at] ^= 1
        assert tokens.number(bytes(changed), "ann") == 0


def test_two_connections_of_one_user_settle_each_others() -> None:
    node = node_of()
    join(node, 1, 3, principal=ANN)
    join(node, 2, principal=Principal("ann", RecognisedBy.PASSWORD))
    node.say(send(1, "q"))
    (one,) = take(node, 1)
    assert outcome(node, 2, done(one)) == [""]
    assert outcome(node, 3, done(one)) == [OVER]


# ---- queues that are gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [*Action])
def test_of_a_deleted_queue_all_is_settled_and_has_no_effect(action: Action) -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    assert outcome(node, 1, done(one, action)) == [""]
    node.wait(60)
    node.wait(1)
    assert node.broker.parts.leases.owners == {}


def test_what_is_purged_leaves_what_is_leased() -> None:
    node = node_with(3)
    (one,) = take(node, 1, most=1)
    node.broker.destinations.queues.all["q"].empty(lambda count: None)
    node.turn([])
    assert node.numbers("q")["messages"] == 1
    assert outcome(node, 1, done(one)) == [""]


def test_an_auto_delete_queue_ends_with_its_last_lease() -> None:
    node = Node(queues(a=QueueSettings(auto_delete=True, persistent=False)))
    join(node, 1, 2)
    node.say(send(2, "a"))
    (one,) = take(node, 1, "a")
    node.broker.destinations.queues.all["a"].had_consumer = True  # somebody was subscribed
    node.wait(1)
    assert node.has("a")
    assert outcome(node, 1, done(one)) == [""]
    assert not node.has("a")


def test_states_of_what_is_leased() -> None:
    node = node_with(1)
    (one,) = take(node, 1)
    (delivery,) = node.broker.destinations.queues.all["q"].entries_out.values()  # type: ignore[attr-defined]
    assert delivery.entry.state is State.UNACKED
    node.say(receive(2, wait_ms=1000))
    assert outcome(node, 1, done(one, RELEASE)) == [""]
    assert [bodies(answer.messages) for answer in answers(node, 2)] == [[b"0"]], "who waits gets it"
    assert not any(isinstance(reply, Refuse) for reply in node.log)
    assert isinstance(node.broker.context, TurnContext)
