"""Makes broken builds: copies of the package with the edits of one mutant (tests/mutants) in them."""

import ast
import re
import shutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from tests.mutants import Edit, Mutant

CHECKOUT = Path(__file__).resolve().parent.parent.parent
TABLES = sorted(path.stem for path in (CHECKOUT / "tests" / "mutants").glob("[!_]*.py"))

Span = tuple[int, int]  # the first character of a text's part, and that behind its last line


class DoesNotApply(Exception):
    """The code has moved on, and the mutant must follow it."""


@cache
def mutants() -> tuple[Mutant, ...]:
    """All of them, by name."""
    everything = [mutant for table in TABLES for mutant in import_module(f"tests.mutants.{table}").MUTANTS]
    return tuple(sorted(everything, key=lambda mutant: mutant.name))


def names() -> list[str]:
    return [mutant.name for mutant in mutants()]


def broken_tree(name: str, directory: Path) -> Path:
    """A tree in `directory` whose `radiator` is broken by that mutant, and whose `tests` are this checkout's."""
    tree = directory / name
    shutil.copytree(CHECKOUT / "radiator", tree / "radiator")  # with what is compiled of it
    (tree / "tests").symlink_to(CHECKOUT / "tests")
    mutant = next(one for one in mutants() if one.name == name)
    for path, text in broken_texts(mutant, tree).items():
        path.write_text(text)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
    return tree


def broken_texts(mutant: Mutant, tree: Path) -> dict[Path, str]:
    """The files of `tree` that the mutant changes, and what it makes of them. Raises DoesNotApply."""
    texts = {path: path.read_text() for path in sorted((tree / "radiator").rglob("*.py"))}
    changed = set()
    for edit in mutant.edits:
        try:
            path, text = _edited(edit, texts)
        except DoesNotApply as reason:
            raise DoesNotApply(f"The mutant {mutant.name} does not apply: {reason}") from None
        texts[path] = text
        changed.add(path)
    return {path: texts[path] for path in changed}


def _edited(edit: Edit, texts: dict[Path, str]) -> tuple[Path, str]:
    """The file that the edit changes, and its new text."""
    stem, _, name = edit.function.rpartition(":")
    places = [
        (path, begin, end)
        for path, text in texts.items()
        if stem in ("", path.stem)
        for begin, end in _spans(text).get(name, ())
    ]
    if not places:
        raise DoesNotApply(f"there is no {edit.function} in the package.")
    pattern = _pattern(edit.old)
    found = [(path, one) for path, begin, end in places for one in pattern.finditer(texts[path], begin, end)]
    if len(found) != 1:
        looked_at = ", ".join(_where(path, texts[path], begin) for path, begin, _ in places)
        lines = "".join(f", in {_where(path, texts[path], one.start())}" for path, one in found)
        raise DoesNotApply(
            f"its old text must stand once in {edit.function} ({looked_at}); "
            f"it stands there {len(found)} times{lines}:\n{_plain(edit.old)}"
        )
    path, one = found[0]
    return path, texts[path][: one.start()] + _replaced(one, _plain(edit.new)) + texts[path][one.end() :]


def _plain(lines: str) -> str:
    return dedent(lines.lstrip("\n")).rstrip()


@cache
def _pattern(old: str) -> re.Pattern[str]:
    """Its lines, all of them behind one margin, which may be any; `comment`: what may stand behind a single one."""
    first, *rest = (re.escape(line) for line in _plain(old).split("\n"))
    following = "".join(rf"\n(?P=margin){line}" if line else r"\n" for line in rest)
    comment = "" if rest else "(?:  #[^\n]*)?"
    return re.compile(rf"^(?P<margin> *){first}{following}(?P<comment>{comment})\n", re.MULTILINE)


def _replaced(found: re.Match[str], new: str) -> str:
    if not new:
        return ""
    lines = new.split("\n")
    if found["comment"]:
        old = found[0].strip().removesuffix(found["comment"])
        lines[lines.index(old) if old in lines else 0] += found["comment"]
    return "".join(f"{found['margin']}{line}\n" if line else "\n" for line in lines)


def _where(path: Path, text: str, at: int) -> str:
    return f"{path.name}:{text.count(chr(10), 0, at) + 1}"


@cache
def _spans(text: str) -> dict[str, list[Span]]:
    """Where everything that has a name stands in the text of a file; "": the whole of it."""
    begins = [0]
    for line in text.split("\n"):
        begins.append(begins[-1] + len(line) + 1)
    spans: dict[str, list[Span]] = {"": [(0, len(text))]}
    for name, first, last in _named(ast.parse(text)):
        spans.setdefault(name, []).append((begins[first - 1], begins[last]))
    return spans


def _named(tree: ast.AST, within: str = "") -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of all functions, classes and, of the module itself, names that get a value."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield f"{within}{node.name}", first, node.end_lineno or first
            if isinstance(node, ast.ClassDef):
                yield from _named(node, f"{within}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if not within:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]:
                    yield name, node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _named(node, within)
