"""stompit, from npm: a client from another world."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess

SCRIPT = Path(__file__).with_name("stompit_client.js")
PLACES = (CHECKOUT / ".venv" / "npm", CHECKOUT / "build" / "npm")  # where scripts/setup has put it, or this test does


def node_modules() -> Path:
    """The folder that has stompit in it, installed if need be. Skips without node, and without a network outside CI."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed: no test with stompit")
    for place in PLACES:
        if (place / "node_modules" / "stompit").is_dir():
            return place / "node_modules"
    place = PLACES[-1]
    place.mkdir(parents=True, exist_ok=True)
    install = [
        "npm",
        "install",
        "--prefix",
        str(place),
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "stompit@1",
    ]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=100)
    if installed.returncode:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"npm could not install stompit: {installed.stderr.strip() or installed.stdout.strip()}")
    return place / "node_modules"


@pytest.mark.slow
def test_stompit_sends_receives_and_recovers(broker: BrokerProcess) -> None:
    ended = subprocess.run(
        ["node", str(SCRIPT), broker.host, str(broker.port), "/queue/stompit"],
        env={**os.environ, "NODE_PATH": str(node_modules())},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "done"
