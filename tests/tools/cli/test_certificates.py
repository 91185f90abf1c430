"""`radiator certificates`: what it makes is what the broker and its clients take."""

import stat
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.certificates import openssl
from tests.tls_broker import ENCRYPTED

TLS = '[tls]\ncertificate = "tls/server.pem"\nkey = "tls/server.key"\n'
MUTUAL = 'client_ca = "tls/ca.pem"\nclient_certificates = "required"\n[create]\nqueues = true\n'


@pytest.fixture(autouse=True)
def needs_openssl() -> None:
    openssl("version")


def test_a_broker_and_its_client_take_what_it_makes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tls = tmp_path / "tls"
    assert main(["certificates", str(tls), "--client", "ops"]) == 0
    assert f'key = "{tls}/server.key"' in capsys.readouterr().out
    assert {file.name for file in tls.iterdir()} == {
        f"{name}.{end}" for name in ("ca", "server", "ops") for end in ("pem", "key")
    }
    assert {stat.S_IMODE(file.stat().st_mode) for file in tls.glob("*.key")} == {0o600}
    assert stat.S_IMODE(tls.stat().st_mode) == 0o700
    with BrokerProcess(tmp_path, ENCRYPTED.partition("[tls]")[0] + TLS + MUTUAL) as broker:
        port = int(broker.wait_for_log("listening address=stomps://").rpartition(":")[2])
        files = {"ca_file": f"{tls}/ca.pem", "certificate": f"{tls}/ops.pem", "key": f"{tls}/ops.key"}
        for host in ("localhost", "127.0.0.1"):
            with Client(f"stomps://{host}:{port}", **files) as client:  # type: ignore[arg-type]
                client.send("/queue/q", "x")


def test_what_is_there_stays_and_a_client_can_be_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificates", str(tmp_path), "--name", "broker.example", "--name", "2001:DB8::1"]) == 0
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert main(["certificates", str(tmp_path), "--client", "a@b"]) == 0
    assert "server.pem and server.key are there, and stay" in capsys.readouterr().out
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name in before} == before
    printed = openssl("x509", "-in", tmp_path / "server.pem", "-noout", "-ext", "subjectAltName")
    assert "DNS:broker.example, IP Address:2001:DB8:0:0:0:0:0:1" in printed
    assert openssl("x509", "-in", tmp_path / "a@b.pem", "-noout", "-subject").strip() == "subject=CN = a@b"
    assert openssl("verify", "-CAfile", tmp_path / "ca.pem", "-purpose", "sslclient", tmp_path / "a@b.pem")


def test_half_a_pair_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ca.pem").write_text("")
    assert main(["certificates", str(tmp_path)]) == 1
    assert "ca.pem is there without the other half of its pair" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["ca.pem"]


@pytest.mark.parametrize(
    "wrong", [["--name", "a b"], ["--name", "a,DNS:b"], ["--name", ""], ["--client", "../x"], ["--client", "ca"], []]
)
def test_names_are_names(tmp_path: Path, wrong: list[str]) -> None:
    assert main(["certificates", *([str(tmp_path / "d")] if wrong else []), *wrong]) == 2
    assert not (tmp_path / "d").exists()


def test_without_openssl_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["certificates", str(tmp_path)]) == 1
    assert "apt install openssl" in capsys.readouterr().err
