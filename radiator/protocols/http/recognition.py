"""Finds out who makes the requests of one connection: by a login in the head, by a cookie, or by what the transport
says.
"""

from radiator.model.principal import Check, Cookies, GivenCookie, Login, Principal, Verdict
from radiator.protocols.http.access import credentials, is_own_page
from radiator.protocols.http.cookie import check_form, key_of
from radiator.protocols.http.head import RequestHead


class Recognition:
    """login: None: there are no users, so no login is needed. cookies: the sessions of browsers; None: there are none.
    transport: the client as its transport has recognised it. is_encrypted: the listener has TLS.

    cookie: the key of the cookie that the last request was recognised by; None: it was recognised otherwise.
    """

    __slots__ = (
        "_authorization", "_connection", "_cookies", "_holds", "_is_kept", "_known", "cookie", "is_encrypted", "login",
        "transport",
    )  # fmt: skip

    def __init__(
        self, connection: int, transport: Principal, login: Login | None, cookies: Cookies | None, is_encrypted: bool
    ) -> None:
        self.login = login
        self.transport = transport
        self.is_encrypted = is_encrypted
        self.cookie: bytes | None = None
        self._connection = connection
        self._cookies = cookies
        self._holds = False
        self._is_kept = True
        self._authorization: bytes | None = None  # the header of the last request that was recognised by it
        self._known: Principal | None = None  # the principal found by it; None: no request was recognised yet

    def begin(self, head: RequestHead) -> Principal | Check:
        """Returns who makes the request, or the check that will find out. Raises Refusal, and BadRequest for a request
        that a cookie may not log in.
        """
        self.cookie = None
        if self.login is None:
            return self.transport
        authorization = head.headers.get(b"authorization")
        key = self._key_of(head) if authorization is None else None
        found: Principal | Check | None = self._find(key)
        if found is not None:
            check_form(head)
            self.cookie = key
            return found
        if self._known is not None and authorization == self._authorization:
            return self._known
        self._is_kept = True
        found = self.login.begin(self.transport, *credentials(authorization))
        return self._recognised(head, found) if isinstance(found, Principal) else found

    def answered(self, head: RequestHead, verdict: Verdict) -> Principal:
        """Returns who makes the request, by the verdict of that check. Raises Refusal."""
        assert self.login is not None, "who has asked has a login"
        return self._recognised(head, self.login.answered(verdict))

    def log_in(self, name: bytes, secret: bytes) -> Principal | Check:
        """Checks a login in the body of a request, which counts for no further request. Returns and raises what `begin`
        does.
        """
        assert self.login is not None, "without users nobody logs in"
        self._is_kept = False
        return self.login.begin(self.transport, name, secret)

    def is_stranger(self, head: RequestHead) -> bool:
        """Whether the request has no login: then it is no attempt to log in either."""
        if self.login is None or b"authorization" in head.headers or self.login.unasked(self.transport) is not None:
            return False
        return self._find(self._key_of(head)) is None

    def _recognised(self, head: RequestHead, principal: Principal) -> Principal:
        if self._is_kept:
            self._authorization, self._known = head.headers.get(b"authorization"), principal
        return principal

    # ---- cookies

    def _find(self, key: bytes | None) -> Principal | None:
        return None if key is None or self._cookies is None else self._cookies.find(self.transport, key)

    def _key_of(self, head: RequestHead) -> bytes | None:
        """Returns the key of the request's cookie; None if a page of another site or port has made the request."""
        return key_of(head, self.is_encrypted) if is_own_page(head) else None

    def give(self, head: RequestHead, principal: Principal) -> GivenCookie:
        """Returns a new cookie for a user who has just logged in. A session of the request's own cookie ends. Raises
        Refusal.
        """
        assert self._cookies is not None, "where there are users they are kept"
        self.forget(head)
        return self._cookies.give(principal)

    def forget(self, head: RequestHead) -> None:
        """Ends the session of the request's cookie, if it has one."""
        key = self._key_of(head)
        if key is not None and self._cookies is not None:
            self._cookies.forget(key)

    def until_ms(self, principal: Principal) -> int | None:
        """Returns when the login of the last request ends at the latest, in ms since the epoch; None: never. principal:
        that of the request.
        """
        if self.cookie is not None and self._cookies is not None:
            return self._cookies.until_ms(self.cookie)
        return principal.until_ms

    @property
    def cookies(self) -> Cookies | None:
        """The sessions of browsers."""
        return self._cookies

    def hold(self) -> bool:
        """Has the stream that answers the last request end with its cookie. Returns False if the cookie's session is
        over.
        """
        if self.cookie is None or self._cookies is None:
            return True
        self._holds = self._cookies.hold(self.cookie, self._connection)
        return self._holds

    def release(self) -> None:
        """Stops `hold`: the connection has ended. May be called again."""
        if self._holds and self._cookies is not None:
            self._holds = False
            self._cookies.release(self._connection)
