"""T15: a loaded broker is told to stop, in every way, and keeps its word to whoever has an answer.

SIGTERM and SIGINT under load; SIGHUP, which has it read its changed file again; a signal that comes twice, at once
(timeout(1) does that) and later, which ends it there and then; signals while accepted SENDs and ACKs wait for a slow
disk: each of them is committed and answered first; in a start; and while somebody does not read. Books over it all;
behind a clean stop the next start must find a clean store.

It cannot see messages that wait in a kernel's socket buffer: they were not accepted, and their sender has no receipt.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from subprocess import TimeoutExpired

from tests.acceptance.conftest import stats
from tests.acceptance.wire import Frame, Gone, Wire
from tests.campaigns import trace
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.kill import Life
from tests.crash.books import Copy, body_of
from tests.crash.crowd import WORK, talking

STOPS_OF_A_LIFE = 13
STOPS_OF_A_HUNT = 4
LOAD_S = (0.05, 0.5)
STOP_MAX_S = 5.0
SLOW_STOP_MAX_S = 10.0  # the disk is always waited for
AT_ONCE_S = 1.0
END_S = 20.0  # what has not ended by then never will
TWICE_WITHIN_S = 0.01  # two that are no further apart count as one
AGAIN_AFTER_S = 0.1  # two so far apart are two
SYNC_S = 0.25  # what one sync of the slow disk takes
ACKS = 10  # accepted, and not on the disk, when the signal comes
SENDS = 30
ACCEPTED_WITHIN_S = 5.0
START_S = (0.0, 0.4)  # a start takes about a quarter of a second
UNREAD = 600  # messages for one who does not read: more than the system's buffers take
SMALL_BUFFER_BYTES = 4096


@dataclass
class Waiting:
    """Who waits for a slow disk: one that sends, and one that acks. sends, acks: by their receipts."""

    sender: Wire
    reader: Wire
    sends: list[str] = field(default_factory=list)
    acks: dict[str, Copy] = field(default_factory=dict)


class Stops(Life):
    """One data directory and the brokers on it, from signal to signal."""

    was_stopped = ""
    is_clean: bool | None = True  # None: nobody can know

    def stop_once(self, kind: str) -> None:
        """A start, something to do, a stop of that kind."""
        if kind == IN_START:
            self.was_stopped = kind
            self.signal_in_start()
            return
        begin = self.broker.log.count("\n")
        self.start(f"stopped ({self.was_stopped})")
        line = self.broker.wait_for_log(" start ", since=begin)
        if self.is_clean is not None and f"was_clean={str(self.is_clean).lower()}" not in line:
            clean = "clean" if self.is_clean else "no clean one"
            self.run.violation(f"the last stop ({self.was_stopped}) was {clean}, and the next start says: {line}")
        self.was_stopped = kind
        try:
            WAYS[kind](self)
        except (Gone, ConnectionError, TimeoutError) as mistake:
            self.wrong(f"before it was told to stop it was gone: {mistake!r}; {self.broker.log[-1500:]}")
        self.books.broker_ended()

    def send(self, number: signal.Signals) -> None:
        assert self.broker.process is not None
        self.broker.process.send_signal(number)

    def send_one(self) -> None:
        self.send(self.chance.choice((signal.SIGTERM, signal.SIGINT)))

    def expect(self, status: int, within_s: float = STOP_MAX_S) -> None:
        """It ends with that status, in time."""
        began_s = time.monotonic()
        try:
            found = self.broker.wait(END_S)
        except TimeoutExpired:
            self.broker.kill()
            found = -9
        took_s = time.monotonic() - began_s
        self.is_clean = found == 0
        if found != status:
            self.wrong(f"it ended with {found}, not {status}: {self.broker.log[-1500:]}")
        if took_s > within_s:
            self.wrong(f"it took {took_s:.1f} s to end")
        slowest_ms = max(int(self.run.figures.get("slowest stop ms", 0)), round(took_s * 1000))
        self.run.figures["slowest stop ms"] = slowest_ms

    def wrong(self, what: str) -> None:
        self.run.violation(f"{self.was_stopped}: {what}")

    def signal_in_start(self) -> None:
        """Before the broker can hear it, a signal ends it at once."""
        earlier, delay_s = self.broker.process, self.chance.uniform(*START_S)

        def send_signal() -> None:
            while self.broker.process is earlier:
                time.sleep(0.001)
            time.sleep(delay_s)
            self.send(signal.SIGTERM)

        signaller = threading.Thread(target=send_signal)
        signaller.start()
        with suppress(AssertionError):  # it never listened
            self.broker.start()
        signaller.join()
        status = self.broker.wait(END_S)
        if status not in (0, -signal.SIGTERM):
            self.wrong(f"it ended with {status}: {self.broker.log[-1500:]}")
        self.is_clean = True if status == 0 else None

    def signal_while_one_does_not_read(self) -> None:
        """It is waited for, and then no longer."""
        address = self.broker.host, self.broker.port
        with Wire(address) as sender, Wire(address) as mute:
            mute.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
            for wire in (sender, mute):
                wire.connect()
            mute.subscribe(WORK, id=WORK, headers={"prefetch-count": str(UNREAD)})
            names = [self.send_named(sender) for _ in range(UNREAD)]
            for name in names:
                sender.await_receipt(name)
                self.books.sent(name)
            self.send_one()
            self.expect(0)

    # ---- under load

    def under_load(self, send_signal: Callable[[], None], within_s: float = STOP_MAX_S) -> None:
        """All talk, and are not told that the broker is; it ends well."""
        with talking(self.broker, [one.run for one in self.clients]):
            time.sleep(self.chance.uniform(*LOAD_S))
            send_signal()
            self.expect(0, within_s)

    def signal_once(self) -> None:
        self.under_load(self.send_one)

    def signal_twice_at_once(self) -> None:
        def send_signal() -> None:
            self.send(signal.SIGTERM)
            time.sleep(self.chance.uniform(0, TWICE_WITHIN_S))
            if self.broker.is_running:
                self.send(signal.SIGTERM)

        self.under_load(send_signal)

    def hang_up(self) -> None:
        """It serves on, by another file each time; no message goes, and the last file is that of before."""
        since = len(self.broker.log)
        file = self.broker.config_file
        before = file.read_text()

        def send_signal() -> None:
            for tables in *(f"[queue.reloaded]\nmax_messages = {number + 1}\n" for number in range(3)), "":
                beside = file.with_suffix(".new")
                beside.write_text(f"{before}\n{tables}")
                beside.rename(file)
                self.send(signal.SIGHUP)
                time.sleep(self.chance.choice((0, 0.01)))
            stats(self.broker)
            self.send_one()

        self.under_load(send_signal)
        if " reload_refused " in self.broker.log[since:]:
            self.wrong(f"a file was refused: {self.broker.log[since:][-1500:]}")

    def signal_loaded_with_a_slow_disk(self) -> None:
        with self.slow_disk():
            self.under_load(self.send_one, SLOW_STOP_MAX_S)

    # ---- while accepted SENDs and ACKs are not yet on the disk

    def signal_while_some_wait(self) -> None:
        """All that was accepted is committed, and its receipts come before the end."""
        with self.some_wait() as waiting:
            self.send_one()
            self.expect(0, SLOW_STOP_MAX_S)
            receipts = self.hear_the_last(waiting)
        for what, asked in (("SENDs", waiting.sends), ("ACKs", waiting.acks)):
            missing = [name for name in asked if name not in receipts]
            if missing:
                self.wrong(f"{len(missing)} accepted {what} got no receipt, such as {missing[:3]}")

    def signal_again_while_some_wait(self) -> None:
        """The second signal ends it there and then; that costs nobody who has an answer."""
        with self.some_wait() as waiting:
            self.send(signal.SIGTERM)
            self.broker.wait_for_log("stopping", since=self.broker.log.count("\n") - 1)
            time.sleep(AGAIN_AFTER_S)
            self.send(signal.SIGINT)
            self.expect(128 + signal.SIGINT, AT_ONCE_S)
            self.hear_the_last(waiting)

    @contextmanager
    def slow_disk(self) -> Iterator[None]:
        delay = f"inject=fdatasync:delay_enter={round(SYNC_S * 1e6)}:when=1+"
        with trace.attached(self.broker.pid, ["-e", "trace=fdatasync", "-e", delay, "-o", os.devnull]):
            yield

    @contextmanager
    def some_wait(self) -> Iterator[Waiting]:
        """Within, SENDs and ACKs are accepted (the broker's own numbers say so), and wait for a slow disk."""
        address = self.broker.host, self.broker.port
        with Wire(address) as sender, Wire(address) as reader:
            waiting = Waiting(sender, reader)
            for wire in (sender, reader):
                wire.connect()
            for _ in range(ACKS):
                name = self.send_named(sender)
                sender.await_receipt(name)
                self.books.sent(name)
            reader.subscribe(WORK, id=WORK, headers={"prefetch-count": str(ACKS)})
            messages = [(self.note(message), message) for message in reader.messages(ACKS)]
            before = stats(self.broker)["queues"]["work"]
            with self.slow_disk():
                waiting.sends = [self.send_named(sender) for _ in range(SENDS)]
                for number, (copy, message) in enumerate(messages):
                    self.books.giving_up(copy)
                    waiting.acks[f"ack-{number}"] = copy
                    reader.send_frame("ACK", {"id": message["ack"], "receipt": f"ack-{number}"})
                self.await_accepted(before["accepted"] + SENDS, before["acked"] + ACKS)
                yield waiting

    def send_named(self, wire: Wire) -> str:
        name = f"s.{len(self.books.attempted)}"
        self.books.sending(name, (WORK,))
        wire.send_frame("SEND", {"destination": WORK, "receipt": name}, body_of(name))
        return name

    def note(self, message: Frame) -> Copy:
        is_redelivered = message["redelivered"] == "true"
        return self.books.delivered(WORK, message.body, message["message-id"], is_redelivered, in_order=False)

    def await_accepted(self, sends: int, acks: int) -> None:
        deadline_s = time.monotonic() + ACCEPTED_WITHIN_S
        while True:
            numbers = stats(self.broker)["queues"]["work"]
            if numbers["accepted"] >= sends and numbers["acked"] >= acks:
                return
            assert time.monotonic() < deadline_s, f"{sends} SENDs and {acks} ACKs are not accepted: {numbers}"

    def hear_the_last(self, waiting: Waiting) -> set[str]:
        """What both were told before the end: the receipts."""
        receipts = set()
        for wire in (waiting.sender, waiting.reader):
            try:
                while True:
                    frame = wire.early.pop(0) if wire.early else wire.read_frame()
                    if frame.command == "MESSAGE":
                        self.note(frame)
                    else:
                        assert frame.command == "RECEIPT", frame
                        receipts.add(frame["receipt-id"])
            except (Gone, ConnectionError):
                pass
        for name in receipts.intersection(waiting.sends):
            self.books.sent(name)
        for name in receipts & waiting.acks.keys():
            self.books.acked(waiting.acks[name])
        return receipts


IN_START = "a signal in a start"
WAYS: dict[str, Callable[[Stops], None]] = {
    "a signal while some wait for the disk": Stops.signal_while_some_wait,
    "a signal under load": Stops.signal_once,
    "SIGHUPs under load": Stops.hang_up,
    "two signals while some wait for the disk": Stops.signal_again_while_some_wait,
    "the same signal twice at once under load": Stops.signal_twice_at_once,
    "a signal under load with a slow disk": Stops.signal_loaded_with_a_slow_disk,
    IN_START: Stops.signal_in_start,
    "a signal while one does not read": Stops.signal_while_one_does_not_read,
}


def stop(run: Run) -> None:
    """All ways in turn, each directory with another one first."""
    number = 0
    kinds = [*WAYS]
    while not run.is_over:
        life = Stops(run, f"life-{number}")
        number += 1
        try:
            for _ in range(min(STOPS_OF_A_HUNT if run.is_hunt else STOPS_OF_A_LIFE, run.cases - run.done)):
                life.stop_once(kinds[0])
                kinds.append(kinds.pop(0))
                run.case()
            life.judge("stopped")
        finally:
            life.broker.kill()


CAMPAIGNS = (
    Campaign(
        number="T15",
        name="signals",
        title="tells a loaded broker to stop in every way, on a quick disk and on a slow one",
        unit="stops",
        run=stop,
        cases=(8, 104, 800),
        mutants=(
            "exit-without-last-commit",
            "handler-changes-state",
            "clean-stop-does-not-mark",
            "hang-up-ends",
            "second-signal-ignored",
            "receipt-before-commit",
            "ack-not-committed",
        ),
        mutant_cases=8,
        needs=("strace_attach",),
    ),
)
