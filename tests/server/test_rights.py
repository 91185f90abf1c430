"""Rights on a real broker: over TCP, by the operators' socket, and over a reload by SIGHUP."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess

PROGRAM = ("-m", "tests.server.with_users")
Given = dict[str, dict[str, list[str]]]


@pytest.fixture
def users(tmp_path: Path) -> Callable[[Given], None]:
    return lambda given: (tmp_path / "users.json").write_text(json.dumps(given)) and None


def test_who_has_not_logged_in_has_the_rights_of_anonymous(tmp_path: Path, users: Callable[[Given], None]) -> None:
    users({"anonymous": {"write": ["/queue/orders"]}})
    started = BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED, PROGRAM)
    with started as broker, Wire((broker.host, broker.port)) as client:
        client.connect()
        client.send_frame("SEND", {"destination": "/amq/queue/orders", "receipt": "1"}, b"x")
        assert client.read_frame()["receipt-id"] == "1"
        client.send_frame("SUBSCRIBE", {"destination": "orders", "id": "s", "receipt": "2"})
        error = client.read_frame()
        assert (error.command, error["code"], error["receipt-id"]) == ("ERROR", "forbidden", "2")
        sentence = b"The user anonymous may not read /queue/orders: there is no rule of `read` that matches it."
        assert error.body == sentence
        with pytest.raises(Gone):
            client.read_frame()


def test_the_operators_socket_may_do_everything_and_a_reload_ends_what_others_may_not(
    tmp_path: Path, users: Callable[[Given], None]
) -> None:
    users({"anonymous": {"read": ["/topic/news.#"]}})
    started = BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED, PROGRAM)
    with started as broker, Wire((broker.host, broker.port)) as client, Wire(broker.unix_path) as operator:
        for one in (client, operator):
            one.connect()
        client.send_frame("SUBSCRIBE", {"destination": "/topic/news.*", "id": "s", "receipt": "1"})
        assert client.read_frame()["receipt-id"] == "1"
        operator.send_frame("SEND", {"destination": "/topic/news.a", "receipt": "1"}, b"before")
        assert operator.read_frame()["receipt-id"] == "1" and client.read_frame().body == b"before"
        users({"anonymous": {"read": ["/topic/news.b"]}})
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
        assert client.read_frame()["code"] == "forbidden"
        broker.wait_for_log("reloaded changed=1")
        operator.send_frame("SEND", {"destination": "/topic/news.a", "receipt": "2"}, b"behind")
        assert operator.read_frame()["receipt-id"] == "2"
        with pytest.raises(Gone):
            client.read_frame()
