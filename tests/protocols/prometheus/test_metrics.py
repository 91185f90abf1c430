"""The table of metrics: names that no two have, and the words that Prometheus's users expect of them."""

import re

from radiator.protocols.prometheus.metrics import COUNTER, GAUGE, HISTOGRAM, OF_EACH, SECTIONS, metrics


def test_no_two_metrics_have_one_name() -> None:
    names = [metric.name for metric in metrics()]
    assert len(set(names)) == len(names) > 100


def test_names_say_what_is_counted_in_base_units() -> None:
    for metric in metrics():
        assert re.fullmatch("radiator_[a-z][a-z0-9_]*", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == COUNTER), metric.name
        assert metric.kind in (GAUGE, COUNTER, HISTOGRAM)
        assert not re.search(r"_(ms|s|percent|kib|mib)(_|$)", metric.name), metric.name
        assert metric.help.endswith(".") and "\n" not in metric.help and "\\" not in metric.help


def test_each_section_that_has_metrics_has_one_label() -> None:
    assert sorted(SECTIONS.values()) == sorted(OF_EACH) and len(SECTIONS) == len(OF_EACH)
