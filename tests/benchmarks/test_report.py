"""Figures as data and as tables: nothing is lost, rounded away or attributed to another peer on the way."""

import json
import sys
from dataclasses import replace

import pytest

from benchmarks.comparison import Result, Row
from benchmarks.peers import CHECKOUT, Beanstalkd, Peer, Radiator
from benchmarks.processes import Launch
from benchmarks.report import (
    Data,
    comparison_table,
    data_of,
    growth_data,
    growth_table,
    launch_data,
    markdown,
    preface,
    remarks,
    spread,
)
from benchmarks.shapes import BODIES, CASES, rows
from radiator.tools.cli.load import Measured

HOST = {"cpu": "Cpu", "cpus": 2, "memory_gib": 4, "kernel": "6", "system": "Debian", "file_system": "ext4 (rw; rw)",
        "load_before": 0.1, "flush_ms": {"median": 0.4, "p99": 1.0}}  # fmt: skip
SETTINGS = {"rounds": 3, "seconds": 2.0}


class Ours(Radiator):
    def version(self) -> str:
        return "1"


class Theirs(Beanstalkd):
    def version(self) -> str:
        return "2"


def measured(per_s: float, share: float = 0.1) -> Measured:
    return Measured(per_s=per_s, p50_ms=1, p99_ms=2, p999_ms=3, generator_share=share, broker_cpu_s=0.5, messages=1000)


def result(*per_s: float, share: float = 0.1) -> Result:
    launch = Launch(commands=[[sys.executable, "-m", "x"]], port=1, environment={"PYTHONPATH": str(CHECKOUT)})
    return Result(measured=[measured(one, share) for one in per_s], launch=launch)


def data(row: Row, peers: tuple[Peer, ...] = (Ours(), Theirs())) -> Data:
    found = data_of([row], list(peers), {"nats": "nats-server is not installed"}, HOST, SETTINGS)
    assert json.loads(json.dumps(found)) == found, "it is the same when it comes back from a file"
    return found


def test_spread_is_median_and_bounds() -> None:
    assert spread([3, 1, 2]) == {"median": 2, "min": 1, "max": 3}
    assert spread([123456.7]) == {"median": 123500, "min": 123500, "max": 123500}


def test_ratio_is_ours_to_theirs_and_judged_by_its_target() -> None:
    case = CASES[0]
    row = Row(case, {"radiator": result(1100, 1200, 1300), "beanstalkd": result(100, 90, 110)})
    found = data(row)
    assert found["rows"][0]["ratios"] == {"beanstalkd": 12.0}
    lines = comparison_table(found).splitlines()
    assert lines[1].startswith("persistent 16 producers, window 100  1.0 KiB  radiator")
    assert "12.00x" in lines[2] and "12x" in lines[2] and "MISSED" not in lines[2]
    assert "1,200" in lines[1] and "1,100 - 1,300" in lines[1] and "500.0" in lines[1], "CPU us: 0.5 s of 1000"
    slower = Row(case, {"radiator": result(1199), "beanstalkd": result(100)})
    assert "11.99x    12x MISSED" in comparison_table(data(slower))


def test_markdown_has_rates_and_ratios() -> None:
    row = Row(CASES[0], {"radiator": result(1200), "beanstalkd": result(100, share=0.95)})
    assert markdown(data(row)).splitlines() == [
        "| 1.0 KiB | radiator | beanstalkd |",
        "|---|--:|--:|",
        "| persistent 16 producers, window 100 | 1,200 | 100* (12x) |",
    ]


def test_targets_hold_for_bodies_of_one_kib() -> None:
    row = Row(replace(CASES[0], body_bytes=100), {"radiator": result(1), "beanstalkd": result(100)})
    assert data(row)["rows"][0]["targets"] == {}


def test_a_peer_that_failed_is_shown_as_such_and_why() -> None:
    row = Row(CASES[0], {"radiator": result(1000), "beanstalkd": Result(failed="it hung up")}, {"redis": "it has none"})
    found = data(row)
    assert "failed" in comparison_table(found).splitlines()[2]
    assert "beanstalkd: it hung up" in remarks(found) and "redis: it has none" in remarks(found)


@pytest.mark.parametrize(("share", "is_bound"), [(0.9, False), (0.91, True)])
def test_what_the_generator_bounds_is_marked(share: float, is_bound: bool) -> None:
    found = data(Row(CASES[0], {"radiator": result(1000, share=share)}))
    assert ("bound!" in comparison_table(found)) is is_bound
    assert ("bound!: " in remarks(found)) is is_bound


def test_preface_names_versions_configuration_host_and_what_is_missing() -> None:
    text = preface(data(Row(CASES[0], {"radiator": result(1), "beanstalkd": result(1)})))
    for part in ("Cpu, 2 CPUs", "ext4 (rw; rw)", "0.4 ms", "radiator 1", "beanstalkd 2", "python -m x",
                 "PYTHONPATH=CHECKOUT", "Not compared: nats: nats-server is not installed."):  # fmt: skip
        assert part in text


def test_no_path_of_the_machine_is_in_the_data() -> None:
    launch = Launch(commands=[[sys.executable, f"{CHECKOUT}/x", "DIR"]], port=1, files={"a": f"{CHECKOUT}/y"})
    assert launch_data(launch) == {
        "commands": [["python", "CHECKOUT/x", "DIR"]],
        "environment": {},
        "files": {"a": "CHECKOUT/y"},
    }


def test_growth_is_shown_point_by_point() -> None:
    point = {"at": 10_000, "per_s": 1234.0, "cpu_us": 5.0, "p50_ms": 1.0, "p99_ms": 2.0, "generator_share": 0.95,
             "disk_mib": 7.0}  # fmt: skip
    series = {"name": "queues", "unit": "messages", "counted": "c", "peer": "radiator", "points": [point],
              "ended": "it is full"}  # fmt: skip
    found = growth_data([series], [Ours()], {}, HOST, SETTINGS)
    line = growth_table(found).splitlines()[1]
    assert line.split() == ["queues", "10,000", "radiator", "1,234", "5.0", "1.00", "2.00", "95%", "bound!", "7"]
    aged = growth_data([{**series, "name": "backlog"}], [Ours()], {}, HOST, SETTINGS)
    assert "1.00" not in growth_table(aged), "with a backlog it is no latency"
    assert "[limits]" in preface(found), "the configuration"
    assert "queues, radiator ended: it is full" in remarks(found)


def test_rows_are_each_shape_with_each_body() -> None:
    found = rows([1, 9], list(BODIES))
    assert [(case.name, case.body_bytes) for case in found] == [
        (CASES[number].name, body) for number in (0, 8) for body in (100, 1024, 65536)
    ]
