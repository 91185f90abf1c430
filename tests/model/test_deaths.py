"""The deaths of a message: how they are counted, written and read, and which say that it goes round."""

import json

import pytest

from radiator.model.deaths import REJECTED, Death, as_line, comes_round, deaths_in, with_death
from radiator.model.headers import ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE, X_DEATH
from radiator.model.limits import DEATHS_BYTES, DEATHS_MAX
from radiator.model.message import Message


def death(queue: str, reason: str = "expired", time_s: int = 1, exchange: str = "e") -> Death:
    return Death(queue, reason, 1, exchange, ("k",), time_s)


def died(*deaths: Death) -> list[Death]:
    """In this order."""
    found: list[Death] = []
    for one in deaths:
        found = with_death(found, one)
    return found


def message(headers: bytes, escaping: int = ESCAPING_ALL) -> Message:
    return Message("/queue/q", headers, escaping, b"", 0)


def test_death_that_happens_again_moves_to_the_front_and_is_counted() -> None:
    found = died(death("a", REJECTED), death("b"), death("a", REJECTED, 9, "other"), death("a"))
    assert [(one.queue, one.reason, one.count, one.time_s, one.exchange, one.is_first) for one in found] == [
        ("a", "expired", 1, 1, "e", False),
        ("a", "rejected", 2, 9, "e", True),
        ("b", "expired", 1, 1, "e", False),
    ]


@pytest.mark.parametrize("escaping", [ESCAPING_NONE, ESCAPING_BUT_CR, ESCAPING_ALL])
def test_line_is_read_as_it_was_written(escaping: int) -> None:
    written = died(death('a"\\:ü', REJECTED), death("b", exchange=""))
    line, is_endless = as_line(written, escaping)
    assert line.startswith(b"x-death:") and line.count(b"\n") == 1 and not is_endless
    assert deaths_in(message(b"a:1\n" + line, escaping)) == written


@pytest.mark.parametrize(
    ("deaths", "queue", "is_round"),
    [
        ([], "a", False),
        ([death("a")], "a", True),
        ([death("a")], "b", False),
        ([death("a", REJECTED)], "a", False),
        ([death("a", REJECTED), death("b")], "a", False),
        ([death("a"), death("b", REJECTED)], "a", False),
        ([death("a"), death("b", REJECTED), death("c")], "c", True),
        ([death("a", "maxlen"), death("b", "delivery_limit")], "a", True),
    ],
)
def test_message_goes_round_where_nobody_has_rejected_it_since(deaths: list[Death], queue: str, is_round: bool) -> None:
    assert comes_round(died(*deaths), queue) is is_round


def test_of_too_many_deaths_the_oldest_but_the_first_are_forgotten() -> None:
    names = [f"q{number}" for number in range(DEATHS_MAX + 1)]
    line, is_endless = as_line(died(*map(death, names[:DEATHS_MAX])), ESCAPING_ALL)
    assert len(deaths_in(message(line))) == DEATHS_MAX and not is_endless
    line, is_endless = as_line(died(*map(death, names)), ESCAPING_ALL)
    assert [one.queue for one in deaths_in(message(line))] == [*names[:1:-1], names[0]] and is_endless


@pytest.mark.parametrize(("rejected", "is_endless"), [(0, True), (1, True), (2, False), (DEATHS_MAX, False)])
def test_more_deaths_than_are_kept_go_on_where_somebody_has_rejected_one_of_them(
    rejected: int, is_endless: bool
) -> None:
    reasons = [REJECTED if number == rejected else "expired" for number in range(DEATHS_MAX + 1)]
    found = died(*(death(f"q{number}", reason) for number, reason in enumerate(reasons)))
    assert as_line(found, ESCAPING_ALL)[1] is is_endless


def test_line_is_within_its_bytes() -> None:
    long = died(*(Death("\\" * 250 + str(number), "expired", 1, '"' * 255, (":" * 255,), 1) for number in range(9)))
    line, is_endless = as_line(long, ESCAPING_ALL)
    assert DEATHS_BYTES // 2 < len(line) <= DEATHS_BYTES and is_endless
    assert deaths_in(message(line))[0] == long[0]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"x", b"{}", b"1", b"[1]", b"[[]]", b"[" * 5000, b'[{"queue":"q"}]', b"\xff",
        b'[{"queue":1,"reason":"r","count":1,"exchange":"e","routing-keys":[],"time":1}]',
        b'[{"queue":"q","reason":"r","count":true,"exchange":"e","routing-keys":[],"time":1}]',
        b'[{"queue":"q","reason":"r","count":-1,"exchange":"e","routing-keys":[],"time":1}]',
        b'[{"queue":"q","reason":"r","count":1,"exchange":"e","routing-keys":[1],"time":1}]',
        b'[{"queue":"q","reason":"r","count":1,"exchange":"e","routing-keys":"k","time":1e9}]',
        b'"' + b"x" * DEATHS_BYTES + b'"',
    ],
)  # fmt: skip
def test_what_no_broker_has_written_is_no_death(value: bytes) -> None:
    assert deaths_in(message(X_DEATH.line(value, ESCAPING_ALL))) == []


def test_too_many_deaths_are_none() -> None:
    row = {"queue": "q", "reason": "r", "count": 1, "exchange": "", "routing-keys": [], "time": 1}
    for many, read in ((DEATHS_MAX, DEATHS_MAX), (DEATHS_MAX + 1, 0)):
        line = X_DEATH.line(json.dumps([row] * many).encode(), ESCAPING_ALL)
        assert len(deaths_in(message(line))) == read
