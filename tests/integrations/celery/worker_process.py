"""A real worker of Celery in a process of its own, on tests/integrations/celery/project.py.

`with WorkerProcess(broker.port, directory) as worker:` returns once it is ready, and ends it with all its children
however the test ends.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import IO, Self

from tests.broker_process import CHECKOUT, environment

READY_MAX_S = 30.0
STOP_MAX_S = 45.0  # a child of billiard's pool waits 30 s for its stopping parent to read its last result
NEW_CHILD_S = 0.7
IN_ITS_LOOP = "The worker is in its loop."  # said by tests/integrations/celery/project.py


def surroundings(port: int, book: Path, backend: str = "rpc://", url: str = "") -> dict[str, str]:
    """What tests/integrations/celery/project.py is told, beside what every child process is."""
    return {
        **environment(),
        "PROJECT_BROKER": url or f"radiator://127.0.0.1:{port}",
        "PROJECT_BACKEND": backend,
        "PROJECT_BOOK": str(book),
    }


class WorkerProcess:
    """log: all that it has written so far. url: of the broker, where it is not at that port without TLS and login."""

    def __init__(
        self,
        port: int,
        book: Path,
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        name: str = "worker",
        queues: str = "celery",
        backend: str = "rpc://",
        options: tuple[str, ...] = (),
        url: str = "",
    ) -> None:
        self.name = f"{name}@test"
        self._command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "tests.integrations.celery.project",
            "worker",
            "-n",
            self.name,
        ]
        self._command += ["-P", pool, "-c", str(concurrency), "-Q", queues, "-l", "INFO", *options]
        self._surroundings = surroundings(port, book, backend, url)
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self.process: subprocess.Popen[str] | None = None
        self.life = 0  # how often it was started
        self.concurrency = concurrency
        self._pool = pool

    def start(self) -> Self:
        """Returns once it is ready for tasks."""
        return self.spawn().wait_until_ready()

    def spawn(self) -> Self:
        """Returns at once."""
        self._lines.clear()
        self.life += 1
        self._surroundings["PROJECT_WORKER"] = self.signature
        self.process = subprocess.Popen(
            self._command,
            cwd=CHECKOUT,
            env=self._surroundings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        )
        assert self.process.stderr is not None
        threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True).start()
        return self

    def wait_until_ready(self) -> Self:
        self.wait_for_log(" ready.", READY_MAX_S)
        return self

    @property
    def signature(self) -> str:
        """Of this life of it, in the book."""
        return f"{self.name}-{self.life}"

    @property
    def log(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait_for_log(self, text: str, timeout_s: float = 10.0, since: int = 0) -> None:
        """AssertionError with the whole log where it does not come in time."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not any(text in line for line in self._lines[since:]):
                left_s = deadline_s - time.monotonic()
                assert left_s > 0, f"no line with {text!r} in the worker's log:\n{''.join(self._lines)}"
                self._changed.wait(left_s)

    @property
    def lines_count(self) -> int:
        with self._changed:
            return len(self._lines)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        """To the worker itself, not to its children."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, a warm shutdown: the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self, timeout_s: float = STOP_MAX_S) -> int:
        assert self.process is not None
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGUSR2)  # where it is, and where each of its children
            time.sleep(0.5)
            raise AssertionError(f"the worker does not end:\n{self.log}") from None

    def kill(self) -> None:
        """SIGKILL, the whole of it at once: as if its machine had died."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_MAX_S)

    @property
    def is_prefork(self) -> bool:
        return self._pool == "prefork"

    def kill_child(self, chance: Random) -> bool:
        """SIGKILL to one process of its pool, replaced when this returns; False: there is none.

        A warm shutdown that comes before the new one is up waits for it for ever, whatever the transport (billiard);
        nothing tells when it is.
        """
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not children:
            return False
        self.wait_for_log(IN_ITS_LOOP)
        child = chance.choice(children)
        try:
            os.kill(int(child), signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.wait_for_log(f"pid:{child} exited")
        time.sleep(NEW_CHILD_S)
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _read_log(self, stderr: IO[str]) -> None:
        with stderr:
            for line in stderr:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
