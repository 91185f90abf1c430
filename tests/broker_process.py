"""A real broker in a process of its own, for every test that needs one.

`with BrokerProcess(tmp_path) as broker:` starts `python -m radiator serve` on a free port with its data in
`tmp_path/data`, and ends it however the test ends. It may be killed, stopped and started again on the same data; each
start gets a new port, so ask `address` anew.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import radiator

CHECKOUT = Path(radiator.__file__).resolve().parent.parent  # a broken copy of the package starts broken brokers
START_MAX_S = 20.0
STOP_MAX_S = 10.0

SERVER = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "data"
disk_free_min = "16MiB"
map_size = "8GiB"
"""

EVERYTHING_MAY_BE_CREATED = """\
[create]
queues = true
topics = true
"""

DEFAULT_CONFIG = SERVER + "\n" + EVERYTHING_MAY_BE_CREATED


def environment(tree: Path = CHECKOUT) -> dict[str, str]:
    """For a child process that shall find this checkout's package, or that of another tree."""
    path = os.pathsep.join(filter(None, [str(tree), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


class BrokerProcess:
    """config_text: a whole config.toml, or only tables after [server] (then SERVER is put in front of it).
    program: what Python runs; another one may break a part of the broker first and then be the same command. tree: the
    checkout whose package that is.

    address: `stomp://127.0.0.1:PORT` of the running broker; host and port: its parts. unix_path: of its operators'
    socket. log: all that it has written so far, of every start. A directory that holds `data` of an earlier broker is
    used as it is.
    """

    def __init__(
        self,
        directory: Path,
        config_text: str = DEFAULT_CONFIG,
        program: Sequence[str] = ("-m", "radiator"),
        tree: Path = CHECKOUT,
    ) -> None:
        self.directory = directory = directory.resolve()
        self.tree = tree
        self.program = program
        self.data_dir = directory / "data"
        self.unix_path = str(self.data_dir / "radiator.sock")
        self.config_file = directory / "config.toml"
        self.config_file.write_text(config_text if "[server]" in config_text else SERVER + "\n" + config_text)
        self.config_file.chmod(0o600)  # it may have users
        self.address = ""
        self.host = ""
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._reader: threading.Thread | None = None
        self._log_ended = True

    # ---- life

    def start(self) -> Self:
        """Starts the broker and returns once it listens. AssertionError with its log if it does not."""
        assert not self.is_running, "this broker is running already"
        begin = self._spawn()
        line = self.wait_for_log("listening", START_MAX_S, since=begin)
        found = re.search(r"""address="?(stomps?://([^\s":]+|\[[^\s"]+\]):(\d+))""", line)
        assert found is not None, f"the line {line!r} names no address"
        self.address, self.host, self.port = found[1], found[2], int(found[3])
        return self

    def start_and_fail(self, timeout_s: float = START_MAX_S) -> int:
        """Starts a broker that is expected to end by itself: its exit status. What it said is in `log`."""
        assert not self.is_running, "this broker is running already"
        self._spawn()
        return self.wait(timeout_s)

    def stop(self) -> int:
        """SIGTERM: the exit status, 0 for a clean stop."""
        assert self.process is not None, "this broker was never started"
        self.process.send_signal(signal.SIGTERM)
        return self.wait(STOP_MAX_S)

    def kill(self) -> None:
        """SIGKILL, at once; its data stay as they are."""
        if self.process is not None:
            self.process.kill()
            self.wait(STOP_MAX_S)

    def wait(self, timeout_s: float) -> int:
        """The exit status, once it has ended and its whole log is read; negative: the signal that ended it."""
        assert self.process is not None, "this broker was never started"
        assert self._reader is not None
        status = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return status

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None, "this broker was never started"
        return self.process.pid

    # ---- log

    @property
    def log(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait_for_log(self, text: str, timeout_s: float = 5.0, since: int = 0) -> str:
        """The first line at or after line number `since` that has this text, once it is there.

        AssertionError with the whole log if it does not come in time, or the broker has ended without it.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while True:
                for line in self._lines[since:]:
                    if text in line:
                        return line
                left_s = deadline_s - time.monotonic()
                log = "".join(self._lines)
                assert left_s > 0 and not self._log_ended, f"no line with {text!r} in the broker's log:\n{log}"
                self._changed.wait(left_s)

    # ---- with

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _spawn(self) -> int:
        """Starts the process and the reader of its log: how many lines there were before."""
        begin = len(self._lines)
        self.process = subprocess.Popen(
            [sys.executable, *self.program, "serve", "--config", str(self.config_file)],
            cwd=self.directory,
            env=environment(self.tree),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        assert self.process.stderr is not None
        self._log_ended = False
        self._reader = threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True)
        self._reader.start()
        return begin

    def _read_log(self, stderr: IO[str]) -> None:
        with stderr:
            for line in stderr:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._log_ended = True
            self._changed.notify_all()
