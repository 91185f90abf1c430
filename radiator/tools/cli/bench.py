"""`radiator bench`: loads a running broker, ours or any other that speaks STOMP, and prints what it can take; or
measures how fast a disk syncs (disk.py).
"""

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from radiator.client import Address, Client
from radiator.model.addresses import LOG, QUEUE
from radiator.model.errors import ConfigError, count_text
from radiator.model.limits import KIB
from radiator.tools.cli import disk
from radiator.tools.cli.broker import add_broker, ask, broker_options, field, seconds
from radiator.tools.cli.command import Command
from radiator.tools.cli.load import BODY_BYTES, Load, LoadFailed, Measured, Shape, StompWire
from radiator.tools.cli.progress import Progress
from radiator.tools.cli.shown import add_json, print_answer
from radiator.tools.cli.text import table
from radiator.tools.cli.things import ArgumentWord, Thing, add_words

DESTINATION = Thing(QUEUE, "radiator-bench")
SECONDS = 3.0
GENERATOR_BOUND = 0.95  # of one CPU: above it the load may be what was measured

SHAPES = (
    Shape(name="16 producers, window 100", producers=16, window=100),
    Shape(name="1 producer, window 100", producers=1, window=100),
    Shape(name="16 producers, one outstanding each", producers=16, window=1),
    Shape(name="1 producer, one outstanding", producers=1, window=1),
    Shape(name="end to end, 8 producers + 8 consumers", producers=8, window=1, consumers=8),
    Shape(name="the same, each ACK receipted", producers=8, window=1, consumers=8, ack_receipts=True),
)

HEADS = ("shape", "per second", "p50 ms", "p99 ms", "p99.9 ms", "generator CPU")


def row(shape: Shape, measured: Measured) -> list[str | int]:
    """Returns a line of the table."""
    share = f"{measured.generator_share:.0%}" + (" (bound!)" if measured.generator_share > GENERATOR_BOUND else "")
    return [
        shape.name,
        round(measured.per_s),
        f"{measured.p50_ms:.2f}",
        f"{measured.p99_ms:.2f}",
        f"{measured.p999_ms:.2f}",
        share,
    ]


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser, "what was measured, as JSON on one line")
    add_words(
        parser,
        ArgumentWord(
            "what",
            "QUEUE",
            f"for this alone, and empty (default {DESTINATION.address})",
            kinds=(QUEUE, LOG),
            is_needed=False,
        ),
    )
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=None, help=f"of each shape (default {SECONDS:g})"
    )
    parser.add_argument(
        "--disk",
        metavar="DIRECTORY",
        type=Path,
        help=f"no broker: how fast this directory's disk takes and syncs {disk.APPENDS:,} appends of "
        f"{disk.APPEND_BYTES // KIB} KiB",
    )


def _run(arguments: argparse.Namespace) -> int:
    if arguments.disk is not None:
        return _run_disk(arguments)
    address: Address = arguments.broker
    if address.is_tls:
        raise ConfigError([f"bench measures without TLS, and the broker is {address}: say --broker stomp://HOST:PORT."])
    what = arguments.what or DESTINATION
    destination, is_log = what.address, what.kind == LOG
    if is_log:
        _check_log_empty(arguments, destination)
    else:
        _check_empty(address, destination)
    if not arguments.json:
        print(
            f"{BODY_BYTES} byte bodies to {destination} on {address.path or f'{address.host}:{address.port}'}",
            flush=True,
        )
        if is_log:
            print("It is a log, which keeps what it is sent: producers alone are measured.", flush=True)
    shapes = [shape for shape in SHAPES if not (is_log and shape.consumers)]
    for_s = SECONDS if arguments.seconds is None else max(arguments.seconds, 0.1)
    results: list[tuple[Shape, Measured]] = []
    with Progress("bench") as progress:
        for shape in shapes:
            progress("measuring", "shapes", len(results), len(shapes))
            results.append((shape, _measured(address, destination, shape, for_s, not is_log)))
    answer = {
        "destination": destination,
        "body_bytes": BODY_BYTES,
        "shapes": [{"shape": shape.name, **asdict(measured)} for shape, measured in results],
    }
    text = table(HEADS, [row(shape, measured) for shape, measured in results])
    if is_log:
        kept = answer["records"] = _records(arguments, destination)
        text += (
            f"\n{count_text(kept, 'record')} are in {destination} now, and stay until its retention takes them. To be "
            f"rid of them: {shlex.join(['radiator', 'delete', destination, *broker_options(arguments)])}"
        )
    print_answer(arguments, answer, text)
    return 0


def _run_disk(arguments: argparse.Namespace) -> int:
    if arguments.what is not None:
        address = arguments.what.address
        raise ConfigError([f"--disk measures a directory and asks no broker: leave {address} out, or --disk."])
    if arguments.seconds is not None:
        raise ConfigError([f"--disk makes {disk.APPENDS:,} appends, however long they take: leave --seconds out."])
    with Progress("bench") as progress:
        measured = disk.measure(arguments.disk, progress)
    print_answer(arguments, asdict(measured), disk.text_of(measured))
    return 0


def _records(arguments: argparse.Namespace, destination: str) -> int:
    """Returns how many a log keeps."""
    there = field(ask(arguments, {"do": "describe", "log": destination}), "partitions")
    return int(sum(field(there, "next")) - sum(field(there, "first")))


def _check_log_empty(arguments: argparse.Namespace, destination: str) -> None:
    """Refuses a log with records: ours would stay among them."""
    if kept := _records(arguments, destination):
        raise LoadFailed(
            f"{destination} has {count_text(kept, 'record')}, and the load's would stay among them: it needs a log of "
            "its own (radiator declare log NAME)."
        )


def _measured(address: Address, destination: str, shape: Shape, for_s: float, is_drained: bool) -> Measured:
    """Measures one shape. is_drained: what it has left is received afterwards."""
    wire = StompWire(destination, address.host, address.login, address.passcode)
    load = Load(address.path or (address.host, address.port), wire, shape)
    try:
        measured = load.measure(for_s)
        left = load.settle()
    finally:
        load.close()
    if is_drained:
        _drain(address, destination, left)
    return measured


def _check_empty(address: Address, destination: str) -> None:
    """Refuses a queue with messages: they must not be taken for ours."""
    with Client(address) as client:
        client.subscribe(destination, ack="client-individual")
        if client.receive(timeout_s=0.2) is not None:
            raise LoadFailed(f"{destination} is not empty: the load needs a queue of its own.")


def _drain(address: Address, destination: str, messages: int) -> None:
    with Client(address) as client:
        client.subscribe(destination, ack="auto")
        for _ in range(messages):
            if client.receive(timeout_s=10) is None:
                raise LoadFailed(f"Not all that was sent could be taken from {destination} again within 10 s.")


BENCH = Command(
    name="bench",
    summary="load a running broker and print how much it can do, or measure a disk",
    description=(
        "Runs producers and consumers on a running broker, each shape for some seconds, and prints confirmed "
        "messages per second and latencies (from SEND to its RECEIPT, or end to end to the consumer, who has one "
        "message unacked). Any broker with STOMP 1.2 will do; the queue is emptied again. On a log, which must be "
        "empty, only producers are measured, and their records stay. --disk DIRECTORY measures a disk instead, "
        "without a broker: how long it takes to append 4 KiB and sync them, as a commit does, and whether a disk "
        "that really flushes can be that fast."
    ),
    example="radiator bench --broker stomp://127.0.0.1:61613 --user guest --seconds 5\n"
    "radiator bench --disk /var/lib/radiator",
    add_arguments=_arguments,
    run=_run,
)
