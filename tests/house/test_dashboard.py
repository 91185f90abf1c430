"""The dashboard has what Grafana needs to import it, and every metric in it is one that there is."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

from radiator.protocols.prometheus.metrics import HISTOGRAM, metrics
from tests.broker_process import CHECKOUT
from tests.house.test_alerts import promtool

DASHBOARD: dict[str, Any] = json.loads((CHECKOUT / "radiator/deploy/dashboard.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
BUILT_IN = {"__rate_interval": "5m"}


def expressions() -> list[str]:
    return [target["expr"] for panel in DRAWN for target in panel["targets"]]


def unknown(text: str) -> set[str]:
    known = {metric.name for metric in metrics()}
    known |= {f"{metric.name}_bucket" for metric in metrics() if metric.kind == HISTOGRAM}
    return set(re.findall(r"\bradiator_\w+", text)) - known


def test_it_has_what_an_import_needs() -> None:
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"] == "Radiator" and DASHBOARD["uid"] == "radiator"
    assert "id" not in DASHBOARD, "an id is one of another Grafana's"
    assert {*DASHBOARD["time"]} == {"from", "to"} and DASHBOARD["annotations"] == {"list": []}
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids) > 30 and all(isinstance(one, int) and one > 0 for one in ids)
    assert {panel["type"] for panel in PANELS} == {"row", "stat", "timeseries"}, "all of them are Grafana's own"


def test_each_panel_asks_the_data_source_that_is_chosen() -> None:
    assert VARIABLES["datasource"]["type"] == "datasource" and VARIABLES["datasource"]["query"] == "prometheus"
    assert [*VARIABLES][0] == "datasource", "the others ask it"
    for panel in DRAWN:
        assert panel["datasource"] == DATASOURCE and panel["title"] and panel["targets"]
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"])
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
    for name in ("instance", "queue"):
        assert VARIABLES[name]["datasource"] == DATASOURCE and VARIABLES[name]["allValue"] == ".*"


def test_panels_are_within_the_grid_and_none_covers_another() -> None:
    places = [panel["gridPos"] for panel in PANELS]
    for place in places:
        assert place["w"] > 0 and place["h"] > 0 and place["x"] >= 0 and place["x"] + place["w"] <= 24
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_each_metric_is_one_that_there_is() -> None:
    asked = [*expressions(), *(one["query"]["query"] for name, one in VARIABLES.items() if name != "datasource")]
    for text in asked:
        assert "radiator_" in text and unknown(text) == set(), text
    assert unknown("rate(radiator_queue_acks_total[5m])") == {"radiator_queue_acks_total"}


def test_each_variable_is_one_that_there_is() -> None:
    legends = [target["legendFormat"] for panel in DRAWN for target in panel["targets"]]
    for text in [*expressions(), *legends]:
        assert set(re.findall(r"\$\{?(\w+)", text)) <= {*VARIABLES, *BUILT_IN}, text


def test_prometheus_reads_each_expression(tmp_path: Path) -> None:
    rules = []
    for number, text in enumerate(expressions()):
        for name in VARIABLES:
            text = text.replace(f"${name}", ".*")
        for name, value in BUILT_IN.items():
            text = text.replace(f"${name}", value)
        rules.append({"record": f"expression_{number}", "expr": text})
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", tmp_path / "rules.yml")
    assert done.returncode == 0, done.stderr
