"""docs/PRODUCTION.md as it stands: its blocks are typed in order, in a home that is empty at first."""

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

from radiator.auth.tokens import sha256_of
from tests.broker_process import environment
from tests.certificates import openssl
from tests.documents.blocks import blocks_of, text_of
from tests.ports import free_port

PAGE = "docs/PRODUCTION.md"
BEGINS = "set -e\nradiator() { '%s' -m radiator \"$@\"; }\ncd\n"
SERVE = "radiator serve"
STARTS_WITHIN_S = 20


def test_the_page_holds_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    openssl("version")
    port = str(free_port())
    page = [block for block in blocks_of(PAGE, text_of(PAGE)) if block.marker == "run by"]
    blocks = [block.text.replace("61612", port) for block in page]
    at = next(number for number, text in enumerate(blocks) if text.startswith(SERVE))
    before, after = "".join(blocks[:at]), "".join(blocks[at + 1 :])
    begins = BEGINS % sys.executable
    typed(begins + before, tmp_path)
    broker = tmp_path / "broker"
    first = secrets_of(broker)
    typed(begins + before, tmp_path, "is there, and stays")  # nothing is overwritten by who types it again
    assert secrets_of(broker) == first and stat.S_IMODE(broker.stat().st_mode) == 0o700
    log = tmp_path / "log"
    with log.open("wb") as file:
        serving = subprocess.Popen(
            [sys.executable, "-m", "radiator", *blocks[at].split()[1:]],
            cwd=broker, env=environment(), stderr=file,
        )  # fmt: skip
    try:
        wait = f"for i in $(seq {10 * STARTS_WITHIN_S}); do grep -q listening log && break; sleep 0.1; done\n"
        printed = typed(begins + wait + "cd broker\n" + after, tmp_path)
        assert "one book" in printed
        assert "The user shop may not read /queue/orders" in printed
        assert "certificate" in printed.rpartition("may not read")[2]
        assert "orders" in printed.rpartition("be trusted")[2]
        assert all(word in printed for word in ("user.stock", "user.shop.tokens", "tls.certificate", "applied."))
    finally:
        serving.terminate()
        assert serving.wait(20) == 0, log.read_text()
    assert (broker / "radiator.backup").is_file()
    users = tomllib.loads((broker / "users.toml").read_text())["user"]
    assert users.keys() == {"shop", "billing"}
    (token,) = users["shop"]["tokens"]
    assert token["sha256"] == sha256_of((broker / "shop.token").read_bytes().strip())
    assert secrets_of(broker)["tls/server.key"] != first["tls/server.key"]
    assert not any(secret in log.read_text() for secret in (*first.values(), *secrets_of(broker).values()))


def secrets_of(broker: Path) -> dict[str, str]:
    files = [*broker.glob("*.token"), broker / "tls/server.key"]
    return {str(file.relative_to(broker)): file.read_text().strip() for file in files}


def typed(script: str, home: Path, *words: str) -> str:
    """What it prints. Fails where it does."""
    given = {key: value for key, value in environment().items() if not key.startswith("RADIATOR_")}
    done = subprocess.run(
        ["sh", "-c", script], env={**given, "HOME": os.fspath(home)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and all(word in done.stdout for word in words), done.stdout
    return done.stdout
