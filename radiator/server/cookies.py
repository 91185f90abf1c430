"""The sessions of browsers on the hub: gives them a clock and random cookies, and ends streams with their cookie."""

import base64
import os
from collections.abc import Callable
from typing import Any

from radiator.auth.authenticator import Authenticator
from radiator.model.errors import Refusal
from radiator.model.limits import COOKIE_BYTES, COOKIE_MAX_S, COOKIES_LOOK_S
from radiator.model.principal import GivenCookie, Principal
from radiator.model.replies import Refuse
from radiator.model.rights import Rules
from radiator.protocols.http.access import cookie_over
from radiator.protocols.http.cookie import key_of_value
from radiator.server.timetable import Timetable


class ServerCookies:
    """Implements Cookies (model/principal.py). end: sends a connection the refusal that ends it."""

    def __init__(
        self, loop: Any, timetable: Timetable, authenticator: Authenticator, end: Callable[[Refuse], None]
    ) -> None:
        self.look_at_s = 0.0
        self._loop = loop
        self._timetable = timetable
        self._authenticator = authenticator
        self._table = authenticator.cookies
        self._end = end

    def __len__(self) -> int:
        """Returns how many sessions there are."""
        return len(self._table)

    def give(self, principal: Principal) -> GivenCookie:
        """See the contract."""
        value = base64.urlsafe_b64encode(os.urandom(COOKIE_BYTES)).rstrip(b"=")
        now_s, now_ms = self._authenticator.now_s(), self._authenticator.now_ms()
        login = self._table.give(principal, key_of_value(value), now_s)
        if login is None:
            sentence = f"{principal.name:.80} is recognised by the connection itself ({principal.recognised_by})"
            raise Refusal("no-session", f"{sentence}, and needs no session.")
        self._cut_off()
        self._timetable.enter(self, now_s + COOKIES_LOOK_S)
        until_ms = login.principal.until_ms
        most_ms = now_ms + COOKIE_MAX_S * 1000
        return GivenCookie(value, most_ms if until_ms is None else min(until_ms, most_ms))

    def find(self, transport: Principal, key: bytes) -> Principal | None:
        """See the contract."""
        if not self._authenticator.takes_cookie(transport):
            return None
        login = self._table.find(key, self._authenticator.now_s(), self._authenticator.now_ms())
        self._cut_off()
        return None if login is None else login.principal

    def until_ms(self, key: bytes) -> int | None:
        """See the contract."""
        now_s, now_ms = self._authenticator.now_s(), self._authenticator.now_ms()
        login = self._table.find(key, now_s, now_ms)
        if login is None:
            return None
        ends_ms = now_ms + round((login.ends_s - now_s) * 1000)
        until_ms = login.principal.until_ms
        return ends_ms if until_ms is None else min(until_ms, ends_ms)

    def forget(self, key: bytes) -> None:
        """See the contract."""
        self._table.forget(key)
        self._cut_off()

    def hold(self, key: bytes, connection: int) -> bool:
        """See the contract."""
        return self._table.hold(key, connection)

    def release(self, connection: int) -> None:
        """See the contract."""
        self._table.release(connection, self._authenticator.now_s())

    def rules(self, principal: Principal) -> Rules:
        """See the contract."""
        return self._authenticator.rules(principal)

    def look(self, now_s: float) -> float:
        """Called by the timetable: ends the sessions whose time is over, or that a reload has ended."""
        self._table.sweep(self._authenticator.now_s(), self._authenticator.now_ms())
        self._cut_off()
        return now_s + COOKIES_LOOK_S if len(self._table) else 0.0

    def _cut_off(self) -> None:
        """Ends the streams of sessions that have ended, in a later callback: one of them may be the connection being
        read from.
        """
        if self._table.cut_off:
            connections, self._table.cut_off = self._table.cut_off, []
            self._loop.run_callback(self._end_all, connections)

    def _end_all(self, connections: list[int]) -> None:
        for connection in connections:
            self._end(cookie_over(connection))
