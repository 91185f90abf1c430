"""Messages that wait for nobody: delivered in the turn in which they become READY, or expired, or dropped."""

from dataclasses import replace
from itertools import pairwise

import pytest

from radiator.core.queues.entry import Stub
from radiator.core.queues.passing import end, end_turn
from radiator.core.states import Event
from radiator.model.commands import AUTO, Committed, Read, Reread
from radiator.model.limits import COMMANDS_PER_TURN, KIB, STEP_MESSAGES
from radiator.model.settings import DEAD_LETTER, DROP_OLDEST, QueueSettings
from radiator.storage.contract import answer
from tests.core.backlogs import durable as durable_of
from tests.core.bare import consumer, durable, in_memory, message, out, stored
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, queue, queues, send, subscribe, unsubscribe

KINDS = pytest.mark.parametrize("kind", [
    {}, {"max_priority": 3}, {"partition_key": "header:k"}, {"single_active_consumer": True},
])  # fmt: skip
BOTH = pytest.mark.parametrize("persistent", [True, False])
NOTHING = [{"max_messages": 0}, {"max_bytes": 0}]
COUNTS = pytest.mark.parametrize("counts", ["stored", "ready"])
LETS_GO = pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])


def settings_of(kind: dict[str, object]) -> dict[str, object]:
    return {**kind, "partition_key": ("header:k",)} if "partition_key" in kind else kind


def reread(node: Node, **changed: object) -> Reread:
    """config.toml, with this of the queue `q` changed."""
    found = node.unchanged()
    assert found.config is not None
    declared = found.config.declarations.queues
    declared = {**declared, "q": replace(declared["q"], **changed)}
    return Reread(replace(found.config, declarations=replace(found.config.declarations, queues=declared)))


def immediate(node: Node, body: bytes, **more: object) -> None:
    node.say(send(9, "q", body, **more))


@BOTH
@KINDS
def test_a_time_to_live_of_0_is_for_a_consumer_with_room(kind: dict[str, object], persistent: bool) -> None:
    node = Node(queue(persistent=persistent, message_ttl_ms=0, dead_letter="dead", **settings_of(kind)))
    node.open(1, 2, 9)
    immediate(node, b"a")
    assert (node.numbers("q")["messages"], node.numbers("q")["dead_lettered"]) == (0, 1), "nobody is there"
    node.say(subscribe(1, "q", prefetch_count=1))
    immediate(node, b"b")
    immediate(node, b"c")
    one = node.message(1)
    assert one.message.body == b"b" and node.numbers("q")["dead_lettered"] == 2, "the second has no room"
    node.say(nack(one))
    assert node.bodies(1) == [] and node.numbers("q")["dead_lettered"] == 3, "it does not wait a second time"
    immediate(node, b"d")
    node.say(ack(node.message(1)))
    node.say(subscribe(2, "dead", AUTO))
    assert node.bodies(2) == [b"a", b"c", b"b"]
    assert node.stored("q") == []


@BOTH
def test_the_expiration_0_of_a_message_is_the_same(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    immediate(node, b"a", expiration_ms=0)
    assert (node.numbers("q")["messages"], node.numbers("q")["expired"]) == (0, 1)
    node.say(subscribe(1, "q", AUTO))
    immediate(node, b"b", expiration_ms=0)
    immediate(node, b"c", expiration_ms=1)
    assert node.bodies(1) == [b"b", b"c"]


@BOTH
def test_one_behind_others_expires_when_it_is_its_turn(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    for body, more in ((b"1", {}), (b"2", {"expiration_ms": 0}), (b"3", {})):
        immediate(node, body, **more)
    assert node.numbers("q")["messages"] == 3
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"1", b"3"] and node.numbers("q")["expired"] == 1


@BOTH
def test_what_is_before_it_in_one_turn_does_not_keep_it(persistent: bool) -> None:
    node = Node(queue(persistent=persistent))
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO))
    node.say(send(9, "q", b"1"), send(9, "q", b"2", expiration_ms=0), send(9, "q", b"3"))
    assert node.bodies(1) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("bound", NOTHING)
@LETS_GO
@COUNTS
@BOTH
@KINDS
def test_a_queue_that_keeps_nothing(
    kind: dict[str, object], persistent: bool, counts: str, overflow: str, bound: dict[str, int]
) -> None:
    settings = {"bounds_count": counts, "overflow": overflow, "dead_letter": "dead", **bound, **settings_of(kind)}
    node = Node(queue(persistent=persistent, **settings))
    column = "dropped" if overflow == "drop-oldest" else "dead_lettered"
    node.open(1, 9)
    immediate(node, b"a")
    assert (node.numbers("q")["messages"], node.numbers("q")[column]) == (0, 1)
    node.say(subscribe(1, "q", prefetch_count=2))
    node.say(*(send(9, "q", body) for body in (b"b", b"c", b"d")))
    first, second = node.messages(1)
    assert (first.message.body, second.message.body) == (b"b", b"c"), "those of one batch do not push each other out"
    assert (node.numbers("q")["messages"], node.numbers("q")[column]) == (2, 2)
    node.say(nack(first))
    assert node.numbers("q")[column] == 3 and node.bodies(1) == [], "it has no place to come back to"
    node.say(ack(second), send(9, "q", b"e"))
    assert node.bodies(1) == [b"e"]
    node.say(unsubscribe(1, "q"))
    node.close(1)
    assert (node.numbers("q")["messages"], node.numbers("q")[column]) == (0, 4) and node.stored("q") == []


@COUNTS
@KINDS
def test_what_is_on_its_way_to_the_disk_is_not_let_go_of_by_what_is_there(kind: dict[str, object], counts: str) -> None:
    node = Node(queue(bounds_count=counts, overflow="drop-oldest", max_messages=0, **settings_of(kind)))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=2))
    node.auto = False
    node.say(send(9, "q", b"a"))
    node.seal()
    node.say(send(9, "q", b"b"))
    node.auto = True
    node.commit()
    node.turn([])
    assert node.bodies(1) == [b"a", b"b"] and node.numbers("q")["dropped"] == 0


@LETS_GO
@COUNTS
@KINDS
def test_nor_if_nobody_has_room_for_what_is_there_and_somebody_has_when_it_is_ready(
    kind: dict[str, object], counts: str, overflow: str
) -> None:
    bounds = {"bounds_count": counts, "overflow": overflow, "dead_letter": "dead", "max_messages": 0}
    node = Node(queue(**bounds, **settings_of(kind)))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=1), send(9, "q", b"a"))
    node.auto = False
    node.say(send(9, "q", b"b", headers=b"priority:3\n"))
    node.seal()
    node.say(send(9, "q", b"c"))
    node.commit()
    node.say(ack(node.message(1)))
    node.auto = True
    node.turn([])
    assert node.bodies(1) == [b"c"] and node.numbers("q")["dropped"] + node.numbers("q")["dead_lettered"] == 1


@LETS_GO
@KINDS
def test_nor_is_what_was_delayed_while_it_is_on_its_way_to_its_place(kind: dict[str, object], overflow: str) -> None:
    node = Node(queue(overflow=overflow, dead_letter="dead", max_messages=0, **settings_of(kind)))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=1), send(9, "q", b"a"), send(9, "q", b"b", delay_ms=1000))
    node.auto = False
    node.say(send(9, "q", b"c", headers=b"priority:3\n"))
    node.seal()
    node.wait(1.5)
    while node.read_requests:
        node.answer()
    assert node.numbers("q")["storing"] == 2
    node.commit()
    node.say(ack(node.message(1)))
    node.auto = True
    node.turn([])
    assert node.bodies(1) == [b"b"] and node.numbers("q")["dropped"] + node.numbers("q")["dead_lettered"] == 1


@pytest.mark.parametrize("ttl_ms", [None, 500])
@LETS_GO
@BOTH
@KINDS
def test_what_waits_for_the_disk_stays_if_the_queue_keeps_messages_by_then(
    kind: dict[str, object], persistent: bool, overflow: str, ttl_ms: int | None
) -> None:
    bounds = {"overflow": overflow, "dead_letter": "dead", "max_messages": 0, "message_ttl_ms": ttl_ms}
    node = Node(queue(persistent=persistent, **bounds, **settings_of(kind)))
    node.open(1, 9)
    node.turn([Read(9, [send(9, "q", b"a"), send(9, "q", b"b")]), reread(node, max_messages=5)])
    assert node.numbers("q")["ready"] == 2
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"a", b"b"] and node.numbers("q")["messages"] == 0


@LETS_GO
@BOTH
@KINDS
def test_all_that_is_there_goes_once_a_queue_keeps_nothing_and_something_comes(
    kind: dict[str, object], persistent: bool, overflow: str
) -> None:
    bounds = {"overflow": overflow, "dead_letter": "dead", "max_messages": 5}
    node = Node(queue(persistent=persistent, **bounds, **settings_of(kind)))
    node.open(9)
    node.say(*(send(9, "q", b"%d" % number) for number in range(4)))
    node.turn([reread(node, max_messages=0)])
    assert node.numbers("q")["ready"] == 4, "what is there stays"
    node.say(send(9, "q", b"one more"))
    numbers = node.numbers("q")
    assert numbers["messages"] == 0 and numbers["dropped"] + numbers["dead_lettered"] == 5


@BOTH
def test_and_it_goes_in_slices(persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=DROP_OLDEST, max_messages=3 * STEP_MESSAGES))
    node.open(9)
    node.say(*(send(9, "q", b"") for _ in range(2 * STEP_MESSAGES)))
    node.turn([reread(node, max_messages=0)])
    node.auto = False
    node.turn([Read(9, [send(9, "q", b"one more")])])
    went = [node.numbers("q")["dropped"]]
    while node.step():
        went.append(node.numbers("q")["dropped"])
    assert max(after - before for before, after in pairwise([0, *went])) <= STEP_MESSAGES
    node.auto = True
    node.turn([])
    assert (node.numbers("q")["messages"], node.numbers("q")["dropped"]) == (0, 2 * STEP_MESSAGES + 1)


@KINDS
def test_a_time_to_live_of_0_is_over_though_the_clock_is_set_back_before_the_commit(kind: dict[str, object]) -> None:
    node = Node(queue(**settings_of(kind)))
    node.open(1, 9)
    node.auto = False
    node.say(send(9, "q", b"a", expiration_ms=0))
    node.now_ms -= 5
    node.auto = True
    node.turn([])
    assert (node.numbers("q")["messages"], node.numbers("q")["expired"], node.stored("q")) == (0, 1, [])


@pytest.mark.parametrize("bound", NOTHING)
@LETS_GO
@COUNTS
@BOTH
@KINDS
def test_what_was_delayed_is_for_a_consumer_with_room_once_it_is_due(
    kind: dict[str, object], persistent: bool, counts: str, overflow: str, bound: dict[str, int]
) -> None:
    settings = {"bounds_count": counts, "overflow": overflow, "dead_letter": "dead", **bound, **settings_of(kind)}
    node = Node(queue(persistent=persistent, **settings))
    column = "dropped" if overflow == "drop-oldest" else "dead_lettered"
    node.open(1, 9)
    node.say(send(9, "q", b"a", delay_ms=1000), send(9, "q", b"b", delay_ms=3000), send(9, "q", b"c", delay_ms=3000))
    assert (node.numbers("q")["delayed"], node.numbers("q")[column]) == (3, 0)
    node.wait(0.75)
    assert node.numbers("q")["delayed"] == 3
    node.wait(0.5)
    assert (node.numbers("q")["messages"], node.numbers("q")[column]) == (2, 1), "nobody was there"
    node.say(subscribe(1, "q", prefetch_count=1))
    node.wait(2)
    assert node.bodies(1) == [b"b"]
    assert (node.numbers("q")["messages"], node.numbers("q")[column]) == (1, 2), "the second found no room"
    assert node.stored("dead") == ([b"a", b"c"] if (persistent, overflow) == (True, "dead-letter") else [])


@COUNTS
@BOTH
def test_all_that_is_due_at_once_goes_however_much_it_is(small: None, persistent: bool, counts: str) -> None:
    node = Node(queue(persistent=persistent, bounds_count=counts, overflow="drop-oldest", max_messages=0))
    node.open(9)
    node.say(*(send(9, "q", b"%d" % number, delay_ms=1000) for number in range(40)))
    node.wait(2)
    node.wait(2)
    assert (node.numbers("q")["messages"], node.numbers("q")["dropped"]) == (0, 40)


@COUNTS
@BOTH
@KINDS
def test_what_finds_no_room_in_memory_goes_too(
    small: None, kind: dict[str, object], persistent: bool, counts: str
) -> None:
    settings = {"bounds_count": counts, "overflow": "drop-oldest", "max_messages": 0, **settings_of(kind)}
    node = Node(queue(persistent=persistent, **settings))
    node.open(9)
    node.say(*(send(9, "q", b"%d" % number) for number in range(40)))
    assert (node.numbers("q")["messages"], node.numbers("q")["dropped"]) == (0, 40)


@pytest.mark.parametrize("bound", NOTHING)
@BOTH
def test_one_that_rejects_at_0_takes_nothing(persistent: bool, bound: dict[str, int]) -> None:
    node = Node(queue(persistent=persistent, overflow="reject", **bound))
    node.open(1, 9)
    node.say(subscribe(1, "q", AUTO))
    node.say(send(9, "q", b"a"))
    assert node.refusal(9).code in ("queue-full", "too-large") and node.numbers("q")["accepted"] == 0


def test_what_a_crash_has_left_is_delivered_once_more() -> None:
    node = Node(queue(max_messages=0, overflow="drop-oldest"))
    node.open(1, 9)
    node.say(subscribe(1, "q"))
    immediate(node, b"a")
    again = node.crashed()
    again.open(1)
    again.say(subscribe(1, "q"))
    assert again.message(1).redelivered


def test_a_dead_letter_that_is_not_in_memory_is_read_back_first() -> None:
    for overflow in (DROP_OLDEST, DEAD_LETTER):
        keeper = durable(max_messages=0, overflow=overflow, dead_letter="dead")
        consumer(keeper)
        stored(keeper, b"a")
        (delivery,) = out(keeper)
        delivery.entry.message = Stub(delivery.entry.message)
        assert keeper.needs_bytes(delivery.entry, Event.LOST) is (overflow == DEAD_LETTER)


def test_one_whose_bytes_memory_let_go_of_in_its_turn_is_read_back_before_it_is_a_dead_letter(small: None) -> None:
    node = Node(queue(max_priority=1, dead_letter="dead"))
    node.open(9)
    node.say(*(send(9, "q", b"%d" % number) for number in range(8)))
    node.auto = False
    node.say(send(9, "q", b"urgent", headers=b"priority:1\n", expiration_ms=0))
    batch, found = node.broker.seal(), durable_of(node)
    assert batch is not None and found.window.storing and found.window.beyond
    found.refill(is_needed=True)
    (asked,) = node.broker.context.turn.read_requests
    node.disk.commit(batch.writes)
    found.windows.size_max = 0  # other queues take all that windows may have
    node.auto = True
    node.turn([Committed(batch.number), answer(node.disk, asked)])
    found.windows.size_max = KIB
    node.wait(0.25)
    assert node.numbers("q")["dead_lettered"] == 1 and node.stored("dead") == [b"urgent"]


def test_a_turn_ends_as_many_as_a_slice_has() -> None:
    queue_ = in_memory()
    for _ in range(STEP_MESSAGES + 1):
        queue_.put(message(expires_ms=message().accepted_ms))
    context = queue_.context
    assert end_turn(context) and len(context.passing) == 1
    assert not end_turn(context) and not context.passing
    assert queue_.ready_count == 0 and queue_.ledger.expired == STEP_MESSAGES + 1


def test_one_that_was_taken_or_whose_queue_is_gone_is_let_be() -> None:
    queue_ = in_memory()
    entry = queue_.put(message(expires_ms=message().accepted_ms))
    assert not entry.is_over
    queue_.delete()
    ((_, passing),) = queue_.context.passing
    end(queue_, passing)
    assert entry.is_over and queue_.ledger.expired == 0


@pytest.mark.parametrize("prefetch_count", [0, 2, 50])
@COUNTS
@LETS_GO
@KINDS
def test_of_more_at_once_than_the_window_holds_a_queue_for_none_keeps_nothing(
    kind: dict[str, object], overflow: str, counts: str, prefetch_count: int, small: None
) -> None:
    settings = settings_of(kind)
    node = Node(queue(max_messages=0, overflow=overflow, dead_letter="dead", bounds_count=counts, **settings))
    node.open(1, 2, 9)
    if prefetch_count:
        node.say(subscribe(1, "q", prefetch_count=prefetch_count))
    node.turn([Read(9, [send(9, "q", b"%d" % number) for number in range(30)])])
    numbers = node.numbers("q")
    assert numbers["ready"] == 0 and numbers["unacked"] == len(node.messages(1))
    assert numbers["dropped"] + numbers["dead_lettered"] == 30 - numbers["unacked"]
    assert numbers["unacked"] == min(30, prefetch_count)


@BOTH
@pytest.mark.parametrize("bound", NOTHING)
def test_dead_letters_of_very_many_at_once_go_a_slice_a_turn(bound: dict[str, int], persistent: bool) -> None:
    by_exchange = {"dead_letter_exchange": "", "dead_letter_key": "dead"}
    q = QueueSettings(persistent=persistent, overflow="dead-letter", bounds_count="ready", **by_exchange, **bound)  # type: ignore[arg-type]
    node = Node(queues(q=q, dead=QueueSettings(persistent=persistent)))
    node.open(1)
    node.turn([Read(1, [begin(1), *(send(1, "q", b"%d" % number, transaction=b"t") for number in range(900))])])
    node.auto = False
    node.turn([Read(1, [commit(1)])])
    seen = [0, node.numbers("q")["dead_lettered"]]
    while node.step():
        seen.append(node.numbers("q")["dead_lettered"])
    slices = 3 if persistent else 1  # of the commit, of the task behind it, and of those that may not wait
    most = slices * (COMMANDS_PER_TURN // 3 + 1)
    assert seen[-1] == 900 and max(now - before for before, now in pairwise(seen)) <= most
    assert len(node.stored("dead")) == (900 if persistent else 0) and node.numbers("dead")["messages"] == 900
