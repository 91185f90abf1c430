"""What a broker with TLS agrees to, tried by the system's openssl: every version and every cipher that this knows. What
it knows no more, as export ciphers and SSL 3.0, is offered by a ClientHello of our own.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import EVERYTHING_MAY_BE_CREATED
from tests.certificates import openssl
from tests.tls_broker import ENCRYPTED, TlsBroker

CONFIG = ENCRYPTED + EVERYTHING_MAY_BE_CREATED
NEVER = "AES128-GCM-SHA256"  # static RSA
NEVER_EC = "ECDHE-ECDSA-AES128-SHA"

EC, RSA = "ECDSA", "RSA"
KEYS = {EC: ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"), RSA: ("rsa:2048",)}
AGREED_1_2 = ("AES256-GCM-SHA384", "AES128-GCM-SHA256", "CHACHA20-POLY1305")
AGREED_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
REFUSED_1_3 = ("TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256")

WEAK = {
    "export": (0x0003, 0x0008, 0x0014, 0x0062, 0x0064),
    "NULL": (0x0001, 0x0002, 0x003B, 0xC006, 0xC010),
    "anonymous": (0x0018, 0x001B, 0x0034, 0x003A, 0x00A6, 0xC015, 0xC018, 0xC019),
    "RC4": (0x0004, 0x0005, 0xC007, 0xC011),
    "DES and 3DES": (0x0009, 0x000A, 0x0016, 0xC008, 0xC012),
    "static RSA": (0x002F, 0x0035, 0x003C, 0x009C, 0x009D, 0xC09C),
    "static ECDH": (0xC004, 0xC005, 0xC02D, 0xC031),
    "CBC": (0xC009, 0xC00A, 0xC013, 0xC014, 0xC023, 0xC027, 0xC028),
    "finite fields": (0x0033, 0x0039, 0x009E, 0x009F, 0xCCAA),
    "pre-shared keys": (0x008C, 0x00A8, 0xC035, 0xCCAC),
    "CCM": (0xC0AC, 0xC0AE),
    "Camellia and ARIA": (0x0041, 0xC072, 0xC05C, 0xC060),
}
"""By the numbers of the registry; a broker must share none of them with a client."""
STRONG = (0xC02B, 0xC02F)  # ECDHE-ECDSA and ECDHE-RSA, with AES128-GCM-SHA256
ALERT, HANDSHAKE_RECORD = 21, 22
HANDSHAKE_FAILURE, PROTOCOL_VERSION = 40, 70


@pytest.fixture(scope="module", params=KEYS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    made = TlsBroker(tmp_path_factory.mktemp(request.param), CONFIG)
    made.replaced(made.authority.pair("another", key=("-newkey", *KEYS[request.param])))
    made.key = request.param  # type: ignore[attr-defined]
    with made as running:
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


def s_client(broker: TlsBroker, *options: str, say: str = "") -> str:
    """What openssl prints of a handshake."""
    program = [str(shutil.which("openssl")), "s_client", "-connect", f"127.0.0.1:{broker.tls_port}", *options]
    done = subprocess.run(program, input=say, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def known(*which: str) -> list[str]:
    return openssl("ciphers", "-s", *which, "ALL:COMPLEMENTOFALL:@SECLEVEL=0").strip().split(":")


def test_of_all_ciphers_of_tls_1_2_those_with_ephemeral_keys_and_authenticated_encryption(broker: TlsBroker) -> None:
    key = broker.key  # type: ignore[attr-defined]
    agreed = {f"ECDHE-{key}-{cipher}" for cipher in AGREED_1_2}
    ciphers = known("-tls1_2")
    assert agreed < set(ciphers) and {NEVER, NEVER_EC} < set(ciphers) and len(ciphers) > 50
    for cipher in ciphers:
        printed = s_client(broker, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
        assert ("Cipher is (NONE)" in printed) is (cipher not in agreed), printed
        assert (f"Cipher is {cipher}\n" in printed) is (cipher in agreed), printed


def test_of_all_ciphers_of_tls_1_3_the_three_that_everybody_has(broker: TlsBroker) -> None:
    for cipher in (*AGREED_1_3, *REFUSED_1_3):
        printed = s_client(broker, "-tls1_3", "-ciphersuites", cipher)
        assert (f"Cipher is {cipher}\n" in printed) is (cipher in AGREED_1_3), printed


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_older_versions_are_refused_whatever_they_offer(broker: TlsBroker, version: str) -> None:
    printed = s_client(broker, version, "-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    assert "Cipher is (NONE)" in printed and "alert protocol version" in printed, printed


@pytest.mark.parametrize("group", ["ffdhe8192", "ffdhe2048", "P-384", "P-521", "X448"])
def test_a_client_does_not_choose_a_slow_group(broker: TlsBroker, group: str) -> None:
    """A step with ffdhe8192 took 100 ms, in which all other clients waited. Whoever has P-256 too gets that."""
    assert "handshake failure" in s_client(broker, "-tls1_3", "-groups", group)
    assert "Server Temp Key: ECDH, prime256v1" in s_client(broker, "-tls1_3", "-groups", f"{group}:P-256")


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_client_that_prefers_another_group_shakes_hands(broker: TlsBroker, version: str) -> None:
    assert "Server Temp Key: ECDH, prime256v1" in s_client(broker, version, "-groups", "X25519:P-256")


def test_a_client_that_could_speak_an_older_one_gets_the_newest(broker: TlsBroker) -> None:
    printed = s_client(broker, "-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    assert "New, TLSv1.3, Cipher is" in printed, printed


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_nothing_is_compressed_nor_said_before_the_handshake(broker: TlsBroker, version: str, tmp_path: Path) -> None:
    session = str(tmp_path / "session")
    # the broker closes behind a frame that is none, so the tickets have come by then
    wanted = ("-comp", "-alpn", "stomp", "-sess_out", session, "-ign_eof")
    printed = s_client(broker, version, *wanted, say="none\n\n\0")
    assert "Compression: NONE" in printed and "Expansion: NONE" in printed and "ALPN protocol: stomp" in printed
    assert version == "-tls1_2" or set(re.findall("Max Early Data: (.*)", printed)) == {"0"}, printed
    resumed = s_client(broker, version, "-sess_in", session)
    assert f"Reused, TLSv1.{version[-1]}, Cipher is" in resumed, resumed


def test_another_protocol_than_stomp_is_agreed_to_by_nobody(broker: TlsBroker) -> None:
    assert "No ALPN negotiated" in s_client(broker, "-alpn", "h2,http/1.1")


def test_a_client_does_not_make_it_negotiate_again(broker: TlsBroker) -> None:
    assert "no renegotiation" in s_client(broker, "-tls1_2", say="R\n")
    assert "Secure Renegotiation IS supported" in s_client(broker, "-tls1_2")  # and would be told from an old client's


def test_a_broker_that_agrees_to_weaker_ones_is_seen(tmp_path: Path) -> None:
    """A negative control."""
    weaker = (
        "import sys; from radiator.server import tls_pair; from radiator.tools.cli import main;"
        "tls_pair._CIPHERS = 'ALL:@SECLEVEL=0'; sys.exit(main())"
    )
    with TlsBroker(tmp_path, CONFIG, ("-c", weaker)) as broker:
        assert f"Cipher is {NEVER_EC}\n" in s_client(broker, "-tls1_2", "-cipher", f"{NEVER_EC}:@SECLEVEL=0")
        assert answer(broker, client_hello(WEAK["CBC"]))[0] == HANDSHAKE_RECORD


# ---- what openssl does not offer


def answer(broker: TlsBroker, hello: bytes) -> bytes:
    with socket.create_connection((broker.host, broker.tls_port), 10) as caller:
        caller.sendall(hello)
        return caller.recv(4096)


def client_hello(ciphers: tuple[int, ...], version: int = 0x0303, methods: bytes = b"\0") -> bytes:
    """A record with it. methods: of compression."""
    listed = b"".join(number.to_bytes(2, "big") for number in ciphers)
    groups, signatures = bytes.fromhex("00170018"), bytes.fromhex("040308040401")
    extensions = b"".join(
        number.to_bytes(2, "big") + (len(body) + 2).to_bytes(2, "big") + len(body).to_bytes(2, "big") + body
        for number, body in ((10, groups), (13, signatures))
    )
    hello = version.to_bytes(2, "big") + bytes(32) + b"\0" + len(listed).to_bytes(2, "big") + listed
    hello += bytes([len(methods)]) + methods + len(extensions).to_bytes(2, "big") + extensions
    whole = b"\1" + len(hello).to_bytes(3, "big") + hello
    return b"\x16" + min(version, 0x0301).to_bytes(2, "big") + len(whole).to_bytes(2, "big") + whole


def is_alert(found: bytes, *reasons: int) -> bool:
    return found[:1] == bytes([ALERT]) and found[5] == 2 and found[6] in reasons


def test_a_hello_of_our_own_is_a_right_one(broker: TlsBroker) -> None:
    """A negative control of those below: but for what they offer, these are answered."""
    found = answer(broker, client_hello((*WEAK["RC4"], *STRONG), methods=b"\1\0"))
    assert found[0] == HANDSHAKE_RECORD and found[5] == 2, found
    at = 5 + 4 + 2 + 32
    at += 1 + found[at]
    assert int.from_bytes(found[at : at + 2], "big") in STRONG and found[at + 2] == 0, "and is not compressed"


@pytest.mark.parametrize("kind", WEAK)
def test_weak_ciphers_are_not_shared(broker: TlsBroker, kind: str) -> None:
    assert is_alert(answer(broker, client_hello(WEAK[kind])), HANDSHAKE_FAILURE)


@pytest.mark.parametrize("version", [0x0300, 0x0301, 0x0302])
def test_ssl_3_and_the_first_versions_of_tls_are_refused(broker: TlsBroker, version: int) -> None:
    assert is_alert(answer(broker, client_hello(STRONG, version)), PROTOCOL_VERSION, HANDSHAKE_FAILURE)


def test_ssl_2_is_no_tls_at_all(broker: TlsBroker) -> None:
    hello = bytes.fromhex("802e0100020015000000100100800200800300800400800500800600400700c0") + bytes(16)
    assert answer(broker, hello) == b""
