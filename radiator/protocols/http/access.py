"""Checks which requests are let in: by their Host and Origin, and by the login that they carry."""

import base64
import binascii
from ipaddress import ip_address
from urllib.parse import urlsplit

from radiator.model.errors import FORBIDDEN, Refusal, shown
from radiator.model.replies import Refuse
from radiator.model.settings import WebSettings
from radiator.protocols.http.cookie import has_cookie
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.responses import Headers, Response, problem, refused

_SAFE = ("GET", "HEAD", "OPTIONS")
_METHODS = b"GET, HEAD, POST, PUT, DELETE"
_PREFLIGHT_KEPT_S = 600
_NOBODY = b"\0"
"""A name that no user can have. A malformed login is judged by this name: so it is counted and refused as a wrong
one.
"""

_CHALLENGE: Headers = ((b"WWW-Authenticate", b'Basic realm="radiator", charset="UTF-8"'),)
_HOW_TO_LOG_IN = (
    "Over HTTP the header Authorization has the login: Basic with NAME:PASSWORD or NAME:TOKEN, or Bearer with a token."
)
_HOW_IN_BODY = "In the body of this request they are `user` and `password`, or `token`."
_LOG_IN_AGAIN = "The session of the cookie has ended, or is not for this request: log in again, by POST /v1/session."


def check_host(head: RequestHead, web: WebSettings) -> None:
    """Refuses a Host that is not a name of this broker: another site's page may have pointed its own name to this
    address (DNS rebinding). An IP address cannot be pointed anywhere, so it is accepted. Raises BadRequest.
    """
    value = head.headers.get(b"host", b"localhost")
    if value in _HOSTS_KNOWN:
        return
    host = _host_of(value)
    if host is None:
        raise BadRequest(400, f"The request's Host is {shown(value)}; it must be HOST or HOST:PORT.")
    if host != "localhost" and host not in web.hosts and not _is_address(host):
        raise BadRequest(421, f'The Host {host} is not a name of this broker: add it to hosts in [http], as "{host}".')


def check_site(head: RequestHead, web: WebSettings) -> None:
    """Refuses requests and WebSockets that a page of another site makes, unless [http] lists the site. Programs send no
    Origin. Raises BadRequest.
    """
    origin = head.headers.get(b"origin")
    if origin is not None:
        check_origin(head, origin, web)
    elif head.method not in _SAFE and head.headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        site = head.headers[b"sec-fetch-site"]
        raise BadRequest(403, f"Sec-Fetch-Site is {shown(site)}: a page of another site may not ask for that.")


def check_origin(head: RequestHead, origin: bytes, web: WebSettings) -> None:
    """Raises BadRequest if the Origin is another site's that is not listed."""
    if not _is_own(head, origin) and origin.decode("latin-1").lower() not in web.origins:
        raise BadRequest(403, f"The Origin {shown(origin)} is not that of this broker: add it to origins in [http].")


def allowed_origin(head: RequestHead, web: WebSettings) -> Headers:
    """Returns the headers by which a browser lets a page of a listed site read the response."""
    origin = head.headers.get(b"origin")
    if origin is None or _is_own(head, origin) or origin.decode("latin-1").lower() not in web.origins:
        return ((b"Vary", b"Origin"),) if web.origins else ()
    return (
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Expose-Headers", b"Retry-After"),
        (b"Vary", b"Origin"),
    )


def preflight(head: RequestHead) -> Response:
    """Returns the response to a CORS preflight, which a browser sends before some requests of a listed site's page."""
    headers: Headers = (
        (b"Access-Control-Allow-Methods", _METHODS),
        (b"Access-Control-Max-Age", b"%d" % _PREFLIGHT_KEPT_S),
    )
    asked = head.headers.get(b"access-control-request-headers")
    if asked is not None and _is_list_of_names(asked):
        headers += ((b"Access-Control-Allow-Headers", asked),)
    return Response(204, content_type=b"", headers=headers)


def is_own_page(head: RequestHead) -> bool:
    """Whether the request is made by a page of this broker, or by no page, as far as the browser says."""
    origin = head.headers.get(b"origin")
    is_own = origin is None or _is_own(head, origin)
    return is_own and head.headers.get(b"sec-fetch-site", b"none") in (b"none", b"same-origin")


def credentials(authorization: bytes | None) -> tuple[bytes, bytes]:
    """Returns the name and the secret of `Basic` (RFC 7617), or b"" and the token of `Bearer` (RFC 6750). Both are b""
    if there is no login; the name is _NOBODY if the header is malformed.
    """
    if authorization is None:
        return b"", b""
    scheme, _, value = authorization.partition(b" ")
    if scheme.lower() == b"bearer":
        token = value.strip(b" ")
        return (b"", token) if token else (_NOBODY, authorization)
    if scheme.lower() != b"basic":
        return _NOBODY, authorization
    try:
        name, _, secret = base64.b64decode(value.strip(b" "), validate=True).partition(b":")
    except binascii.Error:
        return _NOBODY, authorization
    return (name, secret) if name or secret else (_NOBODY, authorization)


def login_refused(head: RequestHead, refusal: Refusal, is_in_body: bool = False) -> Response:
    """Returns the response to a request whose login was refused. It has no challenge if a script of a page has made the
    request, since the browser would open its own login dialog over the page; nor if the login was in the body.
    """
    if refusal.code != FORBIDDEN:
        return refused(refusal.code, str(refusal))
    if is_in_body:
        return problem(401, FORBIDDEN, f"{refusal} {_HOW_IN_BODY}")
    is_script = head.headers.get(b"sec-fetch-mode", b"navigate") != b"navigate" or b"x-requested-with" in head.headers
    sentence = f"{refusal} {_LOG_IN_AGAIN if has_cookie(head) else _HOW_TO_LOG_IN}"
    return problem(401, FORBIDDEN, sentence, () if is_script else _CHALLENGE)


def cookie_over(connection: int) -> Refuse:
    """Returns the refusal that ends a stream when the session of its cookie has ended."""
    return Refuse(connection, FORBIDDEN, "The session of the cookie has ended: log in again.")


def _is_own(head: RequestHead, origin: bytes) -> bool:
    host = head.headers.get(b"host", b"")
    return bool(host) and origin.lower() in (b"http://" + host.lower(), b"https://" + host.lower())


def _is_list_of_names(value: bytes) -> bool:
    return all(one.strip(b" ").replace(b"-", b"a").isalnum() for one in value.split(b","))


_HOSTS_KNOWN = frozenset((b"localhost", b"127.0.0.1"))
_OF_HOSTS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:[]")


def _host_of(value: bytes) -> str | None:
    """Returns the host of HOST:PORT, in lower case; None: the value is malformed."""
    if not _OF_HOSTS.issuperset(value):  # urlsplit drops some characters silently
        return None
    try:
        found = urlsplit("//" + value.decode("ascii"))
        _ = found.port
    except ValueError:
        return None
    is_host = found.hostname and not (found.path or found.query or found.fragment or found.username is not None)
    return found.hostname if is_host else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
