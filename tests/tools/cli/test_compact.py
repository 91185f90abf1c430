"""`radiator compact --stop-service`: a broker that serves is stopped, compacted and started again."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

SYSTEMCTL = """#!/bin/sh
echo "$*" >>"{directory}/asked"
case $1 in
is-active) [ "$3" = radiator ] ;;
stop) kill {pid} && until flock -n "{directory}/data/radiator.lock" true; do sleep 0.02; done ;;
esac
"""


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    """With a systemctl that stops it."""
    with BrokerProcess(tmp_path) as one:
        with Client(one.address) as client:
            for _ in range(20):
                client.send("/queue/q", b"x" * 100_000, confirm=False)
            client.send("/queue/q", "late")
            while (one.data_dir / "data.mdb").stat().st_size < 2_000_000:  # what is purged at once is never in there
                time.sleep(0.05)
            assert main(["purge", "q", "--broker", one.address]) == 0
            client.send("/queue/q", "kept")
        (tmp_path / "bin").mkdir()
        assert one.process is not None
        (tmp_path / "bin/systemctl").write_text(SYSTEMCTL.format(directory=tmp_path, pid=one.process.pid))
        (tmp_path / "bin/systemctl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield one


def asked(directory: Path) -> list[str]:
    return (directory / "asked").read_text().splitlines()


def test_the_service_is_stopped_and_started_again(
    tmp_path: Path, broker: BrokerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    before = (broker.data_dir / "data.mdb").stat().st_size
    assert main(["compact", "--stop-service", "radiator", str(broker.data_dir)]) == 0
    assert "rows are the same" in capfd.readouterr().out
    assert asked(tmp_path) == ["is-active --quiet radiator", "stop radiator", "start radiator"]
    assert (broker.data_dir / "data.mdb").stat().st_size < 100_000 < 2_000_000 < before
    broker.wait(5)
    broker.start()
    with Client(broker.address) as client:
        client.subscribe("/queue/q")
        assert client.receive(5).body == b"kept"


def test_a_unit_that_does_not_run_is_refused_and_nothing_is_stopped(
    tmp_path: Path, broker: BrokerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compact", "--stop-service", "other", str(broker.data_dir)]) == 1
    assert "other does not run: say it without --stop-service." in capfd.readouterr().err
    assert asked(tmp_path) == ["is-active --quiet other"] and broker.is_running


def test_it_is_started_again_though_compacting_was_refused(tmp_path: Path, broker: BrokerProcess) -> None:
    """It was not the broker of this directory that was stopped."""
    systemctl = tmp_path / "bin/systemctl"
    systemctl.write_text(systemctl.read_text().replace("stop) kill", "none) kill"))
    assert main(["compact", "--stop-service", "radiator", str(broker.data_dir)]) == 1
    assert asked(tmp_path)[1:] == ["stop radiator", "start radiator"] and broker.is_running
