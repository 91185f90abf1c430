"""T1h and T2h: the crash points of T1 and the power states of T2, with a client that speaks HTTP (web_scenario.py).

What was answered 201 is found, a batch whole or not at all; what was answered as settled never comes again, is among
the dead letters, or has its new count and its delay; what was leased and not settled comes again. T1h asks the next
broker too: the tokens of before settle nothing, and a key that was answered as stored is known.

They see what T1 and T2 see, and no more: one connection, and leases that do not run out (T10 and T29 have these).
"""

import re
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

from tests.broker_process import BrokerProcess
from tests.campaigns import web_scenario
from tests.campaigns.campaign import Campaign
from tests.campaigns.crash_points import Case, crash
from tests.campaigns.power_states import Record, cut_everywhere
from tests.campaigns.scenario import DEEDS
from tests.campaigns.web_scenario import Client, port_of
from tests.server.web import WebClient

LISTENING = "listening address=http://"
QUIET_S = 0.7  # the tables follow within half a second: then no write is under way, of which the trace tells only half
HEAD = re.compile(rb"HTTP/1\.1 \d")


class WebCase(Case):
    """ends_with_settle: else with a publish: the kill behind it shows whether that answer was true. is_stopped: it was
    asked to end in order, and may have done so before it was killed: then only what was leased is marked.
    """

    config = web_scenario.CONFIG
    port = 0
    client: Client | None = None
    is_stopped = False

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.ends_with_settle = Random(f"{seed} {directory.name}").random() < 0.5

    def start(self, options: list[str] | None = None) -> None:
        lines_before = len(self.broker.log.splitlines())
        super().start(options)
        self.port = port_of(self.broker.wait_for_log(LISTENING, since=lines_before))

    def talk(self, deeds: int, end: Callable[[], object]) -> None:
        with WebClient(self.port) as web:
            self.client = client = Client(web, self.history, Random(self.seed))
            try:
                client.do_all(deeds)
                client.end(self.ends_with_settle)
            except ConnectionError:
                client.hear_the_last()
            end()

    def stop(self) -> None:
        self.is_stopped = True
        super().stop()

    def complaint(self, is_reached: bool) -> str:
        return super().complaint(is_reached and not self.is_stopped)

    def judge_a_new_life(self) -> str:
        if self.client is None:
            return ""
        with WebClient(self.port) as self.client.web:
            return self.client.judge_a_new_life()


class WebRecord(Record):
    config = web_scenario.CONFIG

    def load(self, broker: BrokerProcess, seed: int) -> None:
        port = port_of(broker.wait_for_log(LISTENING))
        with WebClient(port) as web:
            client = Client(web, self.history, Random(seed))
            client.do_all(DEEDS)
            time.sleep(QUIET_S)
            broker.kill()
        self.requests = client.requests

    def answers(self) -> Generator[int, bytes]:
        """Answers come in the order of the requests."""
        last = {0: 0}  # by the number of answers
        for number in self.requests:
            last[len(last)] = number if self.history.changes(number) else last[len(last) - 1]
        count, tail = 0, b""
        while True:
            tail += yield last[count]
            heads = [*HEAD.finditer(tail)]
            count += len(heads)
            tail = tail[heads[-1].end() :][-16:] if heads else tail[-16:]


CAMPAIGNS = (
    Campaign(
        number="T1h",
        name="web-crash-points",
        title="kills a broker under a client of HTTP, at every call by which it writes, syncs, names or answers",
        unit="crash points",
        run=partial(crash, made=WebCase),
        cases=(6, 600, 3000),
        mutants=(
            "settled-before-commit",
            "published-before-commit",
            "dedup-not-written",
            "redelivery-count-not-written",
        ),
        mutant_cases=200,
        quick_mutants=1,
        needs=("strace_attach",),
        limit_s=(180, 3600, 4 * 3600),
    ),
    Campaign(
        number="T2h",
        name="web-power-states",
        title="opens what a power cut may leave of the disk under a client of HTTP, at every write, in every mixture",
        unit="disk states",
        run=partial(cut_everywhere, made=WebRecord),
        cases=(150, 20_000, 200_000),
        mutants=(
            "settled-before-commit",
            "published-before-commit",
            "receipt-before-the-wal-is-synced",
            "fanout-in-two-batches",
            "nack-delay-in-two-batches",
        ),
        mutant_cases=3_000,
        quick_mutants=2,
        needs=("strace",),
        limit_s=(180, 3600, 6 * 3600),
    ),
)
