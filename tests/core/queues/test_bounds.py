"""The bounds of a queue: who waits at them, who is refused, and what is dropped."""

from dataclasses import replace

import pytest

from radiator.core.queues.bounds import fits, judge_full, too_large
from radiator.core.queues.evicting import may_evict
from radiator.model.commands import AUTO
from radiator.model.errors import Refusal
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST, REJECT, QueueSettings
from radiator.model.writes import Ledger
from tests.core.node import Node
from tests.core.words import ack, header, queue, send, subscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def fill(node: Node, count: int, first: int = 0, connection: int = 9, **more: object) -> None:
    for number in range(first, first + count):
        node.say(send(connection, "q", b"%d" % number, **more))


@BOTH
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_blocks_the_producer_at_its_bound_and_not_before(bound: dict[str, int], persistent: bool) -> None:
    node = Node(queue(persistent=persistent, **bound))
    node.open(1, 9)
    fill(node, 3)
    assert node.paused == set()
    node.say(send(9, "q", b"3", b"r"))
    assert node.paused == {9} and node.numbers("q")["messages"] == 3 and node.numbers("q")["blocked"] == 1
    node.say(subscribe(1, "q"))
    node.say(ack(node.message(1)))
    assert node.receipts(9) == [b"r"] and node.paused == set()


@BOTH
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_rejects_the_send(bound: dict[str, int], persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow="reject", **bound))
    node.open(9)
    fill(node, 3)
    node.say(send(9, "q", b"3", b"r"))
    refuse = node.refusal(9)
    assert refuse.code == "queue-full" and refuse.receipt == b"r"
    assert node.numbers("q")["accepted"] == 3


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
@pytest.mark.parametrize("bound", [{"max_messages": 3}, {"max_bytes": 3}])
def test_full_queue_lets_go_of_the_oldest(bound: dict[str, int], overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", **bound))
    node.open(1, 9)
    fill(node, 8)
    numbers = node.numbers("q")
    assert numbers["messages"] == 3 and numbers["accepted"] == 8
    assert numbers["dropped" if overflow == "drop-oldest" else "dead_lettered"] == 5
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"5", b"6", b"7"]
    node.say(subscribe(1, "dead", AUTO))
    dead = node.messages(1)
    assert [d.message.body for d in dead] == ([] if overflow == "drop-oldest" else [b"0", b"1", b"2", b"3", b"4"])
    assert all(header(d.message, b"dead-letter-reason") == b"overflow" for d in dead)


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_oldest_is_the_oldest_that_is_not_in_flight(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", max_messages=3))
    node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=2))
    fill(node, 5)
    node.say(subscribe(2, "q", prefetch_count=9))
    assert (node.bodies(1), node.bodies(2)) == ([b"0", b"1"], [b"4"])


@BOTH
@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_send_is_refused_when_all_are_in_flight(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, dead_letter="dead", max_messages=3))
    node.open(1, 9)
    node.say(subscribe(1, "q", prefetch_count=3))
    fill(node, 3)
    node.say(send(9, "q", b"3", b"r"))
    assert node.refusal(9).code == "queue-full"
    assert node.numbers("q")["unacked"] == 3 and node.numbers("q")["accepted"] == 3


def test_drop_oldest_shares_one_commit_with_the_new_message() -> None:
    node = Node(queue(overflow="drop-oldest", max_messages=1))
    node.open(9)
    fill(node, 1)
    node.auto = False
    fill(node, 1, 1)
    batch = node.broker.seal()
    assert batch is not None
    assert sorted(type(w).__name__ for w in batch.writes) == ["Put", "Remove", "SaveLedger"]


@pytest.mark.parametrize("overflow", ["drop-oldest", "dead-letter"])
def test_oldest_may_still_be_on_its_way_to_the_disk(overflow: str) -> None:
    node = Node(queue(overflow=overflow, max_messages=2, dead_letter="dead"), auto=False)
    node.open(1, 9)
    fill(node, 2)
    node.seal()
    fill(node, 3, 2)
    assert node.paused == set() and node.numbers("q")["accepted"] == 5, "it is in memory: nobody waits for it"
    node.auto = True
    node.turn([])
    node.say(subscribe(1, "q", AUTO))
    assert node.bodies(1) == [b"3", b"4"]


@pytest.mark.parametrize("bound", [{"max_messages": 30}, {"max_bytes": 60}])
def test_oldest_is_read_back_where_it_must_be(small: None, bound: dict[str, int]) -> None:
    node = Node(queue(overflow="drop-oldest", **bound))
    node.open(1, 9)
    for number in range(10, 40):
        node.say(send(9, "q", b"%d" % number))
    node.say(subscribe(1, "q", prefetch_count=10))
    assert node.bodies(1) == [b"%d" % n for n in range(10, 20)]
    for number in range(40, 65):
        node.say(send(9, "q", b"%d" % number))
    assert node.numbers("q")["messages"] == 30 and node.numbers("q")["dropped"] == 25
    assert node.stored("q") == [*(b"%d" % n for n in range(10, 20)), *(b"%d" % n for n in range(45, 65))]
    assert node.paused == set() and not node.is_refused(9)


@BOTH
@pytest.mark.parametrize("overflow", ["block", "reject", "drop-oldest", "dead-letter"])
def test_message_larger_than_max_bytes_is_refused_at_once(overflow: str, persistent: bool) -> None:
    node = Node(queue(persistent=persistent, overflow=overflow, max_bytes=100, dead_letter="dead"))
    node.open(9)
    node.say(send(9, "q", bytes(96), b"1", headers=b"a:b\n"))
    assert node.receipts(9) == [b"1"], "header block and body together, at the bound"
    node.say(send(9, "q", bytes(97), b"2", headers=b"a:b\n"))
    assert node.refusal(9).code == "too-large"


def test_queue_above_a_lowered_bound_keeps_what_it_has() -> None:
    node = Node()
    node.open(9)
    fill(node, 5)
    again = node.again_on(node.disk.platter, declarations=queue(max_messages=2, overflow="reject"))
    again.open(1, 9)
    again.say(send(9, "q"))
    assert again.refusal(9).code == "queue-full"
    again.say(subscribe(1, "q", AUTO))
    assert len(again.bodies(1)) == 5


# ---- the bounds by themselves ---------------------------------------------------------------------------------------


class Full:
    """A queue that holds so many messages of one byte, of which some may not be dropped, and some are on the disk."""

    def __init__(self, overflow: str, kept: int = 0, beyond: int = 0, held: int = 3, **bounds: int) -> None:
        self.name = "q"
        self.settings = QueueSettings(overflow=overflow, dead_letter="dead", **(bounds or {"max_messages": 3}))
        self.keeps_nothing = self.settings.keeps_nothing
        self.is_evicting = False
        self.ledger = Ledger(stored=held, stored_bytes=held)
        self.reserved = self.reserved_bytes = 0
        self.refills = 0
        self._kept, self._beyond = kept, beyond

    def kept(self) -> tuple[int, int]:
        return self._kept, self._kept

    def uncounted(self) -> tuple[int, int]:
        return 0, 0

    def beyond_memory(self) -> tuple[int, int]:
        return self._beyond, self._beyond

    def has_capacity(self, messages: int, size: int) -> bool:
        return fits(self, self.ledger.stored + messages, self.ledger.stored_bytes + size)

    def may_evict(self, messages: int, size: int) -> bool:
        return may_evict(self, messages, size)  # type: ignore[arg-type]  # it asks for nothing else of it

    def refill(self, is_needed: bool = False) -> None:
        self.refills += is_needed


def test_the_producer_of_a_queue_that_blocks_waits() -> None:
    assert judge_full(Full(BLOCK), 1, 1) is False


@pytest.mark.parametrize("overflow", [BLOCK, REJECT, DROP_OLDEST, DEAD_LETTER])
def test_what_could_never_fit_waits_for_nothing_and_drops_nothing(overflow: str) -> None:
    with pytest.raises(Refusal) as refused:
        judge_full(Full(overflow), 4, 4)
    assert refused.value.code == "queue-full"
    never = "/queue/q can never hold 4 messages of 4 bytes at once (max_messages 3)"
    assert str(refused.value) == f"{never}: send fewer in a transaction or batch."


def test_a_full_queue_that_rejects_says_what_it_holds_and_its_bounds() -> None:
    with pytest.raises(Refusal) as refused:
        judge_full(Full(REJECT, max_messages=3, max_bytes=5), 1, 1)
    assert str(refused.value) == "/queue/q is full: it holds 3 messages of 3 bytes (max_messages 3, max_bytes 5)."


@pytest.mark.parametrize("overflow", [DROP_OLDEST, DEAD_LETTER])
@pytest.mark.parametrize(("kept", "messages", "is_room"), [(2, 1, True), (2, 2, False), (0, 3, True), (3, 1, False)])
def test_the_oldest_go_but_for_what_is_in_flight(overflow: str, kept: int, messages: int, is_room: bool) -> None:
    if is_room:
        assert judge_full(Full(overflow, kept), messages, messages) is True
        return
    with pytest.raises(Refusal, match=f"too many of its messages .{kept}. are unacked or delayed"):
        judge_full(Full(overflow, kept), messages, messages)


@pytest.mark.parametrize("messages", [1, 4])
def test_while_a_task_drops_the_oldest_producers_wait(messages: int) -> None:
    """Even for a transaction that would be let in beyond the bound."""
    full = Full(DROP_OLDEST, max_messages=3)
    full.settings = replace(full.settings, bounds_count="ready")
    assert judge_full(full, messages, messages) is True
    full.is_evicting = True
    assert judge_full(full, messages, messages) is False


def test_what_must_be_dropped_from_the_disk_is_read_back_first() -> None:
    full = Full(DROP_OLDEST, beyond=3)
    assert full.may_evict(1, 1) is False and full.refills == 1
    full = Full(DROP_OLDEST, beyond=2)
    assert full.may_evict(1, 1) is True and full.refills == 0


def test_room_that_is_promised_to_others_counts() -> None:
    full = Full(DROP_OLDEST, kept=1, held=2)
    full.reserved = 1
    assert full.may_evict(1, 1) is True
    full.reserved = 2
    with pytest.raises(Refusal):
        full.may_evict(1, 1)


def test_a_message_that_is_larger_than_the_queue_is_told_so() -> None:
    refused = too_large(Full(BLOCK, max_bytes=5), 6)
    assert (refused.code, str(refused)) == (
        "too-large",
        "A message of 6 bytes is larger than max_bytes of /queue/q, 5.",
    )
