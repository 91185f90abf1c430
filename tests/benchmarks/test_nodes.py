"""`scripts/bench --nodes`: brokers are linked as told, loads know what came where, and figures follow from that."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from benchmarks import nodecases
from benchmarks.before import Before
from benchmarks.command import _arguments
from benchmarks.linked import COPIES, FANOUT, QUEUE, chain, launches_of, linked, mesh
from benchmarks.nodecases import FANOUTS, HAND_OVER, SERIES, TABLES, graphs, series_of
from benchmarks.nodeloads import NodeLoad, Place, Taken, TakingWire, displacements, shares
from benchmarks.nodes import FORMAT, command_of, medians, nodes_report, table_of
from benchmarks.peers import CHECKOUT
from benchmarks.shapes import TOPIC
from radiator.tools.cli.load import LoadFailed, StompWire

A, B, C = (Place(name, ("127.0.0.1", 1)) for name in "abc")


def taken(*numbers: int, place: Place = A) -> list[Taken]:
    return [Taken(place, number, 0) for number in numbers]


def test_graphs() -> None:
    assert chain(1) == mesh(1) == []
    assert chain(2) == mesh(2) == [("a", "b")]
    assert chain(3) == [("a", "b"), ("b", "c")]
    assert mesh(3) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_each_row_is_measured_once_and_receipts_last() -> None:
    rows = [(one.table, one.at) for _, measures in graphs() for one in measures]
    assert len(rows) == len(set(rows)), "a row of two graphs would be the median of both"
    assert {table for table, _ in rows} == set(TABLES)
    assert {series_of(table) for table in TABLES} == set(SERIES)
    for _, measures in graphs():
        is_last = [one.table == nodecases.RECEIPTS for one in measures]
        assert is_last == sorted(is_last), "copies that nobody has taken would be in the way of others"


def test_the_later_node_dials_the_earlier_and_one_alone_knows_of_no_nodes() -> None:
    launches = launches_of(["a", "b", "c"], chain(3))
    configs = {name: launch.files["config.toml"] for name, launch in launches.items()}
    assert {name: text.count("[peer.") for name, text in configs.items()} == {"a": 1, "b": 2, "c": 1}
    assert {name: text.count("\naddress = ") for name, text in configs.items()} == {"a": 0, "b": 1, "c": 1}
    alone = launches_of(["a"], [])["a"].files["config.toml"]
    assert "[node]" not in alone and '"cluster"' not in alone


def test_displacement_is_that_of_first_deliveries() -> None:
    assert displacements(taken(5, 6, 7)) == [0, 0, 0]
    assert displacements(taken(7, 5, 6)) == [1, 1, 2]
    assert displacements([*taken(5), *taken(7), *taken(5, place=B), *taken(6)]) == [0, 1, 1], "5 came twice"


def test_shares_are_parts_of_the_mean() -> None:
    all_taken = [*taken(0, 1, 2), *taken(3, place=B)]
    assert shares(all_taken, ["a", "b"]) == {"a": 1.5, "b": 0.5}
    assert shares(all_taken, ["a", "b", "c"])["c"] == 0, "who gets nothing is no exception"


def test_loads_over_two_nodes(tmp_path: Path) -> None:
    with linked(tmp_path / "run", chain(2)) as nodes:
        a, b = (Place(name, nodes.address(name), group) for group, name in enumerate("ab"))
        with NodeLoad(a.address, StompWire(QUEUE), 20) as load:
            load.post_all(50)
            load.join([Place("b", b.address)] * 3, TakingWire(QUEUE, 1))
            load.settle()
            assert sorted(one.number for one in load.taken) == list(range(50)), "each once"
        with NodeLoad(a.address, StompWire(FANOUT), 20) as load:
            load.join([a, b], TakingWire(COPIES, 5))
            load.prime()
            first = len(load.taken)
            counted = load.measure(1.0, nodes.cpu_s)
            load.settle()
            assert counted.cpu_s.keys() == {"a", "b"} and min(counted.latencies_ns) > 0
            here, there = ([one.number for one in load.taken[first:] if one.place.node == name] for name in nodes.names)
            assert sorted(here) == sorted(there) and load.out == 0, "each node has got all"
        found = {one.table: one.figures(nodes, 0.2) for edges, rows in graphs() if edges == chain(2) for one in rows
                 if one.at in ("2 nodes", "1 subscriptions") and one.table != FANOUTS}  # fmt: skip
        assert all(figures["per_s"] > 0 for figures in found.values())
    assert not (tmp_path / "run").exists()


def test_a_load_that_reaches_nobody_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.nodeloads.PRIME_MAX_S", 0.1)
    with (
        linked(tmp_path / "run", []) as nodes,
        pytest.raises(LoadFailed, match="no message has reached all 1 groups"),
        NodeLoad(nodes.address("a"), StompWire(QUEUE), 1) as load,
    ):
        load.join([Place("a", nodes.address("a"))], TakingWire(COPIES, 1))
        load.prime()


def test_a_node_that_has_died_is_quoted(tmp_path: Path) -> None:
    with linked(tmp_path / "run", chain(2)) as nodes:
        os.kill(nodes.brokers["b"].pids[0], signal.SIGKILL)
        os.waitid(os.P_PID, nodes.brokers["b"].pids[0], os.WEXITED | os.WNOWAIT)
        with pytest.raises(LoadFailed, match="(?s)b does not answer: .*listening"):
            nodes.others_known("b")


def test_equal_consumers_of_three_nodes_work_alike(tmp_path: Path) -> None:
    with linked(tmp_path / "run", mesh(3)) as nodes:
        found = nodecases.balance(20, messages=600)(nodes, 0)
    assert found["least_share"] > 0.2, "all take part; how alike is for a quiet machine to say"
    assert found["moved_max"] < 600


def test_medians_are_of_each_figure() -> None:
    found = medians([{"per_s": 1.0, "p50_ms": 9.0}, {"per_s": 3.0, "p50_ms": 7.0}, {"per_s": 2.0, "p50_ms": 8.0}])
    assert found == {"per_s": 2.0, "p50_ms": 8.0}


def data(**more: Any) -> dict[str, Any]:
    host = {"cpu": "X", "cpus": 2, "memory_gib": 8.0, "kernel": "6", "system": "D", "file_system": "ext4 (rw)",
            "load_before": 0.1, "flush_ms": {"median": 1.0, "p99": 2.0}}  # fmt: skip
    return {"format": FORMAT, "taken": "2026-01-01", "command": "scripts/bench --nodes", "host": host, "peers": {},
            "missing": {}, "settings": {"rounds": 3, "seconds": 1.0}, "nodes": [], "failed": [], "before": [],
            "load_after": 0.2, **more}  # fmt: skip


def test_the_report_has_a_table_for_each_kind_and_what_failed() -> None:
    rows = [{"table": HAND_OVER, "at": "2 nodes", "figures": {"per_s": 1234.5, "p50_ms": 0.5}},
            {"table": HAND_OVER, "at": "2 nodes, idle", "figures": {"p50_ms": 0.25}},
            {"table": FANOUTS, "at": "1 node", "figures": {"least_share": 0.5}}]  # fmt: skip
    before = {"name": "n", "per_s": 96.0, "per_s_before": 100.0, "ratio": 0.96, "cpu_us": 1.0, "cpu_us_before": 1.0,
              "cpu_ratio": 1.0, "load": 0.1}  # fmt: skip
    text = nodes_report(data(nodes=rows, failed=["queue, 2 nodes: it fell silent"], before=[before]))
    assert "scripts/bench --nodes\n" in text and "3 rounds of 1 s" in text and "Load after: 0.2." in text
    assert text.count(HAND_OVER) == 1 and "1,234" in text and "0.50 MISSED" in text and "0.960 MISSED" in text
    assert "failed: queue, 2 nodes: it fell silent" in text


def test_the_command_can_be_given_again_anywhere(tmp_path: Path) -> None:
    assert command_of(3, 0.8, None, SERIES) == "scripts/bench --nodes --rounds 3 --seconds 0.8"
    assert command_of(1, 2.0, Before(tmp_path), ["order"]).startswith(
        "scripts/bench --nodes order --rounds 1 --seconds 2 "
    )
    assert str(tmp_path) not in command_of(1, 2.0, Before(tmp_path), SERIES)


def test_a_table_has_only_the_columns_that_it_needs() -> None:
    text = table_of("t", [{"table": "t", "at": "x", "figures": {"generator": 0.95}}])
    assert text.splitlines()[1].split() == ["generator"] and "95% bound!" in text


def test_an_earlier_version_is_started_from_its_checkout(tmp_path: Path) -> None:
    assert Before(CHECKOUT).missing() == "" and "no checkout" in Before(tmp_path).missing()
    assert Before(tmp_path).version() == "an earlier version"
    assert Before(tmp_path).launch(TOPIC).environment == {"PYTHONPATH": str(tmp_path)}


def test_arguments() -> None:
    assert _arguments([]).nodes is None
    assert _arguments(["--nodes"]).nodes == SERIES == ["queue", "topic", "fanout", "balance", "order"]
    assert _arguments(["--nodes", "queue,order", "--before", "/x"]).nodes == ["queue", "order"]
    with pytest.raises(SystemExit):
        _arguments(["--nodes", "stack"])
