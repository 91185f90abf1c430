"""load and render: what is in force, with and without a file."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from radiator.model.errors import ConfigError
from radiator.model.header_bindings import arguments_key
from radiator.model.limits import GIB, KIB, MIB, PARTITIONS_MAX, Limits
from radiator.model.settings import (
    AUDIT,
    AUDIT_RETENTION_BYTES,
    EXCHANGE_TYPES,
    HEADERS,
    JOURNAL,
    MEMORY_BYTES_MAX,
    MEMORY_MESSAGES_MAX,
    Binding,
    Declarations,
    ExchangeSettings,
    LogKeep,
    LogSettings,
    Node,
    QueueSettings,
    TlsSettings,
    UnixAddress,
)
from radiator.tools.config import Address, Config, _read, load, render
from radiator.tools.config.mistakes import Mistakes

PEER_B = "peer.b.address = 'peer://10.0.0.2:61614'\n"
CHECKOUT = Path(__file__).resolve().parents[3]


def loaded(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8", newline="")
    return load(file)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    """Those that the file has, without the path and the comma behind it."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return [mistake.removeprefix(f"{tmp_path / 'config.toml'}").lstrip(", ") for mistake in caught.value.mistakes]


def secret(tmp_path: Path, data: bytes = b"0123456789abcdef") -> str:
    """The name of a file beside config.toml with that secret in it."""
    (tmp_path / "s").write_bytes(data)
    (tmp_path / "s").chmod(0o600)
    return "s"


# ---- what is in force


def test_no_file_means_loopback_data_and_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(None)
    assert [str(address) for address in config.listen] == ["stomp://127.0.0.1:61613", "http://127.0.0.1:61680"]
    assert config.data_dir == tmp_path / "data"
    assert config.declarations == Declarations(create_queues=True, create_topics=True)
    assert config.limits == Limits()


def test_an_empty_file_creates_nothing(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert config == Config(data_dir=tmp_path / "data")
    assert not config.declarations.create_queues
    assert not config.declarations.create_topics


def test_the_default_file_loads() -> None:
    config = load(CHECKOUT / "config.toml")
    assert [str(address) for address in config.listen] == ["stomp://127.0.0.1:61613", "http://127.0.0.1:61680"]
    assert config.declarations == Declarations(create_queues=True, create_topics=True)
    assert config.data_dir == CHECKOUT / "data"


def test_every_commented_line_of_the_default_file_is_right(tmp_path: Path) -> None:
    (tmp_path / secret(tmp_path)).rename(tmp_path / "cluster.secret")
    lines = (CHECKOUT / "config.toml").read_text().splitlines()
    settings = [
        line.removeprefix("# ") for line in lines if re.match(r"# (\[|\w+ = )", line) or not line.startswith("#")
    ]
    config = loaded(tmp_path, "\n".join(settings))
    assert config.declarations.queues["orders"].dead_letter == "orders.dead"
    assert config.declarations.queues["orders"].redelivery_delay_ms == 1000
    assert config.declarations.fanouts == {"events": ("audit", "mail")}
    assert Binding("shop", "*.failed", "alarms") in config.declarations.bindings
    assert config.node is not None and list(config.node.peers) == ["b"]
    assert config.declarations.logs["events"].partitions == 4 and config.declarations.has_journal


def test_the_example_of_the_documentation_loads(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        [server]
        listen = ["stomp://127.0.0.1:61613", "stomp://[::1]:0"]
        plain = []
        data_dir = "data"
        sync_interval_ms = 0
        map_size = "64GiB"
        disk_free_min = "128MiB"
        log_keep = "7d"
        [limits]
        max_frame_bytes = "16MiB"
        max_header_bytes = 65536
        block_timeout_s = 60.5
        heart_beat_ms = [0, 100]
        [create]
        queues = true
        topics = true
        [queue."orders"]
        max_redeliveries = 5
        dead_letter = "orders.dead"
        [queue."cache.*"]
        persistent = false
        [fanout."events"]
        children = ["audit", "mail"]
        [topic."chat.#"]
        [exchange."events"]
        type = "topic"
        bindings = [{ key = "orders.#", queue = "audit" }, { key = "*.error", queue = "alarms" }]
        [exchange."amq.direct"]
        bindings = [{ key = "mail", queue = "mail" }]
        """,
    )
    assert config.listen == [Address("stomp", "127.0.0.1", 61613), Address("stomp", "::1", 0)]
    assert (config.map_size, config.disk_free_min, config.log_keep) == (
        64 * GIB,
        128 * MIB,
        LogKeep(max_ms=604_800_000),
    )
    assert config.limits == Limits(block_timeout_s=60.5, heart_beat_ms=(0, 100))
    declared = config.declarations
    assert declared.queues == {
        "orders": QueueSettings(max_redeliveries=5, dead_letter="orders.dead"),
        "orders.dead": QueueSettings(),
        "audit": QueueSettings(),
        "mail": QueueSettings(),
        "alarms": QueueSettings(),
    }
    assert declared.exchanges == {"events": ExchangeSettings(type="topic")}
    assert declared.bindings == [
        Binding("events", "orders.#", "audit"),
        Binding("events", "*.error", "alarms"),
        Binding("amq.direct", "mail", "mail"),
    ]
    assert [pattern for pattern, _ in declared.queue_patterns] == ["cache.*"]
    assert declared.fanouts == {"events": ("audit", "mail")}
    assert declared.topics == ["chat.#"]


def test_data_dir_is_relative_to_the_file(tmp_path: Path) -> None:
    assert loaded(tmp_path, 'server.data_dir = "../store"').data_dir == tmp_path.parent / "store"
    assert loaded(tmp_path, 'server.data_dir = "/var/lib/radiator"').data_dir == Path("/var/lib/radiator")


def test_a_memory_queue_has_bounds_where_none_are_given(tmp_path: Path) -> None:
    declared = loaded(
        tmp_path, "[queue.a]\npersistent = false\nmax_bytes = 5\n[queue.b]\npersistent = false"
    ).declarations
    assert (declared.queues["a"].max_messages, declared.queues["a"].max_bytes) == (MEMORY_MESSAGES_MAX, 5)
    assert (declared.queues["b"].max_messages, declared.queues["b"].max_bytes) == (
        MEMORY_MESSAGES_MAX,
        MEMORY_BYTES_MAX,
    )


def test_queues_named_elsewhere_get_the_settings_in_force(tmp_path: Path) -> None:
    declared = loaded(
        tmp_path,
        """
        [queue."dead.*"]
        max_messages = 7
        [queue.a]
        dead_letter = "dead.a"
        [fanout.f]
        children = ["a", "dead.f"]
        """,
    ).declarations
    assert declared.queues["dead.a"] == declared.queues["dead.f"] == QueueSettings(max_messages=7)


def test_the_best_pattern_comes_first(tmp_path: Path) -> None:
    declared = loaded(tmp_path, "".join(f'[queue."{name}"]\n' for name in ("#", "a.#", "a.*.c", "a.*"))).declarations
    assert [pattern for pattern, _ in declared.queue_patterns] == ["a.*.c", "a.*", "a.#", "#"]


def test_a_node_among_others(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        f"""
        [node]
        name = "a"
        listen = "peer://10.0.0.1:61614"
        secret_file = "{secret(tmp_path, b"0123456789 abcdef")}"
        discover = true
        heart_beat_ms = 500
        [peer."b"]
        address = "peer://b.example:61615"
        [peer.c]
        [queue."jobs.#"]
        scope = "cluster"
        [queue."jobs.here"]
        [fanout.all]
        children = ["jobs.all"]
        scope = "cluster"
        [fanout.here]
        children = ["jobs.here"]
        [topic."#"]
        scope = "cluster"
        [topic.here]
        """,
    )
    listen = Address("peer", "10.0.0.1", 61614)
    assert config.node == Node(
        name="a",
        secret=b"0123456789 abcdef",
        secret_file=tmp_path / "s",
        listen=listen,
        advertise=listen,
        peers={"b": Address("peer", "b.example", 61615), "c": None},
        discover=True,
        heart_beat_ms=500,
        peer_outbox_max_bytes=8 * GIB,
    )
    declared = config.declarations
    assert declared.queue_settings("jobs.all").scope == declared.queue_settings("jobs.more").scope == "cluster"
    assert declared.queue_settings("jobs.here").scope == "node"
    assert (declared.cluster_fanouts, declared.cluster_topics) == ({"all"}, {"#"})
    assert declared.is_cluster_topic("there") and not declared.is_cluster_topic("here")


def test_a_node_has_defaults(tmp_path: Path) -> None:
    node = loaded(tmp_path, f"node = {{name = 'a', secret_file = '{secret(tmp_path)}'}}\n{PEER_B}").node
    assert node is not None
    assert (node.listen, node.advertise, node.discover, node.heart_beat_ms) == (None, None, False, 2000)
    assert loaded(tmp_path, "").node is None


def test_the_secret_is_neither_rendered_nor_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, f"node = {{name = 'a', secret_file = '{secret(tmp_path)}'}}\n{PEER_B}")
    for text in (render(config), repr(config)):
        assert "0123456789abcdef" not in text
        assert str(tmp_path / "s") in text


def test_default_sizes_make_way_for_a_small_map_and_a_small_frame(tmp_path: Path) -> None:
    limits = loaded(tmp_path, 'server.map_size = "16MiB"').limits
    assert (limits.max_frame_bytes, limits.max_batch_bytes) == (4 * MIB, 4 * MIB)
    assert limits.outbox_max_bytes == 8 * MIB
    small = loaded(tmp_path, 'limits.max_frame_bytes = "4KiB"').limits
    assert (small.max_header_bytes, small.outbox_max_bytes) == (4 * KIB, 4 * MIB)


def test_outgoing_buffer_holds_two_largest_frames_unless_it_is_set(tmp_path: Path) -> None:
    large = loaded(tmp_path, 'limits.max_frame_bytes = "1GiB"')
    assert large.limits.outbox_max_bytes == 2 * GIB and large.limits.has_default_outbox
    assert loaded(tmp_path, render(large)) == large
    given = loaded(tmp_path, "limits.max_frame_bytes = '8MiB'\nlimits.outbox_max_bytes = '5MiB'").limits
    assert given.outbox_max_bytes == 5 * MIB and not given.has_default_outbox


# ---- what is wrong


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        """
[server]
listen = ["stomp://0.0.0.0:61613"]
map_size = "64GB"

[limits]
max_header = 3
max_headers = true

[queue."orders"]
overflow = "drop"
dead_letter = "nowhere"

[queu."x"]
""",
    )
    places = [mistake.split(" ")[:3] for mistake in found]
    assert places == [
        ["line", "3:", "server.listen"],
        ["line", "4:", "server.map_size"],
        ["line", "7:", "limits.max_header"],
        ["line", "8:", "limits.max_headers"],
        ["line", "11:", "queue.orders.overflow"],
        ["line", "12:", "queue.orders.dead_letter"],
        ["line", "14:", "queu"],
    ]
    assert all(mistake.endswith((".", "?")) for mistake in found)


def test_an_address_is_a_name(tmp_path: Path) -> None:
    """In every place: nothing is called by its address, where nobody would reach it."""
    names = """
[queue.q]
dead_letter = "{queue}d"
[queue."{queue}p.*"]
[queue."{queue}d"]
[log."{log}l"]
[topic."{topic}t.#"]
[exchange."{exchange}x"]
bindings = [{{key = "k", queue = "{queue}q"}}]
[fanout."{fanout}f"]
children = ["{queue}q", "/log/l"]
"""
    kinds = ("queue", "log", "topic", "exchange", "fanout")
    path = tmp_path / "config.toml"
    path.write_text(names.format(**dict.fromkeys(kinds, "")))
    bare = load(path)
    path.write_text(names.format(**{kind: f"/{kind}/" for kind in kinds}))
    assert load(path) == bare
    path.write_text(names.format(**{kind: f"/{kind}/" for kind in kinds} | {"queue": "/amq/queue/"}))
    assert load(path) == bare


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[server]\nlisten = [", "is not TOML"),
        ("[queue.a]\n[queue.a]\n", "is not TOML"),  # two things with one name
        (f"server.map_size = {'9' * 5000}", "is not TOML"),
        (f"server.listen = {'[' * 5000}", "is not TOML"),
        ("queue = 3", "queue is 3; it must be tables, such as [queue.NAME]"),
        ("queue.a = 3", 'queue.a is 3; it must be a table: [queue."a"]'),
        ("server = []", "server is []; it must be a table"),
        ("[sever]", 'sever is not a table of this file; did you mean "server"?'),
        (
            "[zzz]",
            "zzz is not a table of this file; it has server, logging, http, limits, create, journal, node, peer, tls, "
            "jwt, queue, log, exchange, fanout, topic, user.",
        ),
        ("[queue.orders.dead]", 'put a name with dots in quotes: [queue."orders.dead"]'),
        ("[queue.a]\nmax_message = 1", 'is not a setting of this table; did you mean "max_messages"?'),
        ("[topic.a]\npersistent = true", "is not a setting of this table; it has scope"),
        ('[queue."/topic/a"]', "is '/topic/a', the address of something else; write NAME or /queue/NAME"),
        ('[topic."/queue/a"]', "is '/queue/a', the address of something else; write NAME or /topic/NAME"),
        ('[queue.a]\n[queue."/queue/a"]', 'is there twice, as "a" and as its address; keep one of them'),
        ('[queue.""]', "has a name that is empty"),
        (f'[queue."{"x" * 256}"]', "has a name that has 256 bytes of UTF-8; a name has at most 255"),
        (f'[topic."{"ä" * 128}"]', "has a name that has 256 bytes of UTF-8; a name has at most 255"),
        ('[queue."a\\u0007"]', "has a name that has the control character U+0007"),
        ('[fanout."a.*"]\nchildren = ["q"]\n[queue.q]', "has a name with a wildcard"),
        ("[fanout.f]", "has no children"),
        ("[exchange.'a/b']", "has a name that has a `/`; after the name of an exchange that begins its routing key"),
        ("[exchange.'a.#']", "has a name that has a wildcard; an exchange has one name"),
        ("[exchange.'/queue/a']", "is '/queue/a', the address of something else; write NAME or /exchange/NAME"),
        ("[queue.a]\ndead_letter = '/topic/d'", "the address of something else; write NAME or /queue/NAME"),
        (
            "[exchange.x]\ndurable = true",
            "exchange.x.durable is not a setting of this table; it has type, alternate, internal, bindings",
        ),
        ("node = 3", "node is 3; it must be a table"),
        ("peer.b = 3", 'peer.b is 3; it must be a table: [peer."b"]'),
        ('[peer."b c"]', 'peer."b c" has a name that is not a valid name for a node; that has 1 to 64 of A-Z'),
        ("[peer.b]\nadress = 'peer://b:1'", 'peer.b.adress is not a setting of this table; did you mean "address"?'),
    ],
)
def test_a_mistake_is_said_once(tmp_path: Path, text: str, sentence: str) -> None:
    if text.startswith("[peer"):
        text = f"node = {{name = 'a', listen = 'peer://[::1]:0', secret_file = '{secret(tmp_path)}'}}\n{text}"
    found = mistakes(tmp_path, text)
    assert len(found) == 1
    assert sentence in found[0]


def test_names_at_the_limit_are_accepted(tmp_path: Path) -> None:
    longest = "ä" * 127 + "x"
    assert longest in loaded(tmp_path, f'[queue."{longest}"]').declarations.queues


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing.toml cannot be read: No such file or directory"):
        load(tmp_path / "nothing.toml")


def test_a_file_that_is_not_utf8_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b'# caf\xe9\n[queue."a"]')
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 5"):
        load(tmp_path / "config.toml")


@given(some.binary(max_size=200) | some.text(max_size=200).map(str.encode))
def test_no_file_does_worse_than_a_config_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "noise.toml"
    file.write_bytes(data)
    try:
        load(file)
    except ConfigError as error:
        assert error.mistakes


JUNK = some.recursive(
    some.booleans() | some.integers() | some.floats() | some.text(max_size=5) | some.dates(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = {
    "node": [
        "name",
        "listen",
        "secret_file",
        "discover",
        "advertise",
        "heart_beat_ms",
        "peer_outbox_max_bytes",
        "peer_outbox_overflow",
    ],
    "peer": ["b"],
    "server": [
        "listen",
        "unix",
        "plain",
        "users_file",
        "data_dir",
        "sync_interval_ms",
        "map_size",
        "disk_free_min",
        "log_keep",
    ],
    "limits": ["max_headers", "max_frame_bytes", "connect_timeout_s", "heart_beat_ms"],
    "create": ["queues", "topics"],
    "queue": ["a", "b.*"],
    "exchange": ["x", "amq.topic"],
    "fanout": ["f"],
    "topic": ["t.#"],
}


@given(
    some.fixed_dictionaries(
        {}, optional=dict.fromkeys(["children", "bindings", "type", "scope", "overflow", "address"], JUNK)
    ),
    JUNK,
)
def test_no_value_does_worse_than_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, object], junk: object
) -> None:
    for table, keys in KEYS.items():
        _read({table: junk}, Path("/"), Mistakes(), Mistakes())
        for key in keys:
            _read({table: {key: junk}}, Path("/"), Mistakes(), Mistakes())
            _read({table: {key: settings}}, Path("/"), Mistakes(), Mistakes())


def test_logs_and_the_journal(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        [queue.q]
        [log.'orders']
        [log.'a/b.c']
        partitions = 16
        partition_key = "/customer/id"
        retention_ms = 0
        retention_bytes = '1GiB'
        [fanout.f]
        children = ['q', '/log/orders']
        [exchange.x]
        bindings = [{ key = 'k', queue = '/log/a/b.c' }]
        [journal]
        enabled = true
        retention_bytes = '2GiB'
        audit_retention_ms = 0
        """,
    )
    declared = config.declarations
    kept = LogSettings(partitions=16, partition_key="/customer/id", retention_ms=None, retention_bytes=GIB)
    assert declared.has_journal
    own = {
        JOURNAL: LogSettings(retention_bytes=2 * GIB),
        AUDIT: LogSettings(retention_ms=None, retention_bytes=AUDIT_RETENTION_BYTES),
    }
    assert declared.logs == {"orders": LogSettings(), "a/b.c": kept, **own}
    assert declared.fanouts == {"f": ("q", "/log/orders")}
    assert declared.bindings == [Binding("x", "k", "/log/a/b.c")]
    assert set(declared.queues) == {"q"}


def test_keys_of_a_queue(tmp_path: Path) -> None:
    text = """
        [queue.one]
        partition_key = "header:customer"
        [queue.'many.*']
        persistent = false
        partition_key = ["header:a", "/b"]
        partition_window = 1000
    """
    declared = loaded(tmp_path, text).declarations
    assert declared.queues["one"] == QueueSettings(partition_key=("header:customer",))
    (settings,) = (settings for _, settings in declared.queue_patterns)
    assert (settings.partition_key, settings.partition_window) == (("header:a", "/b"), 1000)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('partition_key = "customer"', ["queue.q.partition_key", '"customer"', '"header:NAME"']),
        ("partition_key = []", ["queue.q.partition_key", "an empty list"]),
        ('partition_key = ["/a", "/a"]', ["queue.q.partition_key", '"/a" twice']),
        ('partition_key = "/a"\npartition_window = 1001', ["queue.q.partition_window", "from 1 to 1000"]),
        ("partition_window = 2", ["queue.q.partition_window", "no partition_key"]),
        ('scope = "cluster"\npartition_key = "/a"', ["queue.q.partition_key", "at one node at a time"]),
    ],
)
def test_a_key_that_is_none_is_told_with_its_line(tmp_path: Path, lines: str, words: list[str]) -> None:
    secret(tmp_path)
    (tmp_path / "config.toml").write_text(
        f"[queue.q]\n{lines}\n[node]\nname = 'a'\nsecret_file = 's'\n[peer.b]\naddress = 'peer://[::1]:1'"
    )
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    (sentence,) = caught.value.mistakes
    for word in (f"line {1 + len(lines.splitlines())}:", *words):
        assert word in sentence


@pytest.mark.parametrize("text", ["", "[journal]", "[journal]\nenabled = false\nretention_ms = 5"])
def test_the_journal_is_off_where_nothing_else_is_said(tmp_path: Path, text: str) -> None:
    declared = loaded(tmp_path, text).declarations
    assert not declared.has_journal and declared.logs == {}


# ---- writing it again

NAMES = some.text(some.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12).filter(
    lambda name: not name.startswith(("/", "$")) and not any(word in ("*", "#") for word in name.split("."))
)
QUEUES = some.builds(
    QueueSettings,
    max_messages=some.none() | some.integers(1, 1000),
    max_bytes=some.none() | some.sampled_from([1, KIB, 3 * MIB + 1]),
    overflow=some.sampled_from(["block", "reject", "drop-oldest"]),
    message_ttl_ms=some.none() | some.integers(1, 10**12),
    ack_timeout_s=some.none() | some.floats(0.1, 1e6),
    dedup_window_s=some.integers(0, 60),
    exclusive=some.booleans(),
    single_active_consumer=some.just(False),
    drop_after_redeliveries=some.just(None),
    bounds_count=some.just("stored"),
    expires_ms=some.none() | some.integers(1, 10**12),
    redelivery_delay_ms=some.integers(0, 1000),
    redelivery_delay_factor=some.integers(1, 1000) | some.floats(1, 1000),
    redelivery_delay_max_ms=some.integers(1000, 10**9),
    partition_key=some.sampled_from([("",), ('header:"ä\\', "/a/~1~0"), ("/a",)]),
    partition_window=some.integers(1, 1000),
) | some.just(QueueSettings())
EXCHANGES = some.dictionaries(
    NAMES.filter(lambda name: "/" not in name and not name.startswith("amq.")),
    some.builds(
        ExchangeSettings,
        type=some.sampled_from(EXCHANGE_TYPES),
        alternate=some.none() | some.just("amq.fanout"),
        internal=some.booleans(),
    ),
    max_size=2,
)
LOGS = some.dictionaries(
    NAMES.filter(lambda name: name != JOURNAL),
    some.builds(
        LogSettings,
        partitions=some.integers(1, PARTITIONS_MAX),
        partition_key=some.none() | some.sampled_from(["", "/a/~1~0", "/"]),
        retention_ms=some.none() | some.integers(1, 10**12),
        retention_bytes=some.none() | some.integers(1, 2**46),
    ),
    max_size=2,
)
KEYS_OF_BINDINGS = some.text(some.characters(exclude_categories=["Cc", "Cs"]), max_size=6)


def keys_of(exchange: ExchangeSettings | None, keys: list[str]) -> list[str]:
    """Of type headers the arguments in their place, each a value that is text, or none."""
    if exchange is None or exchange.type != HEADERS:
        return keys
    return [arguments_key({"a": key or None, "x-match": "any"}) for key in keys]


@given(
    some.dictionaries(NAMES, QUEUES, max_size=3),
    EXCHANGES,
    some.lists(KEYS_OF_BINDINGS, unique=True, max_size=2),
    some.dictionaries(NAMES, some.just(()), max_size=2),
    some.lists(NAMES, unique=True, max_size=2),
    some.booleans(),
    LOGS,
    some.none() | some.builds(LogSettings, retention_ms=some.none() | some.integers(1, 10**12)),
)
def test_what_is_rendered_loads_as_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    queues: dict[str, QueueSettings],
    exchanges: dict[str, ExchangeSettings],
    keys: list[str],
    fanouts: dict[str, tuple[str, ...]],
    topics: list[str],
    create: bool,
    logs: dict[str, LogSettings],
    journal: LogSettings | None,
) -> None:
    patterns = [("a.*", QueueSettings(persistent=False, max_messages=1, max_bytes=2)), ("#", QueueSettings())]
    audit = LogSettings(
        retention_ms=None if journal is None else journal.retention_ms, retention_bytes=AUDIT_RETENTION_BYTES
    )
    config = Config(
        listen=[
            Address("stomp", "::1", 0),
            UnixAddress("stomp+unix", Path('/var/lib/"r\\x\x7fä\n/radiator.sock')),
            UnixAddress("stomp+unix", Path('/run/"a\\ä'), 0o660, "shop"),
        ],
        unix=False,
        data_dir=Path('/var/lib/"r\\x\x7fä\n'),
        limits=Limits(block_timeout_s=0.5, max_headers=7),
        declarations=Declarations(
            queues=queues,
            queue_patterns=patterns,
            exchanges=exchanges,
            bindings=[
                Binding(exchange, key, queue)
                for exchange in (*exchanges, "amq.fanout")
                for key in keys_of(exchanges.get(exchange), keys)
                for queue in (*queues, *map("/log/{}".format, logs), "/exchange/amq.topic")
            ],
            fanouts={name: (*queues, *map("/log/{}".format, logs)) for name in fanouts if queues},
            topics=topics,
            create_queues=create,
            logs=logs if journal is None else {**logs, JOURNAL: journal, AUDIT: audit},
            has_journal=journal is not None,
        ),
    )
    file = tmp_path_factory.getbasetemp() / "rendered.toml"
    file.write_text(render(config), encoding="utf-8", newline="")
    assert load(file) == config


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[create]\nqueues = true\n[queue.a]\ndead_letter = 'b'\n[fanout.f]\nchildren = ['c']\n[topic.'x.#']",
        "limits.max_frame_bytes = '2KiB'\nserver.map_size = '16MiB'",
        "[queue.'m.#']\npersistent = false\n[fanout.f]\nchildren = ['m.1']",
        "node = {name = 'a', secret_file = 's'}\npeer.b.address = 'peer://[::1]:1'",
        "node = {name = 'a', secret_file = 's', listen = 'peer://0.0.0.0:2', discover = true, heart_beat_ms = 100, "
        "advertise = 'peer://a:2'}\npeer.'b.c' = {}\n[queue.q]\nscope = 'cluster'\n[topic.t]\nscope = 'cluster'\n"
        "[fanout.f]\nchildren = ['q']\nscope = 'cluster'\n[fanout.g]\nchildren = ['q']\n[topic.u]",
        "node = {name = 'a', secret_file = 's', listen = 'peer://10.0.0.1:2', discover = true}\npeer.b = {}",
        "[log.l]\nretention_ms = 0\n[fanout.f]\nchildren = ['/log/l']\n[journal]\nenabled = true\nretention_ms = 0",
        "[queue.q]\npartition_key = 'header:a'\n[queue.'p.*']\npartition_key = ['/', 'header:b']\npartition_window = 9",
    ],
)
def test_what_is_in_force_can_be_used_as_a_file(tmp_path: Path, text: str) -> None:
    secret(tmp_path)
    config = loaded(tmp_path, text)
    assert loaded(tmp_path, render(config)) == config


def test_files_of_tls_are_found_from_the_file(tmp_path: Path) -> None:
    text = """
        server.listen = ["stomps://127.0.0.1:0"]
        [tls]
        certificate = "tls/c.pem"
        key = "../k"
        client_ca = "/ca.pem"
        client_certificates = "optional"
        peer_ca = "nodes.pem"
    """
    config = loaded(tmp_path, text)
    assert config.tls == TlsSettings(
        certificate=tmp_path / "tls/c.pem",
        key=tmp_path.parent / "k",
        client_ca=Path("/ca.pem"),
        client_certificates="optional",
        peer_ca=tmp_path / "nodes.pem",
    )
    assert loaded(tmp_path, render(config)) == config
    assert loaded(tmp_path, "").tls is None


def test_render_says_every_setting(tmp_path: Path) -> None:
    tables = tomllib.loads(render(load(None)))
    assert set(tables["server"]) == set(KEYS["server"]) - {"users_file"}  # there is none
    assert set(tables["limits"]) == set(Limits.__slots__)
    assert tables["create"] == {"queues": True, "topics": True}
    assert "node" not in tables
    node = Node(name="a", secret=b"", secret_file=Path("/s"), listen=Address("peer", "::1", 1), discover=True)
    node.advertise, node.peer_outbox_max_bytes = node.listen, GIB
    tables = tomllib.loads(render(Config(data_dir=Path("/"), node=node)))
    assert set(tables["node"]) == set(KEYS["node"])
