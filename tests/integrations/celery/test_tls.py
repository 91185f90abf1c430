"""Celery by TLS, with users: the example of docs/CELERY.md as it stands, and what is said where it cannot go on."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.auth.tokens import text_of
from tests.broker_process import environment
from tests.certificates import Authority
from tests.integrations.celery.secured import TOKENS, block, users
from tests.integrations.celery.test_control import eventually
from tests.tls_broker import ENCRYPTED, TlsBroker

ENDS_WITHIN_S = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    config = ENCRYPTED + "[create]\nqueues = false\ntopics = false\n" + users()
    with TlsBroker(tmp_path_factory.mktemp("broker"), config) as running:
        yield running
        assert "Traceback" not in running.log, running.log
        assert not any(token in running.log for token in TOKENS.values())


@pytest.fixture
def shop(broker: TlsBroker, tmp_path: Path) -> Path:
    """The directory of the program, as the page has it."""
    text = block("python").text
    assert text.startswith("# shop.py\n") and "broker.example:61612" in text
    (tmp_path / "shop.py").write_text(text.replace("broker.example:61612", f"localhost:{broker.tls_port}"))
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").write_text(broker.authority.certificate.read_text())
    for name, token in TOKENS.items():
        (tmp_path / f"{name}.token").write_text(f"{token}\n")
    return tmp_path


class Typed:
    """A line of the page's, in that directory. printed: all of it, once it has ended."""

    def __init__(self, directory: Path, line: str) -> None:
        here = environment()
        here["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{here['PATH']}"
        here["PYTHONPATH"] = f"{directory}{os.pathsep}{here['PYTHONPATH']}"
        self._log = directory / "printed"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", f"exec env {line}"], cwd=directory, env=here, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def ended(self) -> int:
        try:
            return self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"it does not end:\n{self.printed}") from None

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()


def test_the_page_holds(shop: Path, broker: TlsBroker) -> None:
    work, publish, ping = block("sh").text.splitlines()
    worker = Typed(shop, work)
    try:
        eventually(lambda: " ready." in worker.printed, 30)
        assert f"Connected to radiators://worker:**@localhost:{broker.tls_port}//" in worker.printed
        for line, wanted in ((publish, "5\n"), (ping, "1 node online.")):
            one = Typed(shop, line)
            assert one.ended() == 0 and wanted in one.printed, one.printed
        stats = Typed(shop, ping.replace("ping", "stats"))
        assert stats.ended() == 0 and "radiators" in stats.printed
        report = Typed(shop, "celery -A shop report")
        assert report.ended() == 0 and f"radiators://web:********@localhost:{broker.tls_port}" in report.printed
    finally:
        assert worker.stop() == 0, worker.printed
    assert "Traceback" not in worker.printed
    assert not any(token in worker.printed for token in TOKENS.values())


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_pools_that_replace_sockets_do_too(shop: Path, pool: str) -> None:
    work, publish, _ = block("sh").text.splitlines()
    worker = Typed(shop, f"{work} -P {pool} -E")
    try:
        eventually(lambda: " ready." in worker.printed, 30)
        one = Typed(shop, publish)
        assert one.ended() == 0 and "5\n" in one.printed, one.printed
    finally:
        assert worker.stop() == 0, worker.printed
    assert "Traceback" not in worker.printed


def test_a_program_that_is_refused_says_so_at_once(shop: Path) -> None:
    (shop / "web.token").write_text(text_of(bytes([9]) * 32))
    one = Typed(shop, block("sh").text.splitlines()[1])
    assert one.ended() == 1
    assert "Forbidden" in one.printed
    assert "has refused the connection of the user 'web': CONNECT needs the login and the passcode" in one.printed


def test_a_worker_that_is_refused_ends(shop: Path) -> None:
    (shop / "worker.token").write_text(text_of(bytes([9]) * 32))
    one = Typed(shop, block("sh").text.splitlines()[0])
    assert one.ended() == 1
    assert "has refused the connection of the user 'worker': CONNECT needs the login" in one.printed
    assert one.printed.count("CONNECT needs the login") < 5


def test_a_worker_without_a_right_ends_and_names_it(shop: Path) -> None:
    one = Typed(shop, block("sh").text.splitlines()[0] + " -Q mail")
    assert one.ended() == 1
    assert (
        "The user worker may not declare /exchange/mail: there is no rule of `declare` that contains it." in one.printed
    )


def test_a_worker_whose_events_are_refused_ends_too(shop: Path) -> None:
    """They are sent without a receipt, so no call awaits the refusal."""
    one = Typed(shop, block("sh").text.splitlines()[0].replace("=worker celery", "=mute celery") + " -E")
    assert one.ended() == 1
    assert "The user mute may not write /exchange/celeryev/worker." in one.printed
    assert one.printed.count("Connected to ") == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "other.pem",
            "its certificate does not come from the CA of 'tls/other.pem': name the file of its CA (ca_certs",
        ),
        ("none.pem", "ca_file 'tls/none.pem' cannot be used: No such file or directory."),
    ],
)
def test_a_ca_that_is_not_the_brokers(shop: Path, change: str, sentence: str) -> None:
    (shop / "tls" / "other.pem").write_text(Authority(shop / "other").certificate.read_text())
    (shop / "shop.py").write_text((shop / "shop.py").read_text().replace("ca.pem", change))
    one = Typed(shop, block("sh").text.splitlines()[1])
    assert one.ended() == 1
    assert sentence in one.printed
    assert TOKENS["web"] not in one.printed


def test_ports_that_were_taken_for_each_other(shop: Path, broker: TlsBroker) -> None:
    text = (shop / "shop.py").read_text()
    (shop / "shop.py").write_text(text.replace(str(broker.tls_port), str(broker.port)))
    one = Typed(shop, block("sh").text.splitlines()[1])
    assert one.ended() == 1
    assert "it does not answer in TLS: is that port one of stomps://?" in one.printed
    plain = re.sub(r"app.conf.broker_use_ssl.*\n", "", text.replace("radiators://{", "radiator://{"))
    (shop / "shop.py").write_text(plain)
    one = Typed(shop, block("sh").text.splitlines()[1])
    assert one.ended() == 1
    assert "is lost: the broker closed it. Is that port one of stomps://?" in one.printed
