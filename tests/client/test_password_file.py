"""A password in a file: what is taken, at the bounds, and what is never said."""

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


@pytest.mark.parametrize("password", RIGHT)
def test_a_password_is_taken_as_it_is(password: str, tmp_path: Path) -> None:
    assert checked(password, "It") == password
    (tmp_path / "file").write_text(password + "\nmore\n")
    (tmp_path / "file").chmod(0o600)
    assert from_file(tmp_path / "file") == password


@pytest.mark.parametrize("password", WRONG)
def test_what_cannot_be_a_passcode_is_refused_and_not_repeated(password: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(password, "It")
    assert not password or password not in str(caught.value)
    (tmp_path / "file").write_bytes(password.encode("utf-8", "surrogateescape") + b"\n")
    (tmp_path / "file").chmod(0o600)
    with pytest.raises(ConfigError, match="file"):
        from_file(tmp_path / "file")


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
