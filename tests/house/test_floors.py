"""Imports go down only: who may import what, read from the source (docs/READING.md has the picture)."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent.parent / "radiator"

# The parts of the house, and which parts each may import; the longest name that fits a module counts.
FLOORS: dict[str, set[str]] = {
    # ground: words
    "radiator": {"radiator"},
    # floor 1: pure wings
    "radiator.broker": {"radiator", "radiator.broker"},
    "radiator.protocols": {"radiator", "radiator.protocols"},
    "radiator.store.records": {"radiator"},
    "radiator.store.events": {"radiator"},
    "radiator.store.blocks": {"radiator", "radiator.store.records", "radiator.store.events"},
    "radiator.store.__init__": {"radiator"},
    # floor 2
    "radiator.store": {
        "radiator",
        "radiator.store",
        "radiator.store.records",
        "radiator.store.blocks",
        "radiator.store.__init__",
    },
    # beside the house: what programs and tools import
    "radiator.client": {"radiator", "radiator.protocols", "radiator.client"},
    "radiator.kombu": {"radiator", "radiator.client", "radiator.kombu"},
    "radiator.spark": {"radiator", "radiator.client", "radiator.protocols", "radiator.spark"},
    "radiator.spark.jobs": {
        "radiator",
        "radiator.archive",
        "radiator.cli.text",
        "radiator.client",
        "radiator.spark",
        "radiator.spark.jobs",
    },
    "radiator.archive": {
        "radiator",
        "radiator.archive",
        "radiator.store",
        "radiator.store.records",
        "radiator.store.blocks",
        "radiator.store.__init__",
    },
    "radiator.audit": {
        "radiator",
        "radiator.archive",
        "radiator.audit",
        "radiator.store",
        "radiator.store.records",
        "radiator.store.blocks",
    },
    # floor 3
    "radiator.server": {
        "radiator",
        "radiator.broker",
        "radiator.protocols",
        "radiator.store",
        "radiator.store.records",
        "radiator.store.__init__",
        "radiator.server",
    },
    # roof
    "radiator.config": {"radiator", "radiator.config"},
    "radiator.cli.text": {"radiator"},
    "radiator.cli": {
        "radiator",
        "radiator.archive",
        "radiator.audit",
        "radiator.cli",
        "radiator.cli.text",
        "radiator.client",
        "radiator.config",
        "radiator.protocols",
        "radiator.server",
        "radiator.store",
        "radiator.store.__init__",
    },
    "radiator.__main__": {"radiator.cli"},
}
PURE = {
    "radiator",
    "radiator.broker",
    "radiator.protocols",
    "radiator.store.records",
    "radiator.store.events",
    "radiator.store.blocks",
    "radiator.store.__init__",
}
# What the pure parts may import from Python itself: nothing that waits, reads a clock, or sees the machine.
PURE_MODULES = {
    "abc",
    "base64",
    "binascii",
    "bisect",
    "collections",
    "collections.abc",
    "copy",
    "dataclasses",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
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
    "zlib",
}
OWNERS = {
    "gevent": {"radiator.server"},
    "greenlet": {"radiator.server"},
    "lmdb": {"radiator.store"},
    "toml": {"radiator.config"},
    "kombu": {"radiator.kombu"},
    "amqp": {"radiator.kombu"},
    "pyarrow": {"radiator.archive", "radiator.spark", "radiator.spark.jobs"},
    "pyspark": {"radiator.spark", "radiator.spark.jobs"},
    "matplotlib": {"radiator.spark.jobs"},
}
NOWHERE = {"pickle", "marshal", "shelve", "dill", "yaml", "code", "codeop", "importlib", "imp", "pkgutil", "runpy"}
EXCEPT = {("radiator.spark.jobs.mapreduce", "importlib")}  # of what its own command line names
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def module_of(path: Path) -> str:
    """As Python names it; but `radiator.store.__init__` is the file itself, a floor below the rest of its folder."""
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name if name == "radiator.store.__init__" else name.removesuffix(".__init__")


def part_of(module: str) -> str:
    """The row of FLOORS for a module: itself or the nearest folder above. A new folder or roof file needs a row."""
    name = module
    while name not in FLOORS:
        name = name.rpartition(".")[0]
        assert name, f"{module} is in no part of the house"
    return name


def imports_of(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Each module that is imported, with its line; imports inside functions and for types only count too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: a relative import hides the floor it comes from"
            assert node.module is not None
            for alias in node.names:
                inner = PACKAGE.parent.joinpath(*node.module.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                is_module = is_module or node.module == "io"
                yield node.lineno, f"{node.module}.{alias.name}" if is_module else node.module


def broken_floors(module: str, source: str) -> list[str]:
    """A sentence for each import or call in the source that this part of the house may not have."""
    part = part_of(module)
    tree = ast.parse(source)
    broken = []
    for line, name in imports_of(tree, module):
        where = f"{module}, line {line}: imports {name}"
        top = name.partition(".")[0]
        if top == "radiator":
            target = part_of("radiator.store.__init__" if name == "radiator.store" else name)
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
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            broken.append(f"{module}, line {node.lineno}: calls {node.func.id}, which nothing here may.")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open" and part in PURE:
            broken.append(f"{module}, line {node.lineno}: calls open, but {part} is pure.")
    return broken


def test_imports_go_down_only() -> None:
    broken = [
        sentence
        for path in sorted(PACKAGE.rglob("*.py"))
        for sentence in broken_floors(module_of(path), path.read_text(encoding="utf-8"))
    ]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("radiator.message", "import time"),
        ("radiator.message", "from radiator.broker import turn"),
        ("radiator.broker.broker", "from radiator.protocols.stomp import session"),
        ("radiator.broker.broker", "def f():\n    import logging"),
        ("radiator.broker.broker", "import os.path"),
        ("radiator.broker.broker", "from radiator import client"),
        ("radiator.protocols.stomp.session", "from radiator.broker.states import READY"),
        ("radiator.protocols.stomp.session", "import socket"),
        ("radiator.store.records", "import lmdb"),
        ("radiator.store.records", "from radiator.store.lmdb import LmdbStore"),
        ("radiator.store.lmdb", "import gevent"),
        ("radiator.store.lmdb", "from radiator.broker.turn import Batch"),
        ("radiator.server.dispatcher", "import lmdb"),
        ("radiator.server.dispatcher", "from gevent.monkey import patch_all"),
        ("radiator.server.dispatcher", "from radiator.cli import main"),
        ("radiator.client", "import gevent"),
        ("radiator.client", "from radiator.server import serve"),
        ("radiator.config.values", "from radiator.cli import main"),
        ("radiator.spark.read", "import gevent"),
        ("radiator.spark.read", "from radiator.store.lmdb import LmdbStore"),
        ("radiator.spark.read", "from radiator.spark.jobs.job import Job"),
        ("radiator.spark.jobs.replay", "import importlib"),
        ("radiator.archive.archiver", "import pyspark"),
        ("radiator.archive.archiver", "from radiator.broker.broker import Broker"),
        ("radiator.server.dispatcher", "import pyarrow"),
        ("radiator.broker.broker", "from radiator.archive import manifest"),
        ("radiator.cli.stats", "import gevent"),
        ("radiator.cli.stats", "from radiator.broker.broker import Broker"),
        ("radiator.cli.stats", "import pickle"),
        ("radiator.cli.stats", "import yaml"),
        ("radiator.cli.stats", "import requests"),
        ("radiator.cli.stats", "eval('1')"),
        ("radiator.broker.broker", "open('x')"),
        ("radiator.broker.broker", "import io"),
        ("radiator.broker.broker", "from io import open as read"),
    ],
)
def test_a_broken_floor_is_seen(module: str, source: str) -> None:
    assert len(broken_floors(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("radiator.message", "from dataclasses import dataclass"),
        ("radiator.broker.broker", "from io import BytesIO"),
        ("radiator.broker.broker", "from radiator.broker.turn import Turn\nfrom radiator import message"),
        ("radiator.store.lmdb", "import lmdb\nimport os\nfrom radiator.store import records"),
        ("radiator.server.dispatcher", "from gevent.event import Event\nfrom radiator.store.lmdb import LmdbStore"),
        ("radiator.cli.serve", "from radiator import config\nfrom radiator.server import serve"),
    ],
)
def test_a_floor_that_holds_is_let_be(module: str, source: str) -> None:
    assert broken_floors(module, source) == []


@pytest.mark.parametrize(
    "module",
    ["radiator.client", "radiator.config", "radiator.broker.broker", "radiator.spark.ask", "radiator.store.lmdb"],
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
    always = {"gevent", "greenlet", "lmdb", "toml"}
    assert OWNERS.keys() - always <= skipped
