"""What it costs to be looked at: `python -m benchmarks.overview`.

A broker has 10,000 queues with five messages each, which nobody takes, so that all of them need somebody. Messages go
end to end through another queue, from 8 producers with one receipt outstanding each to 8 consumers: in turns while
nobody asks, and while five clients have a console open, each of which asks every two seconds for the table of queues,
what needs somebody, and what is new of the history. Of each: messages a second, and the broker's CPU for each message,
which other work of the machine changes less. Then the longest turn of the dispatcher meanwhile, in CPU time.

--before TREE: a broker of that checkout, with as many queues, takes its turns too: what sampling costs. --queues N: so
many of them.
"""

import argparse
import http.client
import statistics
import sys
import tempfile
import threading
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import number_of_rounds, ratio
from benchmarks.shapes import END_TO_END
from radiator.tools.cli.load import Load, StompWire, process_cpu_s
from tests.acceptance.wire import Wire
from tests.broker_process import CHECKOUT, BrokerProcess
from tests.server.web import OPEN, port_of

CONSOLES, ASK_EVERY_S = 5, 2.0
MESSAGES, AT_ONCE = 5, 1000
CONFIG = OPEN + "[limits]\nmax_destinations = 20000\n"
PROGRAM = """
import sys, time
from radiator.core.broker import Broker
inner = Broker.turn
def turn(self, *given):
    began_s = time.thread_time()
    found = inner(self, *given)
    took_s = time.thread_time() - began_s
    if took_s > 0.001:
        with open(TURNS, "a") as file:
            file.write(f"{took_s:.6f}\\n")
    return found
Broker.turn = turn
from radiator.tools.cli import main
sys.exit(main())
"""
"""A broker that writes down its turns of more than a millisecond."""


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fill(broker: BrokerProcess, queues: int) -> None:
    with Wire((broker.host, broker.port)) as client:
        client.connect()
        for first in range(0, queues, AT_ONCE):
            frames = [
                b"SEND\ndestination:/queue/site-%d.orders\n\nx\0" % number
                for number in range(first, min(queues, first + AT_ONCE))
                for _ in range(MESSAGES)
            ]
            client.send_raw(b"".join(frames))
            client.send_raw(b"SEND\ndestination:/queue/last\nreceipt:r\n\nx\0")
            client.read_frame()


class Consoles:
    """In a `with` they ask."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_over = threading.Event()
        self.threads: list[threading.Thread] = []
        self.asked = 0

    def __enter__(self) -> "Consoles":
        self.is_over.clear()
        self.threads = [threading.Thread(target=self.ask, args=(nth,)) for nth in range(CONSOLES)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def ask(self, nth: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        self.is_over.wait(ASK_EVERY_S * nth / CONSOLES)
        sorts = ("-ready", "-ready", "-ready", "-in", "name")
        while not self.is_over.is_set():
            after_ms = int((time.time() - ASK_EVERY_S - 1) * 1000)
            for path in (f"queue-table?sort={sorts[nth]}", "attention", f"history?after_ms={after_ms}"):
                client.request("GET", f"/v1/{path}")
                answer = client.getresponse()
                assert answer.status == 200, answer.read()
                answer.read()
                self.asked += 1
            self.is_over.wait(ASK_EVERY_S)
        client.close()


@dataclass(slots=True)
class Case:
    """One broker, asked or not, and what its rounds have found."""

    name: str
    broker: BrokerProcess
    is_asked: bool
    per_s: list[float]
    cpu_us: list[float]

    def asking(self) -> AbstractContextManager[object]:
        return Consoles(port_of(self.broker.log, "http")) if self.is_asked else nullcontext()

    def measure(self, seconds: float) -> None:
        broker = self.broker
        with self.asking():
            wire = StompWire("/queue/moving", body_bytes=256)
            load = Load((broker.host, broker.port), wire, END_TO_END, lambda: process_cpu_s(broker.pid))
            found = load.measure(seconds)
            load.settle()
            load.close()
        self.per_s.append(found.per_s)
        self.cpu_us.append(found.broker_cpu_s / found.messages * 1e6)


def idle_cpu(case: "Case", seconds: float) -> float:
    """The broker's share of a CPU while no message moves, in percent."""
    with case.asking():
        before_s = process_cpu_s(case.broker.pid)
        time.sleep(seconds)
        return (process_cpu_s(case.broker.pid) - before_s) / seconds * 100


def begun(
    stack: ExitStack, queues: int, tree: Path = CHECKOUT, program: tuple[str, ...] = ("-m", "radiator")
) -> BrokerProcess:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    broker = stack.enter_context(BrokerProcess(directory, CONFIG, program=program, tree=tree))
    broker.wait_for_log("listening address=http://")
    fill(broker, queues)
    return broker


def turns(queues: int, seconds: float) -> None:
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "turns"
        broker = begun(stack, queues, program=("-c", PROGRAM.replace("TURNS", repr(str(file)))))
        consoles = Consoles(port_of(broker.log, "http"))
        file.write_text("")
        with consoles:
            time.sleep(seconds)
        took_ms = sorted(float(line) * 1000 for line in file.read_text().split())[::-1]
        shown = ", ".join(f"{one:.1f}" for one in took_ms[:5]) or "none over 1"
        write(f"{consoles.asked} answers in {seconds:.0f} s; the longest turns, in ms of CPU: {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overview", description=__doc__)
    parser.add_argument("--before", metavar="TREE", type=Path)
    parser.add_argument("--queues", metavar="N", type=int, default=10_000)
    parser.add_argument("--rounds", metavar="N", type=number_of_rounds, default=5)
    parser.add_argument("--seconds", metavar="S", type=float, default=4.0)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        broker = begun(stack, arguments.queues)
        cases = [Case("nobody asks", broker, False, [], []), Case("five consoles", broker, True, [], [])]
        if arguments.before is not None:
            before = begun(stack, arguments.queues, arguments.before.resolve())
            cases.insert(0, Case("before", before, False, [], []))
        idle: dict[str, list[float]] = {case.name: [] for case in cases}
        for _ in range(arguments.rounds):
            for case in cases:
                idle[case.name].append(idle_cpu(case, arguments.seconds))
        for name, shares in idle.items():
            write(f"{name:14} while no message moves: {statistics.median(shares):.2f} % of a CPU")
        for _ in range(arguments.rounds):
            for case in cases:
                case.measure(arguments.seconds)
        for case in cases:
            rate, cpu = ratio(case.per_s, cases[0].per_s), ratio(case.cpu_us, cases[0].cpu_us)
            write(
                f"{case.name:14} {statistics.median(case.per_s):8,.0f}/s ({rate:.3f})  "
                f"{statistics.median(case.cpu_us):6.1f} us of CPU a message ({cpu:.3f})"
            )
    turns(arguments.queues, 5 * arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
