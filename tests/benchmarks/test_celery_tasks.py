"""Celery's figures: what stands in the tables, and that each measure is taken of Radiator's transport and of AMQP."""

from pathlib import Path

import pytest

from benchmarks import celery_tasks
from benchmarks.celery_tasks import (
    CONTESTANTS,
    MEASURES,
    SYNCED,
    Contestant,
    Found,
    Timed,
    beside_table,
    cpu_table,
    measured,
    table,
)
from benchmarks.peers import RabbitMQAmqp

BY_NAME = {one.name: one for one in CONTESTANTS}
TWO = [BY_NAME["radiator, amqp"], BY_NAME[SYNCED]]
FOUND: Found = {
    "radiator, amqp": {"publish": [Timed(1000, 100), Timed(2500, 40), Timed(3000, 50)]},
    SYNCED: {"publish": [Timed(2000, 100), Timed(2000, 100), Timed(1000, 25)]},
}


def test_tables_have_medians_and_the_ratios_of_rounds() -> None:
    assert table(TWO, FOUND).splitlines()[2:] == [
        "| radiator, amqp | 2,500 | on the disk, synced |",
        "| rabbitmq, confirmed | 2,000 | on the disk |",
    ]
    assert cpu_table(TWO, FOUND).splitlines() == [
        "| CPU of the broker, us a task | publish |",
        "| --- | --: |",
        "| radiator, amqp | 50 |",
        "| rabbitmq, confirmed | 100 |",
    ]
    assert beside_table(TWO, FOUND).splitlines()[2:] == ["| radiator, amqp | 1.00 · 1.25 | rabbitmq, confirmed |"]


def test_who_is_beside_nobody_has_no_ratios() -> None:
    assert beside_table(TWO[:1], {"radiator, amqp": FOUND["radiator, amqp"]}).count("\n") == 1, "its heads alone"


def test_who_is_compared_means_the_same_by_an_answer() -> None:
    for one in CONTESTANTS:
        if one.beside:
            assert one.is_confirmed == BY_NAME[one.beside].is_confirmed
            assert BY_NAME[one.beside].is_amqp


@pytest.mark.slow
@pytest.mark.parametrize("one", [*CONTESTANTS[:4], BY_NAME[SYNCED]], ids=lambda one: one.name)
def test_each_measure_is_taken(one: Contestant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if one.name == SYNCED and (reason := RabbitMQAmqp().missing()):
        pytest.skip(reason)
    monkeypatch.setattr(celery_tasks, "PLACE", tmp_path)
    found = measured(one, list(MEASURES), 300)  # so many that a worker is seen while it works
    assert list(found) == list(MEASURES)
    assert all(timed.per_s > 0 and timed.cpu_us > 0 for timed in found.values())
    assert list(tmp_path.iterdir()) == []
