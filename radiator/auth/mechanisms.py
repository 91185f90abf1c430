"""The mechanisms by which users prove who they are, in one table. A secret is judged by the first row that takes it."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from radiator.auth import scrypt, tokens
from radiator.model.limits import SECRET_GIVEN_MAX_BYTES
from radiator.model.principal import RecognisedBy
from radiator.model.users import User


class Mechanism(Protocol):
    """One mechanism. It sees the secret, and keeps nothing of it."""

    @property
    def recognised_by(self) -> RecognisedBy: ...

    @property
    def secret_max_bytes(self) -> int:
        """A longer secret is nobody's."""

    @property
    def is_slow(self) -> bool:
        """Whether `proves` takes long: then it runs in the checks' thread, and failures of a network are counted."""

    @property
    def is_guessable(self) -> bool:
        """Whether a secret could be found by trying: then failures of a name are counted, too."""

    def takes(self, secret: bytes) -> bool:
        """Whether the secret has the form of this mechanism."""

    def named(self, secret: bytes) -> str:
        """Returns the name that a login without a name claims, and that is still to be proved; "": none."""

    def proves(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> bool:
        """Whether it is a secret of the user of that name. Takes as long for a name that nobody has."""

    def until_ms(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> int | None:
        """Returns when a secret for which `proves` is true runs out, since the epoch; None: never."""

    def proof(self, secret: bytes) -> str:
        """Returns what the user's table has for it, if removing that is to end a connection; else ""."""


@dataclass(slots=True, frozen=True)
class TokenMechanism:
    """A token, as machines have."""

    recognised_by: RecognisedBy = RecognisedBy.TOKEN
    secret_max_bytes: int = SECRET_GIVEN_MAX_BYTES
    is_slow: bool = False
    is_guessable: bool = False

    def takes(self, secret: bytes) -> bool:
        return tokens.is_token(secret)

    def named(self, secret: bytes) -> str:
        return ""

    def proves(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> bool:
        user = users.get(name)
        return tokens.fitting(() if user is None else user.tokens, secret, now_ms) is not None

    def until_ms(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> int | None:
        found = tokens.fitting(users[name].tokens, secret, now_ms)
        return None if found is None else found.until_ms

    def proof(self, secret: bytes) -> str:
        return tokens.sha256_of(secret)


@dataclass(slots=True, frozen=True)
class PasswordMechanism:
    """A password, as people have. key: random, of this run."""

    key: bytes = field(repr=False)
    recognised_by: RecognisedBy = RecognisedBy.PASSWORD
    secret_max_bytes: int = SECRET_GIVEN_MAX_BYTES
    is_slow: bool = True
    is_guessable: bool = True

    def takes(self, secret: bytes) -> bool:
        return True

    def named(self, secret: bytes) -> str:
        return ""

    def proves(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> bool:
        user = users.get(name)
        if user is not None and user.password is not None:
            return scrypt.parse(user.password).fits(secret)
        self._dummy(users, name).fits(secret)
        return False

    def until_ms(self, users: Mapping[str, User], name: str, secret: bytes, now_ms: int) -> int | None:
        return None

    def proof(self, secret: bytes) -> str:
        return ""

    def _dummy(self, users: Mapping[str, User], name: str) -> scrypt.PasswordHash:
        """Returns the hash for a name without a password: it costs as much as some user's, always the same one's."""
        hashes = [one.password for one in users.values() if one.password is not None]
        if not hashes:
            return scrypt.dummy(scrypt.Cost())
        chosen = int.from_bytes(hmac.digest(self.key, name.encode(), "sha256")) % len(hashes)
        return scrypt.dummy(scrypt.parse(hashes[chosen]).cost)


def mechanisms(key: bytes, jwt: Mechanism | None = None) -> tuple[Mechanism, ...]:
    """Returns the table. key: random, of this run. jwt: of the issuer that the configuration names, if any."""
    return TokenMechanism(), *([jwt] if jwt is not None else []), PasswordMechanism(key)
