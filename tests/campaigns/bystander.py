"""Somebody who does nothing wrong while others do: are they held up? And what the broker takes of memory meanwhile."""

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess

PAUSE_S = 0.004  # between two of its messages: some hundred a second


class Bystander:
    """Sends to a durable queue with a receipt, gets it back and acks it, over and over, in a thread of its own.

    times_ms: how long each of these rounds took. Leaving `with` raises what went wrong with it.
    """

    def __init__(self, broker: BrokerProcess, name: str = "bystander") -> None:
        self._queue = f"/queue/{name}"
        self._wire = Wire((broker.host, broker.port))
        self._wire.connect()
        self._wire.subscribe(self._queue)
        self._is_over = threading.Event()
        self._wrong: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.times_ms: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(30)
        self._wire.close()
        if error is None and self._wrong is not None:
            raise AssertionError(f"a client that did nothing wrong was held up or lost: {self._wrong!r}")

    def _work(self) -> None:
        try:
            while not self._is_over.wait(PAUSE_S):
                began_s = time.monotonic()
                self._wire.send(self._queue, "here")
                self._wire.ack(self._wire.message())
                self.times_ms.append((time.monotonic() - began_s) * 1000)
        except BaseException as wrong:  # noqa: BLE001 - told by __exit__
            self._wrong = wrong

    def p99_ms(self) -> float:
        assert len(self.times_ms) >= 20, f"the bystander had only {len(self.times_ms)} rounds"
        return sorted(self.times_ms)[int(len(self.times_ms) * 0.99)]


class Operator:
    """A connection that asks /admin, and nothing else. It may come back after a restart of the broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._wire = Wire((broker.host, broker.port))
        self._wire.connect()

    def close(self) -> None:
        self._wire.close()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return dict(json.loads(self._wire.admin(json.dumps(request).encode())))

    def stats(self) -> dict[str, Any]:
        answer = self.ask({"do": "stats"})
        assert answer["ok"], answer
        return answer


def in_pieces(data: bytes, chance: Random) -> list[bytes]:
    """The same bytes, cut at up to eight places, or not at all."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 2, 8))))
    return [data[start:end] for start, end in pairwise((0, *cuts, len(data))) if start < end]


def memory_bytes(pid: int) -> int:
    """What a process has in memory now."""
    return _status_bytes(pid, "VmRSS")


def peak_memory_bytes(pid: int) -> int:
    """The most that it ever had."""
    return _status_bytes(pid, "VmHWM")


def _status_bytes(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(key)
