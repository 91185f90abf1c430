"""What is read from certificates: the end and the key of the broker's own, and whom a client's stands for."""

import calendar
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.model.users import User
from radiator.server.certificate import Certificate, day_text, end_s, ends_s, read_certificate, subject_text, user_of
from tests.certificates import Authority, openssl

KEYS = {
    "EC P-256": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    "EC P-384": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"),
    "EC on another curve": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"),
    "Ed25519": ("-newkey", "ed25519"),
    "RSA 2048": ("-newkey", "rsa:2048"),
    "RSA 3072": ("-newkey", "rsa:3072"),
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.mark.parametrize("key", KEYS)
def test_the_key_and_the_end_are_those_that_openssl_says(authority: Authority, key: str) -> None:
    made = authority.pair("one", key=KEYS[key])
    found = read_certificate(made.certificate.read_text())
    assert found.key == key
    printed = openssl("x509", "-in", made.certificate, "-noout", "-dates", "-fingerprint", "-sha256")
    shown = dict(line.split("=", 1) for line in printed.splitlines())
    for name, time_s in (("notBefore", found.valid_from_s), ("notAfter", found.valid_to_s)):
        assert time.strftime("%b %e %H:%M:%S %Y GMT", time.gmtime(time_s)) == shown[name]
    assert found.sha256 == shown["sha256 Fingerprint"].replace(":", "").lower()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("", ()),
        ("DNS:localhost", ("localhost",)),
        (
            "DNS:*.a.example,email:a@b,URI:http://c,IP:10.0.0.7,IP:2001:db8::1",
            ("*.a.example", "10.0.0.7", "2001:db8::1"),
        ),
        ("critical,DNS:a", ("a",)),
    ],
)
def test_the_names_are_those_of_hosts(authority: Authority, names: str, found: tuple[str, ...]) -> None:
    assert read_certificate(authority.pair("one", names=names).certificate.read_text()).names == found


def test_it_is_told_by_its_names_its_end_and_its_key() -> None:
    one = Certificate(0, 86_400, "Ed25519", "0123456789abcdef0", tuple("abcdefgh"))
    assert str(one) == "for a, b, c, d, e, f, g, h; valid until 1970-01-02 00:00 UTC; Ed25519, SHA-256 0123456789abcdef"
    assert "g, h and 1 more; valid" in str(replace(one, names=tuple("abcdefghi")))
    assert str(replace(one, names=())).startswith("for no name; valid")


def test_a_year_of_the_next_century_is_read(tmp_path: Path) -> None:
    """From 2050 on times are of another type."""
    made = Authority(tmp_path).pair("long", days=36_500)
    assert day_text(read_certificate(made.certificate.read_text()).valid_to_s).startswith("2126-")


def test_the_first_of_several_is_the_brokers_own(authority: Authority) -> None:
    made = authority.pair("one")
    alone = made.certificate.read_text()
    assert read_certificate(alone + authority.certificate.read_text()) == read_certificate(alone)


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "-----BEGIN CERTIFICATE-----",
        "-----END CERTIFICATE----------BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nMAAwAA==\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ],
)
def test_what_is_none_is_refused(pem: str) -> None:
    with pytest.raises(ValueError):
        read_certificate(pem)


@pytest.mark.parametrize("inside", ["\ufffd\ufffd", "MIL", "\u00e4AAA"])
def test_what_is_no_base64_is_told_in_a_sentence(inside: str) -> None:
    with pytest.raises(ValueError, match="^has what is not base64 after -----BEGIN CERTIFICATE-----$"):
        read_certificate(f"{ssl.PEM_HEADER}\n{inside}\n{ssl.PEM_FOOTER}\n")


def test_each_that_is_cut_short_is_refused(authority: Authority) -> None:
    der = ssl.PEM_cert_to_DER_cert(authority.pair("one").certificate.read_text())
    for size in range(len(der)):
        with pytest.raises(ValueError):
            read_certificate(ssl.DER_cert_to_PEM_cert(der[:size]))


def test_days_are_whole_ones_and_counted_down() -> None:
    one = Certificate(0, 10 * 86_400, "Ed25519", "")
    assert one.days_left(0) == 10 and one.days_left(1) == 9
    assert one.days_left(10 * 86_400) == 0 and one.days_left(10 * 86_400 + 1) == -1


@pytest.mark.parametrize(
    ("now_s", "sentence"),
    [
        (-1, "is valid from 1970-01-01 00:00 UTC on: until then clients refuse it."),
        (0, ""),
        (70 * 86_400, ""),
        (70 * 86_400 + 1, "is valid until 1970-04-11 00:00 UTC only: renew it before that."),
        (100 * 86_400 - 1, "is valid until 1970-04-11 00:00 UTC only: renew it before that."),
        (100 * 86_400, "was valid until 1970-04-11 00:00 UTC: clients refuse it. Renew it."),
    ],
)
def test_what_clients_refuse_or_soon_will_is_warned_of(now_s: float, sentence: str) -> None:
    one = Certificate(0, 100 * 86_400, "Ed25519", "", ("a.example", "::1"))
    assert one.warning(now_s) == (f"The certificate for a.example, ::1, {sentence}" if sentence else "")


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ([("commonName", "ops")], "CN=ops"),
        ([("organizationName", "Shop"), ("commonName", "ops")], "CN=ops,O=Shop"),
        ([("commonName", "a,b+c")], r"CN=a\,b\+c"),
        ([("commonName", '"<>;\\')], r"CN=\"\<\>\;\\"),
        ([("commonName", "#1")], r"CN=\#1"),
        ([("commonName", " a ")], r"CN=\ a\ "),
        ([("commonName", " ")], "CN=\\ "),
        ([("commonName", "a\0b")], r"CN=a\00b"),
        ([("commonName", "Zoë")], "CN=Zoë"),
        ([("emailAddress", "a@b")], "emailAddress=a@b"),
    ],
)
def test_a_subject_is_written_as_rfc_4514_has_it(subject: list[tuple[str, str]], text: str) -> None:
    assert subject_text([part] for part in subject) == text


def test_parts_that_belong_together_stay_together() -> None:
    assert subject_text([[("countryName", "DE")], [("commonName", "a"), ("userId", "1")]]) == "CN=a+UID=1,C=DE"


@pytest.mark.parametrize("subject", ["/O=Shop/CN=ops", "/C=DE/ST=Bayern/L=Ulm/O=A, B/OU=x+y/CN=#z", "/DC=org/UID=7"])
def test_openssl_writes_the_same(authority: Authority, subject: str) -> None:
    made = authority.pair("one", subject.replace("+", "\\+"))
    printed = openssl("x509", "-in", made.certificate, "-noout", "-subject", "-nameopt", "RFC2253")
    found = ssl._ssl._test_decode_cert(str(made.certificate))  # type: ignore[attr-defined]
    assert printed.strip() == f"subject={subject_text(found['subject'])}"


OPS = User(name="operations", certificate="CN=ops,O=Shop")
HOST = User(name="till", certificate="till.shop.example")
FOUND = {"subject": [[("organizationName", "Shop")], [("commonName", "ops")]]}


@pytest.mark.parametrize(
    ("found", "user"),
    [
        (FOUND, "operations"),
        ({"subject": [[("commonName", "ops")]]}, None),
        ({"subject": [[("commonName", "ops")], [("organizationName", "Shop")]]}, None),
        ({"subject": [[("commonName", "till.shop.example")]]}, None),
        ({"subject": [], "subjectAltName": [("DNS", "Till.Shop.Example")]}, "till"),
        ({"subject": [], "subjectAltName": [("DNS", "*.shop.example")]}, None),
        ({"subject": [], "subjectAltName": [("URI", "till.shop.example")]}, None),
        ({"subject": [], "subjectAltName": [("DNS", "CN=ops,O=Shop")]}, None),
        ({}, None),
    ],
)
def test_a_user_is_recognised_by_the_whole_subject_or_a_dns_name(found: dict[str, object], user: str | None) -> None:
    user_found = user_of(found, [User(name="nobody"), OPS, HOST])
    assert (None if user_found is None else user_found.name) == user


def test_a_dns_name_that_only_looks_like_a_users_is_not_his() -> None:
    kiosk = [User(name="kiosk", certificate="kiosk.example")]
    assert user_of({"subjectAltName": (("DNS", "KIOSK.example"),)}, kiosk) == kiosk[0]
    assert user_of({"subjectAltName": (("DNS", "\u212aiosk.example"),)}, kiosk) is None  # the sign of kelvin


def name(text: str) -> tuple[tuple[tuple[str, str]]]:
    return ((("commonName", text),),)


def of(issuer: str, day: int, subject: str = "x") -> dict[str, Any]:
    return {"subject": name(subject), "issuer": name(issuer), "notAfter": f"Jan  {day} 00:00:00 2030 GMT"}


@pytest.mark.parametrize(
    ("certificate", "cas", "day"),
    [
        (of("a", 3), [], 3),
        (of("a", 3), [of("a", 4, "a")], 3),
        (of("a", 3), [of("a", 2, "a"), of("b", 9, "b")], 2),
        (of("a", 3), [of("a", 2, "a"), of("a", 9, "a")], 3),  # it was renewed
        (of("a", 8), [of("a", 5, "a"), of("a", 2, "a")], 5),
        (of("between", 8), [of("a", 5, "a"), of("b", 6, "b")], 6),
        (of("between", 8), [of("a", 9, "a")], 8),
    ],
)
def test_one_is_valid_until_its_end_or_that_of_its_ca(
    certificate: dict[str, Any], cas: list[dict[str, Any]], day: int
) -> None:
    first_s = calendar.timegm((2030, 1, 1, 0, 0, 0))
    assert end_s(certificate, ends_s(cas)) == first_s + (day - 1) * 86_400
