"""examples/celery_app.py and celery_keys.py do what they say, as a person would start them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT, BrokerProcess, environment

PRINTED = {
    "celery_app": ["2 + 3 = 5", "http://example.org came at the second try", "in two seconds: 42"],
    "celery_keys": ["ann: 1, 2, 3", "ben: 1, 2, 3"],
}


@pytest.mark.parametrize(("name", "processes"), [("celery_app", 1), ("celery_keys", 4)])
def test_example_does_what_it_says(broker: BrokerProcess, tmp_path: Path, name: str, processes: int) -> None:
    text = (CHECKOUT / "examples" / f"{name}.py").read_text()
    (tmp_path / f"{name}.py").write_text(text.replace("61613", str(broker.port)))
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", name, "worker", "-c", str(processes)],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        program = [sys.executable, f"{name}.py"]
        ended = subprocess.run(program, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=40)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines() == PRINTED[name]
    finally:
        worker.terminate()
        _, printed = worker.communicate(timeout=20)
    assert "Traceback" not in printed, printed
