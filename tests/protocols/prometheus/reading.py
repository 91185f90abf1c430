"""Prometheus's text exposition format, read as strictly as it is written: every line, in its place, of a metric that
says what it is; and the usual rules for names.
"""

import re

# https://prometheus.io/docs/instrumenting/exposition_formats/
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HELP = re.compile(rf"# HELP ({_NAME}) (.+)")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (gauge|counter|histogram)")
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:\\[\\"n]|[^"\\\n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)")
_ENDINGS = {"gauge": ("",), "counter": ("",), "histogram": ("_bucket", "_sum", "_count")}

Families = dict[str, tuple[str, str, dict[tuple[str, str], float]]]  # kind, help, and values by name and labels


def read(text: str) -> Families:
    """Every metric of a text. Fails for whatever the format, or the usual names of metrics, do not allow."""
    assert text.endswith("\n") and not text.endswith("\n\n")
    families: Families = {}
    lines = text.removesuffix("\n").split("\n")
    at = 0
    while at < len(lines):
        helped, typed = _HELP.fullmatch(lines[at]), _TYPE.fullmatch(lines[at + 1])
        assert helped and typed and helped[1] == typed[1], lines[at : at + 2]
        name, kind = typed[1], typed[2]
        assert name not in families, f"{name} stands there twice"
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(ms|s|percent|kib|mib)(_|$)", name), f"{name} is not in seconds, bytes or ratios"
        values: dict[tuple[str, str], float] = {}
        at += 2
        while at < len(lines) and not lines[at].startswith("#"):
            sample = _SAMPLE.fullmatch(lines[at])
            assert sample, lines[at]
            assert sample[1] in [name + ending for ending in _ENDINGS[kind]], f"{sample[1]} stands among {name}"
            place = (sample[1].removeprefix(name), sample[2] or "")
            assert place not in values, f"{lines[at]} stands there twice"
            values[place] = float(sample[3])
            at += 1
        assert values, f"{name} has no sample"
        if kind == "histogram":
            assert_histogram(name, values)
        families[name] = (kind, helped[2], values)
    return families


def assert_histogram(name: str, values: dict[tuple[str, str], float]) -> None:
    buckets = {labels: value for (ending, labels), value in values.items() if ending == "_bucket"}
    ends = [float(re.fullmatch('le="(.+)"', labels)[1].replace("+Inf", "inf")) for labels in buckets]  # type: ignore[index]
    assert ends == sorted(set(ends)) and ends[-1] == float("inf"), name
    counts = [*buckets.values()]
    assert counts == sorted(counts) and counts[-1] == values["_count", ""], name
    assert ("_sum", "") in values, name
