"""Settings of shared queues that are not alike: noticed at the link, told of, and no reason to spin."""

import re
from copy import deepcopy
from pathlib import Path

import pytest

from radiator.core.cluster.agreement import as_lines
from radiator.model.commands import PeerMessage, Read, Reread
from radiator.model.limits import KIB, Limits
from radiator.model.peer import Declared
from radiator.model.settings import Config, QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import nack, send, subscribe
from tests.sim.disk import Platter

WORK = QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=3)
DEAD = QueueSettings()


def pair(one: QueueSettings | None, other: QueueSettings | None, limits: Limits | None = None) -> Nodes:
    """a has declared `work` so, and b so; None: not at all."""
    nodes = Nodes("ab", "", limits=limits)
    for name, settings in (("a", one), ("b", other)):
        nodes.declarations = declared(dead=DEAD)
        del nodes.declarations.queues["work"]
        if settings is not None:
            nodes.declarations.queues["work"] = deepcopy(settings)
        nodes.pairs = [("a", "b")]
        nodes.start(name, Platter(store_id=name * 16))
        nodes[name].open(1)
    nodes.link("a", "b")
    nodes.run()
    return nodes


def sentences(nodes: Nodes, name: str) -> list[str]:
    return [str(note.fields["sentence"]) for note in nodes[name].notes if note.event == "declared_otherwise"]


def test_nothing_is_said_where_all_is_alike_but_for_bounds() -> None:
    nodes = pair(WORK, QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=3, max_messages=5))
    assert sentences(nodes, "a") == sentences(nodes, "b") == []
    assert len(nodes.sent(Declared)) == 2


def test_a_dead_letter_queue_that_only_one_has_is_told_at_both_and_once() -> None:
    nodes = pair(WORK, QueueSettings(scope="cluster"))
    assert sentences(nodes, "a") == [
        "/queue/work is declared otherwise: dead_letter is none at b and dead at a, max_redeliveries is 16 at b and 3 "
        "at a. Declare it alike at all nodes that have it."
    ]
    assert len(sentences(nodes, "b")) == 1
    for _ in range(3):
        nodes.cut("a", "b")
        nodes.link("a", "b")
        nodes.run()
    assert len(sentences(nodes, "a")) == len(sentences(nodes, "b")) == 1
    (peer,) = nodes["b"].admin(1, do="peers")["peers"]
    assert peer["declared_otherwise"] == {"work": sentences(nodes, "b")[0]}
    assert nodes["b"].admin(1, do="why", queue="work")["sentence"].endswith(sentences(nodes, "b")[0])


@pytest.mark.parametrize("is_made_later", [False, True])
def test_another_scope_is_told_at_both(is_made_later: bool) -> None:
    nodes = pair(WORK, None if is_made_later else QueueSettings(dead_letter="dead", max_redeliveries=3))
    if is_made_later:
        assert sentences(nodes, "a") == sentences(nodes, "b") == [], (
            "who does not have it has not declared it otherwise"
        )
        nodes["b"].say(send(1, "work"))
        nodes.run()
    assert "scope is node at b and cluster at a" in sentences(nodes, "a")[0]
    assert "scope is cluster at a and node at b" in sentences(nodes, "b")[0]


def test_what_is_mended_is_told_no_more() -> None:
    nodes = pair(WORK, QueueSettings(scope="cluster"))
    nodes.declarations = declared(dead=DEAD, work=WORK)
    nodes.cut("a", "b")
    nodes.start("b", nodes["b"].disk.platter)
    nodes.link("a", "b")
    nodes.run()
    nodes["a"].open(2)
    (peer,) = nodes["a"].admin(2, do="peers")["peers"]
    assert peer["declared_otherwise"] == {}
    queue = nodes["b"].broker.destinations.queues.all["work"]
    assert queue.calm_after is None


def test_dead_letters_that_go_to_an_exchange_at_one_node_alone_are_told_and_calmed() -> None:
    by_exchange = QueueSettings(scope="cluster", dead_letter_exchange="", dead_letter_key="dead", max_redeliveries=3)
    nodes = pair(by_exchange, QueueSettings(scope="cluster"))
    assert sentences(nodes, "a") == [
        '/queue/work is declared otherwise: dead_letter_exchange is none at b and "" at a, dead_letter_key is none at '
        "b and dead at a, max_redeliveries is 16 at b and 3 at a. Declare it alike at all nodes that have it."
    ]
    assert nodes["b"].broker.destinations.queues.all["work"].calm_after == 3


def test_what_a_reload_mends_or_breaks_is_told_over_the_same_link() -> None:
    nodes = pair(WORK, QueueSettings(scope="cluster"))
    for node in "ab":
        nodes[node].open(2)
    for name, settings in (("b", WORK), ("a", QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=7))):
        new = declared(dead=DEAD, work=deepcopy(settings))
        node = nodes[name]
        config = Config(data_dir=Path("/d"), declarations=new, limits=node.limits, disk_free_min=0)
        node.turn([Reread(config)])
        nodes.run()
        assert node.notes[-1].event == "reloaded" or sentences(nodes, name)
        peers = [nodes[one].admin(2, do="peers")["peers"][0]["declared_otherwise"] for one in "ab"]
        if name == "b":
            assert peers == [{}, {}]
        else:
            assert all("max_redeliveries" in one["work"] for one in peers)


def test_poison_job_does_not_spin_where_only_the_other_node_has_a_dead_letter_queue() -> None:
    nodes = pair(WORK, QueueSettings(scope="cluster"))
    b = nodes["b"]
    b.say(subscribe(1, "work"), send(1, "work", b"poison"))
    given = 0
    while (found := b.messages(1)) and given < 1000:
        given += 1
        b.say(*map(nack, found))
    assert given == 4, "as often as it would have come at a"
    assert b.numbers("work")["delayed"] == 1
    nodes.wait(1.1)
    assert len(b.messages(1)) == 1
    assert b.stored("work") == [b"poison"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_comes_back_slowly_comes_again_whole_also_where_its_bytes_are_on_the_disk_alone(is_lost: bool) -> None:
    once = QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=0)
    nodes = pair(once, QueueSettings(scope="cluster"), Limits(max_memory_bytes=256 * KIB))
    b, bodies = nodes["b"], [b"%02d" % number * 2000 for number in range(30)]
    b.open(2)
    b.say(*(send(1, "work", body) for body in bodies), subscribe(2, "work", prefetch_count=100))
    there = b.messages(2)
    queue = b.broker.destinations.queues.all["work"]
    assert len(there) == 30 and any(delivery.entry.is_stub for delivery in queue.entries_out.values())
    if is_lost:
        b.close(2)
    else:
        b.say(*map(nack, there))
    assert b.numbers("work")["delayed"] == 30
    b.open(3)
    b.say(subscribe(3, "work", prefetch_count=100))
    nodes.wait(1.1)
    assert sorted(one.message.body for one in (*b.messages(2), *b.messages(3))) == bodies


def test_node_that_declares_more_than_can_be_is_not_kept() -> None:
    nodes = pair(WORK, WORK)
    end = next(end for end in nodes.ends if end[0] == "a")
    words = [PeerMessage(end[1], Declared(f"q{number}", ["scope=cluster"])) for number in range(20_000)]
    for start in range(0, len(words), 500):
        nodes["a"].turn([Read(end[1], words[start : start + 500])])
    link = nodes.cluster("a").peers["b"].link
    assert link is not None and len(link.declared_there) <= nodes["a"].limits.max_destinations
    assert nodes.cluster("a").peers["b"].unlike == {}


def test_the_page_for_operators_has_each_setting_that_must_be_alike() -> None:
    page = (Path(__file__).parents[3] / "docs/CLUSTER.md").read_text(encoding="utf-8")
    sentence = page.partition("is declared alike at every node that has it: ")[2].partition(", since")[0]
    named = {line.partition("=")[0] for line in as_lines(QueueSettings())} - {"scope"}
    assert set(re.findall("`(.+?)`", sentence)) == {name for name in named if not name.startswith("redelivery_delay_")}
