"""The table [jwt] of config.toml. Whether its file of keys can be used, a start finds out (server/credentials.py)."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from radiator.auth.jwt import ALGORITHMS, algorithms_mistake
from radiator.model.checks import Check, meant, one_of, shown
from radiator.model.settings import JwtSettings
from radiator.model.users import User
from radiator.tools.config.mistakes import Mistakes
from radiator.tools.config.tables import settings
from radiator.tools.config.values import path_of

_NEEDED = {
    "keys": 'name the file of the keys that verify tokens, such as keys = "keys.json"',
    "algorithms": 'name those that tokens may be signed with, such as algorithms = ["ES256"]',
    "issuer": 'name whose tokens are taken, such as issuer = "https://login.example"',
    "audience": 'name for whom a token must be, such as audience = "radiator"',
}
_TEXT_MAX = 1024


def _algorithms(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise ValueError(f'is {shown(value)}; it must be a list such as ["ES256"]')
    for one in value:
        if one not in ALGORITHMS:
            raise ValueError(f"has {shown(one)}; {one_of(ALGORITHMS)}{meant(one, ALGORITHMS)}")
        if value.count(one) > 1:
            raise ValueError(f"has {shown(one)} twice; name it once")
    found = tuple(value)
    if mistake := algorithms_mistake(found):
        raise ValueError(mistake)
    return found


def _claim(what: str) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= _TEXT_MAX:
            raise ValueError(f"is {shown(value)}; it must be the {what} as tokens have it, as text")
        return value

    return check


JWT: dict[str, Check] = {
    "keys": path_of("file"),
    "algorithms": _algorithms,
    "issuer": _claim("issuer (iss)"),
    "audience": _claim("audience (aud)"),
    "user_claim": _claim("name of the claim that is the user's name"),
}


def jwt_table(tables: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any] | None:
    """Returns the settings of [jwt] that are right, or None where there is no such table."""
    if "jwt" not in tables:
        return None
    table = tables["jwt"]
    for key, right in _NEEDED.items() if isinstance(table, dict) else ():
        if key not in table:
            mistakes.add(("jwt",), f"has no {key}; {right}")
    return settings(("jwt",), table, JWT, mistakes)


def jwt_settings(table: Mapping[str, Any] | None, directory: Path) -> JwtSettings | None:
    """To be used only if no mistake was found."""
    if table is None or not _NEEDED.keys() <= table.keys():
        return None
    return JwtSettings(**{**table, "keys": Path(os.path.normpath(directory / table["keys"]))})


def judge_jwt(users: Iterable[User], has_jwt: bool, mistakes: Mistakes) -> None:
    """Nobody's token is taken unless the file says whose keys verify it."""
    for user in users:
        if user.jwt and not has_jwt:
            right = "add [jwt] with keys, algorithms, issuer and audience to config.toml, or remove it"
            mistakes.add(("user", user.name, "jwt"), f"is true, and there is no [jwt]; {right}")
