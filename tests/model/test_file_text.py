"""The text of a file, as editors save it."""

import pytest

from radiator.model.file_text import text_of, unmarked

TEXT = "a = 'ä'\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_mark_before_utf_8_is_no_part_of_the_text(encoding: str) -> None:
    assert text_of(TEXT.encode(encoding)) == TEXT
    assert unmarked(TEXT.encode(encoding)) == TEXT.encode()
    assert text_of("".encode(encoding)) == ""


def test_one_mark_is_taken_and_only_at_the_beginning() -> None:
    assert text_of(b"\xef\xbb\xbf\xef\xbb\xbfa") == "\ufeffa"
    assert text_of(b"a\xef\xbb\xbf") == "a\ufeff"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_told_with_a_mark_or_without(encoding: str) -> None:
    for what in (text_of, unmarked):
        with pytest.raises(ValueError, match="^is UTF-16; save it as UTF-8$"):
            what(TEXT.encode(encoding))


@pytest.mark.parametrize(("data", "at"), [(b"\xff", 0), (b"ab\xc3", 2), (b"\xef\xbb\xbfa\xff", 4), (b"\xef\xbb", 0)])
def test_what_is_no_utf_8_is_told_by_its_place_in_the_file(data: bytes, at: int) -> None:
    with pytest.raises(ValueError, match=f"^is not UTF-8 at byte {at}; save it as UTF-8$"):
        text_of(data)


def test_a_nul_elsewhere_is_no_sign_of_utf_16() -> None:
    assert text_of(b"\0\0") == "\0\0"
    assert text_of(b"ab\0") == "ab\0"
