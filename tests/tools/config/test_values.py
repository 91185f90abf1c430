"""What one value may be: right, wrong, at its limits and one past them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from radiator.model.checks import parse_size, size_text
from radiator.model.limits import GIB, KIB, MIB, Limits
from radiator.model.settings import Address, ListenAddress, LogKeep, LogSettings, QueueSettings, UnixAddress
from radiator.model.validation import LOG, QUEUE
from radiator.protocols.peer.fields import ADDRESS, FieldReader
from radiator.tools.config.values import (
    CREATE,
    EXCHANGE,
    FANOUT,
    JOURNAL,
    LIMITS,
    PEER_NODE,
    SERVER,
    THIS_NODE,
    TOPIC,
    log_keep,
    log_keep_text,
    node_name_mistake,
    parse_address,
)

TABLES = {
    "server": SERVER,
    "limits": LIMITS,
    "create": CREATE,
    "queue": QUEUE,
    "exchange": EXCHANGE,
    "fanout": FANOUT,
    "log": LOG,
    "journal": JOURNAL,
    "topic": TOPIC,
    "node": THIS_NODE,
    "peer": PEER_NODE,
}


def checked(name: str, value: object) -> Any:
    table, key = name.split(".")
    return TABLES[table][key](value)


def test_every_limit_and_queue_setting_has_a_check() -> None:
    assert set(LIMITS) == {field.name for field in fields(Limits)}
    assert set(QUEUE) == {field.name for field in fields(QueueSettings)}
    assert set(LOG) == {field.name for field in fields(LogSettings)}


def test_every_default_limit_is_within_its_range() -> None:
    for field in fields(Limits):
        value = field.default
        assert LIMITS[field.name](list(value) if isinstance(value, tuple) else value) == value


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("stomp://127.0.0.1:61613", Address("stomp", "127.0.0.1", 61613)),
        ("stomp://[::1]:0", Address("stomp", "::1", 0)),
        ("stomp://localhost:65535", Address("stomp", "localhost", 65535)),
        ("stomp://broker.example:1/", Address("stomp", "broker.example", 1)),
        ("stomp+unix:a.sock", UnixAddress("stomp+unix", Path("a.sock"))),
        ("stomp+unix:..a/b..", UnixAddress("stomp+unix", Path("..a/b.."))),
        ("stomp+unix:/run/a.sock", UnixAddress("stomp+unix", Path("/run/a.sock"))),
        ("stomp+unix:/a?mode=0660&group=shop", UnixAddress("stomp+unix", Path("/a"), 0o660, "shop")),
    ],
)
def test_an_address_is_parsed(text: str, address: ListenAddress) -> None:
    assert parse_address(text) == address
    assert str(address) == text.rstrip("/")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "write an address as"),
        ("127.0.0.1:61613", "write an address as"),
        ("stomp://127.0.0.1", "write an address as"),
        ("stomp://:61613", "write an address as"),
        ("stomp://::1:61613", "write an address as"),
        ("stomp://user@host:1", "write an address as"),
        ("stomp://host:1/path", "write an address as"),
        ("stomp://host:-1", "write an address as"),
        ("stomp://host:65536", "has the port 65536"),
        ("stomp://[nonsense]:1", "not an IPv6 address"),
        (
            "stmps://host:1",
            'has the scheme "stmps"; it must be one of "stomp", "stomp+unix", "stomps", "http", "http+unix", "https", '
            '"amqp", "amqp+unix", "amqps"; did you mean "s',
        ),
        ("peer://host:1", 'has the scheme "peer" (nodes connect to listen of [node]); it must be one of "stomp"'),
        ("stomp+unix://x", "has a path and no host; write stomp+unix:x for a path in data_dir, or stomp+unix:/x"),
        ("stomp+unix:///run/x", "has a path and no host; write stomp+unix:run/x"),
        ("stomp+unix:", "write the path of a unix socket as stomp+unix:PATH"),
        ("stomp+unix:a/", "write the path of a unix socket"),
        ("stomp+unix:a\nb", "write the path of a unix socket"),
        ("stomp+unix:a?mode=0660", "nobody else reaches a path in data_dir, whatever its mode"),
        ("stomp+unix:../a", "a path that is not absolute stays in data_dir; write an absolute path"),
        ("stomp+unix:a/..", "a path that is not absolute stays in data_dir; write an absolute path"),
        ("stomp+unix:/a?", "after the ? of a unix socket comes"),
        ("stomp+unix:/a?moed=0660", "after the ? of a unix socket comes"),
        ("stomp+unix:/a?mode=0660&mode=0600", "after the ? of a unix socket comes"),
        ("stomp+unix:/a?mode=0440", 'whose mode is "0440"; it must be octal, from 0600 to 0677'),
        ("stomp+unix:/a?mode=rw", 'whose mode is "rw"'),
        ("stomp+unix:/a?group=", 'whose group is ""'),
        ("stomp+unix:/a?group=a:b", 'whose group is "a:b"'),
    ],
)
def test_what_is_no_address_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=".") as caught:
        parse_address(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("peer://host", "write an address as peer://HOST:PORT"),
        ("peers://host", "write an address as peers://HOST:PORT"),
        (
            "stomp://host:1",
            'has the scheme "stomp" (clients connect to listen of [server]); it must be one of "peer", "peers"',
        ),
        ("pear://host:1", 'has the scheme "pear"; it must be one of "peer", "peers"; did you mean "peer"?'),
    ],
)
def test_what_is_no_address_of_a_node_is_refused(text: str, sentence: str) -> None:
    for name in ("node.listen", "node.advertise", "peer.address"):
        with pytest.raises(ValueError, match=".") as caught:
            checked(name, text)
        assert sentence in str(caught.value)


@pytest.mark.parametrize("name", ["a", "_", "9", "node-1.example", "a..b", "x" * 64])
def test_a_name_of_a_node_is_taken(name: str) -> None:
    assert node_name_mistake(name) == ""


@pytest.mark.parametrize("name", ["", ".", ".a", "a b", "a/b", "ä", "a,b", "a\n", "x" * 65])
def test_what_is_no_name_of_a_node_is_refused(name: str) -> None:
    assert node_name_mistake(name).startswith("is not a valid name for a node; that has 1 to 64 of A-Z a-z 0-9 . _ -")


@pytest.mark.parametrize(
    ("host", "wildcard"),
    [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("10.0.0.1", False), ("localhost", False)],
)
def test_a_wildcard_is_known(host: str, wildcard: bool) -> None:
    assert Address("peer", host, 1).is_wildcard is wildcard


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_known(host: str, loopback: bool) -> None:
    assert Address("stomp", host, 1).is_loopback is loopback


@pytest.mark.parametrize(
    ("value", "size"), [(0, 0), (5, 5), ("1KiB", KIB), ("64MiB", 64 * MIB), ("2 GiB", 2 * GIB), ("1TiB", 1024 * GIB)]
)
def test_a_size_is_parsed(value: object, size: int) -> None:
    assert parse_size(value) == size
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize(
    "value", ["64", "64MB", "1.5GiB", "-1KiB", "", "KiB", "٣KiB", True, 1.5, None, [1], f"{'9' * 19}KiB"]
)
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="it must be a size such as"):
        parse_size(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server.listen", ["stomp://127.0.0.1:0", "stomp://127.0.0.1:0"]),
        ("server.sync_interval_ms", 0),
        ("server.sync_interval_ms", 60_000),
        ("server.map_size", "16MiB"),
        ("limits.max_connections", 1),
        ("limits.connect_timeout_s", 0.1),
        ("limits.block_timeout_s", 0),
        ("queue.max_messages", 0),
        ("queue.max_redeliveries", -1),
        ("queue.overflow", "dead-letter"),
        ("queue.dead_letter", "a/b c"),
        ("queue.message_ttl_ms", 0),
        ("queue.ack_timeout_s", 2.5),
        ("queue.dedup_window_s", 0),
        ("queue.expires_ms", 1),
        ("queue.expires_ms", 10**12),
        ("queue.redelivery_delay_ms", 0),
        ("queue.redelivery_delay_ms", 365 * 86_400_000),
        ("queue.redelivery_delay_factor", 1),
        ("queue.redelivery_delay_factor", 1.5),
        ("queue.redelivery_delay_factor", 1000),
        ("queue.redelivery_delay_max_ms", 1),
        ("queue.redelivery_delay_max_ms", 365 * 86_400_000),
        ("exchange.type", "direct"),
        ("exchange.type", "topic"),
        ("exchange.type", "fanout"),
        ("exchange.bindings", [{"key": "a.#", "queue": "q"}, {"key": "a.#", "queue": "r"}, {"queue": "q"}]),
        ("exchange.bindings", [{"key": "k" * 255, "queue": "a/b c"}]),
        ("exchange.bindings", [{"key": "", "queue": "q"}]),
        ("exchange.bindings", [{"key": "a", "queue": "/log/a/b c"}]),
        ("fanout.children", ["a", "/log/a", "/log/b"]),
        ("log.partitions", 1),
        ("log.partitions", 1024),
        ("log.partition_key", ""),
        ("log.partition_key", "/a~0b/~1/0"),
        ("log.partition_key", "/" + "x" * 254),
        ("log.retention_ms", 0),
        ("log.retention_ms", 10**12),
        ("log.retention_bytes", 1),
        ("log.retention_bytes", "64TiB"),
        ("journal.enabled", True),
        ("journal.retention_ms", 1),
        ("journal.retention_bytes", "1GiB"),
        ("limits.prepared_max_s", 1),
        ("limits.app_max_s", 3650 * 86_400),
        ("create.queues", False),
        ("queue.scope", "cluster"),
        ("fanout.scope", "node"),
        ("topic.scope", "cluster"),
        ("node.name", "a"),
        ("node.listen", "peer://0.0.0.0:0"),
        ("node.secret_file", "cluster.secret"),
        ("node.advertise", "peer://[::1]:61614"),
        ("node.heart_beat_ms", 100),
        ("node.heart_beat_ms", 60_000),
        ("peer.address", "peer://b.example:61614"),
    ],
)
def test_a_right_value_is_taken(name: str, value: object) -> None:
    checked(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server.listen", []),
        ("server.listen", "stomp://127.0.0.1:0"),
        ("server.listen", [1]),
        ("server.listen", ["stomp://127.0.0.1:1", "stomp://127.0.0.1:1"]),
        ("server.plain", True),
        ("server.plain", ["stomp+unix:a"]),
        ("server.users_file", ""),
        ("server.data_dir", ""),
        ("server.data_dir", 3),
        ("server.data_dir", "a\0b"),
        ("server.sync_interval_ms", -1),
        ("server.sync_interval_ms", 60_001),
        ("server.sync_interval_ms", 1.0),
        ("server.map_size", 16 * MIB - 1),
        ("limits.max_connections", 0),
        ("limits.max_connections", True),
        ("limits.max_connections", "20000"),
        ("limits.connect_timeout_s", 0),
        ("limits.connect_timeout_s", float("inf")),
        ("limits.connect_timeout_s", float("nan")),
        ("limits.connect_timeout_s", True),
        ("limits.block_timeout_s", -1),
        ("limits.heart_beat_ms", 10_000),
        ("limits.heart_beat_ms", [10_000]),
        ("limits.heart_beat_ms", [10_000, 99]),
        ("limits.heart_beat_ms", [True, 0]),
        ("limits.heart_beat_ms", [0.5, 0]),
        ("queue.persistent", 0),
        ("queue.max_messages", -1),
        ("queue.max_bytes", -1),
        ("queue.overflow", "drop"),
        ("queue.overflow", ["block"]),
        ("queue.overflow", {}),
        ("queue.dead_letter", ""),
        ("queue.dead_letter", 1),
        ("queue.dead_letter", "a.*"),
        ("queue.dead_letter", "x" * 256),
        ("queue.dead_letter", "a\x85"),
        ("queue.max_redeliveries", -2),
        ("queue.max_redeliveries", 65_536),
        ("queue.message_ttl_ms", -1),
        ("queue.ack_timeout_s", 0),
        ("queue.dedup_window_s", -1),
        ("queue.dead_letter", "$outbox/b"),
        ("queue.dead_letter", "$durable/topic/a/b"),
        ("queue.expires_ms", 0),
        ("queue.expires_ms", 10**12 + 1),
        ("queue.expires_ms", 1.5),
        ("queue.redelivery_delay_ms", -1),
        ("queue.redelivery_delay_ms", 365 * 86_400_000 + 1),
        ("queue.redelivery_delay_factor", 0.9),
        ("queue.redelivery_delay_factor", 1000.5),
        ("queue.redelivery_delay_factor", True),
        ("queue.redelivery_delay_factor", float("nan")),
        ("queue.redelivery_delay_max_ms", 0),
        ("queue.redelivery_delay_max_ms", 365 * 86_400_000 + 1),
        ("exchange.type", "header"),
        ("exchange.type", None),
        ("exchange.bindings", []),
        ("exchange.bindings", {"key": "a", "queue": "q"}),
        ("exchange.bindings", ["q"]),
        ("exchange.bindings", [{"key": "a"}]),
        ("exchange.bindings", [{"key": "a", "queue": "q", "to": "r"}]),
        ("exchange.bindings", [{"key": 1, "queue": "q"}]),
        ("exchange.bindings", [{"key": "k" * 256, "queue": "q"}]),
        ("exchange.bindings", [{"key": "a\n", "queue": "q"}]),
        ("exchange.bindings", [{"key": "a", "queue": "q.*"}]),
        ("exchange.bindings", [{"key": "a", "queue": "$outbox/b"}]),
        ("exchange.bindings", [{"key": "", "queue": "q"}, {"queue": "q"}]),
        ("fanout.children", []),
        ("fanout.children", "audit"),
        ("fanout.children", ["a", "a"]),
        ("fanout.children", ["a", 1]),
        ("fanout.children", ["a.#"]),
        ("fanout.children", ["/log/a", "/log/a"]),
        ("fanout.children", ["/log/"]),
        ("fanout.children", ["/log/a.*"]),
        ("fanout.children", ["/log/journal"]),
        ("fanout.children", ["/log/$checkout/q/g"]),
        ("exchange.bindings", [{"key": "a", "queue": "/log/journal"}]),
        ("exchange.bindings", [{"key": "a", "queue": "/log/" + "x" * 256}]),
        ("log.partitions", 0),
        ("log.partitions", 1025),
        ("log.partitions", None),
        ("log.partitions", True),
        ("log.partition_key", "customer"),
        ("log.partition_key", "/a~2"),
        ("log.partition_key", "/a~"),
        ("log.partition_key", "/" + "x" * 255),
        ("log.partition_key", 1),
        ("log.partition_key", None),
        ("log.retention_ms", -1),
        ("log.retention_ms", 10**12 + 1),
        ("log.retention_ms", False),
        ("log.retention_bytes", 0),
        ("log.retention_bytes", "65TiB"),
        ("journal.enabled", "true"),
        ("journal.enabled", 1),
        ("journal.retention_ms", -1),
        ("limits.prepared_max_s", 0.5),
        ("limits.app_max_s", 3650 * 86_400 + 1),
        ("queue.scope", "clustered"),
        ("fanout.scope", True),
        ("topic.scope", None),
        ("node.name", "a b"),
        ("node.name", 3),
        ("node.listen", ["peer://127.0.0.1:1"]),
        ("node.listen", "stomp://127.0.0.1:1"),
        ("node.secret_file", ""),
        ("node.secret_file", "a\0b"),
        ("node.discover", 1),
        ("node.advertise", "peer://0.0.0.0:61614"),
        ("node.advertise", "peer://host:0"),
        ("node.advertise", "peer://[fe80::1%eth0]:61614"),
        ("node.advertise", "peer://größe.example:61614"),
        ("node.advertise", "peer://a~b:61614"),
        ("node.advertise", f"peer://{'h' * 288}:61614"),
        ("node.heart_beat_ms", 99),
        ("node.heart_beat_ms", 60_001),
        ("node.heart_beat_ms", [2000, 2000]),
        ("peer.address", "peer://host:0"),
        ("peer.address", "peer://[::]:61614"),
        ("peer.address", 61614),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="^(is|has|names) .+; "):
        checked(name, value)


@pytest.mark.parametrize(
    "text",
    ["peer://[::ffff:10.0.0.1]:1", "peer://10.0.0.1:65535", "peer://a_b-c.example:1", f"peer://{'h' * 287}:61614"],
)
def test_what_is_advertised_is_taken_by_other_nodes(text: str) -> None:
    raw = ADDRESS.write(str(checked("node.advertise", text)))
    assert ADDRESS.read(FieldReader(raw, 0, len(raw), Limits())) == text


def test_a_long_value_is_shown_short() -> None:
    with pytest.raises(ValueError, match=".") as caught:
        checked("queue.overflow", "x" * 10_000)
    assert len(str(caught.value)) < 250


def test_a_value_is_shown_on_one_line() -> None:
    with pytest.raises(ValueError, match=".") as caught:
        checked("queue.overflow", "a\nb\x1b[31m")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("value", "keep", "text"),
    [
        (0, LogKeep(), 0),
        (5, LogKeep(max_bytes=5), 5),
        ("10GiB", LogKeep(max_bytes=10 * GIB), "10GiB"),
        ("64TiB", LogKeep(max_bytes=65536 * GIB), "64TiB"),
        ("30s", LogKeep(max_ms=30_000), "30s"),
        ("90min", LogKeep(max_ms=5_400_000), "90min"),
        ("60min", LogKeep(max_ms=3_600_000), "1h"),
        ("3650d", LogKeep(max_ms=315_360_000_000), "3650d"),
    ],
)
def test_log_keep_is_a_size_or_a_time(value: object, keep: LogKeep, text: str | int) -> None:
    assert log_keep(value) == keep
    assert log_keep_text(keep) == text
    assert log_keep(text) == keep


@pytest.mark.parametrize("value", [-1, True, "7", "7 d", "7m", "3651d", "65TiB", "7D", None, [], "99999999999d", "-7d"])
def test_what_is_no_log_keep_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match='must be a size up to 64TiB, as "10GiB", or a time up to 3650d'):
        log_keep(value)
