"""Which value of `correlation-id` the journal tells of, and what may be asked for."""

import pytest

from radiator.model.correlations import CORRELATION_LINE_BYTES, correlation_id_in, valid_correlation_id
from radiator.model.headers import CORRELATION_ID, ESCAPING_ALL
from radiator.model.limits import CORRELATION_MAX_BYTES

TASK = "6f1d0a52-7f6b-4f3e-8d8a-0d1f0f0b7c11"
AT_THE_BOUND = ("x" * CORRELATION_MAX_BYTES, "x" + "ö" * (CORRELATION_MAX_BYTES // 2))
ONE_PAST = ("x" * (CORRELATION_MAX_BYTES + 1), "ö" * (CORRELATION_MAX_BYTES // 2 + 1))
TEXTS = (TASK, "x", "a:b\\c", "one\ntwo\r", " padded ", "\x1b[31m", "grün 🐇", *AT_THE_BOUND)


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_told_as_it_is_and_asked_for_so(text: str) -> None:
    assert valid_correlation_id(text.encode()) == text == correlation_id_in(text)


def test_the_shortest_line_has_one_character() -> None:
    assert len(CORRELATION_ID.line(b"x", ESCAPING_ALL)) == CORRELATION_LINE_BYTES


@pytest.mark.parametrize("value", [*(text.encode() for text in ONE_PAST), b"", b"\xff", b"a\xc3", b"\xed\xa0\x80"])
def test_one_that_is_longer_or_no_utf_8_is_not_told(value: bytes) -> None:
    assert valid_correlation_id(value) == ""


@pytest.mark.parametrize(("text", "size"), [("", 0), (ONE_PAST[0], 256), (ONE_PAST[1], 256), ("\ud800" * 86, 258)])
def test_of_what_is_too_long_or_empty_it_is_said_what_would_be_right(text: str, size: int) -> None:
    with pytest.raises(ValueError) as refused:
        correlation_id_in(text)
    sentence = f"has {size} bytes; the journal keeps a correlation-id of 1 to 255 bytes"
    assert str(refused.value).endswith(sentence) and len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["\ud800", "x\udcff", "\udfff"])
def test_half_of_a_character_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a correlation-id: that is UTF-8, and this has bytes of some"):
        correlation_id_in(text)
