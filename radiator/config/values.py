"""What one value of config.toml may be: a table of checks for each table of the file.

A check returns the value as the program wants it, or raises ValueError with what stands behind the key's name in the
sentence about it: what is wrong, and what would be right.
"""

import difflib
import ipaddress
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from radiator.limits import GIB, HEART_BEAT_MIN_MS, KIB, MIB, NODE_ADDRESS_MAX_BYTES, NODE_NAME_MAX_BYTES
from radiator.patterns import is_node_name, is_pattern, name_mistake
from radiator.settings import OVERFLOWS, PEER_PORT, PORT, SCOPES, Address

STOMP, PEER = "stomp", "peer"
LISTENED_BY = {STOMP: "clients connect to listen of [server]", PEER: "nodes connect to listen of [node]"}
TIB = 1024 * GIB
SIZE_UNITS = {"KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
DAY_S = 86_400

Check = Callable[[object], Any]


def parse_address(text: str, scheme: str = STOMP) -> Address:
    """The address in `stomp://HOST:PORT`, or in that of another scheme. ValueError as a check."""
    found = re.fullmatch(r"([a-z][a-z0-9+.-]*)://(\[[^\]\s]*\]|[^:/@\[\]\s]+):([0-9]{1,5})/?", text)
    if found is None:
        raise ValueError(f"is {shown(text)}; write an address as {scheme}://HOST:PORT, an IPv6 HOST in brackets")
    host, port = found[2], int(found[3])
    if found[1] != scheme:
        why = f" ({LISTENED_BY[found[1]]})" if found[1] in LISTENED_BY else ""
        raise ValueError(f"has the scheme {shown(found[1])}{why}; {_one_of([scheme])}{meant(found[1], [scheme])}")
    if port > 65_535:
        raise ValueError(f"has the port {port}; a port is at most 65535")
    if host.startswith("["):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise ValueError(f"has the host {shown(host)} in brackets, which is no IPv6 address") from error
    return Address(scheme, host, port)


def parse_size(value: object) -> int:
    """Bytes: a whole number, or text such as "64MiB". ValueError as a check."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"([0-9]{1,18}) ?(KiB|MiB|GiB|TiB)", value) if isinstance(value, str) else None
    if found is None:
        right = 'a size such as "64MiB" (KiB, MiB, GiB, TiB), or bytes as a whole number'
        raise ValueError(f"is {shown(value)}; it must be {right}")
    return int(found[1]) * SIZE_UNITS[found[2]]


def size_text(size: int) -> str | int:
    """The size as a person writes it: in the largest unit that divides it, or in bytes."""
    for unit, factor in reversed(SIZE_UNITS.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return size


def quoted(text: str) -> str:
    """The text as TOML has it in quotes, which is as JSON has it, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def shown(value: object) -> str:
    """A value of the file on one line of bounded length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def meant(word: object, words: Iterable[str]) -> str:
    """`; did you mean ...?` where one of the words is close, else nothing."""
    close = difflib.get_close_matches(str(word), list(words), n=1)
    return f"; did you mean {shown(close[0])}?" if close else ""


def _one_of(words: Iterable[str]) -> str:
    return "it must be one of " + ", ".join(map(shown, words))


# ---- checks


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is {shown(value)}; it must be true or false")
    return value


def _whole(least: int, most: int) -> Check:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"is {shown(value)}; it must be a whole number from {least} to {most}")
        return value

    return check


def _seconds(least: float, most: float) -> Check:
    def check(value: object) -> float:
        # a nan is in no range
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"is {shown(value)}; it must be a number of seconds from {least} to {most}")
        return value

    return check


def _size(least: int, most: int) -> Check:
    def check(value: object) -> int:
        size = parse_size(value)
        if not least <= size <= most:
            raise ValueError(f"is {shown(value)}; it must be a size from {size_text(least)} to {size_text(most)}")
        return size

    return check


def _choice(*words: str) -> Check:
    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"is {shown(value)}; {_one_of(words)}{meant(value, words)}")
        return str(value)

    return check


def _path(of_what: str) -> Check:
    def check(value: object) -> str:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"is {shown(value)}; it must be the path of a {of_what}, as text")
        return value

    return check


def _listeners(value: object) -> list[Address]:
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise ValueError(f'is {shown(value)}; it must be a list of addresses such as ["stomp://127.0.0.1:{PORT}"]')
    addresses = [parse_address(text) for text in value]
    for address in addresses:
        if address.port and addresses.count(address) > 1:
            raise ValueError(f"names {address} twice; name it once")
    return addresses


def _node_address(value: object) -> Address:
    if not isinstance(value, str):
        raise ValueError(f'is {shown(value)}; it must be one address such as "peer://10.0.0.1:{PEER_PORT}"')
    return parse_address(value, PEER)


def _dialled_address(value: object) -> Address:
    address = _node_address(value)
    if address.port == 0:
        raise ValueError("has the port 0, which nobody can dial; write the port that the node listens on")
    if address.is_wildcard:
        raise ValueError(f"has the host {shown(address.host)}, which nobody can dial; write a name or an IP address")
    return address


def told_address_mistake(address: Address) -> str:
    """Why other nodes would not take it from this one, as protocols/peer judges it; "" where they do."""
    host = address.host
    if "%" in host and ":" in host:
        return f"has the host {shown(host)} with a zone, which means something on this machine only; write it without"
    if ":" not in host and re.fullmatch(r"[A-Za-z0-9._-]+", host) is None:
        return f"has the host {shown(host)}; for other nodes it must be a name of A-Z a-z 0-9 . _ - or an IP address"
    if len(str(address)) > NODE_ADDRESS_MAX_BYTES:
        return f"has {len(str(address))} bytes; other nodes take at most {NODE_ADDRESS_MAX_BYTES}"
    return ""


def _told_address(value: object) -> Address:
    address = _dialled_address(value)
    if mistake := told_address_mistake(address):
        raise ValueError(mistake)
    return address


def node_name_mistake(name: str) -> str:
    """Why it is no name of a node, to stand behind "which"; "" where it is one."""
    if is_node_name(name):
        return ""
    right = f"1 to {NODE_NAME_MAX_BYTES} of A-Z a-z 0-9 . _ -, and does not begin with a dot"
    return f"is no name of a node; that has {right}"


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


def _queue_name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of a queue, as text")
    mistake = name_mistake(value)
    if mistake:
        raise ValueError(f"has the name {shown(value)}, which {mistake}")
    if is_pattern(value):
        raise ValueError(f"has {shown(value)}, which is a pattern; name one queue")
    return value


def _children(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f'is {shown(value)}; it must be a list of at least one queue, such as ["audit", "mail"]')
    children = tuple(_queue_name(child) for child in value)
    for child in children:
        if children.count(child) > 1:
            raise ValueError(f"names the queue {shown(child)} twice; name it once")
    return children


# ---- the tables of the file

SERVER: dict[str, Check] = {
    "listen": _listeners,
    "allow_anonymous": _flag,
    "data_dir": _path("directory"),
    "sync_interval_ms": _whole(0, 60_000),
    "map_size": _size(16 * MIB, 64 * TIB),
    "disk_free_min": _size(0, 64 * TIB),
}
LIMITS: dict[str, Check] = {
    "max_connections": _whole(1, 1_000_000),
    "max_memory_bytes": _size(64 * KIB, 64 * TIB),
    "max_frame_bytes": _size(256, GIB),
    "max_header_bytes": _size(64, 16 * MIB),
    "max_headers": _whole(1, 65_536),
    "max_destinations": _whole(1, 1_000_000),
    "max_subscriptions": _whole(1, 65_536),
    "max_transactions": _whole(1, 65_536),
    "max_batch_bytes": _size(256, 4 * GIB),
    "outbox_max_bytes": _size(KIB, GIB),
    "connect_timeout_s": _seconds(0.1, DAY_S),
    "block_timeout_s": _seconds(0, DAY_S),
    "tcp_timeout_s": _seconds(1, DAY_S),
    "heart_beat_ms": _heart_beat,
}
CREATE: dict[str, Check] = {"queues": _flag, "topics": _flag}
QUEUE: dict[str, Check] = {
    "persistent": _flag,
    "max_messages": _whole(1, 10**12),
    "max_bytes": _size(1, 64 * TIB),
    "overflow": _choice(*OVERFLOWS),
    "dead_letter": _queue_name,
    "max_redeliveries": _whole(0, 65_535),
    "message_ttl_ms": _whole(1, 10**12),
    "ack_timeout_s": _seconds(0.1, 365 * DAY_S),
    "dedup_window_s": _seconds(0, 365 * DAY_S),
    "exclusive": _flag,
    "auto_delete": _flag,
    "scope": _choice(*SCOPES),
}
FANOUT: dict[str, Check] = {"children": _children, "scope": _choice(*SCOPES)}
TOPIC: dict[str, Check] = {"scope": _choice(*SCOPES)}
THIS_NODE: dict[str, Check] = {
    "name": _node_name,
    "listen": _node_address,
    "secret_file": _path("file"),
    "discover": _flag,
    "advertise": _told_address,
    "heart_beat_ms": _whole(HEART_BEAT_MIN_MS, 60_000),
}
PEER_NODE: dict[str, Check] = {"address": _dialled_address}
