"""The text in a file that somebody has named, whatever editor has saved it."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

_AS_UTF8 = "save it as UTF-8"


def unmarked(data: bytes) -> bytes:
    """What a file begins with, without the byte order mark that some editors put before UTF-8, which is not part of the
    text. ValueError, a clause: it is UTF-16.
    """
    # a text's first character is followed, or preceded, by a NUL there
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or data[:2].count(0) == 1:
        raise ValueError(f"is UTF-16; {_AS_UTF8}")
    return data.removeprefix(BOM_UTF8)


def text_of(data: bytes) -> str:
    """The whole file as text. ValueError, a clause: it is not UTF-8."""
    text = unmarked(data)
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as wrong:
        at = len(data) - len(text) + wrong.start
        raise ValueError(f"is not UTF-8 at byte {at}; {_AS_UTF8}") from None
