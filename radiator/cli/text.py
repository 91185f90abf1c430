"""Text for a terminal: control characters made visible, columns aligned, quantities readable."""

from collections.abc import Sequence

from radiator.limits import GIB, KIB, MIB


def printable(text: str, keep: str = "") -> str:
    """The text with everything that a terminal could obey written as an escape; characters in `keep` stay.

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


def table(heads: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """Lines of aligned columns: text to the left, numbers to the right. Text is made printable."""
    cells = [[printable(str(cell)) for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    right = [bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(heads))]
    lines = []
    for row in cells:
        aligned = [cell.rjust(width) if to_right else cell.ljust(width)
                   for cell, width, to_right in zip(row, widths, right, strict=True)]  # fmt: skip
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def bytes_text(count: int) -> str:
    """A number of bytes for people: `1.5 KiB`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def duration_text(seconds: float) -> str:
    """A duration for people: `3 d 4 h`, `5 min 2 s`."""
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    told = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(told[:2]) or "0 s"
