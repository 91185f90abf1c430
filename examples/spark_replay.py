"""Replay with Spark: what a log had is sent to a queue once more, some of it, and only after a look at how much it is.

    scripts/setup spark
    python examples/spark_replay.py

It starts a broker for itself. docs/SPARK.md says more.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from own_broker import started

from radiator.client import Client

LOG, QUEUE = "example.events", "example.again"


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="radiator-") as directory,
        started(place := Path(directory)) as address,
        Client(address) as client,
    ):
        client.admin({"do": "declare", "log": LOG, "partitions": 2})
        # dedup_window_s: should a replay fail half-way, its second run does not send again what has come already
        client.admin({"do": "declare", "queue": QUEUE, "dedup_window_s": 3600})
        for number in range(100):
            kind = "payment" if number % 10 == 0 else "visit"
            client.send(f"/log/{LOG}", f"{kind} {number}", {"partition-key": str(number)}, confirm=False)
        client.flush()
        archive = ["radiator", "archive", "--config", str(place / "config.toml"), "--to", str(place / "archive")]
        subprocess.run([sys.executable, "-m", *archive], check=True)

        replay = [sys.executable, "-m", "radiator.spark.jobs.replay", "--archive", str(place / "archive")]
        replay += ["--log", LOG, "--to", f"/queue/{QUEUE}", "--url", address, "--quiet"]
        replay += ["--where", "cast(value as string) like 'payment %'"]
        subprocess.run(replay, check=True)  # only counts
        subprocess.run([*replay, "--go"], check=True)

        client.subscribe(f"/queue/{QUEUE}", prefetch=100)
        bodies = []
        while (message := client.receive(1.0)) is not None:
            bodies.append(message.body.decode())
        print(f"{len(bodies)} have come again: {', '.join(sorted(bodies)[:3])}, ...")


if __name__ == "__main__":
    main()
