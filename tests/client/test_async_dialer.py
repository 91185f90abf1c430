"""One connection, made by a task: to TCP and to a unix socket, in time, or with a sentence that says why not."""

import asyncio
import socket
from pathlib import Path

import pytest

from radiator.client.address import Address
from radiator.client.async_dialer import AsyncDialer, ready
from radiator.client.errors import ConnectionLost
from radiator.model.errors import Refusal
from radiator.protocols.stomp.client import OPEN
from tests.client.peer import CONNECTED
from tests.ports import free_port


async def dialled(answer: bytes, address: Address | None = None, timeout_s: float = 5.0) -> bytes:
    """What a peer that answers so has heard; raises what the dialer raises."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\0"))
        writer.write(answer)
        await writer.drain()
        await reader.read()
        writer.close()

    if address is not None and address.path:
        server = await asyncio.start_unix_server(serve, address.path)
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    async with server:
        connection = await AsyncDialer(("1.2",), (0, 0), timeout_s).dial(address, 7)
        assert (connection.session.state, connection.number) == (OPEN, 7)
        connection.close()
    return bytes(heard)


def test_it_is_connected_over_tcp_and_over_a_unix_socket(tmp_path: Path) -> None:
    assert b"host:127.0.0.1" in asyncio.run(dialled(CONNECTED))
    assert b"host:localhost" in asyncio.run(dialled(CONNECTED, Address.unix(str(tmp_path / "s"))))


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (b"ERROR\nmessage:no\n\n\0", Refusal, "no"),
        (b"HTTP/1.1 400\r\n\r\n", ConnectionLost, "broke the protocol"),
    ],
)
def test_a_greeting_that_fails_is_said(answer: bytes, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        asyncio.run(dialled(answer))


def test_a_peer_that_says_nothing_has_so_long() -> None:
    with pytest.raises(ConnectionLost, match="did not answer CONNECT within 0.05 s"):
        asyncio.run(dialled(b"", timeout_s=0.05))


def test_where_nobody_listens_it_says_so(tmp_path: Path) -> None:
    for address in (Address("127.0.0.1", free_port()), Address.unix(str(tmp_path / "none"))):
        with pytest.raises(ConnectionLost, match="Is the broker running?"):
            asyncio.run(AsyncDialer(("1.2",), (0, 0), 5).dial(address, 1))


def test_a_cancelled_dial_leaves_no_socket() -> None:
    async def run() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dialer = AsyncDialer(("1.2",), (0, 0), 5)
            dialling = asyncio.create_task(dialer.dial(Address("127.0.0.1", listener.getsockname()[1]), 1))
            accepted, _ = await asyncio.get_running_loop().run_in_executor(None, listener.accept)
            await asyncio.sleep(0)
            dialling.cancel()
            await asyncio.gather(dialling, return_exceptions=True)
            with accepted:
                accepted.settimeout(5)
                while accepted.recv(4096):
                    pass
            return 0

    assert asyncio.run(run()) == 0


def test_a_socket_is_ready_to_be_read_or_written_or_its_time_is_over() -> None:
    async def run() -> list[tuple[bool, bool]]:
        one, other = socket.socketpair()
        with one, other:
            found = [await ready(one, 0.0, True, False), await ready(one, 5.0, False, True)]
            other.send(b"x")
            return [*found, await ready(one, 5.0, True, False)]

    assert asyncio.run(run()) == [(False, False), (False, True), (True, False)]
