"""The fenced blocks of all pages, and what is said of each: it is run, or a comment right before it says why not.

<!-- not run: REASON -->
<!-- run by: tests/FILE.py -->
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.broker_process import CHECKOUT

LANGUAGES = ("sh", "python", "toml", "json", "stomp", "text")  # text: a drawing, a layout, what a program printed
_FENCE = re.compile(r" *```(\w*) *")
_MARKER = re.compile(r"<!-- *(not run|run by): *(.*?) *-->")


@dataclass(slots=True)
class Block:
    """line: where its first line stands. marker: `not run`, `run by` or "", and why, or by which file."""

    page: str
    line: int
    language: str
    text: str
    marker: str
    why: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All but the changelog, which tells of what was."""
    found = [CHECKOUT / "README.md"]
    for folder in ("docs", "examples", "tests"):
        found += sorted((CHECKOUT / folder).rglob("*.md"))
    return [str(page.relative_to(CHECKOUT)) for page in found if ".pytest_cache" not in page.parts]


def text_of(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8")


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """AssertionError where a fence is not closed."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            assert not lines[at].lstrip().startswith("```"), f"{page}:{at + 1}: {lines[at]!r} opens no block"
            at += 1
            continue
        end = next((one for one in range(at + 1, len(lines)) if lines[one].strip() == "```"), None)
        assert end is not None, f"{page}:{at + 1}: the block has no end"
        before = next((line for line in reversed(lines[:at]) if line.strip()), "")
        marker = _MARKER.fullmatch(before.strip())
        kind, why = (marker[1], marker[2]) if marker is not None else ("", "")
        yield Block(page, at + 2, fence[1], "\n".join(lines[at + 1 : end]) + "\n", kind, why)
        at = end + 1


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page, text_of(page))]


def inline(text: str) -> Iterator[str]:
    """What stands between backticks in a page, outside of its blocks."""
    outside = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    for one in re.findall(r"``(.+?)``|`([^`\n]+)`", outside):
        yield (one[0] or one[1]).strip().replace("\\|", "|")


def exists(path: str) -> bool:
    return (CHECKOUT / path).exists() or any(Path(CHECKOUT).glob(path))
