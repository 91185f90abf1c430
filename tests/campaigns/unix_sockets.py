"""S38: who may connect to a unix socket, at every moment between its making and its listening.

Sockets are made under every umask, with every mode and group, over what was left behind, and looked at behind each
system call that can change who may connect: the mode is never wider than what was asked for, nobody's group has a right
that was meant for another one's, and it listens only once both are final.
"""

import grp
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from radiator.model.limits import Limits
from radiator.model.settings import UnixAddress
from radiator.server.unix import UnixAcceptor
from tests.campaigns.campaign import Campaign, Run

UMASKS = (0o000, 0o002, 0o022, 0o027, 0o077, 0o777)
MODES = (0o600, 0o660, 0o666, 0o620, 0o606)
GROUP_BITS = 0o070
Look = Callable[[str], None]


@contextmanager
def watched(look: Look) -> Iterator[None]:
    """`look` is called behind each of the calls that can change who may connect."""

    def behind(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*arguments: Any) -> Any:
            done = call(*arguments)
            look(name)
            return done

        return do

    places: tuple[tuple[Any, str], ...] = (
        (socket.socket, "bind"), (socket.socket, "listen"), (os, "chmod"), (os, "chown"),
    )  # fmt: skip
    before = [(holder, name, getattr(holder, name)) for holder, name in places]
    for holder, name, call in before:
        setattr(holder, name, behind(name, call))
    try:
        yield
    finally:
        for holder, name, call in before:
            setattr(holder, name, call)


def groups() -> list[str]:
    """Those that this process may give its files to, and none."""
    known = [one for one in grp.getgrall() if os.geteuid() == 0 or one.gr_gid in (os.getegid(), *os.getgroups())]
    return ["", *[one.gr_name for one in known[:5]]]


def judge(run: Run, path: Path, address: UnixAddress, case: str) -> Look:
    wanted = grp.getgrnam(address.group).gr_gid if address.group else os.getegid()
    given = (
        [] if address.group else ["chown"]
    )  # not judged by the group alone: it may be the only one of an ordinary user

    def look(call: str) -> None:
        given.append(call)
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if mode & ~address.mode:
            run.violation(f"Behind {call} the mode is {mode:04o}, wider than {address.mode:04o}: {case}.")
        if mode & GROUP_BITS and (found.st_gid != wanted or "chown" not in given):
            run.violation(f"Behind {call} another group has the rights {mode:04o}: {case}.")
        if call == "listen" and (mode, found.st_gid) != (address.mode, wanted):
            run.violation(f"It listens with the mode {mode:04o}, before it is {address.mode:04o}: {case}.")

    return look


def one(run: Run, path: Path, group: str) -> None:
    umask, mode, is_left = run.chance.choice(UMASKS), run.chance.choice(MODES), run.chance.random() < 0.3
    what = f"umask {umask:03o}, mode {mode:04o}, group {group!r}, {'over one that was left' if is_left else 'new'}"
    if is_left:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
            gone.bind(str(path))
            path.chmod(0o777)
    address = UnixAddress("stomp+unix", path, mode, group)
    before = os.umask(umask)
    try:
        with watched(judge(run, path, address, what)):
            UnixAcceptor(address, Limits()).close()
    finally:
        os.umask(before)
    run.case()


def unix_sockets(run: Run) -> None:
    there = groups()
    while not run.is_over:
        one(run, run.directory / "s", run.chance.choice(there))


CAMPAIGNS = (
    Campaign(
        number="S38",
        name="unix-sockets",
        title="unix sockets under every umask, mode and group, looked at behind each system call",
        unit="sockets",
        run=unix_sockets,
        cases=(500, 10_000, 100_000),
        mutants=("unix-socket-made-wide", "unix-socket-listens-before-its-mode", "unix-socket-mode-before-its-group"),
        mutant_cases=500,
        quick_mutants=3,
        needs=("linux",),
    ),
)
