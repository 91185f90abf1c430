"""A RabbitMQ of the tests' own, in a directory of its own. Where it is not installed, what needs it is skipped."""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.ports import free_ports

PROGRAMS = Path("/usr/lib/rabbitmq/bin")  # not those of PATH: as root these would become another user
START_MAX_S = 90.0
STOP_MAX_S = 20.0


def needs_rabbitmq() -> None:
    """Skips without it."""
    if not (PROGRAMS / "rabbitmq-server").exists():
        pytest.skip("RabbitMQ is not here; on Debian or Ubuntu: apt install rabbitmq-server")


class RabbitMq:
    """One node. address: of its listener. It has the user guest, who may come from this machine."""

    def __init__(self, directory: Path) -> None:
        self.port, distribution, self._epmd = free_ports(3)
        self.address = f"amqp://127.0.0.1:{self.port}"
        self._directory = directory
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "RABBITMQ_NODENAME": f"tests{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        (directory / "enabled_plugins").write_text("[].\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Returns once it takes connections."""
        command = [str(PROGRAMS / "rabbitmq-server")]
        with (self._directory / "out").open("ab") as out:
            self._process = subprocess.Popen(
                command, env=self._environment, stdout=out, stderr=out, start_new_session=True
            )
        until_s = time.monotonic() + START_MAX_S
        while time.monotonic() < until_s and self._process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as one:
                    one.sendall(b"AMQP\0\0\x09\x01")
                    one.settimeout(10)
                    if one.recv(1):
                        return self
            except OSError:
                time.sleep(0.2)
        out_text = (self._directory / "out").read_text(errors="replace")[-2000:]
        self.kill()
        raise AssertionError(f"RabbitMQ has not started:\n{out_text}")

    def control(self, *words: str) -> str:
        """rabbitmqctl: what it prints."""
        command = [str(PROGRAMS / "rabbitmqctl"), *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self) -> None:
        """At once, with all that it has started but the daemon of names."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_MAX_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        # the daemon of names has made itself independent, and stays while it knows of a node
        until_s = time.monotonic() + STOP_MAX_S
        command = ["epmd", "-port", str(self._epmd), "-kill"]
        while b"Killed" not in subprocess.run(command, capture_output=True, check=False).stdout:
            assert time.monotonic() < until_s, f"epmd still runs on port {self._epmd}"
            time.sleep(0.1)
