"""scripts/bench: how fast is it, beside what else there is?

Radiator and every peer that is installed, in turns, in the same run, on the same disk, each as a fresh process with
fresh data; the table shows medians over the rounds. docs/BENCHMARKS.md tells what is compared with what, what each
peer's answer means, and how to read the figures. The load comes from this process; its share of a CPU is in the table
too: near 100 % it is the load that was measured.
"""

import argparse
import importlib.util
import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.amqp_beside import amqp_tables
from benchmarks.before import Before
from benchmarks.comparison import compare
from benchmarks.flushes import count_flushes
from benchmarks.growth import grow, series_of
from benchmarks.host import host
from benchmarks.install import install_peers, requirements_of
from benchmarks.instructions import count_instructions, instructions_table
from benchmarks.journal import journal_table
from benchmarks.longchecks import long_checks, starts
from benchmarks.nodecases import SERIES
from benchmarks.nodes import measure_nodes, nodes_report
from benchmarks.peers import CHECKOUT, PEERS, Peer
from benchmarks.report import comparison_table, data_of, growth_data, growth_table, markdown, preface, remarks
from benchmarks.shapes import BODIES, CASES, Case, rows
from benchmarks.written import measure_written, written_report
from radiator.tools.cli.load import LoadFailed
from radiator.tools.cli.text import bytes_text
from radiator.tools.config import parse_size

BODY_MIN_BYTES = 32
PICTURES = CHECKOUT / "docs" / "bench"
SETTLE_S = 1.2  # beside the seconds of a measurement: its start, warming up, its end


def main() -> int:
    wanted = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the brokers inherit it
    try:
        return _run(wanted)
    except (LoadFailed, OSError, AssertionError, subprocess.CalledProcessError) as failed:
        _say(f"bench: {failed}")
        return 1
    finally:
        shutil.rmtree(wanted.dir / "run", ignore_errors=True)


def _run(wanted: argparse.Namespace) -> int:
    if wanted.install_peers:
        install_peers()
        return 0
    if wanted.pictures is not None:
        _need_matplotlib()
    if wanted.show:
        _show(json.loads(wanted.show.read_text()), wanted)
        return 0
    if wanted.flushes:
        wanted.dir.joinpath("run").mkdir(parents=True, exist_ok=True)
        _print(count_flushes(_peers(wanted)[0], wanted.bodies, wanted.dir / "run", wanted.seconds))
        return 0
    if wanted.journal:
        _print(journal_table(wanted.bodies, wanted.dir / "run", wanted.rounds, wanted.seconds))
        return 0
    if wanted.amqp is not None:
        _print(amqp_tables(wanted.dir / "run", wanted.rounds, wanted.seconds, wanted.amqp))
        return 0
    if wanted.instructions:
        _print(instructions_table(count_instructions(_before(wanted), wanted.dir / "run")))
        return 0
    if wanted.written:
        _show(_written(wanted), wanted)
        return 0
    if wanted.starts:
        _print(starts(wanted.dir / "run", wanted.backlog_max))
        return 0
    if wanted.nodes is not None:
        _show(_nodes(wanted), wanted)
    elif wanted.growth:
        _show(_growth(wanted), wanted)
    elif not wanted.only_long:
        _show(_comparison(wanted), wanted)
    if wanted.long or wanted.only_long:
        _print(long_checks(wanted.dir / "run", wanted.rounds, wanted.seconds, wanted.backlog_max))
    return 0


def _comparison(wanted: argparse.Namespace) -> dict[str, Any]:
    peers, missing = _peers(wanted)
    cases = rows(wanted.shapes, wanted.bodies)
    each_s = wanted.seconds + SETTLE_S
    _say(f"{len(cases)} rows, {', '.join(peer.name for peer in peers)}: "
         f"about {len(cases) * len(peers) * wanted.rounds * each_s / 60:.0f} minutes")  # fmt: skip
    machine = host(wanted.dir)
    found = []
    for case in cases:
        found.append(compare(case, peers, wanted.dir / "run", wanted.rounds, wanted.seconds))
        _say(f"  {case.name}, {bytes_text(case.body_bytes)}: done")
    return data_of(found, peers, missing, machine, {"rounds": wanted.rounds, "seconds": wanted.seconds})


def _growth(wanted: argparse.Namespace) -> dict[str, Any]:
    peers, missing = _peers(wanted)
    machine = host(wanted.dir)
    series = [one for one in series_of(wanted.backlog_max) if not wanted.series or one.name in wanted.series]
    found = grow(series, peers, wanted.dir / "run", wanted.rounds, wanted.seconds)
    settings = {"rounds": wanted.rounds, "seconds": wanted.seconds, "backlog_max": wanted.backlog_max}
    return growth_data(found, peers, missing, machine, settings)


def _nodes(wanted: argparse.Namespace) -> dict[str, Any]:
    return measure_nodes(wanted.dir / "run", wanted.rounds, wanted.seconds, _before(wanted), wanted.nodes)


def _written(wanted: argparse.Namespace) -> dict[str, Any]:
    peers, missing = _peers(wanted)
    return measure_written(peers, missing, wanted.bodies, wanted.dir / "run", wanted.rounds)


def _before(wanted: argparse.Namespace) -> Before | None:
    before = Before(wanted.before) if wanted.before else None
    if before is not None and (reason := before.missing()):
        raise LoadFailed(reason)
    return before


def _peers(wanted: argparse.Namespace) -> tuple[list[Peer], dict[str, str]]:
    """Those that take part, and why others do not."""
    asked = [peer for peer in PEERS if peer.name in wanted.peers]
    missing = {peer.name: reason for peer in asked if (reason := peer.missing())}
    for name, reason in missing.items():
        _say(f"{name} is left out: {reason}; `scripts/bench --install-peers` installs what it can")
    return [peer for peer in asked if peer.name not in missing], missing


def _show(data: dict[str, Any], wanted: argparse.Namespace) -> None:
    is_growth = "series" in data
    if "nodes" in data:
        _print(nodes_report(data))
    elif "written" in data:
        _print(written_report(data))
    elif wanted.markdown and not is_growth:
        return _print(markdown(data))
    else:
        _print(preface(data) + "\n")
        _print(growth_table(data) if is_growth else comparison_table(data))
    if found := remarks(data):
        _print(f"\n{found}")
    if wanted.json:
        wanted.json.parent.mkdir(parents=True, exist_ok=True)
        wanted.json.write_text(json.dumps(data, indent=1) + "\n")
    if wanted.pictures is not None and not {"nodes", "written"} & data.keys():
        from benchmarks.pictures import draw_comparison, draw_growth

        for path in (draw_growth if is_growth else draw_comparison)(data, wanted.pictures):
            _say(f"{path} written")


def _need_matplotlib() -> None:
    """Installs the extra `bench` where it is not there yet, into the environment that runs this."""
    if importlib.util.find_spec("matplotlib") is None:
        needed = requirements_of("bench", (CHECKOUT / "setup.cfg").read_text())
        _say(f"installing {' '.join(needed)}, which draws the pictures")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *needed],
                       check=True, stdout=sys.stderr)  # fmt: skip


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


# ---- arguments


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [peer.name for peer in PEERS]
    parser.add_argument("--install-peers", action="store_true", help="install what can be compared (apt, pip), and end")
    parser.add_argument("--peers", type=_list_of(names), default=names, metavar="NAMES",
                        help=f"which take part, as radiator,redis; default all: {','.join(names)}")  # fmt: skip
    parser.add_argument("--only", choices=names, help="one alone")
    parser.add_argument("--shapes", type=_numbers, default=list(range(1, len(CASES) + 1)), metavar="NUMBERS",
                        help=f"numbers of rows, as 1,3; default all: {_numbered(CASES)}")  # fmt: skip
    parser.add_argument("--bodies", type=_sizes, default=list(BODIES), metavar="SIZES",
                        help="default 100,1KiB,64KiB")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--dir", type=Path, default=CHECKOUT / "build" / "bench", help="where all keep their data")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--pictures", type=Path, nargs="?", const=PICTURES, metavar="DIRECTORY",
                        help="draw the figures too; default directory docs/bench")  # fmt: skip
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: show the figures of this file")
    parser.add_argument("--markdown", action="store_true", help="with --show: the medians and ratios alone")
    parser.add_argument("--growth", action="store_true", help="how cost grows, instead of the comparison")
    parser.add_argument("--series", type=_list_of([one.name for one in series_of(0)]), metavar="NAMES",
                        help="of --growth: which, as connections,backlog")  # fmt: skip
    parser.add_argument("--backlog-max", type=int, default=1_000_000, metavar="N",
                        help="of --growth, --long, --starts: default 1000000; 10000000 takes gigabytes")  # fmt: skip
    parser.add_argument("--nodes", type=_list_of(SERIES), nargs="?", const=SERIES, metavar="SERIES",
                        help=f"several nodes, instead of the comparison; default all: {','.join(SERIES)}")  # fmt: skip
    parser.add_argument("--before", type=Path, metavar="CHECKOUT",
                        help="with --nodes, --instructions: one node beside the earlier version there")  # fmt: skip
    parser.add_argument("--instructions", action="store_true",
                        help="count instructions a message (valgrind), instead of the comparison")  # fmt: skip
    parser.add_argument("--journal", action="store_true", help="what the journal costs, instead of the comparison")
    parser.add_argument("--amqp", type=int, nargs="?", const=10_000, metavar="CONNECTIONS",
                        help="Radiator over AMQP beside its STOMP and RabbitMQ, and the memory of so many connections"
                             " (default 10000; 0 leaves it out), instead of the comparison")  # fmt: skip
    parser.add_argument("--flushes", action="store_true", help="count the flushes behind each peer's answers (strace)")
    parser.add_argument("--written", action="store_true",
                        help="bytes that the disk writes for each byte of body, instead of the comparison")  # fmt: skip
    parser.add_argument("--long", action="store_true", help="the long checks of Radiator too")
    parser.add_argument("--only-long", action="store_true", help="the long checks alone")
    parser.add_argument("--starts", action="store_true", help="of the long checks, the starts after kill -9 alone")
    wanted = parser.parse_args(words)
    if wanted.only:
        wanted.peers = [wanted.only]
    return wanted


def _list_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    def names_in(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(names)}")
        return found

    return names_in


def _numbers(text: str) -> list[int]:
    if not all(word.isdigit() and 1 <= int(word) <= len(CASES) for word in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text} is no list of numbers from 1 to {len(CASES)}")
    return [int(word) for word in text.split(",")]


def _sizes(text: str) -> list[int]:
    try:
        found = [parse_size(int(word) if word.isdigit() else word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if min(found) < BODY_MIN_BYTES:
        raise argparse.ArgumentTypeError(f"a body has {BODY_MIN_BYTES} bytes at least: it holds the time of its SEND")
    return found


def _numbered(cases: Sequence[Case]) -> str:
    return "; ".join(f"{number} {case.name}" for number, case in enumerate(cases, 1))
