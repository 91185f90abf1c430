"""The files of TLS: which pairs of certificate and key are taken, and which CAs beside them."""

import os
import re
import shutil
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.model.errors import ConfigError
from radiator.model.limits import TLS_CA_BYTES, TLS_FILE_BYTES
from radiator.model.settings import OPTIONAL, TlsSettings
from radiator.server.certificate import read_certificate
from radiator.server.tls_pair import load_pair
from tests.certificates import P_256, Authority, MadePair, openssl


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> MadePair:
    return authority.pair("server")


def settings(pair: MadePair, **others: Any) -> TlsSettings:
    return TlsSettings(certificate=pair.certificate, key=pair.key, **others)


def refused(given: TlsSettings) -> str:
    with pytest.raises(ConfigError) as caught:
        load_pair(given)
    (sentence,) = caught.value.mistakes
    return sentence


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
def test_a_key_is_its_owners_and_perhaps_a_groups_to_read(pair: MadePair, tmp_path: Path, mode: int) -> None:
    key = Path(shutil.copy(pair.key, tmp_path))
    key.chmod(mode)
    load_pair(TlsSettings(certificate=pair.certificate, key=key))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o601, 0o602, 0o660, 0o650, 0o777])
def test_a_key_that_others_may_read_or_change_is_refused(pair: MadePair, tmp_path: Path, mode: int) -> None:
    key = Path(shutil.copy(pair.key, tmp_path))
    key.chmod(mode)
    assert refused(TlsSettings(certificate=pair.certificate, key=key)) == (
        f"tls.key is {key}, of mode {mode:04o}, so others may read or change it; chmod 600 server.key, or 640 for a "
        "group that may read it."
    )


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: MadePair) -> None:
    other = authority.pair("other")
    sentence = refused(TlsSettings(certificate=pair.certificate, key=other.key))
    assert f"tls.key is {other.key}, which does not belong to the certificate {pair.certificate}" in sentence


@pytest.mark.parametrize("key", [("rsa:1024",), ("rsa:3072",), ("rsa:4096",)])
def test_a_key_that_is_weak_or_slow_is_refused(authority: Authority, key: tuple[str, ...]) -> None:
    made = authority.pair("rsa", key=("-newkey", *key))
    size = key[0].partition(":")[2]
    assert f"whose key is RSA {size}, too weak or too slow for a broker; it must be EC P-256," in refused(
        settings(made)
    )


@pytest.mark.parametrize("key", [("rsa:2048",), ("ed25519",), ("ec", "-pkeyopt", "ec_paramgen_curve:secp384r1")])
def test_other_usual_keys_are_taken(authority: Authority, key: tuple[str, ...]) -> None:
    load_pair(settings(authority.pair("usual", key=("-newkey", *key))))


@pytest.mark.parametrize("key", [P_256, ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384")])
def test_a_node_offers_one_fast_group_whatever_the_key_of_the_other(authority: Authority, key: tuple[str, ...]) -> None:
    other = authority.pair("localhost", key=key)
    loaded = load_pair(settings(other, peer_ca=authority.certificate))
    assert loaded.to_nodes is not None
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = loaded.to_nodes.wrap_bio(back, there, server_hostname="localhost")
    accepting = loaded.of_nodes.wrap_bio(there, back, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        dialling.do_handshake()
    hello = there.read()
    assert b"\x00\x0a\x00\x04\x00\x02\x00\x17" in hello, "supported_groups has one, secp256r1"
    there.write(hello)
    with pytest.raises(ssl.SSLWantReadError):
        accepting.do_handshake()
    dialling.do_handshake()  # at once: it is not asked for another group
    accepting.do_handshake()


def test_a_key_with_a_passphrase_asks_nobody(pair: MadePair, tmp_path: Path) -> None:
    key = tmp_path / "locked.key"
    openssl("pkey", "-in", pair.key, "-aes256", "-passout", "pass:secret", "-out", key)
    key.chmod(0o600)
    sentence = refused(TlsSettings(certificate=pair.certificate, key=key))
    assert "has a passphrase; the broker cannot ask for one; write it without: openssl pkey" in sentence


def test_what_is_not_there_or_no_certificate_is_a_sentence(pair: MadePair, tmp_path: Path) -> None:
    right = settings(pair)
    assert "cannot be read (No such file or directory)" in refused(replace(right, certificate=tmp_path / "none"))
    assert "cannot be read (No such file or directory)" in refused(replace(right, key=tmp_path / "none"))
    assert "which is not a file; name one in PEM" in refused(replace(right, key=tmp_path))
    empty = tmp_path / "empty"
    empty.write_text("")
    empty.chmod(0o600)
    assert "has no -----BEGIN CERTIFICATE-----; it must have a PEM certificate" in refused(
        replace(right, certificate=empty)
    )
    assert f"tls.key is {empty}, which is empty; it must have a private key in PEM" in refused(
        replace(right, key=empty)
    )
    for key, whose in (("client_ca", "clients'"), ("peer_ca", "nodes'")):
        assert "cannot be read (No such file or directory)" in refused(replace(right, **{key: tmp_path / "none"}))
        sentence = refused(replace(right, **{key: empty}))
        assert f"tls.{key} is {empty}, which has no certificate of a CA" in sentence
        assert f"it must have in PEM the CAs that {whose} certificates come from" in sentence


def as_key(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_utf_16_is_told_and_a_mark_before_utf_8_is_taken(
    authority: Authority, pair: MadePair, tmp_path: Path, encoding: str
) -> None:
    right = settings(pair, client_ca=authority.certificate, peer_ca=authority.certificate, client_certificates=OPTIONAL)
    for name, of in (
        ("certificate", pair.certificate),
        ("key", pair.key),
        ("client_ca", authority.certificate),
        ("peer_ca", authority.certificate),
    ):
        file = as_key(tmp_path / name, of.read_text().encode(encoding))
        if encoding == "utf-8-sig":
            load_pair(replace(right, **{name: file}))
        else:
            assert (
                refused(replace(right, **{name: file})) == f"tls.{name} is {file}, which is UTF-16; save it as UTF-8."
            )


def test_a_key_that_is_none_is_told_by_its_file(pair: MadePair, tmp_path: Path) -> None:
    for data, wrong in ((b"", "is empty"), (b" \n", "is empty"), (pair.certificate.read_bytes(), "has none")):
        key = as_key(tmp_path / "key", data)
        assert refused(replace(settings(pair), key=key)) == (
            f"tls.key is {key}, which {wrong}; it must have a private key in PEM, as -----BEGIN PRIVATE KEY-----."
        )


def test_what_is_damaged_is_told_by_its_file(pair: MadePair, tmp_path: Path) -> None:
    for begins_with in (100, 60):
        key = as_key(tmp_path / "key", pair.key.read_bytes()[:begins_with])
        assert refused(replace(settings(pair), key=key)) == (
            f"tls.key is {key}, which is damaged; it must be whole, and in PEM."
        )
    file = tmp_path / "chain.pem"
    chain = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    file.write_text(pair.certificate.read_text() + chain)
    assert refused(replace(settings(pair), certificate=file)) == (
        f"tls.certificate is {file}, which is damaged; it must be whole, and in PEM."
    )


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca", "peer_ca"])
@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_may_never_come_or_end_is_refused(pair: MadePair, tmp_path: Path, name: str, what: str) -> None:
    if what == "pipe":
        os.mkfifo(tmp_path / "file", 0o600)
    else:
        (tmp_path / "file").symlink_to("/dev/zero")
    wrong = refused(replace(settings(pair), **{name: tmp_path / "file"}))
    assert wrong == f"tls.{name} is {tmp_path / 'file'}, which is not a file; name one in PEM."


def test_keys_and_cas_have_a_bound(authority: Authority, pair: MadePair, tmp_path: Path) -> None:
    right = settings(pair, client_ca=authority.certificate, client_certificates=OPTIONAL)
    for name, of, most_bytes in (("key", pair.key, TLS_FILE_BYTES), ("client_ca", authority.certificate, TLS_CA_BYTES)):
        file = as_key(tmp_path / name, of.read_bytes().ljust(most_bytes, b"\n"))
        load_pair(replace(right, **{name: file}))
        as_key(file, of.read_bytes().ljust(most_bytes + 1, b"\n"))
        assert f"which has more; {'a key has' if name == 'key' else 'the CAs of a file have'} at most {most_bytes}" in (
            refused(replace(right, **{name: file}))
        )


def test_the_cas_are_named(authority: Authority, pair: MadePair, tmp_path: Path) -> None:
    given = settings(pair, peer_ca=authority.certificate)
    found = load_pair(given).cas
    assert list(found) == ["peer_ca"]
    assert re.fullmatch("CN=Trial ca; SHA-256 of the file [0-9a-f]{16}", found["peer_ca"])
    both = tmp_path / "both.pem"
    more = [Authority(tmp_path, f"ca{number}") for number in range(8)]
    both.write_text("".join(one.certificate.read_text() for one in (authority, *more)))
    named = load_pair(replace(given, peer_ca=both)).cas["peer_ca"]
    assert named.startswith("CN=Trial ca, CN=Trial ca0") and "CN=Trial ca6 and 1 more; SHA-256" in named


def test_a_ca_with_names_that_are_no_text_is_taken(pair: MadePair, tmp_path: Path) -> None:
    odd = tmp_path / "odd.pem"
    openssl(
        "req", "-x509", *P_256, "-nodes", "-subj", "/CN=odd", "-addext", "keyUsage=critical,keyCertSign", "-addext",
        "subjectAltName=DER:30:04:82:02:ff:fe", "-keyout", tmp_path / "odd.key", "-out", odd,
    )  # fmt: skip
    found = load_pair(settings(pair, client_ca=odd, peer_ca=odd, client_certificates=OPTIONAL))
    assert re.fullmatch("SHA-256 of the file [0-9a-f]{16}", found.cas["client_ca"])
    assert found.cas["peer_ca"] == found.cas["client_ca"] and found.client_ends_s == {}


def test_the_ends_of_the_cas_of_clients_are_known(authority: Authority, pair: MadePair) -> None:
    assert load_pair(settings(pair, peer_ca=authority.certificate)).client_ends_s == {}
    found = load_pair(settings(pair, client_ca=authority.certificate, client_certificates=OPTIONAL)).client_ends_s
    end_s = read_certificate(authority.certificate.read_text()).valid_to_s
    assert found == {((("commonName", "Trial ca"),),): end_s}


def test_a_certificate_with_its_chain_has_a_bound(pair: MadePair, tmp_path: Path) -> None:
    text = pair.certificate.read_text()
    long = tmp_path / "long.pem"
    long.write_text(text + "\n" * (TLS_FILE_BYTES - len(text)))
    load_pair(replace(settings(pair), certificate=long))
    long.write_text(text + "\n" * (TLS_FILE_BYTES - len(text) + 1))
    assert "which has more; a certificate and those that lead to its CA have at most 65536 bytes" in refused(
        replace(settings(pair), certificate=long)
    )


class Renewed(type(Path())):  # type: ignore[misc]
    """A file that is another one as soon as it was read."""

    def open(self, *arguments: Any, **others: Any) -> Any:
        found = super().open(*arguments, **others)
        following = Path(self).with_suffix(".next")
        if following.exists():
            following.rename(self)
        return found


def test_a_certificate_that_changes_while_it_is_read_is_refused(authority: Authority, tmp_path: Path) -> None:
    """Else the proof of links would be of another one than is shown."""
    made = authority.pair("often")
    for name in ("now.pem", "now.next"):
        signed = (made.key.with_suffix(".csr"), "-CA", authority.certificate, "-CAkey", authority.key)
        openssl("x509", "-req", "-in", *signed, "-CAcreateserial", "-days", 9, "-out", tmp_path / name)
    wrong = refused(TlsSettings(certificate=Renewed(tmp_path / "now.pem"), key=made.key))
    assert "which was replaced as it was read; read it again." in wrong


@pytest.mark.parametrize(("mode", "is_right"), [(0o644, True), (0o664, True), (0o666, False), (0o602, False)])
def test_a_client_ca_that_everybody_may_change_is_refused(
    pair: MadePair, authority: Authority, tmp_path: Path, mode: int, is_right: bool
) -> None:
    own = tmp_path / "clients.pem"
    own.write_bytes(authority.certificate.read_bytes())
    own.chmod(mode)
    given = settings(pair, client_ca=own, client_certificates=OPTIONAL)
    if is_right:
        load_pair(given)
    else:
        assert f"of mode {mode:04o}, so others may read or change it" in refused(given)
