"""Broker, producer and driver of one campaign; what is killed, and the books over every message."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import tree
from radiator.auth.tokens import sha256_of, text_of
from radiator.client import Address, Client, ConnectionLost, NoAnswer, Reconnect
from radiator.model.errors import RadiatorError, Refusal
from tests.broker_process import SERVER, BrokerProcess, environment
from tests.integrations.spark.crashes.steps import EARLY, PLACE
from tests.ports import free_port
from tests.tls_broker import ENCRYPTED, TlsBroker

START_MAX_S = 120.0
STILL_MAX_S = 60.0  # at the end nothing more comes for so long
REACHED_MAX_S = 30.0  # a step that is not reached in this time is tried another time
TRIES = 3  # at a step that must be reached
LOG_END_CHARACTERS = 3000
LOOK_S = 0.002
CRASHES_OF_LIFE = 6  # of which the last ends the driver: its start takes longer than all others
BATCH = 10  # messages that the producer sends at once
PERIOD_S = 0.5  # how often
ROWS = 40  # of one batch of `batches`: driver.py
QUIET_S = 1.0
DRAINED_S = 0.1  # nothing comes for so long: it is looked whether there is anything
EARLY_MESSAGES = 300
CONFIG = """
[log."in"]
partitions = 2
[queue."work"]
dedup_window_s = 86400
[queue."early"]
[queue."copy"]
[queue."batches"]
[queue."twice"]
"""
ETL = text_of(bytes(32))  # the token of the driver's user
USERS = f"""
[user."etl"]
tokens = [{{ sha256 = "{sha256_of(ETL.encode())}" }}]
see = ["/log/in", "/queue/work", "/queue/early"]
read = ["/log/in", "/queue/work", "/queue/early"]
write = ["/queue/copy", "/queue/batches", "/queue/twice", "/app/#"]
"""
PIPELINES = ("files", "drain", "copy", "batches")
MODULES = {  # of Spark's processes: what their command has in it; the daemon that makes workers is one of them
    "worker": b"pyspark.worker",
    "reader": b"pyspark.sql.streaming.python_streaming_source_runner",
}
CONTROLS = ("twice", EARLY)  # broken on purpose: their books must be wrong


class Crash(NamedTuple):
    """victim: `broker`; `broker, a moment later`; `driver`; `worker`, a process of tasks; `reader`, one of a stream.

    At a step it may also be `process`: the one that has reached it, a task's; or `raise`, nothing is killed, the
    step fails; or `abort`: it fails, and the driver is killed when Spark aborts the batch. step: empty: at any time.
    """

    victim: str
    step: str = ""

    @property
    def ends_driver(self) -> bool:
        return self.victim in ("driver", "reader", "abort")

    def __str__(self) -> str:
        return f"{self.victim} {self.step or 'at any time'}"


def _at(steps: Iterable[str], *victims: str) -> list[Crash]:
    return [Crash(victim, f"{side} {step}") for step in steps for side in ("before", "behind") for victim in victims]


_STREAM = [
    *_at(["partitions"], "broker", "driver"),
    *_at(["the end of a read"], "broker", "process", "driver"),
    *[Crash(victim, "within a read") for victim in ("broker", "process", "driver")],
    *[Crash("driver", "behind Spark's record of offsets"), Crash("driver", "behind Spark's record of commits")],
]
_LOG = _at(["latestOffset"], "broker", "driver")
_FILES = _at(["the batch's file"], "broker", "driver")
_CHECKOUT = _at(["checkout", "checkout-ack"], "broker", "broker, a moment later", "driver")
_PREPARED = [
    *_at(["prepare"], "broker", "broker, a moment later", "process", "driver"),
    *_at(["commit"], "broker", "broker, a moment later", "driver", "raise"),
    *_at(["letting go"], "broker", "driver"),
]
ANYWHERE = [Crash("broker"), Crash("broker"), Crash("worker"), Crash("worker"), Crash("driver")]
CRASHES = {
    "files": [*_STREAM, *_LOG, *_FILES, Crash("reader")],
    "drain": [*_STREAM, *_CHECKOUT, *_FILES, Crash("reader")],
    "copy": [*_STREAM, *_LOG, *_PREPARED, *_at(["commit"], "abort")],
    "batches": _PREPARED,
}


@dataclass
class Book:
    """What one pipeline should have brought, and how often it has brought each."""

    expected: set[str]
    found: Counter[str]

    @property
    def lost(self) -> list[str]:
        return sorted(self.expected - self.found.keys())

    @property
    def doubled(self) -> list[str]:
        return sorted(one for one, times in self.found.items() if times > 1)

    @property
    def strange(self) -> list[str]:
        return sorted(self.found.keys() - self.expected)

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.strange)

    def __str__(self) -> str:
        return f"{len(self.expected)} messages: {len(self.lost)} lost, {len(self.doubled)} doubled" + (
            f", {len(self.strange)} that nobody has sent" if self.strange else ""
        )


class Producer:
    """Sends numbered messages all the time, each exactly once: to the log by prepared transactions, with dedup-ids to
    the queue, whatever becomes of the broker.
    """

    def __init__(self, address: Address | str) -> None:
        self.sent = 0  # of each: receipted, and so in the books
        self._address = address
        self._is_over = False
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join(START_MAX_S)
        assert not self._thread.is_alive() and not self._failed, f"the producer has failed: {self._failed}"

    def _run(self) -> None:
        try:
            again = Reconnect(first_s=0.1, factor=1, most_s=0.2, timeout_s=START_MAX_S)
            with Client(self._address, reconnect=again, dedup=True) as client:
                while not self._is_over:
                    numbers = range(self.sent, self.sent + BATCH)
                    self._append(client, numbers)
                    client.send_many("/queue/work", [f"work-{number}" for number in numbers])
                    self.sent += BATCH
                    time.sleep(PERIOD_S)
        except (RadiatorError, AssertionError) as failed:
            self._failed.append(failed)

    def _append(self, client: Client, numbers: range) -> None:
        attempt = 0
        while True:
            attempt += 1
            name = f"in-{numbers[0]}-{attempt}"
            try:
                transaction = client.begin()
                for number in numbers:
                    client.send("/log/in", f"in-{number}", transaction=transaction, confirm=None)
                client.commit(transaction, prepare=name)
                client.admin({"do": "commit", "prepared": [name], "app": "producer", "version": numbers[0]})
            except (ConnectionLost, NoAnswer):
                continue
            except Refusal as refused:
                if refused.code not in ("prepared", "not-prepared", "connections"):
                    raise
            else:
                return


@dataclass
class Campaign:
    """directory: for everything, and empty. report: gets a line for each crash. is_secured: Spark speaks TLS, as a user
    who may do what its pipelines need and nothing else.
    """

    directory: Path
    seed: int
    report: Callable[[str], object] = lambda line: None
    is_secured: bool = False
    done: Counter[Crash] = field(default_factory=Counter)
    lives: int = 0
    slept: list[str] = field(default_factory=list)  # steps that were not reached in time
    fallen: int = 0  # drivers that have ended by themselves, though nothing had happened that ends a query

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._driver: subprocess.Popen[bytes] | None = None
        self._names: list[str] = []
        self._may_fall = False
        self._log_begin = 0
        place = self.directory / "broker"
        place.mkdir(parents=True)
        if self.is_secured:
            self._broker, self._options = self._secured(place)
        else:
            config = SERVER.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}") + CONFIG
            self._broker, self._options = BrokerProcess(place, config), {}

    def _secured(self, place: Path) -> tuple[BrokerProcess, dict[str, str]]:
        """The broker, and what Spark is told of it beside its pipelines."""
        port = free_port()
        config = ENCRYPTED.replace("stomps://127.0.0.1:0", f"stomps://127.0.0.1:{port}") + CONFIG + USERS
        broker, token = TlsBroker(place, config), self.directory / "etl.token"
        token.write_text(ETL)
        token.chmod(0o600)
        url = f"stomps://127.0.0.1:{port}"
        return broker, {"url": url, "caFile": broker.ca_file, "user": "etl", "passwordFile": str(token)}

    @property
    def _address(self) -> Address | str:
        """Where producer and books may do everything."""
        return Address.unix(self._broker.unix_path) if self.is_secured else self._broker.address

    @contextmanager
    def running(self) -> Iterator[Producer]:
        """Broker and producer; whatever happens, nothing of it is left."""
        with ExitStack() as stack:
            stack.enter_context(self._broker)
            stack.callback(self.end_life)
            yield Producer(self._address)

    # ---- the driver

    def begin_life(self, *names: str) -> None:
        """A driver with these pipelines, on the checkpoints that earlier ones have left."""
        self.end_life()
        self._names = list(names)
        self._may_fall = False
        self._log_begin = 0
        (self.directory / "ready").unlink(missing_ok=True)
        self._disarm()
        options = self._options or {"url": self._broker.address}
        with (self.directory / "driver.log").open("ab") as log:
            self._log_begin = log.tell()
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.integrations.spark.crashes.driver", json.dumps(options), *names],
                env={
                    **environment(),
                    PLACE: str(self.directory),
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.lives += 1
        self._wait((self.directory / "ready").exists, START_MAX_S, "the driver has not started")

    def end_life(self) -> None:
        """kill -9 of the driver: Python, JVM, and all that they have started."""
        if self._driver is not None:
            if self._driver.poll() is not None and not self._may_fall and not self._is_sparks_fault():
                self.fallen += 1
                self.report(f"the driver has ended by itself: {self.directory / 'driver.log'}")
            for pid in tree([self._driver.pid]):
                _kill(pid)
            self._driver.wait()
            self._driver = None

    def _is_sparks_fault(self) -> bool:
        """A map of Spark's own was changed while it was serialized, as several queries of one session began."""
        return b"java.io.OptionalDataException" in (self.directory / "driver.log").read_bytes()[self._log_begin :]

    @property
    def is_alive(self) -> bool:
        return self._driver is not None and self._driver.poll() is None

    # ---- crashes

    @property
    def kills(self) -> int:
        """All crashes but those where a step has failed by itself."""
        return sum(times for one, times in self.done.items() if one.victim != "raise")

    def crash_for(self, wanted: int) -> None:
        """So many kills, in lives of two or three pipelines; those come first that there were least of."""
        while (missing := wanted - self.kills) > 0:
            names = [*self._random.sample(["files", "drain", "copy"], 2), "batches"]
            if not self.is_alive:
                self.begin_life(*names)
            for number in range(min(CRASHES_OF_LIFE, missing)):
                if not self.is_alive:
                    break
                self.crash(self._next(is_last=number == CRASHES_OF_LIFE - 1))

    def _next(self, is_last: bool) -> Crash:
        known = [*ANYWHERE, *(one for name in self._names for one in CRASHES[name])]
        fitting = [one for one in known if one.ends_driver == is_last]
        return min(fitting, key=lambda one: (self.done[one] + self.slept.count(str(one)), self._random.random()))

    def crash(self, crash: Crash) -> bool:
        """Whether it came to that: a step may not be reached in time."""
        time.sleep(self._random.uniform(0, 0.5))
        if crash.step.startswith("behind Spark's record of "):
            happened = self._at_record(crash)
        elif crash.step:
            happened = self._at_step(crash)
        else:
            happened = self._at_any_time(crash.victim)
        self.report(f"{self.done.total() + happened:4} {crash}" + ("" if happened else ": not reached"))
        if happened:
            self.done[crash] += 1
        else:
            self.slept.append(str(crash))
        return happened

    def crash_in_the_end(self, crash: Crash) -> None:
        """Tries it again where the step was not reached in time, on a busy machine, or where Spark has ended the driver
        by a fault of its own: then in a new life. A driver that has ended for another reason counts as `fallen`.
        """
        for _ in range(TRIES):
            if not self.is_alive:
                self.begin_life(*self._names)
            if self.crash(crash):
                return
        log_end = (self.directory / "driver.log").read_text(errors="replace")[-LOG_END_CHARACTERS:]
        raise AssertionError(f"{crash}: not reached in {TRIES} tries. The driver's log ends with:\n{log_end}")

    def _at_any_time(self, victim: str) -> bool:
        if victim == "broker":
            self._broker.kill()
            self._broker.start()
            return True
        if victim == "driver":
            self.end_life()
            return True
        assert self._driver is not None
        pids = [pid for pid in tree([self._driver.pid]) if MODULES[victim] in _command(pid).split(b"\0")]
        if pids:
            _kill(self._random.choice(pids))
        if pids and victim == "reader":
            self._await_end()
        return bool(pids)

    def _at_step(self, crash: Crash) -> bool:
        stopped = self._stop_at(crash.step)
        if stopped is None:
            return False
        if crash.victim == "broker":
            self._broker.kill()
            stopped.unlink()
            self._broker.start()
        elif crash.victim == "broker, a moment later":
            stopped.unlink()
            time.sleep(self._random.uniform(0, 0.01))
            self._broker.kill()
            self._broker.start()
        elif crash.victim == "process":
            _kill(int(stopped.suffix[1:]))
            stopped.unlink()
        elif crash.victim == "driver":
            self.end_life()
        else:
            self._may_fall = True
            stopped.write_text("raise")
            if crash.victim == "abort":
                side = self._random.choice(["before", "behind"])
                self._stop_at(f"{side} abort")
                self.end_life()
        return True

    def _stop_at(self, step: str) -> Path | None:
        """Once a process has come there; None: none has in time."""
        temporary = self.directory / ".wanted"
        temporary.write_text(step)
        temporary.replace(self.directory / "wanted")
        end_s = time.monotonic() + REACHED_MAX_S
        while time.monotonic() < end_s and self.is_alive:
            for stopped in self.directory.glob("stopped.*"):
                return stopped
            time.sleep(LOOK_S)
        self._disarm()
        return None

    def _disarm(self) -> None:
        for name in ("wanted", "claimed.*", "stopped.*"):
            for one in self.directory.glob(name):
                one.unlink(missing_ok=True)

    def _at_record(self, crash: Crash) -> bool:
        """The driver dies as soon as the next of Spark's own records is there."""
        kind = crash.step.rpartition(" ")[2]
        places = [self.directory / "checkpoints" / name / kind for name in self._names]
        before = set(_numbers(places))
        end_s = time.monotonic() + REACHED_MAX_S
        while time.monotonic() < end_s:
            if set(_numbers(places)) - before:
                self.end_life()
                return True
            time.sleep(LOOK_S)
        return False

    def _await_end(self) -> None:
        self._may_fall = True
        with suppress(AssertionError):
            self._wait(lambda: not self.is_alive, REACHED_MAX_S, "")
        self.end_life()

    # ---- the end

    def close_books(self, sent: int, names: Iterable[str]) -> dict[str, Book]:
        """Lets the pipelines bring all that was sent, and counts."""
        wanted = list(names)
        (self.directory / "no-more-batches").touch()
        self.begin_life(*wanted)
        before: list[int] = []
        end_s = time.monotonic() + STILL_MAX_S
        while missing := [one for name in wanted if (one := self._missing(name, sent)) > 0]:
            if missing != before:
                before, end_s = missing, time.monotonic() + STILL_MAX_S
            if time.monotonic() > end_s:
                break
            if not self.is_alive:
                self.begin_life(*wanted)
            time.sleep(0.5)
        time.sleep(QUIET_S)
        self.end_life()
        return {name: self.book(name, sent) for name in wanted}

    def book(self, name: str, sent: int) -> Book:
        """As it is now; what is in a queue is taken out."""
        found = self._in_files(name) if name in ("files", "drain", EARLY) else self._in_queue(name)
        return Book(self._expected(name, sent), found)

    def _expected(self, name: str, sent: int) -> set[str]:
        if name == "batches":
            return {f"batches-{number}" for number in range(int((self.directory / "batches").read_text()) * ROWS)}
        prefix, count = {"drain": ("work", sent), EARLY: (EARLY, EARLY_MESSAGES)}.get(name, ("in", sent))
        return {f"{prefix}-{number}" for number in range(count)}

    def _missing(self, name: str, sent: int) -> int:
        """How many seem to, from outside: what is doubled hides what is lost, so this is no judgement."""
        if name == "batches":
            return not (self.directory / "batches-are-written").exists()
        if name == EARLY:  # what it has lost never comes
            return not self._in_files(name)
        if name in ("files", "drain"):
            return sent - self._in_files(name).total()
        with Client(self._address) as client:
            there: int = client.admin({"do": "describe", "queue": name})["messages"]
            return sent - there

    def _in_files(self, name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for file in (self.directory / name).glob("*.json"):
            found.update(value for _, _, value in json.loads(file.read_text()))
        return found

    def _in_queue(self, name: str) -> Counter[str]:
        """Drained by a consumer, until nothing is there, and nothing that is committed is on its way."""
        found: Counter[str] = Counter()
        with Client(self._address) as client:
            client.subscribe(f"/queue/{name}", ack="client-individual", prefetch=500)
            end_s = time.monotonic() + STILL_MAX_S
            while self._is_applying(client) or client.admin({"do": "describe", "queue": name})["messages"]:
                assert time.monotonic() < end_s, f"/queue/{name} is not empty, or something does not go on"
                while (message := client.receive(DRAINED_S)) is not None:
                    found[message.body.decode()] += 1
                    client.ack(message, confirm=False)
                client.flush()
        return found

    def _is_applying(self, client: Client) -> bool:
        prepared = client.admin({"do": "prepared"})["prepared"]
        return any(one["is_committed"] for one in prepared)

    def fill_early(self) -> None:
        """What the pipeline of that name reads, which is broken on purpose."""
        with Client(self._address) as client:
            client.send_many(f"/queue/{EARLY}", [f"{EARLY}-{number}" for number in range(EARLY_MESSAGES)])

    def _wait(self, is_so: Callable[[], bool], timeout_s: float, sentence: str) -> None:
        end_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < end_s and self.is_alive, f"{sentence}: {self.directory / 'driver.log'}"
            time.sleep(0.02)


def _numbers(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            yield from (one for one in place.iterdir() if one.name.isdigit())


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
