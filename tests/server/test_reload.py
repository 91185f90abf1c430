"""A running broker reads its file again: by SIGHUP, and by a request."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from radiator.client import Client
from radiator.model.errors import ConfigError, Refusal
from radiator.model.limits import CONFIG_MAX_BYTES
from radiator.tools.config import load
from tests.acceptance.wire import Wire
from tests.broker_process import SERVER, BrokerProcess
from tests.core.test_reload import written
from tests.server.test_serve import broken

BEFORE = "[queue.orders]\nmax_messages = 5\n"
AFTER = """
[logging]
level = "debug"
[limits]
max_connections = 3
max_frame_bytes = "2MiB"
[create]
queues = true
[queue.orders]
max_messages = 2
[queue.new]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, BEFORE) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def change(broker: BrokerProcess, tables: str, server: str = SERVER) -> None:
    """Beside and renamed: who reads it has the one or the other."""
    beside = broker.config_file.with_suffix(".new")
    beside.write_text(server + tables)
    beside.rename(broker.config_file)


def hang_up(broker: BrokerProcess, event: str) -> str:
    """SIGHUP: the line of that event that comes of it."""
    since = len(broker.log.splitlines())
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    return broker.wait_for_log(f" {event}", since=since)


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def test_sighup_changes_what_can_be_and_the_log_names_each(broker: BrokerProcess) -> None:
    with connected(broker) as wire:
        for _ in range(4):
            wire.send("/queue/orders", "x")
        change(broker, AFTER)
        line = hang_up(broker, "reloaded")
        assert "reloaded changed=5 wait_for_restart=2" in line  # outbox_max_bytes comes of max_frame_bytes
        answer = [line.split("setting_changed ")[1] for line in broker.log.splitlines() if " setting_changed " in line]
        assert "setting=limits.max_frame_bytes old=16777216 new=2097152 takes_effect=restart" in answer
        assert "setting=queue.orders.max_messages old=5 new=2 takes_effect=now" in answer
        assert "setting=queue.new old=none new={} takes_effect=now" in answer
        wire.send("/queue/first-use", "x")
        wire.send("/queue/new", "x")
        with connected(broker), connected(broker), Wire((broker.host, broker.port)) as fourth:
            assert fourth.refusal()["code"] == "connections"
        broker.wait_for_log(" debug connected ")
    assert hang_up(broker, "reloaded").endswith("reloaded changed=0 wait_for_restart=2\n")


def test_a_mistake_changes_nothing_and_is_told_with_its_line(broker: BrokerProcess) -> None:
    change(broker, BEFORE.replace("5", "7") + "[queue.other]\nmax_messages = 0\n[create]\nqueue = true\n")
    assert "queue.other.max_messages is 0" in hang_up(broker, "reload_refused")
    broker.wait_for_log("create.queue is not a setting")
    with Client(broker.address) as client:
        with pytest.raises(Refusal, match="line 9: queue.other.max_messages is 0") as refused:
            client.admin({"do": "reload"})
        assert refused.value.code == "configuration" and len(str(refused.value).splitlines()) == 2
        assert client.admin({"do": "describe", "queue": "orders"})["settings"]["max_messages"] == 5
        with pytest.raises(Refusal, match="no such|no-such|There is no"):
            client.admin({"do": "describe", "queue": "other"})


@pytest.mark.parametrize(
    "path, sentence",
    [
        ("no/such/s", "No such file or directory. Give another [server] listen."),
        ("config.toml/s", "Not a directory. Give another [server] listen."),
        ("s?group=no-such-group", "there is no group 'no-such-group'. Make it, or give another one."),
        ("config.toml", "it is no socket, which is not replaced. Remove it, or give another path."),
    ],
)
def test_an_address_that_a_start_would_refuse_is_refused(broker: BrokerProcess, path: str, sentence: str) -> None:
    before = os.listdir(broker.config_file.parent)
    both = f'listen = ["stomp://127.0.0.1:0", "stomp+unix:{broker.config_file.parent}/{path}"]'
    server = SERVER.replace('listen = ["stomp://127.0.0.1:0"]', both)
    change(broker, "[queue.orders]\nmax_messages = 9\n", server)
    assert sentence in hang_up(broker, "reload_refused")
    with Client(broker.address) as client:
        with pytest.raises(Refusal, match="^Cannot listen on ") as refused:
            client.admin({"do": "reload", "dry_run": True})
        assert str(refused.value).endswith(sentence) and refused.value.code == "configuration"
        assert client.admin({"do": "describe", "queue": "orders"})["settings"]["max_messages"] == 5
    assert os.listdir(broker.config_file.parent) == before
    broker.stop()
    assert broker.start_and_fail() != 0
    assert sentence in broker.log
    change(broker, BEFORE)
    broker.start()


def test_a_socket_that_a_start_would_make_waits_for_a_restart(broker: BrokerProcess) -> None:
    both = f'listen = ["stomp://127.0.0.1:0", "stomp+unix:{broker.config_file.parent}/s"]'
    change(broker, BEFORE, SERVER.replace('listen = ["stomp://127.0.0.1:0"]', both))
    assert "wait_for_restart=1" in hang_up(broker, "reloaded")
    assert not (broker.config_file.parent / "s").exists()
    change(broker, BEFORE)


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_a_file_that_never_ends_is_refused_and_the_next_one_is_read(broker: BrokerProcess, kind: str) -> None:
    broker.config_file.unlink()
    if kind == "pipe":
        os.mkfifo(broker.config_file)
    elif kind == "device":
        broker.config_file.symlink_to("/dev/zero")
    else:
        broker.config_file.touch()
        os.truncate(broker.config_file, CONFIG_MAX_BYTES + 1)
    answer = "has more than the 16777216 bytes that it may have" if kind == "large" else "is not a regular file"
    assert answer in hang_up(broker, "reload_refused")
    change(broker, BEFORE)
    hang_up(broker, "reloaded")


def test_a_request_shows_the_differences_first_and_then_applies_them(broker: BrokerProcess) -> None:
    change(broker, AFTER + "overflow = 'reject'\n")
    with Client(broker.address) as client:
        for is_trial in (True, False):
            answer = client.admin({"do": "reload", "dry_run": is_trial})
            changes = {row["setting"]: (row["old"], row["new"], row["takes_effect"]) for row in answer["changes"]}
            assert changes["queue.orders.max_messages"] == (5, 2, "now")
            assert changes["queue.new"] == (None, {"overflow": "reject"}, "now")
            assert changes["limits.max_frame_bytes"][2] == "restart" and answer["applied"] is not is_trial
            assert "queue.new.overflow has no effect" in answer["warnings"][0]
            described = client.admin({"do": "describe", "queue": "orders"})["settings"]
            assert described["max_messages"] == (5 if is_trial else 2)
        left = client.admin({"do": "reload", "dry_run": True})["changes"]
        assert {row["setting"] for row in left} == {"limits.max_frame_bytes", "limits.outbox_max_bytes"}


def test_what_waits_for_a_restart_is_in_force_after_it(broker: BrokerProcess) -> None:
    change(broker, AFTER)
    hang_up(broker, "reloaded")
    broker.stop()
    broker.start()
    assert "changed=0 wait_for_restart=0" in hang_up(broker, "reloaded")


def test_without_a_file_there_is_nothing_to_read() -> None:
    from radiator.server.serve import not_read
    from radiator.tools.config import load

    assert not_read(load(None)).mistakes


def test_a_bug_in_reading_the_file_does_not_end_the_broker(tmp_path: Path) -> None:
    program = """
        import radiator.tools.config
        def reread(path, refused, running):
            raise RuntimeError("a bug")
        radiator.tools.config.reread = reread
    """
    with broken(tmp_path, program) as broker:
        assert "A bug in reading the file (RuntimeError)" in hang_up(broker, "reload_refused")
        broker.wait_for_log("RuntimeError: a bug")
        with connected(broker) as wire:
            wire.send("/queue/q", "x")
        assert broker.stop() == 0


def test_signals_that_come_fast_are_each_heard(broker: BrokerProcess) -> None:
    for number in range(1, 21):
        change(broker, f"[queue.orders]\nmax_messages = {number}\n")
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_log("new=20 ")
    with Client(broker.address) as client:
        assert client.admin({"do": "describe", "queue": "orders"})["settings"]["max_messages"] == 20


def described(broker: BrokerProcess) -> dict[str, Any]:
    """Settings and bindings of all that there is."""
    found: dict[str, Any] = {}
    with Client(broker.address) as client:
        stats = client.admin({"do": "stats"})
        for kind in ("queue", "exchange", "fanout", "log"):
            for name in stats[f"{kind}s"]:
                answer = client.admin({"do": "describe", kind: name})
                found[f"/{kind}/{name}"] = {
                    key: sorted(map(str, value)) if isinstance(value, list) else value
                    for key, value in answer.items()
                    if key in ("settings", "bindings", "children", "type", "durable", "auto_delete")
                }
        for name in stats["queues"]:
            found[f"stats of {name}"] = {key: stats["queues"][name][key] for key in ("persistent", "messages")}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_after_a_reload_it_answers_as_after_a_restart(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)

    def tables() -> str:
        while True:
            text = written(chance).replace("persistent = false", "").replace("type = 'topic'", "")
            for_restart = ("max_frame", "max_batch", "partition_")
            text = "\n".join(line for line in text.splitlines() if not line.startswith(for_restart))
            (tmp_path / "tried.toml").write_text(text)
            try:
                load(tmp_path / "tried.toml")
                return text.replace("partitions = 2", "partitions = 1") + "\n"
            except ConfigError:
                continue

    with BrokerProcess(tmp_path, SERVER + tables()) as broker:
        with Client(broker.address) as client:
            client.admin({"do": "declare", "queue": "own", "max_messages": 7})
            client.admin({"do": "bind", "exchange": "amq.direct", "key": "own", "queue": "own"})
            client.send("/queue/own", b"x")
        for _ in range(2):
            change(broker, tables())
            line = hang_up(broker, "reloaded")
            assert line.endswith(" wait_for_restart=0\n"), line
            reloaded = described(broker)
            assert broker.stop() == 0
            broker.start()
            assert described(broker) == reloaded
