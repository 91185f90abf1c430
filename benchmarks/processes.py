"""Processes of brokers: started, watched, and ended with all their children."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from radiator.tools.cli.load import LoadFailed, process_cpu_s

START_MAX_S = 60.0
END_MAX_S = 10.0


@dataclass(kw_only=True)
class Launch:
    """All that makes a broker start the way it does: the last of the commands is the broker itself.

    It is what the report shows, so the directory is written DIR in it. port: which answers once it is up; ports_before:
    those of the commands before it, each of which is waited for.
    """

    commands: list[list[str]]
    port: int
    ports_before: list[int] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class Running:
    """A broker that is up."""

    port: int
    pids: list[int]
    log: Path
    launch: Launch

    def cpu_s(self) -> float:
        """Of all its processes, children included."""
        return sum(_cpu_s(pid) for pid in tree(self.pids))

    def pause(self) -> None:
        """While others are measured it shall not use the CPU."""
        for pid in tree(self.pids):
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in tree(self.pids):
            _signal(pid, signal.SIGCONT)


@contextlib.contextmanager
def running(launch: Launch, directory: Path) -> Iterator[Running]:
    """A broker with fresh data in `directory`, and nothing of it afterwards."""
    with fresh(directory):
        for name, text in launch.files.items():
            (directory / name).write_text(text.replace("DIR", str(directory)))
        environment = {**os.environ, **{k: v.replace("DIR", str(directory)) for k, v in launch.environment.items()}}
        log = directory / "log.txt"
        processes: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("wb") as printed:
                ports = [*launch.ports_before, launch.port]
                for command, port in zip(launch.commands, ports, strict=True):
                    words = [word.replace("DIR", str(directory)) for word in command]
                    processes.append(
                        subprocess.Popen(words, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                                         stdout=printed, stderr=printed, start_new_session=True)
                    )  # fmt: skip
                    wait_for_port(port, processes[-1], log)
            yield Running(launch.port, [process.pid for process in processes], log, launch)
        finally:
            pids = tree([process.pid for process in processes])
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            for process in processes:
                process.wait()
            _wait_until_gone(pids)


@contextlib.contextmanager
def fresh(directory: Path) -> Iterator[None]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + START_MAX_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end_s:
                raise LoadFailed(f"{process.args!r} did not come up: {log.read_text()[-600:]}") from None
            time.sleep(0.02)


def tree(pids: list[int]) -> list[int]:
    """These processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(entry.path, "stat").read_bytes()
                children.setdefault(int(stat.rpartition(b")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def _wait_until_gone(pids: list[int]) -> None:
    """Children are not ours to wait for, but the next measurement shall not meet them, nor their files."""
    end_s = time.monotonic() + END_MAX_S
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < end_s:
        time.sleep(0.005)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


def _cpu_s(pid: int) -> float:
    try:
        return process_cpu_s(pid)
    except OSError:
        return 0.0  # a child that has just ended


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
