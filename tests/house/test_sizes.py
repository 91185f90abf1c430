"""How long functions and files may be: what cannot be seen at once is not checked."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent / "radiator"

FUNCTION_LINES_MAX = 60
FILE_LINES = 500
LONG_FILES_MAX = 6


def long_functions(text: str) -> list[tuple[str, int]]:
    """Those above the bound, with their lines, decorators not counted."""
    if not may_have_long_functions(text):
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append((node.name, lines))
    return found


def may_have_long_functions(text: str) -> bool:
    """Whether one is so far before the next of its depth: without parsing, which takes a second for the package."""
    starts = [
        (text.count("\n", 0, found.start()), len(found[1]), found[2])
        for found in re.finditer(r"^( *)(async def|def|class|@)", text, re.M)
    ]
    end = text.count("\n")
    for nth, (line, depth, word) in enumerate(starts):
        if word.endswith("def"):
            behind = next((line for line, other, _ in starts[nth + 1 :] if other <= depth), end)
            if behind - line > FUNCTION_LINES_MAX:
                return True
    return False


def test_no_function_is_longer_than_a_screen() -> None:
    found = {str(file.relative_to(PACKAGE)): long_functions(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {file: functions for file, functions in found.items() if functions} == {}


def test_few_files_are_long() -> None:
    lines = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")}
    found = {file: count for file, count in lines.items() if count > FILE_LINES}
    assert len(found) <= LONG_FILES_MAX, found


def test_a_function_that_is_one_line_too_long_is_found() -> None:
    def function(lines: int) -> str:
        return "def f():\n" + "    pass\n" * (lines - 1)

    assert long_functions(function(FUNCTION_LINES_MAX)) == []
    assert long_functions("async " + function(FUNCTION_LINES_MAX + 1)) == [("f", FUNCTION_LINES_MAX + 1)]
