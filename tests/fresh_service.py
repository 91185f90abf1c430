"""Radiator as a service of a systemd that is process 1: what OPERATING.md says of it, step by step.

The system is a bare Debian, as that of scripts/test-fresh, with systemd in it. It runs in namespaces of its own, with a
network of its own, so nothing here is touched, and all of it is gone when this ends. It takes some minutes.

That needs root here, mmdebstrap or debootstrap, a few hundred megabytes to download, and a cgroup2 that is mounted.

Exit status: 0 all went well; 1 something failed; 2 it could not be tried.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.fresh import (
    CHECKOUT,
    MIRROR,
    PACKAGES,
    SYSTEM_PATH,
    CannotTry,
    Debian,
    Failed,
    Passed,
    clone,
    own_directory,
    say,
)

PROGRAM = "/opt/radiator/bin/radiator"
CONFIG = "/etc/radiator/config.toml"
WAIT_MAX_S = 60.0
WATCHDOG_MAX_S = 90.0  # WatchdogSec=30 of the unit, and time to start again
REMOVAL_MAX_S = 10.0
# The root of its own mount namespace: what ProtectSystem= and its like need. /dev is not the machine's.
BOOT = """\
set -eu
root=$1
mount --bind "$root" "$root"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
cd "$root"
pivot_root . .
umount -l .
exec env -i container=other PATH="$2" /lib/systemd/systemd --show-status=no --log-target=journal
"""


def documented_steps(operating: str) -> tuple[list[str], list[str]]:
    """What OPERATING.md has an operator say: what needs the network, and what follows from `install-service` on."""
    found = re.search(r"```sh\n(python3 -m venv /opt/radiator\n.*?)```", operating, re.DOTALL)
    assert found is not None, "OPERATING.md does not say how to install the service"
    lines = [line.partition("#")[0].strip() for line in found[1].splitlines()]
    at = lines.index(f"{PROGRAM} install-service")
    return lines[:at], lines[at:]


@contextmanager
def own_cgroup() -> Iterator[Path]:
    """Below the cgroup2 that is mounted here. CannotTry."""
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    tops = [Path(words[4]) for words in mounts if words[words.index("-") + 1] == "cgroup2"]
    if not tops:
        raise CannotTry("no cgroup2 is mounted here, which systemd needs.")
    group = tops[0] / f"radiator-fresh-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise CannotTry(f"systemd needs a cgroup of its own: {error}.") from None
    try:
        yield group
    finally:
        for directory, _, _ in os.walk(group, topdown=False):
            remove_cgroup(Path(directory))


def remove_cgroup(directory: Path) -> None:
    """As soon as its killed processes are gone."""
    end_s = time.monotonic() + REMOVAL_MAX_S
    while True:
        try:
            return directory.rmdir()
        except OSError:
            if time.monotonic() > end_s:
                raise
        time.sleep(0.05)


class Booted:
    """A system whose process 1 is systemd."""

    def __init__(self, root: Path, group: Path) -> None:
        join = 'echo $$ > "$1"/cgroup.procs; shift; exec "$@"'
        unshare = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child=KILL"]
        boot = ["sh", "-c", BOOT, "sh", str(root), SYSTEM_PATH]
        self._running = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "sh", "-c", join, "sh", str(group), *unshare, *boot],
            start_new_session=True,
        )
        self._first = 0

    def end(self) -> None:
        """All of its processes, by the death of its first; own_cgroup waits for theirs."""
        self._running.kill()
        self._running.wait()

    def wait_until_up(self) -> str:
        """What systemd says of itself then. CannotTry."""
        end_s = time.monotonic() + WAIT_MAX_S
        found = ""
        while found not in ("running", "degraded"):
            if self._running.poll() is not None:
                raise CannotTry(f"systemd did not start here: status {self._running.returncode}.")
            if time.monotonic() > end_s:
                raise CannotTry(f"systemd did not come up within {WAIT_MAX_S:.0f} s; it says: {found or 'nothing'}")
            time.sleep(0.2)
            children = Path(f"/proc/{self._running.pid}/task/{self._running.pid}/children").read_text().split()
            if children:
                self._first = int(children[0])
                found = self.run("systemctl", "is-system-running", may_fail=True).strip()
        return found

    def run(self, *command: str, may_fail: bool = False) -> str:
        """Runs it in there. What it writes, errors included. Failed."""
        enter = ["nsenter", "--target", str(self._first), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        done = subprocess.run(
            [*enter, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_MAX_S,
            env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "HOME": "/root"},
        )
        if done.returncode != 0 and not may_fail:
            raise Failed(f"`{' '.join(command)}`: status {done.returncode}: {done.stdout.strip()}")
        return done.stdout

    def radiator(self, *words: str) -> str:
        return self.run(PROGRAM, *words)

    def receive(self) -> str:
        return self.radiator("receive", "--count", "1", "--timeout", "10", "/queue/orders").strip()

    def property(self, name: str) -> str:
        return self.run("systemctl", "show", "--value", "--property", name, "radiator").strip()

    def journal(self, *options: str) -> str:
        self.run("journalctl", "--sync")
        return self.run("journalctl", "--unit", "radiator", "--no-pager", "--output", "cat", *options)

    def wait_for(self, what: str, is_so: Callable[[], bool], max_s: float = WAIT_MAX_S) -> None:
        end_s = time.monotonic() + max_s
        while not is_so():
            if time.monotonic() > end_s:
                status = self.run("systemctl", "status", "--no-pager", "radiator", may_fail=True)
                raise Failed(f"not within {max_s:.0f} s: {what}\n{status}")
            time.sleep(0.1)
        say(f"  {what}")

    def restarted(self, since: str) -> bool:
        """Whether the broker runs, as another process."""
        return self.property("SubState") == "running" and self.property("MainPID") not in ("0", since)


def expect(what: str, is_so: bool) -> None:
    if not is_so:
        raise Failed(f"it is not so: {what}")
    say(f"  {what}")


def walk(system: Booted, steps: Sequence[str]) -> None:
    """Failed at the first that is not as the documents have it."""
    for step in steps:
        system.run(*step.split())
    expect("`systemctl enable --now` returns when the broker listens", "listening" in system.journal())
    pid = system.property("MainPID")
    expect("install-service said again changes nothing", ": made" not in system.radiator("install-service"))
    look_at_sandbox(system, pid)

    system.radiator("send", "--create", "/queue/orders", "before")
    system.run("systemctl", "restart", "radiator")
    expect("`systemctl restart` brings another process", system.restarted(pid))
    expect("which has what was receipted", system.receive() == "before")
    reload(system)
    back_up(system)
    for sign, max_s in (("KILL", WAIT_MAX_S), ("STOP", WATCHDOG_MAX_S)):  # the second is the watchdog's
        system.radiator("send", "/queue/orders", sign)
        pid = system.property("MainPID")
        system.run("sh", "-c", f"kill -{sign} {pid}")
        system.wait_for(f"after SIG{sign} systemd starts another", lambda pid=pid: system.restarted(pid), max_s)  # type: ignore[misc]
        expect("which has what was receipted", system.receive() == sign)
    mistake(system)

    pid = system.property("MainPID")
    system.radiator("uninstall-service")
    expect("uninstall-service leaves no unit", system.property("LoadState") == "not-found")
    system.run("sh", "-c", f"! test -e /proc/{pid}")
    system.run("test", "-e", "/var/lib/radiator/data.mdb", "-a", "-e", CONFIG)
    expect("no process, and the data and the configuration", True)


def look_at_sandbox(system: Booted, pid: str) -> None:
    """What the kernel says of it."""
    lines = system.run("cat", f"/proc/{pid}/status").splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    expect("it has no capability", int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0)
    expect("it gets no new privileges, and system calls are filtered", status["NoNewPrivs"] + status["Seccomp"] == "12")
    mounts = [line.split()[4:6] for line in system.run("cat", f"/proc/{pid}/mountinfo").splitlines()]
    writable = [place for place, how in mounts if how.split(",")[0] == "rw"]
    expect("of the disk it writes its data", "/var/lib/radiator" in writable and not {"/", "/home"} & set(writable))
    files = system.run("sh", "-c", f"grep 'open files' /proc/{pid}/limits").split()[3]
    adjusted = system.run("cat", f"/proc/{pid}/oom_score_adj").strip()
    for line, is_so in (("LimitNOFILE=65536", files == "65536"), ("OOMScoreAdjust=-500", adjusted == "-500")):
        if not is_so:
            say(f"  this machine does not let systemd apply {line} (CAP_SYS_RESOURCE)")


def reload(system: Booted) -> None:
    pid = system.property("MainPID")
    system.run("sh", "-c", f"printf '\\n[queue.\"orders\"]\\nmax_messages = 7\\n' >> {CONFIG}")
    system.run("systemctl", "reload", "radiator")
    system.wait_for("`systemctl reload` says what has changed", lambda: "setting=queue.orders" in system.journal())
    expect("and keeps the process", system.property("MainPID") == pid)
    system.radiator("send", "--create", "/queue/a>b", "warned of")
    warnings = system.journal("--priority", "warning")
    expect("`journalctl -p warning` has warnings alone", "a>b" in warnings and " info " not in warnings)


def back_up(system: Booted) -> None:
    expect("the timer waits", "radiator-backup" in system.run("systemctl", "list-timers", "--no-pager"))
    system.run("systemctl", "start", "radiator-backup.service")
    (made,) = system.run("sh", "-c", "echo /var/lib/radiator-backup/*").split()
    system.radiator("restore", made, "/root/restored")
    expect("its backup can be restored", True)


def mistake(system: Booted) -> None:
    system.run("cp", CONFIG, "/root/config.toml")
    system.run("sh", "-c", f"echo '[nonsense' >> {CONFIG}")
    system.run("systemctl", "reload", "radiator")
    system.wait_for("a mistake refuses the reload", lambda: "reload_refused" in system.journal("--priority", "warning"))
    system.run("systemctl", "restart", "radiator", may_fail=True)
    state = [system.property(name) for name in ("SubState", "ExecMainStatus")]
    expect("a restart fails with status 2, and is not tried again", state == ["failed", "2"])
    errors = system.journal("--priority", "err").splitlines()
    expect("`journalctl -p err` says why", any(line.startswith(f"radiator: {CONFIG} is not TOML") for line in errors))
    system.run("cp", "/root/config.toml", CONFIG)
    system.run("systemctl", "start", "radiator")


def try_it(wanted: argparse.Namespace) -> None:
    """CannotTry, Failed."""
    if os.geteuid() != 0:
        raise CannotTry("it needs root.")
    if not (shutil.which("mmdebstrap") or shutil.which("debootstrap")):
        raise CannotTry("it needs mmdebstrap or debootstrap: on Debian or Ubuntu: apt install mmdebstrap")
    online, steps = documented_steps((CHECKOUT / "docs/OPERATING.md").read_text(encoding="utf-8"))
    with own_directory() as directory, own_cgroup() as group:
        say(f"making a bare {wanted.suite} with systemd")
        packages = f"{PACKAGES},systemd,dbus"
        try:
            debian = Debian(directory, Passed(dict(os.environ)), wanted.suite, wanted.mirror, packages)
        except Failed as what:
            raise CannotTry(str(what)) from None
        root = directory / "system"
        debian.copy(root)
        clone(root / "root", 0)
        debian.run_in(root, 0, ["sh", "-ec", "\n".join(["export PIP_QUIET=1", "cd ~/radiator", *online])])
        system = Booted(root, group)
        try:
            say(f"systemd is up: {system.wait_until_up()}")
            walk(system, steps)
        finally:
            system.end()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/test-service", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="bookworm", help="of Debian; default %(default)s")
    parser.add_argument("--mirror", default=MIRROR, help="of Debian; default %(default)s")
    wanted = parser.parse_args(argv)
    began_s = time.monotonic()
    try:
        try_it(wanted)
    except CannotTry as why:
        say(f"cannot be tried: {why}")
        return 2
    except Failed as what:
        say(f"FAILED: {what}")
        return 1
    say(f"all went well ({time.monotonic() - began_s:.0f} s)")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
