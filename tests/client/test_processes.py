"""Forked programs, and those that gevent has patched: each in a process of its own."""

import subprocess
import sys

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess, environment


def run(module: str, program: str, address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-m", f"tests.client.{module}", program, address],
        cwd=CHECKOUT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program", ["fork", "fork_and_reconnect", "fork_under_load", "without_poll"])
def test_program(broker: BrokerProcess, program: str) -> None:
    run("programs", program, broker.address)


@pytest.mark.parametrize("program", ["patched", "fork", "fork_and_reconnect", "fork_under_load"])
def test_program_that_gevent_has_patched(broker: BrokerProcess, program: str) -> None:
    run("patched", program, broker.address)
