"""The broker that a topology runs on: the one that `--broker` names, or an empty one of its own meanwhile."""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_MAX_S = 20.0

# No [create]: a topology declares by itself all that it uses, so it runs on any broker. Port 0 is any free one.
CONFIG = """\
[server]
listen = ["stomp://127.0.0.1:0"]
data_dir = "data"
map_size = "1GiB"
"""


@contextlib.contextmanager
def broker(about: str | None) -> Iterator[str]:
    """Reads the command line; the address of the broker to use. about: the program's docstring, for --help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", metavar="stomp://HOST:PORT", help="by default an empty one is started for it")
    address = parser.parse_args().broker
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory(prefix="radiator-") as place, started(Path(place)) as own:
        yield own


@contextlib.contextmanager
def started(place: Path, text: str = CONFIG) -> Iterator[str]:
    """One of its own: `place` has its config.toml, with that text, its data and its log."""
    config, log = place / "config.toml", place / "log"
    config.write_text(text)
    config.chmod(0o600)  # it may have users
    command = [sys.executable, "-m", "radiator", "serve", "--config", str(config)]
    with log.open("wb") as printed:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=printed)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where it listens, as its log says once it does."""
    deadline_s = time.monotonic() + START_MAX_S
    while time.monotonic() < deadline_s and process.poll() is None:
        found = re.search(r"stomps?://[\d.]+:\d+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.02)
    sys.exit(f"The broker did not start:\n{log.read_text()}")
