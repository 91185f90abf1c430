"""`radiator reload` on a real broker: shown first, asked at a terminal, applied, or refused with every mistake."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.tools.cli import main
from tests.broker_process import SERVER, BrokerProcess
from tests.certificates import Authority
from tests.tls_broker import ENCRYPTED
from tests.tools.cli.conftest import Run

BEFORE = "[queue.orders]\nmax_messages = 5\n"
AFTER = """[limits]
max_headers = 99
[queue.orders]
max_messages = 2
[queue.new]
overflow = "reject"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), BEFORE) as running:
        yield running


@pytest.fixture(autouse=True)
def as_before(broker: BrokerProcess, run: Run) -> None:
    write(broker, BEFORE)
    assert run("reload", "--yes")[0] == 0


def write(broker: BrokerProcess, tables: str) -> None:
    broker.config_file.write_text(SERVER + tables)


def bound(run: Run) -> int:
    found: int = json.loads(run("describe", "queue", "orders", "--json")[1])["settings"]["max_messages"]
    return found


@contextmanager
def at_a_terminal(monkeypatch: pytest.MonkeyPatch, typed: str) -> Iterator[None]:
    """What is typed there is what the command reads."""
    terminal, ours = os.openpty()
    os.write(terminal, typed.encode() + b"\n")
    with open(ours, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield
    os.close(terminal)


def test_the_differences_are_shown_and_a_dry_run_changes_nothing(broker: BrokerProcess, run: Run) -> None:
    write(broker, AFTER)
    status, out, err = run("reload", "--dry-run")
    assert status == 0 and bound(run) == 5
    assert [line.split() for line in out.splitlines()] == [
        ["setting", "in", "force", "in", "the", "file", "takes", "effect"],
        ["limits.max_headers", "256", "99", "with", "a", "restart"],
        ["queue.orders.max_messages", "5", "2", "now"],
        ["queue.new", "-", '{"overflow":', '"reject"}', "now"],
    ]
    assert err.startswith("warning: ") and "queue.new.overflow has no effect" in err


def test_where_nobody_can_be_asked_it_applies(broker: BrokerProcess, run: Run) -> None:
    write(broker, AFTER)
    status, out, _ = run("reload")
    assert status == 0 and bound(run) == 2
    assert out.splitlines()[-1] == "2 differences applied. 1 difference waits for a restart."
    status, out, _ = run("reload", "--json")
    answer = json.loads(out)
    assert status == 0 and answer["applied"] and [one["setting"] for one in answer["changes"]] == ["limits.max_headers"]


@pytest.mark.parametrize("typed, applied", [("", False), ("n", False), ("y", True), ("Yes", True)])
def test_at_a_terminal_it_asks(
    broker: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, applied: bool
) -> None:
    write(broker, AFTER)
    with at_a_terminal(monkeypatch, typed):
        status, out, _ = run("reload")
    assert (status, bound(run)) == ((0, 2) if applied else (1, 5))
    assert ("Nothing was changed." in out) is not applied


def test_with_yes_it_does_not_ask(broker: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(broker, AFTER)
    with at_a_terminal(monkeypatch, "n"):
        assert run("reload", "--yes")[0] == 0 and bound(run) == 2


def test_every_mistake_is_said_and_the_status_is_2(broker: BrokerProcess, run: Run) -> None:
    write(broker, "[queue.orders]\nmax_messages = 0\n[limit]\n")
    status, out, err = run("reload")
    assert (status, out) == (2, "") and bound(run) == 5
    assert "queue.orders.max_messages is 0" in err and "limit is not a table" in err and "Nothing was changed." in err


def test_what_is_in_force_already_is_said(broker: BrokerProcess, run: Run) -> None:
    assert run("reload") == (0, "The file says what is in force.\n0 differences applied.\n", "")


def test_the_file_may_have_moved(broker: BrokerProcess, run: Run, tmp_path: Path) -> None:
    broker.config_file.rename(tmp_path / "away")
    status, _, err = run("reload")
    assert status == 2 and "cannot be read" in err
    (tmp_path / "away").rename(broker.config_file)


USER = '[user.shop]\npassword = "{}"\nread = [{}]\n'
RULES = [f"/queue/orders.{number:04d}.#" for number in range(12)]


def test_a_user_is_shown_with_rules_and_without_secrets_and_is_not_cut_where_it_is_piped(
    broker: BrokerProcess, run: Run
) -> None:
    hashed = str(made(b"x", bytes(16), Cost(ln=10)))
    broker.config_file.chmod(0o600)
    write(broker, BEFORE + USER.format(hashed, ", ".join(f'"{rule}"' for rule in RULES)))
    status, out, _ = run("reload", "--dry-run")
    (_, row) = out.splitlines()
    assert status == 0 and all(rule in row for rule in RULES) and '"password": "a secret"' in row
    assert row.endswith("with a restart") and hashed not in out


def test_on_a_terminal_what_has_no_room_beside_stands_below(
    broker: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(broker, AFTER)
    needed = max(map(len, run("reload", "--dry-run")[1].splitlines()))
    for columns, is_table in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr("radiator.tools.cli.reload.terminal_columns", lambda columns=columns: columns)
        out = run("reload", "--dry-run")[1]
        assert out.startswith("setting  ") is is_table
    assert 'queue.new\n  in force: -\n  in the file: {"overflow": "reject"}\n  takes effect: now\n' in out


def test_another_certificate_is_shown_by_its_names_and_warned_of_where_it_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path)
    authority.pair("server")
    with BrokerProcess(tmp_path, ENCRYPTED) as broker:
        authority.pair("server", names="DNS:other.example,IP:10.0.0.7", days=-1)
        for words in (["reload", "--dry-run", "--config"], ["reload", "--yes", "--config"], ["config"]):
            assert main([*words, str(broker.config_file)]) == 0
            printed = capsys.readouterr()
            assert "warning: The certificate for other.example, 10.0.0.7, was valid until " in printed.err
            if words != ["config"]:
                (row,) = [line for line in printed.out.splitlines() if line.startswith("tls.certificate")]
                assert "for localhost, 127.0.0.1; valid until" in row and "for other.example, 10.0.0.7; valid" in row
        assert "certificate_not_valid" in broker.log and "no_effect" not in broker.log
