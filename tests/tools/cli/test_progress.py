"""The line that says how far long work is: only on a terminal, with rate and time left, and gone at the end."""

import io
import re
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from radiator.tools.cli.progress import BEGINS_S, BYTES, EVERY_S, Progress
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess


class Terminal(io.StringIO):
    """What is written to it, and what stands on its line then."""

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        cells: list[str] = []
        at = 0
        for character in self.getvalue():
            if character == "\r":
                at = 0
                continue
            cells[at : at + 1] = [character]
            at += 1
        return "".join(cells).rstrip()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_rate_and_time_left(clock: Clock) -> None:
    with Progress("check", terminal := Terminal(), clock) as progress:
        progress("verifying", "rows", 0, 100_000)
        clock.now_s += 2
        progress("verifying", "rows", 20_000, 100_000)
        assert terminal.line == "check: verifying: 20000 of 100000 rows (20 %), 10000/s, 8 s left"
        clock.now_s += 2
        progress("copying", BYTES, 3 << 20, 8 << 20)
        assert terminal.line == "check: copying: 3.0 MiB of 8.0 MiB (37 %)"
        clock.now_s += 2
        progress("copying", BYTES, 5 << 20, 8 << 20)
        assert terminal.line == "check: copying: 5.0 MiB of 8.0 MiB (62 %), 1.0 MiB/s, 3 s left"
        assert progress.took == "6.0 s"
    assert terminal.line == ""


def test_what_is_over_soon_shows_nothing(clock: Clock) -> None:
    with Progress("check", terminal := Terminal(), clock) as progress:
        progress("verifying", "rows", 0, 100)
        clock.now_s += BEGINS_S / 2
        progress("verifying", "rows", 100, 100)
    assert terminal.getvalue() == ""


def test_line_is_written_a_few_times_a_second(clock: Clock) -> None:
    with Progress("check", terminal := Terminal(), clock) as progress:
        for number in range(10_000):
            clock.now_s += 0.001
            progress("verifying", "rows", number, 10_000)
    assert terminal.getvalue().count("verifying") == pytest.approx((10 - BEGINS_S) / EVERY_S, abs=2)


def test_nothing_is_written_where_there_is_no_terminal(clock: Clock) -> None:
    with Progress("check", stream := io.StringIO(), clock) as progress:
        for number in range(10):
            clock.now_s += 1
            progress("verifying", "rows", number, 10)
    assert stream.getvalue() == ""


def test_line_is_cut_to_the_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    with Progress("check", terminal := Terminal(), clock) as progress:
        clock.now_s += 1
        progress("verifying what is very long indeed", "rows", 1, 2)
        assert 0 < len(terminal.line) <= 29


def test_more_than_there_was_to_be_is_no_mistake(clock: Clock) -> None:
    """A running broker goes on writing."""
    with Progress("check", terminal := Terminal(), clock) as progress:
        clock.now_s += 1
        progress("verifying", "rows", 30, 20)
        assert terminal.line == "check: verifying: 30 of 20 rows (100 %)"
        clock.now_s += 1
        progress("verifying", "rows", 40, 20)
        assert re.fullmatch("check: verifying: 40 of 20 rows .100 %., 10/s", terminal.line)


# ---- the commands ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a stopped broker: some hundred messages, records and events of the journal."""
    directory = tmp_path_factory.mktemp("stopped")
    config = EVERYTHING_MAY_BE_CREATED + '[journal]\nenabled = true\n[log."l"]\n'
    with BrokerProcess(directory, config) as broker:
        with Client(broker.address) as client:
            client.send_many("/queue/q", [b"x" * 100] * 600)
            client.send_many("/log/l", [b"y" * 100] * 600)
        assert broker.stop() == 0
    return broker.data_dir


def commands(data_dir: Path, tmp_path: Path) -> dict[str, tuple[list[str], str, str]]:
    """By its name: its command line, what must be said meanwhile, and what at its end."""
    data, to = str(data_dir), str(tmp_path / "archive")
    return {
        "check": (["check", data], r"verifying the table messages: \d+ of 600 rows", "600 messages"),
        "backup": (["backup", data, str(tmp_path / "backup")], "", "KiB, synced"),
        "restore": (
            ["restore", str(tmp_path / "backup"), str(tmp_path / "restored")],
            r"copying: [\d.]+ .iB of [\d.]+ .iB \(100 %\)",
            "600 messages",
        ),
        "compact": (["compact", str(tmp_path / "restored")], r"comparing: \d+ rows", "became"),
        "archive": (["archive", "--data", data, "--to", to], r"copying: \d+ of \d+ rows", "rows archived in"),
        "verify": (["archive", "--verify", to], r"verifying: [\d.]+ .*B of .*B \(100 %\)", "is what was written"),
        "audit": (["audit", "--data", data], r"reading the journal: \d+ of \d+ events", "what is stored"),
        "audit an archive": (["audit", "--archive", to], r"reading the journal: \d+ of", "what is stored"),
    }  # fmt: skip


def test_every_long_command_says_how_far_it_is_and_what_it_did(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal; where stderr is none, it says what it did and nothing else."""
    monkeypatch.setattr("radiator.tools.cli.progress.BEGINS_S", 0.0)
    monkeypatch.setattr("radiator.tools.cli.progress.EVERY_S", 0.0)
    for place in ("terminal", "pipe"):
        (tmp_path / place).mkdir()
        for name, (line, meanwhile, end) in commands(data_dir, tmp_path / place).items():
            with monkeypatch.context() as patched:
                terminal = Terminal()
                if place == "terminal":
                    patched.setattr("sys.stderr", terminal)
                assert main(line) == 0, name
            printed = capsys.readouterr()
            assert end in printed.out and re.search(r"\d\.\d s\b", printed.out), f"{name}: {printed.out}"
            if place == "terminal":
                assert re.search(meanwhile, terminal.getvalue()) and terminal.line == "", (
                    f"{name}: {terminal.getvalue()}"
                )
            else:
                assert printed.err == "", name
