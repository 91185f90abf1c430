"""S3, S7: too many connections, and more answers than their client reads. Others are served as if nothing were.

Floods of connections against the limit of connections, and against a broker that has no file left; then clients that
ask without an end and never read. Judged by a client that does nothing wrong meanwhile, by the memory of the process, by
its log, and by what every client of the flood was told. It does not see what the kernel holds, nor floods from many
addresses, which are one to this broker.
"""

import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, memory_bytes
from tests.campaigns.campaign import Campaign, Run

P99_MAX_MS = 100.0
CREATION = "[create]\nqueues = true\ntopics = true\n"

# ---- S3: connections ------------------------------------------------------------------------------------------------

FLOOD = 500  # connections at once
FILES = 160  # open files that the system gives this broker; 96 of them it keeps for itself
PLACES = FILES - 96
HOLDERS = 40  # clients that are there before
RECOVERS_WITHIN_S = 2.0
ANSWERED_WITHIN_S = 3.0
NO_FILES_FOR_S = 1.5
CONNECT = b"CONNECT\naccept-version:1.2\nhost:flood\n\n\0"
FEW_FILES = (
    "-c",
    "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv.pop(1))));"
    " runpy.run_module('radiator', run_name='__main__', alter_sys=True)",
    str(FILES),
)


class Flood:
    """Many connections, each of which has said CONNECT. answers: what each was told first."""

    def __init__(self, broker: BrokerProcess, size: int) -> None:
        self._sockets = {}
        self.answers: dict[int, str] = {}
        for _ in range(size):
            one = socket.create_connection((broker.host, broker.port), 10)
            one.setblocking(False)
            self._sockets[one.fileno()] = one
            try:
                one.send(CONNECT)
            except ConnectionError:
                self.answers[one.fileno()] = "closed"

    def wait(self, within_s: float) -> Counter[str]:
        """How many were told what; those that were told nothing in time are `nothing`."""
        poll = select.poll()
        for file in self._sockets:
            if file not in self.answers:
                poll.register(file, select.POLLIN)
        deadline_s = time.monotonic() + within_s
        while len(self.answers) < len(self._sockets) and (left_s := deadline_s - time.monotonic()) > 0:
            for file, _ in poll.poll(left_s * 1000):
                poll.unregister(file)
                self.answers[file] = self._first_word(file)
        told = Counter(self.answers.values())
        told["nothing"] += len(self._sockets) - len(self.answers)
        return told

    def _first_word(self, file: int) -> str:
        try:
            return self._sockets[file].recv(4096).partition(b"\n")[0].decode("ascii", "replace") or "closed"
        except ConnectionError:
            return "closed"

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


@contextmanager
def holders(broker: BrokerProcess) -> Iterator[list[Wire]]:
    """Clients that were there before; after it each must still be served."""
    wires = []
    try:
        for number in range(HOLDERS):
            wires.append(Wire((broker.host, broker.port)))
            wires[-1].connect()
            wires[-1].subscribe(f"/topic/held-{number}")
        yield wires
        for wire in wires:
            wire.fence()
    finally:
        for wire in wires:
            wire.close()


def against_the_limit(run: Run, broker: BrokerProcess) -> None:
    lines = len(broker.log.splitlines())
    with holders(broker), Bystander(broker) as bystander:
        flood = Flood(broker, FLOOD)
        told = flood.wait(ANSWERED_WITHIN_S)
        if told["CONNECTED"] > PLACES - HOLDERS - 1 or told["nothing"]:
            run.violation(f"{FLOOD} connections to {PLACES - HOLDERS - 1} places were told {dict(told)}.")
        if not told["ERROR"]:
            run.violation(f"Nobody was told that all connections are taken: {dict(told)}.")
        settle(bystander)
        flood.close()
        recovery(run, broker, "the flood was over")
        judge(run, broker, bystander, lines, "a flood of connections")


def against_the_files(run: Run, broker: BrokerProcess) -> None:
    lines = len(broker.log.splitlines())
    with holders(broker), Bystander(broker) as bystander:
        limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        in_use = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (in_use + run.chance.randrange(1, 9), limit[1]))
        flood = Flood(broker, FLOOD)
        told = flood.wait(NO_FILES_FOR_S)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)
        if told["CONNECTED"] > 9:
            run.violation(f"The broker had files left after all: {dict(told)}.")
        began_s = time.monotonic()
        told = flood.wait(2 * RECOVERS_WITHIN_S)
        recovered_s = time.monotonic() - began_s
        if told["nothing"] or recovered_s > RECOVERS_WITHIN_S:
            run.violation(f"{recovered_s:.1f} s after the broker had files again its clients were told {dict(told)}.")
        settle(bystander)
        flood.close()
        recovery(run, broker, "it had files again")
        judge(run, broker, bystander, lines, "a flood without files")


def settle(bystander: Bystander) -> None:
    """Until there are rounds enough to judge."""
    deadline_s = time.monotonic() + 20
    while len(bystander.times_ms) < 50 and time.monotonic() < deadline_s:
        time.sleep(0.01)


def recovery(run: Run, broker: BrokerProcess, since: str) -> None:
    began_s = time.monotonic()
    while True:
        with Wire((broker.host, broker.port)) as wire:
            wire.send_raw(CONNECT)
            try:
                if wire.read_frame(RECOVERS_WITHIN_S).command == "CONNECTED":
                    break
            except (Gone, TimeoutError):
                pass
        if time.monotonic() - began_s > RECOVERS_WITHIN_S:
            run.violation(f"{RECOVERS_WITHIN_S} s after {since} nobody is let in.")
    key = "let in again after ms"
    run.figures[key] = max(float(run.figures.get(key, 0)), round((time.monotonic() - began_s) * 1000, 1))


def judge(run: Run, broker: BrokerProcess, bystander: Bystander, lines: int, told: str) -> None:
    p99_ms = bystander.p99_ms()
    run.figures["bystander p99 ms"] = max(float(run.figures.get("bystander p99 ms", 0)), round(p99_ms, 1))
    if p99_ms > P99_MAX_MS:
        run.violation(f"In {told} another client's p99 was {p99_ms:.0f} ms.")
    log = broker.log.splitlines()[lines:]
    warnings = [line for line in log if " info " not in line]
    # once when it begins, and perhaps once more for every second that it lasts
    if len(warnings) > 6:
        run.violation(f"{told} has {len(warnings)} warnings in the log, as {warnings[-1]!r}.")
    # a line when a connection comes and one when it goes, and those of the others
    if len(log) > 2 * (FLOOD + HOLDERS + 200) or any(len(line) > 1000 for line in log):
        run.violation(f"{told} has {len(log)} lines in the log, as {log[-1]!r}.")
    run.case(FLOOD)


def connections(run: Run) -> None:
    with BrokerProcess(run.directory, CREATION, FEW_FILES) as broker:
        while not run.is_over:
            against_the_limit(run, broker)
            if not run.is_over:
                against_the_files(run, broker)
        if not broker.is_running or "Traceback" in broker.log:
            run.violation(f"The broker did not take it well: {broker.log[-2000:]}")


# ---- S7: answers that nobody reads ----------------------------------------------------------------------------------

ASKED_MAX = 400_000  # frames; long before, the broker must have stopped reading
MEMORY_GROWTH_MAX_BYTES = 8 << 20
BLOCKED_S = 0.7  # nothing of ours was taken for so long: we are not read any more
AT_ONCE = 64
SILENT_CONFIG = (
    '[limits]\noutbox_max_bytes = "256KiB"\nmax_batch_bytes = "4MiB"\n'
    + CREATION
    + '[queue."full"]\nmax_messages = 100\noverflow = "drop-oldest"\n'
    + '[queue."memory"]\npersistent = false\nmax_messages = 100\noverflow = "drop-oldest"\n'
)

Ask = Callable[[int], bytes]


def send_to(destination: str) -> Ask:
    return lambda number: b"SEND\ndestination:%b\nreceipt:%d\n\nx\0" % (destination.encode(), number)


def long_receipt(number: int) -> bytes:
    return b"SEND\ndestination:/topic/nobody\nreceipt:%b%d\n\nx\0" % (b"r" * 2000, number)


def begin_and_abort(number: int) -> bytes:
    return b"%b\ntransaction:t\nreceipt:%d\n\n\0" % (b"ABORT" if number % 2 else b"BEGIN", number)


def subscribe_and_not(number: int) -> bytes:
    if number % 2:
        return b"UNSUBSCRIBE\nid:s\nreceipt:%d\n\n\0" % number
    return b"SUBSCRIBE\nid:s\ndestination:/queue/nothing\nreceipt:%d\n\n\0" % number


ASKS: tuple[tuple[str, Ask], ...] = (
    ("receipts of a durable queue", send_to("/queue/full")),
    ("receipts of a memory queue", send_to("/queue/memory")),
    ("receipts of a topic", send_to("/topic/nobody")),
    ("long receipts", long_receipt),
    ("receipts of transactions", begin_and_abort),
    ("receipts of subscriptions", subscribe_and_not),
)


def ask_and_never_read(run: Run, broker: BrokerProcess, told: str, ask: Ask) -> tuple[Wire, int]:
    """Until we are not read any more: how many were sent whole, the last one finished by and by."""
    wire = Wire.__new__(Wire)
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.connect((broker.host, broker.port))
    wire.version, wire.socket, wire.buffer, wire.ends_of_line, wire.early = "1.2", silent, b"", 0, []
    silent.settimeout(10)
    wire.connect()
    before = memory_bytes(broker.pid)
    silent.settimeout(BLOCKED_S)
    sent = most = 0
    left = memoryview(b"")
    while sent < ASKED_MAX:
        data = b"".join(ask(number) for number in range(sent, sent + AT_ONCE))
        sent += AT_ONCE
        left = memoryview(data)
        try:
            while left:
                left = left[silent.send(left) :]
        except TimeoutError:
            break
        most = max(most, memory_bytes(broker.pid) - before) if sent % 4096 == 0 else most
    most = max(most, memory_bytes(broker.pid) - before)
    run.figures["memory grew by KiB"] = max(int(run.figures.get("memory grew by KiB", 0)), most // 1024)
    if not left:
        run.violation(f"{told}: {sent} frames were read of a client that reads nothing.")
    if most > MEMORY_GROWTH_MAX_BYTES:
        run.violation(f"{told}: {sent} frames of a client that reads nothing made memory grow by {most} bytes.")
    silent.settimeout(10)
    wire.early = []
    wire.left = left  # type: ignore[attr-defined]
    return wire, sent
