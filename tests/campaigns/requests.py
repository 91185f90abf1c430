"""T8d: requests to /admin made of random JSON, some right and most nearly right, in a node with a little of everything.

Whatever is asked: nothing leaves the core, there is one answer, which is a JSON object of a bounded size, and a refusal
has a code that docs/ADMINISTRATION.md names and one sentence. Ledgers add up all the time; and what the node says of
its durable queues, exchanges, fanouts, logs and prepared transactions before a crash it says after it too. Some
requests name nobody who hears the answer: each of those ends with its receipt, or as a refused SEND. In half of the
nodes the journal is on, and each commit is held against it. It does not judge whether a right request did what it
should (tests/core/admin/test_admin.py, T9, T21, T23).
"""

import json
import re
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL, EARLIEST, END, LATEST, OFFSET, TIME, Commit, Send
from radiator.model.commands import CLIENT as CLIENT_MODE
from radiator.model.replies import Deliver, Refuse
from radiator.model.settings import JOURNAL, TOPIC, Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import ack, begin, header, nack, send, subscribe

ASKER, CLIENT, READER, UNHEARD = 1, 2, 3, 4
ANSWER_BYTES_MAX = 1 << 20
REFUSAL_BYTES_MAX = 4096
REQUEST_MAX_S = 0.5  # of CPU
STEPS = 60
DOCS = Path(__file__).resolve().parents[2] / "docs"

QUEUES = ("kept", "memory", "dead", "made", "other", "child", "$durable/topic/t.*/d", "$outbox/n", "none")
EXCHANGES = ("trade", "amq.direct", "amq.topic", "amq.fanout", "side", "none", "amq.new")
FANOUTS = ("events", "more", "none")
LOGS = ("l", "tap", "new", "none", "/log/l", JOURNAL, "$checkout/kept/g", "$checkout/x/y")
GROUPS = ("g", "h", "é", "a/b", "x" * 255, "x" * 256, "\ud800", "")
PREPARED = ("p1", "p2", "p3", "none")
APPS = ("a", "b", "é" * 127, "x" * 256, "")
KEYS = ("k", "a.b", "a.*", "#", "", "a..b", "#.#.#", "#.#.#.#", ".".join("abcdefghijklmnopq"), "k" * 255, "k" * 256)
DOINGS = ("declare", "bind", "unbind", "describe", "delete", "prefetch", "extend", "move", "purge", "peek", "queues",
          "stats", "peers", "drain", "peer-release", "why", "explain")  # fmt: skip
OF_LOGS = ("declare", "describe", "delete", "offsets", "await", "position", "checkout", "checkout-ack",
           "checkout-release", "commit", "abort", "prepared", "version")  # fmt: skip
LOG_SETTINGS: dict[str, tuple[Any, ...]] = {
    "partitions": (1, 2, 1024, 1025, 0),
    "partition_key": ("/a", "/a/0", "a", "", "/\ud800", None),
    "retention_ms": (1, 60_000, 0, None),
    "retention_bytes": (1, 10_000, "1MiB", None),
}
SETTINGS: dict[str, tuple[Any, ...]] = {
    "persistent": (True, False),
    "max_messages": (1, 1000, 0),
    "max_bytes": (1, 100, "1MiB", "lots"),
    "overflow": ("block", "reject", "drop-oldest", "dead-letter", "drop-newest"),
    "dead_letter": QUEUES,
    "max_redeliveries": (0, 3, 65_536),
    "message_ttl_ms": (1, 60_000),
    "ack_timeout_s": (0.1, 30, 0),
    "dedup_window_s": (0, 60),
    "exclusive": (True, False),
    "single_active_consumer": (True, False),
    "drop_after_redeliveries": (0, 5, 65_535),
    "bounds_count": ("stored", "ready", "unacked"),
    "auto_delete": (True, False),
    "expires_ms": (1, 500, 60_000),
    "redelivery_delay_ms": (0, 100, 10**12),
    "redelivery_delay_factor": (1, 2, 1000, 1001, 0.5),
    "redelivery_delay_max_ms": (1, 50, 10**6),
    "scope": ("node", "cluster", "world"),
    "partition_key": (
        "header:a",
        "/a",
        ["/a/0", "header:a"],
        "/a\n",
        "a",
        "header:\n",
        "/\ud800",
        [],
        ["/a", "/a"],
        None,
    ),
    "partition_window": (1, 2, 1000, 1001, 0),
    "max_mesages": (1,),
}
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, 10**30, -(10**30), 1e308, float("nan"), float("inf"), float("-inf"), "", "x",
    "/queue/kept", "/queue/", "/topic/t", "/exchange/trade/k", "x" * 255, "x" * 256, "é" * 128, "a\0b", "a\nb",
    "\ud800", "\u202e", "*", "#", "a.*.b", "$durable/x", "$outbox/n", "amq.", "amq.direct/k", [], {}, [[]], ["kept"],
    {"a": 1}, ["kept", "kept"], "9" * 5000, "true", [None] * 100,
)  # fmt: skip


def text(request: object) -> bytes:
    return json.dumps(request).encode()


def is_plain(sentence: str) -> bool:
    """One line, which UTF-8 can say."""
    return re.search("[\x00-\x1f\x7f-\x9f\ud800-\udfff]", sentence) is None


class Asked:
    """One node, what was asked of it, and how it answered."""

    def __init__(self, run: Run, codes: set[str]) -> None:
        self.run = run
        self.codes = codes
        self.chance = Random(run.chance.randrange(1 << 60))
        self.answers: list[bytes] = []
        self.ok = self.refused = 0
        self.asks = 0
        self.awaited: set[bytes] = set()  # which requests may be answered later
        reported = self.chance.random() < 0.5
        self.declared = Declarations(
            queues={
                "kept": QueueSettings(dead_letter="dead", max_redeliveries=2),
                "dead": QueueSettings(),
                "memory": QueueSettings(persistent=False, max_messages=50),
                "child": QueueSettings(),
            },
            fanouts={"events": ("child", "kept", "/log/tap")},
            logs={
                "l": LogSettings(partitions=2),
                "tap": LogSettings(retention_ms=400),
                **({JOURNAL: LogSettings()} if reported else {}),
            },
            has_journal=reported,
            exchanges={"trade": ExchangeSettings(type=TOPIC)},
            bindings=[Binding("trade", "a.#", "child")],
            create_queues=self.chance.random() < 0.5,
            create_topics=True,
        )
        self.node = Node(self.declared, seed=run.done)
        self.node.open(ASKER)
        self.begin()

    def begin(self) -> None:
        """Some consumers, one of which answers nothing."""
        self.node.open(CLIENT)
        self.node.say(subscribe(CLIENT, "kept", prefetch_count=3), subscribe(ASKER, "dead", prefetch_count=2))
        self.node.say(subscribe(CLIENT, "/topic/t.*", name=b"d", durable=True))
        self.node.say(subscribe(CLIENT, "/log/l", group="g", start=(EARLIEST, 0), prefetch_count=2))

    def violation(self, sentence: str) -> None:
        self.run.violation(f"seed {self.run.seed}, case {self.run.done}: {sentence}; asked: {self.answers[-5:]}")

    # ---- requests

    def drawn(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.1:
            return self.harmed(text(self.drawn_request()))
        return text(chance.choice(STRANGE) if chance.random() < 0.03 else self.drawn_request())

    def drawn_request(self) -> dict[str, Any]:
        chance = self.chance
        is_of_logs = chance.random() < 0.4
        do = chance.choice(OF_LOGS if is_of_logs else DOINGS[:5] if chance.random() < 0.7 else DOINGS)
        request: dict[str, Any] = {"do": do} | (self.arguments_of_logs(do) if is_of_logs else self.arguments(do))
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
            way = chance.random()
            name = chance.choice([*request, "queue", "exchange", "key", "count", "seconds", "passive", "x"])
            if way < 0.6:
                request[name] = chance.choice(STRANGE)
            elif way < 0.8:
                request.pop(name, None)
            else:
                request |= self.arguments(chance.choice(DOINGS))
        return request

    def arguments(self, do: str) -> dict[str, Any]:
        chance = self.chance
        queue, exchange, fanout = chance.choice(QUEUES), chance.choice(EXCHANGES), chance.choice(FANOUTS)
        if do == "declare":
            settings = {name: chance.choice(SETTINGS[name]) for name in chance.sample(sorted(SETTINGS), 2)}
            more = {"passive": True} if chance.random() < 0.1 else {}
            return more | chance.choice((
                {"queue": queue} | (settings if chance.random() < 0.6 else {}),
                {"exchange": exchange, "type": chance.choice(("direct", "topic", "fanout", "headers")),
                 "durable": chance.random() < 0.7, "auto_delete": chance.random() < 0.2},
                {"fanout": fanout, "children": chance.sample(QUEUES, chance.randrange(4))},
            ))  # fmt: skip
        if do in ("bind", "unbind"):
            return {"exchange": exchange, "key": chance.choice(KEYS), "queue": queue}
        if do in ("describe", "delete"):
            more = {name: chance.random() < 0.5 for name in ("if_unused", "if_empty") if chance.random() < 0.3}
            return more | chance.choice(({"queue": queue}, {"exchange": exchange}, {"fanout": fanout}))
        ids = [message_id.decode() for message_id in self.node.broker.connections[CLIENT].unacked] or ["none"]
        return {
            "prefetch": {
                "subscription": chance.choice(("dead", "kept", "none")),
                "count": chance.choice((1, 9, 65_536)),
            },
            "extend": {"id": chance.choice(ids), "seconds": chance.choice((1, 60, 10**9, 0.001))},
            "move": {"from": queue, "to": chance.choice(QUEUES)},
            "purge": {"queue": queue},
            "peek": {"queue": queue, "count": chance.choice((1, 1000, 1001))},
            "peer-release": {"peer": "n", "force": True},
            "explain": chance.choice(
                (
                    {"message": chance.choice([*ids, f"{self.node.broker.context.store_id}-1-{chance.randrange(99)}"])},
                    {"trace": chance.choice(("1" * 32, "0" * 32, f"00-{'1' * 32}-{'2' * 16}-00"))},
                )
            )
            | chance.choice(({}, {}, {"limit": chance.choice((1, 1000, 1001))}, {"after": chance.choice((0, 9))})),
        }.get(do, {})

    def arguments_of_logs(self, do: str) -> dict[str, Any]:
        chance = self.chance
        is_right = chance.random() < 0.7  # about
        log = "l" if is_right else chance.choice(LOGS)
        queue, group = ("kept", "h") if is_right else (chance.choice(QUEUES[:3]), chance.choice(GROUPS))
        offsets = [chance.choice((0, 0, 1, 3, 10**15)) for _ in range(2 if is_right else chance.choice((1, 2, 3)))]
        there = [*self.node.broker.parts.prepared.prepared]
        names = there[:2] if is_right else chance.sample(PREPARED, chance.randrange(4))
        app = "a" if is_right else chance.choice(APPS)
        refuse_s = chance.choice((0, 0, 1, 3601))
        which = {"log": log}, {"logs": [log]}, {"logs": chance.sample(LOGS, 2)}
        settings = {name: chance.choice(LOG_SETTINGS[name]) for name in chance.sample(sorted(LOG_SETTINGS), 2)}
        return {
            "declare": {"log": log} | (settings if chance.random() < 0.6 else {}),
            "describe": {"log": log},
            "delete": {"log": log},
            "offsets": {"log": log, "time_ms": chance.choice((0, self.node.now_ms - 500, self.node.now_ms, 10**15))},
            "await": {"timeout_ms": chance.choice((0, 0, 100, 60_000, 60_001))}
            | chance.choice(({"queue": queue}, *({"next": offsets, **one} for one in which))),
            "position": {"log": log, "group": group}
            | chance.choice(({}, {}, {"offsets": offsets}, {"forget": True}, {"forget": False})),
            "checkout": {"queue": queue, "group": group, "max_messages": chance.choice((0, 1, 5, 100_000, 100_001))}
            | chance.choice(({}, {"max_bytes": chance.choice((0, 10, 1 << 20))})),
            "checkout-ack": {"queue": queue, "group": group, "before": offsets[0]},
            "checkout-release": {"queue": queue, "group": group},
            "commit": {"prepared": names, "app": app, "version": chance.choice((*range(20), 10**15))},
            "abort": chance.choice(({"prepared": names}, {"prefix": chance.choice(("p1", "p")), "refuse_s": refuse_s})),
            "version": {"app": app},
        }.get(do, {})

    def harmed(self, body: bytes) -> bytes:
        chance = self.chance
        way = chance.randrange(5)
        at = chance.randrange(len(body) + 1)
        return (
            body[:at],
            body[:at] + bytes([chance.randrange(256)]) + body[at:],
            body[:at] + b"[" * 30_000 + body[at:],
            b'{"do":"declare","queue":' + b"9" * chance.choice((10, 5000, 60_000)) + b"}",
            body + b" " * chance.choice((10, 65_536)),
        )[way]

    # ---- one step

    def step(self) -> None:
        chance, node = self.chance, self.node
        way = chance.random()
        if way < 0.72:
            self.ask(self.drawn())
        elif way < 0.75:
            self.ask_unheard(self.drawn())
        elif way < 0.85:
            if chance.random() < 0.3:
                self.prepare()
            to = chance.choice(["kept", "memory", "/exchange/trade/a.b", "/topic/t.a", "/fanout/events", "/log/l"])
            late = {"delay_ms": 60_000} if chance.random() < 0.3 and not to.startswith(("/topic", "/log")) else {}
            node.say(send(CLIENT, to, b"%d" % chance.randrange(10**9), **late))
        elif way < 0.9:
            for deliver in node.messages(CLIENT)[:1]:
                if deliver.message_id in node.broker.connections[CLIENT].unacked:
                    node.say(nack(deliver))
        elif way < 0.95:
            self.read_a_log()
        elif way < 0.98:
            node.wait(0.3)
        else:
            self.restart()
        refusals = [reply for number in (ASKER, CLIENT) for reply in node.inbox[number] if isinstance(reply, Refuse)]
        if refusals:
            if any(refusal.code not in ("ack-timeout", "not-unacked") for refusal in refusals):
                self.violation(f"{refusals} closed a connection")
            self.restart()
        for name in [*node.broker.destinations.queues.all]:
            node.numbers(name)

    def prepare(self) -> None:
        """Some SENDs under a name that is free."""
        name = self.chance.choice(PREPARED[:3])
        transactions = self.node.broker.parts.prepared
        if name not in transactions.prepared and not name.startswith(tuple(transactions.refused)):
            sends = [send(CLIENT, to, b"s", transaction=b"t") for to in ("kept", "/log/l", "/fanout/events")]
            self.node.say(begin(CLIENT), *sends, Commit(CLIENT, b"t", None, name))

    def read_a_log(self) -> None:
        """Somebody comes, subscribes in any way, answers some of what it is given, and goes."""
        chance, node = self.chance, self.node
        mode = chance.choice((AUTO, CLIENT_MODE, CLIENT_INDIVIDUAL))
        counted = [
            (OFFSET, chance.choice((0, 1, 2, 5, 10**14))),
            (TIME, chance.choice((0, node.now_ms - 300, node.now_ms + 300))),
        ]
        node.open(READER)
        node.say(
            subscribe(
                READER,
                f"/log/{chance.choice([*node.broker.destinations.logs.all, 'none'])}",
                mode,
                name=b"r",
                start=chance.choice((None, (EARLIEST, 0), (LATEST, 0), *counted)),
                until=chance.choice((None, None, (END, 0), *counted)),
                partition=chance.choice((None, None, 0, 1, 1023)),
                group=None if mode == AUTO else chance.choice((None, "g", "h", "new")),
                prefetch_count=chance.choice((None, 1, 50)),
            )
        )
        for deliver in node.messages(READER)[: chance.randrange(4)]:
            connection = node.broker.connections[READER]
            if deliver.message_id in connection.unacked and not connection.is_closing:
                answer = chance.choice((ack, ack, nack))
                node.say(answer(deliver))
        for reply in node.take(READER):
            if isinstance(reply, Refuse) and reply.code not in self.codes:
                self.violation(f"{reply} has a code that is not documented")
        node.close(READER)

    def ask(self, body: bytes) -> dict[str, Any] | None:
        node = self.node
        self.asks += 1
        name = b"c%d" % self.asks
        self.answers.append(body[:300])
        began_s = time.thread_time()
        node.say(Send(ASKER, "/admin", b"", 2, body, reply_to="admin", correlation_id=name))
        took_s = time.thread_time() - began_s
        found = []
        for reply in node.inbox[ASKER]:
            if isinstance(reply, Deliver) and reply.subscription != b"dead":
                of = header(reply.message, b"correlation-id")
                if of in self.awaited:
                    self.awaited.remove(of)
                else:
                    found.append(reply)
        node.inbox[ASKER] = [reply for reply in node.inbox[ASKER] if not isinstance(reply, Deliver)]
        if took_s > REQUEST_MAX_S:
            self.violation(f"{body[:200]!r} took {took_s:.2f} s")
        if not found and b'"await"' in body:
            self.awaited.add(name)
            return None
        if len(found) != 1:
            self.violation(f"{body[:200]!r} has {len(found)} answers")
            return None
        return self.judged(body, found[0].message.body)

    def ask_unheard(self, body: bytes) -> None:
        """By a connection that gives no `reply-to`, or one at which nobody hears."""
        node = self.node
        self.answers.append(body[:300])
        node.open(UNHEARD)
        node.say(send(UNHEARD, "/admin", body, receipt=b"r", reply_to=self.chance.choice((None, "none"))))
        refused = [reply for reply in node.inbox[UNHEARD] if isinstance(reply, Refuse)]
        receipts = node.receipts(UNHEARD)
        if len(refused) + len(receipts) != 1:
            self.violation(f"{body[:200]!r} without reply-to has the receipts {receipts} and the refusals {refused}")
        for one in refused:
            if one.code not in self.codes or not is_plain(one.sentence):
                self.violation(f"{body[:200]!r} without reply-to is refused by {one.code}: {one.sentence!r:.300}")
        node.close(UNHEARD)

    def judged(self, body: bytes, sent: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(sent)
        if answer.get("ok") is True:
            self.ok += 1
            if len(sent) > ANSWER_BYTES_MAX:
                self.violation(f"{body[:200]!r} is answered by {len(sent)} bytes")
        else:
            self.refused += 1
            code, sentence = answer.get("code"), answer.get("error")
            if answer.get("ok") is not False or code not in self.codes or not isinstance(sentence, str) or not sentence:
                self.violation(f"{body[:200]!r} is answered {sent[:300]!r}")
            elif len(sent) > REFUSAL_BYTES_MAX or not is_plain(sentence):
                self.violation(f"{body[:200]!r} is refused by a wild sentence of {len(sent)} bytes: {sent[:300]!r}")
        return answer

    # ---- a crash

    def restart(self) -> None:
        """What is durable is said alike before and after it."""
        before = self.description()
        self.node = self.node.crashed()
        self.awaited.clear()
        self.node.open(ASKER)
        after = self.description()
        self.begin()
        if before != after:
            wrong = {key: (value, after.get(key)) for key, value in before.items() if after.get(key) != value}
            self.violation(f"a crash has changed {wrong}, and added {sorted(after.keys() - before.keys())}")

    def description(self) -> dict[str, object]:
        """Of everything that outlives a restart."""
        destinations = self.node.broker.destinations
        found: dict[str, object] = {}
        lasting = {queue.name for queue in destinations.queues.everything() if queue.is_persistent}
        for kind, names in (("exchange", [*destinations.exchanges.all]), ("fanout", [*destinations.fanouts.all])):
            for name in names:
                answer = self.ask(text({"do": "describe", kind: name}))
                assert answer is not None and answer["ok"], answer
                if not answer.get("durable", True):
                    continue
                if kind == "exchange":
                    bindings = [(one["key"], one["queue"]) for one in answer["bindings"] if one["queue"] in lasting]
                    found[f"{kind} {name}"] = answer["type"], answer["auto_delete"], sorted(bindings)
                else:
                    found[f"{kind} {name}"] = answer["children"]
        for name in sorted(lasting):
            answer = self.ask(text({"do": "describe", "queue": name}))
            assert answer is not None and answer["ok"], answer
            found[f"queue {name}"] = answer["settings"], answer["messages"]
        for name in [*destinations.logs.all]:
            if name != JOURNAL:
                answer = self.ask(text({"do": "describe", "log": name}))
                assert answer is not None and answer["ok"], answer
                where = [self.ask(text({"do": "position", "log": name, "group": one})) for one in answer["groups"]]
                found[f"log {name}"] = answer["settings"], answer["incarnation"], answer["partitions"], where
        answer = self.ask(text({"do": "prepared"}))
        assert answer is not None and answer["ok"], answer
        found["prepared"] = [(one["name"], one["messages"], one["applied"]) for one in answer["prepared"]]
        return found


def codes() -> set[str]:
    """Those that docs/PROTOCOL.md names of ERRORs, and docs/ADMINISTRATION.md of answers."""
    errors = (DOCS / "PROTOCOL.md").read_text().partition("## ERROR")[2].partition("## /admin")[0]
    refusals, _, answers = (DOCS / "ADMINISTRATION.md").read_text().partition("Codes of answers")
    return {*re.findall(r"`([a-z-]+)`", errors + answers), *re.findall(r"\(`([a-z-]+)`\)", refusals)}


def ask_everything(run: Run) -> None:
    known = codes()
    ok = refused = 0
    while not run.is_over:
        asked = Asked(run, known)
        try:
            for _ in range(STEPS):
                asked.step()
            asked.restart()
        except Exception:  # noqa: BLE001 - whatever leaves the core ends the broker
            asked.violation(f"the broker would have ended: {traceback.format_exc()}")
        ok, refused = ok + asked.ok, refused + asked.refused
        run.case()
    run.figures |= {"answered": ok, "refused": refused}
    assert run.is_hunt or min(ok, refused) > 5 * run.done, f"too little was right, or wrong: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T8d",
        name="requests",
        title="requests to /admin of random JSON, right, nearly right and wild",
        unit="nodes asked",
        run=ask_everything,
        cases=(200, 20_000, 200_000),
        mutants=("request-type-not-checked", "binding-not-written", "settings-not-kept"),
        mutant_cases=300,
        quick_mutants=3,
    ),
)
