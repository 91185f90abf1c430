"""Whether the two commands of the README work on a machine that has nothing else.

A clean clone of what is committed goes into a bare Debian, made by mmdebstrap or debootstrap with Python, its venv
module and git. There scripts/serve runs, and the README's own producer and consumer with it; then scripts/test, to its
end. All of it once as root, and once, in another bare Debian, as an ordinary user.

That needs root here, a few hundred megabytes to download, 5 GB in $TMPDIR and port 61613; it takes half a minute for
the Debian, and then for each of both what scripts/test takes. How to reach registries is taken from this machine: the
configuration of pip, proxies, certificates, and what apt is told of acquiring.

Who is not root, or has neither program, gets less (--path): an empty environment, and a PATH with links to Python, git
and what every system has. What is installed here and found in another way than by PATH is then still found.

Exit status: 0 all went well; 1 something failed; 2 it could not be tried.
"""

import argparse
import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PORT = 61613  # of config.toml, and of the README
USER_ID = 1000
SERVE_MAX_S = 900.0  # with all that pip downloads before
FIRST_MESSAGE_MAX_S = 60.0
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PACKAGES = "python3,python3-venv,git,ca-certificates"
MIRROR = "http://deb.debian.org/debian"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# how registries are reached
PASSED_ON = re.compile(
    r"PIP_(?!CONFIG_FILE).*|(?:https?|ftp|all|no)_proxy|(?:HTTPS?|FTP|ALL|NO)_PROXY"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)
APT_PASSED_ON = re.compile(r'Acquire::(?:(?:https?|ftp)::\S+|Retries|Check-Date|Check-Valid-Until) "[^"]+";')
# of a system that has nothing but itself: what POSIX has, and its usual companions
ESSENTIAL = (
    "awk basename bash cat chgrp chmod chown cksum cmp cp cut date dd df diff dirname du echo env expr false find "
    "getconf grep gunzip gzip head hostname id install kill ldd ln ls mkdir mkfifo mknod mktemp mount mv nice nohup "
    "nproc od printf ps pwd readlink realpath rm rmdir sed seq setpriv sh sha256sum sleep sort stat stty sync "
    "flock tail tar tee test timeout touch tr true tty umount uname uniq unshare wc which whoami xargs"
)

# pid 1 of a namespace of its own, for which all mounts and processes live: a shell, since it must reap what is orphaned
IN_CHROOT = """\
set -eu
root=$1; shift
mount --bind "$root" "$root"  # so that / is a mount point in there, as on a machine
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --bind -o ro "$1" "$root$1"
    shift
done
shift
chroot "$@"
"""


class CannotTry(Exception):
    """The sentence says why."""


class Failed(Exception):
    """The sentence says what."""


def say(sentence: str) -> None:
    print(f"== fresh: {sentence}", flush=True)


# ---- in the checkout under test


def readme_program(text: str) -> str:
    """The first message, as it stands there: it sends, receives and prints."""
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None, "README.md has no program"
    return found[1]


def first_message(checkout: Path) -> None:
    """scripts/serve, and beside it what the README says of a first message. Failed."""
    if is_listening():
        raise CannotTry(f"Something listens at port {PORT} already; scripts/serve would need it.")
    began_s = time.monotonic()
    served = subprocess.Popen([checkout / "scripts/serve"], start_new_session=True)
    try:
        while not is_listening():
            if served.poll() is not None:
                raise Failed(f"scripts/serve ended with status {served.returncode} before it listened.")
            if time.monotonic() - began_s > SERVE_MAX_S:
                raise Failed(f"scripts/serve did not listen within {SERVE_MAX_S:.0f} s.")
            time.sleep(0.2)
        program = readme_program((checkout / "README.md").read_text(encoding="utf-8"))
        run(checkout / ".venv/bin/python", "-c", program, max_s=FIRST_MESSAGE_MAX_S)
        run(checkout / ".venv/bin/radiator", "queues")
        served.terminate()
        if (status := served.wait(60)) != 0:
            raise Failed(f"The broker's status was {status} when it was stopped.")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(served.pid, signal.SIGKILL)
        served.wait()


def is_listening() -> bool:
    try:
        socket.create_connection(("127.0.0.1", PORT), 1).close()
    except OSError:
        return False
    return True


def run(*command: str | Path, max_s: float = SERVE_MAX_S) -> None:
    name = " ".join(str(word).partition("\n")[0] for word in command)
    try:
        done = subprocess.run(command, timeout=max_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: it took longer than {max_s:.0f} s.") from None
    except OSError as error:
        raise Failed(f"{name}: {error}.") from None
    if done.returncode != 0:
        raise Failed(f"{name}: status {done.returncode}.")


def here(serve_only: bool) -> int:
    """Both commands, in this checkout and as it is."""
    name = "root" if os.geteuid() == 0 else "an ordinary user"
    began_s = time.monotonic()
    say(f"as {name}: scripts/serve, to its first message")
    try:
        first_message(CHECKOUT)
    except Failed as what:
        say(f"as {name}: scripts/serve FAILED: {what}")
        return 1
    say(f"as {name}: scripts/serve and its first message: ok ({time.monotonic() - began_s:.0f} s)")
    if serve_only:
        return 0
    began_s = time.monotonic()
    say(f"as {name}: scripts/test, to its end")
    status = subprocess.call([CHECKOUT / "scripts/test"])
    verdict = "ok" if status == 0 else f"FAILED with status {status}"
    say(f"as {name}: scripts/test: {verdict} ({time.monotonic() - began_s:.0f} s)")
    return 0 if status == 0 else 1


# ---- what is passed on from this machine


def pip_config(files: Sequence[Path]) -> configparser.RawConfigParser:
    """What pip would read, the later before the earlier."""
    merged = configparser.RawConfigParser(strict=False)
    merged.read(files, encoding="utf-8")
    return merged


def pip_files(environment: dict[str, str]) -> list[Path]:
    home = Path.home()
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    return files + [Path(file) for file in [environment.get("PIP_CONFIG_FILE", "")] if file]


def local_paths(settings: Iterator[tuple[str, str]]) -> list[Path]:
    """What is named in the settings of pip and lies on this machine. What an index links to may lie beside it."""
    found = []
    for name, value in settings:
        for word in value.split():
            path = Path(word.removeprefix("file://"))
            if path.is_absolute() and path.exists():
                found.append(path.parent if "index" in name.lower() else path)
    return sorted(set(found))


class Passed:
    """How this machine reaches registries."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = {name: value for name, value in environment.items() if PASSED_ON.fullmatch(name)}
        self.pip = pip_config(pip_files(environment))
        of_pip = ((name, value) for part in self.pip.sections() for name, value in self.pip.items(part))
        self.paths = local_paths(iter([*of_pip, *self.environment.items()]))
        self.apt = ""
        if shutil.which("apt-config"):
            dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
            self.apt = "".join(f"{line}\n" for line in dump.splitlines() if APT_PASSED_ON.fullmatch(line))

    def write_into(self, root: Path) -> None:
        """Into a bare system: its /etc, and the certificates."""
        with (root / "etc/pip.conf").open("w", encoding="utf-8") as file:
            self.pip.write(file)
        (root / "etc/apt/apt.conf.d/90acquire").write_text(self.apt)
        for path in {CERTIFICATES, Path("/etc/resolv.conf"), Path("/etc/hosts"), *self.paths}:
            if path.is_file():
                (root / path.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, root / path.relative_to("/"))


# ---- the bare system


class Debian:
    """A bare one; each who tries gets a copy."""

    def __init__(self, directory: Path, passed: Passed, suite: str, mirror: str, packages: str = PACKAGES) -> None:
        self._directory = directory
        self._passed = passed
        self._bare = directory / "bare"
        apt = directory / "apt.conf"
        apt.write_text(passed.apt)
        if shutil.which("mmdebstrap"):
            command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--aptopt={apt}"]
        else:
            command = ["debootstrap", "--variant=minbase"]
        in_namespace([*command, f"--include={packages}", suite, str(self._bare), mirror], os.environ.copy())
        passed.write_into(self._bare)
        with (self._bare / "etc/passwd").open("a") as file:
            file.write(f"somebody:x:{USER_ID}:{USER_ID}::/home/somebody:/bin/sh\n")
        with (self._bare / "etc/group").open("a") as file:
            file.write(f"somebody:x:{USER_ID}:\n")

    def copy(self, root: Path) -> None:
        run("cp", "-a", "--reflink=auto", self._bare, root)

    def run_in(self, root: Path, user_id: int, command: list[str]) -> None:
        """In a copy, with the network and the registries of this machine. Failed."""
        home = "/home/somebody" if user_id else "/root"
        environment = {"HOME": home, "PATH": SYSTEM_PATH, **self._passed.environment}
        binds = [str(path) for path in self._passed.paths if path.is_dir()]
        chroot = ["--", f"--userspec={user_id}:{user_id}", str(root)]
        in_namespace(["sh", "-c", IN_CHROOT, "sh", str(root), *binds, *chroot, *command], environment)

    def here(self, user_id: int, arguments: list[str]) -> int:
        root = self._directory / f"system-{user_id}"
        self.copy(root)
        clone(root / ("home/somebody" if user_id else "root"), user_id)
        try:
            self.run_in(
                root,
                user_id,
                ["sh", "-c", 'cd && cd radiator && exec scripts/test-fresh "$@"', "sh", "--here", *arguments],
            )
        except Failed:
            return 1  # it has said why
        finally:
            shutil.rmtree(root)
        return 0


def in_namespace(command: list[str], environment: dict[str, str]) -> None:
    """Its mounts and processes are gone with it, however it or this ends. Failed."""
    unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    # Ctrl-C is for this process, which then ends that one
    running = subprocess.Popen([*unshare, *command], env=environment, start_new_session=True)
    try:
        status = running.wait()
    except BaseException:
        # the first process in there, so that `unshare` waits until all of them are gone
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        running.wait()
        raise
    if status != 0:
        raise Failed(f"{command[0]} ended with status {status}.")


class BarePath:
    """This machine, with next to nothing on the path."""

    def __init__(self, directory: Path, passed: Passed) -> None:
        self._directory = directory
        self._passed = passed
        self._bin = directory / "bin"
        self._bin.mkdir(parents=True)
        directory.chmod(0o755)
        for name in ["python3", "git", *ESSENTIAL.split()]:
            # the system's own first: what is in somebody's home others may not run
            if found := shutil.which(name, path=SYSTEM_PATH) or shutil.which(name):
                (self._bin / name).symlink_to(found)
        with (directory / "pip.conf").open("w", encoding="utf-8") as file:
            passed.pip.write(file)

    def here(self, user_id: int, arguments: list[str]) -> int:
        home = self._directory / f"home-{user_id}"
        clone(home, user_id)
        (home / "tmp").mkdir(mode=0o700)
        os.chown(home / "tmp", user_id, user_id)
        environment = {
            "HOME": str(home),
            "PATH": str(self._bin),
            "TMPDIR": str(home / "tmp"),
            "PIP_CONFIG_FILE": str(self._directory / "pip.conf"),
            **self._passed.environment,
        }
        owner = {"user": user_id, "group": user_id, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [home / "radiator/scripts/test-fresh", "--here", *arguments]
        running = subprocess.Popen(command, env=environment, start_new_session=True, **owner)  # type: ignore[call-overload]
        try:
            return int(running.wait() != 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGTERM)
            running.wait()
            shutil.rmtree(home)


def clone(home: Path, user_id: int) -> None:
    """What is committed, without a hard link to this repository; its owner is the one who tries."""
    home.mkdir(parents=True, exist_ok=True)
    run("git", "-c", f"safe.directory={CHECKOUT}", "clone", "--quiet", CHECKOUT.as_uri(), home / "radiator")
    if os.geteuid() == 0:
        run("chown", "-R", f"{user_id}:{user_id}", home)


# ---- the command


@contextmanager
def own_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="radiator-fresh-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/test-fresh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--root", action="store_true", help="as root only")
    who.add_argument("--user", action="store_true", help="as an ordinary user only")
    parser.add_argument("--serve-only", action="store_true", help="scripts/serve and its first message: two minutes")
    parser.add_argument("--path", action="store_true", help="no Debian: an empty environment and a PATH of links")
    parser.add_argument(
        "--suite", default="bookworm", help="of Debian; default bookworm, with Python 3.11; forky has 3.14"
    )
    parser.add_argument("--mirror", default=MIRROR, help="of Debian; default %(default)s")
    parser.add_argument("--here", action="store_true", help="only the two commands, in this checkout and environment")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    wanted = arguments(argv)
    try:
        if wanted.here:
            return here(wanted.serve_only)
        return try_all(wanted)
    except CannotTry as why:
        say(f"cannot be tried: {why}")
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def try_all(wanted: argparse.Namespace) -> int:
    is_root = os.geteuid() == 0
    if wanted.root and not is_root:
        raise CannotTry("--root needs root.")
    if not (is_root and (shutil.which("mmdebstrap") or shutil.which("debootstrap"))) and not wanted.path:
        say("a bare Debian needs root and mmdebstrap or debootstrap: on Debian or Ubuntu: apt install mmdebstrap")
        say("without these, only a bare PATH is tried, as with --path")
        wanted.path = True
    if is_listening():
        raise CannotTry(f"something listens at port {PORT} already.")
    status = subprocess.run(["git", "status", "--porcelain"], cwd=CHECKOUT, capture_output=True, text=True).stdout
    if status:
        say(f"only what is committed is tried, and these have changed since:\n{status.rstrip()}")
    users = [user for user, is_wanted in ((0, not wanted.user), (USER_ID, not wanted.root)) if is_wanted]
    if not is_root:
        users = [os.getuid()]
    passed = Passed(dict(os.environ))
    failed = 0
    began_s = time.monotonic()
    with own_directory() as directory:
        try:
            if wanted.path:
                system: Debian | BarePath = BarePath(directory, passed)
            else:
                say(f"making a bare {wanted.suite}")
                system = Debian(directory, passed, wanted.suite, wanted.mirror)
        except Failed as what:
            raise CannotTry(str(what)) from None
        for user in users:
            try:
                failed += system.here(user, ["--serve-only"] if wanted.serve_only else [])
            except Failed as what:
                say(f"FAILED: {what}")
                failed += 1
    say(f"{'all went well' if not failed else 'FAILED'} ({time.monotonic() - began_s:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
