"""Requests for numbers."""

from radiator.model.commands import CLIENT
from radiator.model.settings import Declarations, QueueSettings
from tests.core.admin.asking import node_with
from tests.core.node import Node
from tests.core.words import send, subscribe


def test_stats_show_the_whole_broker() -> None:
    node = Node(Declarations(queues={"q": QueueSettings(max_messages=1)}, fanouts={"f": ("q",)}, create_topics=True))
    node.open(1, 2, 9)
    node.say(subscribe(2, "/topic/t"), send(1, "/fanout/f"), send(1, "q"))
    stats = node.admin(9, do="stats")
    assert stats["ok"] and stats["version"] == "test" and stats["store_id"] == "feedfacecafebeef" and stats["boot"] == 1
    assert stats["connections"] == 3 and stats["subscriptions"] == 2 and stats["parked"] == 1
    assert stats["queues"]["q"]["messages"] == 1 and stats["queues"]["q"]["blocked"] == 1
    assert stats["fanouts"] == {"f": {"children": ["q"], "accepted": 1}}
    assert stats["topics"] == {"t": {"subscribers": 1}}
    sizes = {"used_bytes", "map_size", "high_water_bytes", "reusable_bytes", "disk_free_bytes", "disk_free_min"}
    sizes |= {"wal_bytes", "wal_kept_bytes"}
    assert set(stats["store"]) == {*sizes, "disk_room_bytes", "checked_percent"}


def test_queues_are_listed_by_name_with_their_numbers() -> None:
    node = node_with(2, "b")
    node.say(send(1, "a"), subscribe(1, "b", CLIENT))
    listed = node.admin(9, do="queues")["queues"]
    assert [(q["name"], q["messages"], q["ready"], q["unacked"], q["consumers"]) for q in listed] == [
        ("a", 1, 1, 0, 0),
        ("b", 2, 1, 1, 1),
    ]


def test_what_matches_is_shown_alone_in_its_order() -> None:
    node = node_with(0)
    for name in ("orders.eu", "orders.us.west", "orders", "bills.eu", "orders.us"):
        node.say(send(1, name))

    def names(**asked: object) -> list[str]:
        return [queue["name"] for queue in node.admin(9, do="queues", **asked)["queues"]]

    assert names(match="orders.*") == ["orders.eu", "orders.us"]
    assert names(match="orders.#") == ["orders", "orders.eu", "orders.us", "orders.us.west"]
    assert names(match="*.eu") == ["bills.eu", "orders.eu"] and names(match="orders") == ["orders"]
    assert names(match="nothing") == []
    assert names(match="orders.#", limit=2, after="orders") == ["orders.eu", "orders.us"]
    assert list(node.admin(9, do="stats", section="queues", match="bills.#")["queues"]) == ["bills.eu"]
    assert node.admin(9, do="stats", section="exchanges", match="none.#")["exchanges"] == {}
