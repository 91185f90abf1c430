"""A node that comes back with the disk of before, after it has run on others; and disks that get another name."""

import pytest

from radiator.model.commands import Closed, Open
from radiator.model.limits import LOG_VALUE_CHARACTERS, PEER_STORES_KEPT
from radiator.model.peer import Identity
from radiator.model.replies import Refuse
from tests.core.cluster.nodes import Nodes
from tests.core.words import send, subscribe
from tests.sim.disk import Platter


def in_doubt(had_before: int) -> Nodes:
    """`a` has had some jobs of `b`, and has three more on its disk, which `b` has not heard; the link is cut."""
    nodes = Nodes("ab")
    for name in "ab":
        nodes[name].open(1)
    nodes["a"].say(subscribe(1, "work", prefetch_count=9))
    nodes.run()
    for number in range(had_before):
        nodes["b"].say(send(1, "work", b"%d" % number))
        nodes.run()
    for number in range(had_before, had_before + 3):
        nodes["b"].say(send(1, "work", b"%d" % number))
    while nodes.step("b") and len(nodes["a"].stored("work")) == had_before:
        nodes.step("a")
    assert len(nodes["a"].stored("work")) == had_before + 3
    nodes.cut("a", "b")
    assert len(nodes.cluster("b").peers["a"].doubts) == 3
    return nodes


def come_back(nodes: Nodes, name: str, platter: Platter) -> None:
    """That node starts on that disk, and is linked as its dialler would."""
    nodes.cut("a", "b")
    nodes.start(name, platter)
    nodes[name].open(1)
    for _ in range(9):
        nodes.link("a", "b")
        nodes.run()
        if nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up":
            return


def run_elsewhere(nodes: Nodes, count: int) -> None:
    """`b` runs on other disks, one after the other, and has work done at `a` from each."""
    for number in range(count):
        come_back(nodes, "b", Platter(store_id=f"{number:016x}"))
        assert nodes.cluster("a").peers["b"].state == "up"
        nodes["b"].say(send(1, "work", b"elsewhere"))
        nodes.run()


def troubles(nodes: Nodes) -> list[str]:
    kinds = ("link_error", "stores_disagree")
    noted = [note for node in nodes.at.values() for note in node.notes if note.event in kinds]
    assert all(len(str(text)) <= LOG_VALUE_CHARACTERS for note in noted for text in note.fields.values())
    return [" ".join(map(str, note.fields.values())) for note in noted]


@pytest.mark.durability("D17")
@pytest.mark.parametrize("had_before", [0, 2])
@pytest.mark.parametrize("others", [1, PEER_STORES_KEPT])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_disk_of_before_is_linked_again_and_what_was_in_doubt_is_done_once(
    had_before: int, others: int, is_restarted: bool
) -> None:
    nodes = in_doubt(had_before)
    mine = nodes["b"].disk.platter
    run_elsewhere(nodes, others)
    if is_restarted:
        nodes.crash("a")
        nodes["a"].open(1)
        nodes["a"].say(subscribe(1, "work", prefetch_count=99))
    come_back(nodes, "b", mine)
    assert nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up"
    assert nodes["b"].stored("work") == [] and troubles(nodes) == []
    jobs = [body for body in nodes["a"].stored("work") if body != b"elsewhere"]
    assert sorted(jobs) == [b"%d" % number for number in range(had_before + 3)]


def test_a_disk_that_is_forgotten_doubles_only_what_is_marked_as_redelivered() -> None:
    nodes = in_doubt(0)
    mine = nodes["b"].disk.platter
    run_elsewhere(nodes, PEER_STORES_KEPT + 1)
    come_back(nodes, "b", mine)
    assert nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up"
    nodes["a"].close(1)
    nodes["b"].say(subscribe(1, "work", prefetch_count=9))
    nodes.run()
    again = [reply for reply in nodes["b"].messages(1) if reply.message.body != b"elsewhere"]
    assert sorted(reply.message.body for reply in again) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    assert all(reply.redelivered for reply in again)


def test_a_disk_that_is_forgotten_waits_for_a_command_that_says_what_it_does() -> None:
    nodes = in_doubt(2)
    mine = nodes["b"].disk.platter
    run_elsewhere(nodes, PEER_STORES_KEPT + 1)
    come_back(nodes, "b", mine)
    assert nodes.cluster("b").peers["a"].state == "refused"
    (sentence, *_) = troubles(nodes)
    assert f"or a has forgotten this one, after {PEER_STORES_KEPT} others" in sentence
    assert "`radiator peer release a --force` at b;" in sentence and "twice (redelivered:true)" in sentence
    assert nodes["b"].admin(1, do="peer-release", peer="a", force=True) == {"ok": True, "released": 3}
    nodes["b"].say(subscribe(1, "work", prefetch_count=9))
    nodes.run()
    assert [reply.redelivered for reply in nodes["b"].messages(1)] == [True] * 3
    come_back(nodes, "b", nodes["b"].disk.platter)
    (replies,) = (note for note in nodes["b"].notes if note.event == "stores_disagree")
    assert f"if it has met {PEER_STORES_KEPT} other stores of this node since, nothing is" in str(
        replies.fields["sentence"]
    )
    assert [note.event for note in nodes["a"].notes if note.level == "error"] == []


def test_what_was_in_doubt_with_the_disk_of_before_is_not_taken_for_contradiction_when_that_returns() -> None:
    """The other direction: `a` was told to release what `b` had, and `b` says so when its disk is back."""
    nodes = in_doubt(2)
    theirs = nodes["a"].disk.platter
    nodes.cut("a", "b")
    nodes.start("a", Platter(store_id="e" * 16))
    nodes["a"].open(1)
    nodes.link("a", "b")
    nodes.run()
    (refused,) = (note for note in nodes["b"].notes if note.event == "refused")
    assert "`radiator peer release a --force` at b;" in nodes.cluster("b").peers["a"].cause, refused
    nodes["b"].admin(1, do="peer-release", peer="a", force=True)
    come_back(nodes, "a", Platter(store_id="e" * 16))
    come_back(nodes, "a", theirs)
    assert nodes.cluster("b").peers["a"].state == nodes.cluster("a").peers["b"].state == "up"
    assert troubles(nodes) == []


def test_a_disk_under_another_name_is_known_by_its_store() -> None:
    nodes = Nodes("abc")
    for name in "abc":
        nodes[name].open(1)
    nodes["a"].say(subscribe(1, "work", prefetch_count=9))
    nodes.run()
    nodes["b"].say(send(1, "work", b"1"))
    nodes["c"].say(send(1, "work", b"2"))
    nodes.run()
    for _ in range(2):  # there and back
        for pair in ("ab", "ac", "bc"):
            nodes.cut(*pair)
        # `radiator rename` does this to what each has kept of its new name
        for name, platter in [("b", nodes["c"].disk.platter), ("c", nodes["b"].disk.platter)]:
            row = platter.peers.pop(name, None)
            if row is not None:
                row.peer = "c" if name == "b" else "b"
                platter.peers[row.peer] = row
            nodes.start(name, platter)
            nodes[name].open(1)
        for pair in ("ab", "ac", "bc"):
            nodes.link(*pair)
        nodes.run()
        for name in "bc":
            nodes[name].say(send(1, "work", name.encode()))
        nodes.wait(1)
    assert [note.event for n in nodes.at.values() for note in n.notes if note.level == "error"] == []
    assert troubles(nodes) == []
    assert sorted(nodes["a"].stored("work")) == [b"1", b"2", b"b", b"b", b"c", b"c"]


@pytest.mark.parametrize("is_known_name", [False, True])
def test_a_disk_does_not_come_under_another_name_while_something_is_in_doubt_with_its_first_one(
    is_known_name: bool,
) -> None:
    nodes = in_doubt(0)
    cluster = nodes.cluster("b")
    theirs = nodes["a"].disk.recovery.store_id
    identity = Identity("c", theirs, is_dialled=False)
    cluster.links.known["c"] = None
    if is_known_name:
        nodes["b"].turn([Open(500, Identity("c", "c" * 16, is_dialled=False))])
        nodes["b"].turn([Closed(500)])
    nodes["b"].turn([Open(501, identity)])
    (refused,) = (reply for reply in nodes["b"].log if isinstance(reply, Refuse))
    assert refused.code == "other-store" and "`radiator peer release a --force` at b;" in refused.sentence
    assert cluster.peers["c"].link is None and len(cluster.peers["a"].doubts) == 3


def test_a_store_that_is_linked_is_not_linked_under_a_second_name() -> None:
    nodes = Nodes("ab")
    nodes.cluster("b").links.known["c"] = None
    nodes["b"].turn([Open(500, Identity("c", nodes["a"].disk.recovery.store_id, is_dialled=False))])
    (refused,) = (reply for reply in nodes["b"].log if isinstance(reply, Refuse))
    assert refused.code == "other-store" and "is linked already, as 'a'" in refused.sentence
    assert nodes.cluster("b").peers["a"].state == "up"
