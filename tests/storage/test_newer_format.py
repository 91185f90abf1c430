"""A store of a newer format is refused by every command that reads one: what such a command does not know, it would
say is not there.
"""

from pathlib import Path

import pytest

from radiator.storage.backup import restore
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from radiator.tools.cli import main
from tests.storage.breaking import rewrite

NEWEST = Path(__file__).with_name("formats") / f"format-{records.FORMAT}.mdb"
NEWER = records.FORMAT + 1
SENTENCE = f"has format {NEWER}, this Radiator reads formats 1 to {records.FORMAT}: run the Radiator that wrote it"


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    restore(NEWEST, tmp_path / "data")
    rewrite(tmp_path / "data", META, FORMAT, records.encode_number(FORMAT, NEWER))
    return tmp_path / "data"


@pytest.mark.parametrize(
    "command",
    [
        ("check", "DATA"),
        ("audit", "--data", "DATA"),
        ("explain", "--data", "DATA", "0123456789abcdef-1-1"),
        ("archive", "--config", "CONFIG", "--to", "TO"),
        ("backup", "DATA", "TO"),
        ("serve", "--config", "CONFIG"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_refuses_it(newer: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    config, to = newer.parent / "config.toml", newer.parent / "to"
    config.write_text(f'[server]\ndata_dir = "{newer}"\nlisten = ["stomp://127.0.0.1:0"]\n')
    before = (newer / "data.mdb").read_bytes()
    places = {"DATA": str(newer), "CONFIG": str(config), "TO": str(to)}
    status = main([places.get(word, word) for word in command])
    printed = capsys.readouterr()
    assert status in (1, 2) and SENTENCE in printed.out + printed.err, (status, printed)
    assert (newer / "data.mdb").read_bytes() == before and not (to.is_file() or [*to.glob("log=*")])
