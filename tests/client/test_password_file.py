"""A password in a file: what is taken, at the bounds, and what is never said."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client.password_file import checked, from_file
from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_MAX_BYTES, SECRET_GIVEN_MAX_BYTES

JWT = "eyJ4.eyJ4."  # and then a signature
LONGEST_JWT = JWT.ljust(JWT_MAX_BYTES, "x")
RIGHT = ["x", " with spaces ", "cor:rect\\", "pässword", "x" * SECRET_GIVEN_MAX_BYTES, LONGEST_JWT]
WRONG = [
    "",
    "x" * (SECRET_GIVEN_MAX_BYTES + 1),
    "ä" * (SECRET_GIVEN_MAX_BYTES // 2 + 1),
    "a\rb",
    "a\0b",
    "\udcff",
    LONGEST_JWT + "x",
]


def surrounded(password: str) -> Iterator[bytes]:
    """As editors save it: with each end of a line, and with a byte order mark or without."""
    for encoding in ("utf-8", "utf-8-sig"):
        for end in ("\nmore\n", "\r\nmore\r\n", "\n", "\r\n", ""):
            yield f"{password}{end}".encode(encoding)


def private(file: Path, data: bytes) -> Path:
    file.write_bytes(data)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("password", RIGHT)
def test_a_password_is_taken_as_it_is(password: str, tmp_path: Path) -> None:
    assert checked(password, "It") == password
    for data in surrounded(password):
        assert from_file(private(tmp_path / "file", data)) == password


@pytest.mark.parametrize("password", WRONG)
def test_what_cannot_be_a_passcode_is_refused_and_not_repeated(password: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(password, "It")
    assert not password or password not in str(caught.value)
    for mark in (b"", b"\xef\xbb\xbf"):
        private(tmp_path / "file", mark + password.encode("utf-8", "surrogateescape") + b"\r\n")
        with pytest.raises(ConfigError, match="file"):
            from_file(tmp_path / "file")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_told(encoding: str, tmp_path: Path) -> None:
    file = private(tmp_path / "file", "secret\n".encode(encoding))
    with pytest.raises(ConfigError, match=f"^The password in {file} is UTF-16; save it as UTF-8.$"):
        from_file(file)


def test_a_pipe_is_waited_for_and_no_more_is_read_than_a_password(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    written_bytes = 0

    def write() -> None:
        nonlocal written_bytes
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            try:
                while True:
                    written_bytes += pipe.write(b"x" * 4096)
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(ConfigError, match="is too long"):
        from_file(tmp_path / "pipe")
    writer.join(10)
    assert not writer.is_alive() and written_bytes < 200_000


def test_the_output_of_another_program_is_a_file() -> None:
    program = "import sys; from pathlib import Path; from radiator.client.password_file import from_file; "
    program += "print(from_file(Path(sys.argv[1])))"
    for shell in ('"$0" -c "$1" <(echo secret; echo more)', 'echo secret | "$0" -c "$1" /dev/stdin'):
        done = subprocess.run(
            ["bash", "-c", shell, sys.executable, program], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout == "secret\n"


def test_a_directory_is_told_to_be_one_whatever_its_mode(tmp_path: Path) -> None:
    for mode in (0o700, 0o755):
        tmp_path.chmod(mode)
        with pytest.raises(ConfigError, match="is a directory: name a file") as caught:
            from_file(tmp_path)
        assert "chmod" not in str(caught.value)


def test_a_file_is_there_and_nobody_elses(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        from_file(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o644)
    with pytest.raises(ConfigError, match="everybody on this machine may read it: chmod 600"):
        from_file(tmp_path / "file")
