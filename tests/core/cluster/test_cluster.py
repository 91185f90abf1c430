"""Links, copies of fanouts, topics and the operator's view, on whole brokers."""

import json
from dataclasses import replace

import pytest

from radiator.model.commands import Closed, Fail, NotLinked, Open, Read
from radiator.model.limits import LINK_CAUSE_MAX
from radiator.model.peer import Identity, Publish, Transfer
from radiator.model.replies import Deliver, Refuse
from radiator.model.settings import LogSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.node import Node
from tests.core.words import ack, header, send, subscribe
from tests.sim.disk import Platter


def with_clients(names: str, links: str | None = None) -> Nodes:
    nodes = Nodes(names, links)
    for name in names:
        nodes[name].open(1, 2)
    return nodes


# ---- links ----------------------------------------------------------------------------------------------------------


def states(nodes: Nodes, name: str) -> dict[str, str]:
    return {peer: known.state for peer, known in nodes.cluster(name).peers.items()}


def test_link_goes_up_and_down() -> None:
    nodes = with_clients("ab")
    assert states(nodes, "a") == {"b": "up"} and states(nodes, "b") == {"a": "up"}
    nodes.cut("a", "b")
    assert states(nodes, "a") == {"b": "down"}


def test_both_may_dial_at_once_and_the_link_of_the_lesser_name_stays() -> None:
    for first, second in (("ab", "ba"), ("ba", "ab")):
        nodes = Nodes("ab", "")
        nodes.pairs = [("a", "b")]
        for name in "ab":
            nodes.start(name, Platter(store_id=name * 16))
        nodes.link(first[0], first[1])
        nodes.link(second[0], second[1])
        nodes.run()
        assert states(nodes, "a") == {"b": "up"} and states(nodes, "b") == {"a": "up"}
        link = nodes.cluster("a").peers["b"].link
        assert link is not None and link.identity.is_dialled
        assert len(nodes.ends) == 2


def test_newer_link_of_a_peer_that_started_again_replaces_the_old_one() -> None:
    nodes = with_clients("ab")
    old = nodes.cluster("b").peers["a"].link
    nodes.ends.clear()  # nobody finds out that it is gone
    nodes.start("a", nodes["a"].disk.platter)
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "b") == {"a": "up"} and nodes.cluster("b").peers["a"].link is not old
    assert [note.fields["code"] for note in nodes["b"].notes if note.event == "refused"] == ["superseded"]


@pytest.mark.parametrize("name", ["stranger", "a"])
def test_unknown_node_and_oneself_are_refused(name: str) -> None:
    nodes = with_clients("ab")
    node = nodes["a"]
    node.inbox[7], node.delivers[7] = [], 0
    node.turn([Open(7, Identity(name, "c" * 16, False))])
    assert node.refusal(7).code == "unknown-node"


def test_broker_without_node_links_nobody() -> None:
    node = Node()
    node.inbox[7], node.delivers[7] = [], 0
    node.turn([Open(7, Identity("b", "c" * 16, False))])
    assert node.refusal(7).code == "unknown-node"
    node.open(1)
    for request in ({"do": "peers"}, {"do": "drain"}, {"do": "peer-release", "peer": "b", "force": True}):
        assert node.admin(1, **request)["code"] == "no-node"


def test_another_store_is_linked_only_when_nothing_of_a_queue_is_in_doubt() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    nodes.cut("a", "b")
    nodes.start("b", Platter(store_id="e" * 16))
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "a") == {"b": "refused"}
    assert [note.fields["code"] for note in nodes["a"].notes if note.event == "refused"] == ["other-store"]
    assert "peer_store_changed" in [note.event for note in nodes["a"].notes]
    assert nodes["a"].admin(1, do="peer-release", peer="b", force=True) == {"ok": True, "released": 1}
    nodes.link("a", "b")
    nodes.run()
    assert states(nodes, "a") == states(nodes, "b") | {"b": "up"} or states(nodes, "a") == {"b": "up"}
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.wait(1)
    assert nodes["b"].bodies(1) == [b"x"]


def test_copies_in_doubt_are_sent_again_to_another_store() -> None:
    nodes = with_clients("ab")
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    nodes.cut("a", "b")
    nodes.start("b", Platter(store_id="e" * 16))
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].stored("x") == nodes["b"].stored("y") == [b"one"]
    assert "peer_store_changed" in [note.event for note in nodes["a"].notes]


# ---- fanouts --------------------------------------------------------------------------------------------------------


@pytest.mark.durability("D19")
def test_local_children_and_an_entry_for_each_node_are_one_batch() -> None:
    nodes = with_clients("abc")
    a = nodes["a"]
    a.auto = False
    a.say(send(1, "/fanout/events", b"one", receipt=b"r"))
    assert a.receipts(1) == [] and a.stored("x") == a.stored("$outbox/b") == []
    a.seal()
    a.commit()
    assert a.receipts(1) == [b"r"]
    assert a.stored("x") == a.stored("y") == a.stored("$outbox/b") == a.stored("$outbox/c") == [b"one"]


def test_each_nodes_children_get_one_copy_and_it_is_passed_on_by_nobody() -> None:
    nodes = with_clients("abc")
    for number in range(200):
        nodes["a"].say(send(1, "/fanout/events", b"%d" % number))
    nodes.run()
    for name in "abc":
        for child in "xy":
            assert nodes[name].stored(child) == [b"%d" % number for number in range(200)]
        assert nodes[name].stored("$outbox/a") == nodes[name].stored("$outbox/b") == []
    assert len(nodes.said(Transfer)) == 400
    common = {header(m, b"fanout-message-id") for n in "abc" for m in nodes[n].disk.platter.messages.values()}
    assert len(common) == 200


def test_a_log_among_the_children_is_a_tap_on_each_node() -> None:
    tapped = replace(declared(), fanouts={"events": ("x", "/log/tap")}, logs={"tap": LogSettings()})
    nodes = Nodes("ab", declarations=tapped)
    nodes["a"].open(1)
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    nodes.run()
    for name in "ab":
        log = nodes[name].broker.destinations.logs["tap"]
        assert nodes[name].stored("x") == [b"one"] and log.partitions[0].committed == 1
        assert not nodes[name].has("/log/tap")


def test_copies_wait_for_a_node_that_is_away() -> None:
    nodes = with_clients("ab")
    nodes.cut("a", "b")
    nodes["a"].say(send(1, "/fanout/events", b"one"))
    nodes.crash("a")
    nodes["a"].open(1)
    (peer,) = nodes["a"].admin(1, do="peers")["peers"]
    assert (peer["state"], peer["outbox"], peer["in_doubt"]) == ("down", 1, 0)
    nodes.link("b", "a")
    nodes.run()
    assert nodes["b"].stored("x") == [b"one"] and nodes["a"].stored("$outbox/b") == []


def test_copies_wait_while_a_child_there_is_full() -> None:
    nodes = with_clients("ab")
    nodes["b"].broker.destinations.queues["x"].settings.max_messages = 1
    for number in range(200):
        nodes["a"].say(send(1, "/fanout/events", b"%d" % number))
    nodes.wait(2)
    assert len(nodes["b"].stored("x")) < 200
    nodes["b"].broker.destinations.queues["x"].settings.max_messages = None
    nodes.wait(2)
    assert nodes["b"].stored("x") == [b"%d" % number for number in range(200)]


def test_dedup_id_of_a_fanout_counts_for_the_copies_too() -> None:
    nodes = with_clients("ab")
    outbox = nodes["a"].broker.destinations.outboxes["b"]
    outbox.settings.dedup_window_s = 60
    for child in "xy":
        nodes["a"].broker.destinations.queues[child].settings.dedup_window_s = 60
    for _ in range(2):
        nodes["a"].say(send(1, "/fanout/events", b"one", dedup_id=b"i"))
    nodes.run()
    assert nodes["b"].stored("x") == [b"one"]


@pytest.mark.parametrize("command", [send(1, "$outbox/b"), subscribe(1, "$outbox/b"), send(1, "$outbox/new")])
def test_clients_cannot_reach_outboxes(command: object) -> None:
    nodes = with_clients("ab")
    nodes["a"].say(command)  # type: ignore[arg-type]
    assert nodes["a"].refusal(1).code == "reserved"


def test_such_names_are_kept_without_node_too() -> None:
    node = Node()
    node.open(1)
    node.say(send(1, "$outbox/b"))
    assert node.refusal(1).code == "reserved"


def test_copies_that_a_node_does_not_take_hold_up_nobody() -> None:
    declarations = declared()
    declarations.fanouts["more"] = ("x",)
    declarations.cluster_fanouts |= {"more"}
    nodes = Nodes("ab", declarations=declarations)
    nodes["a"].open(1)
    nodes.cluster("a").peers["b"].fanouts = {"events": 2}
    nodes["a"].say(send(1, "/fanout/more", b"one"), send(1, "/fanout/events", b"two"))
    nodes.run()
    assert nodes["b"].stored("x") == [b"two"] and nodes["a"].stored("$outbox/b") == [b"one"]
    assert "peer_lacks_fanout" in [note.event for note in nodes["a"].notes]


def test_outbox_of_a_node_of_the_list_cannot_be_deleted_and_of_another_it_can() -> None:
    nodes = with_clients("ab")
    assert nodes["a"].admin(1, do="delete", queue="$outbox/b")["code"] == "declared"
    nodes["a"].broker.destinations.outbox("gone").put(
        nodes["a"].broker.admission.message(send(1, "x"), "/x", b"", None)
    )
    nodes.wait(1)
    assert nodes["a"].admin(1, do="delete", queue="$outbox/gone")["deleted"] == 1
    nodes.wait(1)
    assert nodes["a"].stored("$outbox/gone") == []


def test_queue_with_messages_in_doubt_cannot_be_deleted() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "made.now"))
    nodes.run()
    nodes["a"].say(send(1, "work"))
    nodes["b"].say(subscribe(2, "work"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    queue = nodes["a"].broker.destinations.queues["work"]
    queue.is_declared = False
    answer = nodes["a"].admin(1, do="delete", queue="work")
    assert answer["code"] == "in-use" and "in doubt" in answer["error"]


def test_name_that_is_used_twice_does_not_take_the_link() -> None:
    nodes = with_clients("ab")
    a = nodes["a"]
    link = nodes.cluster("a").peers["b"].link
    a.inbox[7], a.delivers[7] = [], 0
    a.turn([Open(7, Identity("b", "e" * 16, False))])
    refusal = a.refusal(7)
    assert refusal.code == "other-store" and "used twice" in refusal.sentence
    assert nodes.cluster("a").peers["b"].link is link


# ---- topics ---------------------------------------------------------------------------------------------------------


def test_topic_reaches_every_subscriber_once_and_keeps_its_id() -> None:
    nodes = with_clients("abc", "ab bc")
    for name in "abc":
        nodes[name].say(subscribe(1, "/topic/t.#", "client"), subscribe(2, "/topic/t.one"))
    nodes.run()
    nodes["a"].say(send(2, "/topic/t.one", b"news", receipt=b"r"))
    assert nodes["a"].receipts(2) == [b"r"]
    nodes.run()
    got = [message for name in "abc" for number in (1, 2) for message in nodes[name].messages(number)]
    assert [one.message.body for one in got] == [b"news"] * 6
    assert len({one.message_id for one in got}) == 1 and len({one.message.accepted_ms for one in got}) == 1
    assert len(nodes.said(Publish)) == 2
    nodes["c"].say(ack(got[-2]))  # means nothing, as everywhere
    assert not nodes["c"].is_refused(1)


def test_topic_of_scope_node_stays() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "/topic/local"))
    nodes.run()
    nodes["a"].say(send(1, "/topic/local"))
    nodes.run()
    assert nodes.said(Publish) == [] and nodes["b"].bodies(1) == []


def test_mandatory_is_content_with_a_subscriber_on_another_node() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "/topic/t.x"))
    nodes.run()
    nodes["a"].say(send(1, "/topic/t.x", receipt=b"r", mandatory=True))
    assert nodes["a"].receipts(1) == [b"r"]
    nodes["a"].say(send(1, "/topic/t.y", mandatory=True))
    assert nodes["a"].refusal(1).code == "no-subscriber"


def test_lost_subscriber_is_wanted_no_more() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "/topic/t.x"))
    nodes.run()
    nodes["b"].close(1)
    nodes.run()
    nodes["a"].say(send(1, "/topic/t.x"))
    nodes.run()
    assert nodes.said(Publish) == []


# ---- the operator's view --------------------------------------------------------------------------------------------


def test_peers_tells_links_and_nodes_beyond() -> None:
    nodes = with_clients("abc", "ab bc")
    answer = nodes["a"].admin(1, do="peers")
    assert (answer["node"], answer["draining"]) == ("a", False)
    assert [(peer["name"], peer["state"], peer["hops"]) for peer in answer["peers"]] == [("b", "up", 1)]
    assert answer["nodes"] == [{"name": "b", "hops": 1, "via": "b"}, {"name": "c", "hops": 2, "via": "b"}]


def why(nodes: Nodes, name: str = "a") -> tuple[str, str]:
    (peer,) = nodes[name].admin(1, do="peers")["peers"]
    return peer["state"], peer["cause"]


def test_peers_tells_why_there_is_no_link() -> None:
    nodes = with_clients("ab")
    assert why(nodes) == ("up", "")
    nodes["a"].turn([NotLinked("b", "cannot be dialled: Connection refused", False)])
    assert why(nodes) == ("up", ""), "there is a link"
    ((number, _),) = [(end[1], far) for end, far in nodes.ends.items() if end[0] == "a"]
    nodes["a"].turn([Closed(number, "heart-beats missing")])
    assert why(nodes) == ("down", "heart-beats missing")
    nodes["a"].turn([NotLinked("b", "b refused: wrong-secret: No.", True)])
    assert why(nodes) == ("refused", "b refused: wrong-secret: No.")
    nodes["a"].turn([NotLinked("b", "cannot be dialled: Connection refused", False)])
    assert why(nodes) == ("down", "cannot be dialled: Connection refused")
    nodes["a"].turn([NotLinked("stranger", "hung up", False), NotLinked("a", "hung up", False)])
    assert why(nodes) == ("down", "cannot be dialled: Connection refused")
    nodes.cut_end(nodes.ends.pop(("a", number)))
    nodes.link("b", "a")
    nodes.run()
    assert why(nodes) == ("up", "")


def test_peers_tells_the_refusal_of_an_open_link() -> None:
    nodes = with_clients("ab")
    ((number, _),) = [(end[1], far) for end, far in nodes.ends.items() if end[0] == "a"]
    nodes["a"].turn([Read(number, [Fail(number, "b refused: No.", code="other-store")])])
    assert why(nodes) == ("refused", "other-store: b refused: No.")
    assert nodes["a"].refusal(number).code == "other-store"
    nodes["a"].turn([Closed(number, "refused: other-store")])
    assert why(nodes) == ("refused", "other-store: b refused: No.")


@pytest.mark.parametrize("length", [LINK_CAUSE_MAX - 1, LINK_CAUSE_MAX, LINK_CAUSE_MAX + 1])
def test_a_cause_is_cut_and_printable(length: int) -> None:
    nodes = Nodes("ab", "ab")
    nodes.cut("a", "b")
    nodes["a"].open(1)
    cause = ("no\x1b[2J\n\u202e" + "x" * length)[:length]
    nodes["a"].turn([NotLinked("b", cause, True)])
    state, told = why(nodes)
    assert state == "refused" and told.isprintable() and told.startswith("no [2J  xxx")
    assert len(told) == min(length, LINK_CAUSE_MAX)


def test_a_node_that_is_alone_has_no_use_for_causes() -> None:
    node = Node()
    node.turn([NotLinked("b", "hung up", False)])


def test_system_peers_tells_what_happens_and_can_only_be_watched() -> None:
    nodes = with_clients("ab")
    nodes["a"].say(subscribe(1, "/topic/system.peers"))
    nodes.cut("a", "b")
    nodes.run()
    nodes["a"].say(send(2, "/fanout/events"))
    nodes.wait(2)
    nodes.link("a", "b")
    nodes.run()
    told = [json.loads(body) for body in nodes["a"].bodies(1)]
    assert [one["event"] for one in told][:2] == ["unlinked", "left"]
    assert {"linked", "joined", "lag"} <= {one["event"] for one in told}
    assert all(one["node"] == "b" for one in told if "node" in one)
    nodes["a"].say(send(2, "/topic/system.peers"))
    assert [r for r in nodes["a"].take(2) if isinstance(r, Refuse)][0].code == "reserved"


def test_words_of_a_link_from_a_client_are_refused() -> None:
    from radiator.model.commands import PeerMessage
    from radiator.model.peer import Taken

    nodes = with_clients("ab")
    nodes["a"].say(PeerMessage(1, Taken(1)))
    assert not [reply for reply in nodes["a"].take(1) if isinstance(reply, Deliver)]
