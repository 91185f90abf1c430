"""The cookie of a login: where it is found in a request, and where it is not."""

import hashlib
import time

import pytest

from radiator.model.limits import HTTP_HEAD_BYTES
from radiator.protocols.http.cookie import (
    check_form,
    dropped_cookie,
    given_cookie,
    has_cookie,
    is_secure,
    key_of,
    key_of_value,
)
from radiator.protocols.http.head import BadRequest, head_bytes, parse_head
from tests.protocols.http.asking import head_of, request

VALUE, OTHER = "v" * 42 + "-", "_" * 43
KEY = hashlib.sha256(VALUE.encode()).digest()


def key(cookie: str | None, is_encrypted: bool = False) -> bytes | None:
    return key_of(head_of(Cookie=cookie), is_encrypted)


@pytest.mark.parametrize("cookie", [
    f"radiator={VALUE}", f"a=b; radiator={VALUE}", f"radiator={VALUE}; a=b", f"a=b;radiator={VALUE};c=d",
    f";radiator={VALUE};", f'a="x, y"; radiator={VALUE}; b=c=d',
    f"xradiator={OTHER}; radiator={VALUE}; Radiator={OTHER}", f"__Host-radiator={VALUE}",
    f"radiator={OTHER}; __Host-radiator={VALUE}", f"radiator=short; __Host-radiator={VALUE}",
])  # fmt: skip
def test_it_is_found_among_others(cookie: str) -> None:
    assert key(cookie) == KEY == key_of_value(VALUE.encode()) and has_cookie(head_of(Cookie=cookie))


@pytest.mark.parametrize("cookie", [
    None, "", "a=b", "radiator", "radiator=", f'radiator="{VALUE}"', f"radiator={VALUE}=", f"radiator={VALUE}x",
    f"radiator={VALUE[:-1]}", f"radiator={VALUE[:-1]}+", f"radiator={VALUE[:-1]} x",
    f"radiator={VALUE}; radiator={VALUE}", f"radiator={VALUE}; radiator={OTHER}", f"radiator={VALUE}; radiator=",
    f"__Host-radiator={VALUE}; __Host-radiator={OTHER}", f"__Host-radiator=; radiator={VALUE}", f"a={VALUE}",
    f"x-radiator={VALUE}", f"RADIATOR={VALUE}", f"radiator%3D{VALUE}", f"radiator={VALUE}, a=b",
    f'a="; radiator={VALUE}; radiator={OTHER}"', f"radiator = {VALUE}", f"a=b,radiator={VALUE}",
    f"a=b radiator={VALUE}",
])  # fmt: skip
def test_what_is_no_cookie_of_ours_or_two_is_none(cookie: str | None) -> None:
    assert key(cookie) is None


def test_over_tls_only_the_stricter_name_counts() -> None:
    assert key(f"radiator={VALUE}", True) is None and key(f"__Host-radiator={VALUE}", True) == KEY
    assert key(f"__Host-radiator={VALUE}; radiator={OTHER}; radiator={OTHER}", True) == KEY


def test_among_as_many_others_as_a_head_holds_it_is_found_in_no_time() -> None:
    room = HTTP_HEAD_BYTES - len(request(Cookie=f"; radiator={VALUE}"))
    for other in ("a;", ";", " ", "radiator;", "radiator =;", "; \t", "=", "__Host-radiato=;"):
        filler = other * (room // len(other))
        began_s = time.process_time()
        for cookie in (f"{filler}; radiator={VALUE}", filler):
            assert key(cookie) == (KEY if VALUE in cookie else None), other
        assert time.process_time() - began_s < 0.1, other


def test_two_headers_of_them_are_refused() -> None:
    data = request(Cookie="a=b").replace(b"Cookie: a=b\r\n", b"Cookie: a=b\r\ncookie: c=d\r\n")
    assert head_bytes(data) == len(data)
    with pytest.raises(BadRequest, match="cookie twice"):
        parse_head(data)


def test_the_browser_keeps_it_from_scripts_and_from_other_sites() -> None:
    assert given_cookie(b"V", True) == (
        b"Set-Cookie",
        b"__Host-radiator=V; Path=/; Secure; HttpOnly; SameSite=Strict",
    )
    assert given_cookie(b"V", False) == (b"Set-Cookie", b"radiator=V; Path=/; HttpOnly; SameSite=Strict")
    for is_secure_ in (False, True):
        _, given = given_cookie(b"", is_secure_)
        _, dropped = dropped_cookie(is_secure_)
        assert dropped.replace(b"; Max-Age=0", b"") == given and dropped != given


def test_a_browser_that_speaks_tls_with_a_proxy_says_so_by_its_page() -> None:
    assert is_secure(head_of(), True) and is_secure(head_of(Origin="https://localhost"), False)
    assert not is_secure(head_of(), False) and not is_secure(head_of(Origin="http://localhost"), False)


@pytest.mark.parametrize("kind", [
    None, "", "text/plain", "text/plain;charset=utf-8", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x", "text/plain; application/json", "application/jsonx", "text/json",
])  # fmt: skip
def test_what_a_form_can_send_is_refused(kind: str | None) -> None:
    with pytest.raises(BadRequest) as found:
        check_form(head_of("POST", Content_Type=kind))
    assert found.value.status == 415 and "application/json" in str(found.value)
    check_form(head_of("GET", Content_Type=kind))


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/octet-stream",
                                  "avro/binary"])  # fmt: skip
def test_what_no_form_can_send_is_not(kind: str) -> None:
    for method in ("POST", "PUT", "DELETE", "GET"):
        check_form(head_of(method, Content_Type=kind))


def test_a_head_shows_nothing_of_it() -> None:
    head = head_of(Cookie=f"radiator={VALUE}", Authorization=f"Bearer {OTHER}")
    assert VALUE not in repr(head) and OTHER not in repr(head)
