"""Who waits for the next batch: large COMMITs and small SENDs have a share of each, and neither waits for the other."""

from collections.abc import Sequence

import pytest

from radiator.model.commands import Read
from radiator.model.settings import QueueSettings
from tests.core.conftest import shrink
from tests.core.node import Node
from tests.core.words import begin, commit, queues, send

COMMITTERS = range(1, 7)
SENDERS = range(11, 15)
MESSAGES = 6  # of a COMMIT: more than SMALL_BYTES, and BATCH_WRITES


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """Committers wait with a large transaction each; nothing is committed but by `batch`."""
    shrink(monkeypatch, {"SMALL_BYTES": 400})
    shrink(monkeypatch, {"BATCH_WRITES": MESSAGES})
    node = Node(queues(q=QueueSettings()))
    node.open(*COMMITTERS, *SENDERS)
    for number in COMMITTERS:
        sends = [send(number, "q", b"%d" % number * 50, transaction=b"t") for _ in range(MESSAGES)]
        node.turn([Read(number, [begin(number, b"t"), *sends])])
    node.auto = False
    return node


def batch(node: Node, reads: Sequence[Read] = ()) -> set[int]:
    """Lets one batch be committed, and these reads come as the next begins. Returns who got a RECEIPT with it."""
    while node.broker.wants_turn:
        node.turn([])
    assert node.seal() or node.being_committed is not None
    node.turn([*reads])
    node.commit()
    found = {number: node.receipts(number) for number in (*COMMITTERS, *SENDERS) if number in node.inbox}
    for number in found:
        node.take(number)
    return {number for number, receipts in found.items() if receipts}


def test_a_send_waits_for_no_large_one_and_they_come_in_their_order(node: Node) -> None:
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    node.turn([Read(number, [send(number, "q", b"s", receipt=b"s")]) for number in SENDERS])
    came = [batch(node) for _ in COMMITTERS]
    assert came == [{1, *SENDERS}, *({number} for number in COMMITTERS[1:])], "first come, first served"
    assert not node.broker.admission.batch_lines.is_awaited


@pytest.mark.parametrize("senders", [1, len(SENDERS)])
def test_a_large_one_goes_into_each_batch_though_small_ones_never_end(node: Node, senders: int) -> None:
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    served: list[int] = []
    for _ in COMMITTERS:
        sends = [Read(number, [send(number, "q", b"s", receipt=b"s")] * MESSAGES) for number in SENDERS[:senders]]
        served += sorted(batch(node, sends) & set(COMMITTERS))
    assert served == [*COMMITTERS]


def test_small_ones_have_their_share_and_no_more(node: Node) -> None:
    node.turn([Read(1, [commit(1, b"t", b"c")])])
    node.turn([Read(number, [send(number, "q", b"s", receipt=b"s")] * (MESSAGES - 1)) for number in SENDERS])
    assert node.paused == {*SENDERS[1:]}, "the second has sent one, and waits for the rest"
    assert batch(node) == {1, *SENDERS[:2]}


def test_of_large_ones_only_those_that_fit_go_together(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    shrink(monkeypatch, {"BATCH_WRITES": 2 * MESSAGES})
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    assert [batch(node) for _ in range(3)] == [{1, 2}, {3, 4}, {5, 6}]
    for number in COMMITTERS:
        sends = [send(number, "q", b"%d" % number * 50, transaction=b"t") for _ in range(MESSAGES)]
        node.turn([Read(number, [begin(number, b"t"), *sends])])
    shrink(monkeypatch, {"BATCH_BYTES": 500})  # one has more, and goes alone
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    assert [batch(node) for _ in COMMITTERS] == [{number} for number in COMMITTERS]


def test_who_goes_away_keeps_nobody_waiting(node: Node) -> None:
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    node.turn([Read(number, [send(number, "q", b"s", receipt=b"s")] * MESSAGES) for number in SENDERS])
    for number in (2, 3, *SENDERS[:3]):
        node.close(number)
    assert [batch(node) & {1, 4, 5, 6, SENDERS[3]} for _ in range(4)] == [{1}, {4, SENDERS[3]}, {5}, {6}]


def test_beside_large_ones_small_ones_leave_room_for_the_next_of_them(
    monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    """One that has more bytes than a batch goes into one with little in it, though small ones fill each."""
    shrink(monkeypatch, {"SMALL_BYTES": 200})
    shrink(monkeypatch, {"BATCH_BYTES": 8 * 300})
    shrink(monkeypatch, {"BATCH_WRITES": 4096})
    node.turn([Read(number, [commit(number, b"t", b"c")]) for number in COMMITTERS])
    served: list[int] = []
    for _ in range(len(COMMITTERS)):
        sends = [Read(number, [send(number, "q", bytes(100), receipt=b"s")] * 40) for number in SENDERS]
        served += sorted(batch(node, sends) & set(COMMITTERS))
    assert served == [*COMMITTERS]
