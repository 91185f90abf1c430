"""The core, its words and a store work without a server."""

import ast
import subprocess
import sys
from pathlib import Path

from radiator.storage.check import check
from tests.broker_process import CHECKOUT, environment
from tests.house.hour import lines_of_code

LINES_MAX = 30

# neither the hub nor the floor above is to be had
WITHOUT_SERVER = """\
import runpy, sys
sys.modules["gevent"] = sys.modules["radiator.server"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
"""


def test_it_sends_receives_and_acks_in_one_process_again_and_again(tmp_path: Path) -> None:
    example = CHECKOUT / "examples" / "embedded.py"
    for _ in range(2):
        command = [sys.executable, "-c", WITHOUT_SERVER, str(example), str(tmp_path / "data")]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=40)
        assert (ended.returncode, ended.stderr) == (0, "")
        receipt, delivered = ended.stdout.splitlines()
        assert receipt == "Receipt(connection=1, receipt=b'sent')"
        assert delivered.startswith("Deliver(") and "body=b'a chair'" in delivered
    report = check(tmp_path / "data")
    assert (report.findings, report.queues, report.messages) == ([], 1, 0)


def test_it_is_short() -> None:
    source = (CHECKOUT / "examples" / "embedded.py").read_text(encoding="utf-8")
    assert len(set(lines_of_code(source, ast.parse(source)))) <= LINES_MAX
