"""The console's files: what they are served as, and to whom. What they do in a browser: tests/console/."""

import gzip

import pytest

from radiator.model.settings import WebSettings
from radiator.protocols.http.console import DIGEST, FILES, PAGE, file
from radiator.protocols.http.exchange import HttpRequest
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.responses import Response
from tests.protocols.http.asking import Asking, a_request, answers, request

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FIRST_PAGE_MAX_BYTES = 60_000


def response(path: str, **headers: str | None) -> Response:
    words = tuple(path.split("/"))
    found = file(a_request("GET", f"/console/{path}", names=words, **headers))
    assert isinstance(found, Response)
    return found


def the_page(**headers: str | None) -> Response:
    found = PAGE.resource(a_request("GET", "/", **headers))
    assert isinstance(found, Response)
    return found


def test_the_page_names_its_files_by_their_digest_and_is_not_kept() -> None:
    page = the_page()
    assert (page.status, page.content_type, page.max_age_s) == (200, b"text/html; charset=utf-8", 0)
    assert f'src="/console/{DIGEST}/app.js"'.encode() in page.body and b"{digest}" not in page.body


@pytest.mark.parametrize(("name", "kind"), [
    ("app.js", b"text/javascript; charset=utf-8"),
    ("console.css", b"text/css; charset=utf-8"),
    ("icon.svg", b"image/svg+xml"),
    ("pages/overview.js", b"text/javascript; charset=utf-8"),
    ("vendor/uPlot.LICENSE.txt", b"text/plain; charset=utf-8"),
])  # fmt: skip
def test_a_file_is_what_it_is_and_is_kept_for_long(name: str, kind: bytes) -> None:
    found = response(f"{DIGEST}/{name}")
    assert (found.status, found.content_type) == (200, kind) and found.max_age_s > 24 * 3600


def test_nothing_but_its_own_files_and_answers_may_be_used_by_a_page() -> None:
    for one in (the_page(), response(f"{DIGEST}/app.js")):
        rules = dict(rule.partition(" ")[::2] for rule in one.policy.decode().split("; "))
        assert rules.pop("require-trusted-types-for") == "'script'" and rules.pop("trusted-types") == "'none'"
        own = {"script-src", "style-src", "img-src", "connect-src"}
        assert {name for name, what in rules.items() if what == "'self'"} == own
        assert {name for name, what in rules.items() if what == "'none'"} == rules.keys() - own


def test_who_takes_gzip_gets_it() -> None:
    path = f"{DIGEST}/app.js"
    plain = response(path)
    for accepted in ("gzip, deflate, br", "gzip", "br , gzip"):
        found = response(path, Accept_Encoding=accepted)
        assert (b"Content-Encoding", b"gzip") in found.headers and gzip.decompress(found.body) == plain.body
    for accepted in ("identity", "gzip;q=0", "xgzip", ""):
        found = response(path, Accept_Encoding=accepted)
        assert found.body == plain.body and b"Content-Encoding" not in dict(found.headers)
    for found in (plain, response(path, Accept_Encoding="gzip")):
        assert (b"Vary", b"Accept-Encoding") in found.headers


@pytest.mark.parametrize("path", [
    "0123456789abcdef/app.js", f"{DIGEST}/nothing.js", f"{DIGEST}/..", f"{DIGEST}/../app.js", f"{DIGEST}/index.html",
    f"{DIGEST}/vendor/../app.js", f"{DIGEST}/",
])  # fmt: skip
def test_nothing_else_is_there(path: str) -> None:
    with pytest.raises(BadRequest, match="broker's console has no such file: reload the page") as refused:
        response(path)
    assert refused.value.status == 404


def test_a_file_has_no_parameters() -> None:
    with pytest.raises(BadRequest, match="is not a parameter"):
        file(a_request("GET", f"/console/{DIGEST}/app.js?v=1", names=(DIGEST, "app.js")))


def test_browsers_get_the_page_and_programs_what_is_here() -> None:
    for accepted, kind in (
        (BROWSER, "text/html; charset=utf-8"),
        ("*/*", "application/json"),
        (None, "application/json"),
    ):
        asking = Asking()
        asking.send(request("GET", "/", Accept=accepted))
        assert [(one.status, one.headers["Content-Type"]) for one in asking.answers()] == [(200, kind)]
    asking = Asking()
    asking.send(request("HEAD", "/", Accept=BROWSER))
    (head,) = answers(asking.sent, (0,))
    assert (head.status, head.body) == (200, b"") and int(head.headers["Content-Length"]) > 0


def test_without_the_console_nothing_of_it_is_there() -> None:
    asking = Asking(web=WebSettings(console=False))
    asking.send(request("GET", "/", Accept=BROWSER), request("GET", f"/console/{DIGEST}/app.js"))
    index, missing = asking.answers()
    assert (index.status, index.headers["Content-Type"]) == (200, "application/json")
    assert missing.status == 404 and b"`console` in [http] is false" in missing.body


def test_no_file_needs_a_login() -> None:
    assert all(route.is_free and route.is_console for route in (*FILES, PAGE))


def test_the_first_page_is_small_where_gzip_is_taken() -> None:
    page = the_page()
    names = {line.partition(f"/console/{DIGEST}/")[2].partition('"')[0] for line in page.body.decode().splitlines()}
    names |= {"pages/login.js"}  # which app.js needs
    size = sum(len(response(f"{DIGEST}/{name}", Accept_Encoding="gzip").body) for name in names if name)
    assert size + len(the_page(Accept_Encoding="gzip").body) < FIRST_PAGE_MAX_BYTES


def test_a_request_for_a_file_is_answered_without_the_broker() -> None:
    asked = HttpRequest(7, b"1", a_request("GET", "/").head, (DIGEST, "app.js"), b"", a_request("GET", "/").limits)
    assert isinstance(file(asked), Response)
