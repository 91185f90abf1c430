"""Which value of `traceparent` is a trace that the journal tells of, and what a trace id is."""

import pytest

from radiator.model.traces import TRACEPARENT_LINE_BYTES, trace_id_in, valid_traceparent

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE_ID}-{PARENT_ID}-01"
INVALID = (
    "",
    VALID[:-1],
    VALID + "0",
    VALID + "-what-the-future-will-be-like",
    VALID + " ",
    " " + VALID,
    VALID.upper(),
    f"01-{TRACE_ID}-{PARENT_ID}-01",
    f"ff-{TRACE_ID}-{PARENT_ID}-01",
    f"00-{'0' * 32}-{PARENT_ID}-01",
    f"00-{TRACE_ID}-{'0' * 16}-01",
    f"00-{TRACE_ID[:-1]}g-{PARENT_ID}-01",
    f"00-{TRACE_ID}{PARENT_ID}--01",
    "00-1-2-01",
    "ä" * 55,
)


def test_a_valid_one_has_55_characters() -> None:
    assert len(VALID) == 55 and len(f"traceparent:{VALID}\n") == TRACEPARENT_LINE_BYTES
    for value in (VALID, f"{VALID[:-2]}00", f"{VALID[:-2]}ff", f"00-{'0' * 31}1-{'0' * 15}1-00"):
        assert valid_traceparent(value.encode()) == value


@pytest.mark.parametrize("value", INVALID)
def test_any_other_is_none(value: str) -> None:
    assert valid_traceparent(value.encode()) == ""


def test_a_trace_id_stands_alone_or_in_a_traceparent() -> None:
    for text in (TRACE_ID, TRACE_ID.upper(), VALID, VALID.upper()):
        assert trace_id_in(text) == TRACE_ID


@pytest.mark.parametrize("text", [*INVALID[:6], *INVALID[7:], TRACE_ID[:-1], TRACE_ID + "0", "0" * 32, PARENT_ID])
def test_what_is_no_trace_id_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        trace_id_in(text)
    assert str(refused.value).startswith(f"{text!r} is not a trace id; one is 32 hexadecimal digits, not all 0, like ")
    assert TRACE_ID in str(refused.value) and VALID in str(refused.value)
