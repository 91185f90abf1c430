"""`radiator certificates`: what it makes is what the broker and its clients take."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.model.settings import TlsSettings
from radiator.server.certificate import read_certificate
from radiator.server.tls_pair import load_pair
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.certificates import Authority, openssl
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


@pytest.mark.parametrize("half", ["ca.key", "server.pem", "server.key", "ops.key"])
def test_half_a_pair_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], half: str) -> None:
    (tmp_path / half).write_text("")
    assert main(["certificates", str(tmp_path), "--client", "ops"]) == 1
    assert f"{half} is there without the other half of its pair" in capsys.readouterr().err
    assert (tmp_path / half).read_text() == ""


def days_of(file: Path) -> int:
    return read_certificate(file.read_text()).days_left(time.time()) + 1


def test_the_ca_is_for_ten_years_and_each_pair_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certificates", str(tmp_path), "--client", "ops"]) == 0
    assert [days_of(tmp_path / f"{name}.pem") for name in ("ca", "server", "ops")] == [3650, 365, 365]
    assert "The CA is for ten years, each pair for one" in capsys.readouterr().out


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def changed(directory: Path, before: dict[str, bytes]) -> set[str]:
    return {name for name, content in contents(directory).items() if before.get(name) != content}


def test_a_renewal_makes_the_pairs_anew_for_the_same_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ["certificates", str(tmp_path), "--name", "*.broker.example", "--name", "::1", "--name", "10.0.0.7"]
    assert main([*made, "--client", "ops", "--client", "till"]) == 0
    (tmp_path / "server.key").chmod(0o640)
    before = contents(tmp_path)
    capsys.readouterr()
    assert main(["certificates", str(tmp_path), "--renew", "--client", "ops"]) == 0
    assert changed(tmp_path, before) == {"server.pem", "server.key", "ops.pem", "ops.key"}
    pair = load_pair(TlsSettings(certificate=tmp_path / "server.pem", key=tmp_path / "server.key"))
    assert pair.certificate.names == ("*.broker.example", "::1", "10.0.0.7")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("server.key", "ops.key")]
    assert modes == [0o640, 0o600]
    for name, purpose in (("server", "sslserver"), ("ops", "sslclient")):
        assert openssl("verify", "-CAfile", tmp_path / "ca.pem", "-purpose", purpose, tmp_path / f"{name}.pem")
    printed = capsys.readouterr().out
    assert "radiator reload" in printed and "*.broker.example, valid until" in printed
    assert main(["certificates", str(tmp_path), "--renew", "--name", "new.example"]) == 0
    assert read_certificate((tmp_path / "server.pem").read_text()).names == ("new.example",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_renewed_file_belongs_to_whom_the_old_one_did(tmp_path: Path) -> None:
    assert main(["certificates", str(tmp_path)]) == 0
    for name in ("server.pem", "server.key"):
        os.chown(tmp_path / name, 12_345, 54_321)
    assert main(["certificates", str(tmp_path), "--renew"]) == 0
    for name in ("server.pem", "server.key"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid) == (12_345, 54_321)


@pytest.mark.parametrize(
    ("gone", "words", "sentence"),
    [
        (["ca.key"], ["--renew"], "ca.key is not there, and the CA in ca.pem cannot sign without it: put it back for"),
        (["ca.key", "server.pem", "server.key"], [], "ca.key is not there, and the CA in ca.pem cannot sign without"),
        (["ca.key", "ca.pem"], ["--renew"], "ca.pem and ca.key, which --renew needs, are not there: put the CA back"),
        (["server.key"], ["--renew"], "server.pem is there without the other half of its pair"),
        (["server.key", "server.pem"], ["--renew"], "make the pair without --renew"),
        ([], ["--renew", "--client", "new"], "new.pem and new.key, which --renew needs, are not there"),
    ],
)
def test_what_a_renewal_lacks_is_said_and_nothing_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gone: list[str], words: list[str], sentence: str
) -> None:
    assert main(["certificates", str(tmp_path)]) == 0
    for name in gone:
        (tmp_path / name).unlink()
    before = contents(tmp_path)
    assert main(["certificates", str(tmp_path), *words]) == 1
    assert sentence in capsys.readouterr().err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("names", "sentence"),
    [("", "has no names. Give the names of the new one by --name."), ("DNS:a b", "'a b' is neither the name of a")],
)
def test_a_certificate_of_others_is_renewed_for_names_that_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str, sentence: str
) -> None:
    Authority(tmp_path).pair("server", names=names)
    assert main(["certificates", str(tmp_path), "--renew"]) == 1
    assert sentence in capsys.readouterr().err
    assert main(["certificates", str(tmp_path), "--renew", "--name", "a"]) == 0


def test_no_pair_outlives_its_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Authority(tmp_path, days=3).pair("server")
    assert main(["certificates", str(tmp_path), "--renew"]) == 0
    ends_s = [read_certificate((tmp_path / f"{name}.pem").read_text()).valid_to_s for name in ("ca", "server")]
    assert ends_s[1] <= ends_s[0] and days_of(tmp_path / "server.pem") == 2
    capsys.readouterr()
    (tmp_path / "over").mkdir()
    Authority(tmp_path / "over", days=1).pair("server")
    assert main(["certificates", str(tmp_path / "over"), "--renew"]) == 1
    assert "name another directory for a new CA" in capsys.readouterr().err


def test_each_file_is_whole_whenever_it_is_read(tmp_path: Path) -> None:
    """Its place is taken by another file; what is open stays as it was."""
    assert main(["certificates", str(tmp_path)]) == 0
    before = contents(tmp_path)
    with (tmp_path / "server.pem").open("rb") as certificate, (tmp_path / "server.key").open("rb") as key:
        assert main(["certificates", str(tmp_path), "--renew"]) == 0
        assert (certificate.read(), key.read()) == (before["server.pem"], before["server.key"])
    assert set(contents(tmp_path)) == set(before)  # nothing is left beside


KILLED = """
import os, signal, sys
from radiator.tools import cli
from radiator.tools.cli import certificates

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

certificates.os.replace = killed
cli.main(["certificates", sys.argv[1], "--renew"])
"""


def test_what_a_killed_run_has_left_is_gone_with_the_next(tmp_path: Path) -> None:
    """It holds a key."""
    assert main(["certificates", str(tmp_path)]) == 0
    before = contents(tmp_path)
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, timeout=60).returncode == -9
    (left,) = tmp_path.glob(".new-*")
    assert (left / "server.key").exists()
    assert main(["certificates", str(tmp_path)]) == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize("what", ["other file", "directory within", "file", "link", "other name"])
def test_what_no_run_has_left_stays(tmp_path: Path, what: str) -> None:
    beside, elsewhere = tmp_path / ".new-abcdefgh", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "server.key").touch()
    if what == "other file":
        beside.mkdir()
        (beside / "notes.txt").touch()
    elif what == "directory within":
        (beside / "old.key").mkdir(parents=True)
    elif what == "file":
        beside.touch()
    elif what == "link":
        beside.symlink_to(elsewhere)
    else:
        beside = tmp_path / ".new-pairs"
        beside.mkdir()
        (beside / "server.key").touch()
    found = sorted(tmp_path.rglob("*"))
    assert main(["certificates", str(tmp_path)]) == 0
    assert set(found) <= set(tmp_path.rglob("*"))


def test_two_runs_in_one_directory_wait_for_each_other(tmp_path: Path) -> None:
    """Else the one would remove what the other is making, and each would make a CA."""
    program = [sys.executable, "-m", "radiator", "certificates", tmp_path]
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen(program, stdout=subprocess.PIPE) as run:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                run.wait(1)
            assert not list(tmp_path.iterdir())
        finally:
            os.close(lock)
        assert run.communicate(timeout=60) and run.returncode == 0
    assert openssl("verify", "-CAfile", tmp_path / "ca.pem", tmp_path / "server.pem")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--name", "a b"],
        ["--name", "a,DNS:b"],
        ["--name", ""],
        ["--name", "fe80::1%eth0"],
        ["--client", "../x"],
        ["--client", "ca"],
        [],
    ],
)
def test_names_are_names(tmp_path: Path, wrong: list[str]) -> None:
    assert main(["certificates", *([str(tmp_path / "d")] if wrong else []), *wrong]) == 2
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("size", [64, 65, 250])
def test_a_name_may_be_longer_than_a_common_name(tmp_path: Path, size: int, capsys: pytest.CaptureFixture[str]) -> None:
    name = ".".join(["a" * 20] * 13)[:size]
    assert main(["certificates", str(tmp_path), "--name", name]) == 0
    capsys.readouterr()
    assert main(["certificates", str(tmp_path), "--renew"]) == 0  # which reads the name from the certificate
    assert f"{name if size <= 64 else 'server'}, valid until" in capsys.readouterr().out


def test_without_openssl_it_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["certificates", str(tmp_path)]) == 1
    assert "apt install openssl" in capsys.readouterr().err
