"""`/v1/session`: the login of a page of this broker. The browser keeps it in a cookie that no script can read."""

from typing import Any

from radiator import __version__
from radiator.model.errors import Refusal, shown
from radiator.model.limits import HTTP_LOGIN_BYTES, Limits
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import EVERYTHING, RIGHTS, Rules
from radiator.model.users import user_name_mistake
from radiator.protocols.http.access import is_own_page
from radiator.protocols.http.cookie import dropped_cookie, given_cookie, is_secure
from radiator.protocols.http.exchange import HttpRequest, LoginGiven
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.json_body import parsed
from radiator.protocols.http.recognition import Recognition
from radiator.protocols.http.responses import JSON, Response, as_json, refused

_FORM = '{"user": "NAME", "password": "SECRET"}, or {"token": "TOKEN"}'
_NO_USERS = "This broker has no users: everybody may do everything, and nobody logs in."
_EVERY_RIGHT = {right: [EVERYTHING] for right in RIGHTS}


def log_in(request: HttpRequest) -> LoginGiven:
    """`POST`: returns the login in the body. Raises BadRequest, and Refusal if there are no users."""
    request.query()
    _check_page(request.head)
    if request.recognition is None or request.recognition.login is None:
        raise Refusal("no-session", _NO_USERS)
    if request.head.content_type != JSON:
        given = shown(request.head.headers.get(b"content-type", b""))
        raise BadRequest(415, f"The body's content-type is {given}; it must be application/json.")
    try:
        found = parsed(request.body)
    except BadRequest:
        found = {}  # the sentence of the error could quote part of a secret
    if set(found) == {"token"} and _is_text(found["token"]) and found["token"]:
        return LoginGiven(b"", found["token"].encode())
    if set(found) == {"user", "password"} and _is_text(found["user"]) and _is_text(found["password"]):
        if wrong := user_name_mistake(found["user"]):
            raise BadRequest(400, f"`user` {wrong}.")
        return LoginGiven(found["user"].encode(), found["password"].encode())
    raise BadRequest(400, f"The body must be {_FORM}, and nothing else.")


def logged_in(recognition: Recognition, head: RequestHead, principal: Principal) -> Response:
    """Returns the response to a login that was right: it sets the cookie."""
    try:
        given = recognition.give(head, principal)
    except Refusal as refusal:
        return refused(refusal.code, str(refusal))
    cookie = given_cookie(given.value, is_secure(head, recognition.is_encrypted))
    return as_json(200, {"ok": True, "user": principal.name, "until_ms": given.until_ms}, (cookie,))


def log_out(request: HttpRequest) -> Response:
    """`DELETE`: ends the session of the cookie, and has the browser drop the cookie; does no harm if there is none.
    Raises BadRequest.
    """
    request.query()
    _check_page(request.head)
    is_encrypted = False
    if request.recognition is not None:
        request.recognition.forget(request.head)
        is_encrypted = request.recognition.is_encrypted
    return Response(204, content_type=b"", headers=(dropped_cookie(is_secure(request.head, is_encrypted)),))


def identity(request: HttpRequest) -> Response:
    """`GET`: returns who makes the request, and that user's rights. Raises BadRequest."""
    request.query()
    recognition, principal = request.recognition, request.principal
    cookies = None if recognition is None else recognition.cookies
    has_users = recognition is not None and recognition.login is not None
    rules = cookies.rules(principal) if cookies is not None and has_users else None
    return as_json(200, {
        "ok": True,
        "user": principal.name if has_users and not _is_process(principal) else None,
        "recognised_by": str(principal.recognised_by),
        "rights": _EVERY_RIGHT if rules is None else {right: _patterns(rules, right) for right in RIGHTS},
        "role": "" if rules is None else rules.role,
        "users": has_users,
        "until_ms": None if recognition is None else recognition.until_ms(principal),
        "node": request.state.node or None,
        "version": __version__,
    })  # fmt: skip


def stranger(request: HttpRequest) -> Response:
    """`GET` without a login: returns only that one is needed, and nothing else about the broker. Raises BadRequest."""
    request.query()
    found: dict[str, Any] = {"ok": True, "user": None, "users": True}
    return as_json(200, found)


def body_max(head: RequestHead, limits: Limits) -> int:
    """Returns the most bytes of a login."""
    return HTTP_LOGIN_BYTES


def _check_page(head: RequestHead) -> None:
    """Raises BadRequest for a page of another site, even a listed one: the cookie is ignored in its requests."""
    if not is_own_page(head):
        sentence = "A session is for pages of this broker; a page of another site sends its login with each request."
        raise BadRequest(403, sentence)


def _is_process(principal: Principal) -> bool:
    """Whether the client is root or the broker's own system user, at a unix socket. Neither is a user of the broker."""
    return principal.recognised_by is RecognisedBy.PEER_CREDENTIALS and principal.name == f"uid:{principal.uid}"


def _patterns(rules: Rules, right: str) -> list[str]:
    return [*dict.fromkeys(rules.of(right))]


def _is_text(value: object) -> bool:
    """Whether the value is text that UTF-8 can encode: JSON can contain halves of surrogate pairs."""
    return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)
