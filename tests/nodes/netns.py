"""A network of the kernel between nodes: each in a namespace of its own, on one bridge, its packets lost on the way.

Everything is made inside a namespace of this process, so it is gone with it, however it ends. Clients are on the
bridge too. Needs root, and `ip` and `tc`.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

CLONE_NEWNET = 0x40000000
SUBNET = "10.83.0"
BRIDGE = "bridge0"
PORT, PEER_PORT = 61613, 61614

# joins the namespace of another process, then is `radiator`
WITHIN = """\
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).setns(os.open({path!r}, os.O_RDONLY), 0) != 0:
    raise OSError(ctypes.get_errno(), "setns")
from radiator.tools.cli import main
sys.exit(main())
"""


def command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def network_for_this_process_only() -> None:
    """The calling thread, and what it starts from now on, are on a network where nobody is yet."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    command("ip", "link", "set", "lo", "up")


class Namespaces:
    """One for each name. A Network: see network.py."""

    def __init__(self, names: Iterable[str]) -> None:
        self._hosts = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 1)}
        self._holders = {name: holder() for name in self._hosts}
        command("ip", "link", "add", BRIDGE, "type", "bridge")
        command("ip", "address", "add", f"{SUBNET}.254/24", "dev", BRIDGE)
        command("ip", "link", "set", BRIDGE, "up")
        for name, host in self._hosts.items():
            pid = str(self._holders[name].pid)
            command("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", pid)
            command("ip", "link", "set", f"to-{name}", "master", BRIDGE, "up")
            for words in (f"address add {host}/24 dev eth0", "link set eth0 up", "link set lo up"):
                self._in(name, "ip", *words.split())
        self._faults: list[tuple[str, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def server(self, name: str) -> str:
        address = f"stomp://{self._hosts[name]}:{PORT}"
        return f'listen = ["{address}"]\nplain = ["{address}"]'

    def users(self) -> str:
        return '[user.anonymous]\nrole = "operator"\n'

    def listen(self, name: str) -> str:
        return f"{self._hosts[name]}:{PEER_PORT}"

    def address(self, dialler: str, name: str) -> str:
        return f"{self._hosts[name]}:{PEER_PORT}"

    def program(self, name: str) -> tuple[str, ...]:
        return ("-c", WITHIN.format(path=f"/proc/{self._holders[name].pid}/ns/net"))

    def silence(self, source: str, target: str) -> None:
        """The source's packets to the target go nowhere, its answers too: nothing tells it so."""
        self._in(source, "ip", "route", "replace", "blackhole", f"{self._hosts[target]}/32")
        self._faults.append((source, "ip", "route", "del", "blackhole", f"{self._hosts[target]}/32"))

    def slow(self, name: str) -> None:
        """1 Mbit a second, its clients included."""
        shape = "root tbf rate 1mbit burst 16kb latency 200ms"
        self._in(name, "tc", "qdisc", "replace", "dev", "eth0", *shape.split())
        self._faults.append((name, "tc", "qdisc", "del", "dev", "eth0", "root"))

    def cut(self, one: str, other: str) -> None:
        """Where the kernel knows `ss -K`; elsewhere nothing happens."""
        with suppress(OSError):
            self._in(one, "ss", "-K", "dst", self._hosts[other])

    def heal(self) -> None:
        for name, *words in self._faults:
            with suppress(OSError):  # said twice
                self._in(name, *words)
        self._faults.clear()

    def close(self) -> None:
        """Twice does no harm."""
        for link in (*(f"to-{name}" for name in self._hosts), BRIDGE):  # with its namespace one would go when it likes
            with suppress(OSError):
                command("ip", "link", "del", link)
        for one in self._holders.values():
            one.kill()
            one.wait()

    def _in(self, name: str, *words: str) -> None:
        command("nsenter", "-t", str(self._holders[name].pid), "-n", *words)


def holder() -> "subprocess.Popen[bytes]":
    """A process that has a namespace of its own, and keeps it while nodes come and go."""
    printed = "import ctypes, sys; sys.exit(1) if ctypes.CDLL(None).unshare(0x40000000) else print(flush=True); input()"
    one = subprocess.Popen([sys.executable, "-c", printed], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert one.stdout is not None
    one.stdout.readline()
    if one.poll() is not None:
        raise OSError("unshare of a network namespace failed")
    return one


def is_there() -> bool:
    """Whether namespaces, a bridge, veth and tbf can be made here; tried in a process of its own."""
    trial = (
        "from tests.nodes.netns import Namespaces, network_for_this_process_only as own\n"
        "own()\nwith Namespaces('ab') as net: net.silence('a', 'b'); net.slow('a'); net.heal()\n"
    )
    return subprocess.run([sys.executable, "-c", trial], capture_output=True, env=os.environ).returncode == 0
