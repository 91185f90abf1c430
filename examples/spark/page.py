"""The page of latencies: HTML with its plots as SVG in it, so it can be mailed, and opened without a network.

matplotlib draws them: axes of time and logarithmic scales are much to get right, and it is well kept.
"""

import html
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import dates, pyplot  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

Row = Mapping[str, Any]

QUANTILES = (("p50_ms", "#1b6ca8"), ("p95_ms", "#e08a1e"), ("p99_ms", "#c0392b"))
TITLES = {
    "accept-deliver": "accepted to delivered",
    "deliver-ack": "delivered to acked",
    "accept-ack": "accepted to acked",
}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; margin: 2em auto; max-width: 62em }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin: 2em 0 .3em; overflow-wrap: anywhere }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .15em .8em; text-align: right; border-bottom: 1px solid #ddd; font-weight: normal }
th { color: #666 } td:first-child, th:first-child { text-align: left; padding-left: 0 }
svg { width: 100%; height: auto } .p50 { color: #1b6ca8 } .p95 { color: #e08a1e } .p99 { color: #c0392b }
"""


def latency_page(rows: Sequence[Row]) -> str:
    """rows: as `latency.page_rows` gives them."""
    queues: dict[str, list[Row]] = {}
    for row in rows:
        queues.setdefault(row["queue"], []).append(row)
    parts = [_of_queue(queue, its) for queue, its in queues.items()] or ["<p>No message has been accepted.</p>"]
    legend = ", ".join(f'<b class="{name[:3]}">{name[:3]}</b>' for name, _ in QUANTILES)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Latencies by queue and hour</title>\n<style>{STYLE}</style></head>\n<body>\n"
        f"<h1>Latencies by queue and hour</h1>\n<p>{legend}; milliseconds, hours in UTC, by time of acceptance.</p>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _of_queue(queue: str, rows: Sequence[Row]) -> str:
    hourly = [row for row in rows if row["hour"] is not None]
    heads = "".join(f"<th>{name}</th>" for name in ("", "messages", "p50", "p95", "p99", "max"))
    lines = [
        f"<tr><td>{TITLES[row['span']]}</td>"
        + "".join(f"<td>{row[name]:,}</td>" for name in ("messages", "p50_ms", "p95_ms", "p99_ms", "max_ms"))
        + "</tr>"
        for span in TITLES
        for row in rows
        if row["hour"] is None and row["span"] == span
    ]
    return (
        f"<h2>{html.escape(queue)}</h2>\n<table><tr>{heads}</tr>\n" + "\n".join(lines) + f"\n</table>\n{_plots(hourly)}"
    )


def _plots(rows: Sequence[Row]) -> str:
    """Three plots beside each other, with one scale."""
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "radiator", "font.size": 9}):
        figure, axes = pyplot.subplots(
            1, len(TITLES), figsize=(11, 2.3), sharex=True, sharey=True, layout="constrained"
        )
        for one, (span, title) in zip(axes, TITLES.items(), strict=True):
            mine = [row for row in rows if row["span"] == span]
            hours = [datetime.fromtimestamp(row["hour"], UTC) for row in mine]
            for name, colour in QUANTILES:
                one.plot(hours, [row[name] for row in mine], color=colour, lw=1.3, marker="o", ms=2.5)
            one.set_title(title, fontsize=9, loc="left")
            one.set_yscale("symlog", linthresh=1)  # 0 ms is a latency too
            one.yaxis.set_major_formatter(FuncFormatter(_milliseconds))
            one.xaxis.set_major_locator(place := dates.AutoDateLocator(maxticks=6, tz=UTC))
            one.xaxis.set_major_formatter(dates.ConciseDateFormatter(place, tz=UTC))
            one.grid(alpha=0.25)
            one.spines[["top", "right"]].set_visible(False)
        if rows:
            half_s = 1800  # so that one hour alone has a width
            first_s, last_s = rows[0]["hour"] - half_s, rows[-1]["hour"] + half_s
            axes[0].set_xlim(datetime.fromtimestamp(first_s, UTC), datetime.fromtimestamp(last_s, UTC))
        axes[0].set_ylim(bottom=0)  # behind the lines: it fixes the top too, for all three
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return out.getvalue().partition("<!DOCTYPE")[2].partition(">")[2]


def _milliseconds(value: float, place: int) -> str:
    return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"
