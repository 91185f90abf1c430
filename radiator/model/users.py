"""Who may log in, and by what he is recognised: what [user] tables and users_file say. Plain data; tools/config reads
and checks it.
"""

import re
from dataclasses import dataclass, field

from radiator.model.rights import Rules

ANONYMOUS = "anonymous"
"""The user that whoever gives no login is, where it is there."""
_NAME = re.compile("[A-Za-z0-9._@-]{1,64}")


def user_name_mistake(name: str) -> str:
    """Why it is no name of a user, to stand behind "a name that"; "" where it is one."""
    return "" if _NAME.fullmatch(name) else "is not 1 to 64 of A-Z a-z 0-9 . _ @ -"


@dataclass(slots=True, frozen=True)
class Token:
    """A machine's secret. sha256: of its text, in hexadecimal digits. until_ms: since the epoch; None: for ever."""

    sha256: str = field(repr=False)
    until_ms: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class User:
    """One user. password: its hash, as a PHC text, or None. tokens: each of them logs him in. jwt: whether a JSON Web
    Token that names him does. certificate: the whole subject of a client's certificate, or a name in it, or None. unix:
    the name of a user of this system, who is recognised on unix sockets, or None; uid: that user's number.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    tokens: tuple[Token, ...] = ()
    jwt: bool = False
    certificate: str | None = None
    unix: str | None = None
    uid: int | None = None
    rules: Rules = field(default_factory=Rules)
