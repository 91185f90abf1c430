"""Replies reach who has asked at another node; where they cannot, that is counted and told, or refused if asked for."""

import pytest

from radiator.model.commands import PeerMessage, Read
from radiator.model.getting import FindAsker
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import TOPIC_HOPS_MAX
from radiator.model.message import Message
from radiator.model.peer import Answer
from radiator.model.replies import Returned
from tests.core.cluster.nodes import Nodes
from tests.core.words import ack, begin, commit, header, send, subscribe


def asked(names: str = "ab", links: str | None = None) -> tuple[Nodes, str]:
    """A client of the first node has asked, and a server at the last one has the request; where the reply goes."""
    nodes = Nodes(names, links)
    first, last = nodes[names[0]], nodes[names[-1]]
    first.open(1)
    last.open(2)
    last.say(subscribe(2, "work"))
    nodes.run()
    first.say(send(1, "work", b"question", reply_to="answers"))
    nodes.run()
    nodes.wait(0.5)
    request = last.message(2)
    last.say(ack(request))
    address = header(request.message, b"reply-to")
    assert address is not None
    return nodes, address.decode()


@pytest.mark.parametrize(("names", "links"), [("ab", None), ("abc", "ab bc"), ("abcd", "ab bc cd")])
@pytest.mark.parametrize("mandatory", [False, True])
def test_reply_reaches_who_has_asked_at_another_node(names: str, links: str | None, mandatory: bool) -> None:
    nodes, address = asked(names, links)
    assert address.startswith("/reply-queue/") and address.endswith("@a")
    nodes[names[-1]].say(send(2, address, b"answer", receipt=b"r", mandatory=mandatory))
    nodes.run()
    found = nodes["a"].message(1)
    assert found.message.body == b"answer" and found.subscription == b"/temp-queue/answers"
    assert nodes[names[-1]].receipts(2) == [b"r"]


def test_many_large_replies_in_one_turn_are_not_lost_for_a_buffer_that_was_not_written_yet() -> None:
    nodes, address = asked()
    body = b"x" * 1_000_000
    nodes["b"].turn([Read(2, [send(2, address, body) for _ in range(60)])])
    nodes.run()
    assert len(nodes["a"].messages(1)) == 60
    assert all(nodes[name].broker.context.counters.get("replies_dropped", 0) == 0 for name in "ab")


def test_reply_of_a_transaction_crosses_too() -> None:
    nodes, address = asked()
    nodes["b"].say(begin(2), send(2, address, b"answer", transaction=b"t"), send(2, "/queue/x", transaction=b"t"))
    nodes["b"].say(commit(2))
    nodes.run()
    assert nodes["a"].message(1).message.body == b"answer"


def test_reply_that_no_way_leads_to_is_counted_and_told_and_refused_if_mandatory() -> None:
    nodes, address = asked()
    nodes.cut("a", "b")
    b = nodes["b"]
    b.say(send(2, address, b"answer", receipt=b"r"))
    assert b.receipts(2) == [b"r"] and b.broker.context.counters["replies_dropped"] == 1
    assert [note.fields["node"] for note in b.notes if note.event == "reply_dropped"] == ["a"]
    b.say(send(2, address, b"back", mandatory=True, returns=True))
    assert [reply.body for reply in b.take(2) if isinstance(reply, Returned)] == [b"back"]
    b.say(send(2, address, b"answer", mandatory=True))
    assert b.refusal(2).code == "no-subscriber"


def test_reply_to_who_has_gone_is_counted_at_its_node() -> None:
    nodes, address = asked()
    nodes["a"].close(1)
    nodes["b"].say(send(2, address, b"answer"))
    nodes.run()
    assert nodes["a"].broker.context.counters["replies_dropped"] == 1


def test_who_asks_at_another_node_counts_as_there_while_that_is_reached() -> None:
    nodes, address = asked()
    b = nodes["b"]
    find = FindAsker(2, address.removeprefix("/reply-queue/"), b"there")
    b.say(find)
    assert b.receipts(2) == [b"there"]
    nodes.cut("a", "b")
    b.say(find)
    assert b.refusal(2).code == "no-such-destination"


def test_immediate_reply_to_another_node_is_refused() -> None:
    nodes, address = asked()
    nodes["b"].say(send(2, address, b"answer", immediate=True))
    assert nodes["b"].refusal(2).code == "no-consumer"


@pytest.mark.parametrize("name", ["nobody", "x@", "x@c", "x@.", "@a", "x@b"])
def test_address_of_nobody_is_counted_once(name: str) -> None:
    nodes, _ = asked()
    nodes["b"].say(send(2, f"/reply-queue/{name}", b"answer"))
    nodes.run()
    counted = [nodes[one].broker.context.counters.get("replies_dropped", 0) for one in "ab"]
    assert sum(counted) == 1 and set(nodes.ends), "the link stays"


@pytest.mark.parametrize("hops", [0, TOPIC_HOPS_MAX + 1])
def test_reply_that_has_gone_too_far_is_a_lie(hops: int) -> None:
    nodes, address = asked()
    end = next(end for end in nodes.ends if end[0] == "a")
    word = Answer("a", hops, Message(address, b"", ESCAPING_ALL, b"x", 0))
    nodes["a"].turn([Read(end[1], [PeerMessage(end[1], word)])])
    assert nodes["a"].refusal(end[1]).code == "link-error" and nodes["a"].messages(1) == []
