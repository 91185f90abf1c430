"""`radiator connections` and `radiator disconnect`, on a real broker: who is connected is shown, and one is closed."""

import json
from collections.abc import Iterator

import pytest

from radiator.client import Client
from radiator.tools.cli.connections import _all, _one, number
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.tools.cli.conftest import Run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def wire_of(broker: BrokerProcess, **headers: str) -> tuple[Wire, str]:
    """A connection, and its number."""
    wire = Wire((broker.host, broker.port))
    session = wire.connect({name.replace("_", "-"): value for name, value in headers.items()})["session"]
    return wire, session.rpartition("-")[2]


def line_of(out: str, name: str) -> list[str]:
    (line,) = (line for line in out.splitlines() if line.split()[:1] == [name])
    return line.split()


def test_each_connection_is_a_line(run: Run, broker: BrokerProcess) -> None:
    wire, name = wire_of(broker, client_id="shop\u202e")
    with wire:
        wire.subscribe("/queue/q", "s\u2066")
        wire.send("/queue/q", "1")
        wire.message()
        status, out, err = run("connections")
        assert (status, err) == (0, "") and out.splitlines()[0].split()[:3] == ["number", "address", "user"]
        line = line_of(out, name)
        assert line[2:6] == ["anyone", "STOMP", "1.2", "shop\\u202e"] and line[-6:-4] == ["1", "1"]
        status, out, err = run("connections", name)
        assert (status, err) == (0, "") and f"connection {name}\n" in out and "  client: shop\\u202e\n" in out
        assert "  recognised_by: nothing\n" in out and "tls:" not in out
        assert line_of(out, "s\\u2066") == ["s\\u2066", "/queue/q", "client-individual", "1", "1", "window"]


def test_pages_and_users(run: Run, broker: BrokerProcess, client: Client) -> None:
    first, name = wire_of(broker)
    second, other = wire_of(broker)
    with first, second:
        status, out, _ = run("connections", "--after", str(int(name) - 1), "--limit", "1")
        assert status == 0 and line_of(out, name)[2] == "anyone"
        assert out.splitlines()[-1].endswith(f"; --after {name} has those behind")
        assert line_of(run("connections", "--after", name, "--of", "anyone")[1], other)
        status, out, _ = run("connections", "--of", "nobody")
        assert (status, out) == (0, "No connection is there.\n")
        answer = json.loads(run("connections", "--limit", "1", "--json")[1])
        assert answer["ok"] is True and len(answer["connections"]) == 1 and answer["count"] >= 3


def test_one_is_closed(run: Run, broker: BrokerProcess) -> None:
    wire, name = wire_of(broker)
    with wire:
        status, out, err = run("disconnect", name)
        assert (status, err) == (0, "")
        assert out.startswith(f"Connection {name} of anyone at 127.0.0.1:") and out.endswith(
            "is told to end, and closed.\n"
        )
        assert wire.read("ERROR")["code"] == "disconnected"
        with pytest.raises(Gone):
            wire.read_frame()
    status, out, err = run("disconnect", name)
    assert (status, out) == (1, "") and f"There is no connection {name}: it has closed, or never existed." in err
    assert run("connections", name)[0] == 1


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5", "\u0661"])
def test_what_is_no_number_is_a_usage_error(run: Run, word: str) -> None:
    for command in ("connections", "disconnect"):
        status, out, err = run(command, "--", word) if word == "-1" else run(command, word)
        assert (status, out) == (2, "") and "is not a whole number above 0: `radiator connections` has" in err
    with pytest.raises(ValueError, match="has the numbers"):
        number(word)


ROW = {
    "number": 7, "address": "unix/pid:4/uid:0", "user": "ann", "recognised_by": "token", "protocol": "HTTP",
    "tls": "TLSv1.3", "client": None, "age_ms": 61_000, "subscriptions": 101, "unacked": 2, "transactions": 0,
    "outbox_bytes": 2048, "memory_bytes": 4096, "blocked": "Its next command has waited 2.0 s for the disk.",
}  # fmt: skip


def test_what_one_waits_for_and_its_tls_are_shown() -> None:
    out = _all({"connections": [ROW], "count": 1})
    assert "HTTP, TLSv1.3" in out and "1 min 1 s" in out and out.endswith(ROW["blocked"])  # type: ignore[arg-type]
    subscription = {
        "id": "1", "destination": "/topic/a", "ack": "auto", "consumer": None, "window": None, "unacked": 0,
        "stands": "has-room",
    }  # fmt: skip
    out = _one({**ROW, "subscription_list": [subscription] * 100})
    assert "  tls: TLSv1.3\n" in out and "  outbox: 2.0 KiB\n" in out and f"  {ROW['blocked']}\n" in out
    assert out.endswith("and 1 more")
    assert "more" not in _one({**ROW, "subscriptions": 1, "subscription_list": [subscription]})
    assert _one({**ROW, "subscriptions": 0, "subscription_list": []}).endswith(str(ROW["blocked"]))


def test_channels_are_shown_with_their_connection_and_it_with_its_channels() -> None:
    channel = {**ROW, "protocol": "AMQP 0-9-1 channel 1", "channel_of": 6}
    assert "  AMQP 0-9-1 channel 1 of 6, TLSv1.3  " in _all({"connections": [channel], "count": 1})
    assert "\n  channel of: connection 6\n" in _one({**channel, "subscription_list": []})
    assert "\n  channels: 7, 9\n" in _one({**ROW, "channel_list": [7, 9], "subscription_list": []})
