"""`radiator archive` beside a running broker."""

import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason='the archive needs pyarrow: pip install ".[archive]"')

import pyarrow.parquet as pq

from radiator.client import Client
from radiator.tools.cli import main
from radiator.tools.cli.data import NO_PYARROW
from tests.broker_process import BrokerProcess, environment


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "[log.clicks]\npartitions = 2\n") as running:
        yield running


def send(broker: BrokerProcess, count: int) -> int:
    """How many records the log has then."""
    with Client(broker.address, answer_timeout_s=10) as client:
        for number in range(count):
            client.send("/log/clicks", b"%d" % number, headers={"partition-key": f"k{number}"})
        return sum(client.admin({"do": "describe", "log": "clicks"})["partitions"]["next"])


def rows(directory: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in directory.glob("log=clicks/*/[!.]*.parquet"))


def test_beside_a_broker(broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "archive"
    line = ["archive", "--config", str(broker.config_file), "--to", str(to)]
    before = rows(to)
    send(broker, 30)
    assert main(line) == 0
    assert rows(to) - before >= 30
    assert main([*line, "--log", "/log/clicks"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"0 rows archived in {to}: 0 files of 0 B (")
    assert main(["archive", "--verify", str(to)]) == 0
    assert "every row is what was written" in capsys.readouterr().out
    files = [path for path in to.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    files[-1].unlink()
    next(to.glob("log=clicks/*/*.parquet"), files[0]).unlink(missing_ok=True)
    assert main(["archive", "--verify", str(to)]) == 1
    printed = capsys.readouterr()
    assert "is missing." in printed.out and "wrong in" in printed.err
    # each run says so too, and that no run mends it
    assert main(line) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"0 rows archived in {to}: ") and "radiator: DAMAGED: log=clicks/date=" in printed.err
    assert f"not written again: `radiator archive --verify {to}` lists all" in printed.err
    (to / "_manifest.jsonl").write_text("nonsense\n")
    assert main(["archive", "--verify", str(to)]) == 1
    assert "Line 1 of " in capsys.readouterr().out
    assert main(line) == 2


def test_it_follows_until_it_is_stopped(broker: BrokerProcess, tmp_path: Path) -> None:
    to = tmp_path / "archive"
    line = [sys.executable, "-m", "radiator", "archive", "--config", str(broker.config_file), "--to", str(to)]
    process = subprocess.Popen([*line, "--follow", "--seal-s", "0"], env=environment(), stdout=subprocess.PIPE)
    try:
        last_s = time.monotonic() + 60
        for count in (10, 5):
            whole = send(broker, count)
            while rows(to) < whole and time.monotonic() < last_s:
                time.sleep(0.1)
            assert rows(to) == whole
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0 and main(["archive", "--verify", str(to)]) == 0


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("--to X", 2, "Where are the data? Say --data DATA_DIR, or --config FILE."),
        ("--config CONFIG", 2, "One of the arguments --to --verify is required"),
        ("--config CONFIG --to X --log nothing", 2, "There is no log 'nothing' in this store; there is clicks."),
        ("--config CONFIG --to X --log /queue/a", 2, "'/queue/a' is not a log"),
        ("--config CONFIG --to X --seal-rows 0", 2, "is not a whole number above 0"),
        ("--verify X", 2, "is not an archive"),
        ("--verify CONFIG", 2, "is not an archive"),
        ("--config /nowhere/config.toml --to X", 2, "/nowhere/config.toml"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, status: int, sentence: str
) -> None:
    words = {"CONFIG": str(broker.config_file), "X": str(tmp_path / "x")}
    assert main(["archive", *(words.get(word, word) for word in line.split())]) == status
    assert sentence in capsys.readouterr().err


def test_without_pyarrow_it_says_how_to_get_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\nfrom radiator.tools.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    for line in (["archive", "--verify", str(tmp_path)], ["audit", "--archive", str(tmp_path)]):
        ended = subprocess.run(
            [sys.executable, "-c", program, *line], env=environment(), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 2, ended.stderr
        assert ended.stderr == f"radiator: {NO_PYARROW}\n"
