"""`radiator migrate` before it moves anything: its words, its passwords, and what it says of the two brokers."""

from pathlib import Path

import pytest

from radiator.tools.cli import main
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.tools.migrate.conftest import definitions

NOBODY = "amqp://127.0.0.1:1"


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit status, and the sentence."""
    status = main(["migrate", *words])
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("radiator"), (out, err)
    return status, err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([NOBODY], "AMQP cannot list what a broker has"),
        (["stomp://127.0.0.1:1", "--queue", "q"], "The address 'stomp://127.0.0.1:1' cannot be used"),
        (["amqp://ann:secret@127.0.0.1:1", "--queue", "q"], "has a password before it"),
        ([NOBODY, "--queue", "q", "--to", "amqp://127.0.0.1:1/"], "is the old broker and the new one"),
        ([NOBODY, "--queue", "q", "--window", "0"], "'0' is not a whole number from 1 to 65535"),
        ([NOBODY, "--queue", "q", "--window", "65536"], "'65536' is not a whole number from 1 to 65535"),
        (["amqp://ann@127.0.0.1:1", "--queue", "q"], "There is no password for the user ann"),
        ([NOBODY, "--queue", "q", "--to", "amqp://ann@127.0.0.1:2"], "say --to-password-file FILE"),
        ([NOBODY, "--definitions", "/nonexistent/file"], "/nonexistent/file cannot be read: No such file"),
        ([NOBODY, "--definitions", "/"], "/ cannot be read: Is a directory."),
    ],
)
def test_wrong_words_are_told(capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    status, err = failed(capsys, *words)
    assert sentence in err and "secret" not in err
    assert status == 2


def test_a_configuration_without_amqp_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[server]\nlisten = ["stomp://127.0.0.1:61613"]\ndata_dir = "data"\n')
    status, err = failed(capsys, NOBODY, "--queue", "q", "--config", str(config))
    assert status == 2 and 'has no address of AMQP: put "amqp://127.0.0.1:5672" into `listen`' in err


def test_nobody_there_and_somebody_who_speaks_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, err = failed(capsys, NOBODY, "--queue", "q")
    assert status == 1 and "The old broker is not reached at amqp://127.0.0.1:1" in err
    with BrokerProcess(tmp_path) as broker, Wire((broker.host, broker.port)):
        address = broker.address.replace("stomp", "amqp")
        status, err = failed(capsys, address, "--queue", "q")
        assert status == 1 and (f"What answers at {address} is not AMQP" in err or "closed" in err), err


def test_definitions_with_a_mistake_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = definitions(tmp_path, queues=[{"name": 5}])
    status, err = failed(capsys, NOBODY, "--definitions", file)
    assert status == 2 and f"{file}: queues[0]: name is 5: it must be text." in err
