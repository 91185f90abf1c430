"""docs/PRODUCTION.md as it stands: its blocks are typed in order, in a directory that is empty at first."""

import os
import subprocess
import sys
from pathlib import Path

from tests.broker_process import environment
from tests.certificates import openssl
from tests.documents.blocks import blocks_of, text_of
from tests.ports import free_port

PAGE = "docs/PRODUCTION.md"
BEGINS = "set -e\nradiator() { '%s' -m radiator \"$@\"; }\n"
SERVE = "radiator serve"
STARTS_WITHIN_S = 20


def test_the_page_holds_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    openssl("version")
    port = str(free_port())
    blocks = [block.text.replace("61612", port) for block in blocks_of(PAGE, text_of(PAGE)) if block.language == "sh"]
    at = next(number for number, text in enumerate(blocks) if text.startswith(SERVE))
    before, after = "".join(blocks[:at]), "".join(blocks[at + 1 :])
    begins = BEGINS % sys.executable
    typed(begins + before, tmp_path)
    log = tmp_path / "log"
    with log.open("wb") as file:
        serving = subprocess.Popen(
            [sys.executable, "-m", "radiator", *blocks[at].split()[1:]],
            cwd=tmp_path / "broker", env=environment(), stderr=file,
        )  # fmt: skip
    try:
        wait = f"for i in $(seq {10 * STARTS_WITHIN_S}); do grep -q listening ../log && break; sleep 0.1; done\n"
        printed = typed(begins + wait + after, tmp_path / "broker")
        assert "one book" in printed
        assert "The user shop may not read /queue/orders" in printed
        assert "certificate" in printed.rpartition("may not read")[2]
        assert "orders" in printed.rpartition("certificate")[2]
    finally:
        serving.terminate()
        assert serving.wait(20) == 0, log.read_text()
    assert (tmp_path / "broker" / "radiator.backup").is_file()
    secrets = [(tmp_path / "broker" / f"{name}.token").read_text().strip() for name in ("shop", "billing")]
    assert not any(secret in log.read_text() for secret in secrets)


def typed(script: str, directory: Path) -> str:
    """What it prints. Fails where it does."""
    given = {key: value for key, value in environment().items() if not key.startswith("RADIATOR_")}
    done = subprocess.run(
        ["sh", "-c", script], cwd=directory, env={**given, "HOME": os.fspath(directory)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout
