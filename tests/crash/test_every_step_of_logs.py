"""As test_every_step.py, of logs, groups, checkouts and prepared transactions, with the journal on: the power is cut
after every step, and what a start makes of the disk is compared with what clients were told by then.

The disk itself holds every commit, and what each start finds, against the journal (tests/sim/journal.py).
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, EARLIEST, Command, Commit, Committed, Event, Read, Send
from radiator.model.replies import Deliver, Receipt
from radiator.model.settings import JOURNAL, Declarations, LogSettings, QueueSettings
from tests.core.conftest import SMALL, shrink
from tests.core.node import Node
from tests.core.words import ack, begin, send, subscribe
from tests.sim.disk import Platter

DECLARED = Declarations(
    queues={"q": QueueSettings(), "a": QueueSettings(), "tight": QueueSettings(max_messages=2)},
    fanouts={"f": ("a", "/log/l")},
    logs={"l": LogSettings(partitions=2, retention_ms=None), JOURNAL: LogSettings(retention_ms=None)},
    has_journal=True,
)
PACES = (1, 2, 5, 1000)  # a commit after so many turns
READER, SAYER = 1, 2
Judge = Callable[["Run", Node, Platter], None]
Step = Command | Callable[["Run"], Command]


class Run:
    """One run of a scenario. receipts: the receipts that have come. got: deliveries, by body."""

    def __init__(self, judge: Judge, pace: int) -> None:
        self.judge = judge
        self.pace = pace
        self.turns = self.cuts = 0
        self.receipts: set[bytes] = set()
        self.got: dict[bytes, Deliver] = {}
        self.node = Node(DECLARED)
        self.node.open(READER, SAYER)
        self.node.auto = False

    def turn(self, *events: Event) -> None:
        self.node._one([*events])
        self.receipts |= {reply.receipt for reply in self.node.log if isinstance(reply, Receipt)}
        self.got |= {reply.message.body: reply for reply in self.node.log if isinstance(reply, Deliver)}
        self.node.log.clear()
        self.cut()

    def say(self, step: Step) -> None:
        command = step(self) if callable(step) else step
        self.turn(Read(command.connection, [command]))
        self.idle()
        self.turns += 1
        if self.turns % self.pace == 0:
            self.settle()

    def idle(self) -> None:
        """All that needs no commit."""
        node = self.node
        while node.read_requests or node.again or node.broker.wants_turn:
            if node.read_requests:
                node.answer()
            self.turn()

    def settle(self) -> None:
        """Everything reaches the disk, and what follows from that too."""
        node = self.node
        while node.seal():
            batch, node.being_committed = node.being_committed, None
            assert batch is not None
            self.cut()
            node.disk.commit(batch.writes)
            self.cut()
            self.turn(Committed(batch.number))
            self.idle()

    def cut(self) -> None:
        """What a start finds, when it has done what it does by itself."""
        self.cuts += 1
        platter = self.node.disk.platter.copy()
        node = Node(DECLARED, platter=platter)
        node.open(READER, SAYER)
        for _ in range(3):
            node.wait(1)
        self.judge(self, node, platter)


def records(node: Node, log: str) -> list[bytes]:
    """Bodies of all that a reader gets from the beginning on."""
    node.say(subscribe(READER, f"/log/{log}", AUTO, name=b"all", start=(EARLIEST, 0), prefetch_count=1000))
    return node.bodies(READER)


def admin(**request: Any) -> Send:
    return Send(SAYER, "/admin", b"", 2, json.dumps(request).encode(), reply_to="x")


# ---- a group goes on where it was acked -----------------------------------------------------------------------------


def acked(body: bytes) -> Callable[[Run], Command]:
    return lambda run: ack(run.got[body], b"acked-" + body)


GROUP: list[Step] = [
    subscribe(READER, "/log/l", CLIENT_INDIVIDUAL, group="g", start=(EARLIEST, 0), prefetch_count=100),
    *(send(SAYER, "/log/l", body, b"sent-" + body, headers=b"partition-key:k\n") for body in (b"1", b"2", b"3")),
    lambda run: settled(run, acked(b"2")),
    acked(b"1"),
    acked(b"3"),
]


def settled(run: Run, step: Callable[[Run], Command]) -> Command:
    run.settle()
    return step(run)


def group_goes_on(run: Run, node: Node, platter: Platter) -> None:
    there = records(node, "l")
    assert there == [b"1", b"2", b"3"][: len(there)], "in order, without a gap"
    assert {body for body in (b"1", b"2", b"3") if b"sent-" + body in run.receipts} <= set(there), (
        "receipted, and there"
    )
    node.say(subscribe(SAYER, "/log/l", CLIENT_INDIVIDUAL, group="g", start=(EARLIEST, 0), prefetch_count=100))
    given = node.bodies(SAYER)
    assert given == there[len(there) - len(given) :], "from one place on"
    acked = [body for body in there if b"acked-" + body in run.receipts]
    surely = next((n for n, body in enumerate(there) if body not in acked), len(there))
    assert len(given) <= len(there) - surely, f"{acked} were acked with receipt, and {given} came again"


# ---- what is checked out is in one place ----------------------------------------------------------------------------

BODIES = [b"%d" % number for number in range(6)]
CHECKOUT: list[Step] = [
    *(send(SAYER, "q", body, b"sent-" + body) for body in BODIES),
    lambda run: settled(run, lambda run: admin(do="checkout", queue="q", group="g", max_messages=4)),
    lambda run: settled(run, lambda run: admin(do="checkout-ack", queue="q", group="g", before=1)),
    admin(do="checkout", queue="q", group="g", max_messages=1),
    lambda run: settled(run, lambda run: admin(do="checkout-release", queue="q", group="g")),
]


def each_in_one_place(run: Run, node: Node, platter: Platter) -> None:
    stored = node.stored("q")
    taken = records(node, "$checkout/q/g") if "$checkout/q/g" in node.broker.destinations.logs.all else []
    both = stored + taken
    assert len(both) == len(set(both)), f"{stored} and {taken}"
    must = {body for body in BODIES if b"sent-" + body in run.receipts} - {b"0"}
    assert must <= set(both), f"{must - set(both)} are lost"


# ---- what is committed is carried out once ---------------------------------------------------------------------------

TO = ("/queue/a", "/queue/a", "/fanout/f", "/log/l", "/queue/a")
PREPARED: list[Step] = [
    begin(SAYER),
    *(send(SAYER, to, b"p%d" % number, transaction=b"t") for number, to in enumerate(TO)),
    Commit(SAYER, b"t", b"prepared", prepare="one"),
    lambda run: settled(run, lambda run: Commit(SAYER, b"one", b"committed", app="app", version=1)),
    send(SAYER, "a", b"between"),
    Commit(SAYER, b"one", b"again", app="app", version=1),
]
IN_QUEUE, IN_LOG = [b"p0", b"p1", b"p2", b"p4"], [b"p2", b"p3"]


def carried_out_once(run: Run, node: Node, platter: Platter) -> None:
    queue = [body for body in node.stored("a") if body != b"between"]
    log = records(node, "l")
    names = [row.name for row in node.disk.platter.transactions.values()]
    if "app" in {app.app for app in platter.apps.values()}:
        assert sorted(queue) == IN_QUEUE and sorted(log) == IN_LOG and not names, (queue, log, names)
    else:
        assert b"committed" not in run.receipts, "receipted, and forgotten"
        assert not queue and not log, "not committed, and carried out"
        assert b"prepared" not in run.receipts or names == ["one"], "prepared, and not there"


SCENARIOS: dict[str, tuple[list[Step], Judge]] = {
    "a group": (GROUP, group_goes_on),
    "a checkout": (CHECKOUT, each_in_one_place),
    "a prepared transaction": (PREPARED, carried_out_once),
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_step(name: str, pace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL | {"SEGMENT_RECORDS": 2})
    steps, judge = SCENARIOS[name]
    run = Run(judge, pace)
    for step in steps:
        run.say(step)
    run.settle()
    assert run.cuts > len(steps)
