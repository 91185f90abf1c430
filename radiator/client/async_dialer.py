"""One connection to a broker, made by a task of asyncio that awaits it."""

import asyncio
import socket
from typing import Any

from radiator.client.address import Address
from radiator.client.connection import ClientConnection, cannot_connect
from radiator.client.tls import WrongName, wrong_name


class AsyncDialer:
    """Makes connections, each to one address, that a task awaits."""

    def __init__(self, versions: tuple[str, ...], heart_beat_ms: tuple[int, int], timeout_s: float) -> None:
        self._versions = versions
        self._heart_beat_ms = heart_beat_ms
        self._timeout_s = timeout_s

    async def dial(self, address: Address, number: int) -> ClientConnection:
        """Returns a connection on which CONNECTED has come. Raises ConnectionLost or Refusal."""
        try:
            async with asyncio.timeout(self._timeout_s):
                one = await self._connected(address)
        except OSError as failed:
            raise cannot_connect(address, failed) from None
        connection = ClientConnection(address, number, one)
        greeting = connection.greeting(self._versions, self._heart_beat_ms, self._timeout_s)
        try:
            wanted = next(greeting)
            while True:
                wanted = greeting.send(await ready(connection, *wanted))
        except StopIteration:
            return connection
        except WrongName:
            raise await asyncio.to_thread(wrong_name, address, self._timeout_s) from None
        finally:
            greeting.close()

    @staticmethod
    async def _connected(address: Address) -> socket.socket:
        loop = asyncio.get_running_loop()
        failed = OSError("it has no address")
        places: list[tuple[int, Any]] = [(socket.AF_UNIX, address.path)]
        if not address.path:
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            places = [(family, where) for family, _, _, _, where in found]
        for family, where in places:
            one = socket.socket(family, socket.SOCK_STREAM)
            one.setblocking(False)
            try:
                await loop.sock_connect(one, where)
                return one
            except OSError as error:
                one.close()
                failed = error
            except BaseException:
                one.close()
                raise
        raise failed


async def ready(one: ClientConnection, timeout_s: float, reads: bool, writes: bool) -> tuple[bool, bool]:
    """Waits until the socket can be read or written, or the time is over; says which of the two it can."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[bool, bool]] = loop.create_future()

    def set_once(readable: bool, writable: bool) -> None:
        if not future.done():
            future.set_result((readable, writable))

    if reads:
        loop.add_reader(one, set_once, True, False)
    if writes:
        loop.add_writer(one, set_once, False, True)
    timer = loop.call_later(timeout_s, set_once, False, False)
    try:
        return await future
    finally:
        timer.cancel()
        loop.remove_reader(one)
        loop.remove_writer(one)
