"""`radiator top` on a real terminal: it fits, ends as it should, and leaves the terminal as it was."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from struct import pack

import pytest

from radiator.client import Client
from radiator.tools.cli.text import width_of
from tests.broker_process import BrokerProcess, environment

LONG = "q" * 255


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        with Client(running.address) as client:
            for number in range(30):
                client.send(f"/queue/row{number}", b"x")
            client.send(f"/queue/{LONG}", b"x")
        yield running


class Top:
    """Runs it in a terminal of its own."""

    def __init__(self, broker: BrokerProcess, lines: int, columns: int, *arguments: str) -> None:
        self.printed = ""
        command = [sys.executable, "-m", "radiator", "top", "--broker", broker.address, "--interval", "0.1", *arguments]
        sized = {name: value for name, value in environment().items() if name not in ("LINES", "COLUMNS")}
        self.ours, self.theirs = pty.openpty()
        ioctl(self.theirs, termios.TIOCSWINSZ, pack("HHHH", lines, columns, 0, 0))
        self.modes = termios.tcgetattr(self.theirs)
        self.child = os.fork()
        if self.child == 0:
            os.setsid()
            ioctl(self.theirs, termios.TIOCSCTTY, 0)
            for number in (0, 1, 2):
                os.dup2(self.theirs, number)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvpe(sys.executable, command, sized)

    def __enter__(self) -> "Top":
        return self

    def __exit__(self, *_: object) -> None:
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.ours)
        os.close(self.theirs)

    def looks(self, count: int) -> list[list[str]]:
        """The lines of each of the first ones, once there are so many whole ones."""
        end_s = time.monotonic() + 20
        while self.printed.count("\x1b[H\x1b[2J") <= count:
            assert time.monotonic() < end_s and select.select([self.ours], [], [], 20)[0], self.printed
            self.printed += os.read(self.ours, 65_536).decode()
        return [look.split("\r\n") for look in self.printed.split("\x1b[H\x1b[2J")[1:-1]]

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def wait(self) -> int:
        """Its exit status; it must end soon, with the terminal as it was."""
        end_s = time.monotonic() + 10
        while (ended := os.waitpid(self.child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < end_s, "it goes on"
            if select.select([self.ours], [], [], 0.01)[0]:
                self.printed += os.read(self.ours, 65_536).decode()
        self.child = 0
        return os.waitstatus_to_exitcode(ended[1])

    @property
    def is_as_it_was(self) -> bool:
        return termios.tcgetattr(self.theirs) == self.modes


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_look_fits_the_terminal(broker: BrokerProcess, columns: int) -> None:
    with Top(broker, 15, columns) as top:
        for lines in top.looks(2):
            assert len(lines) <= 15 and lines[-1] == ""
            assert max(map(width_of, lines)) <= columns, lines
            heads = next(line.split() for line in lines if line.startswith("queue "))
            assert {"acked/s", "ready", "unacked", "oldest"} <= set(heads)
            if columns != 80:
                assert ("delayed" in heads) == (columns > 80)
            rows = [line for line in lines if line.startswith(("row", "qqq"))]
            assert len(rows) >= 4 and all(re.search(r"\d+ s$", row) for row in rows), lines
            assert lines[-2] == "q: end"
            assert any("more, which move less" in line for line in lines)


@pytest.mark.parametrize("how", ["q", "Q", "Ctrl-C", "SIGTERM"])
def test_ends_and_leaves_the_terminal_as_it_was(broker: BrokerProcess, how: str) -> None:
    with Top(broker, 24, 80, "--interval", "5") as top:
        end_s = time.monotonic() + 20
        while top.is_as_it_was:
            assert time.monotonic() < end_s, "it reads no keys"
            time.sleep(0.01)
        if how == "SIGTERM":
            os.kill(top.child, signal.SIGTERM)
        else:
            top.press({"Ctrl-C": b"\x03"}.get(how, how.encode()))
        assert top.wait() == 0
        assert top.is_as_it_was
        assert "Traceback" not in top.printed


def test_other_keys_change_nothing(broker: BrokerProcess) -> None:
    with Top(broker, 24, 80) as top:
        top.looks(1)
        top.press(b"x\n\x1b[A ")
        top.looks(4)
        top.press(b"q")
        assert top.wait() == 0


def test_without_keys_it_goes_on(broker: BrokerProcess, tmp_path: Path) -> None:
    """Where stdin is no terminal."""
    command = [sys.executable, "-m", "radiator", "top", "--broker", broker.address, "--interval", "0.1", "--count", "2"]
    ended = subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert ended.stderr == "" and ended.stdout.count("\nqueue ") == 2 and "q: end" not in ended.stdout
