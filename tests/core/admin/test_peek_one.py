"""`peek` of one message: found wherever it stands in its queue, with any part of its body."""

import base64
import json
from typing import Any

import pytest

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.commands import CLIENT_INDIVIDUAL, Send
from radiator.model.limits import PEEK_PART_BYTES
from radiator.model.reads import Loaded
from radiator.model.settings import QueueSettings
from radiator.storage.contract import answer
from tests.core.admin.asking import code, node_of
from tests.core.backlogs import durable
from tests.core.keyed import KEY
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe

S = QueueSettings
KINDS = [S(), S(partition_key=KEY), S(persistent=False), S(persistent=False, partition_key=KEY)]


def node_with(settings: QueueSettings, **more: Any) -> Node:
    node = Node(queues(q=settings), **more)
    node.open(1, 2, 9)
    return node


def put(node: Node, count: int, headers: bytes = b"") -> list[str]:
    """So many messages with their numbers; their ids."""
    ids = []
    for number in range(count):
        node.say(send(1, "q", b"%d" % number, headers=headers or b"key:%d\n" % (number % 3)))
        ids.append(node.broker.destinations.queues.all["q"].last_id().decode())
    assert len({*ids}) == count
    return ids


def request_for(one: str) -> Send:
    return send(9, "/admin", json.dumps({"do": "peek", "queue": "q", "message": one}).encode(), reply_to="t")


def answered(node: Node) -> dict[str, Any]:
    (text,) = node.bodies(9)
    found: dict[str, Any] = json.loads(text)
    return found


def look(node: Node, message_id: str, **more: object) -> dict[str, Any]:
    given = node.admin(9, do="peek", queue="q", message=message_id, **more)
    assert given["ok"] is True, given
    (message,) = given["messages"]
    found: dict[str, Any] = message
    return found


@pytest.mark.parametrize("settings", KINDS)
def test_each_message_is_found_wherever_it_stands_and_nothing_changes(small: None, settings: QueueSettings) -> None:
    node = node_with(settings)
    ids = put(node, 40)
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=5))
    for delivery in node.messages(2)[:2]:
        node.say(nack(delivery))
    before = node.numbers("q")
    states = set()
    for number, one in enumerate(ids):
        found = look(node, one)
        assert (found["message_id"], found["body"], found["body_from"]) == (one, str(number), 0)
        assert found["body_bytes"] == len(str(number))
        states.add(found["state"])
    assert states == {"ready", "unacked"} and node.numbers("q") == before
    node.close(2)
    assert [look(node, one)["body"] for one in ids] == [str(number) for number in range(40)]
    counts = [look(node, one)["redelivery_count"] for one in ids]
    assert sum(counts) > 0, "those that came back are found as that"


def test_one_from_amqp_is_shown_with_its_properties_as_headers() -> None:
    node = node_with(S())
    block, _ = stored_block(encode(Properties(content_type="a", priority=3)))
    (one,) = put(node, 1, block)
    assert sorted(look(node, one)["headers"]) == [["content-type", "a"], ["priority", "3"]]


@pytest.mark.parametrize("settings", KINDS[:2])
def test_what_is_on_the_disk_alone_is_found_after_a_restart(settings: QueueSettings) -> None:
    node = node_with(settings)
    ids = put(node, 5)
    again = node.crashed()
    again.open(1, 9)
    assert [look(again, one)["body"] for one in ids] == ["0", "1", "2", "3", "4"]


def test_one_that_is_on_its_way_to_the_disk_is_found() -> None:
    node = node_with(S())
    node.auto = False
    node.say(send(1, "q", b"x"))
    one = node.broker.destinations.queues.all["q"].last_id().decode()
    node.say(request_for(one))
    node.auto = True
    node.turn([])
    (found,) = answered(node)["messages"]
    assert (found["state"], found["body"]) == ("storing", "x")


@pytest.mark.parametrize("settings", KINDS)
def test_what_has_left_is_not_there(small: None, settings: QueueSettings) -> None:
    node = node_with(settings)
    ids = put(node, 3)
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=1))
    node.say(ack(node.message(2)))
    assert code(node, do="peek", queue="q", message=ids[0]) == "no-such-message"
    assert look(node, ids[1])["state"] == "unacked"


def test_one_that_was_acked_and_is_on_the_disk_still_is_not_there() -> None:
    node = node_with(S())
    (one,) = put(node, 1)
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=1))
    delivery = node.message(2)
    node.auto = False
    node.say(ack(delivery))
    node.say(request_for(one))
    node.answer()  # the Remove is in the open batch
    node.auto = True
    node.turn([])
    assert answered(node)["code"] == "no-such-message"


def test_one_that_is_delayed_is_found_in_memory_and_not_on_the_disk() -> None:
    for settings, is_found in ((S(persistent=False), True), (S(), False)):
        node = node_with(settings)
        node.say(send(1, "q", b"later", delay_ms=60_000))
        node.say(send(1, "q", b"now"))
        last = node.broker.destinations.queues.all["q"].last_id().decode()
        now = look(node, last)["message_id"]
        store, boot, number = now.rsplit("-", 2)
        later = f"{store}-{boot}-{int(number) - 1}"
        if is_found:
            assert (look(node, later)["state"], look(node, later)["body"]) == ("delayed", "later")
        else:
            assert code(node, do="peek", queue="q", message=later) == "no-such-message"


@pytest.mark.parametrize("one", ["0000000000000000-1-1", "4f0c2a91b7d3e865-3-17", "a-0-0", "a-9999999999-1"])
def test_an_id_of_nothing_is_refused_with_a_sentence(one: str) -> None:
    node = node_with(S())
    put(node, 1)
    given = node.admin(9, do="peek", queue="q", message=one)
    assert given["code"] == "no-such-message" and given["error"].startswith(f"/queue/q does not have {one}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "none"}, {"message": 7}, {"message": None}, {"from": -1, "message": "a-1-1"},
        {"from": "0", "message": "a-1-1"}, {"from": True, "message": "a-1-1"}, {"from": 0},
        {"message": "a-1-1", "count": 1}, {"message": "a-1-1", "from": 2**63},
    ],
)  # fmt: skip
def test_a_senseless_look_is_refused(wrong: dict[str, object]) -> None:
    assert code(node_of(), do="peek", queue="q", **wrong) == "bad-request"


def parts(node: Node, one: str) -> list[dict[str, Any]]:
    """All parts of its body, one after another."""
    found = [look(node, one)]
    while (end := found[-1]["body_from"] + len(raw(found[-1]))) < found[-1]["body_bytes"]:
        found.append(look(node, one, **{"from": end}))
    return found


def raw(part: dict[str, Any]) -> bytes:
    if part["body"] is None:
        return base64.b64decode(part["body_base64"])
    return str(part["body"]).encode()


@pytest.mark.parametrize("settings", [S(), S(persistent=False)])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"a" * PEEK_PART_BYTES, 1),
        (b"a" * (PEEK_PART_BYTES + 1), 2),
        ("ä".encode() * PEEK_PART_BYTES, 2),
        (b"x" + "ä".encode() * PEEK_PART_BYTES, 3),
        (bytes(range(256)) * 4096, 4),
        (b"\x80" * (PEEK_PART_BYTES * 2), 3),
    ],
)
def test_a_large_body_comes_part_after_part(settings: QueueSettings, body: bytes, count: int) -> None:
    node = node_with(settings)
    node.say(send(1, "q", body))
    one = node.broker.destinations.queues.all["q"].last_id().decode()
    found = parts(node, one)
    assert b"".join(map(raw, found)) == body and len(found) == count
    assert {part["body_bytes"] for part in found} == {len(body)}
    if body and body.decode("utf-8", "replace").encode() == body:
        assert all(part["body"] is not None for part in found), "no character is cut in two"


def test_a_part_begins_at_its_end_and_no_further() -> None:
    node = node_with(S())
    (one,) = put(node, 1)
    assert look(node, one, **{"from": 1})["body"] == ""
    given = node.admin(9, do="peek", queue="q", message=one, **{"from": 2})
    assert given["code"] == "bad-request"
    assert given["error"] == f"`from` is 2, and the body of {one} has 1 byte: it would be 0 to 1."


def test_one_that_is_damaged_is_said_to_be() -> None:
    node = node_with(S())
    (one,) = put(node, 1)
    again = node.crashed()
    again.open(9)
    again.auto = False
    again.say(request_for(one))
    read = answer(again.disk, again.read_requests.pop())
    assert isinstance(read, Loaded)
    read.messages[0].message = None
    again.auto = True
    again.turn([read])
    assert answered(again) == {
        "ok": False,
        "code": "no-such-message",
        "error": f"{one} cannot be read: `radiator check` says why.",
    }


@pytest.mark.parametrize("settings", KINDS)
def test_many_that_came_back_are_searched_in_slices(settings: QueueSettings) -> None:
    node = node_with(settings)
    ids = put(node, 1500, headers=b"key:k\n" if settings.partition_key else b"")
    node.say(subscribe(2, "q", CLIENT_INDIVIDUAL, prefetch_count=2000))
    node.messages(2)
    node.close(2)
    assert [look(node, ids[n])["body"] for n in (0, 700, 1499)] == ["0", "700", "1499"]


def test_one_in_doubt_is_found_with_its_state() -> None:
    node = node_with(S())
    (one,) = put(node, 1)
    queue = durable(node)
    entry = queue.take_head()
    assert entry is not None
    queue.in_doubt.offer(entry)
    assert look(node, one)["state"] == "in_doubt"
    again = node_with(S())
    (other,) = put(again, 1)
    queue = durable(again)
    head = queue.take_head()
    assert head is not None
    queue.in_doubt.recover(head.position, head.size)
    assert (look(again, other)["state"], look(again, other)["body"]) == ("in_doubt", "0")
