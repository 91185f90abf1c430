"""Map and reduce with Spark: a job goes into a queue, and its result comes back to whoever asked.

    scripts/setup spark
    python examples/spark_mapreduce.py

Orders are appended to a log, the log is archived, and Spark works out how much each customer has spent, by work that
stands in this file. It starts a broker for itself. docs/SPARK.md says more.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from own_broker import started

from radiator.client import Client
from radiator.integrations.spark.jobs.mapreduce import Record, Work

HERE = Path(__file__).parent
LOG, JOBS = "example.orders", "example.jobs"
ANSWER_MAX_S = 120.0  # Spark itself takes some ten seconds to start


def spent(record: Record) -> list[tuple[str, int]]:
    order = json.loads(record.value)
    return [(order["customer"], order["pence"])]


def add(one: int, other: int) -> int:
    return one + other


SPENT = Work(spent, add)  # a job names work, it cannot bring any: the worker below is started with this


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="radiator-") as directory, started(place := Path(directory)) as address:
        with Client(address) as client:
            client.admin({"do": "declare", "log": LOG, "partitions": 4})
            client.admin({"do": "declare", "queue": JOBS})
            for number in range(1000):
                customer = f"customer-{number % 7}"
                order = json.dumps({"customer": customer, "pence": number})
                client.send(f"/log/{LOG}", order, {"partition-key": customer}, confirm=False)
            client.flush()
            print("1000 orders are in the log")

            # By a process of its own, from the store: not through the broker. --follow would go on.
            archive = ["radiator", "archive", "--config", str(place / "config.toml"), "--to", str(place / "archive")]
            subprocess.run([sys.executable, "-m", *archive], check=True)

            # Any number of these may run, on any machine with Spark; each job is done by one of them.
            options = ["--archive", str(place / "archive"), "--queue", JOBS, "--url", address, "--quiet"]
            command = ["radiator.spark.jobs.mapreduce", *options, "--work", "spent=spark_mapreduce:SPENT"]
            path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
            worker = subprocess.Popen([sys.executable, "-m", *command], env={**os.environ, "PYTHONPATH": path})
            try:
                job = json.dumps({"work": "spent", "log": LOG})
                answer = json.loads(client.request(f"/queue/{JOBS}", job, ANSWER_MAX_S).body)
            finally:
                worker.terminate()
                worker.wait()
        for customer, pence in sorted(answer["result"].items()):
            print(f"{customer} has spent {pence / 100:.2f}")


if __name__ == "__main__":
    main()
