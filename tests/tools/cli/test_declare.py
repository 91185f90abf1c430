"""`radiator declare`, `bind`, `unbind`, `describe`, `delete` and `top`, each on a real broker."""

import contextlib
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from radiator.model.settings import QueueSettings
from radiator.model.validation import QUEUE, as_json
from radiator.tools.cli import main
from radiator.tools.cli.declare import _EXAMPLES
from radiator.tools.cli.top import rows_between
from radiator.tools.config import render_table
from tests.broker_process import BrokerProcess, environment
from tests.tools.cli.conftest import Run

CONFIG = """
[queue.orders]
[queue."p.*"]
max_messages = 7
[exchange.shop]
type = "topic"
bindings = [{ key = "orders.#", queue = "orders" }]
[fanout.events]
children = ["orders"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


def described(run: Run, kind: str, name: str) -> dict[str, Any]:
    status, out, err = run("describe", kind, name, "--json")
    assert (status, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


# ---- declare


def test_a_schema_is_read_here_and_sent_as_it_is(
    run: Run, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.avsc").write_text('{"type": "array", "items": "int"}')
    text = '{"type":"array","items":"int"}'
    for kind, name in (("queue", "judged"), ("log", "judged-too")):
        assert run("declare", kind, name, "--schema", "order.avsc") == (0, f"{kind.title()} {name} declared.\n", "")
        assert run("declare", kind, name, "--schema", text)[1].endswith("already exists, with these settings.\n")
        assert described(run, kind, name)["settings"]["schema"] == text
    status, _, err = run("declare", "queue", "other", "--schema", "missing.avsc")
    assert status == 2 and "which cannot be read" in err


def test_a_queue_is_declared_once_and_deleted(run: Run, client: Client) -> None:
    line = ("declare", "queue", "/queue/new", "--max-messages", "5", "--overflow", "reject")
    assert run(*line) == (0, "Queue new declared.\n", "")
    assert run(*line) == (0, "Queue new already exists, with these settings.\n", "")
    assert run(*line, "--passive") == (0, "Queue new already exists, with these settings.\n", "")
    client.send("/queue/new", b"1")
    status, out, err = run("declare", "queue", "new", "--max-messages", "6")
    assert (status, out) == (1, "")
    assert err == "radiator: /queue/new already exists: its max_messages is 5, not 6.\n"
    assert run("delete", "new", "--if-empty")[0] == 1
    assert run("delete", "new") == (0, "Queue new deleted, and 1 message in it.\n", "")
    assert run("declare", "queue", "new", "--passive") == (1, "", "radiator: There is no /queue/new.\n")


@pytest.mark.parametrize(
    ("option", "value", "means"),
    [
        ("--persistent", "false", False),
        ("--max-messages", "5", 5),
        ("--max-messages", "none", None),
        ("--max-bytes", "2MiB", 2 * 1024 * 1024),
        ("--max-bytes", "100", 100),
        ("--overflow", "drop-oldest", "drop-oldest"),
        ("--dead-letter", "orders", "orders"),
        ("--dead-letter", "none", None),
        ("--max-redeliveries", "0", 0),
        ("--message-ttl-ms", "1", 1),
        ("--ack-timeout-s", "2.5", 2.5),
        ("--dedup-window-s", "60", 60),
        ("--exclusive", "true", True),
        ("--single-active-consumer", "true", True),
        ("--auto-delete", "true", True),
        ("--expires-ms", "60000", 60_000),
        ("--redelivery-delay-ms", "100", 100),
        ("--redelivery-delay-factor", "1.5", 1.5),
        ("--redelivery-delay-max-ms", "5000", 5000),
        ("--scope", "node", "node"),
    ],
)
def test_every_setting_is_an_option(run: Run, option: str, value: str, means: object) -> None:
    assert run("declare", "queue", "p.1", option, value)[0] == 0
    assert described(run, "queue", "p.1")["settings"][option[2:].replace("-", "_")] == means
    run("delete", "p.1")


def test_the_options_are_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["declare", "queue", "--help"]) == 0
    printed = capsys.readouterr().out
    options = set(re.findall(r"^  --([a-z-]+) VALUE", printed, re.M))
    assert {option.replace("-", "_") for option in options} == set(QUEUE)
    assert "radiator declare queue" in printed.partition("example:")[2]


@pytest.mark.parametrize("kind", ["exchange", "fanout"])
def test_each_kind_has_an_example(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["declare", kind, "--help"]) == 0
    assert [line for line in _EXAMPLES if f" {kind} " in line][0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("header:customer", "header:customer"),
        ("/customer/id", "/customer/id"),
        ('["header:a", "/b"]', ["header:a", "/b"]),
        ('["/b"]', "/b"),
        ("none", None),
    ],
)
def test_a_key_is_a_text_or_a_list_and_described_as_a_file_has_it(
    run: Run, client: Client, value: str, key: object
) -> None:
    line = ("declare", "queue", "keyed", "--partition-key", value)
    assert run(*line) == (0, "Queue keyed declared.\n", "")
    assert run(*line)[1] == "Queue keyed already exists, with these settings.\n"
    assert described(run, "queue", "keyed")["settings"]["partition_key"] == key
    settings = tomllib.loads(run("describe", "queue", "keyed")[1].partition("\n\n[")[2].partition("]\n")[2])
    assert settings.get("partition_key") == key
    assert run("declare", "queue", "keyed", "--partition-key", "/other")[0] == 1
    assert run("delete", "keyed")[0] == 0


def test_a_key_that_is_none_is_said_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("customer", "header:", "[]", '["/a", "/a"]', "[" * 10_000):
        assert main(["declare", "queue", "q", "--partition-key", value, "--broker", "stomp://127.0.0.1:1"]) == 2
        assert "Argument --partition-key: " in capsys.readouterr().err


def test_a_wrong_value_is_said_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["declare", "queue", "q", "--max-bytes", "many", "--broker", "stomp://127.0.0.1:1"]) == 2
    printed = capsys.readouterr().err
    assert 'Argument --max-bytes: is "many"; it must be a size such as "64MiB"' in printed
    assert main(["declare", "exchange", "x", "--type", "header"]) == 2
    assert 'it must be one of "direct", "topic", "fanout"' in capsys.readouterr().err


def test_an_exchange_is_declared_bound_described_and_deleted(run: Run, client: Client) -> None:
    assert run("declare", "exchange", "x", "--type", "topic") == (0, "Exchange x declared.\n", "")
    assert run("declare", "queue", "audit")[0] == 0
    bound = "Queue audit is bound to exchange x with the key 'a.#'.\n"
    assert run("bind", "x", "a.#", "audit") == (0, bound, "")
    assert run("bind", "/exchange/x", "a.#", "/queue/audit")[1] == bound.replace("is bound", "was bound already")
    client.send("/exchange/x/a.b", b"1")
    client.send("/exchange/x/b", b"2")
    status, out, _ = run("describe", "exchange", "x")
    assert status == 0
    rows = [line.split() for line in out.splitlines() if line]
    assert rows == [
        ["exchange", "x"],
        ["type", "topic,", "durable"],
        ["accepted", "2"],
        ["unrouted", "1"],
        ["key", "queue"],
        ["a.#", "audit"],
    ]
    assert run("unbind", "x", "a.#", "audit") == (0, bound.replace("is bound", "is no longer bound"), "")
    assert run("unbind", "x", "a.#", "audit") == (0, bound.replace("is bound", "was not bound"), "")
    assert run("delete", "exchange", "x") == (0, "Exchange x deleted.\n", "")
    assert run("describe", "exchange", "x")[0] == 1
    assert run("delete", "queue", "audit") == (0, "Queue audit deleted, and 1 message in it.\n", "")


def test_a_fanout_is_declared_described_and_deleted(run: Run) -> None:
    assert run("declare", "queue", "mail")[0] == 0
    assert run("declare", "fanout", "news", "orders", "/queue/mail") == (0, "Fanout news declared.\n", "")
    assert run("declare", "fanout", "news", "--passive")[1] == "Fanout news already exists, with these settings.\n"
    rows = [line.split() for line in run("describe", "fanout", "news")[1].splitlines()]
    assert rows == [["fanout", "news"], ["accepted", "0"], ["children", "orders,", "mail"]]
    assert run("delete", "fanout", "news") == (0, "Fanout news deleted.\n", "")
    status, _, err = run("declare", "fanout", "news")
    assert status == 1 and "must be a list of at least one queue" in err


def test_what_the_configuration_declares_stays(run: Run) -> None:
    for line in (
        ("delete", "orders"),
        ("delete", "exchange", "shop"),
        ("delete", "fanout", "events"),
        ("unbind", "shop", "orders.#", "orders"),
    ):
        status, out, err = run(*line)
        assert (status, out) == (1, "")
        assert "is declared in the configuration" in err


# ---- describe


def test_a_queue_is_described_with_settings_that_config_toml_takes(run: Run, client: Client) -> None:
    client.send("/queue/orders", b"12345")
    client.send("/queue/orders", b"1", {"delay": "60000"})
    out = run("describe", "queue", "orders")[1]
    assert re.search(r"^messages +2 \(\d+ B\)$", out, re.M)
    assert re.search(r"^oldest +ready since \d+ s$", out, re.M)
    assert re.search(r"^delayed +1$", out, re.M)
    assert re.search(r"^orders\.# +shop$", out, re.M)
    assert out.endswith("\n\n" + render_table("queue", "orders", as_json(QueueSettings())))
    run("purge", "orders")
    assert re.search(r"^oldest +none is ready$", run("describe", "queue", "orders")[1], re.M)


def test_a_name_cannot_command_the_terminal(run: Run, client: Client) -> None:
    assert run("declare", "queue", "a\u202eb")[1] == "Queue a\\u202eb declared.\n"
    assert run("bind", "amq.topic", "k\u202e", "a\u202eb")[0] == 0
    for line in (
        ("describe", "queue", "a\u202eb"),
        ("describe", "exchange", "amq.topic"),
        ("top", "--count", "1", "--interval", "0.1"),
    ):
        assert "\u202e" not in run(*line)[1]
    run("delete", "a\u202eb")


# ---- stats, queues


def test_stats_and_queues_show_exchanges_and_what_is_delayed(run: Run, client: Client) -> None:
    client.send("/exchange/shop/nobody", b"1")
    client.send("/queue/orders", b"1", {"delay": "60000"})
    rows = [line.split() for line in run("stats")[1].splitlines()]
    assert ["exchange", "type", "accepted", "unrouted", "bindings"] in rows
    (shop,) = (row for row in rows if row[:2] == ["shop", "topic"])
    assert int(shop[2]) >= int(shop[3]) >= 1 and shop[4] == "1"
    heads, *queues = (re.split(r"  +", line) for line in run("queues")[1].splitlines())
    (orders,) = (row for row in queues if row[0] == "orders")
    assert orders[heads.index("delayed")] == "1" and orders[heads.index("ready")] == "0"
    text = run("stats", "--prometheus")[1]
    assert 'radiator_queue_delayed{queue="orders"} 1\n' in text
    assert f'radiator_exchange_unrouted_total{{exchange="shop"}} {shop[3]}\n' in text
    assert 'radiator_exchange_bindings{exchange="shop"} 1\n' in text
    run("purge", "orders")


# ---- top


def test_top_shows_what_moves_above_what_does_not(run: Run, client: Client, broker: BrokerProcess) -> None:
    for name in ("busy", "full", "empty"):
        run("declare", "queue", name)
    client.send_many("/queue/full", [b"x"] * 50)
    is_over = threading.Event()

    def load() -> None:
        with Client(broker.address) as sender:
            sender.subscribe("/queue/busy")
            while not is_over.is_set():
                sender.send("/queue/busy", b"x")
                sender.receive(5)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        status, out, err = run("top", "--count", "2", "--interval", "0.3")
    finally:
        is_over.set()
        thread.join()
    assert (status, err) == (0, "")
    looks = out.strip().split("\n\n")
    assert len(looks) == 2
    summary, heads, *rows = looks[1].split("\n")
    assert summary.startswith("up ") and "accepted/s" in summary and "unrouted/s" in summary
    assert re.split(r"  +", heads) == [
        "queue",
        "accepted/s",
        "acked/s",
        "ready",
        "unacked",
        "delayed",
        "consumers",
        "oldest",
    ]
    busy, full, *others = ([cell for cell in re.split(r"  +", row) if cell] for row in rows)
    assert busy[0] == "busy" and float(busy[1]) > 0 and float(busy[2]) > 0 and busy[6] == "1"
    assert full[:7] == ["full", "0.0", "0.0", "50", "0", "0", "0"] and full[7].endswith("s")
    assert ["empty", "0.0", "0.0", "0", "0", "0", "0"] in others
    for name in ("busy", "full", "empty"):
        run("delete", name)


def test_top_ends_well_when_interrupted(broker: BrokerProcess) -> None:
    command = [sys.executable, "-m", "radiator", "top", "--interval", "0.1", "--broker", broker.address]
    with subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a shell that runs the suite in the background has it ignore interrupts, and so would this
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"up ")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert (running.returncode, err) == (0, b"")


def test_top_ends_when_nobody_reads(broker: BrokerProcess) -> None:
    command = f"{sys.executable} -m radiator top --interval 0.1 --broker {broker.address} | head -n 1"
    ended = subprocess.run(command, shell=True, env=environment(), capture_output=True, timeout=20, check=False)
    assert ended.stdout.startswith(b"up ") and ended.stderr == b""


def test_top_shows_so_many_and_counts_the_others(run: Run) -> None:
    names = [f"many{number:02}" for number in range(25)]
    for name in names:
        run("declare", "queue", name)
    out = run("top", "--count", "1", "--interval", "0.1")[1]
    assert len([line for line in out.splitlines() if line.startswith("many")]) <= 20
    assert re.search(r"^and \d+ queues more, which move less$", out, re.M)
    for name in names:
        run("delete", name)


def test_top_fills_a_terminal_and_no_more(broker: BrokerProcess, run: Run) -> None:
    for number in range(9):
        run("declare", "queue", f"row{number}")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 200, 0, 0))
    command = [sys.executable, "-m", "radiator", "top", "--count", "2", "--interval", "0.1", "--broker", broker.address]
    sized = {name: value for name, value in environment().items() if name not in ("LINES", "COLUMNS")}
    with subprocess.Popen(command, env=sized, stdout=theirs, stderr=subprocess.PIPE) as running:
        os.close(theirs)
        printed = b""
        with contextlib.suppress(OSError):  # its end, as Linux tells it
            while more := os.read(ours, 65_536):
                printed += more
        assert running.wait(20) == 0
    os.close(ours)
    nothing, *looks = printed.decode().split("\x1b[H\x1b[2J")
    assert nothing == "" and len(looks) == 2
    assert all(look.count("\n") == 9 for look in looks)  # 6 queues, what stands around them, and a line for the cursor
    for number in range(9):
        run("delete", f"row{number}")


def test_rates_are_of_the_time_between_two_looks() -> None:
    before = {"queues": {"a": {"accepted": 10, "acked": 0}, "b": {"accepted": 5, "acked": 5}}}
    now = {
        "queues": {
            "a": {"accepted": 14, "acked": 2, "messages": 1},
            "b": {"accepted": 1, "acked": 0, "messages": 2},  # made anew
            "c": {"accepted": 3, "acked": 3, "messages": 0},
            "d": {"accepted": 0, "acked": 0, "messages": 2},
        }
    }
    rows = rows_between(before, now, 2.0)
    assert [(row.name, row.accepted, row.acked) for row in rows] == [
        ("a", 2.0, 1.0),
        ("c", 1.5, 1.5),
        ("b", 0.0, 0.0),
        ("d", 0.0, 0.0),
    ]
    assert rows_between({}, {"queues": {}}, 0.0) == []


# ---- a restart


def test_what_was_declared_is_there_after_a_restart_and_after_a_kill(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("again")
    with BrokerProcess(directory, CONFIG) as first:
        to = ["--broker", first.address]
        assert main(["declare", "queue", "new", "--max-messages", "5", *to]) == 0
        assert main(["declare", "exchange", "x", "--type", "topic", *to]) == 0
        assert main(["declare", "fanout", "news", "new", *to]) == 0
        assert main(["bind", "x", "#", "new", *to]) == 0
        first.kill()
    for _ in range(2):
        with BrokerProcess(directory, CONFIG) as again, Client(again.address) as client:
            queue = client.admin({"do": "describe", "queue": "new"})
            assert queue["settings"]["max_messages"] == 5
            assert queue["bindings"] == [{"exchange": "x", "key": "#"}]
            assert client.admin({"do": "describe", "fanout": "news"})["children"] == ["new"]
