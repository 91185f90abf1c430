"""The files of a configuration that are checked before they are used: certificates with their keys, and the keys that
verify JSON Web Tokens. A start reads them before it listens, a reload before it changes anything.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radiator.auth.jwt import NOT_INSTALLED, JwtMechanism, are_of_secrets, read_keys
from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_KEYS_MAX_BYTES
from radiator.model.reloading import NOW
from radiator.model.settings import Config, JwtSettings
from radiator.server.tls_pair import Pair, load_pair

_NOT_FOR_A_SECRET = 0o037  # mode bits that are refused; a group may read, as the group of systemd's credentials does


@dataclass(slots=True, frozen=True)
class Credentials:
    """What the files hold. pair: that of [tls]. own: those of listeners with their own, by address. jwt: verifies JSON
    Web Tokens.
    """

    pair: Pair | None = None
    own: Mapping[str, Pair] = field(default_factory=dict)
    jwt: JwtMechanism | None = None


def load_credentials(config: Config) -> Credentials:
    """Reads and checks the files that the configuration names. Raises ConfigError with all that is wrong."""
    mistakes, pairs, jwt = [], {}, None
    tables = {"": config.tls, **config.tls_of_listeners} if config.tls is not None else {}
    for address, settings in tables.items():
        try:
            pairs[address] = load_pair(settings)
        except ConfigError as wrong:
            mistakes += [f"For {address}, {one}" if address else one for one in wrong.mistakes]
    try:
        jwt = None if config.jwt is None else _load_jwt(config.jwt)
    except ValueError as wrong:
        mistakes.append(f"{wrong}.")
    if mistakes:
        raise ConfigError(mistakes)
    pair = pairs.pop("", None)
    return Credentials(pair, pairs, jwt)


def differences(old: Credentials, new: Credentials) -> list[dict[str, Any]]:
    """Returns what a reload changes although the configuration names the same files. Secrets are not shown."""
    found = []
    before, after = ({"tls": one.pair, **{f'tls."{key}"': own for key, own in one.own.items()}} for one in (old, new))
    for table, pair in after.items():
        was = before.get(table)
        if was is None or pair is None:
            continue
        if was.certificate.sha256 != pair.certificate.sha256:
            found.append((f"{table}.certificate", str(was.certificate), str(pair.certificate)))
        found += [
            (f"{table}.{key}", was.cas[key], cas) for key, cas in pair.cas.items() if was.cas.get(key, cas) != cas
        ]
    if old.jwt is not None and new.jwt is not None and old.jwt.text != new.jwt.text:
        found.append(("jwt.keys", "keys", "other keys"))
    return [{"setting": key, "old": was, "new": is_, "takes_effect": NOW} for key, was, is_ in found]


def warnings(found: Credentials, now_s: float) -> list[str]:
    """Returns sentences about certificates that can be used, but that clients refuse or soon will."""
    pairs = [found.pair, *found.own.values()]
    return [sentence for pair in pairs if pair is not None and (sentence := pair.certificate.warning(now_s))]


def _load_jwt(settings: JwtSettings) -> JwtMechanism:
    """Reads the keys. Raises ValueError, with a clause, if they cannot be used."""
    path = settings.keys
    text = _read_keys(path, are_of_secrets(settings.algorithms))
    try:
        return read_keys(settings, text)
    except ModuleNotFoundError:
        raise ValueError(f"[jwt] cannot be used. {NOT_INSTALLED}") from None
    except ValueError as wrong:
        raise ValueError(f"jwt.keys is {path}, which {wrong}") from None


def _read_keys(path: Path, are_secret: bool) -> bytes:
    """Reads the file. It may be written to by its owner alone, as whoever changes the keys can log in as anybody; if
    the keys are secret, others may not read it either.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"jwt.keys is {path}, which is not a file; name a JWKS, or public keys in PEM")
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
