"""Who may log in, and by what he is recognised: what [user] tables and users_file say. Plain data; tools/config reads
and checks it.
"""

from dataclasses import dataclass, field

from radiator.model.rights import Rules


@dataclass(slots=True, frozen=True)
class Token:
    """A machine's secret. sha256: of its text, in hexadecimal digits. until_ms: since the epoch; None: for ever."""

    sha256: str = field(repr=False)
    until_ms: int | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class User:
    """One user. password: its hash, as a PHC text, or None. tokens: each of them logs him in. certificate: the whole
    subject of a client's certificate, or a name in it, or None. unix: the name of a user of this system, who is
    recognised on unix sockets, or None.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    tokens: tuple[Token, ...] = ()
    certificate: str | None = None
    unix: str | None = None
    rules: Rules = field(default_factory=Rules)
