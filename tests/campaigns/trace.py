"""A broker under strace: killed at the N-th call of a kind, or with a record of all that it asked of its disk.

strace counts the calls of each thread for itself. So a broker is killed in its start by an strace that starts it, and
under load by one that comes when it listens: else the calls of the start would hide those of the committer's thread.
"""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DISK_CALLS = (
    "writev", "pwrite64", "pwritev", "pwritev2", "fdatasync", "fsync", "ftruncate", "truncate", "mkdir",
    "rename", "renameat", "renameat2", "unlink", "unlinkat",
)  # fmt: skip
ANSWER_CALLS = ("sendto", "sendmsg", "write")  # what leaves for a client, the log, and from one thread to another
CRASH_CALLS = (*DISK_CALLS, *ANSWER_CALLS)

_EXEC = ("-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])")
_ATTACH_MAX_S = 20.0


def started_under(options: Sequence[str]) -> tuple[str, ...]:
    """`program` of a BrokerProcess: the broker with an strace beside it (its grandchild, so the broker stays ours).

    No --seccomp-bpf among the options that inject: strace 6.1 takes both, and injects nothing.
    """
    return (*_EXEC, "strace", "-D", "-f", "-qq", *options, sys.executable, "-m", "radiator")


def kill_at(call: str, number: int) -> list[str]:
    """Options: SIGKILL as a thread enters its so many-th call of that name, which is not carried out."""
    return ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", "-o", os.devnull]


def only_count(file: Path) -> list[str]:
    """Options: a record for `counted`."""
    return ["-e", f"trace={','.join(CRASH_CALLS)}", "-s", "0", "-o", str(file)]


@contextmanager
def attached(pid: int, options: Sequence[str]) -> Iterator[None]:
    """An strace of a process that runs, within; it has come when this begins, and is gone with the end."""
    process = subprocess.Popen(
        ["strace", "-f", "-p", str(pid), *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        printed = process.stderr.readline()
        if "attached" not in printed:
            raise OSError(f"strace did not come: {printed}{process.stderr.read()}")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # it lets go of what it has
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ATTACH_MAX_S)
        process.kill()
        process.wait()
        process.stderr.close()


def record_bytes(file: Path) -> list[str]:
    """Options: a record for `recorded`, with every byte."""
    calls = ",".join((*CRASH_CALLS, "openat", "close", "lseek"))
    return ["--seccomp-bpf", "-e", f"trace={calls}", "-v", "-xx", "-s", "100000000", "-o", str(file)]


def counted(file: Path) -> dict[str, int]:
    """For each kind of call the most that one thread made of it."""
    counts: dict[str, Counter[str]] = {}
    for line in file.read_text(errors="replace").splitlines():
        found = re.match(r"(\d+) +(\w+)\(", line)
        if found is not None:
            counts.setdefault(found[2], Counter())[found[1]] += 1
    return {call: max(threads.values()) for call, threads in counts.items()}


# ---- what a broker asked of its disk ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Made:
    """A file, or a directory, got its first name. Files have numbers that they keep when they are renamed."""

    path: str
    file: int = 0


@dataclass(frozen=True, slots=True)
class Renamed:
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Removed:
    path: str


@dataclass(frozen=True, slots=True)
class Written:
    """is_synced: by the call itself, for the file was opened so."""

    file: int
    offset: int
    data: bytes
    is_synced: bool


@dataclass(frozen=True, slots=True)
class Resized:
    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    file: int


@dataclass(frozen=True, slots=True)
class DirectorySynced:
    path: str


@dataclass(frozen=True, slots=True)
class Answered:
    """Bytes that left for anything that is no file under the root: a socket, the log. descriptor: which of them."""

    data: bytes
    descriptor: int = -1


Event = Made | Renamed | Removed | Written | Resized | Synced | DirectorySynced | Answered


@dataclass(frozen=True, slots=True)
class Recording:
    """in_flight: of calls that a kill ended. strace cannot know if they were carried out, or how far a write got."""

    events: list[Event]
    in_flight: list[Event]


def recorded(file: Path, root: Path) -> Recording:
    """All that was done to files under the root, and all that was answered, in the order in which it was finished."""
    reading = _Reading(str(root))
    ended = []
    for call, arguments, result in _calls(file):
        if result is None:
            ended.append((call, arguments))
        elif result >= 0:
            reading.note(call, arguments, result)
    events, reading.events = reading.events, []
    for call, arguments in ended:
        reading.note(call, arguments, sum(map(len, _strings(arguments))) if "write" in call else -1)
    return Recording(events, reading.events)


def _calls(file: Path) -> Iterator[tuple[str, str, int | None]]:
    """Name, arguments and result (None: a kill ended it) of each; those that another thread's interrupted are put
    together again. A close is as old as its beginning: from then on another thread may be given its descriptor.
    """
    begun: dict[str, str] = {}
    with file.open() as lines:
        for line in lines:
            thread, _, text = line.rstrip("\n").partition(" ")
            text = text.lstrip()
            if text.endswith("<unfinished ...>"):
                begun[thread] = text.removesuffix("<unfinished ...>").rstrip()
                if begun[thread].startswith("close("):
                    yield "close", begun[thread].removeprefix("close("), 0
                continue
            resumed = re.match(r"<\.\.\. \w+ resumed>", text)
            if resumed is not None:
                text = begun.pop(thread) + text[resumed.end() :]
                if text.startswith("close("):
                    continue
            found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+|\?$)", text)
            if found is not None:
                yield found[1], found[2], None if found[3] == "?" else int(found[3])


def _strings(arguments: str) -> list[bytes]:
    return [bytes.fromhex(one.replace("\\x", "")) for one in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]


class _Reading:
    """What the calls mean: which file a descriptor is, where it stands, what a name is a name of."""

    def __init__(self, root: str) -> None:
        self.events: list[Event] = []
        self._root = root
        self._files: dict[str, int] = {}  # by the name it has now
        self._last_file = 0
        self._opened: dict[int, tuple[str, int, bool]] = {}  # descriptor -> path, file (0: a directory), O_DSYNC
        self._places: dict[int, int] = {}  # descriptor -> where a plain write goes

    def note(self, call: str, arguments: str, result: int) -> None:
        strings = _strings(arguments)
        first = re.match(r"\d+", arguments)
        descriptor = int(first[0]) if first is not None else -1
        if call == "openat":
            self._open(strings[0].decode(), arguments, result)
        elif call == "close":
            self._opened.pop(descriptor, None)
        elif call in ("mkdir", "rename", "renameat", "renameat2", "unlink", "unlinkat", "truncate"):
            self._name([one.decode() for one in strings], call, arguments)
        elif descriptor not in self._opened:
            if call in (*ANSWER_CALLS, "writev"):
                self.events.append(Answered(b"".join(strings)[:result], descriptor))
        else:
            self._use(descriptor, call, arguments, b"".join(strings), result)

    def _open(self, path: str, arguments: str, descriptor: int) -> None:
        self._opened.pop(descriptor, None)
        if not path.startswith(self._root):
            return
        is_directory = "O_DIRECTORY" in arguments
        if not is_directory and path not in self._files:
            self._last_file += 1
            self._files[path] = self._last_file
            self.events.append(Made(path, self._last_file))
        self._opened[descriptor] = path, 0 if is_directory else self._files[path], "SYNC" in arguments
        self._places[descriptor] = 0

    def _name(self, paths: list[str], call: str, arguments: str) -> None:
        if not paths[0].startswith(self._root):
            return
        if call == "mkdir":
            self.events.append(Made(paths[0]))
        elif call == "truncate":
            self.events.append(Resized(self._files[paths[0]], int(arguments.rpartition(",")[2])))
        elif call.startswith("rename"):
            self._files[paths[1]] = self._files.pop(paths[0])
            self.events.append(Renamed(*paths))
        else:
            del self._files[paths[0]]
            self.events.append(Removed(paths[0]))

    def _use(self, descriptor: int, call: str, arguments: str, data: bytes, result: int) -> None:
        path, file, is_synced = self._opened[descriptor]
        last = arguments.rpartition(",")[2]
        if call == "lseek":
            self._places[descriptor] = result
        elif call in ("fsync", "fdatasync"):
            self.events.append(Synced(file) if file else DirectorySynced(path))
        elif call == "ftruncate":
            self.events.append(Resized(file, int(last)))
        else:
            is_placed = call in ("pwrite64", "pwritev", "pwritev2")
            if call == "pwritev2":  # its flags come last
                last = arguments.rpartition(",")[0].rpartition(",")[2]
            offset = int(last) if is_placed else self._places[descriptor]
            if not is_placed:
                self._places[descriptor] = offset + result
            self.events.append(Written(file, offset, data[:result], is_synced))
