"""Packages from npm for the clients that run on node."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess

PACKAGES = {
    "stompit": "stompit@1",
    "@stomp/stompjs": "@stomp/stompjs@7",
    "@stomp/tcp-wrapper": "@stomp/tcp-wrapper@1",
    "ws": "ws@8",
    "axe-core": "axe-core@4",
}
GET_NODE = "on Debian or Ubuntu: apt install nodejs npm, then remove .venv/stamp-test and run scripts/setup test"
PLACES = (CHECKOUT / ".venv" / "npm", CHECKOUT / "build" / "npm")  # where scripts/setup has put them, or this does


def node_modules(*packages: str) -> Path:
    """The folder that has them in it, installed if need be. Skips without node, and without a network outside CI."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip(f"stompit, stompjs and axe-core need node and npm; {GET_NODE}")
    for place in PLACES:
        if all((place / "node_modules" / package).is_dir() for package in packages):
            return place / "node_modules"
    place = PLACES[-1]
    place.mkdir(parents=True, exist_ok=True)
    options = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    install = ["npm", "install", "--prefix", str(place), *options, *PACKAGES.values()]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=100)
    if installed.returncode:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"npm could not install {packages[0]}: {installed.stderr.strip() or installed.stdout.strip()}")
    return place / "node_modules"


def run(
    script: str, broker: BrokerProcess, *arguments: str, packages: tuple[str, ...], port: int | None = None
) -> list[str]:
    """What the script beside this file says; it must end well, with `done`. port: another one than STOMP's over TCP."""
    ended = subprocess.run(
        ["node", str(Path(__file__).with_name(script)), broker.host, str(port or broker.port), *arguments],
        env={**os.environ, "NODE_PATH": str(node_modules(*packages))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-1] == "done"
    return lines
