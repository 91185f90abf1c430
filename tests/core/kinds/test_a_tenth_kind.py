"""One file, one row, its settings, its tests: a kind of address that no other file knows can do all that the others can
(sink.py is that file).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.core.kinds.table import KINDS
from radiator.model import addresses
from radiator.model.errors import Refusal
from radiator.model.limits import MIB, Limits
from radiator.model.settings import Declarations
from radiator.protocols.administration import JSON
from radiator.storage.check import check
from radiator.storage.lmdb.store import open_store
from tests.core.admin.asking import code, node_of
from tests.core.kinds.sink import SINK, added
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe


@pytest.fixture(autouse=True)
def sinks() -> Iterator[None]:
    with added():
        yield


@pytest.fixture
def node() -> Node:
    node = node_of(Declarations(create_queues=True))
    assert node.admin(9, do="declare", sink="s", max_bytes=4) == {"ok": True, "created": True}
    return node


def test_it_is_sent_to_by_itself_and_within_a_transaction(node: Node) -> None:
    node.say(send(1, "/sink/s", b"1234", b"r"))
    node.say(begin(1), send(1, "/sink/s", transaction=b"t"), send(1, "q", transaction=b"t"), commit(1, receipt=b"c"))
    assert node.receipts(1) == [b"r", b"c"] and node.stored("q") == [b"x"]
    assert node.stats()["sinks"]["s"]["accepted"] == 2


@pytest.mark.parametrize(("to", "body", "code"), [("s", b"12345", "too-large"), ("other", b"", "no-such-destination")])
def test_what_it_refuses_is_refused_as_any_other(node: Node, to: str, body: bytes, code: str) -> None:
    node.say(send(1, f"/sink/{to}", body))
    assert node.refusal(1).code == code


def test_what_it_does_not_say_it_can_it_cannot(node: Node) -> None:
    node.say(subscribe(1, "/sink/s"))
    assert node.refusal(1).code == "send-only"
    node.open(1)
    node.say(send(1, "/sink/s", b"1", delay_ms=1000))
    assert node.refusal(1).code == "no-delay"


def test_it_is_described_listed_and_ticked(node: Node) -> None:
    node.say(send(1, "/sink/s"), send(1, "/sink/s"))
    numbers = {"accepted": 2, "last_s": 0, "max_bytes": 4}
    assert node.admin(9, do="describe", sink="/sink/s") == {"ok": True, **numbers}
    assert node.admin(9, do="stats")["sinks"] == {"s": numbers}
    node.wait(1)
    assert node.admin(9, do="stats", section="sinks", limit=1) == {"ok": True, "sinks": {"s": numbers | {"last_s": 2}}}
    assert code(node, do="describe", sink="other") == "no-such-destination"


def test_its_section_stands_among_those_of_what_is_declared(node: Node) -> None:
    with pytest.raises(Refusal, match="one of queues, fanouts, exchanges, logs, sinks, peers, users, topics"):
        JSON.read(b'{"do": "stats", "section": "other"}')
    with pytest.raises(Refusal, match="one of queue, exchange, fanout, log, sink; this has none"):
        JSON.read(b'{"do": "declare"}')


def test_it_is_recovered_and_deleted(node: Node) -> None:
    again = node.crashed()
    again.open(1, 9)
    assert again.stats()["sinks"] == {"s": {"accepted": 0, "last_s": 0, "max_bytes": 4}}
    assert again.admin(9, do="declare", sink="s", passive=True) == {"ok": True, "created": False}
    assert again.admin(9, do="delete", sink="s") == {"ok": True, "deleted": 1}
    assert code(again, do="delete", sink="s") == "no-such-destination"
    assert again.crashed().stats()["sinks"] == {}


def test_its_settings_are_checked(node: Node) -> None:
    assert code(node, do="declare", sink="large", max_bytes=0) == "bad-request"
    assert code(node, do="declare", sink="large", max_size=1) == "bad-request"
    assert code(node, do="declare", sink="/queue/q") == "bad-request"
    assert code(node, do="delete", sink="s", if_empty=True) == "bad-request"
    assert code(node, do="declare", sink="other", create=False) == "bad-request", "it leads to no queue"


def test_it_counts_as_a_destination() -> None:
    node = node_of(Declarations(), limits=Limits(max_destinations=1))
    assert node.admin(9, do="declare", sink="s")["ok"]
    assert code(node, do="declare", sink="t") == "too-many-destinations"


def test_a_store_on_the_disk_keeps_it_and_its_check_knows_it(tmp_path: Path) -> None:
    store = open_store(tmp_path, 16 * MIB)
    node = Node(disk=store)
    node.open(1, 9)
    assert node.admin(9, do="declare", sink="s", max_bytes=4)["ok"]
    store.close()
    assert check(tmp_path).findings == []
    store = open_store(tmp_path, 16 * MIB)
    assert Node(disk=store).stats()["sinks"]["s"]["max_bytes"] == 4
    store.close()


def test_without_its_row_there_is_none() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(addresses.KINDS, SINK)
        patch.delitem(KINDS, SINK)
        node = node_of(Declarations())
        node.say(send(1, "/sink/s"))
        assert node.refusal(1).code == "unknown-destination"
        assert code(node, do="declare", sink="s") == "bad-request" and "sinks" not in node.stats()
