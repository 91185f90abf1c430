"""The claims of docs/DURABILITY.md against the code and the tests they name.

The table has a row for each claim:

    | D1 | what is claimed | `radiator/core/broker.py` `Broker.turn` | `tests/core/test_broker.py::test_name` |

Code and test may be several, one behind the other. Its tag stands once in each symbol, as a comment that begins with
it (`# D1`, `# D1 because ...`, `# D1 D7`), and as `@pytest.mark.durability("D1")` on each test; and nowhere else.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Place = tuple[str, str]  # a file, and a symbol (`Class.method`) or test (`Class::test`) in it


@dataclass(slots=True)
class Claim:
    """One row of the table."""

    tag: str
    code: list[Place]
    tests: list[Place]


def claims_of(text: str) -> list[Claim]:
    """The rows whose first cell is a tag."""
    claims = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.lstrip().startswith("|") and re.fullmatch(r"D\d+", cells[0].strip("`*")):
            code, tests = (cells + ["", "", ""])[2:4]
            claims.append(
                Claim(
                    cells[0].strip("`*"),
                    re.findall(r"`([^`]+\.py)`\s+`([^`]+)`", code),
                    re.findall(r"`([^`:]+\.py)::([^`]+)`", tests),
                )
            )
    return claims


def broken_claims(root: Path, text: str) -> list[str]:
    """A sentence for each claim that is not kept in the checkout at `root`, and for each tag that no claim has."""
    claims = claims_of(text)
    if not claims:
        return ["docs/DURABILITY.md has no row that begins with a tag such as D1."]
    in_code = Counter(_tags(root, "radiator", "*.py", _tagged_symbols))
    in_tests = Counter(_tags(root, "tests", "test_*.py", _marked_tests))
    found = Counter((claim.tag, *place) for claim in claims for place in claim.code)
    tested = Counter((claim.tag, *place) for claim in claims for place in claim.tests)
    tags = Counter(claim.tag for claim in claims)
    broken = [f"{tag} is the tag of {count} claims; each has its own." for tag, count in tags.items() if count > 1]
    broken += [f"{claim.tag} names no `file.py` `symbol`." for claim in claims if not claim.code]
    broken += [f"{claim.tag} names no `file.py::test`." for claim in claims if not claim.tests]
    for tag, path, symbol in found - in_code:
        broken.append(f"{tag}: there is no comment `# {tag}` in {symbol} of {path}, as docs/DURABILITY.md says.")
    for tag, path, symbol in in_code - found:
        where = f"in {symbol} of {path}" if symbol else f"outside any symbol of {path}"
        broken.append(f"{tag}: there is a comment `# {tag}` {where} that docs/DURABILITY.md does not know.")
    for tag, path, test in tested - in_tests:
        broken.append(f"{tag}: there is no test {path}::{test} marked with it, as docs/DURABILITY.md says.")
    for tag, path, test in in_tests - tested:
        broken.append(f"{tag}: docs/DURABILITY.md does not know the test {path}::{test} that is marked with it.")
    return broken


def _tags(root: Path, folder: str, files: str, find) -> Iterator[tuple[str, str, str]]:  # type: ignore[no-untyped-def]
    for path in sorted((root / folder).rglob(files)):
        for tag, symbol in find(path.read_text(encoding="utf-8")):
            yield tag, path.relative_to(root).as_posix(), symbol


def _symbols(tree: ast.AST, above: str = "", between: str = ".") -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        name = above
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{above}{between}{node.name}" if above else node.name
            yield name, node
        yield from _symbols(node, name, between)


def _tagged_symbols(source: str) -> Iterator[tuple[str, str]]:
    """Each tag in a comment, with the innermost symbol around it; "" for none."""
    if re.search(r"#\s*D\d", source) is None:  # to take all files apart takes seconds
        return
    spans = [
        (node.lineno, node.end_lineno or node.lineno, name)  # type: ignore[attr-defined]
        for name, node in _symbols(ast.parse(source))
    ]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        found = re.match(r"#\s*(D\d+(?:[ ,]+D\d+)*)\b", token.string) if token.type == tokenize.COMMENT else None
        if found:
            line = token.start[0]
            around = max(((begin, name) for begin, end, name in spans if begin <= line <= end), default=(0, ""))
            for tag in re.findall(r"D\d+", found[1]):
                yield tag, around[1]


def _marked_tests(source: str) -> Iterator[tuple[str, str]]:
    """Each tag in a decorator `durability(...)`, with the name of the test or class under it."""
    if "durability(" not in source:
        return
    for name, node in _symbols(ast.parse(source), between="::"):
        for decorator in node.decorator_list:  # type: ignore[attr-defined]
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("durability"):
                for argument in decorator.args:
                    assert isinstance(argument, ast.Constant), f"the mark of {name} must name its tag as text"
                    yield str(argument.value), name
