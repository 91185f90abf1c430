"""Kinds of listeners: each has a session of its own, and only one kind may be left out."""

from radiator.model.commands import Open
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE
from radiator.model.settings import TCP, UNIX
from radiator.protocols import Session
from radiator.protocols.http.context import DEFAULT_CONTEXT
from radiator.protocols.schemes import SCHEMES, may_be_left_out, over_http
from radiator.tools.config.values import parse_address

LISTENERS = (
    "http://127.0.0.1:1", "http://[::1]:1", "http://192.0.2.1:1", "http://0.0.0.0:1", "https://127.0.0.1:1",
    "http+unix:/s", "stomp://127.0.0.1:1", "stomps://127.0.0.1:1", "stomp+unix:/s",
)  # fmt: skip


def test_each_makes_a_session_or_is_for_nodes() -> None:
    for name, scheme in SCHEMES.items():
        assert scheme.transport == (UNIX if name.endswith("+unix") else TCP)
        assert scheme.is_encrypted is (name in ("stomps", "https", "amqps", "peers"))
        if name in ("peer", "peers"):
            assert scheme.session is None
        else:
            assert scheme.session is not None
            made: Session = scheme.session(7, "s-1", Limits(), ANYONE, None, DEFAULT_CONTEXT)
            assert (made.is_open, made.is_closing, made.buffered_bytes) == (False, False, 0)


def test_the_session_of_a_tunnel_says_that_it_is_over_http() -> None:
    (opened,) = over_http(7, "s-1", Limits()).receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    assert isinstance(opened, Open) and opened.protocol == "STOMP 1.2 over HTTP"


def test_other_listeners_are_never_left_out() -> None:
    """Only a web listener that nobody else can reach."""
    left_out = {one: may_be_left_out(parse_address(one)) for one in LISTENERS}
    assert [one for one, is_left_out in left_out.items() if is_left_out] == ["http://127.0.0.1:1", "http://[::1]:1"]
