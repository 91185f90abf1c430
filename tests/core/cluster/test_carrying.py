"""What no link can carry stays where it is, and never stops the rest."""

from dataclasses import replace

import pytest

from radiator.model.commands import Fail, Read
from radiator.model.limits import Limits
from radiator.model.message import Message
from radiator.model.settings import QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, send, subscribe

LARGE = b"x" * 3000


def lowered(*sends: bytes, to: str = "work") -> Nodes:
    """What a has stored is more than either node takes by now."""
    nodes = Nodes("ab", None, declared(work=QueueSettings(scope="cluster")))
    nodes.cut("a", "b")
    nodes["a"].open(1)
    nodes["a"].say(*[send(1, to, body, receipt=b"r") for body in sends])
    nodes.limits = Limits(max_frame_bytes=2000)
    for name in "ab":
        nodes.crash(name)
        nodes[name].open(1, 2)
    nodes.link("a", "b")
    nodes.run()
    nodes.heard.clear()
    return nodes


def set_aside(nodes: Nodes, name: str) -> list[str]:
    return [str(note.fields["sentence"]) for note in nodes[name].notes if note.event == "message_set_aside"]


def test_others_go_on_and_it_is_told_of_once_and_counted() -> None:
    nodes = lowered(b"1", LARGE, b"2", LARGE, b"3")
    epoch = nodes.cluster("a").peers["b"].out_epoch
    nodes["b"].say(subscribe(2, "work", prefetch_count=10))
    for _ in range(40):
        nodes.wait(0.25)
    assert nodes["b"].bodies(2) == [b"1", b"2", b"3"]
    a = nodes["a"]
    assert len(set_aside(nodes, "a")) == 2 and "3000 of body" in set_aside(nodes, "a")[0]
    assert a.numbers("work")["set_aside"] == a.numbers("work")["messages"] == 2
    assert nodes.cluster("a").peers["b"].is_welcome and nodes.cluster("a").peers["b"].out_epoch == epoch
    verdict = a.admin(1, do="why", queue="work")
    assert verdict["verdict"] == "set-aside" and "no link can carry" in verdict["sentence"]
    a.say(subscribe(2, "work"))
    for _ in range(2):
        message = a.message(2)
        assert message.message.body == LARGE, "consumers here get it"
        a.say(ack(message))
    assert a.numbers("work")["set_aside"] == 0


def test_a_drain_ends_and_counts_it_among_what_stays() -> None:
    nodes = lowered(b"1", LARGE)
    nodes["a"].admin(1, do="drain")
    for _ in range(8):
        nodes.wait(0.25)
    answer = nodes["a"].admin(1, do="drain")
    assert (answer["left"], answer["stays"]) == (0, 1)


def test_copies_of_fanouts_go_past_it() -> None:
    nodes = lowered(b"1", LARGE, b"2", to="/fanout/events")
    epoch = nodes.cluster("a").peers["b"].out_epoch
    for _ in range(8):
        nodes.wait(0.25)
    assert nodes["b"].stored("x") == nodes["b"].stored("y") == [b"1", b"2"]
    assert len(set_aside(nodes, "a")) == 1 and nodes.cluster("a").peers["b"].out_epoch == epoch


@pytest.mark.parametrize("wrong", [{"headers": b"no colon\n"}, {"destination": "/nowhere"}, {"escaping": 7}])
def test_what_broke_a_link_once_is_set_aside_then(wrong: dict[str, object]) -> None:
    """However it came in: once the other side could not read something, all that is handed over is looked at."""
    nodes = Nodes("ab")
    for name in "ab":
        nodes[name].open(1, 2)
    nodes["a"].say(send(1, "work", b"bad"), send(1, "work", b"good"))
    entry = nodes["a"].broker.destinations.queues.all["work"].peek_head()
    assert entry is not None
    message: Message = replace(entry.message, **wrong)  # type: ignore[arg-type]
    entry.message = message
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    nodes["a"].turn([Read(number, [Fail(number, "b refused: a header block is none", code="protocol")])])
    nodes.cut("a", "b")
    nodes.link("a", "b")
    nodes["b"].say(subscribe(2, "work", prefetch_count=5))
    for _ in range(8):
        nodes.wait(0.25)
    assert nodes["b"].bodies(2) == [b"good"] and len(set_aside(nodes, "a")) == 1
