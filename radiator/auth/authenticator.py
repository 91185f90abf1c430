"""Whether a client is who it says it is: the answer to each CONNECT, if there are users.

A wrong password, an unknown name, a token that has run out and no login at all get one and the same refusal, and an
unknown name takes as long as a known one. A hash is computed once for a login that many clients send at one time, and
not again until its user changes: what was right, and what was wrong, is remembered under a key of this run. A right
JSON Web Token is remembered until it has run out, a wrong one, which may have come before its time, for a minute.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar
from weakref import WeakValueDictionary

from radiator.auth.cookies import CookieTable
from radiator.auth.failures import Failures
from radiator.auth.mechanisms import Mechanism, mechanisms
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.limits import (
    FAILURE_OF_NAME_S,
    FAILURE_OF_NETWORK_S,
    FAILURES_KEPT,
    FAILURES_OF_NAME,
    FAILURES_OF_NETWORK,
    LOGINS_KEPT,
    WRONG_KEPT_S,
)
from radiator.model.principal import Check, Login, Principal, RecognisedBy, Verdict
from radiator.model.rights import OPERATOR, Rules
from radiator.model.users import ANONYMOUS, User, user_name_mistake

Value = TypeVar("Value")

KEY_BYTES = 32


def refusal() -> Refusal:
    """Returns the one answer to all who are refused."""
    return Refusal(FORBIDDEN, "CONNECT needs the login and the passcode of a user of this broker.")


def _too_many() -> Refusal:
    sentence = "Too many logins have failed for this name, or from this address; try again in a minute."
    return Refusal(FORBIDDEN, sentence)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _SlowCheck:
    """A login whose mechanism takes long. All who wait for the same login share one check."""

    mechanism: Mechanism = field(repr=False)
    users: Mapping[str, User] = field(repr=False)
    name: str
    secret: bytes = field(repr=False)
    now_ms: int
    key: bytes = field(repr=False)
    network: str
    is_answered: bool = False

    def __call__(self) -> Principal:
        if not self.mechanism.proves(self.users, self.name, self.secret, self.now_ms):
            raise refusal()
        return _proved(self.mechanism, self.users, self.name, self.secret, self.now_ms)


class Authenticator:
    """All logins of one run. Used on the hub only.

    key: KEY_BYTES of randomness. own_uid: of the broker; its processes and root's may do everything on a unix socket.
    jwt: the mechanism of JSON Web Tokens, if the configuration names an issuer. cookies: what browsers keep of logins.
    now_s: a clock that never goes back; now_ms: since the epoch. failed: called with the peer, the network and the name
    of a login that is refused.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        key: bytes,
        own_uid: int,
        now_s: Callable[[], float],
        now_ms: Callable[[], int],
        failed: Callable[[str, str, str], None],
        jwt: Mechanism | None = None,
    ) -> None:
        self.now_s = now_s
        self.now_ms = now_ms
        self.failed = failed
        self.mechanisms = mechanisms(key, jwt)
        self.of_names = Failures(FAILURES_OF_NAME, FAILURE_OF_NAME_S, FAILURES_KEPT)
        self.of_networks = Failures(FAILURES_OF_NETWORK, FAILURE_OF_NETWORK_S, FAILURES_KEPT)
        self.users: Mapping[str, User] = {}
        self.cookies = CookieTable()
        self._key = key
        self._operators = (0, own_uid)
        self._by_uid: dict[int, str] = {}
        self._by_proof: dict[str, str] = {}  # names, by the hashes of their tokens: no two users share one
        self._right: dict[bytes, Principal] = {}
        self._wrong: dict[bytes, float] = {}  # until when, by the clock of now_s
        self._waiting: WeakValueDictionary[bytes, _SlowCheck] = WeakValueDictionary()
        self.use(users, jwt)

    def use(self, users: Mapping[str, User], jwt: Mechanism | None = None) -> None:
        """Replaces the users and the mechanism of JSON Web Tokens. Clients that have logged in stay so."""
        is_other_jwt = (found := mechanisms(self._key, jwt)) != self.mechanisms
        self.mechanisms = found
        changed = {name for name in {*self.users, *users} if self.users.get(name) != users.get(name)}
        self._right = {key: one for key, one in self._right.items() if one.name not in changed}
        if is_other_jwt:
            by_jwt = RecognisedBy.JWT
            self._right = {key: one for key, one in self._right.items() if one.recognised_by is not by_jwt}
        if changed or is_other_jwt:
            self._wrong.clear()
            self._waiting.clear()
        self.users = users
        self.cookies.use(users, jwt)
        self._by_uid = {user.uid: name for name, user in users.items() if user.uid is not None}
        self._by_proof = {token.sha256: name for name, user in users.items() for token in user.tokens}

    def login(self, peer: str, network: str) -> Login:
        """Returns the login of one connection."""
        return _Login(self, peer, network)

    def recognised(self, principal: Principal) -> Principal | None:
        """Returns the client that the transport has recognised, if that is enough to log in."""
        if principal.recognised_by is RecognisedBy.PEER_CREDENTIALS and principal.uid is not None:
            if principal.uid in self._operators:
                return principal
            name = self._by_uid.get(principal.uid)
            return None if name is None else Principal(name, principal.recognised_by, principal.uid, principal.gid)
        is_certified = principal.recognised_by is RecognisedBy.CERTIFICATE and principal.name in self.users
        return principal if is_certified else None

    def is_operator(self, principal: Principal) -> bool:
        """Whether the client is root, or the broker's own user, on a unix socket."""
        return principal.recognised_by is RecognisedBy.PEER_CREDENTIALS and principal.uid in self._operators

    def takes_cookie(self, principal: Principal) -> bool:
        """Whether a client that the transport has recognised so may become another user by a cookie, as by a login."""
        return self.recognised(principal) is None or self.is_operator(principal)

    def rules(self, principal: Principal) -> Rules:
        """Returns what the client may do."""
        if self.is_operator(principal):
            return Rules(role=OPERATOR)
        user = self.users.get(principal.name)
        return Rules() if user is None else user.rules

    def judge(self, name: str, secret: bytes, network: str) -> Principal | Check:
        """Returns the client with that login, or the check that finds it out. Raises Refusal."""
        mechanism = next(one for one in self.mechanisms if one.takes(secret))
        if len(secret) > mechanism.secret_max_bytes:
            raise refusal()  # it cannot be anybody's: nothing of it is read or kept
        name = name or mechanism.named(secret) or self._by_proof.get(mechanism.proof(secret), "")
        if user_name_mistake(name):
            raise refusal()
        if not mechanism.is_slow:
            now_ms = self.now_ms()
            if not mechanism.proves(self.users, name, secret, now_ms):
                raise refusal()
            return _proved(mechanism, self.users, name, secret, now_ms)
        key = hmac.digest(self._key, b"%d:%b%b" % (len(name), name.encode(), secret), "sha256")
        known = self._right.get(key)
        if known is not None and not self._is_over(known):
            return known
        if self.now_s() < self._wrong.get(key, 0.0):
            raise refusal()
        check = self._waiting.get(key)
        return check if check is not None else self._check(mechanism, name, secret, key, network)

    def _check(self, mechanism: Mechanism, name: str, secret: bytes, key: bytes, network: str) -> Check:
        """Makes a check. It counts as a failure until it is answered: otherwise the number asked at once would be
        unbounded.
        """
        now_s = self.now_s()
        is_name_full = mechanism.is_guessable and self.of_names.is_full(name, now_s)
        if is_name_full or (network and self.of_networks.is_full(network, now_s)):
            raise _too_many()
        if mechanism.is_guessable:
            self.of_names.add(name, now_s)
        self.of_networks.add(network, now_s)
        check = _SlowCheck(mechanism, self.users, name, secret, self.now_ms(), key, network)
        self._waiting[key] = check
        return check

    def answered(self, check: _SlowCheck, verdict: Verdict) -> Principal:
        """Takes a check's verdict: remembers it, and gives the client. Raises Refusal."""
        is_current = self.users.get(check.name) == check.users.get(check.name) and check.mechanism in self.mechanisms
        if not check.is_answered:
            check.is_answered = True
            if self._waiting.get(check.key) is check:
                del self._waiting[check.key]  # else a later login would share its old result
            is_failure = isinstance(verdict, Refusal) and verdict.code == FORBIDDEN
            if not is_failure:
                if check.mechanism.is_guessable:
                    self.of_names.take_back(check.name)
                self.of_networks.take_back(check.network)
            if is_current and is_failure:
                is_for_good = check.mechanism.is_guessable
                _keep(self._wrong, check.key, inf if is_for_good else self.now_s() + WRONG_KEPT_S)
            elif is_current and isinstance(verdict, Principal):
                _keep(self._right, check.key, verdict)
        if isinstance(verdict, Refusal):
            raise Refusal(verdict.code, str(verdict), verdict.grounds)  # a new one: others raise this verdict as well
        if not is_current or self._is_over(verdict):
            raise refusal()
        return verdict

    def _is_over(self, principal: Principal) -> bool:
        return principal.until_ms is not None and self.now_ms() >= principal.until_ms


def _proved(mechanism: Mechanism, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> Principal:
    until_ms = mechanism.until_ms(users, name, secret, now_ms)
    return Principal(name, mechanism.recognised_by, until_ms=until_ms, proof=mechanism.proof(secret))


class _Login:
    """See Login."""

    __slots__ = ("_all", "_check", "_name", "_network", "_peer")

    def __init__(self, authenticator: Authenticator, peer: str, network: str) -> None:
        self._all = authenticator
        self._peer = peer
        self._network = network
        self._name = ""
        self._check: _SlowCheck | None = None

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        self._name = name.decode("utf-8", "replace")
        try:
            found = self._begin(principal, secret)
        except Refusal:
            self._all.failed(self._peer, self._network, self._name)
            raise
        self._check = found if isinstance(found, _SlowCheck) else None
        return found

    def _begin(self, principal: Principal, secret: bytes) -> Principal | Check:
        is_given = bool(self._name or secret)
        known = self._all.recognised(principal)
        if known is not None and (not is_given or known.name == self._name):
            return known
        if known is not None and not self._all.is_operator(principal):
            raise refusal()
        if is_given:
            return self._all.judge(self._name, secret, self._network)
        if ANONYMOUS in self._all.users:
            return Principal(ANONYMOUS)
        raise refusal()

    def unasked(self, principal: Principal) -> Principal | None:
        known = self._all.recognised(principal)
        return Principal(ANONYMOUS) if known is None and ANONYMOUS in self._all.users else known

    def answered(self, verdict: Verdict) -> Principal:
        assert self._check is not None, "this login has asked"
        check, self._check = self._check, None
        try:
            return self._all.answered(check, verdict)
        except Refusal:
            self._all.failed(self._peer, self._network, self._name)
            raise


def _keep(kept: dict[bytes, Value], key: bytes, value: Value) -> None:
    kept[key] = value
    if len(kept) > LOGINS_KEPT:
        del kept[next(iter(kept))]
