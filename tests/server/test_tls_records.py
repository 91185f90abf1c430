"""The records that a connection over TLS gets: cut by their headers, and counted; those without data are bounded."""

import ctypes
import ssl
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import gevent
import pytest

from radiator.model.limits import READ_BYTES, TLS_EMPTY_RECORDS, TLS_EMPTY_S, TLS_SLICE_BYTES, TLS_TINY_BYTES
from radiator.model.settings import TlsSettings
from radiator.server.tls import TlsListeners
from radiator.server.tls_pair import load_pair
from radiator.server.tls_records import TlsRecords
from tests.certificates import Authority
from tests.server.shell import KeptLog
from tests.server.tls_pipe import Pipe

_UPDATE_REQUESTED = 1  # SSL_KEY_UPDATE_REQUESTED of OpenSSL


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


# ---- cutting


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 6, 7, 100, 5000, 65_536])
def test_all_bytes_come_in_order_and_each_end_is_counted_however_they_arrive(step: int) -> None:
    sizes = [0, 1, 22, TLS_SLICE_BYTES - 5, TLS_SLICE_BYTES - 6, 0, 16_640, 0, 3] + [17] * 200
    data = b"".join(record(size) for size in sizes)
    records = TlsRecords()
    portions = [one for at in range(0, len(data), step) for one in records.cut(data[at : at + step])]
    assert b"".join(portion for portion, _ in portions) == data
    assert sum(ended for _, ended in portions) == len(sizes)
    assert max(len(portion) for portion, _ in portions) <= TLS_SLICE_BYTES + 5
    assert max(ended for _, ended in portions) <= TLS_EMPTY_RECORDS


def test_a_portion_ends_with_a_record_where_one_fits_into_it() -> None:
    """OpenSSL would raise an exception for a part of one, and keep the buffer that it grew for it."""
    one = record(1147)
    most = TLS_SLICE_BYTES // len(one)
    portions = [*TlsRecords().cut(one * (2 * most) + one[:100])]
    assert [(len(portion), ended) for portion, ended in portions] == [(most * len(one), most)] * 2 + [(100, 0)]


def test_bytes_by_chance_are_cut_without_losing_one() -> None:
    chance = Random(1)
    for _ in range(200):
        data, records = chance.randbytes(chance.randrange(1, 20_000)), TlsRecords()
        assert b"".join(portion for portion, _ in records.cut(data)) == data


def test_so_many_without_data_in_that_time_and_no_more() -> None:
    records = TlsRecords()
    assert not records.are_too_many(TLS_EMPTY_RECORDS, 1000.0)
    assert records.are_too_many(1, 1000.0 + TLS_EMPTY_S - 0.1)
    assert not records.are_too_many(TLS_EMPTY_RECORDS, 1000.0 + TLS_EMPTY_S)


# ---- a connection


class Openssl:
    """The one that Python's ssl uses: it can do what that does not offer."""

    def __init__(self) -> None:
        import _ssl

        self._library = ctypes.CDLL(getattr(_ssl, "__file__", None))
        if not hasattr(self._library, "SSL_key_update"):
            pytest.skip("this Python's ssl does not show its OpenSSL")
        for name in ("SSL_CTX_new", "TLS_client_method", "SSL_new", "BIO_new", "BIO_s_mem"):
            getattr(self._library, name).restype = ctypes.c_void_p

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


class Updater:
    """A client by OpenSSL itself, at the client's end of a Pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe, self._openssl = pipe, Openssl()
        as_pointer = ctypes.c_void_p
        self._context = as_pointer(self._openssl.SSL_CTX_new(as_pointer(self._openssl.TLS_client_method())))
        self._ssl = as_pointer(self._openssl.SSL_new(self._context))
        kind = as_pointer(self._openssl.BIO_s_mem())
        self._in, self._out = as_pointer(self._openssl.BIO_new(kind)), as_pointer(self._openssl.BIO_new(kind))
        self._openssl.SSL_set_bio(self._ssl, self._in, self._out)
        self._openssl.SSL_set_connect_state(self._ssl)

    def shake(self) -> None:
        while not self._pipe.transport.says_first:
            self._openssl.SSL_do_handshake(self._ssl)
            self.sends()
            gevent.sleep(0)
            assert self._pipe.receive() == b"-"
            self.takes()

    def updates(self, count: int) -> None:
        for _ in range(count):
            assert self._openssl.SSL_key_update(self._ssl, _UPDATE_REQUESTED) == 1
            assert self._openssl.SSL_do_handshake(self._ssl) == 1

    def writes(self, data: bytes) -> None:
        assert self._openssl.SSL_write(self._ssl, data, len(data)) == len(data)

    def reads(self) -> bytes:
        self.takes()
        found = ctypes.create_string_buffer(1000)
        size = self._openssl.SSL_read(self._ssl, found, 1000)
        return found.raw[: max(size, 0)]

    def sends(self) -> None:
        found = ctypes.create_string_buffer(65_536)
        while (size := self._openssl.BIO_read(self._out, found, 65_536)) > 0:
            self._pipe.socket.sendall(found.raw[:size])

    def takes(self) -> None:
        try:
            while data := self._pipe.socket.recv(65_536):
                assert self._openssl.BIO_write(self._in, data, len(data)) == len(data)
        except BlockingIOError:
            pass

    def close(self) -> None:
        self._openssl.SSL_free(self._ssl)
        self._openssl.SSL_CTX_free(self._context)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    authority = Authority(tmp_path)
    made = authority.pair("server")
    pair = load_pair(TlsSettings(certificate=made.certificate, key=made.key))
    listeners = TlsListeners(gevent.get_hub().loop, pair, [], KeptLog())
    one = Pipe(listeners, ssl.create_default_context(cafile=authority.certificate))
    yield one
    one.close()


@pytest.fixture
def updater(pipe: Pipe) -> Iterator[Updater]:
    one = Updater(pipe)
    one.shake()
    yield one
    one.close()


def test_as_many_changes_of_the_keys_as_are_allowed_lose_nothing(pipe: Pipe, updater: Updater) -> None:
    """Each that asks for another one in return gets it."""
    for number in range(TLS_EMPTY_RECORDS):
        updater.updates(1)
        updater.writes(b"%d\n" % number)
    updater.sends()
    assert pipe.receive() == b"".join(b"%d\n" % number for number in range(TLS_EMPTY_RECORDS))
    assert pipe.transport.send(b"answer") == 6
    assert updater.reads() == b"answer"


@pytest.mark.parametrize("others", [0, 1, 500])
def test_one_change_of_the_keys_more_ends_the_connection(pipe: Pipe, updater: Updater, others: int) -> None:
    """Whether they come together or between data: 64 KiB of them kept the loop from everybody else for 50 ms."""
    for _ in range(TLS_EMPTY_RECORDS):
        updater.updates(1)
        for _ in range(others):
            updater.writes(b"\n")
        updater.sends()
        while pipe.receive() != b"-":
            pass
    updater.updates(1)
    updater.sends()
    with pytest.raises(OSError, match=r"^\[Errno 103\] TLS: more than 32 records without data in 60 s$"):
        pipe.receive()


def test_few_of_a_flood_are_looked_at_before_the_end(pipe: Pipe, updater: Updater) -> None:
    """All came in one read, and no more than twice as many as are allowed were answered."""
    updater.updates(900)
    updater.sends()
    with pytest.raises(OSError, match="without data"):
        pipe.receive()
    answered = len(pipe.socket.recv(65_536))
    assert answered < 2 * TLS_EMPTY_RECORDS * 27


def test_behind_tiny_records_less_is_read_at_once(pipe: Pipe) -> None:
    """Each takes as long as a record of 1 KiB: 64 KiB of them took 3 ms of the loop."""
    pipe.shake()
    pipe.tls.write(b"\n")
    pipe.client_sends()
    assert pipe.receive() == b"\n"
    whole = TLS_SLICE_BYTES // 23  # of 5 bytes for the header, 1 for the data, 1 for its kind, 16 for the seal
    for _ in range(2 * whole - 9):
        pipe.tls.write(b"\n")
    pipe.client_sends()
    assert [len(pipe.receive()) for _ in range(2)] == [whole, whole - 9]


def test_behind_larger_ones_as_much_as_ever(pipe: Pipe) -> None:
    pipe.shake()
    for _ in range(2):
        pipe.tls.write(bytes(TLS_TINY_BYTES))
        pipe.client_sends()
        assert pipe.receive() == bytes(TLS_TINY_BYTES)
        assert pipe.transport._most_bytes == READ_BYTES
