"""`radiator serve`: the broker itself, in the foreground."""

import argparse
import gc
from functools import partial
from pathlib import Path

from radiator.tools import config
from radiator.tools.cli.command import Command


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", type=Path, help="config.toml; without it the defaults are in force")
    parser.add_argument(
        "--trust-clock",
        action="store_true",
        help="the system's clock is right, although it is more than 180 days from the last time in the store",
    )


def _run(arguments: argparse.Namespace) -> int:
    gc.disable()  # for good (server/serve.py, Collector); before the imports, which it would slow down
    # here and not above: only this command needs gevent and LMDB, and the others must start fast
    from radiator.server.listener import refused
    from radiator.server.serve import serve

    file: Path | None = arguments.config
    if file is None:
        return serve(config.load(None), arguments.trust_clock)
    file = file.absolute()
    return serve(config.load(file), arguments.trust_clock, partial(config.reread, file, refused), file)


SERVE = Command(
    name="serve",
    summary="run the broker",
    description=(
        "Runs the broker in the foreground until SIGTERM or SIGINT. Its log goes to stderr, one line for each "
        "event. Without a file it listens on 127.0.0.1:61613, and for the web on 127.0.0.1:61680, keeps its data in "
        "./data, and creates destinations at first use. Exit status: 0 after a clean stop, 1 if the data directory "
        "cannot be used, 2 if the configuration is wrong, 74 if the disk failed."
    ),
    example="radiator serve --config /etc/radiator/config.toml",
    add_arguments=_arguments,
    run=_run,
)
