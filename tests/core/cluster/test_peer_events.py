"""What /topic/system.peers tells."""

import json

from radiator.model.replies import Refuse
from tests.core.cluster.nodes import with_clients
from tests.core.words import send, subscribe

# ---- the operator's view --------------------------------------------------------------------------------------------


def test_system_peers_tells_what_happens_and_can_only_be_watched() -> None:
    nodes = with_clients("ab")
    nodes["a"].say(subscribe(1, "/topic/system.peers"))
    nodes.cut("a", "b")
    nodes.run()
    nodes["a"].say(send(2, "/fanout/events"))
    nodes.wait(2)
    nodes.link("a", "b")
    nodes.run()
    replies = [json.loads(body) for body in nodes["a"].bodies(1)]
    assert [one["event"] for one in replies][:2] == ["unlinked", "left"]
    assert {"linked", "joined", "lag"} <= {one["event"] for one in replies}
    assert all(one["node"] == "b" for one in replies if "node" in one)
    nodes["a"].say(send(2, "/topic/system.peers"))
    assert [r for r in nodes["a"].take(2) if isinstance(r, Refuse)][0].code == "reserved"
