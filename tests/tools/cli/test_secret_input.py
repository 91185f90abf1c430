"""Passwords that a command is given: what is taken, and what is never said."""

import io

import pytest

from radiator.auth.tokens import text_of
from radiator.model.errors import ConfigError
from radiator.tools.cli.secret_input import from_stdin, no_token
from tests.client.test_password_file import JWT, RIGHT, WRONG, surrounded


def given(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("password", RIGHT)
def test_a_password_is_taken_as_it_is(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in surrounded(password):
        given(data, monkeypatch)
        assert from_stdin() == password


@pytest.mark.parametrize("password", WRONG)
def test_what_cannot_be_a_passcode_is_refused(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(password.encode("utf-8", "surrogateescape") + b"\n", monkeypatch)
    with pytest.raises(ConfigError, match="The password"):
        from_stdin()


def test_utf_16_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given("secret\n".encode("utf-16"), monkeypatch)
    with pytest.raises(ConfigError, match="^The password is UTF-16; save it as UTF-8.$"):
        from_stdin()


def test_a_password_that_would_be_taken_for_a_token_is_refused() -> None:
    assert no_token("radt_x") == "radt_x"
    with pytest.raises(ConfigError, match="the form of a token"):
        no_token(text_of(bytes(32)))
    with pytest.raises(ConfigError, match="the form of a JSON Web Token"):
        no_token(JWT)
