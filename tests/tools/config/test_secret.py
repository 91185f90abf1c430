"""The file with the secret of the nodes: whose it is, what is in it, and what is said where it is not right."""

import os
from pathlib import Path

import pytest

from radiator.model.errors import ConfigError
from radiator.tools.config import load
from radiator.tools.config.secret import read_secret

MAKE = "make one: head -c 32 /dev/urandom | base64 > cluster.secret; chmod 600 cluster.secret"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.secret"
    file.touch(0o600)
    return file


def why_not(file: Path) -> str:
    with pytest.raises(ValueError, match="^is .+; ") as caught:
        read_secret(file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (b"0123456789abcdef", b"0123456789abcdef"),
        (b"0123456789abcdef\n", b"0123456789abcdef"),
        (b"0123456789abcd\n\n\n", b"0123456789abcd\n\n"),
        (b" \0\xff" * 10, b" \0\xff" * 10),
        (b"x" * 1024, b"x" * 1024),
        (b"x" * 1024 + b"\n", b"x" * 1024),
        (b"0123456789abcdef\r\n", b"0123456789abcdef"),
        (b"0123456789abcdef\r", b"0123456789abcdef\r"),
        (b"0123456789abcde\n\r\n", b"0123456789abcde\n"),
        (b"\xef\xbb\xbf0123456789abcdef\n", b"0123456789abcdef"),
        (b"\xef\xbb\xbf" + b"x" * 1024 + b"\r\n", b"x" * 1024),
    ],
)
def test_a_secret_is_read_without_one_newline(file: Path, data: bytes, secret: bytes) -> None:
    file.write_bytes(data)
    assert read_secret(file) == secret


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"", "0"),
        (b"0123456789abcde", "15"),
        (b"0123456789abcde\n", "15"),
        (b"x" * 1025, "more than 1024"),
        (b"x" * 1025 + b"\n", "more than 1024"),
        (b"\xef\xbb\xbf0123456789abcde\r\n", "15"),
        (b"\xef\xbb\xbf" + b"x" * 1025 + b"\r\n", "more than 1024"),
        (b"x" * 100_000, "more than 1024"),
    ],
)
def test_a_secret_of_the_wrong_size_is_refused(file: Path, data: bytes, size: str) -> None:
    file.write_bytes(data)
    assert why_not(file) == f'is "{file}", which holds {size} bytes; a secret has 16 to 1024: {MAKE}'


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700, 0o440, 0o640])
def test_a_secret_of_its_owner_and_perhaps_a_groups_to_read_is_taken(file: Path, mode: int) -> None:
    file.write_bytes(b"x" * 32)
    file.chmod(mode)
    read_secret(file)


@pytest.mark.parametrize("mode", [0o660, 0o620, 0o650, 0o604, 0o602, 0o666])
def test_a_secret_that_others_may_read_or_write_is_refused(file: Path, mode: int) -> None:
    file.write_bytes(b"x" * 32)
    file.chmod(mode)
    right = "so others may read or change it; chmod 600 cluster.secret, or 640 for a group that may read it"
    assert why_not(file) == f'is "{file}", of mode {mode:04o}, {right}'


def test_a_secret_that_is_not_there_is_refused(tmp_path: Path) -> None:
    found = why_not(tmp_path / "cluster.secret")
    assert found.endswith(f"which cannot be read (No such file or directory); {MAKE}, and copy it to every node")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        assert "which is not a file; make one:" in why_not(path)


def test_a_link_to_a_file_is_followed(file: Path) -> None:
    file.write_bytes(b"x" * 32)
    (file.parent / "link").symlink_to(file)
    assert read_secret(file.parent / "link") == b"x" * 32


def test_the_mistake_stands_at_its_line(file: Path) -> None:
    config = file.parent / "config.toml"
    config.write_text("[node]\nname = 'a'\nsecret_file = 'cluster.secret'\n[peer.b]\naddress = 'peer://b:1'\n")
    with pytest.raises(ConfigError) as caught:
        load(config)
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].startswith(f'{config}, line 3: node.secret_file is "{file}", which holds 0 bytes')
