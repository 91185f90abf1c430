"""The client needs nothing but Python's own library: it runs where no other package is."""

import subprocess
import sys

from tests.broker_process import CHECKOUT, BrokerProcess

PROGRAM = """
import asyncio, sys
from radiator.client import Client
from radiator.client.aio import AsyncClient

with Client(sys.argv[1]) as client:
    client.send("/queue/alone", "x")

async def main():
    async with AsyncClient(sys.argv[1]) as client:
        await client.subscribe("/queue/alone")
        print((await client.receive(10)).body)

asyncio.run(main())
try:
    import gevent
except ImportError:
    print("alone")
"""


def test_client_runs_without_any_other_package(broker: BrokerProcess) -> None:
    """-S: no site-packages; -P: nor what lies beside the program."""
    own = {"PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-S", "-P", "-c", PROGRAM, broker.address]
    done = subprocess.run(command, env=own, cwd="/", capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "b'x'\nalone\n"), done.stderr


def test_client_of_threads_does_not_import_asyncio() -> None:
    """It would take half as long again to start each command."""
    program = "import sys, radiator.client; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, timeout=30)
    assert done.stdout == "False\n", done.stderr
