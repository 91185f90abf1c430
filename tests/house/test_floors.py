"""Imports go down only: who may import what, read from the source (docs/READING.md has the picture)."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.house.sources import PACKAGE, nodes_of

# The parts of the house, and which parts each may import; the longest name that fits a module counts.
FLOORS: dict[str, set[str]] = {
    "radiator": set(),
    # ground: words
    "radiator.model": {"radiator.model"},
    # floor 1: pure wings
    "radiator.auth": {"radiator.auth", "radiator.model"},
    "radiator.core": {"radiator.core", "radiator.model"},
    "radiator.protocols": {"radiator", "radiator.model", "radiator.protocols"},
    "radiator.storage.contract": {"radiator.model"},
    "radiator.storage.codec": {"radiator.model", "radiator.storage.codec"},
    "radiator.storage.guard": {"radiator.model"},
    # floor 2
    "radiator.storage": {
        "radiator.model",
        "radiator.storage",
        "radiator.storage.codec",
        "radiator.storage.contract",
        "radiator.storage.guard",
    },
    # beside the house: what programs and tools import
    "radiator.client": {"radiator", "radiator.auth", "radiator.client", "radiator.model", "radiator.protocols"},
    "radiator.integrations": {"radiator.integrations"},
    "radiator.integrations.kombu": {"radiator", "radiator.client", "radiator.integrations.kombu", "radiator.model"},
    "radiator.integrations.spark": {
        "radiator.client",
        "radiator.integrations.spark",
        "radiator.model",
        "radiator.protocols",
    },
    "radiator.integrations.spark.jobs": {
        "radiator.client",
        "radiator.integrations.spark",
        "radiator.integrations.spark.jobs",
        "radiator.model",
        "radiator.tools.archive",
        "radiator.tools.audit",
        "radiator.tools.cli.text",
    },
    "radiator.kombu": {"radiator.integrations.kombu"},
    "radiator.spark": {"radiator.integrations.spark"},
    "radiator.tools": set(),
    "radiator.tools.archive": {
        "radiator.model",
        "radiator.storage",
        "radiator.storage.codec",
        "radiator.tools.archive",
    },
    "radiator.tools.audit": {
        "radiator.model",
        "radiator.storage",
        "radiator.storage.codec",
        "radiator.tools.archive",
        "radiator.tools.audit",
    },
    # floor 3
    "radiator.server": {
        "radiator",
        "radiator.auth",
        "radiator.core",
        "radiator.model",
        "radiator.protocols",
        "radiator.server",
        "radiator.storage",
        "radiator.storage.codec",
        "radiator.storage.contract",
    },
    # roof
    "radiator.tools.config": {"radiator.auth", "radiator.model", "radiator.protocols", "radiator.tools.config"},
    "radiator.tools.cli.text": {"radiator.model"},
    "radiator.tools.cli": {
        "radiator",
        "radiator.auth",
        "radiator.client",
        "radiator.model",
        "radiator.protocols",
        "radiator.server",
        "radiator.storage",
        "radiator.tools.archive",
        "radiator.tools.audit",
        "radiator.tools.cli",
        "radiator.tools.cli.text",
        "radiator.tools.config",
        "radiator.tools.migrate",
    },
    "radiator.tools.migrate": {"radiator", "radiator.model", "radiator.protocols", "radiator.tools.migrate"},
    "radiator.__main__": {"radiator.tools.cli"},
}
PURE = {
    "radiator",
    "radiator.model",
    "radiator.auth",
    "radiator.core",
    "radiator.protocols",
    "radiator.storage.codec",
    "radiator.storage.contract",
    "radiator.storage.guard",
}
# What the pure parts may import from Python itself: nothing that waits, reads a clock, or sees the machine.
PURE_MODULES = {
    "abc",
    "array",
    "base64",
    "binascii",
    "bisect",
    "codecs",
    "collections",
    "collections.abc",
    "copy",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "http.HTTPStatus",  # of this module alone the table of status codes
    "io.BytesIO",  # bytes that grow in memory: of this module alone the name, since the rest of it opens files
    "ipaddress",
    "itertools",
    "json",
    "math",
    "operator",
    "pathlib",
    "re",
    "string",
    "struct",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "weakref",
    "zlib",
}
OWNERS = {
    "gevent": {"radiator.server"},
    "greenlet": {"radiator.server"},
    "httptools": {"radiator.protocols"},
    "websockets": {"radiator.protocols"},
    "lmdb": {"radiator.storage"},
    "toml": {"radiator.tools.config"},
    "jwt": {"radiator.auth"},
    "cryptography": {"radiator.auth"},
    "fastavro": {"radiator.model"},  # of which it is one file alone, avro.py, that does
    "kombu": {"radiator.integrations.kombu"},
    "amqp": {"radiator.integrations.kombu"},
    "pyarrow": {"radiator.tools.archive", "radiator.integrations.spark", "radiator.integrations.spark.jobs"},
    "pyspark": {"radiator.integrations.spark", "radiator.integrations.spark.jobs"},
}
NOWHERE = {"pickle", "marshal", "shelve", "dill", "yaml", "code", "codeop", "importlib", "imp", "pkgutil", "runpy"}
EXCEPT = {
    ("radiator.integrations.spark.jobs.mapreduce", "importlib"),  # of what its own command line names
    ("radiator.tools.cli", "importlib"),  # of the files in its table of commands
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def module_of(path: Path) -> str:
    """As Python names it."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def part_of(module: str) -> str:
    """The row of FLOORS for a module: itself or the nearest folder above. A new folder or roof file needs a row."""
    name = module
    while name not in FLOORS:
        name = name.rpartition(".")[0]
        assert name, f"{module} is in no part of the house"
    return name


def imports_of(nodes: Iterable[ast.AST], module: str) -> Iterator[tuple[int, str]]:
    """Each module that is imported, with its line; imports inside functions and for types only count too."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: a relative import hides the floor it comes from"
            assert node.module is not None
            for alias in node.names:
                inner = PACKAGE.parent.joinpath(*node.module.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                is_module = is_module or node.module in ("io", "http")
                yield node.lineno, f"{node.module}.{alias.name}" if is_module else node.module


def broken_floors(module: str, nodes: Sequence[ast.AST]) -> list[str]:
    """A sentence for each import or call among them that this part of the house may not have."""
    part = part_of(module)
    broken = []
    for line, name in imports_of(nodes, module):
        where = f"{module}, line {line}: imports {name}"
        top = name.partition(".")[0]
        if top == "radiator":
            target = part_of(name)
            if target not in FLOORS[part]:
                broken.append(f"{where}, but {part} may import only from {', '.join(sorted(FLOORS[part]))}.")
        elif (module, name) in EXCEPT:
            continue
        elif top in NOWHERE or name.startswith("gevent.monkey"):
            broken.append(f"{where}, which nothing here may.")
        elif top in OWNERS:
            if part not in OWNERS[top]:
                broken.append(f"{where}, which only {', '.join(sorted(OWNERS[top]))} may.")
        elif top not in sys.stdlib_module_names:
            broken.append(f"{where}, which is no dependency of the broker.")
        elif part in PURE and name not in PURE_MODULES:
            broken.append(f"{where}, but {part} is pure: it may import only {', '.join(sorted(PURE_MODULES))}.")
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            broken.append(f"{module}, line {node.lineno}: calls {node.func.id}, which nothing here may.")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open" and part in PURE:
            broken.append(f"{module}, line {node.lineno}: calls open, but {part} is pure.")
    return broken


def test_imports_go_down_only() -> None:
    broken = [
        sentence
        for path in sorted(PACKAGE.rglob("*.py"))
        for sentence in broken_floors(module_of(path), nodes_of(path))
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("radiator.model.message", "import time"),
        ("radiator.model.message", "from radiator.core import turn"),
        ("radiator.core.broker", "from radiator.protocols.stomp import session"),
        ("radiator.core.broker", "def f():\n    import logging"),
        ("radiator.core.broker", "import os.path"),
        ("radiator.core.broker", "from radiator import client"),
        ("radiator.protocols.stomp.session", "from radiator.core.states import READY"),
        ("radiator.protocols.stomp.session", "import socket"),
        ("radiator.protocols.http.head", "from http import client"),
        ("radiator.core.broker", "import httptools"),
        ("radiator.storage.codec.records", "import lmdb"),
        ("radiator.storage.codec.records", "from radiator.storage.lmdb.store import LmdbStore"),
        ("radiator.storage.lmdb.store", "import gevent"),
        ("radiator.storage.lmdb.store", "from radiator.core.turn import Batch"),
        ("radiator.server.dispatcher", "import lmdb"),
        ("radiator.server.dispatcher", "from gevent.monkey import patch_all"),
        ("radiator.server.dispatcher", "from radiator.tools.cli import main"),
        ("radiator.client", "import gevent"),
        ("radiator.client", "from radiator.server import serve"),
        ("radiator.tools.config.values", "from radiator.tools.cli import main"),
        ("radiator.integrations.spark.read", "import gevent"),
        ("radiator.integrations.spark.read", "from radiator.storage.lmdb.store import LmdbStore"),
        ("radiator.integrations.spark.read", "from radiator.integrations.spark.jobs.job import Job"),
        ("radiator.integrations.spark.jobs.replay", "import importlib"),
        ("radiator.tools.archive.archiver", "import pyspark"),
        ("radiator.tools.archive.archiver", "from radiator.core.broker import Broker"),
        ("radiator.server.dispatcher", "import pyarrow"),
        ("radiator.core.broker", "from radiator.tools.archive import manifest"),
        ("radiator.tools.cli.stats", "import gevent"),
        ("radiator.tools.cli.stats", "from radiator.core.broker import Broker"),
        ("radiator.tools.cli.stats", "import pickle"),
        ("radiator.tools.cli.stats", "import yaml"),
        ("radiator.tools.cli.stats", "import requests"),
        ("radiator.tools.cli.stats", "eval('1')"),
        ("radiator.core.broker", "open('x')"),
        ("radiator.core.broker", "import io"),
        ("radiator.core.broker", "from io import open as read"),
    ],
)
def test_a_broken_floor_is_seen(module: str, source: str) -> None:
    assert len(broken_floors(module, [*ast.walk(ast.parse(source))])) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("radiator.model.message", "from dataclasses import dataclass"),
        ("radiator.core.broker", "from io import BytesIO"),
        ("radiator.core.broker", "from radiator.core.turn import Turn\nfrom radiator.model import message"),
        ("radiator.storage.lmdb.store", "import lmdb\nimport os\nfrom radiator.storage.codec import records"),
        (
            "radiator.server.dispatcher",
            "from gevent.event import Event\nfrom radiator.storage.lmdb.store import LmdbStore",
        ),
        ("radiator.tools.cli.serve", "from radiator.tools import config\nfrom radiator.server import serve"),
    ],
)
def test_a_floor_that_holds_is_let_be(module: str, source: str) -> None:
    assert broken_floors(module, [*ast.walk(ast.parse(source))]) == []


@pytest.mark.parametrize(
    "module",
    [
        "radiator.client",
        "radiator.tools.config",
        "radiator.core.broker",
        "radiator.integrations.spark.ask",
        "radiator.storage.lmdb.store",
    ],
)
def test_a_module_does_not_bring_gevent_with_it(module: str) -> None:
    program = f"import sys, {module}; sys.exit('gevent' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=PACKAGE.parent, check=True, timeout=30)


def test_every_folder_is_a_package_that_setup_cfg_finds() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder.relative_to(PACKAGE)) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_types_are_the_same_whether_or_not_what_is_optional_is_installed() -> None:
    text = PACKAGE.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
    skipped = {
        module.removesuffix(".*")
        for part in tomllib.loads(text)["tool"]["mypy"]["overrides"]
        if part.get("follow_imports") == "skip" and part.get("ignore_missing_imports")
        for module in part["module"]
    }
    always = {"gevent", "greenlet", "httptools", "lmdb", "toml", "websockets"}
    assert OWNERS.keys() - always <= skipped
