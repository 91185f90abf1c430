"""Logins that browsers keep in a cookie: each is known by the SHA-256 of its random value, and by nothing else.

A login ends after a while without use, after some hours in any case, when its proof runs out, and when that proof is no
longer in the user's table: another password, a removed token, a removed user. Changed rules do not end it: each request
is judged by those in force. Nothing is on the disk.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from radiator.auth.mechanisms import Mechanism
from radiator.model.limits import COOKIE_IDLE_S, COOKIE_MAX_S, COOKIES_MAX, COOKIES_OF_USER
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.users import User


@dataclass(slots=True, eq=False)
class CookieLogin:
    """One login by a cookie. evidence: what proved it, as the user's table had it. used_s: when it was last used;
    ends_s: its end in any case, both by a clock that never goes back. streams: the connections that last as long as it
    does.
    """

    key: bytes = field(repr=False)
    principal: Principal
    evidence: object = field(repr=False)
    used_s: float
    ends_s: float
    streams: set[int] = field(default_factory=set)

    def is_over(self, now_s: float, now_ms: int) -> bool:
        """now_ms: since the epoch."""
        until_ms = self.principal.until_ms
        is_idle = not self.streams and now_s >= self.used_s + COOKIE_IDLE_S
        return is_idle or now_s >= self.ends_s or (until_ms is not None and now_ms >= until_ms)


class CookieTable:
    """All such logins of one run. cut_off: connections whose streams must end, since their login has."""

    def __init__(self) -> None:
        self.users: Mapping[str, User] = {}
        self.jwt: Mechanism | None = None
        self.cut_off: list[int] = []
        self._by_key: dict[bytes, CookieLogin] = {}
        self._by_user: dict[str, dict[bytes, CookieLogin]] = {}  # for each user, the longest unused first
        self._by_stream: dict[int, CookieLogin] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def use(self, users: Mapping[str, User], jwt: Mechanism | None) -> None:
        """Replaces the users and the mechanism of JSON Web Tokens; ends logins whose proof is gone."""
        self.users, self.jwt = users, jwt
        for login in [*self._by_key.values()]:
            user = users.get(login.principal.name)
            evidence, until_ms = _evidence(login.principal, user, jwt)
            if evidence is None or evidence != login.evidence:
                self._end(login)
            else:
                login.principal = _until(login.principal, until_ms)

    def give(self, principal: Principal, key: bytes, now_s: float) -> CookieLogin | None:
        """Adds a login, under a key that is not in use. If there are too many, the longest unused ends, of that user if
        he has any, else of the one who has most. None: he was not recognised by a login, or it no longer holds.
        """
        evidence, until_ms = _evidence(principal, self.users.get(principal.name), self.jwt)
        if evidence is None:
            return None
        of_user = self._by_user.get(principal.name, {})
        if len(of_user) >= COOKIES_OF_USER or (of_user and len(self) >= COOKIES_MAX):
            self._end(_unused(of_user))
        elif len(self) >= COOKIES_MAX:
            self._end(_unused(max(self._by_user.values(), key=len)))
        login = CookieLogin(key, _until(principal, until_ms), evidence, now_s, now_s + COOKIE_MAX_S)
        self._by_key[key] = login
        self._by_user.setdefault(principal.name, {})[key] = login
        return login

    def find(self, key: bytes, now_s: float, now_ms: int) -> CookieLogin | None:
        """Returns the login, which counts as used now. None: it has ended, or there never was one."""
        login = self._by_key.get(key)
        if login is None:
            return None
        if login.is_over(now_s, now_ms):
            self._end(login)
            return None
        login.used_s = now_s
        of_user = self._by_user[login.principal.name]
        of_user[key] = of_user.pop(key)
        return login

    def forget(self, key: bytes) -> None:
        """Ends that login."""
        login = self._by_key.get(key)
        if login is not None:
            self._end(login)

    def hold(self, key: bytes, connection: int) -> bool:
        """Called when that connection has a stream, which uses the login until it ends. False: the login has ended
        already.
        """
        login = self._by_key.get(key)
        if login is None:
            return False
        login.streams.add(connection)
        self._by_stream[connection] = login
        return True

    def release(self, connection: int, now_s: float) -> None:
        """Called when the stream of that connection has ended."""
        login = self._by_stream.pop(connection, None)
        if login is not None:
            login.streams.discard(connection)
            login.used_s = now_s

    def sweep(self, now_s: float, now_ms: int) -> None:
        """Ends those whose time is over."""
        for login in [one for one in self._by_key.values() if one.is_over(now_s, now_ms)]:
            self._end(login)

    def _end(self, login: CookieLogin) -> None:
        del self._by_key[login.key]
        name = login.principal.name
        del self._by_user[name][login.key]
        if not self._by_user[name]:
            del self._by_user[name]
        for connection in login.streams:
            del self._by_stream[connection]
        self.cut_off += login.streams
        login.streams.clear()


def _evidence(principal: Principal, user: User | None, jwt: Mechanism | None) -> tuple[object, int | None]:
    """Returns what the user's table has now for the login's proof, and when that runs out. None: it has nothing, or the
    client was recognised by its connection, which is not a login that could outlast it.
    """
    if user is None:
        return None, None
    if principal.recognised_by is RecognisedBy.PASSWORD:
        return user.password, principal.until_ms
    if principal.recognised_by is RecognisedBy.TOKEN:
        for token in user.tokens:
            if token.sha256 == principal.proof:
                return token.sha256, token.until_ms
    if principal.recognised_by is RecognisedBy.JWT and user.jwt:
        return jwt, principal.until_ms
    return None, None


def _until(principal: Principal, until_ms: int | None) -> Principal:
    if principal.until_ms == until_ms:
        return principal
    return Principal(principal.name, principal.recognised_by, until_ms=until_ms, proof=principal.proof)


def _unused(logins: Mapping[bytes, CookieLogin]) -> CookieLogin:
    """Returns the longest unused; one with a stream only if all have one."""
    without: Iterator[CookieLogin] = (one for one in logins.values() if not one.streams)
    return next(without, next(iter(logins.values())))
