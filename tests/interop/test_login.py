"""Clients of other makers log in, each as its own documentation has it, and are refused."""

import asyncio
import queue
from collections.abc import Iterator
from typing import Any

import pytest
import stomp
from stomp.exception import ConnectFailedException

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from tests.broker_process import BrokerProcess
from tests.interop.npm import run
from tests.interop.test_stomp_py import TIMEOUT_S, VERSIONS
from tests.interop.test_stompjs import PACKAGES
from tests.server.web import OPEN, port_of

SECRET = "cor:rect horse"
TOKEN = text_of(bytes(32))
CONFIG = f"""
{OPEN}
[user.shop]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]
role = "operator"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert "Traceback" not in running.log and SECRET not in running.log


class Listener(stomp.ConnectionListener):
    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("secret", [SECRET, TOKEN])
def test_stomp_py_logs_in(broker: BrokerProcess, version: str, secret: str) -> None:
    connection = VERSIONS[version]([(broker.host, broker.port)])
    listener = Listener()
    connection.set_listener("", listener)
    connection.connect("shop", secret, wait=True)
    connection.subscribe("/queue/a", id="0")
    connection.send("/queue/a", "hello")
    assert listener.messages.get(timeout=TIMEOUT_S).body == "hello"
    connection.disconnect()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("login", [("shop", "wrong"), ("nobody", SECRET), (None, None)])
def test_stomp_py_is_refused(broker: BrokerProcess, version: str, login: tuple[str | None, str | None]) -> None:
    connection = VERSIONS[version]([(broker.host, broker.port)], reconnect_attempts_max=1)
    listener = Listener()
    connection.set_listener("", listener)
    with pytest.raises(ConnectFailedException):
        connection.connect(*login, wait=True)
    error = listener.errors.get(timeout=TIMEOUT_S)
    assert error.headers["code"] == "forbidden" and "CONNECT needs the login" in error.body


@pytest.mark.parametrize("transport", ["tcp", "websocket"])
def test_stompjs(broker: BrokerProcess, transport: str) -> None:
    port = port_of(broker.log, "http") if transport == "websocket" else broker.port
    lines = run("stompjs_client.js", broker, "login", transport, packages=PACKAGES, port=port)
    assert lines == ["a user gets in", "another one is refused", "done"]


@pytest.mark.parametrize("secret", [SECRET, "wrong"])
def test_stompman(broker: BrokerProcess, secret: str) -> None:
    stompman = pytest.importorskip("stompman")
    server = stompman.ConnectionParameters(host=broker.host, port=broker.port, login="shop", passcode=secret)

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), stompman.Client([server], connect_retry_attempts=1) as client:
            await client.send(b"x", "/queue/b")

    if secret == SECRET:
        asyncio.run(main())
    else:
        with pytest.raises(stompman.FailedAllConnectAttemptsError):
            asyncio.run(main())
