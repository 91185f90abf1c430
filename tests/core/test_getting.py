"""Get: what it takes, when it says that there is nothing, what it waits for; and SetWindow."""

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

from radiator.core.rights import Rights
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, Open, Read
from radiator.model.getting import Get, SetWindow
from radiator.model.limits import LOAD_MESSAGES, PREFETCH_COUNT_MAX, RECEIVE_LOAD_S, WINDOW_MESSAGES, Limits
from radiator.model.replies import Deliver, Empty, Receipt, Reply
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.users import User, UserBounds
from tests.core.backlogs import drained, fill, numbered
from tests.core.node import Node
from tests.core.test_usage import ANN
from tests.core.words import ack, address, nack, queue, send, subscribe, unsubscribe


def get(connection: int = 1, name: str = "q", mode: str = CLIENT_INDIVIDUAL, receipt: bytes = b"g") -> Get:
    return Get(connection, address(name), receipt, mode)


def node_of(**settings: object) -> Node:
    node = Node(queue(**settings))
    node.open(1, 2, 9)
    return node


def got(node: Node, connection: int = 1) -> list[bytes | None]:
    """The bodies of what its Gets have brought; None: that there was nothing. All else new stays."""
    replies = node.inbox[connection]
    node.inbox[connection] = [reply for reply in replies if not _is_answer(reply)]
    return [reply.message.body if isinstance(reply, Deliver) else None for reply in replies if _is_answer(reply)]


def _is_answer(reply: Reply) -> bool:
    return isinstance(reply, Empty) or (isinstance(reply, Deliver) and reply.left is not None)


@pytest.fixture(params=[{}, {"persistent": False}, {"partition_key": ("header:k",)}], ids=["disk", "memory", "keys"])
def node(request: pytest.FixtureRequest) -> Node:
    return node_of(**request.param)


# ---- what it takes --------------------------------------------------------------------------------------------------


def test_the_next_message_comes_with_the_receipt_and_the_number_behind_it(node: Node) -> None:
    fill(node, 3)
    node.say(get(receipt=b"first"), get(receipt=b"second"))
    first, second = node.messages(1)
    assert (first.subscription, first.message.body, first.left) == (b"first", b"0", 2)
    assert (second.subscription, second.message.body, second.left) == (b"second", b"1", 1)
    assert first.ack_due and not first.redelivered
    assert node.numbers("q")["unacked"] == 2 and node.numbers("q")["consumers"] == 0


def test_an_empty_queue_says_so_at_once(node: Node) -> None:
    node.auto = False
    node.say(get(receipt=b"me"))
    assert node.take(1) == [Empty(1, b"me")]


def test_what_was_sent_before_it_is_there_though_it_is_not_stored_yet(node: Node) -> None:
    node.turn([Read(1, [send(1, "q", b"1"), get(), get()])])
    assert got(node) == [b"1", None]


PASSING = pytest.mark.parametrize("settings", [
    {"message_ttl_ms": 0}, {"max_messages": 0, "overflow": "drop-oldest"}, {"max_bytes": 0, "overflow": "dead-letter"},
])  # fmt: skip
KINDS = pytest.mark.parametrize("kind", [{}, {"max_priority": 3}, {"partition_key": ("header:k",)}])


@PASSING
@KINDS
@pytest.mark.parametrize("persistent", [True, False])
def test_what_may_not_wait_is_for_consumers_and_not_for_a_get(
    settings: dict[str, object], kind: dict[str, object], persistent: bool
) -> None:
    node = node_of(persistent=persistent, **settings, **kind)
    node.turn([Read(9, [send(9, "q", b"1")]), Read(1, [get(), get()])])
    assert got(node) == [None, None], "in the turn in which it came"
    node.turn([Read(1, [send(1, "q", b"2"), get()])])
    assert got(node) == [None], "of the same connection"
    node.say(send(9, "q", b"3"))
    node.say(get())
    assert got(node) == [None], "later"
    assert node.numbers("q")["messages"] == 0
    node.say(subscribe(2, "q", AUTO))
    node.turn([Read(9, [send(9, "q", b"4")]), Read(1, [get()])])
    assert (got(node), node.message(2).message.body) == ([None], b"4")


@pytest.mark.parametrize("persistent", [True, False])
def test_a_get_goes_past_what_may_not_wait_to_what_may(persistent: bool) -> None:
    node = node_of(persistent=persistent)
    node.turn([Read(1, [send(1, "q", b"1", expiration_ms=0), send(1, "q", b"2"), get(), get()])])
    assert got(node) == [b"2", None]
    node.turn([Read(1, [send(1, "q", b"3"), send(1, "q", b"4", expiration_ms=0), get(), get()])])
    assert got(node) == [b"3", None]


def unsealed(**settings: object) -> Node:
    """What is sent reaches the disk with `on_the_disk`."""
    node = node_of(**settings)
    node.open(3)
    node.auto = False
    return node


def on_the_disk(node: Node) -> list[bytes | None]:
    """What has come then."""
    node.auto = True
    node.turn([])
    return got(node)


@KINDS
def test_a_get_that_waits_takes_nothing_that_may_not_wait(kind: dict[str, object]) -> None:
    node = unsealed(**kind)
    node.say(send(9, "q", b"1"), get(), get(2), send(9, "q", b"never", expiration_ms=0))
    assert on_the_disk(node) == [b"1"] and got(node, 2) == [None], "stored with what it waits for"
    node = unsealed(**kind)
    node.say(send(9, "q", b"1"), get(), get(2))
    assert node.seal()
    node.say(send(9, "q", b"never", expiration_ms=0))
    assert on_the_disk(node) == [b"1"] and got(node, 2) == [None], "stored behind that"


@KINDS
def test_nor_where_what_it_waits_for_has_expired(kind: dict[str, object]) -> None:
    node = unsealed(**kind)
    node.say(send(9, "q", b"1", expiration_ms=1), get(), send(9, "q", b"never", expiration_ms=0))
    node.now_ms += 1000
    assert on_the_disk(node) == [None] and node.numbers("q")["expired"] == 2


def test_nor_where_that_is_urgent_and_then_it_takes_what_is_next() -> None:
    node = unsealed(max_priority=3)
    node.say(send(9, "q", b"1"), get(), send(9, "q", b"never", headers=b"priority:3\n", expiration_ms=0))
    assert on_the_disk(node) == [b"1"]


def test_nor_where_a_consumer_has_what_it_waits_for_and_no_room_for_the_other() -> None:
    node = unsealed()
    node.say(subscribe(2, "q", prefetch_count=1, consumer_priority=5), send(9, "q", b"1"), get())
    node.say(send(9, "q", b"never", expiration_ms=0))
    assert on_the_disk(node) == [None] and node.bodies(2) == [b"1"]


def test_nor_where_its_key_is_assigned_to_it_and_one_of_another_consumers_is_before_that() -> None:
    for others, own in permutations([b"a", b"b", b"c", b"d", b"e"], 2):  # some are
        node = unsealed(partition_key=("header:k",))
        node.say(send(9, "q", b"1", headers=b"k:%b\n" % others, expiration_ms=1000), get(), subscribe(2, "q"))
        node.say(send(9, "q", b"never", headers=b"k:%b\n" % own, expiration_ms=0))
        assert on_the_disk(node) in ([b"1"], [None]), (others, own)


@KINDS
def test_what_may_not_wait_goes_past_a_get_that_waits_to_a_consumer_with_room(kind: dict[str, object]) -> None:
    node = unsealed(**kind)
    node.say(send(9, "q", b"1"), get(), get(2), subscribe(3, "q", prefetch_count=1))
    node.say(send(9, "q", b"2", expiration_ms=0))
    assert (on_the_disk(node), got(node, 2), node.bodies(3)) == ([b"1"], [None], [b"2"])


def test_what_another_takes_that_was_sent_before_it_is_not_there(node: Node) -> None:
    node.say(subscribe(2, "q"))
    node.turn([Read(1, [send(1, "q", b"1"), get()])])
    assert got(node) == [None] and node.message(2).message.body == b"1"


def test_what_is_unacked_elsewhere_is_not_there(node: Node) -> None:
    fill(node, 1)
    node.say(get(1), get(2))
    assert (got(node, 1), got(node, 2)) == ([b"0"], [None])


def test_ack_and_nack_are_as_of_any_delivery(node: Node) -> None:
    fill(node, 2)
    node.say(get(), get())
    first, second = node.messages(1)
    node.say(ack(first, receipt=b"a"), nack(second, receipt=b"n"), get())
    assert node.receipts(1) == [b"a", b"n"]
    again = node.message(1)
    assert (again.message.body, again.redelivered, again.redeliveries) == (b"1", True, 1)
    node.say(ack(again))
    assert node.numbers("q")["messages"] == 0
    node.say(ack(again))
    assert node.refusal(1).code == "not-unacked"


def test_a_second_ack_is_refused_only_where_the_first_one_counted(node: Node) -> None:
    fill(node, 1)
    node.say(get(mode=AUTO))
    deliver = node.message(1)
    assert not deliver.ack_due and deliver.written_due
    assert node.numbers("q")["messages"] == 0, "it is acked as it is written"
    node.say(ack(deliver, receipt=b"a"))
    assert node.receipts(1) == [b"a"]


def test_an_auto_one_that_is_not_written_comes_back(node: Node) -> None:
    fill(node, 1)
    node.reads_slowly.add(1)
    node.say(get(mode=AUTO))
    assert node.numbers("q")["unacked"] == 1
    node.close(1)
    node.say(get(2))
    assert got(node, 2) == [b"0"]


def test_no_window_counts_it(node: Node) -> None:
    fill(node, 5)
    node.say(get(), get(), subscribe(1, "q"), get())
    assert [(one.subscription, one.message.body) for one in node.messages(1)] == [
        (b"g", b"0"), (b"g", b"1"), (b"q", b"2"), (b"g", b"3"),
    ]  # fmt: skip
    connection = node.broker.connections[1]
    assert (connection.shared_in_flight, len(connection.unacked)) == (1, 4)


def test_what_a_subscriber_has_room_for_is_not_there_for_a_get(node: Node) -> None:
    node.say(subscribe(2, "q", prefetch_count=2))
    fill(node, 3)
    node.say(get(), get())
    assert got(node) == [b"2", None] and node.bodies(2) == [b"0", b"1"]


def test_a_get_ends_with_its_connection_and_what_it_took_comes_back(node: Node) -> None:
    fill(node, 2)
    node.say(get(), get())
    node.close(1)
    node.say(subscribe(2, "q"))
    assert drained(node, 2) == [b"0", b"1"]


def test_an_expired_message_is_not_taken() -> None:
    node = node_of(message_ttl_ms=1000, persistent=False)
    fill(node, 1)
    node.now_s, node.now_ms = node.now_s + 2, node.now_ms + 2000
    node.say(get())
    assert got(node) == [None] and node.numbers("q")["expired"] == 1


def test_a_key_that_is_with_another_consumer_waits_and_the_get_does_not() -> None:
    node = node_of(partition_key=("header:k",))
    node.say(*(send(9, "q", b"%d" % n, headers=b"k:%b\n" % key) for n, key in enumerate((b"a", b"a", b"b"))))
    node.say(get(1), get(2), get(2))
    assert (got(node, 1), got(node, 2)) == ([b"0"], [b"2", None])


def test_the_ack_timeout_of_the_queue_is_for_it() -> None:
    node = node_of(ack_timeout_s=10)
    fill(node, 1)
    node.say(get())
    node.wait(11)
    assert any(getattr(reply, "code", "") == "ack-timeout" for reply in node.inbox[1])


# ---- of which queues ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["/queue/none", "/amq/queue/none"])
def test_it_creates_no_queue(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(get(name=name))
    refusal = node.refusal(1)
    assert (refusal.code, refusal.receipt) == ("no-such-destination", b"g") and not node.has("none")


def test_a_queue_is_found_by_both_of_its_addresses() -> None:
    node = node_of()
    fill(node, 2)
    node.say(get(name="/queue/q"), get(name="/amq/queue/q"))
    assert got(node) == [b"0", b"1"]


@pytest.mark.parametrize("name", ["/temp-queue/t", "/reply-queue/1", "/topic/t", "/exchange/amq.topic/k", "/log/l"])
def test_what_is_no_queue_is_refused(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(get(name=name))
    assert node.refusal(1).code == "no-lease"


def test_an_exclusive_consumer_is_alone_but_for_its_own_connection() -> None:
    node = node_of()
    node.say(subscribe(1, "q", exclusive=True))
    fill(node, 2)
    node.say(get(1), get(2))
    assert got(node, 1) == [b"1"] and node.refusal(2).code == "exclusive"
    node.say(unsubscribe(1, "q"), get(1))
    assert got(node, 1) == [None]


def test_an_exclusive_queue_without_a_consumer_is_for_all_who_get() -> None:
    node = node_of(exclusive=True)
    fill(node, 3)
    node.say(get(1), get(2), subscribe(1, "q"))
    assert (got(node, 1), got(node, 2), node.bodies(1)) == ([b"0"], [b"1"], [b"2"])


# ---- what it waits for ----------------------------------------------------------------------------------------------


def restarted(count: int = 3, **settings: object) -> Node:
    """A node whose messages are on the disk alone."""
    node = node_of(**settings)
    fill(node, count)
    node = node.crashed()
    node.open(1, 2, 9)
    node.auto = False
    return node


@pytest.mark.parametrize("settings", [{}, {"partition_key": ("header:k",)}])
def test_what_is_on_the_disk_alone_is_waited_for_in_order(settings: dict[str, object]) -> None:
    node = restarted(**settings)
    node.turn([Read(1, [get(receipt=b"1"), send(1, "other", b"x", b"r"), get(receipt=b"2")])])
    assert got(node) == [] and 1 in node.paused and not node.has("other")
    node.auto = True
    node.turn([])
    assert got(node) == [b"0", b"1"] and node.receipts(1) == [b"r"] and 1 not in node.paused
    assert node.numbers("q")["consumers"] == 0


def test_a_queue_longer_than_its_window_is_taken_whole() -> None:
    node = node_of()
    count = WINDOW_MESSAGES + 2 * LOAD_MESSAGES
    node.turn([Read(9, [send(9, "q", body) for body in numbered(0, count)])])
    for body in numbered(0, count):
        node.say(get(mode=AUTO))
        assert got(node) == [body]
    node.say(get())
    assert got(node) == [None]


def test_who_waits_while_another_gets_all_is_told_that_nothing_is_there() -> None:
    node = restarted(1)
    node.say(subscribe(2, "q"))
    node.say(get(1))
    assert got(node) == []
    node.auto = True
    node.turn([])
    assert got(node) == [None] and node.bodies(2) == [b"0"] and 1 not in node.paused


def test_one_whose_connection_closes_takes_nothing() -> None:
    node = restarted(1)
    node.say(get(1))
    node.close(1)
    node.auto = True
    node.turn([])
    assert node.numbers("q")["ready"] == 1 and node.numbers("q")["consumers"] == 0
    node.say(get(2))
    assert got(node, 2) == [b"0"]


def test_it_does_not_wait_for_ever() -> None:
    node = restarted(1)
    node.say(get(1))
    node.wait(RECEIVE_LOAD_S - 0.01)
    assert got(node) == [] and 1 in node.paused
    node.wait(0.02)
    assert got(node) == [None] and 1 not in node.paused
    node.auto = True
    node.turn([])
    assert node.numbers("q")["ready"] == 1


def test_a_queue_that_is_deleted_meanwhile_is_not_there() -> None:
    node = restarted(1)
    node.say(get(1))
    node.broker.parts.lifetimes.delete(node.broker.destinations.queues.all["q"])
    node.turn([])
    assert node.refusal(1).code == "no-such-destination"


def test_others_come_and_go_meanwhile_as_without_it() -> None:
    node = restarted(2)
    node.say(get(1), subscribe(2, "q", exclusive=True))
    assert not node.is_refused(2)
    node.say(subscribe(9, "q"))
    assert node.refusal(9).code == "exclusive"
    node.auto = True
    node.turn([])
    assert got(node) == [b"0"] and node.bodies(2) == [b"1"]


def test_a_full_outgoing_buffer_is_waited_for() -> None:
    node = Node(queue(), replace(Limits(), outbox_max_bytes=1))
    node.open(1, 9)
    fill(node, 2)
    node.reads_slowly.add(1)
    node.turn([Read(1, [get(), get(), get(name="/amq/queue/none")])])
    assert got(node) == [b"0"] and 1 in node.paused and not node.is_refused(1)
    node.reads_slowly.discard(1)
    node.turn([])
    assert got(node) == [b"1"] and node.refusal(1).code == "no-such-destination"


def test_an_empty_queue_is_no_reason_to_wait_for_the_outgoing_buffer() -> None:
    node = Node(queue(), replace(Limits(), outbox_max_bytes=1))
    node.open(1, 9)
    fill(node, 1)
    node.reads_slowly.add(1)
    node.say(get(), get())
    assert got(node) == [b"0", None]


def test_an_auto_delete_queue_ends_as_without_it() -> None:
    node = node_of()
    assert node.admin(9, do="declare", queue="brief", auto_delete=True)["ok"]
    node.say(send(9, "brief"), get(name="brief"))
    deliver = node.message(1)
    node.say(ack(deliver))
    assert node.has("brief"), "it never had a consumer"
    node.say(send(9, "brief"), get(name="brief"), subscribe(2, "brief"), unsubscribe(2, "brief"))
    assert node.has("brief"), "one is unacked"
    node.say(ack(node.message(1)))
    assert not node.has("brief")


def test_very_many_are_a_slice_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.getting.STEP_MESSAGES", 10)
    node = node_of(persistent=False)
    fill(node, 25)
    node.auto = False
    node.turn([Read(1, [get() for _ in range(25)])])
    assert len(got(node)) == 10
    node.turn([])
    assert len(got(node)) == 10
    node.auto = True
    node.turn([])
    assert len(got(node)) == 5


# ---- bounds of users ------------------------------------------------------------------------------------------------


def test_max_unacked_bytes_of_the_user_holds() -> None:
    users = {"ann": User(name="ann", rules=Rules(role=OPERATOR), bounds=UserBounds(max_unacked_bytes=2))}
    node = Node(Declarations(queues={"q": QueueSettings()}), authorizer=Rights(users, 1000))
    node.inbox[1], node.delivers[1] = [], 0
    node.turn([Open(1, principal=ANN)])
    node.say(*(send(1, "q", b"%d" % n) for n in range(3)), get(), get())
    first, _ = node.messages(1)
    node.say(get())
    assert got(node) == [None] and not node.is_refused(1)
    node.say(ack(first), get())
    assert got(node) == [b"2"]


# ---- SetWindow ------------------------------------------------------------------------------------------------------


def filled(node: Node, *names: str) -> None:
    for name in names:
        node.say(*(send(9, name, b"%b%d" % (name.encode(), number)) for number in range(9)))


def test_a_wider_window_lets_more_out_at_once_behind_its_receipt() -> None:
    node = node_of()
    node.say(subscribe(1, "q"))
    fill(node, 9)
    assert node.bodies(1) == [b"0"]
    node.say(SetWindow(1, 3, b"w"))
    receipt, *delivers = node.take(1)
    assert receipt == Receipt(1, b"w") and len(delivers) == 2
    node.say(SetWindow(1, 2))
    assert node.take(1) == []
    node.say(SetWindow(1, 0))
    assert len(node.messages(1)) == 6, "there is no bound"


def test_a_subscription_obeys_its_own_window_and_the_shared_one() -> None:
    node = Node()
    node.open(1, 9)
    node.say(SetWindow(1, 3))
    for name in ("a", "b"):
        node.say(subscribe(1, name, prefetch_count=2, shares_window=True))
    filled(node, "a", "b")
    out = node.messages(1)
    assert [one.message.body for one in out] == [b"a0", b"a1", b"b0"]
    node.say(ack(out[2]))
    (b1,) = node.messages(1)
    assert b1.message.body == b"b1", "a has two already"
    node.say(SetWindow(1, 0))
    assert node.bodies(1) == [b"b2"]
    node.say(ack(out[0]))
    assert node.bodies(1) == [b"a2"]


def test_what_only_one_of_both_windows_holds_back_comes_once_that_has_room() -> None:
    node = Node()
    node.open(1, 9)
    node.say(SetWindow(1, 2), subscribe(1, "a", prefetch_count=1, shares_window=True), subscribe(1, "b"))
    filled(node, "a", "b")
    seen = []
    while out := node.messages(1):
        assert len(out) <= 2
        assert node.broker.connections[1].shared_in_flight <= 2
        for one in out:
            seen.append(one.message.body)
            node.say(ack(one))
    assert sorted(seen) == sorted(b"%b%d" % (name, n) for name in (b"a", b"b") for n in range(9))


def test_one_that_does_not_share_is_not_bound_by_it() -> None:
    node = Node()
    node.open(1, 9)
    node.say(SetWindow(1, 1), subscribe(1, "a", prefetch_count=3), subscribe(1, "b", prefetch_count=3, ack=AUTO))
    filled(node, "a", "b")
    assert len(node.messages(1)) == 3 + 9


def test_an_auto_one_shares_nothing() -> None:
    node = Node()
    node.open(1, 9)
    node.say(subscribe(1, "a", AUTO, prefetch_count=1, shares_window=True))
    filled(node, "a")
    assert len(node.messages(1)) == 9


@pytest.mark.parametrize(("messages", "is_right"), [(-1, False), (0, True), (65_535, True), (65_536, False)])
def test_a_window_at_its_limits_and_one_past_them(messages: int, is_right: bool) -> None:
    assert PREFETCH_COUNT_MAX == 65_535
    node = node_of()
    node.say(SetWindow(1, messages, b"w"))
    assert node.receipts(1) == [b"w"] * is_right and node.is_refused(1) is not is_right


# ---- beside subscriptions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_beside_subscriptions_nothing_is_lost_and_nothing_comes_twice(seed: int) -> None:
    chance = Random(seed)
    count = WINDOW_MESSAGES + LOAD_MESSAGES
    node = node_of(persistent=seed % 2 == 0)
    node.turn([Read(9, [send(9, "q", body) for body in numbered(0, count)])])
    if seed % 4 == 0:
        node = node.crashed()
        node.open(1, 2, 9)
    node.say(subscribe(1, "q", prefetch_count=3, shares_window=True), SetWindow(1, 2))
    acked: list[bytes] = []
    while len(acked) < count:
        number = chance.choice((1, 2, 2))
        mode = chance.choice((AUTO, CLIENT_INDIVIDUAL))
        node.turn([Read(number, [get(number, mode=mode) for _ in range(chance.randrange(60))])])
        for connection in (1, 2):
            for deliver in node.messages(connection):
                if deliver.written_due:
                    acked.append(deliver.message.body)
                elif chance.random() < 0.9:
                    acked.append(deliver.message.body)
                    node.say(ack(deliver))
                else:
                    node.say(nack(deliver))
        if chance.random() < 0.02:
            node.close(2)
            node.open(2)
    assert sorted(acked) == sorted(numbered(0, count)) and node.numbers("q")["messages"] == 0
