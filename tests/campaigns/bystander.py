"""Somebody who does nothing wrong while others do: are they held up? And what the broker takes of memory meanwhile."""

import contextlib
import json
import select
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.campaign import Run

PAUSE_S = 0.004  # between two of its messages: some hundred a second
QUIET_ROUNDS = 40
P99_MAX_MS = 100.0


class Bystander:
    """Sends to a durable queue with a receipt, gets it back and acks it, over and over; a process of its own, so that
    what its campaign does meanwhile does not hold it up. is_operator: it comes by the operators' unix socket, and so
    needs no login.

    times_ms: how long each of these rounds took, since `with` began: then it had QUIET_ROUNDS behind it, in peace.
    Leaving `with` raises what went wrong with it.
    """

    def __init__(self, broker: BrokerProcess, queue: str = "/queue/bystander", *, is_operator: bool = False) -> None:
        address = (broker.unix_path, "0") if is_operator else (broker.host, str(broker.port))
        self.times_ms: list[float] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.campaigns.bystander", *address, queue],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._out = self._process.stdout
        if self._out.readline() != "ready\n":
            raise AssertionError(f"a client that does nothing wrong cannot connect: {self._end()}")
        self._quiet_p99_ms = 0.0
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        self.wait(QUIET_ROUNDS)
        if len(self.times_ms) < QUIET_ROUNDS:
            raise AssertionError(f"a client that does nothing wrong is not served: {self._end()}")
        self._quiet_p99_ms = self.p99_ms()
        self.times_ms = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found = self._end()
        if error is None and self._process.returncode != 0:
            raise AssertionError(f"a client that did nothing wrong was held up or lost: {found}")

    def wait(self, rounds: int = 50, within_s: float = 20.0) -> None:
        """Until there are rounds enough to judge from now on."""
        wanted = len(self.times_ms) + rounds
        deadline_s = time.monotonic() + within_s
        while len(self.times_ms) < wanted and time.monotonic() < deadline_s and self._process.poll() is None:
            time.sleep(0.01)

    def p99_ms(self) -> float:
        assert len(self.times_ms) >= 20, f"a client that does nothing wrong had only {len(self.times_ms)} rounds"
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.99)]

    @property
    def p99_max_ms(self) -> float:
        """What its p99 may be: P99_MAX_MS, and more only where the machine is so busy that it took long in peace."""
        return max(P99_MAX_MS, 5 * self._quiet_p99_ms)

    def _read(self) -> None:
        for line in self._out:
            self.times_ms.append(float(line))

    def _end(self) -> str:
        """It stops by itself when nobody holds its other end; what it said of its end."""
        assert self._process.stdin is not None and self._process.stderr is not None
        self._process.stdin.close()
        printed = self._process.stderr.read()
        self._process.wait()
        for pipe in (self._process.stderr, self._out):
            with contextlib.suppress(OSError):
                pipe.close()
        return printed[-1500:]


def stand_by(host: str, port: int, queue: str) -> None:
    """port: 0 where host is the path of a unix socket."""
    with Wire((host, port) if port else host) as wire:
        wire.connect()
        wire.subscribe(queue)
        print("ready", flush=True)
        while not select.select((sys.stdin,), (), (), PAUSE_S)[0]:
            began_s = time.monotonic()
            wire.send(queue, "here")
            wire.ack(wire.message())
            print((time.monotonic() - began_s) * 1000, flush=True)


class Operator:
    """A connection that asks /admin, and nothing else. It may come back after a restart of the broker.

    is_unix: it comes by the operators' unix socket.
    """

    def __init__(self, broker: BrokerProcess, *, is_unix: bool = False) -> None:
        self._wire = Wire(broker.unix_path if is_unix else (broker.host, broker.port))
        self._wire.connect()

    def close(self) -> None:
        self._wire.close()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return dict(json.loads(self._wire.admin(json.dumps(request).encode())))

    def stats(self) -> dict[str, Any]:
        answer = self.ask({"do": "stats"})
        assert answer["ok"], answer
        return answer


@contextmanager
def upright(run: Run, broker: BrokerProcess) -> Iterator[None]:
    """Within, whoever does nothing wrong must get a right answer; at the end the broker runs, and had no bug."""
    try:
        yield
    except (Gone, TimeoutError, ConnectionError, StopIteration, LookupError, ValueError):  # what a Wire raises
        run.violation(
            f"A client that did nothing wrong got no right answer:\n{traceback.format_exc()}\n{end_of(broker)}"
        )
    if not broker.is_running or "Traceback" in broker.log:
        run.violation(f"The broker did not take it well: {end_of(broker)}")


def end_of(broker: BrokerProcess) -> str:
    return f"{'it runs' if broker.is_running else 'it has ended'}; its log ends {broker.log[-2000:]}"


def in_pieces(data: bytes, chance: Random) -> list[bytes]:
    """The same bytes, cut at up to eight places, or not at all."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 2, 8))))
    return [data[start:end] for start, end in pairwise((0, *cuts, len(data))) if start < end]


def memory_bytes(pid: int) -> int:
    """What a process has in memory now, without files that are mapped: a store's pages are the system's to drop."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"the system does not say how much memory process {pid} has")


class Meter:
    """How much the memory of a process grows from now on: the most of what each `look` found."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before_bytes = memory_bytes(pid)
        self.growth_bytes = 0

    def look(self) -> int:
        self.growth_bytes = max(self.growth_bytes, memory_bytes(self._pid) - self._before_bytes)
        return self.growth_bytes


if __name__ == "__main__":
    stand_by(sys.argv[1], int(sys.argv[2]), sys.argv[3])
