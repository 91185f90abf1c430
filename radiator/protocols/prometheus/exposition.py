"""Prometheus's text exposition format, version 0.0.4.

The samples of a metric must stand together, but a row of `stats` has numbers for many metrics: so the rows of a section
are collected first, and then written metric by metric. A number that is None is left out.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, fields
from heapq import heappush, heappushpop
from itertools import accumulate, chain
from typing import Any

from radiator.model.addresses import KINDS
from radiator.model.administration import USERS
from radiator.model.errors import Refusal
from radiator.model.limits import ANSWER_MAX_BYTES, ANSWER_ROWS, MATCH_STEPS, METRICS_USERS
from radiator.model.numbers import PAUSE, BrokerNumbers, LatencyNumbers, Later, LogNumbers, PauseRow
from radiator.model.patterns import matches
from radiator.protocols.prometheus.metrics import (
    BROKER,
    BROKER_SECTION,
    COUNTER,
    COUNTERS,
    INFO,
    LATENCIES,
    OF_EACH,
    SECTIONS,
    Metric,
)

ALL_SECTIONS = (BROKER_SECTION, *SECTIONS)
_NAMED_IN_PATTERNS = {kind.section for kind in KINDS.values()}
_FIELDS_OF_LOG = tuple(field.name for field in fields(LogNumbers))

Step = Generator[str, None, Any]
"""Yields "" where a turn should end, and returns a result."""


@dataclass(slots=True, frozen=True)
class Selection:
    """The metrics that are asked for. sections: of ALL_SECTIONS. names: patterns, of which a destination's name must
    match one; empty: all names.
    """

    sections: tuple[str, ...] = ALL_SECTIONS
    names: tuple[str, ...] = ()


EVERYTHING = Selection()


def exposition(answer: dict[str, Any]) -> str:
    """Returns the whole text. answer: the JSON object that `stats` answers."""
    return "".join(pieces(answer))


def pieces(answer: BrokerNumbers | dict[str, Any], selection: Selection = EVERYTHING) -> Iterator[str]:
    """Yields the text, about ANSWER_ROWS samples at once; "" where a turn should end. answer: the core's numbers, or
    the JSON object made of them.
    """
    if BROKER_SECTION in selection.sections:
        yield from _of_broker(answer)
    for section, label in SECTIONS.items():
        if section in selection.sections:
            yield from _of_section(answer, section, label, selection.names)


def _of_broker(answer: BrokerNumbers | dict[str, Any]) -> Iterator[str]:
    info = ",".join(_label(name, str(_at(answer, name) or "")) for name in ("version", "store_id"))
    yield _head(f"radiator_{INFO.name}", INFO) + f"radiator_{INFO.name}{{{info}}} 1\n"
    for metric in BROKER:
        value = yield from _last(_at(answer, metric.field))
        if value is not None:
            yield from _family(f"radiator_{metric.name}", metric, value)
    for metric in LATENCIES:
        latency = _at(answer, metric.field)
        if latency is not None:
            yield _head(f"radiator_{metric.name}", metric) + _histogram(f"radiator_{metric.name}", latency)
    for name, value in sorted((_at(answer, "counters") or {}).items()):
        clean = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        metric = Metric(clean, COUNTER, name, COUNTERS.get(name, f"The broker's counter {clean}."))
        yield from _family(f"radiator_{clean}_total", metric, value)


def _family(name: str, metric: Metric, value: Any) -> Iterator[str]:
    """Yields one metric of the whole broker."""
    texts = [*_samples(name, metric, [("", value)])]
    if texts:
        yield _head(name, metric)
        yield from texts


def _of_section(
    answer: BrokerNumbers | dict[str, Any], section: str, label: str, patterns: tuple[str, ...]
) -> Iterator[str]:
    """Yields a section metric by metric. Keeps their text, not the rows: thousands of rows would burden Python's
    collector of reference cycles. Raises Refusal if the text is too long for an answer.
    """
    texts: dict[Metric, list[str]] = {metric: [] for metric in OF_EACH[label]}
    size = 0
    rows: list[tuple[str, Any]] = []
    for named in chain(_selected(answer, section, patterns), (None,)):
        if named is PAUSE:
            yield ""
        elif named is not None:
            name, row = named
            rows.append((_label(label, name), (yield from _of_log(row)) if isinstance(row, LogNumbers) else row))
        if len(rows) < ANSWER_ROWS and named is not None:
            continue
        for metric, found in texts.items():
            values = ((inner, _at(row, metric.field)) for inner, row in rows)
            for text in _samples(f"radiator_{label}_{metric.name}", metric, values):
                size += len(text)
                found.append(text)
                if metric.by:
                    yield ""
        rows.clear()
        if size > ANSWER_MAX_BYTES:
            raise Refusal("too-large", f"The metrics of {section} pass {ANSWER_MAX_BYTES} bytes: select some by name.")
        yield ""
    for metric, found in texts.items():
        if found:
            yield _head(f"radiator_{label}_{metric.name}", metric)
            yield from found
        found.clear()


def _selected(
    answer: BrokerNumbers | dict[str, Any], section: str, patterns: tuple[str, ...]
) -> Iterator[tuple[str, Any] | PauseRow]:
    """Yields names and rows, in the order of names, and PAUSE where a turn should end. Of users, only the METRICS_USERS
    with the most connections: each time series costs the Prometheus server.
    """
    if section not in _NAMED_IN_PATTERNS:
        patterns = ()
    words = sum(pattern.count(".") + 1 for pattern in patterns)
    # a heap by connections; of users with as many, the first counts as the largest
    most: list[tuple[int, int, str, Any]] = []
    steps = 0
    for number, named in enumerate(_rows(answer, section)):
        if named is PAUSE:
            yield PAUSE
            continue
        name, row = named
        if patterns:
            steps += MATCH_STEPS // ANSWER_ROWS + words * (name.count(".") + 1)
            if steps >= MATCH_STEPS:
                steps = 0
                yield PAUSE
            if not any(matches(pattern, name) for pattern in patterns):
                continue
        if section == USERS:
            entry = (_at(row, "connections"), -number, name, row)
            (heappush if len(most) < METRICS_USERS else heappushpop)(most, entry)
            if number % ANSWER_ROWS == 0:
                yield PAUSE
        else:
            yield named
    yield from ((name, row) for _, _, name, row in sorted(most, key=_place))


def _place(entry: tuple[int, int, str, Any]) -> int:
    return -entry[1]


def _rows(answer: BrokerNumbers | dict[str, Any], section: str) -> Iterator[tuple[str, Any] | PauseRow]:
    if isinstance(answer, BrokerNumbers):
        return answer.sections[section].rows
    return iter(sorted(answer.get(section, {}).items()))


def _of_log(row: LogNumbers) -> Step:
    """Returns the row as its JSON object would be, once numbers that take several turns are found."""
    found = {name: getattr(row, name) for name in _FIELDS_OF_LOG}
    found["readers"] = yield from _last(row.readers)
    found["unread"] = unread = {}
    for named in row.unread.rows:
        if named is PAUSE:
            yield ""
        else:
            group, count = named
            unread[group] = count
    return found


def _last(value: Any) -> Step:
    """Returns the value; if it takes several turns to find, once it has been found."""
    if not isinstance(value, Later):
        return value
    last: Any = None
    for row in value.rows:
        if row is PAUSE:
            yield ""
        else:
            last = row
    return last


def _samples(name: str, metric: Metric, values: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yields the samples of one metric, ANSWER_ROWS in each text. values: labels, with a number, a table of several
    numbers, or None.
    """
    lines = []
    for inner, value in values:
        if value is None:
            continue
        if not metric.by:
            parts: Iterable[tuple[str, Any]] = ((inner, value),)
        else:
            before = f"{inner}," if inner else ""
            parts = ((f"{before}{_label(metric.by, of)}", one) for of, one in value.items())
        for labels, one in parts:
            number = _number(one == metric.is_one_if if metric.is_one_if else one, metric.unit)
            lines.append(f"{name}{{{labels}}} {number}\n" if labels else f"{name} {number}\n")
            if len(lines) >= ANSWER_ROWS:
                yield "".join(lines)
                lines.clear()
    if lines:
        yield "".join(lines)


def _head(name: str, metric: Metric) -> str:
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"


def _histogram(name: str, latency: LatencyNumbers | dict[str, Any]) -> str:
    """Returns the samples of a histogram: each bucket includes those before it."""
    ends = [f"{ms / 1000:g}" for ms in _at(latency, "buckets_ms")] + ["+Inf"]
    counts = [*accumulate(_at(latency, "counts"))]
    buckets = "".join(f'{name}_bucket{{le="{end}"}} {count}\n' for end, count in zip(ends, counts, strict=True))
    return f"{buckets}{name}_sum {_at(latency, 'sum_ms') / 1000!r}\n{name}_count {counts[-1]}\n"


def _at(thing: Any, field: str) -> Any:
    """Returns the value at a dotted path, in a JSON object or a record; None if it is not there."""
    for step in field.split("."):
        thing = thing.get(step) if isinstance(thing, dict) else getattr(thing, step, None)
    return thing


def _number(value: int | float, unit: int) -> str:
    if unit != 1:
        value = value / unit
    return repr(value) if isinstance(value, float) else str(int(value))  # a bool is 0 or 1


def _label(name: str, value: str) -> str:
    """Returns NAME="VALUE", with backslash, double quote and line feed escaped: nothing else needs it."""
    value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{value}"'
