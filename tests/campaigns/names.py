"""S24: names that would like to be paths. No name that a client or a configuration gives becomes the name of a file.

Traversals, absolute paths, the store's own file names, shell words, escapes, 255 bytes: as queues, topics, fanouts,
children, dead letters, temp queues, ids, logins and in requests to /admin. Judged by strace: none of these names is in
any path that the broker gives the system; by what lies in its directories; and by the names themselves, which are still
the same after a restart. It does not see what a shell script of an operator does with a name.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random

from radiator.model.limits import TOPIC_WORDS_MAX
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.bystander import Operator, upright
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.trace import started_under

NAMES_AT_ONCE = 60  # of one broker's life
DECLARED = 6  # of them in its configuration
NAME_MAX_BYTES = 255
FILES = {"data.mdb", "lock.mdb", "wal", "radiator.lock", "radiator.sock"}
SEGMENT = re.compile(r"home/of the broker/data/wal/[0-9]{10}\.wal")

# MARK stands for letters that are in nothing else; it is looked for in every path
SHAPES = (
    "MARK", "../MARK", "../../MARK", "../../../../../../../../tmp/MARK", "../../etc/passwd/MARK", "/etc/MARK", "//MARK",
    "./MARK", "MARK/..", "MARK/../..", "MARK/.", "MARK/", "MARK//", "/MARK/", "..\\..\\MARK", "C:\\MARK", "C:MARK",
    "\\\\host\\share\\MARK", "~/MARK", "~root/MARK", "~MARK", "$HOME/MARK", "${MARK}", "$(touch MARK)", "`touch MARK`",
    ";touch MARK", "|touch MARK", "&& touch MARK", "> MARK", "< MARK", "MARK\u2215..\u2215", "%2e%2e%2fMARK", "%00MARK",
    "MARK%00.txt", "..%c0%afMARK", "....//MARK", "..;/MARK", "file:///tmp/MARK", "http://MARK/", "MARK:stream",
    "-rf MARK", "--config=MARK", "MARK ", " MARK", "MARK.", ".MARK", "..MARK", "MARK.mdb", "MARK.new", "data.mdb/MARK",
    "data.mdb.MARK", "../data/MARK", "../config.toml/MARK", "/proc/self/MARK", "/dev/null/MARK", "/dev/fd/2/MARK",
    "MARK%s%n%x", "{MARK}", "{0.__class__}MARK", "%(MARK)s", "' OR 1=1 -- MARK", '"MARK"', "<MARK>", "MARK\u202etxt",
    "\ufeffMARK", "MARK\u200b", "é/MARK/é", "MARK/" + "a/" * 100, "a/" * 100 + "MARK", "CON.MARK", "nul/MARK",
    "MARK/MARK/MARK", "MARK.lock", "lock.mdb-MARK", "@MARK", "MARK@host", "MARK,MARK", "MARK\u00a0", "😀MARK",
)  # fmt: skip
# these are in paths anyway: what they must not do is harm
RESERVED = (
    "data.mdb", "lock.mdb", "radiator.lock", "data.mdb.new", ".", "..", "/", "//", "../data", "../data/data.mdb",
    "config.toml", "../config.toml", "admin", "/admin", "queue", "con", "aux", "nul", "meta", "queues", "messages",
    "counts", "ledgers", "dedup", "retired", "None", "null", "true", "0", "-1",
)  # fmt: skip
REFUSED = (
    "MARK\0",
    "\0MARK",
    "MARK\n",
    "MARK\r",
    "../MARK\n",
    "MARK\x1b[2J",
    "MARK\x7f",
    "MARK\x85",
    "\tMARK",
    "*",
    "#",
)


def mark(chance: Random) -> str:
    return f"Mk{chance.randrange(16**8):08x}"


def a_name(chance: Random, letters: str) -> str:
    """One of the shapes, perhaps as long as a name may be."""
    name = chance.choice(SHAPES).replace("MARK", letters)
    if chance.random() < 0.15:
        room = NAME_MAX_BYTES - len(name.encode())
        name = chance.choice(("../" * (room // 3) + name, name + "x" * room, name + "/.." * (room // 3)))
    return name


def quoted(name: str) -> str:
    """As TOML writes it."""
    return json.dumps(name, ensure_ascii=False)


def config(names: list[str]) -> str:
    tables = ["[create]\nqueues = true\ntopics = true\n"]
    for name in names:
        tables.append(f"[queue.{quoted(name)}]\ndead_letter = {quoted(dead_letter(name))}\ndedup_window_s = 60\n")
        tables.append(f"[queue.{quoted(dead_letter(name))}]\n")
        tables.append(f"[fanout.{quoted(name)}]\nchildren = [{quoted(name)}, {quoted(dead_letter(name))}]\n")
    return "\n".join(tables)


def dead_letter(name: str) -> str:
    return f"{name[:100]}/{zlib.crc32(name.encode())}/dead"


def use(wire: Wire, name: str, is_declared: bool) -> set[str]:
    """The name in every place where a client may give one: the queues that there are in the end."""
    queue = f"/queue/{name}"
    wire.ask("BEGIN", {"transaction": name})
    wire.send(queue, "1", {"dedup-id": name, name: name, "transaction": name, "correlation-id": name})
    wire.ask("COMMIT", {"transaction": name})
    wire.send(queue, "2", {"reply-to": f"/temp-queue/{name}", "expiration": "86400000"})
    wire.subscribe(queue, id=name)
    first = wire.message()
    wire.nack(first, {"requeue": "false"} if is_declared else {})
    for _ in range(1 if is_declared else 2):  # where there is no dead letter, it comes back
        wire.ack(wire.message())
    wire.ask("UNSUBSCRIBE", {"id": name})
    if name.count(".") < TOPIC_WORDS_MAX:
        wire.subscribe(f"/topic/{name}", id=name)
        wire.send(f"/topic/{name}", "topic")
        topic = wire.message()
        assert topic["destination"] == f"/topic/{name}", topic
        wire.ask("UNSUBSCRIBE", {"id": name})
    if is_declared:
        wire.send(f"/fanout/{name}", "fanned out")
        return {name, dead_letter(name)}
    return {name}


def ask_the_operator(operator: Operator, name: str) -> None:
    """Requests with that name; deleted queues are declared again by their next use."""
    for request in (
        {"do": "peek", "queue": name}, {"do": "peek", "queue": f"/queue/{name}", "count": 1},
        {"do": "purge", "queue": f"{name}/not there"}, {"do": "move", "from": f"{name}/no", "to": name},
        {"do": name}, {"do": "peek", "queue": [name]}, {name: name},
    ):  # fmt: skip
        operator.ask(request)


def refused(run: Run, broker: BrokerProcess, name: str) -> None:
    for destination in (f"/queue/{name}", f"/topic/{name}", name, f"/temp-queue/{name}"):
        wire = Wire((broker.host, broker.port))
        with wire:
            wire.connect({"login": name.replace("\0", ""), "passcode": "../../x"} if "\n" not in name else {})
            # a NUL ends the frame: it cannot be told from the rest
            wire.send_raw(wire.frame("SEND", {"destination": destination, "receipt": "1"}, b"x"))
            try:
                answer = wire.read_frame()
                if answer.command != "ERROR":
                    run.violation(f"A SEND to {destination!r} was answered {answer}.")
            except (Gone, TimeoutError) as wrong:
                run.violation(f"A SEND to {destination!r} was answered nothing: {wrong}.")


def check_paths(run: Run, trace: Path, reported: dict[str, str]) -> None:
    """No mark is in any path that the system was given. told: the name that each mark was in."""
    text = trace.read_text("utf-8", "replace")
    if "data.mdb" not in text:
        raise OSError(f"strace told nothing: {text[:500]}")
    for letters, name in reported.items():
        at = text.find(letters)
        if at >= 0:
            line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]
            run.violation(f"The name {name!r} was in a path: {line[:600]}")


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def one_life(run: Run, directory: Path) -> None:
    chance = run.chance
    answer: dict[str, str] = {}
    names = list(chance.sample(RESERVED, 8))
    for _ in range(min(NAMES_AT_ONCE, max(DECLARED, run.cases - run.done)) - len(names)):
        letters = mark(chance)
        answer[letters] = a_name(chance, letters)
        names.append(answer[letters])
    declared = [name for name in names if name not in RESERVED][:DECLARED]
    home = directory / "home" / "of the broker"
    home.mkdir(parents=True)
    trace = directory / "trace"
    options = ["--seccomp-bpf", "-A", "-e", "trace=%file", "-s", "5000", "-o", str(trace)]
    broker = BrokerProcess(home, config(declared), started_under(options))
    with broker, upright(run, broker):
        wanted: set[str] = set()
        with contextlib.closing(Operator(broker)) as operator, Wire((broker.host, broker.port)) as wire:
            wire.connect()
            for name in names:
                wanted |= use(wire, name, name in declared)
                ask_the_operator(operator, name)
                run.case()
            for shape in REFUSED:
                letters = mark(chance)
                answer[letters] = name = shape.replace("MARK", letters)
                refused(run, broker, name)
            check_names(run, operator, wanted)
        if broker.stop() != 0:
            run.violation(f"The broker did not stop clean: {broker.log[-2000:]}")
        broker.start()
        with contextlib.closing(Operator(broker)) as operator:
            check_names(run, operator, wanted)
        command_line(run, home)
    check_paths(run, trace, answer)
    found = {name for name in tree(directory) if not SEGMENT.fullmatch(name)}
    right = {"trace", "home", "home/of the broker"} | {
        f"home/of the broker/{name}" for name in ("config.toml", "data", "backup", *(f"data/{file}" for file in FILES))
    }
    if found != right:
        run.violation(f"There are files that should not be, or are gone: {sorted(found ^ right)}.")


def check_names(run: Run, operator: Operator, wanted: set[str]) -> None:
    """What the broker has are these names, letter for letter."""
    have = set(operator.stats()["queues"])
    if have != wanted:
        run.violation(f"There are queues {sorted(have - wanted)} too many and {sorted(wanted - have)} too few.")


def command_line(run: Run, home: Path) -> None:
    """Beside the running broker."""
    for words in (["check", "data"], ["backup", "data", "backup"]):
        done = subprocess.run(
            [sys.executable, "-m", "radiator", *words], cwd=home, env=environment(), capture_output=True, text=True
        )
        if done.returncode != 0:
            run.violation(f"radiator {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")


def names(run: Run) -> None:
    for number in range(run.cases):
        if run.is_over:
            break
        directory = run.directory / str(number)
        directory.mkdir()
        one_life(run, directory)
        shutil.rmtree(directory)


CAMPAIGNS = (
    Campaign(
        number="S24",
        name="names",
        title="names that would like to be paths, in every place where a name may stand",
        unit="names",
        run=names,
        cases=(2 * NAMES_AT_ONCE, 3_000, 50_000),
        mutants=("name-in-file-path", "names-normalised", "control-characters-in-names"),
        mutant_cases=NAMES_AT_ONCE,
        quick_mutants=3,
        needs=("strace",),
    ),
)
