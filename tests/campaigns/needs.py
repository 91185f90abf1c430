"""What a campaign may need of a machine, each tried for real.

A campaign is skipped only where the machine cannot run it: CannotRun says why. Where scripts/setup could have installed
the program that is missing, that is a failure, NotInstalled: a proof that could have been made, and was not, is none.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.nodes.netns import is_there as netns_is_there


class CannotRun(Exception):
    """This machine cannot run it; the sentence says why."""


class NotInstalled(Exception):
    """scripts/setup could have installed what is missing; the sentence says what."""


def linux() -> None:
    if not sys.platform.startswith("linux"):
        raise CannotRun(f"it needs Linux, and this is {sys.platform}")


def root() -> None:
    linux()
    if os.geteuid() != 0:
        raise CannotRun("it needs root")


def program(name: str, package: str) -> None:
    """Root of a Debian has it by scripts/setup; others are told, and it is skipped."""
    if shutil.which(name) is None:
        kind = NotInstalled if os.geteuid() == 0 and shutil.which("apt-get") else CannotRun
        raise kind(f"{name} is not here; on Debian or Ubuntu: apt install {package}")


def strace() -> None:
    """System calls of a child can be traced and made to fail."""
    linux()
    program("strace", "strace")
    probe = ["strace", "-f", "-qq", "-e", "trace=getcwd", "-e", "inject=getcwd:error=EIO", "-o", "/dev/null", "true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"strace may not trace here: {done.stderr.strip()[-200:]}")


def strace_attach() -> None:
    """System calls of a process that runs already can be traced: not so for everybody where Yama forbids it."""
    strace()
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = subprocess.run(
            ["timeout", "-s", "INT", "0.5", "strace", "-o", "/dev/null", "-p", str(sleeper.pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if "attached" not in done.stderr:
            raise CannotRun(f"strace may not come to a running process here: {done.stderr.strip()[-200:]}")
    finally:
        sleeper.kill()
        sleeper.wait()


def loop_mount() -> None:
    """A file system of one's own can be made and mounted."""
    root()
    program("mkfs.ext4", "e2fsprogs")
    with tempfile.TemporaryDirectory() as directory:
        image, mount = Path(directory, "image"), Path(directory, "mount")
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True, capture_output=True)
        done = subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, text=True)
        if done.returncode != 0:
            raise CannotRun(f"no loop device can be mounted here: {done.stderr.strip()[-200:]}")
        subprocess.run(["umount", mount], check=True)


def own_mounts() -> None:
    """What is mounted can be kept to one process, and goes with it: not so in a chroot whose / is no mount point."""
    root()
    program("unshare", "util-linux")
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"mounts cannot be kept to one process here: {done.stderr.strip()[-200:]}")


def netns() -> None:
    """Nodes can have networks of their own, which can be parted and slowed."""
    root()
    for name, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux")):
        program(name, package)
    if not netns_is_there():
        raise CannotRun("no network namespaces with a bridge and tbf can be made here")


def spin() -> None:
    """A model can be made into a program, compiled and run."""
    program("spin", "spin")
    program("gcc", "gcc")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "probe.pml").write_text("init { assert(true) }\n")
        for command in (["spin", "-a", "probe.pml"], ["gcc", "-w", "-o", "pan", "pan.c"], ["./pan"]):
            done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
            if done.returncode != 0:
                raise CannotRun(f"{command[0]} does not work here: {(done.stdout + done.stderr).strip()[-200:]}")


def openssl() -> None:
    """Certificates can be made."""
    program("openssl", "openssl")


def nomemory() -> None:
    """One allocation of this Python's can be made to fail."""
    if importlib.util.find_spec("_testcapi") is None:
        raise CannotRun("this Python was built without _testcapi, which can let an allocation fail; Debian's has it")


def pyjwt() -> None:
    """JSON Web Tokens can be made."""
    if importlib.util.find_spec("jwt") is None:
        raise NotInstalled("PyJWT is not here: scripts/setup test")


NEEDS: dict[str, Callable[[], None]] = {
    "linux": linux,
    "root": root,
    "pyjwt": pyjwt,
    "strace": strace,
    "strace_attach": strace_attach,
    "loop_mount": loop_mount,
    "own_mounts": own_mounts,
    "netns": netns,
    "spin": spin,
    "nomemory": nomemory,
    "openssl": openssl,
}
