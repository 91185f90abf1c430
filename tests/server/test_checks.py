"""A session asks for something that takes long: its connection waits for it, and nobody else does.

A real broker, with the sessions and rights of checked.py: a check lasts until its gate is opened.
"""

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import gevent
import pytest

from radiator.model.errors import Refusal
from radiator.model.limits import CHECKS_WAITING_MAX, MIB
from radiator.model.principal import Principal, Verdict
from radiator.server.checks import Checks
from radiator.server.log import EventLog
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.campaigns.growth import anonymous_bytes

PROGRAM = ("-m", "tests.server.checked")
DEBUG = '[logging]\nlevel = "debug"\n'
CONFIG = EVERYTHING_MAY_BE_CREATED + DEBUG
SOON_S = 1  # connect_timeout_s, where that is what counts


def wait_until(is_so: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


class Gate:
    """What a check waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fifo: int | None = None
        os.mkfifo(path)

    def has_begun(self) -> bool:
        """Whether the check is being run."""
        try:
            self.fifo = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK) if self.fifo is None else self.fifo
        except OSError as error:
            assert error.errno == errno.ENXIO
        return self.fifo is not None

    def wait(self) -> None:
        """Until the check is being run."""
        wait_until(self.has_begun)

    def open(self, word: str) -> None:
        """Ends the check, with what comes of it."""
        self.wait()
        assert self.fifo is not None
        os.write(self.fifo, word.encode())
        self.close()

    def close(self) -> None:
        if self.fifo is not None:
            os.close(self.fifo)
            self.fifo = None


Gates = Callable[[], Gate]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG, PROGRAM) as running:
        yield running
        assert running.is_running


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Gates]:
    made: list[Gate] = []

    def gate() -> Gate:
        made.append(Gate(tmp_path / f"gate{len(made)}"))
        return made[-1]

    yield gate
    for one in made:
        one.close()


@pytest.fixture
def bystander(broker: BrokerProcess) -> Iterator[Wire]:
    """Somebody who is connected, and needs no check."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        yield wire


def asking(broker: BrokerProcess, gate: Gate, name: str = "alice", behind: bytes = b"") -> Wire:
    """A client whose CONNECT waits for its check; these bytes came with it."""
    wire = Wire((broker.host, broker.port))
    headers = {"accept-version": "1.2", "host": "h", "login": name, "passcode": str(gate.path)}
    wire.send_raw(wire.frame("CONNECT", headers) + behind)
    return wire


def sent(destination: str, receipt: str, body: bytes = b"x") -> bytes:
    """Without a content-length, as checked.py wants it."""
    return f"SEND\ndestination:{destination}\nreceipt:{receipt}\n\n".encode() + body + b"\0"


# ---- before Open ----------------------------------------------------------------------------------------------------


def test_nobody_else_waits_for_a_check(broker: BrokerProcess, gates: Gates, bystander: Wire) -> None:
    gate = gates()
    with asking(broker, gate) as wire:
        for _ in range(20):
            bystander.subscribe("/queue/b", "b")
            bystander.ask("UNSUBSCRIBE", {"id": "b"})
        with Wire((broker.host, broker.port)) as other:
            other.connect()
        gate.open("yes")
        wire.read("CONNECTED")


def test_what_came_behind_is_carried_out_in_its_order_and_as_who_it_is(broker: BrokerProcess, gates: Gates) -> None:
    gate = gates()
    behind = b"".join(sent("/queue/alice.1", f"r{n}") for n in range(50))
    with asking(broker, gate, behind=behind) as wire:
        wire.send_raw(sent("/queue/alice.1", "r50"))
        gate.open("yes")
        wire.read("CONNECTED")
        assert [wire.read("RECEIPT")["receipt-id"] for _ in range(51)] == [f"r{n}" for n in range(51)]
        wire.send_raw(sent("/queue/bob.1", "r51"))
        error = wire.refusal()
        assert (error["code"], error["message"]) == ("forbidden", "alice may not send to /queue/bob.1.")


def test_peer_credentials_come_to_the_place_of_judgement(broker: BrokerProcess) -> None:
    for queue, is_refused in ((f"/queue/uid:{os.getuid()}.1", False), ("/queue/uid:4711.1", True)):
        with Wire(broker.unix_path) as wire:
            wire.connect()
            wire.send_raw(sent(queue.replace("uid:", "uid\\c"), "r"))
            if is_refused:
                assert wire.refusal()["code"] == "forbidden"
            else:
                assert wire.read("RECEIPT")["receipt-id"] == "r"


def test_nothing_more_is_read_meanwhile(broker: BrokerProcess, gates: Gates, bystander: Wire) -> None:
    gate = gates()
    before_bytes = anonymous_bytes(broker.pid)
    frames = b"".join(sent("/queue/alice.2", f"r{n}", b"x" * 10_000) for n in range(2000))
    with asking(broker, gate) as wire:
        wire.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            wire.socket.sendall(frames)  # 20 MB: what the system buffers is taken, and no more
        bystander.fence()
        assert anonymous_bytes(broker.pid) - before_bytes < 4 * MIB
        gate.open("yes")
        wire.read("CONNECTED")
        assert wire.read("RECEIPT")["receipt-id"] == "r0"


def test_a_refusal_is_said_and_the_connection_closed(broker: BrokerProcess, gates: Gates) -> None:
    gate = gates()
    with asking(broker, gate, behind=sent("/queue/alice.3", "r")) as wire:
        gate.open("no")
        error = wire.refusal()
        assert (error["code"], error["message"]) == ("login", "alice is not recognised.")
        broker.wait_for_log("refused: login")


@pytest.mark.parametrize("word", ["bug", "none", "exit"])
def test_a_check_that_fails_recognises_nobody(broker: BrokerProcess, gates: Gates, bystander: Wire, word: str) -> None:
    gate, since = gates(), broker.log.count("\n")
    with asking(broker, gate, behind=sent("/queue/alice.3", "r")) as wire:
        gate.open(word)
        error = wire.refusal()
        assert (error["code"], "because of a bug" in error["message"]) == ("connections", True)
    broker.wait_for_log(" error check_failed connection=", since=since)
    assert "found_out" in broker.log and str(gate.path) not in broker.log
    bystander.fence()
    again = gates()
    with asking(broker, again) as wire:
        again.open("yes")
        wire.read("CONNECTED")


def test_a_session_that_fails_at_its_answer_costs_its_own_connection(
    broker: BrokerProcess, gates: Gates, bystander: Wire
) -> None:
    gate, since = gates(), broker.log.count("\n")
    with asking(broker, gate, "bug") as wire:
        gate.open("yes")
        assert wire.is_closed()
    broker.wait_for_log(" error session_bug connection=", since=since)
    bystander.fence()


def test_a_client_that_is_gone_meanwhile_leaves_nothing(broker: BrokerProcess, gates: Gates, bystander: Wire) -> None:
    gate, since = gates(), broker.log.count("\n")
    asking(broker, gate).close()
    gate.open("yes")
    broker.wait_for_log(" disconnected connection=", since=since)
    bystander.fence()


def test_one_check_at_a_time_and_one_too_many_is_refused(broker: BrokerProcess, gates: Gates) -> None:
    first = gates()
    with ExitStack() as stack:
        wires = {first: stack.enter_context(asking(broker, first))}
        first.wait()
        for gate in [gates() for _ in range(CHECKS_WAITING_MAX + 1)]:
            wires[gate] = stack.enter_context(asking(broker, gate))
        by_socket = {wire.socket: gate for gate, wire in wires.items()}
        (answer,), _, _ = select.select(by_socket, [], [], 10)
        error = wires.pop(by_socket[answer]).refusal()
        assert (error["code"], "try again later" in error["message"]) == ("connections", True)
        while wires:
            wait_until(lambda: any(gate.has_begun() for gate in wires))
            (begun,) = (gate for gate in wires if gate.has_begun())
            begun.open("yes")
            wires.pop(begun).read("CONNECTED")


# ---- an end in between ----------------------------------------------------------------------------------------------


def test_connect_timeout_goes_on_and_the_answer_is_dropped(tmp_path: Path, gates: Gates) -> None:
    config = f"{CONFIG}\n[limits]\nconnect_timeout_s = {SOON_S}\n"
    with BrokerProcess(tmp_path, config, PROGRAM) as broker, Wire((broker.host, broker.port)) as bystander:
        bystander.connect()
        slow, never = gates(), gates()
        with asking(broker, slow) as first:
            slow.wait()
            with asking(broker, never) as second:
                assert first.is_closed(10 * SOON_S) and second.is_closed(10 * SOON_S)
        broker.wait_for_log("could not be recognised in time")
        bystander.fence()
        slow.open("yes")
        gate = gates()
        with asking(broker, gate) as wire:
            gate.open("yes")  # that of the second was never begun
            wire.read("CONNECTED")
        assert broker.stop() == 0
        assert "Traceback" not in broker.log


def test_one_that_makes_way_for_another_is_not_read_from(tmp_path: Path, gates: Gates) -> None:
    """What it said is read first where it waits for nothing: it might be a CONNECT."""
    config = f"{CONFIG}\n[limits]\nmax_half_open = 1\n"
    with BrokerProcess(tmp_path, config, PROGRAM) as broker:
        gate, other = gates(), gates()
        with asking(broker, gate) as first:
            gate.wait()
            first.send_raw(sent("/queue/alice.5", "r"))
            with asking(broker, other) as second:
                assert first.refusal()["code"] == "connections"
                gate.open("yes")
                other.open("yes")
                second.read("CONNECTED")
        assert broker.stop() == 0
        assert "Traceback" not in broker.log


def test_a_stop_waits_for_no_check(tmp_path: Path, gates: Gates) -> None:
    with BrokerProcess(tmp_path, CONFIG, PROGRAM) as broker:
        running, waiting = gates(), gates()
        with asking(broker, running) as one:
            running.wait()
            with asking(broker, waiting) as other:
                assert broker.stop() == 0
                assert one.is_closed() and other.is_closed()
        assert "Traceback" not in broker.log and "stopped" in broker.log.splitlines()[-1]


# ---- after Open -----------------------------------------------------------------------------------------------------


def test_a_check_of_an_open_connection_keeps_what_is_behind_it_waiting(
    broker: BrokerProcess, gates: Gates, bystander: Wire
) -> None:
    first, second = gates(), gates()
    with asking(broker, first) as wire:
        first.open("yes")
        wire.read("CONNECTED")
        proof = f"SEND\ndestination:/queue/alice.4\nreceipt:r1\nlogin:alice\npasscode:{second.path}\n\n\0".encode()
        wire.send_raw(sent("/queue/alice.4", "r0") + proof + sent("/queue/alice.4", "r2"))
        assert wire.read("RECEIPT")["receipt-id"] == "r0"
        bystander.fence()
        second.open("yes")
        assert [wire.read("RECEIPT")["receipt-id"] for _ in range(2)] == ["r1", "r2"]


def test_a_check_of_an_open_connection_may_refuse(broker: BrokerProcess, gates: Gates) -> None:
    first, second = gates(), gates()
    with asking(broker, first) as wire:
        first.open("yes")
        wire.read("CONNECTED")
        wire.send_raw(f"BEGIN\ntransaction:t\nlogin:alice\npasscode:{second.path}\n\n\0".encode())
        second.open("no")
        assert wire.refusal()["code"] == "login"


def test_a_check_of_an_open_connection_has_its_time(tmp_path: Path, gates: Gates) -> None:
    config = f"{CONFIG}\n[limits]\nconnect_timeout_s = {SOON_S}\n"
    with BrokerProcess(tmp_path, config, PROGRAM) as broker, Wire((broker.host, broker.port)) as wire:
        wire.connect()
        gate = gates()
        wire.send_raw(f"BEGIN\ntransaction:t\nlogin:alice\npasscode:{gate.path}\n\n\0".encode())
        gate.wait()
        assert wire.is_closed(10 * SOON_S)
        broker.wait_for_log("could not be recognised in time")
        gate.open("yes")


# ---- the thread -----------------------------------------------------------------------------------------------------


class Asked:
    """Checks on this thread's hub, with what each connection was answered."""

    def __init__(self) -> None:
        self.checks = Checks(gevent.get_hub().loop, EventLog())
        self.answers: dict[int, Verdict] = {}
        self.ran: list[int] = []

    def ask(self, number: int, waits_for: threading.Event | None = None) -> None:
        def check() -> Principal:
            self.ran.append(number)
            assert waits_for is None or waits_for.wait(5)
            return Principal(str(number))

        self.checks.ask(number, check, lambda verdict: self.answers.__setitem__(number, verdict))

    def until(self, is_so: Callable[[], bool]) -> None:
        with gevent.Timeout(5):
            while not is_so():
                gevent.sleep(0.001)


def test_who_hears_nothing_any_more_gives_its_place_free() -> None:
    asked, gate = Asked(), threading.Event()
    for number in range(1, CHECKS_WAITING_MAX + 2):
        asked.ask(number, gate)
    asked.ask(100)
    assert isinstance(asked.answers.pop(100), Refusal) and asked.checks.waiting == CHECKS_WAITING_MAX
    asked.checks.drop(1)
    asked.checks.drop(2)
    asked.ask(101)
    asked.ask(102)
    assert isinstance(asked.answers.pop(102), Refusal) and not asked.answers
    gate.set()
    asked.until(lambda: 101 in asked.answers)
    assert [*asked.answers] == [*range(3, CHECKS_WAITING_MAX + 2), 101]  # in order, without those that were dropped
    assert asked.ran == [1, *asked.answers] and asked.answers[101] == Principal("101")
    asked.checks.stop()


def test_those_who_ask_for_one_check_share_its_run() -> None:
    asked, first, gate = Asked(), threading.Event(), threading.Event()
    asked.ask(1, first)

    def check() -> Principal:
        asked.ran.append(2)
        assert gate.wait(5)
        return Principal("all")

    def share(number: int) -> None:
        asked.checks.ask(number, check, lambda verdict: asked.answers.__setitem__(number, verdict))

    for number in range(2, 3 * CHECKS_WAITING_MAX):  # they take one place
        share(number)
    asked.checks.drop(2)
    first.set()
    asked.until(lambda: 2 in asked.ran)
    share(500)  # while it runs
    asked.checks.drop(3)
    gate.set()
    asked.until(lambda: 500 in asked.answers)
    assert asked.ran == [1, 2]
    assert [*asked.answers] == [1, *range(4, 3 * CHECKS_WAITING_MAX), 500]
    share(600)  # anew
    asked.until(lambda: 600 in asked.answers)
    assert asked.ran == [1, 2, 2]
    asked.checks.stop()


def test_no_thread_is_there_before_the_first_check() -> None:
    asked = Asked()
    assert "checks" not in [thread.name for thread in threading.enumerate()]
    asked.ask(1)
    asked.until(lambda: 1 in asked.answers)
    assert "checks" in [thread.name for thread in threading.enumerate()]
    asked.checks.stop()
    assert "checks" not in [thread.name for thread in threading.enumerate()]


def test_a_stop_leaves_the_one_that_runs_alone() -> None:
    asked, gate = Asked(), threading.Event()
    asked.ask(1, gate)
    asked.ask(2)
    asked.until(lambda: asked.ran == [1])
    asked.checks.stop()
    gate.set()
    asked.until(lambda: not asked.checks._worker.is_busy)  # type: ignore[union-attr]
    assert asked.ran == [1] and asked.answers == {}
    asked.checks.stop()
