"""`radiator audit` and `radiator explain`: of a running broker's store, of a stopped one's, and of an archive."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from radiator.model.journal import JournalEvent
from radiator.model.message import message_id, position_of
from radiator.model.story import TRACED_MAX
from radiator.tools.cli import main
from tests.broker_process import BrokerProcess
from tests.tools.archive.logs import NOON_MS, Writer, event_of

CONFIG = """
[journal]
enabled = true
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 1
[queue."orders.dead"]
[queue.audit]
[queue.mail]
[fanout.news]
children = ["audit", "mail"]
[queue.only]
[fanout.lone]
children = ["only"]
"""


class Runner:
    """What a command printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        status = main([str(one) for one in arguments])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(capsys)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    """A broker through which messages have gone: and the message-id of one with a long story."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as broker:
        with Client(broker.address, answer_timeout_s=10) as client:
            client.send("/fanout/news", b"n")
            client.send("/fanout/lone", b"n")
            client.send("/queue/orders", b"poison")
            client.subscribe("/queue/orders", ack="client-individual")
            one = ""
            for _ in range(2):
                message = client.receive(5)
                assert message is not None
                one = message.headers["message-id"]
                client.nack(message)
            for body in (b"1", b"2"):
                client.send("/queue/orders", body)
                message = client.receive(5)
                assert message is not None and message.body == body
                client.ack(message)
            client.admin({"do": "move", "from": "orders.dead", "to": "mail"})
        broker.kill()
        broker.start()
        time.sleep(0.3)  # what is told of deliveries
        yield broker, one


def test_everything_is_accounted_for(run: Runner, lived: tuple[BrokerProcess, str], tmp_path: Path) -> None:
    broker, _ = lived
    status, out, err = run("audit", "--config", broker.config_file, "--json")
    of_store = json.loads(out)
    assert (status, err, of_store["wrong"]) == (0, "", [])
    assert of_store["counts"] == {"acked": 2, "dead-lettered": 1, "moved": 1, "stored": 4}
    assert of_store["has_snapshot"] and of_store["stretches"] == 1
    pytest.importorskip("pyarrow")
    assert run("archive", "--config", broker.config_file, "--to", tmp_path / "archive")[0] == 0
    status, out, _ = run("audit", "--archive", tmp_path / "archive", "--json")
    assert (status, json.loads(out)) == (0, of_store)
    out = run("audit", "--data", broker.data_dir)[1]
    assert "stored 4 still in their queues" in " ".join(out.split()) and "in 1 stretch without a gap" in out


def test_one_messages_story(run: Runner, lived: tuple[BrokerProcess, str], tmp_path: Path) -> None:
    broker, one = lived
    status, out, err = run("explain", "--config", broker.config_file, one)
    assert (status, err) == (0, "")
    lines = [line.partition("  ")[2].partition("  ")[2] for line in out.splitlines()]
    dead, moved = (line.removesuffix(":") for line in out.splitlines() if not line.startswith(" ") and one not in line)
    consumer = lines[2].removeprefix("delivered to ")
    assert lines == [
        "",
        "accepted in orders (6 B)",
        f"delivered to {consumer}",
        f"given back by {consumer}",
        f"delivered to {consumer}, redelivery 1",
        f"given back by {consumer}",
        f"dead-lettered (redeliveries) to orders.dead, as {dead}",
        "",
        lines[8],
        f"moved to mail, as {moved}",
        "",
        lines[11],
    ]
    assert lines[8].startswith("accepted in orders.dead (") and lines[8].endswith(f"as dead-letter of {one} in orders")
    assert lines[11].endswith(f"as moved of {dead} in orders.dead")
    # whichever of them is asked for
    assert run("explain", "--data", broker.data_dir, moved)[1] == out
    events = [json.loads(line) for line in run("explain", "--data", broker.data_dir, dead, "--json")[1].splitlines()]
    assert [event["event"] for event in events].count("accepted") == 3
    pytest.importorskip("pyarrow")
    assert run("archive", "--config", broker.config_file, "--to", tmp_path / "archive")[0] == 0
    assert run("explain", "--archive", tmp_path / "archive", one)[1] == out


def test_a_fanouts_story_is_that_of_its_copies(run: Runner, lived: tuple[BrokerProcess, str]) -> None:
    broker, _ = lived
    with Client(broker.address, answer_timeout_s=10) as client:
        headers = client.admin({"do": "peek", "queue": "audit"})["messages"][0]["headers"]
        (lone,) = client.admin({"do": "peek", "queue": "only"})["messages"]
    common = dict(headers)["fanout-message-id"]
    out = run("explain", "--data", broker.data_dir, common)[1]
    assert "accepted in audit (" in out and "accepted in mail (" in out
    assert out.count(f"one of 2 copies of {common}, sent to /fanout/news") == 2
    assert "one of 1 copy of " in run("explain", "--data", broker.data_dir, lone["message_id"])[1]


def test_a_message_that_nothing_is_told_of(run: Runner, lived: tuple[BrokerProcess, str]) -> None:
    broker, one = lived
    store_id = one.partition("-")[0]
    foreign = "0123456789abcdef"
    for other, why in (
        (f"{one}999", "It may be in memory only, or from a time that the journal does not cover"),
        (f"{foreign}-1-1", f"It is of store {foreign}, and this is store {store_id}: "),
    ):
        status, out, _ = run("explain", "--data", broker.data_dir, other)
        assert status == 1 and out.startswith(f"The journal tells nothing of {other}. {why}")
    status, _, err = run("explain", "--data", broker.data_dir, "nonsense")
    assert status == 2 and "'nonsense' is not a message-id" in err


def test_an_archive_that_cannot_be_read_is_status_2(
    run: Runner, lived: tuple[BrokerProcess, str], tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    broker, one = lived
    archive = tmp_path / "archive"
    assert run("archive", "--config", broker.config_file, "--to", archive)[0] == 0
    (file,) = archive.glob("log=journal/*/*.parquet")
    file.write_bytes(file.read_bytes()[:-7])
    for command in (["audit"], ["explain", one]):
        status, _, err = run(*command, "--archive", archive)
        assert status == 2 and err.startswith(f"radiator: {file} cannot be read as a file of an archive: ")
        assert "(" not in err and err.count("\n") == 1
    # one finding for the file, not another for each way in which it shows
    status, out, err = run("archive", "--verify", archive)
    assert status == 1 and len(out.splitlines()) == 1
    assert err == "radiator: 1 thing wrong in an archive of 3 files.\n"
    file.unlink()
    for command in (["audit"], ["explain", one]):
        assert run(*command, "--archive", archive) == (2, "", f"radiator: {file} is missing.\n")


# ---- what is wrong


def position(number: int) -> int:
    return position_of(1, number)


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A store whose journal and queues disagree in every way."""
    writer = Writer(tmp_path / "store")
    journal = writer.log("journal")
    events = [JournalEvent("started", NOON_MS, "", position(0), reason="clean")]
    events += [event_of(number) for number in range(1, 8)]
    events += [
        event_of(1, "acked"),
        event_of(2, "acked"),
        event_of(2, "acked"),
        event_of(50, "acked"),
        event_of(3, "acked"),
    ]
    events += [
        JournalEvent("accepted", NOON_MS, "a", position(61)),
        JournalEvent("fanout-copy", NOON_MS, "a", position(61), other=position(60), number=2, address="/fanout/f"),
        event_of(70),
    ]
    writer.add(journal, events)
    # 4 is lost; 3 has ended and is there; 55 was never accepted
    writer.queue("orders", [position(number) for number in (3, 5, 6, 7, 55, 70)])
    writer.queue("a", [position(61)])
    writer.close()
    return writer.path


def ids(answer: dict[str, Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in answer["wrong"]:
        found.setdefault(one["verdict"], []).append(int(one["message_id"].rpartition("-")[2]))
    return {verdict: sorted(numbers) for verdict, numbers in found.items()}


WRONG = {"lost": [4], "doubled": [2, 3], "ghost": [50, 55], "half-fanned": [60]}


def test_what_is_wrong_is_listed_and_the_exit_status_is_1(run: Runner, torn: Path, tmp_path: Path) -> None:
    status, out, err = run("audit", "--data", torn, "--json")
    answer = json.loads(out)
    assert (status, err) == (1, "radiator: 6 messages not accounted for.\n")
    assert ids(answer) == WRONG
    assert answer["counts"] == {"acked": 1, "doubled": 2, "ghost": 2, "half-fanned": 1, "lost": 1, "stored": 5}
    status, out, err = run("audit", "--data", torn, "--show", "2")
    assert status == 1 and "and 4 more: --show 6 lists all" in out and "lost: " in out
    pytest.importorskip("pyarrow")
    config = tmp_path / "config.toml"
    config.write_text(f'[server]\ndata_dir = "{torn}"\n')
    assert run("archive", "--config", config, "--to", tmp_path / "archive")[0] == 0
    status, out, _ = run("audit", "--archive", tmp_path / "archive", "--json")
    assert status == 1 and ids(json.loads(out)) == WRONG


def test_what_is_set_aside_is_accounted_for_and_explained(run: Runner, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store")
    journal = writer.log("journal")
    started = JournalEvent("started", NOON_MS, "", position(0), reason="clean")
    writer.add(
        journal,
        [
            started,
            event_of(1),
            event_of(2),
            event_of(1, "set-aside"),
            event_of(2, "acked"),
            started,
            event_of(1, "set-aside"),
        ],
    )
    writer.queue("orders", [position(1)])
    writer.close()
    status, out, _ = run("audit", "--data", writer.path, "--json")
    assert (status, json.loads(out)["counts"]) == (0, {"acked": 1, "stored": 1})
    status, out, _ = run("explain", "--data", writer.path, message_id(writer.store_id, position(1)).decode())
    assert status == 0 and out.count("set aside in orders: no link can carry it to another node") == 2


TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def test_a_story_shows_its_trace(run: Runner, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store")
    events = [event_of(1)._replace(traceparent=TRACEPARENT), event_of(2), event_of(1, "acked")]
    writer.add(writer.log("journal"), events)
    writer.close()
    one = message_id(writer.store_id, position(1)).decode()
    status, out, _ = run("explain", "--data", writer.path, one)
    assert status == 0 and out.splitlines()[1].endswith(f"accepted in orders (200 B), traceparent {TRACEPARENT}")
    found = [json.loads(line) for line in run("explain", "--data", writer.path, one, "--json")[1].splitlines()]
    assert [event["traceparent"] for event in found] == [TRACEPARENT, ""]
    pytest.importorskip("pyarrow")
    assert run("explain", "--archive", archived(run, writer.path, tmp_path / "archive"), one)[1] == out


def traced(number: int, trace_id: str = TRACE_ID, **more: Any) -> JournalEvent:
    traceparent = f"00-{trace_id}-{number:016x}-01"
    return event_of(number)._replace(traceparent=traceparent, **more)


def archived(run: Runner, store: Path, to: Path) -> Path:
    """An archive of that store."""
    config = to.parent / "config.toml"
    config.write_text(f'[server]\ndata_dir = "{store}"\n')
    assert run("archive", "--config", config, "--to", to)[0] == 0
    return to


def test_the_stories_of_a_trace(run: Runner, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store")
    journal, other = writer.log("journal"), TRACE_ID[::-1]
    dead = traced(4, queue="dead", reason="dead-letter", other=position(1), other_queue="orders")
    gone = event_of(1, "dead-lettered")._replace(other=position(4), other_queue="dead")
    writer.add(journal, [traced(1), traced(2, other), event_of(3), gone, dead])
    writer.add(journal, [event_of(5), event_of(2, "acked")])
    # an id that another header value has, and that a queue is called by, is not the trace's
    writer.add(journal, [traced(6), event_of(6, "acked"), event_of(7)._replace(queue=TRACE_ID)])
    writer.close()
    names = [message_id(writer.store_id, position(number)).decode() for number in range(8)]
    status, out, err = run("explain", "--data", writer.path, "--trace", TRACE_ID)
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [f"{names[at]}:" for at in (1, 4, 6)]
    assert out.count(f"traceparent 00-{TRACE_ID}-") == 3 and out.splitlines()[-1].endswith("  acked by ")
    for text in (TRACE_ID.upper(), f"00-{TRACE_ID}-0000000000000001-00"):
        assert run("explain", "--data", writer.path, "--trace", text) == (0, out, "")
    lines = run("explain", "--data", writer.path, "--trace", other, "--json")[1].splitlines()
    found = [json.loads(line) for line in lines]
    assert [(event["event"], event["message_id"]) for event in found] == [("accepted", names[2]), ("acked", names[2])]
    unknown = f"{1:032x}"
    status, sentence, _ = run("explain", "--data", writer.path, "--trace", unknown)
    assert status == 1 and sentence.startswith(f"The journal tells nothing of trace {unknown}. Its messages may be ")
    pytest.importorskip("pyarrow")
    archive = archived(run, writer.path, tmp_path / "archive")
    assert run("explain", "--archive", archive, "--trace", TRACE_ID) == (0, out, "")
    assert run("explain", "--archive", archive, "--trace", unknown) == (1, sentence, "")


def test_the_stories_of_a_correlation_id(run: Runner, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store")
    journal = writer.log("journal")
    dead = event_of(4)._replace(
        queue="dead", reason="dead-letter", other=position(1), other_queue="orders", correlation_id="täsk\n7"
    )
    gone = event_of(1, "dead-lettered")._replace(other=position(4), other_queue="dead")
    writer.add(journal, [event_of(1)._replace(correlation_id="täsk\n7"), event_of(2)._replace(correlation_id="täsk")])
    writer.add(journal, [event_of(3), event_of(2, "acked"), gone, dead])
    # one that is about the same bytes, and is not it
    writer.add(journal, [event_of(5)._replace(queue="täsk"), event_of(6)._replace(correlation_id="täsk 8")])
    writer.close()
    names = [message_id(writer.store_id, position(number)).decode() for number in range(8)]
    status, out, err = run("explain", "--data", writer.path, "--correlation-id", "täsk\n7")
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [f"{names[at]}:" for at in (1, 4)]
    assert out.splitlines()[1].endswith("accepted in orders (200 B), correlation-id täsk\\n7")
    lines = run("explain", "--data", writer.path, "--correlation-id", "täsk", "--json")[1].splitlines()
    found = [json.loads(line) for line in lines]
    assert [(event["event"], event["correlation_id"]) for event in found] == [("accepted", "täsk"), ("acked", "")]
    status, sentence, _ = run("explain", "--data", writer.path, "--correlation-id", "tä")
    assert status == 1 and sentence.startswith("The journal tells nothing of the correlation-id 'tä'. Its messages may")
    pytest.importorskip("pyarrow")
    archive = archived(run, writer.path, tmp_path / "archive")
    assert run("explain", "--archive", archive, "--correlation-id", "täsk\n7") == (0, out, "")
    assert run("explain", "--archive", archive, "--correlation-id", "tä") == (1, sentence, "")
    assert run("archive", "--verify", archive)[0] == 0
    assert json.loads(run("audit", "--archive", archive, "--json")[1])["counts"]["acked"] == 1


@pytest.mark.parametrize("more", [0, 1])
def test_of_a_long_trace_the_first_messages(run: Runner, tmp_path: Path, more: int) -> None:
    writer = Writer(tmp_path / "store")
    journal, count = writer.log("journal"), TRACED_MAX + more
    for first in range(0, count, 100):
        numbers = range(first, min(first + 100, count))
        writer.add(journal, [traced(number) for number in numbers])
        writer.add(journal, [event_of(number, "acked") for number in numbers])
    writer.close()
    status, out, err = run("explain", "--data", writer.path, "--trace", TRACE_ID, "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert status == 0 and len(found) == 2 * TRACED_MAX
    assert {int(event["message_id"].rpartition("-")[2]) for event in found} == {*range(TRACED_MAX)}
    assert err == f"radiator: Trace {TRACE_ID} has more than 1000 messages: these are the first.\n" * more


def test_a_message_or_a_trace_is_named(run: Runner, tmp_path: Path) -> None:
    both = ["--correlation-id", "c", "--trace", TRACE_ID]
    for words in ([], ["a-1-1", "--trace", TRACE_ID], ["a-1-1", "--correlation-id", "c"], both, ["a-1-1", *both]):
        status, out, err = run("explain", "--data", tmp_path, *words)
        assert (status, out) == (2, "") and err.startswith(
            "radiator: Explain what? Say MESSAGE-ID, --trace TRACE-ID or --correlation-id ID: one of them."
        )
    for text, wrong in (("", "has 0 bytes"), ("x" * 256, "has 256 bytes"), ("x\udcff", "is not a correlation-id")):
        status, _, err = run("explain", "--data", tmp_path, "--correlation-id", text)
        assert status == 2 and f"Argument --correlation-id: {text!r:.100} {wrong}" in err
    for text in ("nonsense", TRACE_ID[1:], "0" * 32, "a-1-1"):
        status, _, err = run("explain", "--data", tmp_path, "--trace", text)
        assert status == 2 and f"--trace: {text!r} is not a trace id; one is 32 hexadecimal digits" in err


@pytest.mark.parametrize("names", [["traceparent", "correlation_id"], ["correlation_id"]])
def test_an_archive_from_before_there_were_such_columns_is_read_as_it_is(
    run: Runner, tmp_path: Path, names: list[str]
) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa

    from radiator.tools.archive.manifest import Manifest
    from radiator.tools.archive.rows import JOURNAL, of_events
    from radiator.tools.archive.sealing import Sealing

    directory = tmp_path / "archive"
    batch = of_events("ab", "", 0, [event_of(1), event_of(1, "acked")]).drop_columns(names)
    file = "log=journal/date=2026-11-17/0.parquet"
    with Sealing(directory, file, pa.schema([field for field in JOURNAL if field.name not in names])) as sealing:
        sealing.add(batch)
        sealing.seal(Manifest(directory, "ab"), "journal", "ab-1", 0, 0, 2)
    assert run("archive", "--verify", directory)[0] == 0
    status, out, _ = run("explain", "--archive", directory, "ab-1-1")
    assert status == 0 and [line.partition("  ")[2].partition("  ")[2] for line in out.splitlines()] == [
        "",
        "accepted in orders (200 B)",
        "acked by ",
    ]
    assert json.loads(run("audit", "--archive", directory, "--json")[1])["counts"] == {"acked": 1}
    for words in (["--trace", TRACE_ID], ["--correlation-id", "c"]):
        assert run("explain", "--archive", directory, *words)[0] == 1


def test_without_a_journal_it_says_how_to_have_one(run: Runner, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store")
    writer.close()
    for command in (["audit"], ["explain", "a-1-1"]):
        status, _, err = run(*command, "--data", writer.path)
        assert status == 2 and err == (
            "radiator: This store has no journal: [journal] enabled = true in config.toml begins one.\n"
        )


def test_what_cannot_be_asked_is_status_2(run: Runner, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[server]\ndata_dir = "{tmp_path / "nowhere"}"\n')
    for command in (["audit"], ["explain", "a-1-1"]):
        for where in (["--data", tmp_path], ["--data", tmp_path / "nowhere"], ["--data", config], ["--config", config]):
            status, _, err = run(*command, *where)
            assert status == 2 and err.startswith("radiator: ") and err.count("\n") == 1
        for there in (tmp_path, tmp_path / "nowhere", config):
            status, _, err = run(*command, "--archive", there)
            assert status == 2 and err == f"radiator: {there} is not an archive: it has no _manifest.jsonl.\n"
        assert run(*command)[0] == 2
