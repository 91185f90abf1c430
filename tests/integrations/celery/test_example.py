"""examples/celery_app.py does what it says, as a person would start it."""

import subprocess
import sys
from pathlib import Path

from tests.broker_process import CHECKOUT, BrokerProcess, environment


def test_celery_app(broker: BrokerProcess, tmp_path: Path) -> None:
    text = (CHECKOUT / "examples" / "celery_app.py").read_text()
    (tmp_path / "celery_app.py").write_text(text.replace("61613", str(broker.port)))
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "1"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        program = [sys.executable, "celery_app.py"]
        ended = subprocess.run(program, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=40)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines() == [
            "2 + 3 = 5",
            "http://example.org came at the second try",
            "in two seconds: 42",
        ]
    finally:
        worker.terminate()
        _, printed = worker.communicate(timeout=20)
    assert "Traceback" not in printed, printed
