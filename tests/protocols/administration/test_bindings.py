"""The requests `bind` and `unbind` as they are read, and carried out."""

from typing import Any

import pytest

from tests.core.admin.asking import code, node_of
from tests.core.words import send


def test_arguments_stand_in_the_place_of_a_key() -> None:
    node = node_of()
    binding = {"exchange": "amq.headers", "arguments": {"f": 1, "x-match": "any"}, "queue": "q"}
    assert node.admin(9, do="bind", **binding)["created"] and not node.admin(9, do="bind", **binding)["created"]
    node.say(send(1, "/exchange/amq.headers/k", headers=b"f:1\n"), send(1, "/exchange/amq.headers/k"))
    assert len(node.stored("q")) == 1
    asked = {"do": "route", "exchange": "amq.headers"}
    assert node.admin(9, **asked, headers={"f": "1"})["count"] == 1 and node.admin(9, **asked)["count"] == 0
    assert node.admin(9, do="unbind", exchange="amq.headers", key='{"x-match":"any","f":"1"}', queue="q")["deleted"]


def test_an_exchange_is_a_target_and_route_tells_of_the_way() -> None:
    node = node_of()
    node.admin(9, do="declare", exchange="y", alternate="z")
    node.admin(9, do="declare", exchange="z", type="fanout", internal=True)
    node.admin(9, do="bind", exchange="amq.topic", key="k.#", queue="/exchange/y")
    node.admin(9, do="bind", exchange="z", queue="q")
    assert node.admin(9, do="route", exchange="amq.topic", key="k.1")["targets"] == [
        {"destination": "/queue/q", "key": "", "through": ["/exchange/y", "/exchange/z"]}
    ]
    described = node.admin(9, do="describe", exchange="amq.topic")
    assert (described["bindings"], described["bindings_count"]) == ([{"key": "k.#", "queue": "/exchange/y"}], 1)
    described = node.admin(9, do="describe", exchange="y")
    assert (described["alternate"], described["internal"]) == ("z", False)
    assert node.admin(9, do="delete", exchange="y") == {"ok": True, "deleted": 1}
    assert node.admin(9, do="describe", exchange="amq.topic")["bindings_count"] == 0


@pytest.mark.parametrize(
    "more",
    [
        {"arguments": []},
        {"arguments": {"a": []}},
        {"arguments": {}, "key": ""},
        {"key": "{" + "x" * 2048},
        {"key": "x" * 256},
        {"key": "k", "queue": "/exchange/a/b"},
        {"key": "k", "queue": "/exchange/"},
        {"key": "k", "queue": "/exchange/" + "x" * 256},
    ],
)
def test_other_requests_are_refused(more: dict[str, Any]) -> None:
    for do in ("bind", "unbind"):
        assert code(node_of(), **{"do": do, "exchange": "amq.headers", "queue": "q", **more}) == "bad-request"
