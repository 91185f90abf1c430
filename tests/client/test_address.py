"""Where a broker is: addresses as text, and passcodes out of sentences."""

import pytest

from radiator.client import Address, AddressError, Violation
from radiator.client.address import with_login


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("stomp://127.0.0.1:61613", Address("127.0.0.1", 61613)),
        ("stomp://broker.example", Address("broker.example", 61613)),
        ("stomp://[::1]:7/", Address("::1", 7)),
        ("stomp://me:p%40ss@host:1", Address("host", 1, "me", "p@ss")),
        ("stomp+unix:/run/a.sock", Address("localhost", 0, path="/run/a.sock")),
        ("stomp+unix:a.sock", Address("localhost", 0, path="a.sock")),
    ],
)
def test_address_reads_text(text: str, wanted: Address) -> None:
    assert Address.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:61613",
        "http://a:1",
        "stomp://",
        "stomp://a:0",
        "stomp://a:65536",
        "stomp://a:x",
        "stomp://[::1",
        "stomp://a/path",
        "stomp://a?x=1",
        " stomp://a:1",
        "stomp://a:1 ",
        "stomp://a\t:1",
        "stomp://a:1\n",
    ],  # fmt: skip
)
def test_address_refuses_text(text: str) -> None:
    with pytest.raises(AddressError, match=r"stomp://HOST:PORT"):
        Address.parse(text)


def test_address_keeps_passcode_out_of_sentences() -> None:
    with pytest.raises(AddressError) as refused:
        Address.parse("http://me:secret@host")
    assert "secret" not in str(refused.value)
    assert "secret" not in str(Address.parse("stomp://me:secret@host"))


def test_no_passcode_is_shown() -> None:
    assert "hunter2" not in repr(Address.parse("stomp://u:hunter2@h"))


def test_a_login_that_is_given_goes_before_that_of_the_url() -> None:
    one, other = Address.parse("stomp://u:p@h"), Address.parse("stomp://h")
    assert with_login([one, other], None, None) == [one, other]
    assert [(a.login, a.passcode) for a in with_login([one, other], "v", "q")] == [("v", "q")] * 2
    assert [(a.login, a.passcode) for a in with_login([one], "v", None)] == [("v", "")]
    with pytest.raises(Violation):
        with_login([one], None, "q")
