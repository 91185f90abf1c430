"""[user] tables: of config.toml, and of the file that `users_file` names. Their hashes of passwords and tokens are in
no answer and no log.
"""

import pwd
import stat
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from radiator.auth import scrypt, tokens
from radiator.model.checks import TIB, Check, choice, flag, shown, size, whole
from radiator.model.errors import ConfigError
from radiator.model.limits import NEXT_TO_NOTHING_BYTES, TOKENS_MAX, USERS_MAX
from radiator.model.rights import RIGHTS, ROLES, Rules, rule_mistake
from radiator.model.users import ANONYMOUS, BOUNDS, Token, User, UserBounds, user_name_mistake
from radiator.tools.config.jwt import judge_jwt
from radiator.tools.config.mistakes import Mistakes
from radiator.tools.config.tables import settings
from radiator.tools.config.toml_file import read_toml
from radiator.tools.config.values import each_of

Table = dict[str, Any]

NOT_SHOWN = "not shown"  # what is in the place of a hash where a configuration is printed
_PROOFS = ("password", "tokens", "jwt", "certificate", "unix")
_OF_EVERYBODY = stat.S_IROTH | stat.S_IWOTH
_HOW_TO_ADD = 'add one, such as [user."shop"] with password = "..." of `radiator password`'


# ---- checks


def _password(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text; it must be what `radiator password` prints")
    scrypt.parse(value)
    return value


def _tokens(value: object) -> tuple[Token, ...]:
    right = 'it must be a list such as [{ sha256 = "...", until = 2027-01-01 }], as `radiator token` prints it'
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"is not a list of tokens; {right}")
    if len(value) > TOKENS_MAX:
        raise ValueError(f"has {len(value)} tokens; a user has at most {TOKENS_MAX}")
    found = []
    for one in value:
        if not one.keys() <= {"sha256", "until"} or not isinstance(one.get("sha256"), str):
            raise ValueError(f"has a token with other settings than sha256 and until; {right}")
        if not tokens.is_sha256(one["sha256"]):
            raise ValueError(f"has a sha256 that is not 64 digits of 0-9 a-f; {right}")
        found.append(Token(one["sha256"], _until_ms(one["until"]) if "until" in one else None))
    if len({one.sha256 for one in found}) < len(found):
        raise ValueError("has one sha256 twice; write each token once")
    return tuple(found)


def _until_ms(value: object) -> int:
    """Returns the moment from which a token is no longer valid; a day means its beginning, at midnight of UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        moment = value
    elif isinstance(value, date) and not isinstance(value, datetime):
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    else:
        right = "it must be a day such as 2027-01-01, or a time with its zone such as 2027-01-01T12:00:00Z"
        raise ValueError(f"has until = {shown(value)}; {right}, without quotes")
    return int(moment.timestamp() * 1000)


def _certificate(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(f'is {shown(value)}; it must be the subject of a certificate, such as "CN=shop,O=Example"')
    return value


def _unix(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"is {shown(value)}; it must be the name of a user of this system")
    return value


def _patterns(right: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f'is {shown(value)}; it must be a list of patterns such as ["/queue/orders.#"]')
    return tuple(each_of(value, partial(_rule, right)))


def _rule(right: str, rule: str) -> str:
    if mistake := rule_mistake(rule, right):
        raise ValueError(f"has {shown(rule)}, which {mistake}")
    return rule


USER: dict[str, Check] = {
    "password": _password,
    "tokens": _tokens,
    "jwt": flag,
    "certificate": _certificate,
    "unix": _unix,
    "role": choice(*ROLES),
    **{right: partial(_patterns, right) for right in RIGHTS},
    "max_connections": whole(1, 1_000_000),
    "max_subscriptions": whole(1, 1_000_000_000),
    "max_destinations": whole(0, 1_000_000),
    "max_unacked_bytes": size(1, 64 * TIB),
    "max_memory_bytes": size(NEXT_TO_NOTHING_BYTES, 64 * TIB),
    "max_stored_bytes": size(1, 64 * TIB),
    "max_messages_per_s": whole(1, 1_000_000_000),
}


# ---- tables


def read_users(tables: Mapping[str, Any], mistakes: Mistakes) -> dict[str, User]:
    """Returns the users of a file by name, to be used only if no mistake was found. An empty [user] is a mistake: it
    would be taken for a broker that nobody needs a login for.
    """
    if "user" not in tables:
        return {}
    table = tables["user"]
    if not isinstance(table, dict) or not table:
        mistakes.add(("user",), f"is {shown(table)}; it must be tables, such as [user.NAME]; {_HOW_TO_ADD}")
        return {}
    if len(table) > USERS_MAX:
        mistakes.add(("user",), f"has {len(table)} users; there may be at most {USERS_MAX}")
        return {}
    users = {name: _user(name, below, mistakes) for name, below in table.items()}
    _judge_twice(users, "certificate", mistakes)
    _judge_twice(users, "unix", mistakes)
    _judge_tokens(users, mistakes)
    return users


def _user(name: str, table: object, mistakes: Mistakes) -> User:
    keys = ("user", name)
    if mistake := user_name_mistake(name):
        mistakes.add(keys, f"has a name that {mistake}")
    if not isinstance(table, dict):
        mistakes.add(keys, "is not a table; write [user.NAME], and below it what it has")
        return User(name=name)
    right = settings(keys, table, USER, mistakes)
    given = [key for key in _PROOFS if key in table and table[key] is not False]
    if name == ANONYMOUS and given:
        mistakes.add((*keys, given[0]), "is given, but anonymous is whoever gives no login; name another user")
    elif name != ANONYMOUS and not given:
        mistakes.add(keys, f"can never log in; give it one of {', '.join(_PROOFS)}")
    uid = None
    if "unix" in right:
        try:
            uid = pwd.getpwnam(right["unix"]).pw_uid
        except KeyError:
            wrong = f"is {shown(right['unix'])}, and this system has no user of that name"
            mistakes.add((*keys, "unix"), f"{wrong}; make it, or name another")
    rules = {key: right.pop(key) for key in (*RIGHTS, "role") if key in right}
    bounds = {key: right.pop(key) for key in BOUNDS if key in right}
    return User(name=name, uid=uid, rules=Rules(**rules), bounds=UserBounds(**bounds), **right)


def _judge_twice(users: Mapping[str, User], key: str, mistakes: Mistakes) -> None:
    """Reports what would make one client two users."""
    taken: dict[str, str] = {}
    for name, user in users.items():
        value = getattr(user, key)
        if value is not None and taken.setdefault(value, name) != name:
            mistakes.add(("user", name, key), f"is {shown(value)}, as is that of {taken[value]}; name it once")


def _judge_tokens(users: Mapping[str, User], mistakes: Mistakes) -> None:
    """Reports a token that two users have. Its hash is not shown."""
    taken: dict[str, str] = {}
    for name, user in users.items():
        for token in user.tokens:
            if (other := taken.setdefault(token.sha256, name)) != name:
                mistakes.add(("user", name, "tokens"), f"has a token that {other} has, too; make one for each")


def have_secrets(users: Mapping[str, User]) -> bool:
    """Whether one of them has the hash of a password or a token."""
    return any(user.password is not None or user.tokens for user in users.values())


def mode_mistake(path: Path, has_secrets: bool = True) -> str:
    """Returns why that file must not hold users, as a sentence; "" where it may, or is gone. Whoever may write it can
    be any user in it; who may read it matters if it has something secret.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    if not mode & (_OF_EVERYBODY if has_secrets else stat.S_IWOTH):
        return ""
    right = f"chmod 600 {path.name}, or 640 with a group that the broker is in"
    return f"{path} holds users, and everybody on this machine may read or write it: {right}."


def read_users_file(path: Path, has_jwt: bool = False) -> dict[str, User]:
    """Returns the users in a file of their own. has_jwt: whether there is a table [jwt]. ConfigError: all mistakes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError([f"{path} is not a regular file: users_file must name one."])
        if mistake := mode_mistake(path):
            raise ConfigError([mistake])
        text, tables = read_toml(path)
    except OSError as error:
        raise ConfigError([f"{path}, which users_file names, cannot be read: {error.strerror}."]) from error
    mistakes = Mistakes()
    for name in tables:
        if name != "user":
            mistakes.add((name,), "is not a table of this file; it has [user.NAME] alone")
    users = read_users(tables, mistakes)
    judge_jwt(users.values(), has_jwt, mistakes)
    if not users and not mistakes.found:
        raise ConfigError([f"{path}, which users_file names, has no users: {_HOW_TO_ADD}, or remove users_file."])
    if mistakes.found:
        raise ConfigError(mistakes.sentences(path, text))
    return users


def together(users: Mapping[str, User], others: Mapping[str, User], path: Path, users_file: Path) -> dict[str, User]:
    """Returns the users of config.toml and those of users_file. Raises ConfigError if a user is in both."""
    both = users.keys() & others.keys()
    if both:
        raise ConfigError([f"{path}: user.{name} is in {users_file} too; keep one of them." for name in sorted(both)])
    found = {**users, **others}
    mistakes = Mistakes()
    _judge_twice(found, "certificate", mistakes)
    _judge_twice(found, "unix", mistakes)
    _judge_tokens(found, mistakes)
    if mistakes.found:
        raise ConfigError(mistakes.sentences(path, ""))
    return found


def user_table(user: User) -> Table:
    """Returns the user as a file would have it, without hashes of passwords and tokens."""
    rules = user.rules
    return {
        "password": None if user.password is None else NOT_SHOWN,
        "tokens": [NOT_SHOWN for _ in user.tokens] or None,
        "jwt": user.jwt or None,
        "certificate": user.certificate,
        "unix": user.unix,
        "role": rules.role or None,
        **{right: list(getattr(rules, right)) or None for right in RIGHTS},
        **asdict(user.bounds),
    }
