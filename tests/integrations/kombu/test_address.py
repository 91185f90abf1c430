"""Where a URL of kombu leads to, what broker_use_ssl may say, and what is never sent in the clear."""

import ssl
from pathlib import Path
from typing import Any

import kombu
import pytest

from radiator.client import Address
from radiator.integrations.kombu.address import address_of
from radiator.integrations.kombu.failures import OperationRefused

SECRET = "hunter2"


def of(url: str, plain_login: bool = False, **given: Any) -> Address:
    """As the transport that the URL's scheme chooses asks for it."""
    asked = kombu.Connection(url, **given)
    return address_of(asked, asked.transport.is_tls, plain_login)


def no(url: str, **given: Any) -> str:
    with pytest.raises(OperationRefused) as caught:
        of(url, **given)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_the_scheme_says_whether_there_is_tls() -> None:
    assert of("radiator://") == Address("127.0.0.1", 61613)
    assert of("radiators://broker.example") == Address("broker.example", 61612, is_tls=True)
    assert of("radiators://a%40b:p%2Fw@h:1//") == Address("h", 1, "a@b", "p/w", is_tls=True)
    assert of("radiators://h", ssl=True) == Address("h", 61612, is_tls=True)
    assert of("radiators://h", password=lambda: "of now").passcode == "of now"


def test_files_are_given_by_the_names_of_kombu() -> None:
    wanted = Address("h", 61612, is_tls=True, ca_file="/ca", certificate="/c", key="/k")
    given = {"ca_certs": Path("/ca"), "certfile": "/c", "keyfile": "/k", "cert_reqs": ssl.CERT_REQUIRED}
    assert of("radiators://h", ssl=given) == wanted
    in_url = "ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k&ssl_cert_reqs=CERT_REQUIRED&ssl_check_hostname=true"
    assert of(f"radiators://h?{in_url}") == wanted
    assert of("radiators://h", ssl={"ca_certs": None}) == Address("h", 61612, is_tls=True)


@pytest.mark.parametrize(
    "given",
    [
        {"cert_reqs": ssl.CERT_NONE},
        {"cert_reqs": ssl.CERT_OPTIONAL},
        {"cert_reqs": "none"},
        {"cert_reqs": None},
        {"check_hostname": False},
    ],
)
def test_verification_cannot_be_switched_off(given: dict[str, Any]) -> None:
    assert "its name are always verified. Leave it out, and give the CA" in no("radiators://h", ssl=given)


def test_nor_in_the_url() -> None:
    assert "always verified" in no("radiators://h?ssl_cert_reqs=none")
    assert "always verified" in no("radiators://h?ssl_check_hostname=false")


def test_what_means_nothing_is_refused() -> None:
    assert no("radiators://h", ssl={"ca": "/ca"}) == (
        "broker_use_ssl has 'ca', which is not known: it may have ca_certs, certfile, keyfile, cert_reqs, "
        "check_hostname."
    )
    assert "has 'password'" in no("radiators://h", ssl={"password": SECRET})
    assert no("radiators://h", ssl="yes") == "broker_use_ssl is of type str: it must be True or a dict."
    assert "'ca_certs' of type int: it must be the path of a file" in no("radiators://h", ssl={"ca_certs": 1})
    assert "no virtual hosts: leave 'shop' out" in no(f"radiators://u:{SECRET}@h/shop")


def test_files_of_tls_for_an_address_without_it_are_refused() -> None:
    wrong = "broker_use_ssl is given, and stomp://h:61613 has no TLS: write radiators://HOST:PORT, or name "
    assert no(f"radiator://u:{SECRET}@h", ssl=True) == wrong + "radiator.kombu:SSLTransport as broker_transport."
    assert no("radiator://h", ssl={"ca_certs": "/ca"}).startswith(wrong)
    assert no("radiator://h;radiator://i", ssl=True).startswith(wrong)


def test_of_a_list_with_both_they_are_for_those_with_tls() -> None:
    asked = kombu.Connection(f"radiators://u:{SECRET}@a?ssl_ca_certs=/ca;radiator://b;radiators://c:1")
    found = []
    for _ in range(3):
        found.append(address_of(asked, asked.transport.is_tls, False))
        asked.maybe_switch_next()
    assert found == [
        Address("a", 61612, "u", SECRET, is_tls=True, ca_file="/ca"),
        Address("b", 61613),
        Address("c", 1, is_tls=True, ca_file="/ca"),
    ]


@pytest.mark.parametrize("host", ["10.0.0.1", "broker.example", "2001:db8::1"])
def test_a_password_is_not_sent_in_the_clear_where_the_scheme_is_not_known(host: str) -> None:
    """kombu does not look at the scheme of a URL where the transport is named."""
    named = "radiator.kombu:Transport"
    url = f"radiators://u:{SECRET}@{f'[{host}]' if ':' in host else host}"
    assert "is not sent, since broker_transport names a transport without TLS" in no(url, transport=named)
    assert of(url, plain_login=True, transport=named).passcode == SECRET
    assert of(url, transport="radiator.kombu:SSLTransport").is_tls
    assert of(url.replace(f"u:{SECRET}@", ""), transport=named).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_but_within_this_machine_it_is(host: str) -> None:
    url = f"stomp://u:{SECRET}@{f'[{host}]' if ':' in host else host}"
    assert of(url, transport="radiator.kombu:Transport").passcode == SECRET


def test_the_scheme_without_tls_says_so_itself() -> None:
    assert of(f"radiator://u:{SECRET}@broker.example").passcode == SECRET
