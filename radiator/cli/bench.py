"""`radiator bench`: loads a running broker, ours or any other that speaks STOMP, and prints what it bears."""

import argparse

from radiator.cli.broker import add_broker, seconds
from radiator.cli.command import Command
from radiator.cli.load import BODY_BYTES, Load, LoadFailed, Measured, Shape, StompWire
from radiator.cli.text import table
from radiator.client import Address, Client

DESTINATION = "/queue/radiator-bench"
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
    """A line of the table."""
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
    parser.add_argument(
        "--destination", metavar="QUEUE", default=DESTINATION, help=f"a queue for this alone (default {DESTINATION})"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=SECONDS, help=f"of each shape (default {SECONDS:g})"
    )


def _run(arguments: argparse.Namespace) -> int:
    address: Address = arguments.broker
    _check_empty(arguments)
    print(f"{BODY_BYTES} byte bodies to {arguments.destination} on {address.host}:{address.port}")
    rows = []
    for shape in SHAPES:
        wire = StompWire(arguments.destination, address.host, address.login, address.passcode)
        load = Load((address.host, address.port), wire, shape)
        try:
            measured = load.measure(max(arguments.seconds, 0.1))
            left = load.settle()
        finally:
            load.close()
        rows.append(row(shape, measured))
        _drain(arguments, left)
    print(table(HEADS, rows))
    return 0


def _check_empty(arguments: argparse.Namespace) -> None:
    """Somebody's messages must not be taken for ours."""
    with Client(arguments.broker) as client:
        client.subscribe(arguments.destination, ack="client-individual")
        if client.receive(timeout_s=0.2) is not None:
            raise LoadFailed(f"{arguments.destination} is not empty: the load needs a queue of its own.")


def _drain(arguments: argparse.Namespace, messages: int) -> None:
    with Client(arguments.broker) as client:
        client.subscribe(arguments.destination, ack="auto")
        for _ in range(messages):
            if client.receive(timeout_s=10) is None:
                raise LoadFailed(f"Not all messages came back from {arguments.destination} within 10 s.")


BENCH = Command(
    name="bench",
    summary="load a running broker and print what it bears",
    description=(
        "Runs producers and consumers on a running broker, each shape for some seconds, and prints confirmed "
        "messages per second and latencies (from SEND to its RECEIPT, or end to end to the consumer, who has "
        "one message unacked). Any broker with STOMP 1.2 will do; the queue is emptied again. A name and "
        "password may stand in the address."
    ),
    example="radiator bench --broker stomp://guest:guest@127.0.0.1:61613 --seconds 5",
    add_arguments=_arguments,
    run=_run,
)
