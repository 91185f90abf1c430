"""As whom a command speaks to a broker that has users."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.tools.cli import main
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

SECRET = "p@ss:w/rd %"
USERS = f'[user.shop]\npassword = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"\nrole = "operator"\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = SERVER + EVERYTHING_MAY_BE_CREATED + USERS
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        yield running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text(SECRET + "\n")
    (tmp_path / "file").chmod(0o600)
    return tmp_path / "file"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main([*words])
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    return status, printed.err


def test_without_a_login_a_command_is_refused(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    status, err = run(capsys, "queues", "--broker", broker.address)
    assert status == 1 and "CONNECT needs the login and the passcode of a user of this broker" in err


def test_the_operators_need_none(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "queues", "--broker", f"stomp+unix:{broker.unix_path}") == (0, "")
    assert run(capsys, "queues", "--config", str(broker.config_file)) == (0, "")


@pytest.mark.parametrize("words", [("queues",), ("send", "orders", "x", "--create"), ("bench", "--seconds", "0.1")])
def test_a_password_comes_from_a_file(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], file: Path, words: tuple[str, ...]
) -> None:
    at = ("--broker", broker.address, "--user", "shop")
    assert run(capsys, *words, *at, "--password-file", str(file)) == (0, "")
    file.write_text("wrong")
    assert run(capsys, *words, *at, "--password-file", str(file))[0] == 1


def test_a_password_comes_from_the_environment(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RADIATOR_PASSWORD", SECRET)
    assert run(capsys, "queues", "--broker", broker.address, "--user", "shop") == (0, "")
    assert run(capsys, "queues", "--broker", broker.address)[0] == 1  # it says no user
    monkeypatch.delenv("RADIATOR_PASSWORD")
    monkeypatch.setenv("RADIATOR_BROKER", broker.address.replace("//", "//shop:p%40ss%3Aw%2Frd%20%25@"))
    assert run(capsys, "queues") == (0, "")
    monkeypatch.setenv("RADIATOR_BROKER", broker.address.replace("//", "//shop@"))
    monkeypatch.setenv("RADIATOR_PASSWORD", SECRET)
    assert run(capsys, "queues") == (0, "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_password_is_asked_for_at_a_terminal(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: prompts.append(prompt) or SECRET)
    assert run(capsys, "queues", "--broker", broker.address, "--user", "shop") == (0, "")
    assert prompts == ["Password of shop: "]


def test_no_password_anywhere_is_a_sentence(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    status, err = run(capsys, "queues", "--broker", broker.address, "--user", "shop")
    assert status == 2 and "There is no password for the user shop: say --password-file FILE" in err
    status, err = run(capsys, "queues", "--broker", broker.address, "--password-file", str(file))
    assert status == 2 and "say --user NAME" in err


def test_a_password_in_an_argument_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["queues", "--broker", "stomp://shop:hunter2@127.0.0.1:1"])
    err = capsys.readouterr().err
    assert status == 2 and "others see among the processes" in err and "hunter2" not in err
