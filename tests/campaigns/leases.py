"""T29: `kill -9` at random times, under producers and lessees over HTTP, with books over the whole history.

Producers publish one message or a batch, to queues and to a fanout, several requests at once. Lessees receive, and then
settle, release, extend and reject; some leases they let run out, and some tokens they keep for the next life of the
broker: what is over, or of another life, must settle nothing. What was answered 201 is found; what was answered as
acked never comes again; all else comes again. Now and then all connections are lost instead: leases outlive that, and
run out.
"""

import json
import random
import re
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from subprocess import TimeoutExpired
from typing import Any

from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.kill import KILLS_OF_A_HUNT, KILLS_OF_A_LIFE, Life
from tests.crash.books import Books, Copy, body_of
from tests.crash.crowd import A, B, Line, Lines, talking
from tests.protocols.http.asking import Answer, request
from tests.server.web import WebClient

JOBS, LEFT = "/queue/jobs", "/queue/left"
QUEUES = (JOBS, LEFT, A, B)
WINDOW = 8  # requests of a producer that are not answered yet
LONG_MS, SHORT_MS = 600_000, 1000
ANSWER_WITHIN_S = 2.0
GONE_WITHIN_S = 6.0  # a lease of SHORT_MS, and what brings it back
CONFIG = (
    SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "http://127.0.0.1:0"')
    + EVERYTHING_MAY_BE_CREATED
    + """
[fanout."events"]
children = ["events.a", "events.b"]
"""
)
JSON = {"Content_Type": "application/json"}
WAYS = {
    "/v1/queues/jobs/messages": (JOBS,),
    "/v1/queues/left/messages": (LEFT,),
    "/v1/fanouts/events/messages": (A, B),
}


class WebLine(WebClient):
    """One connection of HTTP that is cut with the others."""

    def __init__(self, port: int, lines: Lines) -> None:
        super().__init__(port)
        self.lines = lines
        lines.wires.append(self)  # type: ignore[arg-type]  # of which its socket is used

    def answer(self) -> Answer:
        found = super().answer()
        if self.lines.are_cut.is_set():
            raise Gone("its connection is cut")
        return found


class WebTalk:
    """A client of the crowd. port: where the broker listens in this life of it."""

    port = 0

    def run(self, wire: Wire) -> None:
        assert isinstance(wire, Line)
        with WebLine(self.port, wire.lines) as client:
            self.talk(client)

    def talk(self, client: WebLine) -> None:
        """Until the connection ends."""
        raise NotImplementedError


class Publisher(WebTalk):
    """One message each, or batches, WINDOW of them unanswered."""

    def __init__(self, number: int, books: Books, seed: str) -> None:
        self.name = f"w{number}"
        self.books = books
        self.random = random.Random(f"{seed} {self.name}")
        self.count = 0

    def talk(self, client: WebLine) -> None:
        waiting: deque[list[str]] = deque()
        while True:
            while len(waiting) < WINDOW:
                waiting.append(self.publish(client))
            answer = client.answer()
            names = waiting.popleft()
            assert answer.status == 201, answer
            for name in names:
                self.books.sent(name)

    def publish(self, client: WebLine) -> list[str]:
        path = self.random.choice([*WAYS])
        names = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            names.append(f"{self.name}.{self.count}")
            self.books.sending(names[-1], WAYS[path])
            self.count += 1
        if len(names) == 1:
            client.send(request("POST", path, body_of(names[0]), Content_Type="application/octet-stream"))
        else:
            batch = [{"body_base64": _base64(body_of(name))} for name in names]
            client.send(request("POST", path, json.dumps({"messages": batch}).encode(), **JSON))
        return names


@dataclass
class Tokens:
    """Those that were given, by the numbers of their leases: in this life of the broker, and in the ones before."""

    now: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)

    def given(self, token: str) -> None:
        self.now[token.partition(".")[0]] = token

    def begin_anew(self) -> None:
        self.before |= self.now
        self.now.clear()

    def wrong(self, token: str) -> str:
        """Another one of the same number: of a life before, or one that was never given."""
        number, _, proof = token.partition(".")
        return self.before.get(number, f"{number}.{proof[::-1]}")


class Lessee(WebTalk):
    """Receives, and says what becomes of each. unsettled: tokens of lives before, which must settle nothing any more.
    kill: ends the broker at the next answer to a settle.
    """

    kill: Callable[[], None] | None = None

    def __init__(self, number: int, books: Books, seed: str, queue: str, tokens: Tokens) -> None:
        self.books = books
        self.tokens = tokens
        self.random = random.Random(f"{seed} l{number}")
        self.queue = queue
        self.path = f"/v1/queues/{queue.removeprefix('/queue/')}/receive"
        self.unsettled: list[str] = []

    def talk(self, client: WebLine) -> None:
        for verdict in self.settle(client, [{"lease": token, "action": "ack"} for token in self.unsettled]):
            if verdict.get("code") != "lease-over":
                self.books.found.append(f"a lease of another life is answered {verdict}")
        self.unsettled.clear()
        while True:
            is_short = self.random.random() < 0.1
            lease_ms = SHORT_MS if is_short else LONG_MS
            asked = {"max": self.random.choice((1, 5, 20)), "wait_ms": 200, "lease_ms": lease_ms}
            client.send(request("POST", self.path, json.dumps(asked).encode(), **JSON))
            answer = client.answer()
            if answer.status == 204:
                continue
            assert answer.status == 200, answer
            messages = json.loads(answer.body)["messages"]
            held = [(one["lease"], self.note(one)) for one in messages]
            self.unsettled = [token for token, _ in held]
            for token in self.unsettled:
                self.tokens.given(token)
            if is_short:
                self.let_run_out(client, held)
            else:
                self.answer(client, held)
            self.unsettled.clear()

    def note(self, message: dict[str, Any]) -> Copy:
        return self.books.delivered(self.queue, _body(message), message["id"], message["redelivered"], in_order=False)

    def answer(self, client: WebLine, held: list[tuple[str, Copy]]) -> None:
        """Some are extended first, some are left unanswered for a while."""
        if self.random.random() < 0.2:
            extended = [{"lease": token, "action": "extend", "lease_ms": LONG_MS} for token, _ in held]
            for verdict in self.settle(client, extended):
                if not verdict["ok"]:
                    self.books.found.append(f"a lease that goes on cannot be extended: {verdict}")
        wrong = [{"lease": self.tokens.wrong(token), "action": "ack"} for token, _ in held]
        for verdict in self.settle(client, wrong if self.random.random() < 0.2 else []):
            if verdict.get("code") != "lease-over":
                self.books.found.append(f"a token that was not given in this life is answered {verdict}")
        settlements, copies = [], []
        for token, copy in held:
            action = self.random.choices(("ack", "release", "reject"), (8, 2, 0.2))[0]
            delay = {"delay_ms": self.random.choice((0, 50, 400))} if action == "release" else {}
            settlements.append({"lease": token, "action": action, **delay})
            copies.append(copy if action == "ack" else None)
            self.books.giving_up(copy)
        for copy, verdict in zip(copies, self.settle(client, settlements), strict=True):
            if not verdict["ok"]:
                self.books.found.append(f"a lease that goes on cannot be settled: {verdict}")
            elif copy is not None:
                self.books.acked(copy)

    def let_run_out(self, client: WebLine, held: list[tuple[str, Copy]]) -> None:
        """From the answer on they last no longer than SHORT_MS; from the request on no shorter."""
        for _, copy in held:
            self.books.giving_up(copy)  # others may have it any moment
        time.sleep(SHORT_MS / 1000)
        for verdict in self.settle(client, [{"lease": token, "action": "ack"} for token, _ in held]):
            if verdict.get("code") != "lease-over":
                self.books.found.append(f"a lease that is over is answered {verdict}")

    def settle(self, client: WebLine, settlements: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not settlements:
            return []
        client.send(request("POST", "/v1/settle", json.dumps({"settlements": settlements}).encode(), **JSON))
        answer = client.answer()
        if self.kill is not None:
            self.kill()
        assert answer.status == 200, answer
        verdicts: list[dict[str, Any]] = json.loads(answer.body)["verdicts"]
        return verdicts


class LeaseLife(Life):
    """One data directory with a crowd over HTTP."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name, CONFIG)
        seed = f"{run.seed} {name}"
        self.tokens = Tokens()
        self.web: list[WebTalk] = [
            *(Publisher(number, self.books, seed) for number in range(3)),
            *(Lessee(number, self.books, seed, QUEUES[number % len(QUEUES)], self.tokens) for number in range(6)),
        ]
        self.clients = self.web  # type: ignore[assignment]
        self.amqp_clients = []

    def _kill_loaded(self) -> None:
        self.start("killed")
        if self.chance.random() < 0.2:
            self.lose_all_clients()
        with self.talking():
            time.sleep(self.load_s())
            if not self.broker.is_running:
                self.run.violation(f"It ended by itself before it was killed: {self.broker.log[-1500:]}")
            if self.chance.random() < 0.7:
                self._kill_at_an_answer()
            self.broker.kill()

    def _kill_at_an_answer(self) -> None:
        """At once behind it: what it says must be on the disk already."""
        assert self.broker.process is not None
        lessees = [one for one in self.web if isinstance(one, Lessee)]
        for one in lessees:
            one.kill = self.broker.process.kill
        with suppress(TimeoutExpired):
            self.broker.wait(ANSWER_WITHIN_S)
        for one in lessees:
            one.kill = None

    def start(self, after: str) -> None:
        super().start(after)
        self.tokens.begin_anew()
        line = self.broker.wait_for_log("listening address=http://", since=self._lines_before_the_last_start())
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None
        for client in self.web:
            client.port = int(found[1])

    def _lines_before_the_last_start(self) -> int:
        """The last line about `listening` over TCP, behind which that of HTTP comes."""
        lines = self.broker.log.splitlines()
        return max(number for number, line in enumerate(lines) if f"listening address={self.broker.address}" in line)

    def lose_all_clients(self) -> None:
        """Every connection is lost, and leases run on, as long as they do: the broker is killed for the long ones."""
        with talking(self.broker, [one.run for one in self.clients]) as lines:
            time.sleep(self.load_s())
            lines.cut(2 * len(self.clients))
        deadline_s = time.monotonic() + GONE_WITHIN_S
        leased = {name: numbers["unacked"] for name, numbers in stats(self.broker)["queues"].items()}
        held = {queue: sum(copy[0] == f"/queue/{queue}" for copy in self.books.held) for queue in leased}
        if any(leased[queue] < count for queue, count in held.items()):
            self.run.violation(f"{held} were leased when their connections were lost, and {leased} are")
        while time.monotonic() < deadline_s:
            time.sleep(0.05)
            if stats(self.broker)["connections"] == 1:
                break
        self.broker.kill()
        self.books.broker_ended()
        self.start("killed, with leases of lost connections")

    def judge(self, after: str) -> None:
        """A new start; then everything that is left is taken out by leases, and the books are read."""
        self.start(after)
        with suppress(ConnectionError), WebClient(self.web[0].port) as client:
            for queue in QUEUES:
                self._drain(client, queue)
        left = {name: numbers["messages"] for name, numbers in stats(self.broker)["queues"].items()}
        if any(left.values()):
            self.run.violation(f"After it was {after}, {left} are still there when nothing comes any more")
        if self.broker.stop() != 0 or "Traceback" in self.broker.log:
            self.run.violation(f"After it was {after} there was no clean stop: {self.broker.log[-2000:]}")
        for fault in self.books.faults():
            self.run.violation(f"After it was {after}: {fault}")
        for name, count in (("answered 201", len(self.books.receipted)), ("acked", len(self.books.ack_receipts))):
            self.run.figures[name] = int(self.run.figures.get(name, 0)) + count
            if not count:
                raise RuntimeError(f"Nothing was {name}: there was no load.")

    def _drain(self, client: WebClient, queue: str) -> None:
        path, body = f"/v1/queues/{queue.removeprefix('/queue/')}/receive", b'{"max": 1000, "wait_ms": 1000}'
        while (answer := client.ask("POST", path, body, **JSON)).status == 200:
            messages = json.loads(answer.body)["messages"]
            for one in messages:
                copy = self.books.delivered(queue, _body(one), one["id"], one["redelivered"], in_order=False)
                self.books.giving_up(copy)
            settlements = [{"lease": one["lease"], "action": "ack"} for one in messages]
            done = client.ask("POST", "/v1/settle", json.dumps({"settlements": settlements}).encode(), **JSON)
            assert all(verdict["ok"] for verdict in json.loads(done.body)["verdicts"]), done


def _base64(body: bytes) -> str:
    return b64encode(body).decode()


def _body(message: dict[str, Any]) -> bytes:
    return b64decode(message["body_base64"]) if "body_base64" in message else message["body"].encode()


def leases(run: Run) -> None:
    number = 0
    while not run.is_over:
        life = LeaseLife(run, f"life-{number}")
        number += 1
        try:
            for _ in range(min(KILLS_OF_A_HUNT if run.is_hunt else KILLS_OF_A_LIFE, run.cases - run.done)):
                life.kill_once()
                run.case()
            life.judge("killed")
        finally:
            life.broker.kill()


CAMPAIGNS = (
    Campaign(
        number="T29",
        name="leases",
        title="kills a broker at random times under producers and lessees over HTTP",
        unit="kills",
        run=leases,
        cases=(8, 300, 1500),
        mutants=(
            "lease-forged",
            "lease-has-no-end",
            "published-before-commit",
            "lease-key-of-every-run",
            "settled-before-commit",
        ),
        mutant_cases=20,
        quick_mutants=3,
        needs=("linux",),
    ),
)
