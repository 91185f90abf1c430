"""One address that is listened on: who is accepted when, and what is said where nobody can be."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from radiator.model.errors import RadiatorError
from radiator.model.limits import Limits
from radiator.model.settings import Address, ListenAddress, UnixAddress
from radiator.protocols.schemes import SCHEMES
from radiator.server import listener as listening
from radiator.server.listener import ACCEPTORS, AddressTaken, Listener
from tests.server.shell import KeptLog, until


class House:
    """Listeners, and the transports that they have accepted."""

    def __init__(self) -> None:
        self.log = KeptLog()
        self.admitted: list[Any] = []
        self.made: list[Listener] = []

    def listen(self, address: ListenAddress) -> Listener:
        self.made.append(Listener(gevent.get_hub().loop, address, Limits(), self.admitted.append, self.log))
        return self.made[-1]

    def close(self) -> None:
        for one in self.made:
            one.close()
        for transport in self.admitted:
            transport.close()


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.close()


def call(listener: Listener) -> socket.socket:
    address: Any = listener.address
    return socket.create_connection((address.host, address.port))


def test_there_is_an_acceptor_for_every_transport_of_a_scheme() -> None:
    assert {scheme.transport for scheme in SCHEMES.values()} == set(ACCEPTORS)


def test_who_connects_before_it_has_started_waits_for_that(house: House) -> None:
    listener = house.listen(Address("stomp", "127.0.0.1", 0))
    with call(listener):
        gevent.sleep(0.01)
        assert house.admitted == [] and house.log.events == []
        listener.start()
        until(lambda: len(house.admitted) == 1)
    assert house.log.events == ["listening"]


def test_who_connects_after_its_end_is_turned_away(house: House) -> None:
    listener = house.listen(Address("stomp", "127.0.0.1", 0))
    listener.start()
    house.made.remove(listener)
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        call(listener)


def test_an_address_that_cannot_be_had_is_a_sentence(house: House, tmp_path: Path) -> None:
    taken: Any = house.listen(Address("stomp", "127.0.0.1", 0)).address
    with pytest.raises(AddressTaken, match=r"Address already in use. Give another \[server\] listen"):
        house.listen(Address("stomp", "127.0.0.1", taken.port))
    with pytest.raises(RadiatorError, match=r"Give another \[node\] listen"):
        house.listen(Address("peer", "127.0.0.1", taken.port))
    with pytest.raises(RadiatorError, match="No such file or directory"):
        house.listen(UnixAddress("stomp+unix", tmp_path / "none" / "s"))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_without_a_file_it_says_so_once_rests_and_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(listening, "ACCEPT_AGAIN_S", 0.005)
    listener = house.listen(Address("stomp", "127.0.0.1", 0))
    accept, failures = listener._acceptor.accept, [code] * 3

    def accepts() -> Any:
        if failures:
            raise OSError(failures.pop(), os.strerror(code))
        return accept()

    monkeypatch.setattr(listener._acceptor, "accept", accepts)
    listener.start()
    with call(listener):
        until(lambda: len(house.admitted) == 1)
    assert house.log.events == ["listening", "cannot_accept"] and not failures


def test_one_that_was_gone_before_it_was_accepted_costs_nobody_else(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = house.listen(Address("stomp", "127.0.0.1", 0))
    accept, failures = listener._acceptor.accept, [errno.ECONNABORTED]

    def accepts() -> Any:
        if failures:
            raise OSError(failures.pop(), "gone")
        return accept()

    monkeypatch.setattr(listener._acceptor, "accept", accepts)
    listener.start()
    with call(listener):
        until(lambda: len(house.admitted) == 1)
    assert house.log.events == ["listening"]
