"""Text for a terminal: control characters made visible, columns aligned and cut to it, quantities readable."""

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

from radiator.model.limits import GIB, KIB, MIB

BETWEEN = 2  # columns between those of a table
CUT_TO = 12  # a text is cut no further than to so many


def printable(text: str, keep: str = "") -> str:
    """Returns the text with everything that a terminal could obey written as an escape; characters in `keep` stay.

    Control characters of both ranges, bidirectional marks, lone surrogates and other invisible characters are escaped.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str | int]], columns: int | None = None, least: Sequence[str] = ()
) -> str:
    """Aligned columns as lines: text to the left, numbers to the right. Text is made printable; on a terminal it is cut
    so that the lines fit (columns: the width, by default that of stdout). Numbers are never cut, nor is the last
    column, which has sentences and wraps. least: heads of the columns that may be left out where that is not enough, in
    the order in which they are left out.
    """
    columns = terminal_columns() if columns is None else columns
    cells = [[printable(str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [max(width_of(row[i]) for row in cells) for i in range(len(heads))]
    right = [bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(heads))]
    kept = [*range(len(heads))]
    if columns is not None:
        needed = [width if to_right else min(width, CUT_TO) for width, to_right in zip(widths, right, strict=True)]
        for at in [heads.index(head) for head in least]:
            if sum(needed[i] + BETWEEN for i in kept) - BETWEEN > columns:
                kept.remove(at)
        shrunk = [widths[i] for i in kept[:-1]]
        _shrink(shrunk, [not right[i] for i in kept[:-1]], columns - needed[kept[-1]] - BETWEEN * len(shrunk))
        for i, width in zip(kept[:-1], shrunk, strict=True):
            widths[i] = width
    lines = []
    for row in cells:
        aligned = []
        for i in kept:
            shown = cut(row[i], widths[i])
            blank = " " * (widths[i] - width_of(shown))
            aligned.append(blank + shown if right[i] else shown + blank)
        lines.append((" " * BETWEEN).join(aligned).rstrip())
    return "\n".join(lines)


def _shrink(widths: list[int], may_shrink: list[bool], columns: int) -> None:
    """Takes from the widest of those that may, so that all together have so many, if they can."""
    while sum(widths) > columns:
        widest = max((width for width, may in zip(widths, may_shrink, strict=True) if may), default=0)
        if widest <= CUT_TO:
            return
        second = max((w for w, may in zip(widths, may_shrink, strict=True) if may and w < widest), default=0)
        at = next(i for i, (width, may) in enumerate(zip(widths, may_shrink, strict=True)) if may and width == widest)
        widths[at] = max(CUT_TO, min(second, widest - 1), widest - (sum(widths) - columns))


def terminal_columns() -> int | None:
    """Returns how wide the terminal is that stdout is; None: it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def width_of(text: str) -> int:
    """Returns how many columns a printable text takes."""
    return len(text) if text.isascii() else sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, columns: int) -> str:
    """Returns the text, or as much of its beginning and its end as fits: names differ at either."""
    if width_of(text) <= columns:
        return text
    left = columns - 1  # beside the ellipsis
    end = _fitting(reversed(text), left // 2)[::-1]
    return f"{_fitting(text, left - width_of(end))}…{end}"


def _fitting(characters: Iterable[str], columns: int) -> str:
    """Returns the first ones that fit."""
    taken = []
    for character in characters:
        columns -= _width(character)
        if columns < 0:
            break
        taken.append(character)
    return "".join(taken)


def bytes_text(count: int) -> str:
    """Returns a number of bytes for people: `1.5 KiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def duration_text(seconds: float) -> str:
    """Returns a duration for people: `3 d 4 h`, `5 min 2 s`."""
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    named = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(named[:2]) or "0 s"


def time_text(ms: int | None, exactness: str = "seconds") -> str:
    """Returns a moment, in milliseconds since the epoch, in this machine's zone; "" for None. exactness: or
    `milliseconds`.
    """
    return "" if ms is None else datetime.fromtimestamp(ms / 1000).astimezone().isoformat(" ", exactness)
