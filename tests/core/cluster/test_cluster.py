"""Topics of several nodes on whole brokers, and words that nobody may say."""

from radiator.model.peer import Publish
from radiator.model.replies import Deliver
from tests.core.cluster.nodes import with_clients
from tests.core.words import ack, send, subscribe

# ---- the operator's view --------------------------------------------------------------------------------------------


def test_queue_with_messages_in_doubt_cannot_be_deleted() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "made.now"))
    nodes.run()
    nodes["a"].say(send(1, "work"))
    nodes["b"].say(subscribe(2, "work"))
    while not nodes["a"].disk.platter.doubts:
        nodes.step()
    queue = nodes["a"].broker.destinations.queues.all["work"]
    queue.is_declared = False
    answer = nodes["a"].admin(1, do="delete", queue="work")
    assert answer["code"] == "in-use" and "in doubt" in answer["error"]


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
    assert len(nodes.sent(Publish)) == 2
    nodes["c"].say(ack(got[-2]))  # means nothing, as everywhere
    assert not nodes["c"].is_refused(1)


def test_topic_of_scope_node_stays() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "/topic/local"))
    nodes.run()
    nodes["a"].say(send(1, "/topic/local"))
    nodes.run()
    assert nodes.sent(Publish) == [] and nodes["b"].bodies(1) == []


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
    assert nodes.sent(Publish) == []


def test_words_of_a_link_from_a_client_are_refused() -> None:
    from radiator.model.commands import PeerMessage
    from radiator.model.peer import Taken

    nodes = with_clients("ab")
    nodes["a"].say(PeerMessage(1, Taken(1)))
    assert not [reply for reply in nodes["a"].take(1) if isinstance(reply, Deliver)]
