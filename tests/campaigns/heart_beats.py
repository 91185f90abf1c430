"""S13: heart-beat headers as nobody should send them, and many clients that ask for the shortest beats there are.

Every value is agreed on by the rule of STOMP, with at least HEART_BEAT_MIN_MS between two beats, or refused; numbers
from tables and at random, against a small model. Very many connections with beats each second, both ways, cost the
broker CPU_SHARE_MAX of a core at most, and a beat BEAT_MAX_S of CPU, as often as they come. Nobody is closed too early.
"""

import time
from contextlib import ExitStack, suppress
from random import Random

from radiator.model.limits import HEART_BEAT_MIN_MS
from radiator.tools.cli.load import process_cpu_s
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.campaign import Campaign, Run

CPU_SHARE_MAX = 0.10
BEAT_MAX_S = 60e-6
CROWD = {"quick": 1_000, "nightly": 9_000, "release": 9_000}
CROWD_S = {"quick": 3.0, "nightly": 25.0, "release": 60.0}
OURS_MS = (100, 30_000)  # what the broker of the abuses offers, and wants
LISTEN_S = 0.35
DIGITS_MAX = 10
AT_ONCE = 20
EACH_SECOND, SHORTEST = "1000,1000", "0,1"
BEAT_EVERY_S = 1.5  # of each second; twice that and one more are borne

GOOD = (
    "1,1",
    "0,1",
    "1,0",
    "0,0",
    "00,01",
    "99,99",
    "100,100",
    "4294967295,0",
    "0,4294967295",
    "9999999999,9999999999",
)
BAD = (
    "-1,0", "0,-1", "1", "1,", ",1", ",", "", "1,1,1", "a,b", "1.5,1", "1e3,1", "+1,1", " 1,1", "1,1 ", "1, 1", "0x1,1",
    "٥,١", "1;1", "NaN,0", "inf,0", "99999999999,0", "0,99999999999", "1" * 400 + ",1", "1,1\\n",
)  # fmt: skip


def some_value(chance: Random) -> str:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(GOOD)
    if kind == 1:
        return chance.choice(BAD)
    if kind == 2:
        return ",".join(str(chance.randrange(10 ** chance.randrange(1, 13))) for _ in range(2))
    return "".join(chance.choice("0123456789,-+. \tx") for _ in range(chance.randrange(8)))


def agreed(value: str) -> tuple[int, int] | None:
    """What the client can do and wants, in ms; None: the broker must refuse it."""
    halves = value.split(",")
    right = len(halves) == 2 and all(half.isascii() and half.isdigit() and len(half) <= DIGITS_MAX for half in halves)
    return (int(halves[0]), int(halves[1])) if right else None


def offers(ours_ms: int, theirs_ms: int) -> int:
    """As often as they ask for, within what the operator has set and the least."""
    return max(HEART_BEAT_MIN_MS, min(ours_ms, theirs_ms)) if ours_ms and theirs_ms else 0


class Abuser:
    """One connection with such a header. It says nothing after CONNECT, and counts what comes."""

    def __init__(self, broker: BrokerProcess, value: str) -> None:
        self.value = value
        self.wire = Wire((broker.host, broker.port))
        self.wire.send_raw(f"CONNECT\naccept-version:1.2\nhost:x\nheart-beat:{value}\n\n\0".encode())
        self.answer = self.wire.read_frame()
        self.began_s = time.monotonic()

    def complaint(self) -> str:
        """What was wrong with the answer, or with what came since."""
        expected = agreed(self.value)
        if expected is None:
            return "" if self.answer.command == "ERROR" else f"was answered {self.answer}"
        if self.answer.command != "CONNECTED":
            return f"was answered {self.answer}"
        offered = offers(OURS_MS[0], expected[1]), offers(OURS_MS[1], expected[0])
        if self.answer["heart-beat"] != f"{offered[0]},{offered[1]}":
            return f"was offered {self.answer['heart-beat']}, instead of {offered}"
        with suppress(TimeoutError):
            try:
                self.wire.read_frame(0.001)
            except Gone:
                return "was closed, and was not late"
        seconds = time.monotonic() - self.began_s
        most = seconds * 1000 / max(HEART_BEAT_MIN_MS, expected[1]) + 2 if expected[1] else 0
        if self.wire.ends_of_line > most:
            return f"got {self.wire.ends_of_line} beats in {seconds:.2f} s, and {most:.0f} are the most"
        if 0 < expected[1] <= OURS_MS[0] and self.wire.ends_of_line == 0:
            return f"got no beat in {seconds:.2f} s"
        return ""


def abuse(run: Run, broker: BrokerProcess) -> None:
    """Some at a time, so that they can be listened to together."""
    with ExitStack() as stack:
        abusers = []
        for _ in range(min(AT_ONCE, run.cases - run.done)):
            abusers.append(Abuser(broker, some_value(run.chance)))
            stack.enter_context(abusers[-1].wire)
        time.sleep(LISTEN_S)
        for abuser in abusers:
            complaint = abuser.complaint()
            if complaint:
                run.violation(f"seed {run.seed}: a client with heart-beat:{abuser.value!r} {complaint}")
    run.case(len(abusers))
    if not broker.is_running or "Traceback" in broker.log:
        run.violation(f"seed {run.seed}: the broker could not bear it: {broker.log[-2000:]}")


def crowd(run: Run, value: str) -> float:
    """With the broker's own defaults: all ask for such beats, and send theirs in time. The share of a core it takes."""
    count, seconds = CROWD[run.level], CROWD_S[run.level]
    directory = run.directory / f"crowd-{value}"
    directory.mkdir()
    with BrokerProcess(directory) as broker, ExitStack() as stack:
        wires = []
        for number in range(count):
            wires.append(stack.enter_context(Wire((broker.host, broker.port))))
            wires[-1].send_raw(f"CONNECT\naccept-version:1.2\nhost:x\nheart-beat:{value}\n\n\0".encode())
            if number % 200 == 0:
                wires[-1].read("CONNECTED")
        time.sleep(0.5)  # the last of them are let in
        began_s, began_cpu_s, beat_s = time.monotonic(), process_cpu_s(broker.pid), -BEAT_EVERY_S
        while (passed_s := time.monotonic() - began_s) < seconds:
            if value == EACH_SECOND and passed_s - beat_s > BEAT_EVERY_S:
                beat_s = passed_s
                for wire in wires:
                    wire.send_raw(b"\n")
            time.sleep(0.1)
        share = (process_cpu_s(broker.pid) - began_cpu_s) / passed_s
        gone = sum(is_gone(wire) for wire in wires)
        assert gone == 0, f"{gone} of {count} were closed, and sent their beats in time"
    return share


def crowds(run: Run) -> None:
    share = crowd(run, EACH_SECOND)
    run.figures["% of a core for the crowd"] = round(100 * share, 1)
    if share >= CPU_SHARE_MAX:
        run.violation(f"{CROWD[run.level]} clients with heart-beat:{EACH_SECOND} take {100 * share:.0f} % of a core.")
    cost_s = crowd(run, SHORTEST) * HEART_BEAT_MIN_MS / 1000 / CROWD[run.level]
    run.figures["us a beat"] = round(1e6 * cost_s, 1)
    if cost_s >= BEAT_MAX_S:
        run.violation(
            f"Each beat of {CROWD[run.level]} clients with heart-beat:{SHORTEST} takes {1e6 * cost_s:.0f} us."
        )


def is_gone(wire: Wire) -> bool:
    wire.socket.setblocking(False)
    try:
        while wire.socket.recv(1000):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def beat(run: Run) -> None:
    directory = run.directory / "abuse"
    directory.mkdir()
    with BrokerProcess(directory, f"[limits]\nheart_beat_ms = [{OURS_MS[0]}, {OURS_MS[1]}]\n") as broker:
        abuse(run, broker)
        if not run.is_over or not run.is_hunt:
            crowds(run)
        while not run.is_over:
            abuse(run, broker)


CAMPAIGNS = (
    Campaign(
        number="S13",
        name="heart-beats",
        title="heart-beat headers of every kind, and a crowd that asks for the shortest",
        unit="clients",
        run=beat,
        cases=(200, 4_000, 60_000),
        mutants=("heart-beat-floor-off", "negative-heart-beat"),
        mutant_cases=200,
        needs=("linux",),
    ),
)
