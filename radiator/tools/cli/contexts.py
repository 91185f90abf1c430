"""Contexts: brokers under names of the user's own, in `~/.config/radiator.toml`.

    current = "prod"

    [context."prod"]
    broker = "stomps://broker.example:61612"
    user = "ops"
    password_file = "ops.token"

A context counts as a whole, or not at all: a command that names another broker gets no user, no password and no CA of
it.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radiator.client import Address, AddressError
from radiator.model.checks import Check, meant, shown
from radiator.model.errors import ConfigError
from radiator.model.users import user_name_mistake
from radiator.tools.config.mistakes import Mistakes, lines_of_keys
from radiator.tools.config.tables import settings
from radiator.tools.config.toml_file import read_toml
from radiator.tools.config.values import path_of, quoted

ENVIRONMENT = "RADIATOR_CONTEXT"
EXAMPLE = '[context."prod"] with broker = "stomps://broker.example:61612"'
_TLS_FILES = {"ca": "ca_file", "certificate": "certificate", "key": "key"}
_SECRETS = ("password", "passcode", "token", "secret")


@dataclass(slots=True, frozen=True)
class Context:
    """broker: with the user as its login, and the files of TLS. password_file: that of the user, or None."""

    name: str
    broker: Address
    password_file: Path | None = None

    def table(self) -> dict[str, Any]:
        """Returns the context as `radiator context show` prints it."""
        broker = self.broker
        found = {"broker": str(broker), "user": broker.login, "password_file": self.password_file}
        found |= {key: getattr(broker, name) for key, name in _TLS_FILES.items()}
        return {key: str(value) for key, value in found.items() if value}


@dataclass(slots=True, frozen=True)
class Contexts:
    """The contents of the file. current: the name of the default one, or ""."""

    path: Path
    text: str = ""
    current: str = ""
    named: Mapping[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context:
        """Raises ConfigError."""
        if name in self.named:
            return self.named[name]
        if not self.text:
            raise ConfigError([f"There is no context {shown(name)}, since {self.path} is not there: write {EXAMPLE}."])
        offer = meant(name, self.named) or f"; it has {', '.join(map(shown, self.named)) or 'none'}"
        end = "" if offer.endswith("?") else "."
        raise ConfigError([f"{self.path} has no context {shown(name)}{offer}{end}"])


def chosen(name: str | None = None) -> Context | None:
    """Returns the one of that name; without one, that of the environment, else the current one; None: there is none of
    these. Raises ConfigError.
    """
    found = read_contexts()
    if name is not None:
        return found.get(name)
    if given := os.environ.get(ENVIRONMENT):
        try:
            return found.get(given)
        except ConfigError as wrong:
            raise ConfigError([f"${ENVIRONMENT}: {sentence}" for sentence in wrong.mistakes]) from None
    return found.get(found.current) if found.current else None


def path_of_contexts() -> Path:
    """Returns where the file is, or would be."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    if given.startswith("/"):  # others count for nothing (XDG Base Directory Specification)
        return Path(given, "radiator.toml")
    try:
        return Path.home() / ".config/radiator.toml"
    except RuntimeError:  # a user without a home
        return Path("/nonexistent/.config/radiator.toml")


def read_contexts() -> Contexts:
    """ConfigError: all mistakes of the file. Where there is none, there are no contexts."""
    path = path_of_contexts()
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError([f"{path} is not a regular file: contexts are in one."])
        if found.st_mode & stat.S_IWOTH:
            # whoever writes it chooses the broker that gets the password
            raise ConfigError([f"{path} can be changed by everybody on this machine: chmod 600 {path}."])
        text, tables = read_toml(path)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts(path)
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}."]) from None
    mistakes = Mistakes()
    contexts = _read(tables, path.parent, mistakes)
    current = tables.get("current", "")
    if not isinstance(current, str) or (current not in contexts and "current" in tables):
        mistakes.add(
            ("current",), f"is {shown(current)}, which is not a context{meant(current, contexts) or _has(contexts)}"
        )
    if mistakes.found:
        raise ConfigError(mistakes.sentences(path, text))
    return Contexts(path, text, current, contexts)


def _has(contexts: Mapping[str, object]) -> str:
    return f"; there is {', '.join(map(shown, contexts))}" if contexts else f"; write {EXAMPLE}"


def _read(tables: Mapping[str, Any], directory: Path, mistakes: Mistakes) -> dict[str, Context]:
    """Returns the contexts of the file, to be used only if no mistake was found."""
    for name in tables:
        if name not in ("current", "context"):
            offer = meant(name, ("current", "context")) or "; it has current and context"
            mistakes.add((name,), f"is nothing that this file has{offer}")
    given = tables.get("context", {})
    if not isinstance(given, dict) or not all(isinstance(one, dict) for one in given.values()):
        mistakes.add(("context",), f"is {shown(given)}; it must be tables, such as {EXAMPLE}")
        return {}
    return {name: _context(name, table, directory, mistakes) for name, table in given.items()}


def _context(name: str, table: dict[str, Any], directory: Path, mistakes: Mistakes) -> Context:
    keys = ("context", name)
    if mistake := user_name_mistake(name):
        mistakes.add(keys, f"has a name that {mistake}")
    for key in (key for key in _SECRETS if key in table):
        instead = "write it into a file of its own, mode 0600, and name that as password_file"
        mistakes.add((*keys, key), f"does not belong into this file, which is copied and shown; {instead}")
    if "broker" not in table:
        mistakes.add(keys, 'has no broker; name its address, such as broker = "stomps://broker.example:61612"')
    right = settings(keys, {key: one for key, one in table.items() if key not in _SECRETS}, _CONTEXT, mistakes)
    broker = right.get("broker", Address(""))
    for key in _TLS_FILES:
        if key in right and "broker" in right and not broker.is_tls:
            mistakes.add((*keys, key), f'is for TLS, and the broker is {broker}; write broker = "stomps://..."')
    if "password_file" in right and "user" not in right:
        mistakes.add((*keys, "password_file"), 'is given without a user; name one, such as user = "ops"')
    broker.login = right.get("user", "")
    for key, attribute in _TLS_FILES.items():
        if key in right:
            setattr(broker, attribute, str(_place(directory, right[key])))
    password_file = _place(directory, right["password_file"]) if "password_file" in right else None
    return Context(name, broker, password_file)


def _place(directory: Path, text: str) -> Path:
    """Relative to the file; `~` is the home of whoever runs the command."""
    try:
        return directory / Path(text).expanduser()
    except RuntimeError:
        return directory / text


def _broker(value: object) -> Address:
    if not isinstance(value, str):
        raise ValueError(f'is {shown(value)}; it must be an address such as "stomps://broker.example:61612"')
    try:
        address = Address.parse(value)
    except AddressError as wrong:
        raise ValueError(f"cannot be used: {str(wrong).rstrip('.')}") from None
    if address.login or address.passcode:
        raise ValueError(f"is {address} with a login in it; say user, and password_file, next to it")
    return address


def _user(value: object) -> str:
    if not isinstance(value, str) or user_name_mistake(value):
        raise ValueError(f"is {shown(value)}; it must be the name of a user, 1 to 64 of A-Z a-z 0-9 . _ @ -")
    return value


_CONTEXT: dict[str, Check] = {
    "broker": _broker,
    "user": _user,
    "password_file": path_of("file"),
    **dict.fromkeys(_TLS_FILES, path_of("file")),
}


# ---- the current one


def with_current(contexts: Contexts, name: str) -> str:
    """Returns the text of the file with another current context, or with none, and nothing else changed. Raises
    ConfigError.
    """
    lines = contexts.text.split("\n")
    at = dict(lines_of_keys(contexts.text)).get(("current",))
    if at is None:
        lines = [f"current = {quoted(name)}", "", *lines] if name else lines
    elif found := re.fullmatch(r"""(\s*["']?current["']?\s*=\s*)("[^"]*"|'[^']*')(.*)""", lines[at - 1], re.DOTALL):
        lines[at - 1 : at] = [f"{found[1]}{quoted(name)}{found[3]}"] if name else []
    text = "\n".join(lines)
    try:
        is_right = tomllib.loads(text) == _but_current(tomllib.loads(contexts.text), name)
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigError([f"{contexts.path} cannot be changed by a program as it is: write current yourself."])
    return text


def _but_current(tables: dict[str, Any], name: str) -> dict[str, Any]:
    others = {key: value for key, value in tables.items() if key != "current"}
    return {"current": name, **others} if name else others


def write(path: Path, text: str) -> None:
    """Replaces the file by this text, whole, with its mode. A symbolic link stays one. Raises OSError."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.new")
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(number, "w", encoding="utf-8", newline="") as file:
        os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
