"""How much one reads to see why a message that was receipted is not lost: measured.

A real broker is traced twice: a bare connect and stop, and then SEND, RECEIPT, kill -9 and start. What the second one
enters beyond the first is the way of the message; `python -m tests.house.hour` counts its lines anew in the table of
docs/READING.md.
"""

import ast
import io
import re
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from radiator.client import Client
from tests.broker_process import CHECKOUT, DEFAULT_CONFIG, BrokerProcess

PAGE = CHECKOUT / "docs/READING.md"
PACKAGE = CHECKOUT / "radiator"

CONFIG = DEFAULT_CONFIG.replace("[server]", "[server]\nunix = false")
DECLARED = f"{CONFIG}\n[queue.orders]\n"

# What a broker does every second or so. Each run waits for all of it first: else memory might be weighed, say, just
# while the message is on its way.
OFTEN = {
    "Collector._look", "Connection.held_bytes", "HeapTrimmer.look", "LmdbStore.go_on_checking", "Timetable._run",
    "Weighing.end", "committer.<locals>.rest", "loader.<locals>.rest",
}  # fmt: skip
# And every ten seconds or so. The bare run waits for that too: the other one may take as long on a busy machine.
SELDOM = OFTEN | {"PeerActivity.is_owing", "LmdbStore.reader_check", "ServerConnection.look", "ServerConnection._beat"}
WAIT_MAX_S = 40.0

_ROW = re.compile(r"(?m)^\| (\d+) \| `([a-z_/]+\.py)` \| (\d+) \| (.*) \|$")
_SECTION = re.compile(r"(?s)(<!-- hour -->\n)(.*?)(?=<!-- end -->)")
_MADE = re.compile(r"(?s)<!-- first use -->\n(.*?)<!-- end -->")
_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entered:
    """path: within the package. line: where it begins; 0: it is a class, whose `__init__` a dataclass has written."""

    path: str
    line: int
    name: str


def traced(config: str, work: Callable[[BrokerProcess, Path], None]) -> set[Entered]:
    """What the broker enters meanwhile, from its start to its end."""
    with tempfile.TemporaryDirectory() as directory:
        listed = Path(directory) / "entered"
        with BrokerProcess(Path(directory), config, ("-m", "tests.house.traced", str(listed))) as broker:
            work(broker, listed)
        return entered_in(listed)


def entered_in(listed: Path) -> set[Entered]:
    """The last line may be half written yet: it does not count."""
    text = listed.read_text(encoding="utf-8")
    lines = (line.split("\t") for line in text[: text.rfind("\n") + 1].splitlines())
    return {Entered(path, int(line), name) for path, line, name in lines}


def connect_and_stop(broker: BrokerProcess, listed: Path) -> None:
    with Client(broker.address):
        _wait_for(SELDOM, listed)
    assert broker.stop() == 0


def send_and_kill(broker: BrokerProcess, listed: Path) -> None:
    """The client returns once the RECEIPT is there."""
    client = Client(broker.address)
    _wait_for(OFTEN, listed)
    client.send("/queue/orders", "hello")
    broker.kill()
    broker.start()


def _wait_for(names: set[str], listed: Path) -> None:
    deadline_s = time.monotonic() + WAIT_MAX_S
    while missing := names - {one.name for one in entered_in(listed)}:
        assert time.monotonic() < deadline_s, f"not entered in {WAIT_MAX_S:g} s: {sorted(missing)}"
        time.sleep(0.05)


def lines_by_file(way: set[Entered]) -> dict[str, int]:
    """Lines of code in each file: no comments, no docstrings, nothing twice."""
    return {path: len(_lines_of(path, way)) for path in sorted({one.path for one in way})}


def _lines_of(path: str, way: set[Entered]) -> set[int]:
    source = (PACKAGE / path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    code = set(lines_of_code(source, tree))
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            is_entered = any(one.path == path and one.line == first for one in way)
        elif isinstance(node, ast.ClassDef):
            first = node.lineno
            is_entered = Entered(path, 0, node.name) in way
        else:
            continue
        if is_entered:
            assert node.end_lineno is not None
            found |= code & set(range(first, node.end_lineno + 1))
    return found


def lines_of_code(source: str, tree: ast.Module) -> Iterator[int]:
    """Lines that hold anything but comments and docstrings; one may come several times."""
    spoken: set[int] = set()
    for node in ast.walk(tree):
        can_speak = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if can_speak and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            assert docstring.end_lineno is not None
            spoken |= set(range(docstring.lineno, docstring.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            yield from (line for line in range(token.start[0], token.end[0] + 1) if line not in spoken)


def rows(page: str) -> list[tuple[str, int]]:
    """File and lines, in the order of the table."""
    section = _SECTION.search(page)
    assert section is not None, "docs/READING.md has no table between `<!-- hour -->` and `<!-- end -->`"
    found = _ROW.findall(section[2])
    assert [int(number) for number, *_ in found] == [*range(1, len(found) + 1)], "the rows are not numbered in order"
    return [(path, int(lines)) for _, path, lines, _ in found]


def of_first_use(page: str) -> list[str]:
    """The files that are entered beside, where the SEND makes its queue."""
    section = _MADE.search(page)
    assert section is not None, "docs/READING.md has no paragraph between `<!-- first use -->` and `<!-- end -->`"
    return re.findall(r"`([a-z_/]+\.py)`", section[1])


def counted(page: str, lines: dict[str, int]) -> str:
    """The page with these numbers of lines; a file that has no row, and a row of no file, stay for a person."""

    def table(section: re.Match[str]) -> str:
        def row(found: re.Match[str]) -> str:
            return f"| {found[1]} | `{found[2]}` | {lines.get(found[2], 0)} | {found[4]} |"

        return section[1] + _ROW.sub(row, section[2])

    return _SECTION.sub(table, page)


if __name__ == "__main__":
    way = traced(DECLARED, send_and_kill) - traced(DECLARED, connect_and_stop)
    for one in sorted(way, key=lambda one: (one.path, one.line)):
        print(one.path, one.line or "record", one.name)
    print(lines_by_file(way), sum(lines_by_file(way).values()))
    PAGE.write_text(counted(PAGE.read_text(encoding="utf-8"), lines_by_file(way)), encoding="utf-8")
