"""Where a command finds the broker: `--broker`, the environment, the socket of `--config`, TCP."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.tools.cli import main
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.tls_broker import TlsBroker

NOBODY = "stomp+unix:/nowhere/radiator.sock"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), EVERYTHING_MAY_BE_CREATED) as running:
        yield running


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RADIATOR_BROKER", raising=False)


def test_a_unix_socket_is_an_address(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queues", "--broker", f"stomp+unix:{broker.unix_path}"]) == 0
    assert main(["queues", "--broker", "stomp+unix://x"]) == 2
    assert "it must be stomp+unix:PATH" in capsys.readouterr().err


def test_a_configuration_leads_to_the_operators_socket(broker: BrokerProcess) -> None:
    """It says port 0, which leads nowhere."""
    assert main(["queues", "--config", str(broker.config_file)]) == 0


def test_the_environment_goes_before_the_configuration_and_says_so(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RADIATOR_BROKER", NOBODY)
    assert main(["queues", "--config", str(broker.config_file)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"radiator: $RADIATOR_BROKER is {NOBODY}: --config does not say where the broker is."
    assert f"Cannot connect to {NOBODY}" in second


def test_what_is_said_goes_before_the_environment(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIATOR_BROKER", NOBODY)
    assert main(["queues", "--broker", broker.address]) == 0


def config(directory: Path, broker: BrokerProcess, more: str) -> str:
    file = directory / "other.toml"
    file.write_text(f'[server]\nlisten = ["{broker.address}"]\ndata_dir = "elsewhere"\n{more}')
    return str(file)


def test_tcp_comes_last(broker: BrokerProcess, tmp_path: Path) -> None:
    """No such data directory, or one that this user may not look into."""
    assert main(["queues", "--config", config(tmp_path, broker, "")]) == 0
    assert main(["queues", "--config", config(tmp_path, broker, "unix = false")]) == 0


def test_what_stands_at_its_path_and_is_no_socket_is_passed_over(broker: BrokerProcess, tmp_path: Path) -> None:
    """Such a broker has warned of it, and serves by TCP."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "radiator.sock").write_text("precious")
    assert main(["queues", "--config", config(tmp_path, broker, "")]) == 0


def test_a_socket_that_nobody_serves_is_passed_over(broker: BrokerProcess, tmp_path: Path) -> None:
    """A broker that was killed has left it."""
    (tmp_path / "elsewhere").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(tmp_path / "elsewhere" / "radiator.sock"))
    assert main(["queues", "--config", config(tmp_path, broker, "")]) == 0


def test_the_operators_socket_is_found_though_the_file_has_none_by_now(broker: BrokerProcess, tmp_path: Path) -> None:
    """As where `radiator reload --config` is to bring a changed file into force: the next start makes none."""
    (tmp_path / "changed.toml").write_text(
        f'[server]\nlisten = ["stomp://127.0.0.1:0"]\nunix = false\ndata_dir = "{Path(broker.unix_path).parent}"\n'
    )
    assert main(["queues", "--config", str(tmp_path / "changed.toml")]) == 0


def test_a_socket_that_is_listed_is_found_where_the_operators_is_not(broker: BrokerProcess, tmp_path: Path) -> None:
    listed = tmp_path / "other.toml"
    listed.write_text(f'[server]\nlisten = ["stomp://127.0.0.1:0", "stomp+unix:{broker.unix_path}"]\n')
    assert main(["queues", "--config", str(listed)]) == 0


def test_nothing_that_can_be_used_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text('[server]\nlisten = ["stomp+unix:none"]\n')
    assert main(["queues", "--config", str(tmp_path / "c.toml")]) == 2
    assert f"can be used: stomp+unix:{tmp_path}/data/none." in capsys.readouterr().err


@pytest.mark.slow
def test_a_load_goes_through_a_unix_socket(broker: BrokerProcess) -> None:
    assert main(["bench", "--seconds", "1", "--broker", f"stomp+unix:{broker.unix_path}"]) == 0


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("tls")) as running:
        yield running


def test_a_broker_with_tls_is_verified_by_the_ca_that_is_named(
    tls_broker: TlsBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ["--broker", tls_broker.tls_address]
    assert main(["queues", "--ca", tls_broker.ca_file, *where]) == 0
    capsys.readouterr()
    assert main(["queues", *where]) == 1
    assert "its certificate does not come from any CA that this system trusts" in capsys.readouterr().err
    own = tls_broker.authority.pair("own", "/CN=me", "")
    files = ["--ca", tls_broker.ca_file, "--certificate", str(own.certificate), "--key", str(own.key)]
    assert main(["send", "--create", "/queue/q", "x", *where, *files]) == 0
    assert main(["queues", *where, "--ca", str(tmp_path / "none")]) == 1
    assert "cannot be used: No such file or directory" in capsys.readouterr().err


def test_files_of_tls_for_a_broker_without_it_are_a_mistake(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["queues", "--ca", "ca.pem", "--broker", broker.address]) == 2
    assert f"--ca is for TLS, and the broker is {broker.address}: say --broker stomps://" in capsys.readouterr().err


def test_of_two_listeners_the_one_without_tls_comes_first(tls_broker: TlsBroker, tmp_path: Path) -> None:
    """Only its port answers without a file of the CA."""
    file = tmp_path / "other.toml"
    both = f'["{tls_broker.tls_address}", "{tls_broker.address}"]'
    tls = 'certificate = "c"\nkey = "k"\n'
    file.write_text(f'[server]\nlisten = {both}\ndata_dir = "elsewhere"\n[tls]\n{tls}')
    assert main(["queues", "--config", str(file)]) == 0
    file.write_text(f'[server]\nlisten = ["{tls_broker.tls_address}"]\ndata_dir = "elsewhere"\n[tls]\n{tls}')
    assert main(["queues", "--config", str(file)]) == 1
    assert main(["queues", "--config", str(file), "--ca", tls_broker.ca_file]) == 0


def test_bench_does_not_speak_tls_and_says_so(tls_broker: TlsBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--broker", tls_broker.tls_address, "--ca", tls_broker.ca_file]) == 2
    assert "bench measures without TLS, and the broker is stomps://" in capsys.readouterr().err
