import os
import re
import select
import time
from collections.abc import Callable

import pytest

from radiator.limits import LOG_DROPPED_EVERY_S, LOG_LINES_MAX, LOG_LINES_PER_S, LOG_VALUE_CHARACTERS
from radiator.server.log import Log, line, shown

READ_MAX_S = 10.0


@pytest.mark.parametrize(
    "value, told",
    [
        ("plain", "plain"),
        ("127.0.0.1:61613", "127.0.0.1:61613"),
        ("stomp://[::1]:61613", "stomp://[::1]:61613"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nfeed\r\t\0", '"line\\nfeed\\r\\t\\x00"'),
        ("\x1b[31mred\x7f", '"\\x1b[31mred\\x7f"'),
        ("\u2028\u202e", '"\\u2028\\u202e"'),
        ("\x85\x9b", '"\\x85\\x9b"'),
        ("\ud800", '"\\ud800"'),
        ("größe", '"größe"'),
        (7, "7"),
        (0.25, "0.25"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_shown_quotes_and_escapes_what_is_not_plain(value: str | int | float | bool, told: str) -> None:
    assert shown(value) == told


def test_shown_cuts_long_values() -> None:
    longest = "x" * LOG_VALUE_CHARACTERS
    assert shown(longest) == longest
    assert shown(longest + "y") == f'"{longest}..."'
    assert shown("\0" * 10_000) == '"' + "\\x00" * LOG_VALUE_CHARACTERS + '..."'


@pytest.mark.parametrize("character", [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)])
def test_line_is_one_line_whatever_a_client_said(character: str) -> None:
    told = line("info", "refused", {"sentence": f"x{character}2026-11-21T08:00:00.000Z info forged"}, 0.0)
    assert told.splitlines() == [told.rstrip("\n")]
    assert told.startswith('1970-01-01T00:00:00.000Z info refused sentence="x')


def test_line_has_the_time_in_utc_with_milliseconds() -> None:
    assert line("info", "start", {"pid": 1}, 1795248000.0625) == "2026-11-21T08:00:00.062Z info start pid=1\n"
    assert line("info", "start", {}, 1795248000.9999) == "2026-11-21T08:00:00.999Z info start\n"


def test_log_writes_everything_before_it_closes() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    for number in range(100):
        log.info("event", number=number)
    log.close()
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    assert [told.partition("number=")[2] for told in lines] == [str(number) for number in range(100)]


def test_log_drops_and_counts_lines_that_nobody_reads() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    filler = "x" * LOG_VALUE_CHARACTERS
    for number in range(5 * LOG_LINES_MAX):  # a pipe holds about 300 of these; the rest finds it full
        log.error("event", number=number, filler=filler)
    lines = read_until(reader, lambda lines: bool(dropped_in(lines)))
    numbers = [int(found[1]) for found in map(re.compile(r"number=(\d+)").search, lines) if found]
    dropped = sum(dropped_in(lines))
    assert len(numbers) >= LOG_LINES_MAX
    assert dropped > 0
    assert numbers == sorted(numbers)
    assert len(numbers) + dropped == 5 * LOG_LINES_MAX
    log.close()
    os.close(reader)
    os.close(writer)


def test_log_tells_what_it_dropped_once_a_second_however_much_else_it_tells() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    lines: list[str] = []
    began_s = time.monotonic()
    for number in range(LOG_LINES_PER_S // 2):
        for _ in range(12):
            log.info("flood")
        log.info("other", number=number)
        lines += read_until(reader, lambda new, number=number: any(f"number={number}" in told for told in new))
    log.close()
    elapsed_s = time.monotonic() - began_s
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        lines += pipe.read().splitlines()
    told = dropped_in(lines)
    assert sum(told) + sum(" flood" in told for told in lines) == 12 * (LOG_LINES_PER_S // 2)
    assert 1 <= len(told) <= 1 + elapsed_s / LOG_DROPPED_EVERY_S  # one more as it closes


def test_log_tells_what_it_dropped_though_nothing_follows() -> None:
    reader, writer = os.pipe()
    log = Log(writer)
    for _ in range(LOG_LINES_PER_S):
        log.info("flood")
    lines = read_until(reader, lambda lines: len(lines) == LOG_LINES_PER_S)
    for _ in range(3 * LOG_LINES_PER_S):  # in two seconds at most
        log.info("flood")
    lines += read_until(reader, lambda lines: bool(dropped_in(lines)))
    assert sum(dropped_in(lines)) + sum(" flood" in told for told in lines) == 4 * LOG_LINES_PER_S
    log.close()
    os.close(writer)
    os.close(reader)


def read_until(reader: int, is_enough: Callable[[list[str]], bool]) -> list[str]:
    """The lines that come until it says so."""
    said = b""
    deadline_s = time.monotonic() + READ_MAX_S
    while not (said.endswith(b"\n") and is_enough(said.decode().splitlines())):
        assert select.select([reader], [], [], max(0.0, deadline_s - time.monotonic()))[0], said[-500:]
        said += os.read(reader, 65536)
    return said.decode().splitlines()


def dropped_in(lines: list[str]) -> list[int]:
    """What each line of dropped ones says."""
    return [int(found[1]) for found in map(re.compile(r"log_lines_dropped lines=(\d+)$").search, lines) if found]


def test_log_survives_a_closed_stderr() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = Log(writer)
    log.info("event")
    log.close()
    os.close(writer)
