"""Radiator over AMQP beside its STOMP and beside RabbitMQ: what is judged, and that all of it is measured."""

import re
from pathlib import Path

import pytest

from benchmarks import amqp_beside
from benchmarks.amqp_beside import LOADS, Beside, amqp_tables, idle_kib, load_row
from benchmarks.comparison import Figures
from benchmarks.peers import Peer, RabbitMQAmqp, Radiator, RadiatorAmqp
from benchmarks.shapes import CASES
from radiator.tools.cli.load import LoadFailed

IDLE_MAX_KIB = 20.0
HOLDING = """
from radiator.protocols.amqp import session
made = session.AmqpSession.__init__
kept = []
def holding(self, *arguments, **named):
    made(self, *arguments, **named)
    kept.append(bytes(20_000))
session.AmqpSession.__init__ = holding
"""


def figures(cpu_us: float, per_s: float, generator: float = 0.1) -> Figures:
    """Three rounds, of which the first and the last are far off."""
    return Figures([per_s / 2, per_s, per_s * 3], [cpu_us * 2, cpu_us, cpu_us / 3], [0.0, generator, 1.0])


def test_a_row_has_cpu_first_and_is_judged_by_it() -> None:
    load = Beside(CASES[0], of_stomp=0.9, of_rabbitmq=3.0)
    row = load_row(load, figures(9.0, 50_000), figures(10.0, 60_000), figures(29.9, 20_000, 0.42))
    assert row == [
        "persistent 16 producers, window 100",
        "9.0 us · 50,000/s",
        "10.0 us · 60,000/s",
        "29.9 us · 20,000/s",
        "0.90 · 1.20 (wanted 0.9)",
        "2.99 · 3.00 (wanted 3: MISSED)",
        "42%",
    ]
    row = load_row(load, figures(8.94, 50_000), figures(10.0, 60_000), figures(30.0, 20_000))
    assert row[4:6] == ["0.89 · 1.20 (wanted 0.9: MISSED)", "3.00 · 3.00 (wanted 3)"]


def test_ratios_are_medians_of_those_of_the_rounds() -> None:
    ours = Figures([100.0, 10.0, 400.0], [1.0, 10.0, 1.0], [0.1] * 3)
    other = Figures([100.0, 5.0, 100.0], [2.0, 30.0, 1.0], [0.1] * 3)
    row = load_row(Beside(CASES[4], None, None), other, ours, other)
    assert row[4] == row[5] == "2.00 · 2.00"


@pytest.mark.parametrize("peer", [Radiator(), RadiatorAmqp()], ids=lambda peer: peer.name)
def test_an_idle_connection_has_a_bound(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_beside, "SETTLE_S", 0.2)
    assert 0 < idle_kib(peer, tmp_path / "broker", 300) < IDLE_MAX_KIB


def test_what_a_session_holds_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: 20,000 bytes of each."""
    monkeypatch.setattr(amqp_beside, "SETTLE_S", 0.2)
    peer = RadiatorAmqp()
    launch = peer.launch(CASES[0])
    launch.files["sitecustomize.py"] = HOLDING
    launch.environment["PYTHONPATH"] += ":DIR"
    monkeypatch.setattr(peer, "launch", lambda case: launch)
    assert idle_kib(peer, tmp_path / "broker", 300) > IDLE_MAX_KIB


def test_who_is_not_installed_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RabbitMQAmqp, "missing", lambda self: "rabbitmq-server is not installed")
    with pytest.raises(LoadFailed, match="rabbitmq-server is not installed; `scripts/bench --install-peers`"):
        amqp_tables(tmp_path, 1, 0.1, 0)


@pytest.mark.slow
@pytest.mark.skipif(bool(RabbitMQAmqp().missing()), reason=RabbitMQAmqp().missing())
def test_all_loads_and_the_memory_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_beside, "SETTLE_S", 0.2)
    text = amqp_tables(tmp_path, rounds=1, seconds=0.5, idle=20)
    for load in LOADS:
        assert re.search(rf"^\| {re.escape(load.case.name)} (\| [\d.]+ us · [\d,]+/s ){{3}}", text, re.M), text
    assert re.search(r"each of 20 idle connections (\| -?[\d.]+ KiB ){3}", text), text
    assert list(tmp_path.iterdir()) == []
