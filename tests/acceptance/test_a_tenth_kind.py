"""A broker with one kind of address more (tests/core/kinds/sink.py), from outside."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.wire import Wire
from tests.broker_process import CHECKOUT, BrokerProcess

PROGRAM = ("-m", "tests.core.kinds.sink")


def ask(wire: Wire, **request: Any) -> dict[str, Any]:
    return dict(json.loads(wire.admin(json.dumps(request).encode())))


def test_it_is_sent_to_shown_and_there_after_a_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, program=PROGRAM) as broker:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            assert ask(wire, do="declare", sink="s", max_bytes=4) == {"ok": True, "created": True}
            wire.ask("SEND", {"destination": "/sink/s"}, b"1234")
            assert ask(wire, do="describe", sink="s")["accepted"] == 1
        printed = subprocess.run(
            [sys.executable, *PROGRAM, "describe", "/sink/s", "--broker", broker.address],
            capture_output=True, text=True, cwd=CHECKOUT, timeout=30, check=True,
        )  # fmt: skip
        assert printed.stdout.split()[:4] == ["sink", "s", "accepted", "1"]
        broker.kill()
        broker.start()
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            assert ask(wire, do="stats", section="sinks") == {
                "ok": True, "sinks": {"s": {"accepted": 0, "last_s": 0, "max_bytes": 4}},
            }  # fmt: skip
            wire.begin_ask("SEND", {"destination": "/sink/s"}, b"12345")
            assert wire.refusal()["code"] == "too-large"
