"""T30: what `explain` tells of messages and traces, held against the whole journal, in random histories on a store.

Messages are sent, some with a trace, copied by a fanout, given back, dead-lettered, moved and acked; the broker is
killed and started again, with what LMDB has not got yet in the log in front of it; events are removed by retention.
Then it is asked for the stories of messages and traces, of some that there never were too, in pages of any size and in
slices of any length. Each must have exactly the events that the journal's own reader gives of the messages that belong
together; who belongs together is found here by another rule: to spread from message to message until none comes.

It cannot see the turns of a server (tests/core/test_searches.py), nor what it costs.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from radiator.core import searches
from radiator.model.commands import CLIENT_INDIVIDUAL
from radiator.model.headers import CORRELATION_ID, ESCAPING_ALL, block_of
from radiator.model.limits import MIB
from radiator.model.reads import ReadLog
from radiator.model.settings import JOURNAL, Declarations, LogSettings, QueueSettings
from radiator.storage.lmdb.store import LmdbStore, open_store
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import ack, nack, send, subscribe

STEPS = 60
ASKED = 12
CLIENT, ASKER = 1, 9
QUEUES = ("q", "dead", "a", "b")
TRACES = [f"{number:032x}" for number in range(1, 4)]
TASKS = ["t", "task", "täsk:1"]
DECLARED = Declarations(
    queues={
        "q": QueueSettings(dead_letter="dead", max_redeliveries=1),
        "dead": QueueSettings(dead_letter="a", max_redeliveries=0),
        "a": QueueSettings(),
        "b": QueueSettings(),
    },
    fanouts={"f": ("a", "b")},
    logs={JOURNAL: LogSettings()},
    has_journal=True,
)
FOLLOWED = ("accepted", "dead-lettered", "moved")  # events whose other message is a relative


class Life:
    """A node, and who uses it."""

    def __init__(self, chance: Random, path: Path) -> None:
        self.chance = chance
        self.path = path
        self.node = self.started()

    def started(self) -> Node:
        node = Node(DECLARED, disk=open_store(self.path, 64 * MIB))
        node.open(CLIENT, ASKER)
        node.say(*(subscribe(CLIENT, name, CLIENT_INDIVIDUAL, prefetch_count=3) for name in QUEUES[:3]))
        return node

    @property
    def store(self) -> LmdbStore:
        store = self.node.disk
        assert isinstance(store, LmdbStore)
        return store

    def step(self) -> None:
        chance, node = self.chance, self.node
        way = chance.random()
        if way < 0.4:
            trace_id = chance.choice([*TRACES, "", "", ""])
            headers = f"traceparent:00-{trace_id}-{'1' * 16}-01\n".encode() if trace_id else b""
            task = chance.choice([*TASKS, "", ""])
            headers += block_of(ESCAPING_ALL, (CORRELATION_ID, task.encode())) if task else b""
            node.say(send(CLIENT, chance.choice(("q", "q", "a", "/fanout/f")), headers=headers))
        elif way < 0.8:
            for one in node.messages(CLIENT):
                node.say(chance.choice((ack, nack, nack))(one))
        elif way < 0.9:
            source, target = chance.sample(QUEUES, 2)
            node.admin(ASKER, do="move", **{"from": source, "to": target, "count": chance.randint(1, 4)})
        elif way < 0.94:
            self.store.catch_up()
        elif way < 0.97:
            self.store.close()  # without a clean stop, as after a kill
            self.node = self.started()
        else:
            self.cut()

    def cut(self) -> None:
        """Retention removes what is oldest."""
        logs = self.node.broker.destinations.logs
        logs.retention.keep_within(logs.all[JOURNAL], self.chance.randrange(1, 2000))
        self.node.turn([])

    def journal(self) -> list[dict[str, Any]]:
        """All that a reader of the log is given."""
        log = self.node.broker.destinations.logs.all[JOURNAL]
        found = self.store.load_log(ReadLog(1, log.number, 0, log.partitions[0].first, 1_000_000, 1 << 40)).records
        assert all(record.message is not None for record in found)
        return [json.loads(record.message.body) for record in found if record.message is not None]


def belonging(events: list[dict[str, Any]], begun: set[str]) -> set[str]:
    """Those messages, and their relatives."""
    found = set(begun)
    found |= {one["message_id"] for one in events if one["event"] == "fanout-copy" and one["other_id"] in begun}
    while True:
        more = set(found)
        for one in events:
            pair = {one.get("message_id", ""), one.get("other_id", "")}
            if one["event"] in FOLLOWED and "" not in pair and pair & found:
                more |= pair
        if more == found:
            return found
        found = more


def expected(events: list[dict[str, Any]], begun: set[str]) -> list[tuple[int, str, str, str]]:
    ids = belonging(events, begun)
    return [shown(one) for one in events if one["event"] != "started" and one.get("message_id") in ids]


def shown(one: dict[str, Any]) -> tuple[int, str, str, str]:
    return one["seq"], one["event"], one.get("message_id", ""), one.get("other_id", "")


def asked(chance: Random, node: Node, what: dict[str, str]) -> list[tuple[int, str, str, str]] | str:
    """Page by page. A text: the code of the refusal."""
    found: list[tuple[int, str, str, str]] = []
    after: dict[str, int] = {}
    while True:
        limit = {"limit": chance.choice((1, 2, 7, 1000))} if chance.random() < 0.7 else {}
        answer = node.admin(ASKER, do="explain", **what, **limit, **after)
        if not answer["ok"]:
            return str(answer["code"])
        found += map(shown, answer["events"])
        if not answer["has_more"]:
            return found
        after = {"after": found[-1][0]}


def question(chance: Random, known: list[dict[str, Any]]) -> tuple[dict[str, str], set[str]]:
    """What is asked for, and with which messages its story begins; those of a trace may be others by then."""
    if chance.random() < 0.3:
        return {"trace": chance.choice([*TRACES, "f" * 32])}, set()
    if chance.random() < 0.3:
        return {"correlation_id": chance.choice([*TASKS, "tas"])}, set()
    ids = [one[name] for one in known for name in ("message_id", "other_id") if name in one] or ["other-1-1"]
    one = chance.choice([*ids[-20:], chance.choice(ids), f"{ids[0]}9", "other-1-1"])
    return {"message": one}, {one}


def history(chance: Random, path: Path) -> tuple[str, int]:
    """One life. Returns what is wrong, or nothing; and how many events were told."""
    life = Life(chance, path)
    count = 0
    try:
        for _ in range(STEPS):
            life.step()
        for _ in range(ASKED):
            known = life.journal()  # this brings LMDB up to date: what comes now is in the log alone
            life.step()
            what, begun = question(chance, known)
            found = asked(chance, life.node, what)
            events = life.journal()
            if "trace" in what:
                begun = {one["message_id"] for one in events if f"-{what['trace']}-" in one.get("traceparent", "")}
            if "correlation_id" in what:
                begun = {one["message_id"] for one in events if one.get("correlation_id") == what["correlation_id"]}
            right = expected(events, begun)
            if found != (right or "no-events"):
                return f"{what} is told as {found}, and is {right}", count
            count += len(right)
        return "", count
    finally:
        life.store.close()


def explain_histories(run: Run) -> None:
    count = 0
    with pytest.MonkeyPatch.context() as patch:
        while not run.is_over:
            seed = run.chance.randrange(1 << 40)
            chance = Random(seed)
            patch.setattr(searches, "SEARCH_WORK", chance.choice((0, 10_000, 200_000, 1 << 40)))
            wrong, told_of = history(chance, run.directory / str(run.done))
            if wrong:
                run.violation(f"history {seed}: {wrong}")
            count += told_of
            run.case()
    run.figures["events"] = count
    assert run.is_hunt or count > 20 * run.done, f"too little was explained: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T30",
        name="stories",
        title="asks for the stories of messages and traces, and holds them against the whole journal",
        unit="histories",
        run=explain_histories,
        cases=(40, 2_000, 20_000),
        mutants=(
            "newest-events-not-searched",
            "relatives-not-followed",
            "search-goes-on-behind-a-block",
            "page-of-what-was-found-first",
            "story-of-a-started-broker",
        ),
        mutant_cases=40,
        quick_mutants=3,
    ),
)
