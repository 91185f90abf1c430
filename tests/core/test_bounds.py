"""The bounds of the whole broker, with their use."""

import re

import pytest

from radiator.core.bounds import BOUNDS, bounds
from radiator.core.server_view import ServerView
from radiator.model.bounds import BrokerBound
from radiator.model.disk import WalNumbers
from radiator.model.limits import GIB, LOOKED_AT_ONCE, MIB, Limits
from radiator.model.numbers import PAUSE
from radiator.model.settings import AUDIT, JOURNAL, Declarations, LogSettings
from radiator.model.settings import Node as NodeSettings
from tests.broker_process import CHECKOUT
from tests.core.leased import join, take
from tests.core.node import Node
from tests.core.words import send, subscribe

SERVERS = {
    "max_connections", "max_half_open", "max_half_open_per_address", "operators_connections", "link_sockets",
    "login_checks", "browser_sessions", "inbox_bytes", "tunnels_bytes", "log_lines",
}  # fmt: skip


def found(node: Node) -> dict[str, BrokerBound]:
    return {one.name: one for one in bounds(node.broker.parts) if one is not PAUSE}


def used(node: Node, *names: str) -> tuple[int | None, ...]:
    all_of_them = found(node)
    return tuple(all_of_them[name].used for name in names)


def test_each_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({one.name for one in BOUNDS}) == len(BOUNDS)
    for one in BOUNDS:
        assert one.reached.endswith(".") and one.reached[0].isupper() and len(one.reached) < 120


def test_each_code_in_a_sentence_is_one_of_the_protocol() -> None:
    codes = "".join((CHECKOUT / "docs" / page).read_text() for page in ("PROTOCOL.md", "HTTP.md"))
    for one in BOUNDS:
        for code in re.findall(r"\(`([^`]+)`\)", one.reached):
            assert f"`{code}`" in codes, f"{one.name}: {code}"


def test_a_broker_that_does_nothing_has_nothing_in_use() -> None:
    rows = found(Node(limits=Limits(max_memory_bytes=5 * MIB, max_destinations=7, max_leases=3)))
    assert list(rows) == [one.name for one in BOUNDS]
    assert {name for name, row in rows.items() if row.used} == {"disk_free_min"}
    for name in ("max_destinations", "max_bindings", "max_leases", "registrations", "max_memory_bytes", "users"):
        assert rows[name].used == 0
    assert [rows[name].limit for name in ("max_memory_bytes", "max_destinations", "max_leases")] == [5 * MIB, 7, 3]
    assert {name for name, row in rows.items() if row.limit is None} == SERVERS | {
        "peer_outbox_max_bytes", "journal_retention_bytes", "audit_retention_bytes"
    }  # fmt: skip
    assert [name for name, row in rows.items() if row.is_least] == ["disk_free_min"]


def test_what_is_in_use_is_counted(node: Node) -> None:
    node.say(subscribe(1, "a"), send(2, "a", b"x"), send(2, "b", b"y"))
    node.admin(9, do="bind", exchange="amq.direct", key="k", queue="b")
    node.admin(9, do="consumer-register", queue="b", name="pod")
    assert used(node, "max_destinations", "max_bindings", "registrations") == (2, 1, 1)
    node.admin(9, do="declare", log="l", partitions=3)
    node.say(subscribe(3, "/log/l", ack="client", group="g"))
    assert used(node, "max_destinations", "max_positions", "watched_partitions") == (5, 3, 3)


def test_of_several_the_fullest_one_is_told(node: Node) -> None:
    join(node, 5)
    node.say(*(send(1, "a", b"x") for _ in range(3)))
    assert len(take(node, 5, "a", most=2)) == 2
    assert used(node, "max_leases") == (2,)


def test_what_many_have_is_looked_at_in_slices(node: Node) -> None:
    owners = node.broker.parts.leases.owners
    join(node, 5)
    node.say(send(1, "a", b"x"))
    take(node, 5, "a")
    (owner,) = owners.values()
    owners.update({f"user {number}": owner for number in range(2 * LOOKED_AT_ONCE)})
    rows = [*bounds(node.broker.parts)]
    assert rows.count(PAUSE) == 4 and len(rows) == len(BOUNDS) + 4
    assert used(node, "max_leases") == (1,), "not of all together"


def test_the_servers_bounds_are_the_servers() -> None:
    uses = {"max_connections": (70, 5), "link_sockets": (None, None), "max_half_open_per_address": (9, None)}
    rows = found(Node(view=ServerView(uses=lambda: uses)))
    for name, (limit, count) in uses.items():
        assert (rows[name].limit, rows[name].used) == (limit, count)


def test_the_disk_is_as_it_was_measured_last(node: Node) -> None:
    disk = node.broker.parts.disk
    disk.store_used_bytes, disk.free_bytes, disk.free_min = 5, 6, 7
    disk.wal = WalNumbers(2, 1, 3, 4, 5)
    rows = found(node)
    assert (rows["high_water_bytes"].limit, rows["high_water_bytes"].used) == (disk.high_water_bytes, 5)
    assert (rows["map_size"].limit, rows["map_size"].used) == (GIB, 5)
    assert (rows["disk_free_min"].limit, rows["disk_free_min"].used) == (7, 6)
    assert (rows["unapplied_entries"].used, rows["unapplied_bytes"].used, rows["unapplied_bytes"].limit) == (3, 4, 5)


def test_of_other_nodes_the_fullest_outbox_is_told() -> None:
    declared = Declarations(create_queues=True, fanouts={"f": ()}, cluster_fanouts=frozenset("f"))
    peers = dict.fromkeys(("b", "c"))
    node = Node(declared, node=NodeSettings(name="a", secret=b"s" * 16, peers=peers, peer_outbox_max_bytes=5 * MIB))
    node.open(1)
    outboxes = node.broker.destinations.queues.outboxes
    assert {*outboxes} == {"b", "c"}
    assert used(node, "nodes", "peer_outbox_max_bytes") == (1, 0)
    node.say(send(1, "/fanout/f", b"x" * 100))
    outboxes["c"].ledger.stored_bytes += 7
    rows = found(node)
    assert rows["peer_outbox_max_bytes"].used == outboxes["b"].ledger.stored_bytes + 7 > 100
    assert rows["peer_outbox_max_bytes"].limit == 5 * MIB


def test_the_journal_takes_its_share() -> None:
    logs = {JOURNAL: LogSettings(retention_bytes=GIB), AUDIT: LogSettings()}
    node = Node(Declarations(create_queues=True, logs=logs, has_journal=True))
    node.open(1)
    node.say(send(1, "a", b"x"))
    rows = found(node)
    assert rows["journal_retention_bytes"].limit == GIB and rows["journal_retention_bytes"].used
    assert rows["audit_retention_bytes"].limit is None and rows["audit_retention_bytes"].used == 0


@pytest.fixture
def node() -> Node:
    node = Node()
    node.open(1, 2, 3, 9)
    return node
