"""S3, S3b, S7: too many connections, sockets that say nothing, answers that nobody reads. Others are served as if
nothing were.

Floods of connections against the limit of connections, and against a broker that has no file left; crowds that never
say CONNECT, with clients that come beside them; then clients that ask without an end and never read. Judged by a
client that does nothing wrong meanwhile, by the memory of the process, its log, and by what every client of the flood
was told. It does not see what the kernel holds.
"""

import contextlib
import re
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, Meter, upright
from tests.campaigns.campaign import Campaign, Run

CREATION = "[create]\nqueues = true\ntopics = true\n"

# ---- S3: connections ------------------------------------------------------------------------------------------------

FLOOD = 500  # connections at once
FILES = 224  # open files that the system gives this broker; 160 of them it keeps for itself and its own socket
PLACES = FILES - 160
HOLDERS = 40  # clients that are there before
RECOVERS_WITHIN_S = 2.0
ANSWERED_WITHIN_S = 3.0
NO_FILES_FOR_S = 1.5
DROPPED_EVERY_S = 0.95  # a second, as a clock that is being set shows it
LOG_SETTLES_S = 1.2  # within a second of the last line the log tells how many are missing
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
        answer = Counter(self.answers.values())
        answer["nothing"] += len(self._sockets) - len(self.answers)
        return answer

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
        answer = flood.wait(ANSWERED_WITHIN_S)
        if answer["CONNECTED"] > PLACES - HOLDERS - 1 or answer["nothing"]:
            run.violation(f"{FLOOD} connections to {PLACES - HOLDERS - 1} places were told {dict(answer)}.")
        if not answer["ERROR"]:
            run.violation(f"Nobody was told that all connections are taken: {dict(answer)}.")
        bystander.wait()
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
        answer = flood.wait(NO_FILES_FOR_S)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)
        began_s = time.monotonic()
        answer = flood.wait(2 * RECOVERS_WITHIN_S)
        recovered_s = time.monotonic() - began_s
        if answer["nothing"] or recovered_s > RECOVERS_WITHIN_S:
            run.violation(f"{recovered_s:.1f} s after the broker had files again its clients were told {dict(answer)}.")
        bystander.wait()
        flood.close()
        recovery(run, broker, "it had files again")
        judge(run, broker, bystander, lines, "a flood without files")


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
            return
    note(run, "let in again after ms", round((time.monotonic() - began_s) * 1000, 1))


def judge(run: Run, broker: BrokerProcess, bystander: Bystander, lines: int, what: str) -> None:
    p99_ms = bystander.p99_ms()
    note(run, "bystander p99 ms", round(p99_ms, 1))
    if p99_ms > bystander.p99_max_ms:
        run.violation(f"In {what} another client's p99 was {p99_ms:.0f} ms.")
    log = settled_log(broker)[lines:]
    dropped = [line for line in log if " log_lines_dropped " in line]
    if any(later - earlier < DROPPED_EVERY_S for earlier, later in pairwise(map(time_of, dropped))):
        run.violation(f"{what} has within a second two lines in the log of how many are missing: {dropped}.")
    warnings = [line for line in log if " info " not in line and line not in dropped]
    # once when it begins, and perhaps once more for every second that it lasts
    if len(warnings) > 6:
        run.violation(f"{what} has {len(warnings)} warnings in the log, as {warnings[-1]!r}.")
    # a line when a connection comes and one when it goes, and those of the others
    if len(log) > 2 * (FLOOD + HOLDERS + 200) or any(len(line) > 1000 for line in log):
        run.violation(f"{what} has {len(log)} lines in the log, as {log[-1]!r}.")
    run.case(FLOOD)


def settled_log(broker: BrokerProcess) -> list[str]:
    """Its lines, once it tells nothing more of what has been: the next flood has lines of its own."""
    lines: list[str] = []
    while len(now := broker.log.splitlines()) > len(lines):
        lines = now
        time.sleep(LOG_SETTLES_S)  # time is what is waited for
    return lines


def time_of(line: str) -> float:
    """When a line of the log was written, in seconds since the epoch."""
    return datetime.fromisoformat(line.partition(" ")[0]).timestamp()


def connections(run: Run) -> None:
    with BrokerProcess(run.directory, CREATION, FEW_FILES) as broker, upright(run, broker):
        while not run.is_over:
            against_the_limit(run, broker)
            if not run.is_over:
                against_the_files(run, broker)


# ---- S3b: sockets that say nothing ----------------------------------------------------------------------------------

CROWD = 600
HALF_OPEN, HALF_OPEN_EACH = 200, 100
NEWCOMERS = 30
CROWDED_CONFIG = f"""[limits]
connect_timeout_s = 60
max_connections = {NEWCOMERS + 10}
max_half_open = {HALF_OPEN}
max_half_open_per_address = {HALF_OPEN_EACH}
{CREATION}"""


def beside_a_crowd(run: Run, broker: BrokerProcess) -> None:
    """From one address or from many; clients come from the very same ones, one after another and all at once."""
    sources = run.chance.choice((1, 2, 50))
    files = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    with contextlib.ExitStack() as stack, Bystander(broker) as bystander:
        for number in range(CROWD):
            source = (f"127.0.0.{1 + number % sources}", 0)
            stack.enter_context(socket.create_connection((broker.host, broker.port), 10, source_address=source))
        bystander.wait()
        taken = len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) - files - 1
        most = min(HALF_OPEN, sources * HALF_OPEN_EACH)
        if taken > most + NEWCOMERS // 2:
            run.violation(f"{CROWD} sockets of {sources} addresses that say nothing took {taken} files, of {most}.")
        for _ in range(NEWCOMERS):
            newcomer = stack.enter_context(Wire((broker.host, broker.port)))
            newcomer.connect()
        p99_ms = bystander.p99_ms()
        note(run, "bystander p99 ms", round(p99_ms, 1))
        if p99_ms > bystander.p99_max_ms:
            run.violation(f"Beside {CROWD} sockets that say nothing another client's p99 was {p99_ms:.0f} ms.")
    recovery(run, broker, "the crowd had gone")
    run.case(CROWD)


def crowds(run: Run) -> None:
    with BrokerProcess(run.directory, CROWDED_CONFIG) as broker, upright(run, broker):
        while not run.is_over:
            beside_a_crowd(run, broker)
        if "half_open_full" not in broker.log:
            run.violation("The log does not tell of the crowds.")


# ---- S7: answers that nobody reads ----------------------------------------------------------------------------------

ASKED_MAX = 400_000  # frames; long before, the broker must have stopped reading
MEMORY_GROWTH_MAX_BYTES = 8 << 20
DURABLE_P99_MAX_MS = 250.0  # others share the disk with it: they wait for commits of whole batches
LATE_SHARE_MAX = 0.5  # of the floods: a busy machine may be late now and then, a broker that is held up always is
BLOCKED_S = 0.5  # nothing of ours was taken for so long: we are not read any more
AT_ONCE = 64
READS_SHARE = 0.5  # of the clients: they read in the end, and every receipt must be there
SILENT_CONFIG = (
    '[limits]\noutbox_max_bytes = "256KiB"\nmax_batch_bytes = "4MiB"\n'
    + CREATION
    + '[queue."full"]\nmax_messages = 100\noverflow = "drop-oldest"\n'
    + '[queue."memory"]\npersistent = false\nmax_messages = 100\noverflow = "drop-oldest"\n'
)

Ask = Callable[[int], bytes]
DURABLE = "receipts of a durable queue"


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
    (DURABLE, send_to("/queue/full")),
    ("receipts of a memory queue", send_to("/queue/memory")),
    ("receipts of a topic", send_to("/topic/nobody")),
    ("long receipts", long_receipt),
    ("receipts of transactions", begin_and_abort),
    ("receipts of subscriptions", subscribe_and_not),
)


class Mute:
    """A client that asks, and reads only when it is told to."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((broker.host, broker.port))
        self._socket.sendall(CONNECT)
        assert self._socket.recv(4096).startswith(b"CONNECTED")
        self._socket.setblocking(False)
        self._left = memoryview(b"")  # of the last frames, what was not taken
        self.sent = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, ask: Ask) -> bool:
        """Some more frames. Whether the broker still takes them."""
        frames = b"".join(ask(number) for number in range(self.sent, self.sent + AT_ONCE))
        self.sent += AT_ONCE
        self._left = memoryview(frames)
        while self._left:
            if not select.select((), (self._socket,), (), BLOCKED_S)[1]:
                return False
            self._write()
        return True

    def receipts(self) -> Iterator[int]:
        """Says the rest and reads: the numbers of the receipts as they come, until all have come or none comes."""
        held = b""
        last = -1
        while last < self.sent - 1:
            readable, writable, _ = select.select((self._socket,), (self._socket,) if self._left else (), (), 10)
            if writable:
                self._write()
            if not readable and not writable:
                return
            data = self._socket.recv(1 << 20) if readable else b""
            if readable and not data:
                return
            *frames, held = (held + data).split(b"\0")
            for frame in frames:
                found = re.search(rb"\nreceipt-id:r*(\d+)\n", frame)
                last = int(found[1]) if found and b"RECEIPT\n" in frame else -2
                yield last

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._left = self._left[self._socket.send(self._left) :]


def ask_and_never_read(run: Run, broker: BrokerProcess, what: str, ask: Ask) -> bool:
    """One flood. Whether others were late."""
    mute = Mute(broker)
    with Bystander(broker) as bystander:
        meter = Meter(broker.pid)
        while is_heard := mute.ask(ask):
            if mute.sent % 4096 == 0:
                meter.look()
            if mute.sent >= ASKED_MAX or meter.growth_bytes > MEMORY_GROWTH_MAX_BYTES:
                break
        most = meter.look()
        bystander.wait()
        p99_ms = bystander.p99_ms()
        p99_max_ms = DURABLE_P99_MAX_MS if what == DURABLE else bystander.p99_max_ms
    kind = "durable" if what == DURABLE else "not durable"
    note(run, f"memory grew by KiB, {kind}", most // 1024)
    note(run, f"bystander p99 ms, {kind}", round(p99_ms, 1))
    if is_heard and most <= MEMORY_GROWTH_MAX_BYTES:
        run.violation(f"{what}: {mute.sent} frames were read of a client that reads nothing; {most} bytes of memory.")
    if most > MEMORY_GROWTH_MAX_BYTES:
        run.violation(f"{what}: {mute.sent} frames of a client that reads nothing made memory grow by {most} bytes.")
    if run.chance.random() < READS_SHARE:
        got = list(mute.receipts())
        if got != list(range(mute.sent)):
            wrong = next((i for i, number in enumerate(got) if number != i), len(got))
            run.violation(f"{what}: when it reads at last, receipt {wrong} of {mute.sent} is {got[wrong : wrong + 3]}.")
    mute.close()
    run.case()
    return p99_ms > p99_max_ms


def note(run: Run, key: str, value: float) -> None:
    """The largest of all."""
    run.figures[key] = max(float(run.figures.get(key, 0)), value)


def mutes(run: Run) -> None:
    with BrokerProcess(run.directory, SILENT_CONFIG) as broker, upright(run, broker):
        asks: list[tuple[str, Ask]] = []
        late = []
        while not run.is_over:
            asks = asks or run.chance.sample(ASKS, len(ASKS))
            reported, ask = asks.pop()
            if ask_and_never_read(run, broker, reported, ask):
                late.append(reported)
        if len(late) > LATE_SHARE_MAX * run.done:
            run.violation(f"In {len(late)} of {run.done} floods another client was held up: {late}.")


CAMPAIGNS = (
    Campaign(
        number="S3",
        name="connections",
        title=f"{FLOOD} connections at once, to few places and to a broker without files",
        unit="connections",
        run=connections,
        cases=(2 * FLOOD, 50 * FLOOD, 1000 * FLOOD),
        mutants=("connection-limit-off", "never-accepts-again", "no-back-off-without-files"),
        mutant_cases=2 * FLOOD,
        needs=("linux",),
        is_timed=True,
    ),
    Campaign(
        number="S3b",
        name="crowds",
        title=f"{CROWD} sockets that say nothing, of one address and of many, and clients that want in",
        unit="sockets",
        run=crowds,
        cases=(2 * CROWD, 30 * CROWD, 600 * CROWD),
        mutants=("half-open-takes-places", "half-open-without-bound"),
        mutant_cases=CROWD,
        needs=("linux",),
        is_timed=True,
    ),
    Campaign(
        number="S7",
        name="mutes",
        title="clients that ask without an end and never read the answers",
        unit="floods",
        run=mutes,
        cases=(len(ASKS), 15 * len(ASKS), 400 * len(ASKS)),
        mutants=("reading-not-stopped",),
        mutant_cases=len(ASKS),
        needs=("linux",),
        is_timed=True,
    ),
)
