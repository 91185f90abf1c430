"""Clients of a unix socket: the same as of TCP, on a real broker."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Address, AddressError, Client, ConnectionLost
from radiator.client.aio import AsyncClient
from radiator.model.limits import UNIX_PATH_MAX_BYTES
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), EVERYTHING_MAY_BE_CREATED) as running:
        yield running


def test_a_client_sends_and_receives(broker: BrokerProcess) -> None:
    with Client(f"stomp+unix:{broker.unix_path}") as client:
        client.send("/queue/q", b"x" * 1_000_000)
        client.subscribe("/queue/q", ack="client-individual")
        message = client.receive(timeout_s=5)
        assert message is not None and message.body == b"x" * 1_000_000
        assert client.ack(message)


def test_a_client_of_asyncio_sends_and_receives(broker: BrokerProcess) -> None:
    async def run() -> bytes:
        async with AsyncClient(f"stomp+unix:{broker.unix_path}") as client:
            await client.send("/queue/a", b"one")
            await client.subscribe("/queue/a")
            message = await client.receive(timeout_s=5)
            assert message is not None
            return message.body

    assert asyncio.run(run()) == b"one"


def test_a_relative_path_is_found_from_the_program_s_directory(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broker.data_dir)
    with Client("stomp+unix:radiator.sock") as client:
        client.send("/queue/r", b"")
        assert str(client.address) == "stomp+unix:radiator.sock"


def test_a_lost_connection_comes_back(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as own,
        Client(f"stomp+unix:{own.unix_path}", reconnect=True) as client,
    ):
        client.send("/queue/q", b"1")
        own.kill()
        own.start()
        client.send("/queue/q", b"2")
        client.subscribe("/queue/q", ack="auto")
        found = [client.receive(timeout_s=5) for _ in range(2)]
        assert [message and message.body for message in found] == [b"1", b"2"]


def test_several_addresses_of_both_kinds_are_tried(broker: BrokerProcess, tmp_path: Path) -> None:
    with Client([f"stomp+unix:{tmp_path}/nobody", broker.address]) as client:
        assert str(client.address) == broker.address


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_nobody_there_is_a_sentence(tmp_path: Path, client: type) -> None:
    async def opened() -> None:
        await AsyncClient(f"stomp+unix:{tmp_path}/none").open()

    with pytest.raises(ConnectionLost, match=r"Cannot connect to stomp\+unix:.*/none: No such file or directory."):
        if client is Client:
            Client(f"stomp+unix:{tmp_path}/none")
        else:
            asyncio.run(opened())


@pytest.mark.parametrize("path", ["", "//x", "///x", "/a?mode=0660", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(AddressError, match=r"it must be stomp\+unix:PATH"):
        Address.parse("stomp+unix:" + path)


def test_a_path_has_at_most_107_bytes() -> None:
    assert Address.parse("stomp+unix:" + "é" * 53 + "x").path
    with pytest.raises(AddressError, match=f"has 108 bytes, and that of a unix socket at most {UNIX_PATH_MAX_BYTES}"):
        Address.parse("stomp+unix:" + "é" * 54)
