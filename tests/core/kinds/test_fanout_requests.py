"""Requests about fanouts."""

from typing import Any

import pytest

from tests.core.admin.asking import code, node_of
from tests.core.words import send


def test_a_fanout_is_declared_and_sent_to() -> None:
    node = node_of()
    assert node.admin(9, do="declare", fanout="g", children=["q", "p.1"]) == {"ok": True, "created": True}
    assert node.admin(9, do="declare", fanout="/fanout/g", children=["p.1", "q"])["created"] is False
    assert node.admin(9, do="declare", fanout="g")["created"] is False
    node.say(send(1, "/fanout/g", b"1", b"r"))
    assert node.stored("q") == node.stored("p.1") == [b"1"] and node.receipts(1) == [b"r"]
    assert node.admin(9, do="describe", fanout="g") == {
        "ok": True, "children": ["q", "p.1"], "outboxes": [], "accepted": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"fanout": "g"}, "bad-request"),
        ({"fanout": "g", "children": []}, "bad-request"),
        ({"fanout": "g", "children": ["q", "q"]}, "bad-request"),
        ({"fanout": "g", "children": ["none"]}, "bad-request"),
        ({"fanout": "g", "children": ["$outbox/b"]}, "bad-request"),
        ({"fanout": "g", "children": ["q"], "scope": "cluster"}, "bad-request"),
        ({"fanout": "g.*", "children": ["q"]}, "bad-request"),
        ({"fanout": "", "children": ["q"]}, "bad-request"),
        ({"fanout": "f", "children": ["q", "dead"]}, "declared-otherwise"),
        ({"fanout": "f", "children": ["dead"], "passive": True}, "declared-otherwise"),
    ],
)
def test_what_is_no_fanout_is_refused(more: dict[str, Any], sentence: str) -> None:
    node = node_of()
    assert code(node, do="declare", **more) == sentence
    assert not node.has("none")
