"""The commands that speak to a broker, each on a real one."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.protocols.prometheus.metrics import metrics
from radiator.tools.cli import main
from radiator.tools.cli.bench import SHAPES
from radiator.tools.cli.stats import _summary
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess, environment
from tests.protocols.prometheus.reading import read
from tests.tools.cli.conftest import Run

CONFIG = EVERYTHING_MAY_BE_CREATED + (
    '[queue."memory"]\npersistent = false\n[fanout."events"]\nchildren = ["audit", "mail"]\n'
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


def row_of(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


# ---- send and receive


def test_send_then_receive_carries_a_file(broker: BrokerProcess, run: Run, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\x00\xffbinary")
    assert run("send", "/queue/carried", "--file", str(body), "--header", "colour:a:b", "--create") == (0, "", "")
    received = tmp_path / "received"
    status = subprocess.run(
        [sys.executable, "-m", "radiator", "receive", "carried", "--count", "1", "--timeout", "5", "--raw"],
        env=environment() | {"RADIATOR_BROKER": broker.address},
        stdout=received.open("wb"),
        check=False,
    )
    assert status.returncode == 0
    assert received.read_bytes() == body.read_bytes()


def test_send_sends_the_text_that_it_is_given(
    run: Run, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("send", "/queue/said", "hello", "--create") == (0, "", "")
    Path("hello").write_bytes(b"of a file")
    status, out, err = run("send", "/queue/said", "hello")
    assert (status, out) == (0, "") and "'hello' is sent, not the file of that name: --file sends it" in err
    assert run("send", "queue", "said", "--file", "hello") == (0, "", "")
    client.subscribe("/queue/said")
    received = [client.receive(5) for _ in range(3)]
    assert [message and message.body for message in received] == [b"hello", b"hello", b"of a file"]


def test_send_reads_standard_input(run: Run, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for argument in (["-"], []):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
        assert run("send", "/queue/piped", *argument, "--header", "kind:x", "--create")[0] == 0
    client.subscribe("/queue/piped")
    for _ in range(2):
        message = client.receive(5)
        assert message is not None
        assert (message.body, message.headers["kind"]) == (b"from a pipe", "x")


def test_send_says_what_the_broker_refused(run: Run) -> None:
    status, out, err = run("send", "/log/at-all", "x")
    assert (status, out) == (1, "")
    assert err.startswith("radiator: ")
    assert err.count("\n") == 1


def test_receive_separates_bodies_by_newlines_and_acks_them(run: Run, client: Client) -> None:
    client.send_many("/queue/three", ["one", "two", "three"])
    assert run("receive", "/queue/three", "--count", "2") == (0, "one\ntwo\n", "")
    assert client.admin({"do": "stats"})["queues"]["three"]["acked"] == 2
    assert run("receive", "/queue/three", "--timeout", "0.2", "--raw") == (0, "three", "")


def test_receive_says_that_too_few_came(run: Run, client: Client) -> None:
    client.send("/queue/few", "one")
    status, out, err = run("receive", "/queue/few", "--count", "2", "--timeout", "0.1")
    assert (status, out) == (1, "one\n")
    assert err == "radiator: Only 1 message of 2 came, and no more within 0.1 s.\n"


def test_receive_from_a_topic(broker: BrokerProcess, run: Run, client: Client) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(run("receive", "/topic/news.*", "--count", "1")))
    thread.start()
    while not results:
        client.send("/topic/news.today", "rain")
        thread.join(0.05)
    assert results[0][0] == 0
    assert results[0][1] == "rain\n"


def test_receive_does_not_ack_what_it_could_not_write(broker: BrokerProcess, client: Client) -> None:
    client.send("/queue/unwritten", "precious")
    buffered = environment() | {"PYTHONUNBUFFERED": ""}  # as a shell would have it
    arguments = ["receive", "/queue/unwritten", "--broker", broker.address, "--timeout", "5"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "radiator", *arguments], env=buffered, stdout=full, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (74, "radiator: No space left on device.\n")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        gone = subprocess.run(
            [sys.executable, "-m", "radiator", *arguments], env=buffered, stdout=writer, stderr=subprocess.PIPE,
            text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (gone.returncode, gone.stderr) == (1, "")
    client.subscribe("/queue/unwritten")
    message = client.receive(5)
    assert message is not None
    assert (message.body, message.headers["redelivered"]) == (b"precious", "true")


def test_receive_shows_escapes_on_a_terminal(broker: BrokerProcess, client: Client) -> None:
    client.send("/queue/hostile", "a\x1b[2Jb")
    master, slave = os.openpty()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "radiator", "receive", "hostile", "--count", "1", "--broker", broker.address],
            env=environment(), stdout=slave, check=False,
        )  # fmt: skip
        assert ended.returncode == 0
        assert os.read(master, 1000) == b"a\\x1b[2Jb\r\n"
    finally:
        os.close(master)
        os.close(slave)


# ---- looking


def test_queues_lists_each_queue(run: Run, client: Client) -> None:
    client.send_many("/queue/listed", ["12345", "67890"])
    client.send("/queue/memory", "x")
    client.subscribe("/queue/listed", ack="client-individual")
    assert client.receive(5) is not None
    status, out, _ = run("queues")
    assert status == 0
    assert out.splitlines()[0].split()[:3] == ["queue", "kind", "messages"]
    listed = row_of(out, "listed")
    assert listed[:3] == ["listed", "persistent", "2"]
    assert listed[5:] == ["1", "1", "0", "0", "1", "0"]
    assert row_of(out, "memory")[1] == "memory"
    status, out, _ = run("queues", "--match", "list*")
    assert status == 0 and "listed" not in out, "a wildcard is a whole word"
    status, out, _ = run("queues", "--match", "listed.#")
    assert status == 0 and [line.split()[0] for line in out.splitlines()] == ["queue", "listed"]
    status, _, err = run("queues", "--match", "*.*.*.*")
    assert status == 1 and "at most 3 are * or #" in err


def test_stats_tells_ledgers_and_sums(run: Run, client: Client) -> None:
    client.send_many("/queue/counted", ["1", "2", "3"])
    client.send("/fanout/events", "x")
    status, out, _ = run("stats")
    assert status == 0
    assert row_of(out, "counted") == ["counted", "3", "3", "0", "0", "0", "0", "0"]
    assert "does not add up" not in out
    assert re.search(
        r"disk: [\d.]+ .iB free on the file system, [\d.]+ .*B reusable in the store's file; room for", out
    )
    fanout = row_of(out, "events")
    assert fanout[2:] == ["audit", "mail"]


def test_stats_tells_json_and_prometheus(run: Run, client: Client) -> None:
    client.send("/queue/told", "1")
    status, out, _ = run("stats", "--json")
    answer = json.loads(out)
    assert (status, answer["ok"], answer["queues"]["told"]["accepted"]) == (0, True, 1)
    status, out, _ = run("stats", "--prometheus")
    assert status == 0
    families = read(out)
    assert families["radiator_queue_accepted_total"][2]["", 'queue="told"'] == 1
    assert families["radiator_commit_latency_seconds"][2]["_count", ""] >= 1
    assert families["radiator_delivery_latency_seconds"][2]["_count", ""] >= 1
    assert 0 < families["radiator_disk_free_bytes"][2]["", ""] <= families["radiator_disk_room_bytes"][2]["", ""]
    known = {metric.name: (metric.kind, metric.help) for metric in metrics()}
    assert {name: (kind, answered) for name, (kind, answered, _) in families.items()}.items() <= known.items()


@pytest.mark.parametrize(
    ("left_s", "line"),
    [
        (90_061, "certificate: valid for 1 d 1 h more"),
        (0, "certificate: valid for 0 s more"),
        (-7_200, "THE CERTIFICATE EXPIRED 2 h AGO: clients refuse it"),
        (None, ""),
    ],
)
def test_stats_says_how_long_the_certificate_is_valid(left_s: int | None, line: str) -> None:
    found = _summary({} if left_s is None else {"certificate_left_s": left_s})
    assert (line in found.splitlines()) if line else "certificate" not in found.lower()


def test_stats_says_loudly_that_a_ledger_does_not_add_up(
    run: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.send("/queue/wrong", "1")
    right = client.admin({"do": "stats"})
    right["queues"]["wrong"]["adds_up"] = False
    monkeypatch.setattr("radiator.tools.cli.stats.ask", lambda arguments, request: right)
    status, out, _ = run("stats")
    assert status == 1
    assert "!!! The ledger of queue wrong does not add up: this is a bug." in out


def test_stats_watches_until_interrupted(broker: BrokerProcess) -> None:
    command = [sys.executable, "-m", "radiator", "stats", "--watch", "--json", "--broker", broker.address]
    watching = subprocess.Popen(
        command,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the suite in the background has it ignore interrupts, and so would this
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["ok"] is True
    watching.send_signal(signal.SIGINT)
    assert watching.communicate(timeout=10)[1] == ""
    assert watching.returncode == 0


def test_peek_shows_messages_and_changes_nothing(run: Run, client: Client) -> None:
    client.send("/queue/peeked", "line\nsecond \x1b[2J", {"colour": "re\nd", "content-type": "text/plain"})
    client.send("/queue/peeked", b"\xff\x00")

    def numbers() -> dict[str, object]:
        return client.admin({"do": "stats"})["queues"]["peeked"] | {"oldest_ms": "grows"}

    before = numbers()
    status, out, _ = run("peek", "/queue/peeked")
    assert status == 0
    assert re.search(r"  destination:/queue/peeked\n  colour:re\\nd\n  content-type:text/plain\n\n  line\n", out)
    assert "  second \\x1b[2J\n" in out
    assert "  ff00\n" in out
    assert numbers() == before
    assert run("peek", "peeked", "--count", "1")[1].count("destination:") == 1
    assert run("purge", "peeked")[0] == 0
    assert run("peek", "peeked") == (0, "peeked holds no message.\n", "")


def test_peek_of_nothing_is_refused(run: Run) -> None:
    status, out, err = run("peek", "unheard-of")
    assert (status, out) == (1, "")
    assert "unheard-of" in err
    status, _, err = run("peek", "unheard-of", "--count", "1001")
    assert status == 1


# ---- changing


def test_purge_spares_what_is_unacked(run: Run, client: Client) -> None:
    client.send_many("/queue/purged", ["1", "2", "3"])
    client.subscribe("/queue/purged", ack="client-individual")
    message = client.receive(5)
    assert message is not None
    assert run("purge", "purged") == (0, "2 messages purged from purged.\n", "")
    client.ack(message)


def test_delete_deletes_a_queue_without_consumers(broker: BrokerProcess, run: Run, client: Client) -> None:
    client.send_many("/queue/deleted", ["1"])
    with Client(broker.address) as consumer:
        consumer.subscribe("/queue/deleted", ack="client-individual", subscription="s")
        status, out, err = run("delete", "deleted")
        assert (status, out) == (1, "")
        assert err == "radiator: /queue/deleted has 1 consumer and 1 unacked message: stop them first.\n"
        consumer.unsubscribe("s")
    assert run("delete", "deleted") == (0, "Queue deleted deleted, and 1 message in it.\n", "")
    assert "deleted" not in client.admin({"do": "stats"})["queues"]


def test_move_moves_the_oldest(run: Run, client: Client) -> None:
    client.send_many("/queue/from", ["1", "2", "3"])
    assert run("move", "from", "to", "--count", "1", "--create") == (0, "1 message moved from from to to.\n", "")
    client.subscribe("/queue/to")
    moved = client.receive(5)
    assert moved is not None
    assert moved.body == b"1"
    assert run("move", "/queue/from", "/queue/to")[1] == "2 messages moved from from to to.\n"


# ---- data


def test_check_backup_and_restore_go_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with BrokerProcess(tmp_path / "one") as broker:
        with Client(broker.address) as client:
            client.send_many("/queue/kept", [f"{number}" for number in range(100)])
        assert main(["check", str(broker.data_dir)]) == 0
        assert "every record and every ledger is right" in capsys.readouterr().out
        for options in ([], ["--compact"]):
            assert main(["backup", str(broker.data_dir), str(tmp_path / "backup"), *options]) == 0
        assert broker.stop() == 0
    assert main(["restore", str(tmp_path / "backup"), str(tmp_path / "two" / "data")]) == 0
    assert main(["restore", str(tmp_path / "backup"), str(tmp_path / "two" / "data")]) == 1
    with BrokerProcess(tmp_path / "two") as restored, Client(restored.address) as client:
        assert client.admin({"do": "stats"})["queues"]["kept"]["stored"] == 100
        client.subscribe("/queue/kept")
        message = client.receive(5)
        assert message is not None
        assert message.body == b"0"


def test_check_lists_what_is_wrong(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with Client(broker.address) as client:
            client.send("/queue/kept", b"needle" * 100)
        broker.stop()
    data = next(path for path in broker.data_dir.iterdir() if path.suffix == ".mdb" and path.stat().st_size > 8192)
    octets = bytearray(data.read_bytes())
    octets[octets.index(b"needleneedle") + 3] ^= 1
    data.write_bytes(octets)
    ended = subprocess.run(
        [sys.executable, "-m", "radiator", "check", str(broker.data_dir)],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert len(ended.stdout.splitlines()) == 1
    assert "1 thing wrong" in ended.stderr


# ---- bench


def test_bench_prints_its_table_and_leaves_the_queue_empty(run: Run, client: Client) -> None:
    status, out, err = run("bench", "--seconds", "0.5")
    assert (status, err) == (0, "")
    for shape in SHAPES:
        line = next(line for line in out.splitlines() if line.startswith(shape.name))
        assert int(line.removeprefix(shape.name).split()[0]) > 0
    queue = client.admin({"do": "stats"})["queues"]["radiator-bench"]
    assert queue["stored"] == 0
    assert queue["accepted"] == queue["acked"] > 0


def test_bench_refuses_a_queue_that_is_not_empty(run: Run, client: Client) -> None:
    client.send("/queue/somebody", "theirs")
    status, _, err = run("bench", "/queue/somebody")
    assert status == 1
    assert "is not empty" in err


def test_bench_on_a_log_says_what_stays_there(run: Run, client: Client) -> None:
    client.admin({"do": "declare", "log": "benched", "partitions": 2})
    bench = ["bench", "/log/benched", "--seconds", "0.5"]
    status, out, err = run(*bench)
    assert (status, err) == (0, "")
    assert "It is a log, which keeps what it is sent: producers alone are measured." in out
    assert [line for line in out.splitlines() if line.startswith("end to end")] == []
    assert all(shape.name in out for shape in SHAPES if not shape.consumers)
    kept = sum(client.admin({"do": "describe", "log": "benched"})["partitions"]["next"])
    assert kept > 0 and f"{kept} records are in /log/benched now" in out
    status, out, err = run(*bench)
    assert (status, out) == (1, "") and f"/log/benched has {kept} records" in err and "a log of its own" in err
    assert sum(client.admin({"do": "describe", "log": "benched"})["partitions"]["next"]) == kept
    client.admin({"do": "delete", "log": "benched"})
    client.admin({"do": "declare", "log": "benched"})
    answer = json.loads(run(*bench, "--json")[1])
    assert answer["records"] == client.admin({"do": "describe", "log": "benched"})["partitions"]["next"][0] > 0


def test_receive_takes_no_more_than_it_was_asked_for(run: Run, client: Client) -> None:
    client.send("/queue/two", b"one", confirm=True)
    client.send("/queue/two", b"two", confirm=True)
    assert run("receive", "/queue/two", "--count", "1")[:2] == (0, "one\n")
    client.subscribe("/queue/two", ack="client-individual")
    message = client.receive(timeout_s=5)
    assert message is not None and message.body == b"two" and message.headers["redelivered"] == "false"
    client.ack(message)


def test_options_may_stand_anywhere(run: Run) -> None:
    assert run("send", "/queue/anywhere", "--header", "a:b", "carried", "--create") == (0, "", "")
    assert run("receive", "/queue/anywhere", "--count", "1")[:2] == (0, "carried\n")


def test_move_to_what_is_no_queue_is_a_usage_error(run: Run) -> None:
    status, _, printed = run("move", "orders", "/topic/x")
    assert status == 2 and "'/topic/x' is not a queue" in printed
