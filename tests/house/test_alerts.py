"""The alert rules as Prometheus reads them: each fires when it should, and at its bound it does not."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from radiator.protocols.prometheus.metrics import HISTOGRAM, metrics
from tests.broker_process import CHECKOUT

RULES = CHECKOUT / "radiator/deploy/alerts.yml"
PAGE = (CHECKOUT / "docs/OPERATING.md").read_text()
NO_PROMTOOL = "promtool is not installed; on Debian or Ubuntu: apt install prometheus"
OF_PROMETHEUS = {"up", "node_textfile_mtime_seconds"}

Series = Mapping[str, str]
GIB = 1 << 30
Q, P, E = '{queue="q"}', '{peer="b"}', '{exchange="x"}'
OF_Q, OF_P = {"queue": "q"}, {"peer": "b"}
_COMMITS = "radiator_commit_latency_seconds_bucket"

# of each alert: labels of the one that fires, series of three hours that it fires for, and such that it does not
CASES: dict[str, tuple[dict[str, str], Series, Series]] = {
    "RadiatorSilent": (
        {"job": "radiator", "instance": "a"},
        {'up{job="radiator",instance="a"}': "0x180", 'radiator_info{instance="b"}': "1x180"},
        {'up{job="radiator",instance="a"}': "1x180", 'radiator_info{instance="a"}': "1x180"},
    ),
    "RadiatorLedger": (OF_Q, {f"radiator_queue_adds_up{Q}": "0x180"}, {f"radiator_queue_adds_up{Q}": "1x180"}),
    "RadiatorDamaged": (OF_Q, {f"radiator_queue_damaged{Q}": "1x180"}, {f"radiator_queue_damaged{Q}": "0x180"}),
    "RadiatorClock": ({}, {"radiator_clock_ahead_seconds": "-1x180"}, {"radiator_clock_ahead_seconds": "0x180"}),
    "RadiatorCertificate": (
        {},
        {"radiator_certificate_left_seconds": "1209599x180"},
        {"radiator_certificate_left_seconds": "1209600x180"},
    ),
    "RadiatorStoreFull": (
        {},
        {"radiator_store_used_bytes": "91x180", "radiator_store_high_water_bytes": "100x180"},
        {"radiator_store_used_bytes": "90x180", "radiator_store_high_water_bytes": "100x180"},
    ),
    "RadiatorDiskFull": (
        {},
        {"radiator_disk_room_bytes": "399x180", "radiator_disk_room_min_bytes": "100x180"},
        {"radiator_disk_room_bytes": "400x180", "radiator_disk_room_min_bytes": "100x180"},
    ),
    "RadiatorMemory": (
        {},
        {"radiator_memory_counted_bytes": "71x180", "radiator_memory_max_bytes": "100x180"},
        {"radiator_memory_counted_bytes": "70x180", "radiator_memory_max_bytes": "100x180"},
    ),
    "RadiatorConnections": (
        {},
        {"radiator_connections": "91x180", "radiator_connections_max": "100x180"},
        {"radiator_connections": "90x180", "radiator_connections_max": "100x180"},
    ),
    "RadiatorCommitsSlow": (
        {},
        {_COMMITS + '{le="0.5"}': "0x180", _COMMITS + '{le="1"}': "0+9x180", _COMMITS + '{le="+Inf"}': "0+9x180"},
        {_COMMITS + '{le="0.5"}': "0+9x180", _COMMITS + '{le="1"}': "0+9x180", _COMMITS + '{le="+Inf"}': "0+9x180"},
    ),
    "RadiatorProducersWait": ({}, {"radiator_parked": "1x180"}, {"radiator_parked": "1x178 0 0"}),
    "RadiatorQueueGrows": (
        OF_Q,
        {f"radiator_queue_ready{Q}": "1001+1x180"},
        {f"radiator_queue_ready{Q}": "2000x180"},
    ),
    "RadiatorQueueOld": (
        OF_Q,
        {f"radiator_queue_oldest_ready_seconds{Q}": "3601x180"},
        {f"radiator_queue_oldest_ready_seconds{Q}": "3600x180"},
    ),
    "RadiatorDeadLetters": (
        OF_Q,
        {f"radiator_queue_dead_lettered_total{Q}": "0x170 1x10"},
        {f"radiator_queue_dead_lettered_total{Q}": "7x180"},
    ),
    "RadiatorUnrouted": (
        {"exchange": "x"},
        {f"radiator_exchange_unrouted_total{E}": "0x170 1x10"},
        {f"radiator_exchange_unrouted_total{E}": "7x180"},
    ),
    "RadiatorLogUnread": (
        {"log": "l", "group": "g"},
        {'radiator_log_unread{log="l",group="g"}': "1001+1x180"},
        {'radiator_log_unread{log="l",group="g"}': "2000x180"},
    ),
    "RadiatorPrepared": ({}, {"radiator_prepared": "1x180"}, {"radiator_prepared": "1x150 0 1x29"}),
    "RadiatorPeerDown": (OF_P, {f"radiator_peer_up{P}": "0x180"}, {f"radiator_peer_up{P}": "1x176 0x4"}),
    "RadiatorPeerOutbox": (
        OF_P,
        {f"radiator_peer_outbox_bytes{P}": "81x180", f"radiator_peer_outbox_max_bytes{P}": "100x180"},
        {f"radiator_peer_outbox_bytes{P}": "80x180", f"radiator_peer_outbox_max_bytes{P}": "100x180"},
    ),
}  # fmt: skip


def rules() -> dict[str, str]:
    """The text of each rule by the name of its alert."""
    return {text.split()[0]: text for text in RULES.read_text().split("      - alert: ")[1:]}


def severity(alert: str) -> str:
    found = re.search(r"severity: (\w+)", rules()[alert])
    assert found is not None
    return found[1]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(NO_PROMTOOL)
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def status_of(directory: Path, text: str, alert: str, series: Series, expected: list[dict[str, str]]) -> int:
    """promtool's exit status. text: of the rules."""
    # summaries are texts for people: promtool would compare them word by word
    (directory / "rules.yml").write_text(re.sub(r"\n        annotations: .*", "", text))
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {"eval_time": "3h", "alertname": alert, "exp_alerts": [{"exp_labels": one} for one in expected]}
                ],
            }
        ],
    }
    (directory / "test.yml").write_text(json.dumps(test))  # JSON is YAML
    return promtool("test", "rules", directory / "test.yml").returncode


def test_prometheus_reads_them() -> None:
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0 and f"SUCCESS: {len(CASES)} rules found" in done.stdout, done


@pytest.mark.parametrize("alert", CASES)
def test_each_fires_past_its_bound_and_not_at_it(alert: str, tmp_path: Path) -> None:
    labels, fires, does_not = CASES[alert]
    text, expected = RULES.read_text(), [{**labels, "severity": severity(alert)}]
    assert status_of(tmp_path, text, alert, fires, expected) == 0
    assert status_of(tmp_path, text, alert, does_not, []) == 0


def test_a_rule_that_is_wrong_is_found(tmp_path: Path) -> None:
    labels, fires, _ = CASES["RadiatorQueueOld"]
    text = RULES.read_text().replace(
        "radiator_queue_oldest_ready_seconds > 3600", "radiator_queue_oldest_seconds > 3600"
    )
    assert status_of(tmp_path, text, "RadiatorQueueOld", fires, [{**labels, "severity": "warning"}]) != 0


def test_each_has_a_case_and_a_row_of_what_to_do() -> None:
    assert [*rules()] == [*CASES]
    table = PAGE.split("\n### Alerts\n")[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    assert [row[0] for row in rows] == [f"{name}` ({severity(name)})" for name in CASES]
    assert all(means and to_do for _, means, to_do in rows)


def test_each_metric_of_theirs_is_one_that_there_is() -> None:
    known = {metric.name for metric in metrics()} | OF_PROMETHEUS
    known |= {f"{metric.name}_bucket" for metric in metrics() if metric.kind == HISTOGRAM}
    for alert, text in rules().items():
        (expression,) = re.findall(r"expr: (.*)", text)
        named = set(re.findall(r"\b(?:radiator_\w+|up|node_\w+)\b(?=[ {\[)]|$)", expression))
        assert named and named <= known, (alert, named - known)
