"""Code has the words of its field, one for one thing: names that were given up do not come back, and no two classes of
the package have one name.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.house.sources import nodes_of

CHECKOUT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("radiator", "tests", "benchmarks", "examples")
MODULES = sorted(path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.py"))
TEXTS = [*MODULES, *CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "tests").rglob("*.md")]

# a whole name in any file -> what it is called instead
RETIRED = {
    "Applier": "PreparedDelivery", "Commons": "Shared", "Desk": "TurnContext",
    "Doubtful": "PendingTransfer", "Finding": "OffsetSearch", "Intake": "Admission", "LookUp": "DedupLookup",
    "Planner": "Router", "Room": "WaitList, Capacity", "Staging": "PreparedTransactions",
    "Unstage": "RemovePrepared", "Told": "JournalEvent", "Waking": "ReleaseDelayed", "desk": "context",
    "intake": "admission", "planner": "router", "staged": "prepared", "staging": "prepared", "unstage": "prepared",
    "doubtful": "pending", "chore": "task", "chores": "tasks", "park": "block", "parking": "blocking",
    "unpark": "unblock", "freed": "unblocked", "has_room": "has_capacity, can_take, may_offer", "rooms": "capacities",
    "told": "what it is: an answer, an event, a sentence", "said": "what it is: commands, what was sent or printed",
    "spreading": "gossip", "declaring": "validation", "glance": "poll", "at_sea": "being_committed",
}  # fmt: skip

# a part of any name in the package, between underscores
RETIRED_PARTS = {
    "told": "shown, noted, reported, sent", "said": "sent, printed, reported", "tell": "send, note, report, print",
    "tells": "as tell", "telling": "journal_writer", "room": "capacity, wait_list, waitable", "rooms": "as room",
    "parked": "blocked", "unpark": "unblock", "staged": "prepared", "staging": "prepared", "chore": "task, step",
    "chores": "as chore", "waking": "due", "wakes": "due", "woken": "released", "wakens": "released",
    "bury": "dead_letter", "buried": "dead_letter", "doubtful": "pending, in_doubt", "desk": "context",
    "intake": "admission", "planner": "router", "spreading": "gossip", "news": "node_state", "interest": "subscription",
    "commons": "shared", "declaring": "validation", "who": "client, consumer, producer, node", "whoever": "as who",
    "somebody": "as who", "sea": "being_committed", "books": "ledger",
}  # fmt: skip

EXCEPTIONS = {
    "parked": "what `stats` calls the number of blocked connections",
    "room_for": "a field of a line of the log",
    "tell": "how far a file is read or written",
    "books": "what a job of Spark prints",
}

OF_SPARK = "tests/integrations/spark/test_jobs_conserve.py"  # a column of what the job prints is called told
OF_CELERY = "tests/integrations/celery/project.py"  # its tasks have names of a user's program
OF_MUTANTS = "tests/mutants"  # text of the code, which is judged where it stands

# a class that several files have -> why that is no other thing by the same name
SAME_NAME = {
    "Settle": "of leases, the command; in the store, what a link has settled",
    "Address": "a listener's, and what a client is given to dial: with a login, and no port 0",
    "Channel": "kombu's own word for its part of a connection; the client's is that of a program",
    "ConnectionLost": "the client's error, as the hierarchy that kombu wants of it",
    "Declared": "a declaration: the answer to the operator, and the frame that tells a linked node of it",
    "Message": "a message: as the broker stores it, as a client receives it, as kombu hands it on",
    "Queues": "the queues: in the core, and as the answer to who lists them",
    "Receipt": "a RECEIPT: as the core says it, and as a client reads it",
    "Record": "a record of a log: as the broker gives it, and as a program of SPARK.md is handed it",
    "Subscription": "a subscription: at the broker, and at its client",
    "Transport": "kombu's own word for what makes connections; the server's is what carries bytes",
}


NO_CODE = re.compile(
    r'''"""(?s:.)*?"""|\'\'\'(?s:.)*?\'\'\'|"(?:\\(?s:.)|[^"\\\n])*"|\'(?:\\(?s:.)|[^\'\\\n])*\'|#[^\n]*'''
)
WORD = re.compile(r"[^\W\d]\w*")


def names_in(source: str) -> set[str]:
    """Every name in the code, but those of tests: they are sentences. A real tokenizer takes seconds for all files."""
    return {word for word in WORD.findall(NO_CODE.sub(" ", source)) if not word.startswith("test_")}


@cache
def instead_of(name: str, is_of_the_package: bool) -> str:
    """What to write instead of that name; "": it may stay."""
    if name in EXCEPTIONS:
        return ""
    if is_of_the_package:
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
        for part in RETIRED_PARTS.keys() & parts:
            return RETIRED_PARTS[part]
    return RETIRED.get(name, "")


def retired_in(source: str, is_of_the_package: bool) -> dict[str, str]:
    """The names in it that were given up, and what to write instead."""
    names = names_in(source)
    return {name: instead for name in names if (instead := instead_of(name, is_of_the_package))}


def doubled(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """The names that more than one class has, without a reason."""
    return {name: files for name, files in classes.items() if len(files) > 1 and name not in SAME_NAME}


def classes_of_the_package() -> dict[str, list[str]]:
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for module in MODULES:
        if module.is_relative_to(CHECKOUT / "radiator"):
            for node in nodes_of(module):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    classes[node.name].append(str(module.relative_to(CHECKOUT)))
    return classes


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_is_one_that_was_given_up(folder: str) -> None:
    found = {
        str(path): retired
        for module in MODULES
        if (path := module.relative_to(CHECKOUT)).parts[0] == folder
        and str(path) not in (OF_CELERY, OF_SPARK)
        and not path.is_relative_to(OF_MUTANTS)
        and (retired := retired_in(module.read_text(encoding="utf-8"), folder == "radiator"))
    }
    assert found == {}


def test_no_batch_is_at_sea() -> None:
    pattern = re.compile(r"\bat\ssea\b|\bto\ssea\b", re.IGNORECASE)
    texts = [path for path in TEXTS if path != Path(__file__).resolve()]
    assert [str(path) for path in texts if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_no_two_classes_have_one_name() -> None:
    classes = classes_of_the_package()
    assert doubled(classes) == {}
    assert [name for name in SAME_NAME if len(classes[name]) < 2] == [], "an exception that nothing needs any more"


def test_a_name_that_was_given_up_is_found() -> None:
    source = "def f(room):\n    told = parked_since_s = room\n    # told, rooms\n    return 'said', \"it's\", told\n"
    assert retired_in(source, True).keys() == {"room", "told", "parked_since_s"}
    assert retired_in(source, False).keys() == {"told"}
    assert retired_in("class TurnDesk:\n    x = test_told = stats.parked\n", True).keys() == {"TurnDesk"}
    assert retired_in("def test_what_is_told_is_said():\n    tellers = whole = 1\n", True) == {}
    assert doubled({"Log": ["a.py", "b.py"], "Queue": ["a.py"], "Receipt": ["a.py", "b.py"]}) == {
        "Log": ["a.py", "b.py"]
    }
