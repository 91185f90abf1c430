"""The settings in force, as rows: all of them, with defaults, and without secrets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.model.configuration import HIDDEN, Setting, settings_in_force
from radiator.model.limits import MIB, Limits
from radiator.model.reloading import RELOAD
from radiator.model.rights import RIGHTS, Rules
from radiator.model.settings import (
    DEFAULT_LISTEN,
    DEFAULT_WEB_LISTEN,
    JOURNAL,
    Address,
    Binding,
    Config,
    Declarations,
    JwtSettings,
    LogKeep,
    LogSettings,
    Node,
    QueueSettings,
    TlsSettings,
    WebSettings,
    limits_beside,
)
from radiator.model.users import BOUNDS, Token, User, UserBounds
from radiator.model.validation import with_bounds
from radiator.tools.config import load

FILE = Path("/etc/radiator/config.toml")
PLAIN = Config(data_dir=Path("/etc/radiator/data"))
DECLARED = ("queue", "log", "exchange", "fanout", "topic")
NODE = Node(name="a", secret=b"the secret of nodes", secret_file=Path("/s"), listen=Address("peer", "::1", 5))


def rows(config: Config = PLAIN, path: Path | None = FILE) -> dict[tuple[str, str | None, str], Setting]:
    all_of_them = [*settings_in_force(config, path)]
    found = {(row.section, row.of, row.name): row for row in all_of_them}
    assert len(found) == len(all_of_them)
    return found


def changed(config: Config) -> dict[str, tuple[Any, Any]]:
    """What is not as it is by default: value and default."""
    found = {}
    for (section, of, name), row in rows(config).items():
        if not row.is_default:
            found[f"{section}{'' if of is None else f'.{of}'}.{name}"] = row.value, row.default
    return found


def test_a_file_that_says_nothing_has_every_setting_as_it_is_by_default() -> None:
    assert changed(PLAIN) == {}


def test_every_setting_of_the_broker_itself_stands_there_as_a_reload_names_it() -> None:
    tls = TlsSettings(certificate=Path("/c"), key=Path("/k"))
    jwt = JwtSettings(keys=Path("/j"), algorithms=("RS256",), issuer="i", audience="a")
    user = User(
        name="u",
        password="secret",
        tokens=(Token("secret"),),
        jwt=True,
        certificate="CN=u",
        unix="u",
        rules=Rules(**dict.fromkeys(RIGHTS, ("/#",)), role="viewer"),
        bounds=UserBounds(**dict.fromkeys(BOUNDS, 1)),
    )
    node = replace(NODE, peers={"b": Address("peer", "b", 1), "c": None})
    config = replace(PLAIN, tls=tls, jwt=jwt, node=node, users={"u": user})
    names: dict[str, set[str]] = {}
    for section, _, name in rows(config):
        names.setdefault(section, set()).add(name)
    assert names == {section: set(keys) for section, keys in RELOAD.items() if section not in DECLARED}


def test_what_is_declared_is_left_out() -> None:
    declared = Declarations(
        queues={"q": with_bounds(QueueSettings())},
        logs={"l": LogSettings()},
        fanouts={"f": ("q",)},
        topics=["t"],
        bindings=[Binding("amq.direct", "k", "q")],
    )
    assert rows(replace(PLAIN, declarations=declared)).keys() == rows().keys()


@pytest.mark.parametrize(
    ("config", "name", "value", "default"),
    [
        (replace(PLAIN, data_dir=Path("/var")), "server.data_dir", "/var", "/etc/radiator/data"),
        (replace(PLAIN, listen=[DEFAULT_LISTEN, DEFAULT_WEB_LISTEN]), "server.listen",
         ["stomp://127.0.0.1:61613", "http://127.0.0.1:61680"], ["stomp://127.0.0.1:61613"]),
        (replace(PLAIN, unix=False), "server.unix", False, True),
        (replace(PLAIN, users_file=Path("/u")), "server.users_file", "/u", None),
        (replace(PLAIN, log_keep=LogKeep(max_bytes=7)), "server.log_keep", 7, 0),
        (replace(PLAIN, log_keep=LogKeep(max_ms=7_200_000)), "server.log_keep", "2h", 0),
        (replace(PLAIN, http=WebSettings(hosts=frozenset({"b", "a"}))), "http.hosts", ["a", "b"], []),
        (replace(PLAIN, limits=Limits(max_headers=7), limits_given=frozenset({"max_headers"})), "limits.max_headers", 7,
         256),
        (replace(PLAIN, limits=Limits(heart_beat_ms=(0, 0))), "limits.heart_beat_ms", [0, 0], [10_000, 10_000]),
        (replace(PLAIN, declarations=Declarations(create_queues=True)), "create.queues", True, False),
    ],
)  # fmt: skip
def test_what_differs_is_told_with_its_default(config: Config, name: str, value: Any, default: Any) -> None:
    assert changed(config) == {name: (value, default)}


def test_without_a_file_what_is_in_force_then_is_the_default() -> None:
    config = load(None)
    assert all(row.is_default for row in rows(config, None).values())
    assert rows(config, None)["server", None, "listen"].value == ["stomp://127.0.0.1:61613", "http://127.0.0.1:61680"]


def test_a_default_is_that_beside_what_is_given() -> None:
    """A smaller frame makes smaller headers, and a smaller outgoing buffer; a small map a smaller frame."""
    given = {"max_frame_bytes": 1000}
    limits = limits_beside(given, PLAIN.map_size)
    assert limits.max_header_bytes == 1000
    config = replace(PLAIN, limits=limits, limits_given=frozenset(given))
    assert changed(config) == {"limits.max_frame_bytes": (1000, 16 * MIB)}
    small = replace(PLAIN, map_size=20 * MIB, limits=limits_beside({}, 20 * MIB))
    assert changed(small).keys() == {"server.map_size"}
    assert rows(small)["limits", None, "max_frame_bytes"].default == 5 * MIB


def test_the_journal_has_its_settings_where_it_is_there() -> None:
    off = rows()
    assert off["journal", None, "retention_bytes"] == Setting("journal", None, "retention_bytes", None, None, True)
    logs = {JOURNAL: LogSettings(retention_bytes=5), "audit": LogSettings(retention_ms=6)}
    found = changed(replace(PLAIN, declarations=Declarations(logs=logs, has_journal=True)))
    assert found.pop("journal.enabled") == (True, False)
    assert found.pop("journal.retention_bytes") == (5, LogSettings().retention_bytes)
    assert found.pop("journal.audit_retention_ms") == (6, 90 * 86_400_000)
    assert found == {"journal.audit_retention_bytes": (None, 256 * MIB)}


def test_a_listener_of_its_own_has_the_defaults_of_all() -> None:
    tls = TlsSettings(certificate=Path("/c"), key=Path("/k"))
    config = replace(PLAIN, tls=tls, tls_of_listeners={"https://x:1": replace(tls, certificate=Path("/other"))})
    assert changed(config) == {
        "tls.certificate": ("/c", None),
        "tls.key": ("/k", None),
        "tls.https://x:1.certificate": ("/other", "/c"),
    }


def test_a_node_is_told_without_its_secret() -> None:
    node = replace(NODE, peers={"b": Address("peer", "b", 1), "c": None}, peer_outbox_max_bytes=8192 * MIB)
    found = changed(replace(PLAIN, node=node))
    assert found == {
        "node.name": ("a", None),
        "node.secret_file": ("/s", None),
        "node.listen": ("peer://[::1]:5", None),
        "peer.b.address": ("peer://b:1", None),
    }
    advertising = replace(node, discover=True, advertise=node.listen)
    assert rows(replace(PLAIN, node=advertising))["node", None, "advertise"].is_default


def test_of_a_user_there_is_what_his_table_gives_and_no_secret() -> None:
    tokens = Token("5ec7e7"), Token("7e5ec7", 5)
    user = User(name="u", password="$scrypt$5ec7e7", tokens=tokens, rules=Rules(write=("/queue/a",)))
    found = changed(replace(PLAIN, users={"u": user, "v": User(name="v", unix="v")}))
    assert found == {
        "user.u.password": (HIDDEN, None),
        "user.u.tokens": ([HIDDEN, HIDDEN], None),
        "user.u.write": (["/queue/a"], None),
        "user.v.unix": ("v", None),
    }
