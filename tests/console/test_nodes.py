"""The page of linked nodes: as it is alone, with two others, and with one that has died."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from tests.console.looks import USERS, as_user, is_accessible_in_both, leave
from tests.console.page import Page, a_broker
from tests.nodes.cluster import Nodes, chain, soon
from tests.nodes.network import Proxied
from tests.ports import free_ports

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TABLES = """
[create]
queues = true
[journal]
enabled = true
[queue."work.#"]
scope = "cluster"
[queue."plain"]
[fanout."events"]
children = ["audit"]
scope = "cluster"
[queue."audit"]
"""


class Webbed(Proxied):
    """With a web for each node."""

    def __init__(self, nodes: "ThreeNodes", names: str) -> None:
        super().__init__(chain(names), lambda name: nodes.by_name[name].peer_port)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))

    def server(self, name: str) -> str:
        return f'listen = ["stomp://127.0.0.1:0", "http://127.0.0.1:{self.ports[name]}"]'


class ThreeNodes(Nodes):
    """A chain: b is linked with a and c."""

    def __init__(self, directory: Path) -> None:
        self.webs = Webbed(self, "abc")
        super().__init__(directory, chain("abc"), TABLES, heart_beat_ms=500, network=self.webs)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.webs.ports[name]}"


@pytest.fixture
def nodes(tab: Page, tmp_path: Path) -> Iterator[ThreeNodes]:
    leave(tab)
    with ThreeNodes(tmp_path) as found:
        yield found
        leave(tab)


def test_a_node_its_links_and_those_behind_them(tab: Page, nodes: ThreeNodes) -> None:
    tab.url = nodes.url("b")
    tab.open("#/nodes")
    tab.sees("This is node b", "2 links", "up")
    assert len(tab.all(".map circle")) == 3 and len(tab.all(".map line.good")) == 2
    assert tab.run("return document.querySelector('.map circle').namespaceURI") == "http://www.w3.org/2000/svg"
    tab.url = nodes.url("a")
    tab.open("#/nodes")
    tab.sees("This is node a", "1 link", "Reached through others", "2 links")
    assert len(tab.all(".map line.far")) == 1
    is_accessible_in_both(tab)
    tab.is_well()


def test_each_link_is_to_be_seen_also_of_many(tab: Page, tmp_path: Path) -> None:
    names = [f"node-{number:03}-{'x' * 40}" for number in range(130)]
    peers = "".join(f'[peer."{name}"]\n' for name in names)
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a secret of many nodes, long enough for each of them\n")
    here = '[node]\nname = "-here"\nlisten = "peer://127.0.0.1:0"\nsecret_file = "secret"\n'
    with a_broker(tmp_path, here + peers) as (_, url):
        tab.url = url
        tab.open("#/nodes")
        tab.sees("130 links", names[0], "106 nodes more are in the tables.", "1 to 100 of 130")
        assert len(tab.all(".map circle")) == 25
        tab.press("Next")
        tab.sees("101 to 130 of 130", names[-1])
        tab.press("Drop…")
        tab.sees("radiator peer drop --force node-100-")
        tab.is_well()
        tab.is_accessible()
        leave(tab)


def test_a_message_that_was_handed_over_says_to_whom(tab: Page, nodes: ThreeNodes) -> None:
    with Client(nodes["b"].address) as far, Client(nodes["a"].address) as near:
        far.subscribe("/queue/work.x", ack="client-individual")
        near.send("/queue/work.x", b"x", headers={"traceparent": TRACEPARENT})
        message = far.receive(10)
        assert message is not None
        far.ack(message)
    tab.url = nodes.url("b")
    tab.open(f"#/messages?id={message.headers['message-id']}")
    tab.sees("handed over by node a", "on node b")
    tab.url = nodes.url("a")
    soon(lambda: nodes["a"].peers()["b"]["handed_over"] == 1, "it was not handed over")
    tab.open(f"#/messages?trace={TRACEPARENT[3:35]}")
    tab.sees("Handed over to node b, which has it on its disk.", "node b has it, and has a journal of its own")
    tab.is_well()


def test_what_is_kept_for_a_node_that_is_away(tab: Page, nodes: ThreeNodes) -> None:
    nodes["c"].kill()
    soon(lambda: nodes["b"].peers()["c"]["state"] != "up", "b has not noticed")
    with Client(nodes["b"].address) as client:
        for _ in range(3):
            client.send("/fanout/events", b"x")
    tab.url = nodes.url("b")
    tab.open("#/nodes")
    tab.sees("down", "Drop…", "3 waiting")
    assert len(tab.all(".map line.needs")) == 1
    tab.is_accessible()
    tab.press("Drop…")
    tab.sees("3 copies of fanouts and topics wait for that node", "radiator peer drop --force c", "/v1/peers/c/drop")
    tab.is_accessible()
    assert tab.run("return document.querySelector('dialog button[type=submit]').disabled")
    tab.fill("dialog input", "c")
    tab.press("Drop", "dialog")
    tab.sees("3 copies that waited for node c are deleted", "No copies are kept for it", "3 copies dropped")
    assert nodes["b"].peers()["c"]["copies_kept"] is False and nodes["b"].peers()["c"]["outbox"] == 0
    tab.press("Keep…")
    tab.press("Keep", "dialog")
    tab.sees("Copies are kept for node c again from now on.")
    assert nodes["b"].peers()["c"]["copies_kept"] is True
    tab.is_well()


def test_what_is_in_doubt_with_a_node_that_has_gone_is_released(tab: Page, nodes: ThreeNodes) -> None:
    with Client(nodes["c"].address) as far, Client(nodes["b"].address) as near:
        far.subscribe("/queue/work.y", ack="client-individual", prefetch=5)
        near.send("/queue/work.y", b"first")
        message = far.receive(10)
        assert message is not None
        far.ack(message)
        soon(lambda: nodes["b"].peers()["c"]["in_doubt"] == 0, "it is not confirmed")
        nodes.network.silence("c", "b")
        for number in range(5):
            near.send("/queue/work.y", b"%d" % number)
        soon(lambda: nodes["b"].peers()["c"]["in_doubt"] > 0, "nothing is in doubt")
    nodes["c"].kill()
    soon(lambda: nodes["b"].peers()["c"]["state"] == "down", "b has not noticed")
    tab.url = nodes.url("b")
    tab.open("#/nodes")
    in_doubt = nodes["b"].peers()["c"]["in_doubt"]
    tab.press("Release…")
    tab.sees("offered to that node and not confirmed", "may be processed twice", "peer release --force c")
    tab.fill("dialog input", "c")
    tab.press("Release", "dialog")
    tab.sees(f"{in_doubt} message", "in doubt with node c may be delivered to others now.")
    assert nodes["b"].queue("work.y")["ready"] == 5 and nodes["b"].peers()["c"]["in_doubt"] == 0
    tab.is_well()


def test_a_node_is_drained_and_that_is_taken_back(tab: Page, nodes: ThreeNodes) -> None:
    with Client(nodes["b"].address) as client:
        for _ in range(5):
            client.send("/queue/work.z", b"x")
        client.send("/queue/plain", b"x", headers={"delay": "3600000"})
    tab.url = nodes.url("b")
    tab.open("#/nodes")
    tab.press("Drain…")
    tab.sees("takes none from them", "radiator drain", "/v1/drain")
    tab.fill("dialog input", "b")
    tab.press("Drain", "dialog")
    tab.sees("still to be handed over", "draining", "How far…")
    assert nodes["b"].admin(do="peers")["draining"] is True
    tab.press("How far…")
    tab.press("How far", "dialog")
    tab.sees("on its disk")
    tab.press("Stop draining…")
    tab.sees("radiator drain --stop")
    tab.press("Stop draining", "dialog")
    tab.sees("The drain is stopped:")
    assert nodes["b"].admin(do="peers")["draining"] is False
    tab.is_well()


def test_alone_it_says_what_to_write(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path) as (_, url):
        tab.url = url
        tab.open("#/nodes")
        tab.sees("This broker has no [node] in its configuration: it is alone.", 'listen = "peers://10.0.0.1:61614"')
        is_accessible_in_both(tab)
        tab.expected = 20
        tab.is_well()
        leave(tab)


def test_who_may_not_see_it_is_told(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path, USERS) as (_, url), as_user(tab, "bob"):
        tab.url = url
        tab.open("#/nodes")
        tab.sees("The user bob may not")
        tab.expected = 20
        tab.is_well()
        leave(tab)
