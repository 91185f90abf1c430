"""Files of TOML, as editors save them and pipes give them, at the bound of their length and past it."""

import os
import threading
from pathlib import Path

import pytest

from radiator.model.errors import ConfigError
from radiator.model.limits import CONFIG_MAX_BYTES
from radiator.tools.cli import main
from radiator.tools.config.toml_file import read_toml

TEXT = '[queue."ä"]\n'


def wrong(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    (sentence,) = caught.value.mistakes
    return sentence


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "file").write_bytes(TEXT.encode(encoding))
    assert read_toml(tmp_path / "file") == (TEXT, {"queue": {"ä": {}}})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (TEXT.encode("utf-16"), "is UTF-16; save it as UTF-8, which TOML must be."),
        (b"# caf\xe9", "is not UTF-8 at byte 5; save it as UTF-8, which TOML must be."),
        (b"x", "is not TOML: Expected '=' after a key in a key/value pair (at end of document)."),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "file").write_bytes(data)
    assert wrong(tmp_path / "file") == f"{tmp_path / 'file'} {sentence}"


def test_so_long_and_no_longer(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"#" * CONFIG_MAX_BYTES)
    assert read_toml(tmp_path / "file")[1] == {}
    (tmp_path / "file").write_bytes(b"#" * (CONFIG_MAX_BYTES + 1))
    assert "has more than the 16777216 bytes that it may have" in wrong(tmp_path / "file")


def test_a_device_without_an_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "/dev/zero"]) == 2
    assert "/dev/zero has more than the 16777216 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("has_end", [True, False])
def test_a_pipe_is_read_and_no_further_than_the_bound(tmp_path: Path, has_end: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    taken_bytes = 0

    def write() -> None:
        nonlocal taken_bytes
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write(TEXT.encode())
            while not has_end:
                try:
                    taken_bytes += pipe.write(b"#" * 65_536)
                except BrokenPipeError:
                    return

    writer = threading.Thread(target=write)
    writer.start()
    if has_end:
        assert read_toml(tmp_path / "pipe")[0] == TEXT
    else:
        assert "has more than" in wrong(tmp_path / "pipe")
    writer.join(10)
    assert not writer.is_alive() and taken_bytes < CONFIG_MAX_BYTES + 200_000
