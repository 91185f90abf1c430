import json
import os
import re
import select
import time
from collections.abc import Callable

import pytest

from radiator.model.limits import (
    LOG_CLIENTS_LISTED,
    LOG_CLIENTS_MAX,
    LOG_DROPPED_EVERY_S,
    LOG_LINES_MAX,
    LOG_LINES_OF_CLIENT,
    LOG_LINES_PER_S,
    LOG_TRACE_LINES_MAX,
    LOG_VALUE_CHARACTERS,
)
from radiator.model.settings import Logging
from radiator.server.log import EventLog, Form, form_of, line, shown

READ_MAX_S = 10.0


@pytest.mark.parametrize(
    "value, case",
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
def test_shown_quotes_and_escapes_what_is_not_plain(value: str | int | float | bool, case: str) -> None:
    assert shown(value) == case


def test_shown_cuts_long_values() -> None:
    longest = "x" * LOG_VALUE_CHARACTERS
    assert shown(longest) == longest
    assert shown(longest + "y") == f'"{longest}..."'
    assert shown("\0" * 10_000) == '"' + "\\x00" * LOG_VALUE_CHARACTERS + '..."'


@pytest.mark.parametrize("character", [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)])
def test_line_is_one_line_whatever_a_client_said(character: str) -> None:
    reported = line("info", "refused", {"sentence": f"x{character}2026-11-21T08:00:00.000Z info forged"}, 0.0)
    assert reported.splitlines() == [reported.rstrip("\n")]
    assert reported.startswith('1970-01-01T00:00:00.000Z info refused sentence="x')


def test_line_has_the_time_in_utc_with_milliseconds() -> None:
    assert line("info", "start", {"pid": 1}, 1795248000.0625) == "2026-11-21T08:00:00.062Z info start pid=1\n"
    assert line("info", "start", {}, 1795248000.9999) == "2026-11-21T08:00:00.999Z info start\n"


def test_log_writes_everything_before_it_closes() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer)
    for number in range(100):
        log.info("event", number=number)
    log.close()
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    assert [reported.partition("number=")[2] for reported in lines] == [str(number) for number in range(100)]


def test_log_drops_and_counts_lines_that_nobody_reads() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer)
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
    log = EventLog(writer)
    lines: list[str] = []
    began_s = time.monotonic()
    for number in range(LOG_LINES_PER_S // 2):
        for _ in range(12):
            log.info("flood")
        log.info("other", number=number)
        lines += read_until(reader, lambda new, number=number: any(f"number={number}" in reported for reported in new))
    log.close()
    elapsed_s = time.monotonic() - began_s
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        lines += pipe.read().splitlines()
    reported = dropped_in(lines)
    assert sum(reported) + sum(" flood" in reported for reported in lines) == 12 * (LOG_LINES_PER_S // 2)
    assert 1 <= len(reported) <= 1 + elapsed_s / LOG_DROPPED_EVERY_S  # one more as it closes


def test_log_tells_what_it_dropped_though_nothing_follows() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer)
    for _ in range(LOG_LINES_PER_S):
        log.info("flood")
    lines = read_until(reader, lambda lines: len(lines) == LOG_LINES_PER_S)
    for _ in range(3 * LOG_LINES_PER_S):  # in two seconds at most
        log.info("flood")
    lines += read_until(reader, lambda lines: bool(dropped_in(lines)))
    assert sum(dropped_in(lines)) + sum(" flood" in reported for reported in lines) == 4 * LOG_LINES_PER_S
    log.close()
    os.close(writer)
    os.close(reader)


def read_until(reader: int, is_enough: Callable[[list[str]], bool]) -> list[str]:
    """The lines that come until it says so."""
    printed = b""
    deadline_s = time.monotonic() + READ_MAX_S
    while not (printed.endswith(b"\n") and is_enough(printed.decode().splitlines())):
        assert select.select([reader], [], [], max(0.0, deadline_s - time.monotonic()))[0], printed[-500:]
        printed += os.read(reader, 65536)
    return printed.decode().splitlines()


def dropped_in(lines: list[str]) -> list[int]:
    """What each line of dropped ones says."""
    return [int(found[1]) for found in map(re.compile(r"log_lines_dropped lines=(\d+)$").search, lines) if found]


def lines_of(
    write: Callable[[EventLog], None], logging: Logging | None = None, client_every_s: float = 1000.0
) -> list[str]:
    """All lines of a log that is closed behind what `write` does."""
    reader, writer = os.pipe()
    log = EventLog(writer, logging, client_every_s)
    write(log)
    log.close()
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        return pipe.read().splitlines()


# ---- levels, forms, priorities


@pytest.mark.parametrize("level, answer", [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_level_leaves_out_what_is_below_it(level: str, answer: int) -> None:
    def write(log: EventLog) -> None:
        for event in (log.debug, log.info, log.warning, log.error):
            event("event")

    lines = lines_of(write, Logging(level=level))
    assert [answer.split()[1] for answer in lines] == ["debug", "info", "warning", "error"][-answer:]


def test_the_level_and_the_form_change_from_the_next_line_on() -> None:
    def write(log: EventLog) -> None:
        log.debug("one")
        log.use(Logging(level="debug", format="json"))
        log.debug("two")
        log.use(Logging())
        log.debug("three")
        log.info("four")

    two, four = lines_of(write)
    assert json.loads(two)["event"] == "two" and four.endswith(" info four")


HOSTILE = 'x\n<0>y\x1b[31m\u2028\u202e\ud800"\\größe' + "z" * LOG_VALUE_CHARACTERS


def test_a_json_line_is_one_object_in_ascii_whatever_a_client_said() -> None:
    fields = {"connection": 7, "sentence": HOSTILE, "share": 0.25, "is_tight": True}
    answer = line("info", "refused", fields, 1795248000.0625, Form(is_json=True))
    assert answer.endswith("\n") and answer.isascii() and answer.rstrip("\n").isprintable()
    assert json.loads(answer) == {
        "time": "2026-11-21T08:00:00.062Z", "level": "info", "event": "refused", "connection": 7,
        "sentence": HOSTILE[:LOG_VALUE_CHARACTERS] + "...", "share": 0.25, "is_tight": True,
    }  # fmt: skip


def test_a_traceback_is_one_object_too_its_last_lines() -> None:
    count = 2 * LOG_TRACE_LINES_MAX
    text = "".join(f"line {number} \x1b \ud800 {'z' * 300}\n" for number in range(count))
    (answer,) = lines_of(lambda log: log.trace(text), Logging(format="json"))
    found = json.loads(answer)
    assert found["event"] == "trace" and answer.isascii()
    assert [one.split()[1] for one in found["lines"]] == [str(number) for number in range(count)][-LOG_TRACE_LINES_MAX:]
    assert max(map(len, found["lines"])) == LOG_VALUE_CHARACTERS + 3


def test_priorities_are_those_of_syslog_on_each_line() -> None:
    def write(log: EventLog) -> None:
        for event in (log.debug, log.info, log.warning, log.error):
            event("event")
        log.trace("one\ntwo\n")

    lines = lines_of(write, Logging(level="debug", priorities="always"))
    assert [answer[:3] for answer in lines] == ["<7>", "<6>", "<4>", "<3>", "<3>", "<3>"]
    assert lines[-2:] == ["<3>one", "<3>two"]


def test_priorities_are_for_journald_alone_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    found = os.fstat(writer)
    for stream, is_journal in ((f"{found.st_dev}:{found.st_ino}", True), ("8:1", False), ("", False)):
        monkeypatch.setenv("JOURNAL_STREAM", stream)
        assert form_of(Logging(), writer).has_priorities is is_journal
        assert form_of(Logging(priorities="always"), writer).has_priorities
        assert not form_of(Logging(priorities="never"), writer).has_priorities
    monkeypatch.delenv("JOURNAL_STREAM")
    assert not form_of(Logging(), writer).has_priorities
    os.close(reader)
    os.close(writer)


# ---- the last lines


def test_the_last_lines_are_kept_as_they_were_logged() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer, Logging(level="info"))
    began_ms = int(time.time() * 1000)
    log.debug("left_out")
    log.info("came", text=HOSTILE, short="x\0\u202e", n=1, share=0.5, is_so=True)
    log.trace("Traceback ...\n  File x\nValueError: it\x1b broke\n")
    found = log.last(None, 10, "debug")
    assert (found.first, found.next) == (1, 2)
    came, trace = found.lines
    assert (came.level, came.event) == ("info", "came") and began_ms <= came.time_ms <= time.time() * 1000
    assert came.fields == {
        "text": HOSTILE[:LOG_VALUE_CHARACTERS] + "...", "short": "x\0\u202e", "n": 1, "share": 0.5, "is_so": True
    }  # fmt: skip
    assert (trace.level, trace.event, trace.fields) == ("error", "trace", {"sentence": "ValueError: it\x1b broke"})
    log.close()
    os.close(reader)
    os.close(writer)


def test_a_flood_drives_no_other_line_out_of_those_that_are_kept() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer, client_every_s=0.05)
    log.info("before")
    for number in range(3 * LOG_LINES_PER_S):
        log.write("info", "flood", {"number": number}, "192.0.2.7")
    until_s = time.monotonic() + READ_MAX_S
    while not any(one.event == "client_lines_dropped" for one in log.last(None, 100, "warning").lines):
        assert time.monotonic() < until_s
        time.sleep(0.01)
    lines = log.last(0, 500, "debug").lines
    assert [one.event for one in lines] == ["before", *["flood"] * LOG_LINES_OF_CLIENT, "client_lines_dropped"]
    assert lines[-1].fields == {
        "client": "192.0.2.7",
        "of": "flood",
        "lines": 3 * LOG_LINES_PER_S - LOG_LINES_OF_CLIENT,
    }
    log.close()
    os.close(reader)
    os.close(writer)


def test_the_last_lines_are_kept_though_nobody_reads_them() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer)
    for number in range(5 * LOG_LINES_MAX):
        log.error("event", number=number, filler="x" * LOG_VALUE_CHARACTERS)
    assert log.last(None, 1, "debug").lines[0].fields["number"] == 5 * LOG_LINES_MAX - 1
    assert log.waiting == LOG_LINES_MAX
    read_until(reader, lambda lines: bool(dropped_in(lines)))
    assert log.last(None, 1, "debug").lines[0].event == "log_lines_dropped"
    log.close()
    os.close(reader)
    os.close(writer)


# ---- one client


def left_out(lines: list[str]) -> dict[tuple[str, str], int]:
    """Of each client and event, as the lines say."""
    reported = re.compile(r" warning client_lines_dropped client=(\S+) of=(\S+) lines=(\d+)$")
    return {(found[1], found[2]): int(found[3]) for found in map(reported.search, lines) if found}


def test_one_client_does_not_hide_what_others_cause() -> None:
    def write(log: EventLog) -> None:
        for number in range(5 * LOG_LINES_PER_S):
            log.write("info", "refused", {"number": number}, "192.0.2.7")
        log.write("info", "refused", {"number": -1}, "192.0.2.8")
        log.write("info", "other", {"number": -2}, "192.0.2.7")

    lines = lines_of(write)
    assert sum(" refused number=" in reported for reported in lines) == LOG_LINES_OF_CLIENT + 1
    assert any(reported.endswith(" refused number=-1") for reported in lines)
    assert any(reported.endswith(" other number=-2") for reported in lines)
    assert left_out(lines) == {("192.0.2.7", "refused"): 5 * LOG_LINES_PER_S - LOG_LINES_OF_CLIENT}
    assert dropped_in(lines) == []


def test_what_a_client_was_left_out_of_is_told_when_its_time_is_over_though_nothing_follows() -> None:
    reader, writer = os.pipe()
    log = EventLog(writer, client_every_s=0.2)
    for _ in range(LOG_LINES_OF_CLIENT + 3):
        log.write("info", "refused", {}, "192.0.2.7")
    lines = read_until(reader, lambda lines: bool(left_out(lines)))
    assert left_out(lines) == {("192.0.2.7", "refused"): 3}
    log.write("info", "refused", {"again": True}, "192.0.2.7")
    read_until(reader, lambda lines: any("again=true" in reported for reported in lines))
    log.close()
    os.close(reader)
    os.close(writer)


def test_errors_are_told_whoever_causes_them() -> None:
    def write(log: EventLog) -> None:
        for _ in range(2 * LOG_LINES_OF_CLIENT):
            log.write("error", "damaged_record", {}, "192.0.2.7")

    assert len(lines_of(write)) == 2 * LOG_LINES_OF_CLIENT


def test_every_line_is_told_or_counted_however_many_clients_there_are() -> None:
    clients, each = LOG_CLIENTS_MAX + 50, LOG_LINES_OF_CLIENT + 2

    def write(log: EventLog) -> None:
        for number in range(clients):
            for _ in range(each):
                log.write("info", "refused", {}, f"192.0.2.{number}")

    lines = lines_of(write)
    counted = left_out(lines)
    assert len(counted) == LOG_CLIENTS_LISTED
    reported = sum(" info refused" in one for one in lines)
    assert reported + sum(counted.values()) + sum(dropped_in(lines)) == clients * each


def test_log_survives_a_closed_stderr() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    log = EventLog(writer)
    log.info("event")
    log.close()
    os.close(writer)
