"""T25c: a user takes of everything as much as it can get, on many connections, beside somebody who does nothing wrong.

Connections, subscriptions, destinations, unacked messages, open transactions, what is stored, SENDs a second: the user
has a bound of each in its table, and what it has in use, by `stats`, never passes one of them by more than the document
allows. It also asks over and over for what it may not: of that the audit log has a bounded number of records, and how
many there are not. Meanwhile a bystander sends, gets and acks. In the end the user's connections go, and all that they
had with them; and after `kill -9` what the user has made still counts.

It cannot see bounds that change while they are reached (tests/core/test_usage.py).
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from radiator.auth.tokens import sha256_of, text_of
from radiator.model.errors import FORBIDDEN
from radiator.model.limits import AUDIT_EVERY_S, AUDIT_OF_ONE, KIB
from tests.acceptance.conftest import stats
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.bystander import Bystander, upright
from tests.campaigns.campaign import Campaign, Run

TOKEN = text_of(bytes(32))
CONNECTIONS, SUBSCRIPTIONS, DESTINATIONS, RATE = 30, 50, 20, 2000
UNACKED_BYTES, MEMORY_BYTES, STORED_BYTES = 64 * KIB, 512 * KIB, 256 * KIB
BODY = b"x" * KIB
CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[journal]
enabled = true
[limits]
max_destinations = 200
transaction_max_s = 20
block_timeout_s = 3
[queue."bystander"]
[queue."goods"]
[queue."t"]
[user."anonymous"]
role = "operator"
[user."greedy"]
tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]
read = ["/#"]
write = ["/#"]
max_connections = {CONNECTIONS}
max_subscriptions = {SUBSCRIPTIONS}
max_destinations = {DESTINATIONS}
max_unacked_bytes = {UNACKED_BYTES}
max_memory_bytes = {MEMORY_BYTES}
max_stored_bytes = {STORED_BYTES}
max_messages_per_s = {RATE}
"""
WEIGHED_S = 1.0  # several weighings
WITHIN_S = 10.0
REFUSED = 300


class Greedy:
    """The user, on one broker; what it says in vain is passed over."""

    def __init__(self, broker: BrokerProcess, run: Run) -> None:
        self.broker = broker
        self.run = run
        self.stack = ExitStack()
        self.wires: list[Wire] = []
        self.forbidden = 0
        for number in range(2):
            self.wire().send(f"/queue/stored.{number}", b"y")

    def wire(self) -> Wire:
        wire = Wire((self.broker.host, self.broker.port))
        self.stack.enter_context(wire)
        wire.connect({"login": "greedy", "passcode": TOKEN})
        self.wires.append(wire)
        return wire

    def in_use(self) -> dict[str, Any]:
        found: dict[str, Any] = stats(self.broker)["users"].get("greedy", {})
        return found

    def await_(self, is_so: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Judges what is in use, until it is so."""
        deadline_s = time.monotonic() + WITHIN_S
        while not is_so(numbers := self.in_use()):
            if time.monotonic() > deadline_s:
                self.run.violation(f"{what}: not within {WITHIN_S:g} s, but {numbers}")
                return
            time.sleep(0.05)

    def judge(self, name: str, most: int) -> None:
        count = self.in_use()[name]
        self.run.figures[f"most of {name}"] = max(self.run.figures.get(f"most of {name}", 0), count)
        if count > most:
            self.run.violation(f"A user has {count} of {name}: its bound is {most}.")

    # ---- what it takes ----------------------------------------------------------------------------------------------

    def connections(self) -> None:
        before = self.in_use().get("connections", 0)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS + 10):
                wire = Wire((self.broker.host, self.broker.port))
                stack.enter_context(wire)
                wire.connect({"login": "greedy", "passcode": TOKEN})
            self.judge("connections", CONNECTIONS)
        self.await_(lambda numbers: numbers.get("connections", 0) <= before, "connections that were closed")

    def subscriptions(self) -> None:
        for connection in range(3):
            wire = self.wire()
            with suppress(Gone, ConnectionError, AssertionError):
                for number in range(SUBSCRIPTIONS // 2):
                    wire.ask(
                        "SUBSCRIBE", {"id": str(number), "destination": f"/topic/t{connection}.{number}", "ack": "auto"}
                    )
        self.judge("subscriptions", SUBSCRIPTIONS)

    def destinations(self) -> None:
        for connection in range(2):
            wire = self.wire()
            with suppress(Gone, ConnectionError, AssertionError):
                for number in range(DESTINATIONS):
                    wire.send(f"/queue/made.{connection}.{number}", b"y")
        self.judge("destinations", DESTINATIONS)

    def unacked(self) -> None:
        with Wire((self.broker.host, self.broker.port)) as wire:
            wire.connect()
            for _ in range(3 * UNACKED_BYTES // len(BODY)):
                wire.send("/queue/goods", BODY)
        for _ in range(3):
            wire = self.wire()
            wire.subscribe("/queue/goods", headers={"prefetch-count": "1000"})
        self.await_(lambda numbers: numbers["unacked_bytes"] >= UNACKED_BYTES, "unacked messages up to the bound")
        self.judge("unacked_bytes", UNACKED_BYTES + 2 * len(BODY))

    def memory(self) -> None:
        """Transactions that stay open, in turn on three connections."""
        wires = [self.wire() for _ in range(3)]
        for wire in wires:
            wire.ask("BEGIN", {"transaction": "t"})
        for wire in wires:
            with suppress(Gone, ConnectionError, AssertionError):
                for _ in range(MEMORY_BYTES // len(BODY) // 2):
                    wire.send_frame("SEND", {"destination": "/queue/t", "transaction": "t"}, BODY)
        time.sleep(WEIGHED_S)
        self.await_(lambda numbers: numbers["memory_bytes"] <= MEMORY_BYTES, "less in memory than the bound")
        if not any(is_refused(wire) for wire in wires):
            self.run.violation("Past max_memory_bytes of a user none of its three connections is closed.")

    def stored(self) -> None:
        for number in range(3):
            wire = self.wire()
            frame = wire.frame("SEND", {"destination": f"/queue/stored.{number % 2}"}, BODY)
            wire.send_raw(frame * (STORED_BYTES // len(BODY)))
        # 64: the headers of one
        self.await_(lambda numbers: numbers["stored_bytes"] > STORED_BYTES - len(BODY) - 64, "stored up to the bound")
        time.sleep(WEIGHED_S)
        self.judge("stored_bytes", STORED_BYTES)

    def rate(self) -> None:
        """A second without a SEND saves nothing up."""
        time.sleep(2 * WEIGHED_S)
        wires = [self.wire() for _ in range(2)]
        before, began_s = stats(self.broker)["queues"]["t"]["accepted"], time.monotonic()
        for wire in wires:
            wire.send_raw(wire.frame("SEND", {"destination": "/queue/t"}, b"z") * (3 * RATE))
        time.sleep(WEIGHED_S)
        accepted = stats(self.broker)["queues"]["t"]["accepted"] - before
        most = RATE * (1 + time.monotonic() - began_s)
        self.run.figures["messages/s of the bound"] = round(accepted / (1 + time.monotonic() - began_s) / RATE, 2)
        if accepted > most:
            self.run.violation(f"Of {most:.0f} messages that may have come by now {accepted} have.")

    def refusals(self) -> None:
        """Requests that only an operator may make."""
        wire = self.wire()
        for _ in range(REFUSED):
            assert json.loads(wire.admin(b'{"do": "drain"}'))["code"] == "forbidden"
        self.forbidden += REFUSED

    def leave(self) -> None:
        """All its connections go; what it has made stays."""
        self.stack.close()
        self.wires.clear()
        kept = ("destinations", "stored_bytes")
        self.await_(
            lambda numbers: (
                not any(value for key, value in numbers.items() if not key.startswith("max_") and key not in kept)
            ),
            "nothing of connections that are gone",
        )


def is_refused(wire: Wire) -> bool:
    with suppress(Gone, ConnectionError, TimeoutError, AssertionError):
        wire.refusal(WEIGHED_S)
        return True
    return False


GREEDS = (
    Greedy.connections,
    Greedy.subscriptions,
    Greedy.destinations,
    Greedy.unacked,
    Greedy.memory,
    Greedy.stored,
    Greedy.rate,
    Greedy.refusals,
)


def take_everything(run: Run) -> None:
    while not run.is_over:
        directory = run.directory / f"case-{run.done}"
        directory.mkdir()
        greeds = [*GREEDS]
        run.chance.shuffle(greeds)
        with BrokerProcess(directory, CONFIG) as broker, upright(run, broker):
            with Bystander(broker) as bystander:
                greedy = Greedy(broker, run)
                for greed in greeds:
                    greed(greedy)
                    if run.chance.random() < 0.3 or len(greedy.wires) > CONNECTIONS - 5:
                        greedy.leave()
                greedy.leave()
                p99_ms = bystander.p99_ms()
                run.figures["bystander p99 ms"] = max(run.figures.get("bystander p99 ms", 0), round(p99_ms, 1))
                if p99_ms > bystander.p99_max_ms:
                    run.violation(f"a bystander's rounds took {p99_ms:.0f} ms of p99, of {bystander.p99_max_ms:.0f}")
            audited(run, broker, greedy)
            survives(run, broker, greedy)
        run.case()


def audited(run: Run, broker: BrokerProcess, greedy: Greedy) -> None:
    """Of each request that was forbidden there is a record, or it is counted; of an operator's act there is one."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.admin(b'{"do": "purge", "queue": "goods"}')
        wire.subscribe("/log/audit", ack="auto", headers={"from": "earliest"})
        records, acts = [], 0
        deadline_s = time.monotonic() + AUDIT_EVERY_S + WITHIN_S
        while (sum(records) < greedy.forbidden or not acts) and time.monotonic() < deadline_s:
            with suppress(TimeoutError):
                record = json.loads(wire.message(WEIGHED_S).body)
                acts += (record.get("act"), record.get("outcome")) == ("purge", "done")
                if FORBIDDEN in (record["event"], record.get("of")):
                    records.append(record.get("records", 1))
    run.figures["records of refusals"] = len(records)
    if sum(records) != greedy.forbidden or len(records) > 2 * AUDIT_OF_ONE[FORBIDDEN] + 2:
        run.violation(f"Of {greedy.forbidden} refusals {len(records)} records of the audit log tell {sum(records)}.")
    if acts != 1:
        run.violation(f"Of a purge there are {acts} records in the audit log.")


def survives(run: Run, broker: BrokerProcess, greedy: Greedy) -> None:
    before = greedy.in_use().get("destinations", 0)
    broker.kill()
    broker.start()
    after = greedy.in_use().get("destinations", 0)
    if before != after or not before:
        run.violation(f"A user has made {before} destinations before kill -9, and {after} after it.")
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        for name in stats(broker)["queues"]:
            if name.startswith(("made.", "stored.")):
                answer = json.loads(wire.admin(json.dumps({"do": "delete", "queue": name}).encode()))
                assert answer["ok"], answer
    if greedy.in_use():
        run.violation(f"Of a user whose queues are deleted there is still {greedy.in_use()}.")


CAMPAIGNS = (
    Campaign(
        number="T25c",
        name="user-bounds",
        title="a user takes all that it can get of everything, and a bystander must not notice",
        unit="broker's lives",
        run=take_everything,
        cases=(1, 12, 100),
        mutants=(
            "connections-of-a-user-never-end",
            "user-closes-nobody-for-memory",
            "made-by-not-kept",
            "rate-of-a-user-saved-up",
            "unacked-of-a-user-uncounted",
            "stored-of-a-user-at-weighings-alone",
            "each-connection-its-own-subscriptions",
            "refusals-fill-the-audit-log",
            "forbidden-not-written-down",
            "acts-not-written-down",
            "left-out-not-counted",
        ),
        quick_mutants=1,
        needs=("linux",),
        is_timed=True,
    ),
)
