"""The audit log of a real broker: logins, refusals and acts, in /log/audit and in the process's log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.auth.tokens import sha256_of, text_of
from radiator.model.limits import AUDIT_OF_ONE
from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

OPS, SHOP, WRONG = text_of(bytes(32)), text_of(bytes([1] * 32)), text_of(bytes([2] * 32))
CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[journal]
enabled = true
[queue."orders"]
[user."ops"]
tokens = [{{ sha256 = "{sha256_of(OPS.encode())}" }}]
role = "operator"
[user."shop"]
tokens = [{{ sha256 = "{sha256_of(SHOP.encode())}" }}]
write = ["/queue/orders"]
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, CONFIG) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log
        assert not any(secret in running.log for secret in (OPS, SHOP, WRONG))
        assert running.stop() == 0


def connected(broker: BrokerProcess, name: str, token: str) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect({"login": name, "passcode": token})
    return wire


def refused(broker: BrokerProcess) -> None:
    with Wire((broker.host, broker.port)) as wire, pytest.raises((AssertionError, Gone)):
        wire.connect({"login": "shop", "passcode": WRONG})


def records(wire: Wire, count: int) -> list[dict[str, Any]]:
    """The first so many."""
    wire.subscribe("/log/audit", ack="auto", headers={"from": "earliest"})
    found = [json.loads(wire.message().body) for _ in range(count)]
    assert all(one.pop("ms") and not any(token in str(one) for token in (OPS, SHOP, WRONG)) for one in found)
    return found


def test_what_happens_is_written_down(broker: BrokerProcess) -> None:
    refused(broker)
    with connected(broker, "shop", SHOP) as shop:
        shop.send("/queue/orders", "a book")
        shop.send_frame("SEND", {"destination": "/queue/other"})
        assert shop.refusal()["code"] == "forbidden"
    with connected(broker, "ops", OPS) as ops:
        assert json.loads(ops.admin(b'{"do": "purge", "queue": "orders"}'))["ok"]
        found = records(ops, 5)
    peers = [one.pop("peer") for one in found]
    assert all(peer.startswith("127.0.0.1:") for peer in peers) and len({*peers[1:3]}) == len({*peers[3:]}) == 1
    assert [one.pop("connection", 0) for one in found] == [0, 2, 2, 3, 3]
    assert found == [
        {"event": "login-refused", "user": "shop"},
        {"event": "login", "user": "shop", "by": "token"},
        {
            "event": "forbidden",
            "user": "shop",
            "by": "token",
            "sentence": "The user shop may not write /queue/other: there is no rule of `write` that matches it.",
        },
        {"event": "login", "user": "ops", "by": "token"},
        {"event": "act", "user": "ops", "by": "token", "act": "purge", "on": "/queue/orders", "outcome": "done"},
    ]
    for line in ("login_failed", "logged_in", "code=forbidden", "administered"):
        broker.wait_for_log(line)


def test_it_is_there_after_kill(broker: BrokerProcess) -> None:
    with connected(broker, "ops", OPS) as ops:
        assert json.loads(ops.admin(b'{"do": "declare", "queue": "new"}'))["ok"]
        broker.kill()
    broker.start()
    with connected(broker, "ops", OPS) as ops:
        assert [one["event"] for one in records(ops, 3)] == ["login", "act", "login"]


def test_a_flood_of_refused_logins_is_bounded(broker: BrokerProcess) -> None:
    most = AUDIT_OF_ONE["login-refused"]
    for _ in range(3 * most):
        refused(broker)
    with connected(broker, "ops", OPS) as ops:
        found = [one["event"] for one in records(ops, most + 1)]
        assert found in (["login-refused"] * most + ["login"], ["login-refused"] * most + ["left-out"])


def test_a_configuration_cannot_have_another_log_of_that_name(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, CONFIG + '[log."audit"]\n')
    assert broker.start_and_fail() == 2 and "since the journal is on" in broker.log
