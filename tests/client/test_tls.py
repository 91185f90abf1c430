"""The client over TLS: what is verified before anything is said, and the sentences where it is not."""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Address, AddressError, Client, ConnectionLost
from radiator.client.aio import AsyncClient
from tests.certificates import Authority
from tests.tls_broker import CONFIG, TlsBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("tls")) as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def refused(address: str, **given: str) -> str:
    """The sentence, which both clients raise."""
    with pytest.raises(ConnectionLost) as caught:
        Client(address, **given).close()  # type: ignore[arg-type]

    async def opened() -> None:
        async with AsyncClient(address, **given):  # type: ignore[arg-type]
            pass

    with pytest.raises(ConnectionLost) as awaited:
        asyncio.run(opened())
    assert str(awaited.value) == str(caught.value)
    return str(caught.value)


# ---- what goes well


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 3_000_000])
def test_messages_go_both_ways(broker: TlsBroker, size: int) -> None:
    with Client(broker.tls_address, ca_file=broker.ca_file) as client:
        client.send("/queue/q", b"t" * size)
        client.subscribe("/queue/q", ack="client-individual")
        message = client.receive(timeout_s=10)
        assert message is not None and message.body == b"t" * size
        client.ack(message)


def test_many_at_once_wait_for_nothing_that_has_come(broker: TlsBroker) -> None:
    with Client(broker.tls_address, ca_file=broker.ca_file) as client:
        client.send_many("/queue/many", [b"x" * (n % 1000) for n in range(3000)])
        client.subscribe("/queue/many", ack="auto", prefetch=1000)
        assert sum(1 for _, _ in zip(range(3000), client.messages(timeout_s=10), strict=False)) == 3000


def test_tasks_do_the_same(broker: TlsBroker) -> None:
    async def run() -> None:
        async with AsyncClient(broker.tls_address, ca_file=broker.ca_file) as client:
            await client.send_many("/queue/tasks", [b"a" * 100_000] * 20)
            await client.subscribe("/queue/tasks", ack="client-individual", prefetch=20)
            for _ in range(20):
                message = await client.receive(timeout_s=10)
                assert message is not None and len(message.body) == 100_000
                await client.ack(message)

    asyncio.run(run())


def test_an_address_may_carry_its_files(broker: TlsBroker) -> None:
    with Client(Address("127.0.0.1", broker.tls_port, is_tls=True, ca_file=broker.ca_file)) as client:
        client.send("/queue/address", "by the IP address that the certificate has")


def test_a_lost_connection_is_restored(tmp_path: Path) -> None:
    with TlsBroker(tmp_path) as one, Client(one.tls_address, ca_file=one.ca_file, reconnect=True) as client:
        client.send("/queue/q", "before")
        one.config_file.write_text(one.config_file.read_text().replace("stomps://127.0.0.1:0", f"{one.tls_address}"))
        one.stop()
        one.start()
        client.send("/queue/q", "after")


# ---- what is not verified


def test_a_ca_that_nobody_has_named(broker: TlsBroker, tmp_path: Path) -> None:
    begins = f"Cannot connect to {broker.tls_address}: its certificate does not come from"
    right = "name the file of its CA (ca_file, or --ca)."
    assert refused(broker.tls_address) == f"{begins} any CA that this system trusts: {right}"
    other = Authority(tmp_path / "other").certificate
    assert refused(broker.tls_address, ca_file=str(other)) == f"{begins} the CA of '{other}': {right}"


def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path)
    broker.replaced(broker.authority.pair("other", names="DNS:a.example,DNS:*.b.example,IP:10.0.0.1"))
    with broker:
        assert refused(broker.tls_address, ca_file=broker.ca_file) == (
            f"Cannot connect to {broker.tls_address}: its certificate is not for 'localhost'; it is for 'a.example', "
            "'*.b.example', '10.0.0.1'. Connect by a name that it has."
        )
        by_number = f"stomps://127.0.0.1:{broker.tls_port}"
        assert "is not for '127.0.0.1'; it is for" in refused(by_number, ca_file=broker.ca_file)


def test_a_common_name_is_no_name(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path)
    broker.replaced(broker.authority.pair("bare", "/CN=localhost", ""))
    with broker:
        sentence = refused(broker.tls_address, ca_file=broker.ca_file)
        assert "is not for 'localhost'; it names others, or none." in sentence


def test_a_certificate_that_is_over(tmp_path: Path) -> None:
    broker = TlsBroker(tmp_path)
    broker.replaced(broker.authority.pair("over", days=-1))
    with broker:
        assert refused(broker.tls_address, ca_file=broker.ca_file) == (
            f"Cannot connect to {broker.tls_address}: its certificate has expired: it must be renewed at the broker."
        )


def test_a_port_without_tls(broker: TlsBroker) -> None:
    address = f"stomps://localhost:{broker.port}"
    sentence = f"Cannot connect to {address}: it does not answer in TLS: is that port one of stomps://?"
    assert refused(address, ca_file=broker.ca_file) == sentence


def test_a_port_with_tls_that_is_taken_for_a_plain_one(broker: TlsBroker) -> None:
    address = f"stomp://localhost:{broker.tls_port}"
    sentence = f"The connection to {address} is lost: the broker closed it. Is that port one of stomps://?"
    assert refused(address) == sentence


def test_a_port_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"stomps://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionLost, match=r"did not end the handshake of TLS within 0.2 s: is that port"):
            Client(address, connect_timeout_s=0.2)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_tls_1_1_is_not_spoken(tmp_path: Path) -> None:
    """Nor with who would speak nothing else."""
    authority = Authority(tmp_path)
    made = authority.pair("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_server(("127.0.0.1", 0)) as old:
        old.settimeout(5)
        address = Address("127.0.0.1", old.getsockname()[1], is_tls=True, ca_file=str(authority.certificate))

        def serve() -> None:
            accepted, _ = old.accept()
            with accepted, pytest.raises(ssl.SSLError):
                context.wrap_socket(accepted, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ConnectionLost, match=r"the handshake of TLS has failed \(.*alert protocol version\)"):
            Client(address)
        thread.join(5)


# ---- the client's own certificate


def test_a_broker_that_wants_a_certificate_gets_it(tmp_path: Path) -> None:
    wanted = '[tls]\nclient_ca = "ca.pem"\nclient_certificates = "required"\n'
    with TlsBroker(tmp_path, CONFIG.replace("[tls]\n", wanted)) as broker:
        own = broker.authority.pair("own", "/CN=client", "")
        files = {"certificate": str(own.certificate), "key": str(own.key)}
        with Client(broker.tls_address, ca_file=broker.ca_file, **files) as client:  # type: ignore[arg-type]
            client.send("/queue/q", "let in")
        both = tmp_path / "both.pem"
        both.write_text(own.certificate.read_text() + own.key.read_text())
        with Client(broker.tls_address, ca_file=broker.ca_file, certificate=str(both)) as client:
            client.send("/queue/q", "let in too")
        assert "the broker wants a certificate of this client (certificate and key)" in refused(
            broker.tls_address, ca_file=broker.ca_file
        )


# ---- arguments


def test_files_that_cannot_be_used_are_refused_before_anything_is_dialled(broker: TlsBroker, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    nowhere = "stomps://127.0.0.1:1"
    wrong = {
        "ca_file '/none' cannot be used: No such file or directory.": {"ca_file": "/none"},
        f"ca_file '{empty}' cannot be used: it has no certificate in PEM.": {"ca_file": str(empty)},
        "The certificate '/none' cannot be used: No such file or directory.": {"certificate": "/none"},
        "key '/k' is given without a certificate: name that too.": {"key": "/k"},
    }
    for sentence, given in wrong.items():
        for made in (Client, AsyncClient):
            with pytest.raises(AddressError) as caught:
                made(nowhere, **given)
            assert str(caught.value) == sentence
    other = broker.authority.pair("one"), broker.authority.pair("another")
    with pytest.raises(AddressError, match="cannot be used: key values mismatch"):
        Client(nowhere, certificate=str(other[0].certificate), key=str(other[1].key))
    file = tmp_path / "file"
    for data, why in (
        (b"", f"'{file}' has no private key in PEM."),
        (other[0].key.read_text().encode("utf-16"), f"'{file}' is UTF-16; save it as UTF-8."),
        (other[0].key.read_bytes()[:100], "one of them is damaged."),
    ):
        file.write_bytes(data)
        with pytest.raises(AddressError) as caught:
            Client(nowhere, certificate=str(other[0].certificate), key=str(file))
        assert str(caught.value) == f"The certificate '{other[0].certificate}' with key '{file}' cannot be used: {why}"


@pytest.mark.parametrize("name", ["ca_file", "certificate", "key"])
def test_a_file_that_may_never_come_or_end_is_refused(broker: TlsBroker, tmp_path: Path, name: str) -> None:
    made = broker.authority.pair("shown")
    os.mkfifo(tmp_path / "pipe")
    files = {"ca_file": broker.ca_file, "certificate": str(made.certificate), "key": str(made.key)}
    for wrong in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(AddressError, match=f"^{name} '{wrong}' cannot be used: it is not a regular file.$"):
            Client("stomps://127.0.0.1:1", **{**files, name: wrong})  # type: ignore[arg-type]


def test_files_without_tls_are_refused(broker: TlsBroker) -> None:
    with pytest.raises(AddressError, match=r"ca_file is given, but no address has TLS: write stomps://HOST:PORT."):
        Client(broker.address, ca_file=broker.ca_file)
    with pytest.raises(TypeError, match="ca_file 5 is of type int: it must be a str."):
        Client(broker.tls_address, ca_file=5)  # type: ignore[arg-type]
