"""The figures as pictures: SVG, light, with logarithmic scales where they span orders of magnitude.

Made from the data alone (report.py, growth.py). matplotlib is needed for nothing else.
"""

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import GENERATOR_BOUND
from radiator.tools.cli.text import bytes_text
from radiator.tools.config import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Data = dict[str, Any]

COLORS = {
    "radiator": "#c0392b",
    "beanstalkd": "#4c72b0",
    "rabbitmq": "#dd8452",
    "rabbitmq-quorum": "#e8b48f",
    "redis": "#8172b3",
    "nats": "#55a868",
    "coilmq": "#8c8c8c",
}
INK, GRID = "#333333", "#dddddd"
PANEL_INCHES = (5.2, 2.3)
COLUMNS = 2


def draw_comparison(data: Data, directory: Path) -> list[Path]:
    """rates-BODY.svg, latency-BODY.svg and cpu-BODY.svg, for each size of body."""
    written = []
    for body in sorted({row["body_bytes"] for row in data["rows"]}):
        rows = [row for row in data["rows"] if row["body_bytes"] == body and row["results"]]
        size = f"{size_text(body)}" if body >= 1024 else f"{body}B"
        for name, title, draw in (
            (
                "rates",
                "Messages per second (more is better); the line is the range of all rounds, * is bound by the load",
                _draw_rates,
            ),
            ("latency", "Latency in ms (less is better): p50, p99, p99.9, medians of all rounds", _draw_latencies),
            ("cpu", "Broker's CPU for each message in us (less is better)", _draw_cpu),
        ):
            path = directory / f"{name}-{size}.svg"
            _panels(rows, f"{title}; bodies of {bytes_text(body)}", draw, path)
            written.append(path)
    return written


def draw_growth(data: Data, directory: Path) -> list[Path]:
    """growth-NAME.svg: the rate and the CPU of each message, against what grows."""
    written = []
    for name in dict.fromkeys(series["name"] for series in data["series"]):
        path = directory / f"growth-{name}.svg"
        _draw_series([series for series in data["series"] if series["name"] == name and series["points"]], path)
        written.append(path)
    return written


# ---- the comparison


def _panels(rows: Sequence[Data], title: str, draw: Any, path: Path) -> None:
    lines = math.ceil(len(rows) / COLUMNS)
    figure, axes = _figure(lines, COLUMNS, (PANEL_INCHES[0] * COLUMNS, PANEL_INCHES[1] * lines + 0.6), title)
    for panel, row in zip(axes, rows, strict=False):
        panel.set_title(row["name"], fontsize=9, color=INK, loc="left")
        peers = [peer for peer in COLORS if peer in row["results"]]
        panel.set_yticks(range(len(peers)), peers, fontsize=8)
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        draw(panel, row, peers)
    for panel in axes[len(rows) :]:
        panel.set_visible(False)
    _save(figure, path)


def _draw_rates(panel: "Axes", row: Data, peers: Sequence[str]) -> None:
    bound = [row["results"][peer]["generator_share"]["median"] > GENERATOR_BOUND for peer in peers]
    _bars(panel, [row["results"][peer]["per_s"] for peer in peers], peers, [" *" if one else "" for one in bound])


def _draw_cpu(panel: "Axes", row: Data, peers: Sequence[str]) -> None:
    _bars(panel, [row["results"][peer]["cpu_us"] for peer in peers], peers)


def _bars(panel: "Axes", spreads: Sequence[Data], peers: Sequence[str], marks: Sequence[str] = ()) -> None:
    medians = [spread["median"] for spread in spreads]
    most = max(spread["max"] for spread in spreads)
    panel.barh(range(len(peers)), medians, color=[COLORS[peer] for peer in peers], height=0.65)
    for place, spread in enumerate(spreads):
        panel.plot([spread["min"], spread["max"]], [place, place], color=INK, linewidth=1)
        panel.text(spread["max"] + most * 0.015, place, amount(spread["median"]) + (marks[place] if marks else ""),
                   va="center", fontsize=8, color=INK)  # fmt: skip
    # bars begin at 0: on a logarithmic scale their lengths would mean nothing
    panel.set_xlim(0, most * 1.2)
    _plain_ticks(panel.xaxis)


def _draw_latencies(panel: "Axes", row: Data, peers: Sequence[str]) -> None:
    for place, peer in enumerate(peers):
        p50, p99, p999 = (row["results"][peer][name]["median"] for name in ("p50_ms", "p99_ms", "p999_ms"))
        panel.plot([p50, p999], [place, place], color=COLORS[peer], linewidth=3, alpha=0.35)
        panel.plot([p50], [place], "o", color=COLORS[peer], markersize=6)
        panel.plot([p99], [place], "|", color=COLORS[peer], markersize=10, markeredgewidth=2)
        panel.plot([p999], [place], ">", color=COLORS[peer], markersize=5)
        panel.text(p999 * 1.25, place, f"{amount(p50)} · {amount(p99)} · {amount(p999)}",
                   va="center", fontsize=8, color=INK)  # fmt: skip
    _logarithmic(panel, "x")
    panel.set_xlim(right=panel.get_xlim()[1] * 30)
    panel.set_ylim(len(peers) - 0.5, -0.5)


# ---- growth


def _draw_series(series: Sequence[Data], path: Path) -> None:
    if not series:
        return
    first = series[0]
    figures = [("per_s", f"{first['counted']}, per second"), ("cpu_us", "broker's CPU for each, us")]
    if "rss_anon_mib" in first["points"][0]:
        figures += [("rss_anon_mib", "memory, MiB"), ("disk_mib", "on the disk, MiB")]
    lines = len(figures) // 2
    figure, axes = _figure(lines, 2, (PANEL_INCHES[0] * 2, 3.4 * lines + 0.2), f"Growing: {first['unit']}")
    for panel, (name, label) in zip(axes, figures, strict=True):
        for one in series:
            at = [max(point["at"], 1) for point in one["points"]]
            values = [max(point[name], 0.1) if name == "disk_mib" else point[name] for point in one["points"]]
            panel.plot(at, values, "o-", color=COLORS[one["peer"]], label=one["peer"], linewidth=1.6, markersize=4)
            if one["peer"] == "radiator":
                for x, y in zip(at, values, strict=True):
                    panel.annotate(amount(y), (x, y), textcoords="offset points", xytext=(0, 6), ha="center",
                                   fontsize=7, color=INK)  # fmt: skip
        _logarithmic(panel, "x")
        _logarithmic(panel, "y")
        panel.margins(y=0.25)
        panel.set_title(label, fontsize=9, color=INK, loc="left")
        panel.set_xlabel(first["name"] + (" (1: none)" if first["points"][0]["at"] == 0 else ""), fontsize=8)
    axes[0].legend(fontsize=7, frameon=False)
    _save(figure, path)


# ---- common


def amount(value: float) -> str:
    """Three digits are enough to read off a picture: 123k, 1.23M, 0.12."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit * 0.9995:
            return _three(value / limit) + unit
    return _three(value)


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _logarithmic(panel: "Axes", which: str) -> None:
    """With plain numbers, and no small ticks, which would be most of the file."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis = panel.xaxis if which == "x" else panel.yaxis
    (panel.set_xscale if which == "x" else panel.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if which == "y" else (1.0,)))
    axis.set_minor_locator(NullLocator())
    _plain_ticks(axis)


def _plain_ticks(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def plain(value: float) -> str:
    """A tick: 0.1, 20, 5k, 1M."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit * 0.9995:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def _figure(lines: int, columns: int, inches: tuple[float, float], title: str) -> tuple[Any, list["Axes"]]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "radiator",
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
        }
    )
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(lines, columns, figsize=inches, squeeze=False, layout="constrained")
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    panels = [panel for line in grid for panel in line]
    for panel in panels:
        panel.grid(axis="both", color=GRID, linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=8, colors=INK, left=False, bottom=False)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure, panels


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
    # a tenth of a point is exact enough, and a third of the file less; what is written has two decimals
    path.write_text(re.sub(r"(\d\.\d)\d{2,}", r"\1", text.getvalue()))
