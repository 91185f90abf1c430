"""A header's name, or the colon behind it, is looked for in bytes by the protocols and by the codecs of header blocks
(radiator/model/headers.py and amqp_properties.py), and by nobody else: all others know fields. So it is with the parts
of a message id (radiator/model/message.py).
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from radiator.model import headers
from radiator.protocols.stomp.spec import CLIENT_COMMANDS, HOP_HEADERS
from tests.house.sources import nodes_of

CHECKOUT = Path(__file__).resolve().parent.parent.parent
MAY = (
    "radiator/protocols/",
    "radiator/model/amqp_properties.py",
    "radiator/model/headers.py",
    "radiator/model/message.py",
    "radiator/tools/cli/load.py",  # a client of its own: it says and reads no more of STOMP than a measurement needs
)
MODULES = [
    path
    for folder in ("radiator", "pyspark_radiator")
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
    if not path.relative_to(CHECKOUT).as_posix().startswith(MAY)
]
NAMES = (
    HOP_HEADERS
    | {value.name for value in vars(headers).values() if isinstance(value, headers.Field)}
    | {name for commands in CLIENT_COMMANDS.values() for command in commands.values() for name in command.required}
    | {b"partition", b"offset", b"skipped", b"end", b"id", b"delay", b"dedup-id", b"mandatory"}
)
LINE = re.compile(rb"(?:^|\n)(?:[a-z][a-z0-9-]*|%[bs]):")
LOOKS = {
    "count", "endswith", "find", "index", "partition", "removeprefix", "replace", "rfind", "rindex", "rpartition",
    "rsplit", "split", "splitlines", "startswith",
}  # fmt: skip


def looked_for(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Each place where a header is looked for, or written, in bytes."""
    for node in nodes:
        if _is_header(node) or _is_cut(node):
            assert isinstance(node, ast.expr)
            yield f"{node.lineno}: {ast.unparse(node)}"


def _is_header(node: ast.AST) -> bool:
    """Whether it is bytes that are a header's name, the beginning of a line, its colon, or the dash of a message id."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bytes):
        return False
    return node.value in NAMES or node.value in (b":", b"-") or LINE.search(node.value) is not None


def _is_cut(node: ast.AST) -> bool:
    """Whether a block is searched or cut."""
    if isinstance(node, ast.Attribute):
        return node.attr in LOOKS and _is_block(node.value)
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and _is_block(node.value)


def _is_block(node: ast.expr) -> bool:
    """Whether it is what a header block is called."""
    return (isinstance(node, ast.Attribute) and node.attr == "headers") or (
        isinstance(node, ast.Name) and node.id in ("block", "headers")
    )


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(CHECKOUT).as_posix())
def test_nobody_else_looks_for_a_header_in_bytes(module: Path) -> None:
    assert list(looked_for(nodes_of(module))) == []


@pytest.mark.parametrize(
    "source",
    [
        'KEY = b"partition-key"',
        'KEY = b"partition-key:"',
        'start = block.find(b"\\n" + KEY)',
        'at = line.rfind(b":")',
        'name, _, value = line.partition(b":")',
        'lines = message.headers.split(b"\\n")',
        "last = message.headers[start:end]",
        'headers = b"partition:%d\\noffset:%d\\n%b" % (0, 1, message.headers)',
        'headers = b"%b:%b\\n" % (name, value)',
        'message = Message("/log/l", b"end:true\\n", 2, b"", 0)',
        'found = b":" in line',
        'boot, sequence = message_id.split(b"-")[-2:]',
    ],
)
def test_what_looks_for_one_is_found(source: str) -> None:
    assert list(looked_for(ast.walk(ast.parse(source))))


@pytest.mark.parametrize(
    "source", ['headers["key"]', "len(message.headers)", 'b"messages"', 'table = b"records"', "message.headers + more"]
)
def test_what_does_not_is_not(source: str) -> None:
    assert not list(looked_for(ast.walk(ast.parse(source))))


def test_every_module_that_may_is_there() -> None:
    assert all((CHECKOUT / path).exists() for path in MAY)
