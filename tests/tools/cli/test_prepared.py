"""`radiator prepared`: what is committed or aborted by hand, and what says nothing without something else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as found:
        yield found


def prepare(broker: BrokerProcess, name: str) -> None:
    with Client(broker.address) as client:
        transaction = client.begin()
        client.send("/queue/orders", "x", transaction=transaction)
        client.commit(transaction, prepare=name)


def run(broker: BrokerProcess, *words: str) -> int:
    return main(["prepared", *words, "--broker", broker.address])


def test_one_is_committed_as_a_version_and_its_messages_are_there(broker: BrokerProcess, capsys: Captured) -> None:
    prepare(broker, "etl-1")
    assert run(broker, "--commit", "etl-1", "--app", "etl", "--version", "7") == 0
    assert "etl-1 is committed: 1 message of it will be in their destinations." in capsys.readouterr().out
    with Client(broker.address) as client:
        client.subscribe("/queue/orders")
        message = client.receive(timeout_s=10)
        assert message is not None and message.body == b"x"
        assert client.admin({"do": "version", "app": "etl"})["version"] == 7


def test_a_version_is_committed_once(broker: BrokerProcess, capsys: Captured) -> None:
    prepare(broker, "etl-1")
    assert run(broker, "--commit", "etl-1", "--app", "etl", "--version", "7") == 0
    prepare(broker, "etl-2")
    assert run(broker, "--commit", "etl-2", "--app", "etl", "--version", "7") == 1
    assert "version 7 of etl, or a higher one, had been committed before" in capsys.readouterr().err


def test_no_new_one_is_prepared_for_a_while_where_that_is_said(broker: BrokerProcess, capsys: Captured) -> None:
    prepare(broker, "etl-1")
    assert run(broker, "--abort-all", "etl-", "--refuse-s", "60") == 0
    with pytest.raises(Exception, match="etl-"):
        prepare(broker, "etl-2")
    prepare(broker, "other-1")


@pytest.mark.parametrize(("words", "sentence"), [
    (["--commit", "a"], "--commit needs --app and --version"),
    (["--commit", "a", "--app", "b"], "--commit needs --app and --version"),
    (["--app", "b"], "--app and --version are of --commit"),
    (["--abort", "a", "--version", "1"], "--app and --version are of --commit"),
    (["--abort", "a", "--refuse-s", "1"], "--refuse-s is of --abort-all"),
])  # fmt: skip
def test_what_says_nothing_alone_is_refused(words: list[str], sentence: str, capsys: Captured) -> None:
    assert main(["prepared", *words]) == 1
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["--commit", "a", "--app", "b", "--version", "-1"], ["--commit", "a", "--app", "b", "--version", "9" * 16],
    ["--abort-all", "a", "--refuse-s", "3601"], ["--commit", "a", "--app", "b", "--version", "x"],
])  # fmt: skip
def test_a_number_past_its_bounds_is_refused(words: list[str], capsys: Captured) -> None:
    assert main(["prepared", *words]) == 2
    assert "is not a whole number from 0 to" in capsys.readouterr().err
