"""config.toml: read, judged as a whole, and written again.

`load` returns a Config that needs no further checks, or raises ConfigError with all mistakes at once. values.py says
which values are valid, rules.py what must hold between them, and docs/OPERATING.md what they mean.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import toml

from radiator.model.addresses import name_in
from radiator.model.checks import Check, meant, parse_size, shown, size_text
from radiator.model.commands import Reread
from radiator.model.errors import ConfigError
from radiator.model.keys import as_written
from radiator.model.limits import CHANGE_CHARACTERS, Limits
from radiator.model.patterns import is_pattern, name_mistake
from radiator.model.reloading import RELOAD, declarations_of, differences, merged, tables_of
from radiator.model.settings import (
    DEFAULT_LISTEN,
    DEFAULT_WEB_LISTEN,
    JOURNAL,
    MAP_SIZE,
    UNIX_MODE,
    Address,
    Binding,
    Config,
    Declarations,
    ListenAddress,
    Logging,
    Node,
    QueueSettings,
    TlsSettings,
    WebSettings,
    limits_beside,
    peer_outbox_default_bytes,
)
from radiator.model.validation import LOG, QUEUE, exchange_name_mistake, log_name_mistake, with_bounds
from radiator.tools.config.avro_schema import schema_in
from radiator.tools.config.jwt import jwt_settings, jwt_table
from radiator.tools.config.mistakes import Mistakes, dotted
from radiator.tools.config.rules import File, judge, settings_in_force
from radiator.tools.config.secret import how_to_make, read_secret
from radiator.tools.config.tables import settings
from radiator.tools.config.toml_file import read_toml
from radiator.tools.config.useless import find_in_users, find_useless
from radiator.tools.config.users import have_secrets, mode_mistake, read_users, read_users_file, together, user_table
from radiator.tools.config.values import (
    CREATE,
    EXCHANGE,
    FANOUT,
    HTTP,
    LIMITS,
    LOGGING,
    PEER_NODE,
    SERVER,
    THIS_NODE,
    TLS,
    TLS_OF_LISTENER,
    TOPIC,
    log_keep_text,
    node_name_mistake,
    parse_address,
    quoted,
)
from radiator.tools.config.values import JOURNAL as JOURNAL_TABLE

__all__ = ["Address", "Config", "load", "parse_address", "parse_size", "render", "reread", "render_table", "size_text"]

# what comes before a NAME


def _log_name_mistake(name: str) -> str:
    if name == JOURNAL:
        return "is that of the journal; its settings are in [journal]"
    return log_name_mistake(name)


_NAME_MISTAKES = {"peer": node_name_mistake, "exchange": exchange_name_mistake, "log": _log_name_mistake}


def load(path: Path | None) -> Config:
    """Returns the configuration in the file; without a file: loopback, for STOMP and the web, ./data, and first use may
    create queues and topics.

    ConfigError: all mistakes of the file, in the order of its lines.
    """
    if path is None:
        everything = Declarations(create_queues=True, create_topics=True)
        listen: list[ListenAddress] = [DEFAULT_LISTEN, DEFAULT_WEB_LISTEN]
        return Config(listen=listen, data_dir=Path("data").absolute(), declarations=everything)
    try:
        text, tables = read_toml(path)
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}. Name a file that is there, or none."]) from error
    mistakes, useless = Mistakes(), Mistakes()
    config = _read(tables, path.absolute().parent, mistakes, useless)
    if mistakes.found:
        raise ConfigError(mistakes.sentences(path, text))
    if (config.users or config.users_file) and (mistake := mode_mistake(path, have_secrets(config.users))):
        raise ConfigError([mistake])
    if config.users_file is not None:
        others = read_users_file(config.users_file, config.jwt is not None)
        config.users = together(config.users, others, path, config.users_file)
        useless_there = Mistakes()
        find_in_users(others, time.time(), useless_there)
        config.useless = useless_there.sentences(config.users_file, "")
    if config.jwt is not None and not any(user.jwt for user in config.users.values()):
        useless.add(("jwt",), "has no effect: no user takes such a token; set jwt = true for those who do")
    if useless.found:
        config.useless = [*useless.sentences(path, text), *config.useless]
    return config


def reread(path: Path, refused: Callable[[ListenAddress], str], running: Config) -> Reread:
    """Returns what the file says now, beside what is in force. A pipe, which a start may read, has no writer now.
    refused: why a start would not listen on an address, or "".
    """
    try:
        _check_file(path)
        read = load(path)
    except ConfigError as error:
        return Reread(None, mistakes=error.mistakes)
    if read.data_dir == running.data_dir:  # a start makes another one, which sockets may be in
        sentences = [why for one in read.listen if one not in running.listen and (why := refused(one))]
        if sentences:
            return Reread(None, mistakes=sentences)
    changes = [
        {"setting": one.setting, "old": _plain(one.old), "new": _plain(one.new), "takes_effect": one.takes_effect}
        for one in differences(running, read, dotted)
    ]
    return Reread(merged(running, read), changes, read.useless)


def _check_file(path: Path) -> None:
    """ConfigError: what is there now might never come."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # `load` says why
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ConfigError([f"{path} is not a regular file: a running broker reads no pipe and no device."])


def _plain(value: Any) -> Any:
    """Returns the value as JSON has it, and of bounded length."""
    text = json.dumps(value, default=str)
    return json.loads(text) if len(text) <= CHANGE_CHARACTERS else f"{text[:CHANGE_CHARACTERS]}..."


def _read(tables: Mapping[str, Any], directory: Path, mistakes: Mistakes, useless: Mistakes) -> Config:
    """Returns the Config of the file, to be used only if no mistake was found."""
    for name in tables:
        if name not in RELOAD:
            offer = meant(name, RELOAD) or f"; it has {', '.join(RELOAD)}"
            mistakes.add((name,), f"is not a table of this file{offer}")
    schema = {"schema": schema_in(directory)}
    file = File(
        server=settings(("server",), tables.get("server", {}), SERVER, mistakes),
        logging=settings(("logging",), tables.get("logging", {}), LOGGING, mistakes),
        http=settings(("http",), tables.get("http", {}), HTTP, mistakes),
        limits=settings(("limits",), tables.get("limits", {}), LIMITS, mistakes),
        create=settings(("create",), tables.get("create", {}), CREATE, mistakes),
        node=_node_table(tables, mistakes),
        tls=_tls_table(tables, mistakes),
        tls_of_listeners=_tls_of_listeners(tables, mistakes),
        jwt=jwt_table(tables, mistakes),
        peers=_named("peer", tables, PEER_NODE, mistakes),
        queues=_named("queue", tables, QUEUE | schema, mistakes),
        logs=_named("log", tables, LOG | schema, mistakes),
        journal=settings(("journal",), tables.get("journal", {}), JOURNAL_TABLE, mistakes),
        exchanges=_named("exchange", tables, EXCHANGE, mistakes),
        fanouts=_named("fanout", tables, FANOUT, mistakes),
        topics=_named("topic", tables, TOPIC, mistakes),
        users=read_users(tables, mistakes),
    )
    limits = _limits(file)
    server = dict(file.server)
    server["data_dir"] = Path(os.path.normpath(directory / server.get("data_dir", "data")))
    if "users_file" in server:
        server["users_file"] = Path(os.path.normpath(directory / server["users_file"]))
    if "listen" in server:
        server["listen"] = file.server["listen"] = [_placed(one, server["data_dir"]) for one in server["listen"]]
    judge(file, limits, mistakes)
    if not mistakes.found:
        find_useless(file, limits, useless)
        find_in_users(file.users, time.time(), useless)
    node = _node(file, directory, mistakes)
    return Config(
        **server,
        limits=limits,
        limits_given=frozenset(file.limits),
        declarations=_declarations(file),
        node=node,
        tls=_tls(file, directory),
        tls_of_listeners=_tls_with_defaults(file, directory),
        jwt=jwt_settings(file.jwt, directory),
        logging=Logging(**file.logging),
        http=WebSettings(**file.http),
        users=file.users,
    )


def _placed(address: ListenAddress, data_dir: Path) -> ListenAddress:
    """Returns the address, with the path that a unix socket will have."""
    if isinstance(address, Address):
        return address
    return replace(address, path=Path(os.path.normpath(data_dir / address.path)))


def _node_table(tables: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any] | None:
    """Returns the table [node], or None where there is none."""
    if "node" not in tables:
        return None
    table = tables["node"]
    if isinstance(table, dict):
        if "name" not in table:
            mistakes.add(("node",), 'has no name; give this node one of its own, such as name = "a"')
        if "secret_file" not in table:
            right = f'{how_to_make(Path("cluster.secret"))}, and say secret_file = "cluster.secret"'
            mistakes.add(("node",), f"has no secret_file, by which nodes know each other; {right}")
    found = settings(("node",), table, THIS_NODE, mistakes)
    return found if isinstance(table, dict) else None


def _tls_table(tables: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any] | None:
    """Returns the table [tls], or None where there is none."""
    if "tls" not in tables:
        return None
    table = tables["tls"]
    for key in ("certificate", "key") if isinstance(table, dict) else ():
        if key not in table:
            mistakes.add(
                ("tls",),
                f'has no {key}; name the file, such as {key} = "server.{"pem" if key == "certificate" else "key"}"',
            )
    if isinstance(table, dict):
        table = {key: value for key, value in table.items() if not _is_of_listener(key, value)}
    return settings(("tls",), table, TLS, mistakes)


def _is_of_listener(key: str, value: object) -> bool:
    return isinstance(value, dict) and key not in TLS


def _tls_of_listeners(tables: Mapping[str, Any], mistakes: Mistakes) -> dict[str, dict[str, Any]]:
    """Returns the tables [tls.ADDRESS], by the address of a listener as it is written in one way."""
    found: dict[str, dict[str, Any]] = {}
    table = tables.get("tls")
    for key, value in table.items() if isinstance(table, dict) else ():
        if not _is_of_listener(key, value):
            continue
        keys = ("tls", key)
        own = settings(keys, value, TLS_OF_LISTENER, mistakes)
        try:
            address = str(parse_address(key, is_of_nodes=key.startswith("peer")))
        except ValueError as error:
            mistakes.add(keys, f"is the table of a listener, whose address {error}")
            continue
        if address in found:
            mistakes.add(keys, f"is there twice, as {address} too; keep one of them")
        found[address] = own
    return found


def _tls(file: File, directory: Path) -> TlsSettings | None:
    """To be used only if no mistake was found."""
    if file.tls is None or not {"certificate", "key"} <= file.tls.keys():
        return None
    return _with_paths(file.tls, directory)


def _with_paths(given: Mapping[str, Any], directory: Path) -> TlsSettings:
    table = dict(given)
    for key in {"certificate", "key", "client_ca", "peer_ca"} & table.keys():
        table[key] = Path(os.path.normpath(directory / table[key]))
    return TlsSettings(**table)


def _tls_with_defaults(file: File, directory: Path) -> dict[str, TlsSettings]:
    """Returns the tables of listeners, where what a listener's own table leaves out is that of [tls]. To be used only
    if no mistake was found.
    """
    if _tls(file, directory) is None:
        return {}
    usual = {key: value for key, value in (file.tls or {}).items() if key in TLS_OF_LISTENER}
    return {address: _with_paths({**usual, **own}, directory) for address, own in file.tls_of_listeners.items()}


def _node(file: File, directory: Path, mistakes: Mistakes) -> Node | None:
    """Returns the node of the file with its secret, to be used only if no mistake was found."""
    if file.node is None or "secret_file" not in file.node:
        return None
    table = dict(file.node)
    table["secret_file"] = Path(os.path.normpath(directory / table["secret_file"]))
    try:
        secret = read_secret(table["secret_file"])
    except ValueError as error:
        mistakes.add(("node", "secret_file"), str(error))
        return None
    if table.get("discover"):
        table.setdefault("advertise", table.get("listen"))
    peers = {name: peer.get("address") for name, peer in file.peers.items()}
    map_size = file.server.get("map_size", MAP_SIZE)
    table.setdefault("peer_outbox_max_bytes", peer_outbox_default_bytes(map_size, len(peers)))
    return Node(**{"name": "", **table}, secret=secret, peers=peers)


def _named(kind: str, tables: Mapping[str, Any], checks: Mapping[str, Check], mistakes: Mistakes) -> dict[str, Any]:
    """Returns the tables [kind.NAME] by name."""
    table = tables.get(kind, {})
    if not isinstance(table, dict):
        mistakes.add((kind,), f"is {shown(table)}; it must be tables, such as [{kind}.NAME]")
        return {}
    named: dict[str, Any] = {}
    for given, below in table.items():
        keys = (kind, given)
        if not isinstance(below, dict):
            mistakes.add(keys, f"is {shown(below)}; it must be a table: [{kind}.{shown(given)}]")
            continue
        try:
            name = name_in(kind, given)
        except ValueError as error:
            mistakes.add(keys, f"has a name that {error}")
            continue
        mistake = _NAME_MISTAKES.get(kind, name_mistake)(name)
        if name in named:
            mistakes.add(keys, f"is there twice, as {shown(name)} and as its address; keep one of them")
        elif mistake:
            mistakes.add(keys, f"has a name that {mistake}")
        elif kind == "fanout" and is_pattern(name):
            mistakes.add(keys, "has a name with a wildcard; a fanout has one name")
        if kind == "fanout" and "children" not in below:
            mistakes.add(keys, 'has no children; name its queues, such as children = ["audit", "mail"]')
        named[name] = settings(keys, below, checks, mistakes)
    return named


def _limits(file: File) -> Limits:
    """Returns the limits in force."""
    return limits_beside(file.limits, file.server.get("map_size", MAP_SIZE))


def _declarations(file: File) -> Declarations:
    """Returns all that the file declares, and those queues that only a dead_letter, children or bindings name."""
    declarations = declarations_of(
        {
            "queue": file.queues,
            "log": file.logs,
            "exchange": file.exchanges,
            "fanout": file.fanouts,
            "topic": file.topics,
            "journal": {"": file.journal},
            "create": {"": file.create},
        }
    )
    for name in file.queues_named_elsewhere():
        declarations.queues.setdefault(name, with_bounds(QueueSettings(**settings_in_force(file, name))))
    return declarations


def render(config: Config) -> str:
    """Returns the configuration as the text of a file that says the same: `load` of it equals `config`, if that has no
    users. The hashes of passwords and tokens are not shown, and no start takes what is in their place.
    """
    tables = tables_of(config) | {("server", ""): _server(config)}
    if config.node is not None:
        tables["node", ""] = _node_lines(config.node)
    tables |= {("user", name): user_table(user) for name, user in config.users.items()}
    return "\n".join(_rendered(kind, name, table) for (kind, name), table in tables.items())


def _rendered(kind: str, name: str, table: dict[str, Any]) -> str:
    if kind == "peer":
        table = {"address": _text(table["address"])}
    elif kind in ("tls", "jwt"):
        table = {key: _text(value) if isinstance(value, Path) else value for key, value in table.items()}
    elif kind == "queue":
        table = table | {"partition_key": as_written(table["partition_key"])}
    elif kind == "exchange":
        table = table | {"bindings": [Binding(name, *pair) for pair in table["bindings"]] or None}
    elif kind == "log" or (kind == "journal" and table["enabled"]):
        table = table | {key: value or 0 for key, value in table.items() if key.endswith("retention_ms")}
    return f"[{dotted((kind, name) if name else (kind,))}]\n{_lines(table)}"


def render_table(kind: str, name: str, table: dict[str, Any]) -> str:
    """Returns one table of a file: settings as `radiator/model/validation.py` has them."""
    return f"[{dotted((kind, name))}]\n{_lines(table)}"


def _server(config: Config) -> dict[str, Any]:
    return {
        "listen": [_as_listed(address, config.data_dir) for address in config.listen],
        "unix": config.unix,
        "plain": [str(address) for address in config.plain],
        "users_file": _text(config.users_file),
        "data_dir": str(config.data_dir),
        "sync_interval_ms": config.sync_interval_ms,
        "map_size": config.map_size,
        "disk_free_min": config.disk_free_min,
        "log_keep": log_keep_text(config.log_keep),
    }


def _as_listed(address: ListenAddress, data_dir: Path) -> str:
    if isinstance(address, Address) or not address.path.is_relative_to(data_dir):
        return str(address)
    has_options = (address.mode, address.group) != (UNIX_MODE, "")
    return str(address if has_options else replace(address, path=address.path.relative_to(data_dir)))


def _node_lines(node: Node) -> dict[str, Any]:
    """Returns the settings of the node, without the secret: the file that has it is named."""
    return {
        "name": node.name,
        "listen": _text(node.listen),
        "secret_file": _text(node.secret_file),
        "discover": node.discover,
        "advertise": _text(node.advertise),
        "heart_beat_ms": node.heart_beat_ms,
        "peer_outbox_max_bytes": node.peer_outbox_max_bytes,
        "peer_outbox_overflow": node.peer_outbox_overflow,
    }


def _text(value: Address | Path | None) -> str | None:
    return None if value is None else str(value)


def _lines(table: dict[str, Any]) -> str:
    """Returns the table's settings that have a value; sizes in units."""
    encoder = toml.TomlEncoder()
    encoder.dump_funcs[str] = quoted  # toml's own breaks backslashes and what Python's repr escapes
    encoder.dump_funcs[Binding] = lambda one: f"{{ key = {quoted(one.key)}, queue = {quoted(one.queue)} }}"
    sizes = {key for key in table if key.endswith("_bytes") or key in ("map_size", "disk_free_min")}
    given = {key: value for key, value in table.items() if value is not None}
    return toml.dumps({key: size_text(value) if key in sizes else value for key, value in given.items()}, encoder)
