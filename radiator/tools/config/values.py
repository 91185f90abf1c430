"""Says which values config.toml may have: for each of its tables a table of checks (model/validation.py).

The checks of what can also be declared at run time are in radiator/model/validation.py.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from radiator.model import validation
from radiator.model.checks import DAY_S, TIB, Check, choice, flag, meant, one_of, seconds, shown, size, size_text, whole
from radiator.model.header_bindings import arguments_key, canonical_key
from radiator.model.limits import (
    GIB,
    HEART_BEAT_MIN_MS,
    KIB,
    MIB,
    NODE_ADDRESS_MAX_BYTES,
    NODE_NAME_MAX_BYTES,
    PREFETCH_COUNT_MAX,
)
from radiator.model.patterns import is_node_name
from radiator.model.settings import (
    ALWAYS,
    AUTO,
    CLIENT_CERTIFICATES,
    JSON,
    LOG_LEVELS,
    NEVER,
    PEER_OUTBOX_OVERFLOWS,
    PEER_PORT,
    PORT,
    SCOPES,
    SOCKET_FILE,
    TCP,
    TEXT,
    TIME_UNITS_MS,
    UNIX,
    Address,
    ListenAddress,
    LogKeep,
    UnixAddress,
)
from radiator.model.validation import binding_key, bound_name
from radiator.protocols.schemes import SCHEMES

LIST_MISTAKES_MAX = 20
_Read = TypeVar("_Read")
_KEEP_MAX_MS = 3650 * TIME_UNITS_MS["d"]


def log_keep(value: object) -> LogKeep:
    """Returns how much of the write-ahead log is kept: a size, or a time. A check: raises ValueError."""
    found = re.fullmatch("([0-9]{1,9})([a-z]+)", value) if isinstance(value, str) else None
    if found is not None and found[2] in TIME_UNITS_MS:
        max_ms = int(found[1]) * TIME_UNITS_MS[found[2]]
        if max_ms <= _KEEP_MAX_MS:
            return LogKeep(max_ms=max_ms)
    with suppress(ValueError):
        return LogKeep(max_bytes=size(0, 64 * TIB)(value))
    raise ValueError(
        f'is {shown(value)}; it must be a size up to 64TiB, as "10GiB", or a time up to 3650d, as "7d", "24h", "90min"'
        ' or "30s"; 0 keeps nothing'
    )


def log_keep_text(keep: LogKeep) -> str | int:
    """Returns the value in a form that `log_keep` reads."""
    return str(keep) if keep.max_ms else size_text(keep.max_bytes)


def each_of(values: Sequence[Any], check: Callable[[Any], _Read]) -> list[_Read]:
    """Returns what the check reads of each value of a list. ExceptionGroup: a ValueError for each that is wrong, up to
    LIST_MISTAKES_MAX of them, and one that says how many more there are.
    """
    right, wrong = [], []
    for value in values:
        try:
            right.append(check(value))
        except ValueError as error:
            wrong.append(error)
    if len(wrong) > LIST_MISTAKES_MAX:
        wrong[LIST_MISTAKES_MAX:] = [ValueError(f"has {len(wrong) - LIST_MISTAKES_MAX} more that are wrong")]
    if wrong:
        raise ExceptionGroup("wrong values of a list", wrong)
    return right


def parse_address(text: str, is_of_nodes: bool = False) -> ListenAddress:
    """Returns a listener's address: one of SCHEMES, and the place as its transport has it. A check: raises ValueError.

    is_of_nodes: nodes connect there, not clients. The path of a unix socket is returned as it was written, even if it
    is relative.
    """
    wanted = [name for name, scheme in SCHEMES.items() if (scheme.session is None) is is_of_nodes]
    found = re.match(r"([a-z][a-z0-9+.-]*):(//)?", text)
    if found is not None and found[1] in wanted:
        return _READERS[SCHEMES[found[1]].transport](text, found[1], text[len(found[1]) + 1 :])
    if found is None or not (found[2] or found[1] in SCHEMES):
        raise ValueError(f"is {shown(text)}; write an address as {wanted[0]}://HOST:PORT, an IPv6 HOST in brackets")
    other = "nodes connect to listen of [node]" if not is_of_nodes else "clients connect to listen of [server]"
    why = f" ({other})" if found[1] in SCHEMES else ""
    raise ValueError(f"has the scheme {shown(found[1])}{why}; {one_of(wanted)}{meant(found[1], wanted)}")


def _tcp_address(text: str, scheme: str, place: str) -> Address:
    found = re.fullmatch(r"//(\[[^\]\s]*\]|[^:/@\[\]\s]+):([0-9]{1,5})/?", place)
    if found is None:
        raise ValueError(f"is {shown(text)}; write an address as {scheme}://HOST:PORT, an IPv6 HOST in brackets")
    host, port = found[1], int(found[2])
    if port > 65_535:
        raise ValueError(f"has the port {port}; a port is at most 65535")
    if host.startswith("["):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise ValueError(f"has the host {shown(host)} in brackets, which is not an IPv6 address") from error
    return Address(scheme, host, port)


def _unix_address(text: str, scheme: str, place: str) -> UnixAddress:
    path, has_options, options = place.partition("?")
    if path.startswith("//"):
        name = path.strip("/") or SOCKET_FILE
        right = f"write {scheme}:{name} for a path in data_dir, or {scheme}:/{name}"
        raise ValueError(f"is {shown(text)}, but a unix socket has a path and no host; {right}")
    if not path or path.endswith("/") or not path.isprintable():
        raise ValueError(f"is {shown(text)}; write the path of a unix socket as {scheme}:PATH")
    if not path.startswith("/") and ".." in path.split("/"):
        right = "write an absolute path for another directory"
        raise ValueError(f"is {shown(text)}, but a path that is not absolute stays in data_dir; {right}")
    if not has_options:
        return UnixAddress(scheme, Path(path))
    if not path.startswith("/"):
        right = "leave it out, or write an absolute path in a directory that others can reach"
        raise ValueError(f"is {shown(text)}, but nobody else reaches a path in data_dir, whatever its mode; {right}")
    return UnixAddress(scheme, Path(path), **_unix_options(text, options))


def _unix_options(text: str, options: str) -> dict[str, Any]:
    right = "after the ? of a unix socket comes mode=0660, group=NAME, or both with & between them"
    found = [one.partition("=") for one in options.split("&")]
    given = {name: value for name, _, value in found}
    if len(given) < len(found) or not given.keys() <= {"mode", "group"}:
        raise ValueError(f"is {shown(text)}; {right}")
    if re.fullmatch("0?6[0-7]{2}", mode := given.get("mode", "0600")) is None:
        raise ValueError(f"is {shown(text)}, whose mode is {shown(mode)}; it must be octal, from 0600 to 0677")
    group = given.get("group", "")
    if "group" in given and re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_.-]*", group) is None:
        raise ValueError(f"is {shown(text)}, whose group is {shown(group)}; it must be the name of a group")
    return {"mode": int(mode, 8), "group": group}


_READERS: dict[str, Callable[[str, str, str], ListenAddress]] = {TCP: _tcp_address, UNIX: _unix_address}


def quoted(text: str) -> str:
    """Returns the text as TOML has it in quotes, which is as JSON has it, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- checks


def path_of(what: str) -> Check:
    """Returns a check that reads the path of such a thing."""

    def check(value: object) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"is {shown(value)}; it must be the path of a {what}, as text")
        return value

    return check


def _listeners(value: object) -> list[ListenAddress]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise ValueError(f'is {shown(value)}; it must be a list of addresses such as ["stomp://127.0.0.1:{PORT}"]')
    addresses = each_of(value, parse_address)
    for address in addresses:
        is_any_port = isinstance(address, Address) and not address.port
        if not is_any_port and addresses.count(address) > 1:
            raise ValueError(f"names {address} twice; name it once")
    return addresses


def _hosts(value: object) -> frozenset[str]:
    names = _texts(value, "broker.example")
    for name in names:
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", name) is None:
            raise ValueError(f"has {shown(name)}; write the name alone, such as broker.example")
    return frozenset(map(str.lower, names))


def _origins(value: object) -> frozenset[str]:
    names = _texts(value, "https://shop.example")
    for name in names:
        if re.fullmatch(r"https?://[A-Za-z0-9_.-]{1,253}(:[0-9]{1,5})?", name) is None:
            right = "write it as https://HOST, or https://HOST:PORT, with nothing after it"
            raise ValueError(f"has {shown(name)}; {right}")
    return frozenset(map(str.lower, names))


def _texts(value: object, such_as: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f'is {shown(value)}; it must be a list, such as ["{such_as}"]')
    return value


def _plain_listeners(value: object) -> list[ListenAddress]:
    addresses = _listeners(value) if value != [] else []
    for address in addresses:
        if isinstance(address, UnixAddress):
            raise ValueError(f"has {address}, which no other machine can reach; remove it")
    return addresses


def _node_address(value: object) -> Address:
    if not isinstance(value, str):
        raise ValueError(f'is {shown(value)}; it must be one address such as "peer://10.0.0.1:{PEER_PORT}"')
    address = parse_address(value, is_of_nodes=True)
    assert isinstance(address, Address), "nodes listen on TCP"
    return address


def _dialled_address(value: object) -> Address:
    address = _node_address(value)
    if address.port == 0:
        raise ValueError("has the port 0, which nobody can dial; write the port that the node listens on")
    if address.is_wildcard:
        raise ValueError(f"has the host {shown(address.host)}, which nobody can dial; write a name or an IP address")
    return address


def advertised_mistake(address: Address) -> str:
    """Returns why other nodes would not accept it from this one, as protocols/peer judges it; "" where they do."""
    host = address.host
    if "%" in host and ":" in host:
        return f"has the host {shown(host)} with a zone, which means something on this machine only; write it without"
    if ":" not in host and re.fullmatch(r"[A-Za-z0-9._-]+", host) is None:
        return f"has the host {shown(host)}; for other nodes it must be a name of A-Z a-z 0-9 . _ - or an IP address"
    if len(str(address)) > NODE_ADDRESS_MAX_BYTES:
        return f"has {len(str(address))} bytes; other nodes take at most {NODE_ADDRESS_MAX_BYTES}"
    return ""


def _advertised_address(value: object) -> Address:
    address = _dialled_address(value)
    if mistake := advertised_mistake(address):
        raise ValueError(mistake)
    return address


def node_name_mistake(name: str) -> str:
    """Returns why it is not a name of a node, as text after "which"; "" where it is one."""
    if is_node_name(name):
        return ""
    right = f"1 to {NODE_NAME_MAX_BYTES} of A-Z a-z 0-9 . _ -, and does not begin with a dot"
    return f"is not a valid name for a node; that has {right}"


def _node_name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of this node, as text")
    mistake = node_name_mistake(value)
    if mistake:
        raise ValueError(f"is {shown(value)}, which {mistake}")
    return value


def _heart_beat(value: object) -> tuple[int, int]:
    most_ms = DAY_S * 1000

    def is_interval(ms: object) -> bool:
        return isinstance(ms, int) and not isinstance(ms, bool) and (ms == 0 or HEART_BEAT_MIN_MS <= ms <= most_ms)

    if not isinstance(value, list) or len(value) != 2 or not all(map(is_interval, value)):
        right = f"two whole numbers of milliseconds, each 0 (never) or from {HEART_BEAT_MIN_MS} to {most_ms}"
        raise ValueError(f"is {shown(value)}; it must be {right}")
    return value[0], value[1]


def _bindings(value: object) -> list[tuple[str, str]]:
    """Returns the key and the queue of each binding of an exchange."""
    right = 'it must be a list of tables such as [{ key = "orders.#", queue = "audit" }]'
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        raise ValueError(f"is {shown(value)}; {right}")
    bindings: dict[tuple[str, str], None] = {}
    for one in value:
        for key in (*one, "queue"):
            if key not in BINDING or key not in one:
                raise ValueError(f"has {shown(one)}; each names its queue, and where it has one its key, no more")
        if "arguments" in one and "key" in one:
            raise ValueError(f"has {shown(one)}, with arguments and a key; a binding of type headers has no key")
        key, queue = _within(one, "key", _key), _within(one, "queue", bound_name)
        if "arguments" in one:
            key = _within(one, "arguments", arguments_key)
        if (key, queue) in bindings:
            raise ValueError(f"has {shown(one)} twice; write it once")
        bindings[key, queue] = None
    return list(bindings)


def _key(value: object) -> str:
    """Reads a routing key; or arguments as JSON, which may be longer."""
    try:
        return canonical_key(value) if isinstance(value, str) and value.startswith("{") else binding_key(value)
    except ValueError:
        return binding_key(value)


def _within(table: dict[str, object], key: str, check: Check) -> Any:
    try:
        return check(table.get(key, ""))
    except ValueError as error:
        raise ValueError(f"has {shown(table)}, in which {key} {error}") from error


# ---- the tables of the file

SERVER: dict[str, Check] = {
    "listen": _listeners,
    "unix": flag,
    "plain": _plain_listeners,
    "users_file": path_of("file"),
    "data_dir": path_of("directory"),
    "sync_interval_ms": whole(0, 60_000),
    "map_size": size(16 * MIB, 64 * TIB),
    "disk_free_min": size(0, 64 * TIB),
    "log_keep": log_keep,
}
LIMITS: dict[str, Check] = {
    "max_connections": whole(1, 1_000_000),
    "max_half_open": whole(1, 1_000_000),
    "max_half_open_per_address": whole(1, 1_000_000),
    "max_memory_bytes": size(64 * KIB, 64 * TIB),
    "max_frame_bytes": size(256, GIB),
    "max_header_bytes": size(64, 16 * MIB),
    "max_headers": whole(1, 65_536),
    "max_destinations": whole(1, 1_000_000),
    "max_subscriptions": whole(1, 65_536),
    "ack_client_window": whole(1, PREFETCH_COUNT_MAX),
    "max_leases": whole(1, 10_000_000),
    "max_transactions": whole(1, 65_536),
    "max_batch_bytes": size(256, 4 * GIB),
    "outbox_max_bytes": size(KIB, 2 * GIB),
    "connect_timeout_s": seconds(0.1, DAY_S),
    "frame_timeout_s": seconds(0.1, DAY_S),
    "block_timeout_s": seconds(0, DAY_S),
    "transaction_max_s": seconds(0.1, 30 * DAY_S),
    "prepared_max_s": seconds(1, 365 * DAY_S),
    "app_max_s": seconds(1, 3650 * DAY_S),
    "tcp_timeout_s": seconds(1, DAY_S),
    "heart_beat_ms": _heart_beat,
}
LOGGING: dict[str, Check] = {
    "level": choice(*LOG_LEVELS),
    "format": choice(TEXT, JSON),
    "priorities": choice(AUTO, ALWAYS, NEVER),
}
TLS: dict[str, Check] = {
    "certificate": path_of("file"),
    "key": path_of("file"),
    "client_ca": path_of("file"),
    "client_certificates": choice(*CLIENT_CERTIFICATES),
    "peer_ca": path_of("file"),
}
TLS_OF_LISTENER = {key: check for key, check in TLS.items() if key != "peer_ca"}
HTTP: dict[str, Check] = {"hosts": _hosts, "origins": _origins, "console": flag}
CREATE: dict[str, Check] = {"queues": flag, "topics": flag}
FANOUT: dict[str, Check] = {**validation.FANOUT, "scope": choice(*SCOPES)}
BINDING: dict[str, Check] = {"key": _key, "arguments": arguments_key, "queue": bound_name}
EXCHANGE: dict[str, Check] = {
    "type": validation.EXCHANGE["type"],
    "alternate": validation.EXCHANGE["alternate"],
    "internal": validation.EXCHANGE["internal"],
    "bindings": _bindings,
}
JOURNAL: dict[str, Check] = {
    "enabled": flag,
    "retention_ms": validation.LOG["retention_ms"],
    "retention_bytes": validation.LOG["retention_bytes"],
    "audit_retention_ms": validation.LOG["retention_ms"],
    "audit_retention_bytes": validation.LOG["retention_bytes"],
}
TOPIC: dict[str, Check] = {"scope": choice(*SCOPES)}
THIS_NODE: dict[str, Check] = {
    "name": _node_name,
    "listen": _node_address,
    "secret_file": path_of("file"),
    "discover": flag,
    "advertise": _advertised_address,
    "heart_beat_ms": whole(HEART_BEAT_MIN_MS, 60_000),
    "peer_outbox_max_bytes": size(MIB, 64 * TIB),
    "peer_outbox_overflow": choice(*PEER_OUTBOX_OVERFLOWS),
}
PEER_NODE: dict[str, Check] = {"address": _dialled_address}
