"""Who may log in, and by what they are recognised: what [user] tables and users_file say. Plain data; tools/config
reads and checks it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from radiator.model.rights import Rules

ANONYMOUS = "anonymous"
"""The user of clients that give no login, if there is one of that name."""
_NAME = re.compile("[A-Za-z0-9._@-]{1,64}")
MADE_BY = "made_by"
"""In what the store keeps of a destination's settings: the user that has made it."""


def without_maker(kept: dict[str, Any]) -> dict[str, Any]:
    """Settings as the store keeps them, without the user who made the destination."""
    return {key: value for key, value in kept.items() if key != MADE_BY}


def maker_of(kept: Mapping[str, Any]) -> str:
    """The user who made the destination of these settings, as the store keeps them; "": none."""
    name = kept.get(MADE_BY, "")
    return name if isinstance(name, str) else ""


def user_name_mistake(name: str) -> str:
    """Why it is not a name of a user, as text after "a name that"; "" where it is one."""
    return "" if _NAME.fullmatch(name) else "is not 1 to 64 of A-Z a-z 0-9 . _ @ -"


@dataclass(slots=True, frozen=True)
class Token:
    """A machine's secret. sha256: of its text, in hexadecimal digits. until_ms: since the epoch; None: for ever."""

    sha256: str = field(repr=False)
    until_ms: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class UserBounds:
    """How much of the broker one user may have in use; None: as much as there is (docs/OPERATING.md, Users)."""

    max_connections: int | None = None
    max_subscriptions: int | None = None
    max_destinations: int | None = None
    max_unacked_bytes: int | None = None
    max_memory_bytes: int | None = None
    max_stored_bytes: int | None = None
    max_messages_per_s: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class User:
    """One user. password: its hash, as a PHC text, or None. tokens: each of them logs the user in. jwt: whether a JSON
    Web Token that names him does. certificate: the whole subject of a client's certificate, or a name in it, or None.
    unix: the name of a user of this system, who is recognised on unix sockets, or None; uid: that user's number.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    tokens: tuple[Token, ...] = ()
    jwt: bool = False
    certificate: str | None = None
    unix: str | None = None
    uid: int | None = None
    rules: Rules = field(default_factory=Rules)
    bounds: UserBounds = field(default_factory=UserBounds)


BOUNDS = tuple(one.name for one in fields(UserBounds))
"""As a user's table has them."""
