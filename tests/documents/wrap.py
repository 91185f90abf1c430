"""`python -m tests.documents.wrap` breaks the lines of prose of all pages that a terminal of 120 columns would break.

Only paragraphs and list items with a line that is too long are filled anew. Blocks, tables, headings, comments and what
stands between backticks or makes a link stay as they are, however long.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.broker_process import CHECKOUT

COLUMNS = 120

_FENCE = re.compile(r" *```")
_ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
_QUOTE = re.compile(r" *> ?")
_KEPT = re.compile(
    r" *(\||#|<|\[[^\]]+\]: |(-{3,}|\*{3,}) *$)"
)  # tables, headings, comments and HTML, targets of links, rules
_UNBROKEN = re.compile(r"(?:``.+?``|`[^`]*`|!?\[(?:`[^`]*`|[^\]`])*\]\([^)]*\)|\S)+")
_NO_BEGINNING = re.compile(r"[-+*>#|=~]+$|[#>|<]|\d+[.)]$|```")  # a line that begins so would mean something else


def pages() -> list[Path]:
    """Every page of the tree."""
    kept = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    for folder in ("docs", "examples", "tests", "benchmarks"):
        kept += sorted((CHECKOUT / folder).rglob("*.md"))
    return [page for page in kept if ".pytest_cache" not in page.parts]


def wrapped(text: str) -> str:
    """The same page, without long lines of prose."""
    return "\n".join(line for part, stays in _parts(text.split("\n")) for line in (part if stays else _filled(part)))


def _parts(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """The lines of each paragraph and list item, and False; each line that stays as it is, and True."""
    part: list[str] = []
    is_block = is_comment = False
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        begins_comment = not is_block and line.lstrip().startswith("<!--")
        stays = is_block or is_comment or is_fence or not line.strip() or _KEPT.match(line) is not None
        if part and (stays or _ITEM.match(line) or bool(_QUOTE.match(line)) != bool(_QUOTE.match(part[-1]))):
            yield part, False
            part = []
        if stays:
            yield [line], True
        else:
            part.append(line)
            if line.endswith(("  ", "\\")):  # a break that is meant
                yield part, False
                part = []
        is_block ^= is_fence
        is_comment = (is_comment or begins_comment) and "-->" not in line
    if part:
        yield part, False


def _filled(part: list[str]) -> list[str]:
    if all(len(line) <= COLUMNS for line in part):
        return part
    head = _ITEM.match(part[0]) or _QUOTE.match(part[0]) or re.match(" *", part[0])
    assert head is not None
    first, quote = head[0], _QUOTE.match(part[0])
    others = quote[0] if quote else " " * len(first)
    text = " ".join([part[0][len(first) :], *(line[len(quote[0]) :] if quote else line.strip() for line in part[1:])])
    end = "  " if text.endswith("  ") else ""
    filled = [first]
    has_word = False
    for word in _UNBROKEN.findall(text):
        if has_word and len(filled[-1]) + 1 + len(word) > COLUMNS and not _NO_BEGINNING.match(word):
            filled.append(others)
            has_word = False
        filled[-1] += f" {word}" if has_word else word
        has_word = True
    filled[-1] += end
    return filled


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        if (after := wrapped(before)) != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(CHECKOUT))
    sys.exit(0)
