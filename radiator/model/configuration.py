"""What is asked and answered about the configuration in force; see administration.py."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from radiator.model.numbers import Rows
from radiator.model.reloading import SECRETS, Place, Tables, own_tables, user_values
from radiator.model.settings import (
    AUDIT_RETENTION_BYTES,
    AUDIT_RETENTION_MS,
    DEFAULT_LISTEN,
    DEFAULT_WEB_LISTEN,
    Config,
    JwtSettings,
    Logging,
    LogKeep,
    LogSettings,
    Node,
    TlsSettings,
    WebSettings,
    limits_beside,
    peer_outbox_default_bytes,
)

HIDDEN = "[hidden]"
"""What stands for a secret."""


@dataclass(slots=True)
class ReadConfiguration:
    """What is in force: Configuration."""


@dataclass(slots=True)
class Setting:
    """section: the table of config.toml that has it, and of: the table's name, as in [peer.b]; None: it has none.
    value, default: as JSON has them, sizes in bytes; a secret is HIDDEN, and what a file must give has the default
    None.
    """

    section: str
    of: str | None
    name: str
    value: Any
    default: Any
    is_default: bool


@dataclass(slots=True)
class Configuration:
    """The settings of the broker itself and its users; what has an address is described by its own request. path: of
    the file; None: the broker was started without one.
    """

    configuration: Rows[Setting]
    path: str | None


# ---- what is in force -----------------------------------------------------------------------------------------------


def settings_in_force(config: Config, path: Path | None) -> Iterator[Setting]:
    """All settings except those of what is declared, in the order in which a file would have them, defaults included;
    of a user only what the user's table gives. path: of the file.
    """
    tables = own_tables(config)
    usual = _defaults(config, path, tables)
    for place, table in tables.items():
        section, of = place
        for name, value in table.items():
            default = usual[place].get(name)
            yield Setting(section, of or None, name, _plain(value), _plain(default), value == default)
    for user in config.users.values():
        for name, value in user_values(user).items():
            if value is not None:
                shown = _hidden(value) if name in SECRETS else _plain(value)
                yield Setting("user", user.name, name, shown, None, False)


def _defaults(config: Config, path: Path | None, tables: Tables) -> dict[Place, Mapping[str, Any]]:
    """What would be in force for each of these tables without it, beside the others."""
    usual = {("limits", ""): _limits(config), ("journal", ""): _journal(config.declarations.has_journal)}
    usual |= {("logging", ""): asdict(Logging()), ("http", ""): asdict(WebSettings())}
    usual["server", ""] = {one.name: _default_of(one) for one in fields(Config)}
    usual["create", ""] = dict.fromkeys(("queues", "topics"), path is None)
    if path is None:
        usual["server", ""] |= {"listen": [DEFAULT_LISTEN, DEFAULT_WEB_LISTEN], "data_dir": config.data_dir}
    else:
        usual["server", ""]["data_dir"] = path.parent / "data"
    if config.node is not None:
        usual["node", ""] = _node(config.node, config.map_size)
    usual["tls", ""] = {one.name: _default_of(one) for one in fields(TlsSettings)}
    usual["jwt", ""] = {one.name: _default_of(one) for one in fields(JwtSettings)}
    of_all = tables.get(("tls", ""), {})
    named = {"tls": of_all, "peer": {}}
    return usual | {place: named[place[0]] for place in tables if place[1]}


def _default_of(one: Any) -> Any:
    """The default of a record's field; None if it must be given."""
    if one.default_factory is not MISSING:
        return one.default_factory()
    return None if one.default is MISSING else one.default


def _limits(config: Config) -> dict[str, Any]:
    """The default of each limit, given the other limits in the file."""
    given = {name: getattr(config.limits, name) for name in config.limits_given}
    found = asdict(limits_beside(given, config.map_size))
    for name in given:
        others = {key: value for key, value in given.items() if key != name}
        found[name] = getattr(limits_beside(others, config.map_size), name)
    return found


def _journal(is_there: bool) -> dict[str, Any]:
    usual = LogSettings()
    of_audit = {"audit_retention_ms": AUDIT_RETENTION_MS, "audit_retention_bytes": AUDIT_RETENTION_BYTES}
    found = {"retention_ms": usual.retention_ms, "retention_bytes": usual.retention_bytes, **of_audit}
    return {"enabled": False, **(found if is_there else dict.fromkeys(found))}


def _node(node: Node, map_size: int) -> dict[str, Any]:
    usual = {one.name: _default_of(one) for one in fields(Node)}
    outbox_max_bytes = peer_outbox_default_bytes(map_size, len(node.peers))
    return usual | {"advertise": node.listen if node.discover else None, "peer_outbox_max_bytes": outbox_max_bytes}


# ---- as JSON has it -------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Returns a value about as a file has it: addresses and paths are texts, and sizes are bytes."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, LogKeep):
        return str(value) if value.max_ms else value.max_bytes
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(_plain(one) for one in value)
    return HIDDEN if isinstance(value, bytes) else str(value)


def _hidden(value: Any) -> Any:
    """Shows of a secret, or of each of several, only that it exists."""
    return [HIDDEN for _ in value] if isinstance(value, list | tuple) else HIDDEN
