"""`why` of a queue that is shared: it says what this node knows, and where else to ask."""

import pytest

from radiator.core.cluster import work_sharing
from tests.core.cluster.nodes import Nodes
from tests.core.words import ack, send, subscribe


def why(nodes: Nodes, name: str) -> tuple[str, str]:
    answer = nodes[name].admin(9, do="why", queue="work")
    assert answer["ok"]
    return answer["verdict"], answer["sentence"]


def three() -> Nodes:
    nodes = Nodes("abc", "ab bc")
    for name in "abc":
        nodes[name].open(1, 2, 9)
    return nodes


def test_no_node_says_that_all_is_done_with_while_another_has_messages() -> None:
    nodes = three()
    nodes["a"].say(send(1, "work"))
    assert why(nodes, "a") == (
        "no-consumer",
        "1 message is ready, nobody is subscribed here, and none of the linked nodes (b) has asked for messages.",
    )
    assert why(nodes, "c") == (
        "empty",
        "It is empty here: nothing has come to it yet. No linked node says that it has some. `radiator why` at each "
        "node says what it has.",
    )


def test_what_others_ask_and_offer_is_told() -> None:
    nodes = three()
    nodes["b"].say(subscribe(2, "work"))
    nodes.wait(0.5)
    nodes["a"].say(*[send(1, "work") for _ in range(9)])
    nodes.wait(0.5)
    verdict, sentence = why(nodes, "a")
    assert verdict == "asked-elsewhere" and "; node b asked for messages, and takes none now: " in sentence
    nodes["b"].say(ack(nodes["b"].message(2)))
    nodes["b"].close(2)
    nodes.wait(0.5)
    nodes["b"].admin(9, do="purge", queue="work")
    verdict, sentence = why(nodes, "b")
    assert verdict == "empty" and "Linked nodes say that they have some: " in sentence and " at a. " in sentence


def test_who_asked_once_is_not_said_to_get_messages_when_its_consumers_have_left() -> None:
    nodes = three()
    for name in "bc":
        nodes[name].say(subscribe(2, "work"))
    nodes.wait(0.5)
    for name in "bc":
        nodes[name].close(2)
    for _ in range(40):
        nodes.wait(0.5)
    nodes["a"].say(send(1, "work"))
    nodes.wait(0.5)
    assert why(nodes, "a") == (
        "asked-elsewhere",
        "1 message is ready, and nobody is subscribed here; node b asked for messages, and takes none now: its "
        "consumers have no room, or have left. `radiator why` there says more.",
    )


def test_what_rests_after_its_links_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_sharing, "PATH_HOPS_MAX", 0)
    nodes = three()
    nodes["b"].say(subscribe(2, "work"))
    nodes.wait(0.5)
    nodes["a"].say(send(1, "work"))
    nodes.run()
    verdict, sentence = why(nodes, "a")
    assert verdict == "resting" and "have been asking for 2 s; node b waits for messages." in sentence


def test_no_link() -> None:
    nodes = three()
    nodes["c"].say(send(1, "work"))
    nodes.cut("b", "c")
    assert why(nodes, "c")[1] == "1 message is ready, nobody is subscribed here, and no other node is linked."
