"""The files of a configuration that are checked before they are used: certificates with their keys, and the keys that
verify JSON Web Tokens. A start reads them before it listens, a reload before anything changes.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radiator.auth.jwt import NOT_INSTALLED, JwtMechanism, are_of_secrets, read_keys
from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_KEYS_MAX_BYTES
from radiator.model.reloading import NOW
from radiator.model.settings import Config, JwtSettings
from radiator.server.tls import Pair, load_pair

_NOT_FOR_A_SECRET = 0o037  # a group may read it, as that of systemd's credentials does


@dataclass(slots=True, frozen=True)
class Credentials:
    """What was in the files. pair: of [tls]. jwt: whose tokens are taken."""

    pair: Pair | None = None
    jwt: JwtMechanism | None = None


def load_credentials(config: Config) -> Credentials:
    """ConfigError: what is wrong with the files that it names."""
    mistakes, pair, jwt = [], None, None
    try:
        pair = None if config.tls is None else load_pair(config.tls)
    except ConfigError as wrong:
        mistakes += wrong.mistakes
    try:
        jwt = None if config.jwt is None else _load_jwt(config.jwt)
    except ValueError as wrong:
        mistakes.append(f"{wrong}.")
    if mistakes:
        raise ConfigError(mistakes)
    return Credentials(pair, jwt)


def differences(old: Credentials, new: Credentials) -> list[dict[str, Any]]:
    """What a reload changes though the configuration names the same files. Nothing that is secret is shown."""
    found = []
    if old.pair is not None and new.pair is not None and old.pair.certificate.sha256 != new.pair.certificate.sha256:
        found.append(("tls.certificate", str(old.pair.certificate), str(new.pair.certificate)))
    if old.jwt is not None and new.jwt is not None and old.jwt.text != new.jwt.text:
        found.append(("jwt.keys", "keys", "other keys"))
    return [{"setting": key, "old": was, "new": is_, "takes_effect": NOW} for key, was, is_ in found]


def _load_jwt(settings: JwtSettings) -> JwtMechanism:
    """ValueError, a clause: why its keys cannot be used."""
    path = settings.keys
    text = _read_keys(path, are_of_secrets(settings.algorithms))
    try:
        return read_keys(settings, text)
    except ModuleNotFoundError:
        raise ValueError(f"[jwt] cannot be used. {NOT_INSTALLED}") from None
    except ValueError as wrong:
        raise ValueError(f"jwt.keys is {path}, which {wrong}") from None


def _read_keys(path: Path, are_secret: bool) -> bytes:
    """Whoever may change them is anybody here; who may read them matters where they are secrets."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"jwt.keys is {path}, which is no file; name a JWKS, or public keys in PEM")
        forbidden = _NOT_FOR_A_SECRET if are_secret else stat.S_IWOTH
        if found.st_mode & forbidden:
            wrong = f"jwt.keys is {path}, of mode {stat.S_IMODE(found.st_mode):04o}, so others may "
            wrong += "read or change it" if are_secret else "change it"
            raise ValueError(f"{wrong}; chmod 600 {path.name}, or 640 for a group that may read it")
        with open(path, "rb") as file:
            text = file.read(JWT_KEYS_MAX_BYTES + 1)
    except OSError as error:
        wrong = f"jwt.keys is {path}, which cannot be read ({os.strerror(error.errno or 0)})"
        raise ValueError(f"{wrong}; name a JWKS, or public keys in PEM") from None
    if len(text) > JWT_KEYS_MAX_BYTES:
        raise ValueError(f"jwt.keys is {path}, which has more than {JWT_KEYS_MAX_BYTES} bytes; keep the keys that sign")
    return text
