"""`return`: dead letters go back to where each came from, wherever they stand, and what stays keeps its place."""

import json
from random import Random
from typing import Any

import pytest

from radiator.core.rights import rights_of
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.model.commands import AUTO, CLIENT, Closed
from radiator.model.limits import RETURNED_QUEUES
from radiator.model.message import Message
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import Rules
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.users import User
from tests.core.conftest import shrink
from tests.core.keyed import KEY
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe

S = QueueSettings
BOTH = pytest.mark.parametrize("persistent", [True, False])


def node_of(persistent: bool = True, dead: QueueSettings | None = None, **more: QueueSettings) -> Node:
    """Queues `a` and `b`, whose dead letters go to `dead`."""
    declared = {name: S(persistent=persistent, dead_letter="dead", max_redeliveries=0) for name in "ab"}
    node = Node(queues(**{**declared, "dead": dead or S(persistent=persistent), **more}))
    node.open(1, 2, 9)
    return node


def dies(node: Node, name: str, *bodies: str, headers: bytes = b"") -> None:
    """These become dead letters of that queue."""
    node.say(
        *(send(1, name, body.encode(), headers=headers) for body in bodies), subscribe(2, name, prefetch_count=999)
    )
    for deliver in node.messages(2):
        node.say(nack(deliver, requeue=False))
    node.close(2)
    node.open(2)


def lie(node: Node, *origins: str, body: bytes = b"x", to: str = "dead") -> None:
    """What looks like dead letters of these addresses."""
    node.say(*(send(1, to, body, headers=b"original-destination:%b\n" % one.encode()) for one in origins))


def bodies(node: Node, name: str) -> list[bytes]:
    """All that a consumer gets of it, in order."""
    node.say(subscribe(2, name, AUTO))
    found = node.bodies(2)
    node.close(2)
    node.open(2)
    return found


def give_back(node: Node, **more: Any) -> dict[str, Any]:
    answer = node.admin(9, do="return", queue=more.pop("queue", "dead"), **more)
    assert answer.pop("ok"), answer
    return answer


def ids(node: Node, name: str = "dead") -> list[str]:
    return [row["message_id"] for row in node.admin(9, do="peek", queue=name, count=1000)["messages"]]


@BOTH
def test_each_goes_back_to_where_it_came_from(small: None, persistent: bool) -> None:
    node = node_of(persistent)
    dies(node, "a", *map(str, range(12)), headers=b"color:red\n")
    dies(node, "b", "x", "y")
    node.say(send(1, "dead", b"sent"))
    assert give_back(node) == {
        "returned": 14,
        "stayed": 1,
        "to": {"a": 12, "b": 2},
        "why": {"no-origin": 1},
        "not_returned": [],
        "sentence": "14 messages are back where they came from, in 2 queues. 1 message stays: 1 without an "
        "original-destination that is a queue.",
    }
    node.say(subscribe(1, "a", AUTO))
    out = node.messages(1)
    assert [one.message.body for one in out] == [b"%d" % number for number in range(12)]
    assert {(one.message.headers, one.message.destination, one.redeliveries, one.redelivered) for one in out} == {
        (b"color:red\n", "/queue/a", 0, False)
    }
    assert bodies(node, "b") == [b"x", b"y"] and bodies(node, "dead") == [b"sent"]
    assert node.numbers("dead")["messages"] == node.numbers("a")["messages"] == 0


@BOTH
def test_nothing_ready_is_said(persistent: bool) -> None:
    answer = give_back(node_of(persistent))
    assert answer["sentence"] == "Nothing is ready in /queue/dead, so nothing went back." and answer["returned"] == 0


@BOTH
def test_what_stays_keeps_its_place(small: None, persistent: bool) -> None:
    """The window holds 6: of what stays it is full, and the others are behind it on the disk."""
    node = node_of(persistent)
    for number in range(40):
        lie(node, "/queue/gone" if number % 4 or number < 9 else "/queue/a", body=b"%d" % number)
    go = [number for number in range(9, 40) if number % 4 == 0]
    answer = give_back(node)
    assert (answer["returned"], answer["stayed"], answer["why"]) == (
        len(go),
        40 - len(go),
        {"origin-gone": 40 - len(go)},
    )
    assert node.numbers("dead")["ready"] == 40 - len(go)
    node.say(send(1, "dead", b"new"))
    assert bodies(node, "a") == [b"%d" % number for number in go]
    assert bodies(node, "dead") == [*(b"%d" % number for number in range(40) if number not in go), b"new"]
    assert node.numbers("dead")["messages"] == 0


@BOTH
def test_count_is_of_those_that_go_back(small: None, persistent: bool) -> None:
    node = node_of(persistent)
    lie(node, "/queue/gone", "/queue/a", "/queue/gone", "/queue/a", "/queue/a")
    answer = give_back(node, count=2)
    assert (answer["returned"], answer["stayed"]) == (2, 2)
    assert give_back(node, count=9)["returned"] == 1 and give_back(node, count=1)["returned"] == 0


@BOTH
def test_chosen_ones_go_back_and_each_other_is_named(small: None, persistent: bool) -> None:
    node = node_of(persistent)
    node.say(subscribe(2, "dead", CLIENT, prefetch_count=1))
    for number in range(20):
        lie(node, "/queue/gone" if number == 7 else "/queue/a", body=b"%d" % number)
    known = ids(node)
    other, never = "deadbeefdeadbeef-1-1", known[0].rsplit("-", 1)[0] + "-999999"
    answer = give_back(node, message_ids=[known[15], other, known[7], known[0], known[3], never])
    assert (answer["returned"], answer["stayed"], answer["to"]) == (2, 4, {"a": 2})
    assert answer["not_returned"] == [
        {"message_id": other, "why": "not-there"},
        {"message_id": known[7], "why": "origin-gone"},
        {"message_id": known[0], "why": "not-ready"},
        {"message_id": never, "why": "not-there"},
    ]
    assert answer["why"] == {"origin-gone": 1, "not-ready": 1, "not-there": 2}
    assert node.bodies(2) == [b"0"]
    assert bodies(node, "a") == [b"3", b"15"]
    assert give_back(node, message_ids=[known[3]])["not_returned"] == [{"message_id": known[3], "why": "not-there"}]
    assert node.numbers("dead")["messages"] == 18


@pytest.mark.parametrize(
    "origin",
    ["", "/", "/queue/", "queue/a", "/topic/a", "/queue/a\\nb", "/queue/" + "x" * 256, "/amq/queue/a", "a" * 9000,
     "/queue/$outbox/n", "/log/journal", "/admin"],
)  # fmt: skip
def test_an_origin_that_is_no_queue_stays(origin: str) -> None:
    node = node_of()
    lie(node, origin)
    node.say(send(1, "dead", headers=b"original-destination:/queue/\xff\xfe\n"))
    assert give_back(node)["why"] == {"no-origin": 2}
    assert node.numbers("dead")["ready"] == 2 and OUTBOX_PREFIX == "$outbox/"


def test_an_origin_that_is_the_dead_letter_queue_itself_stays() -> None:
    node = node_of()
    lie(node, "/queue/dead", "/queue/a")
    assert give_back(node)["why"] == {"same-queue": 1}
    assert node.numbers("dead")["ready"] == 1


@BOTH
@pytest.mark.parametrize("overflow", ["block", "refuse", "drop-oldest", "dead-letter"])
def test_a_full_origin_drops_nothing(small: None, persistent: bool, overflow: str) -> None:
    full = S(
        persistent=persistent, max_messages=2, overflow=overflow, dead_letter="dead" if "dead" in overflow else None
    )
    node = node_of(persistent, full=full)
    lie(node, *["/queue/full"] * 5, "/queue/a")
    answer = give_back(node)
    assert (answer["to"], answer["why"]) == ({"full": 2, "a": 1}, {"origin-full": 3})
    assert node.numbers("full")["messages"] == 2 and node.numbers("dead")["messages"] == 3


@BOTH
def test_what_dies_again_meanwhile_is_left_alone(small: None, persistent: bool) -> None:
    """A consumer of the origin rejects all at once: the dead-letter queue is never empty."""
    node = node_of(persistent)
    lie(node, *["/queue/a"] * 10)
    node.say(subscribe(2, "a", prefetch_count=99))
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
    answers: list[bytes] = []
    for _ in range(200):
        for deliver in node.messages(2):
            node.say(nack(deliver, requeue=False))
        if not node.step():
            break
        answers += node.bodies(9)
    assert [json.loads(one)["returned"] for one in answers] == [10]
    assert node.numbers("dead")["messages"] == 10 and node.numbers("a")["dead_lettered"] == 10


@BOTH
def test_the_time_to_live_of_the_origin_counts_anew_and_expired_ones_do_not_go(persistent: bool) -> None:
    node = node_of(persistent, dead=S(persistent=persistent, message_ttl_ms=5000), short=S(message_ttl_ms=7000))
    lie(node, "/queue/short")
    node.wait(2)
    assert give_back(node)["returned"] == 1
    (entry,) = node.broker.destinations.queues.all["short"].in_memory()
    assert entry.message.expires_ms == node.now_ms + 3000, "the earlier one counts, as for `move`"
    lie(node, "/queue/a")
    node.now_ms += 6000
    assert give_back(node)["returned"] == 0
    assert node.numbers("dead")["expired"] == 1 and node.numbers("dead")["messages"] == 0


@BOTH
def test_consumers_take_meanwhile_what_they_can(small: None, persistent: bool) -> None:
    """Each message is delivered from one queue or the other, and none twice."""
    for luck in range(30):
        random = Random(luck)
        node = node_of(persistent)
        count = 30
        for number in range(count):
            lie(node, random.choice(["/queue/a", "/queue/b", "/queue/gone"]), body=b"%d" % number)
        node.say(subscribe(2, "dead", CLIENT, prefetch_count=random.randrange(1, 4)))
        node.auto = False
        for _ in range(2):
            node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
        known, got = ids_of_disk(node), []
        if known:
            some = json.dumps(random.sample(known, min(5, len(known)))).encode()
            node.say(send(9, "/admin", b'{"do":"return","queue":"dead","message_ids":%b}' % some, reply_to="t"))
        for _ in range(2000):
            for deliver in node.messages(2):
                if random.random() < 0.3:
                    node.say(nack(deliver))
                else:
                    got.append(deliver.message.body)
                    node.say(ack(deliver))
            if random.random() < 0.02:
                node.say(send(1, "dead", b"new"))
                count += 1
            if not node.step():
                break
        node.auto = True
        node.turn([])
        got += node.bodies(2)
        node.turn([Closed(2)])
        node.open(2)
        assert [json.loads(one)["ok"] for one in node.bodies(9)] == [True] * (3 if known else 2)
        left = [body for name in ("a", "b", "dead") for body in bodies(node, name)]
        assert sorted({*got, *left}) == sorted({*(b"%d" % number for number in range(30)), *([b"new"] * (count > 30))})
        for name in ("a", "b", "dead"):
            assert node.numbers(name)["messages"] == 0, name


def ids_of_disk(node: Node) -> list[str]:
    store = node.broker.context
    return [store.message_id(position).decode() for _, position in sorted(node.disk.platter.messages)]


@pytest.mark.durability("D9")
def test_a_message_is_put_and_removed_in_one_batch(small: None) -> None:
    """Of the window, and of what is behind it on the disk."""
    node = node_of()
    lie(node, *["/queue/gone"] * 8, *["/queue/a"] * 8)
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
    for _ in range(100):
        platter = node.disk.platter
        names = {number: name for number, (name, _) in platter.queues.items()}
        count = sum(names[number] in ("a", "dead") for number, _ in platter.messages)
        assert count == 16
        again = node.crashed()
        assert again.numbers("a")["messages"] + again.numbers("dead")["messages"] == 16
        if not node.step():
            break
    assert len(node.stored("a")) == 8 and json.loads(node.message(9).message.body)["returned"] == 8


def test_answered_when_it_is_on_the_disk() -> None:
    node = node_of()
    lie(node, "/queue/a")
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
    while node.read_requests or node.again:
        node.answer() if node.read_requests else node.turn([])
    node.seal()
    assert node.messages(9) == []
    node.commit()
    assert len(node.messages(9)) == 1


@BOTH
def test_returned_and_stayed_of_a_queue_with_keys(small: None, persistent: bool) -> None:
    node = node_of(persistent, dead=S(persistent=persistent, partition_key=KEY))
    for number in range(30):
        origin = b"/queue/gone" if number % 5 == 0 else b"/queue/a"
        headers = b"key:%d\noriginal-destination:%b\n" % (number % 3, origin)
        node.say(send(1, "dead", b"%d" % number, headers=headers))
    returned = 0
    for _ in range(20):
        answer = give_back(node)
        returned += answer["returned"]
        if "behind-others" not in answer["why"]:
            break
    assert returned == 24 and node.numbers("dead")["ready"] == 6
    assert sorted(bodies(node, "a"), key=int) == [b"%d" % number for number in range(30) if number % 5]
    assert sorted(bodies(node, "dead"), key=int) == [b"%d" % number for number in range(0, 30, 5)]
    assert node.numbers("dead")["messages"] == 0


def test_into_a_queue_with_keys(small: None) -> None:
    node = node_of(keyed=S(partition_key=KEY))
    node.say(*(send(1, "dead", b"%d" % n, headers=b"key:k\noriginal-destination:/queue/keyed\n") for n in range(9)))
    assert give_back(node)["to"] == {"keyed": 9}
    node.say(subscribe(2, "keyed", CLIENT, prefetch_count=9))
    assert node.bodies(2) == [b"0"]


def test_who_asks_gets_no_further_than_his_rights(small: None) -> None:
    rules = Rules(read=("/queue/dead",), write=("/queue/a",))
    users = {"ann": User(name="ann", rules=rules), "root": User(name="root", rules=Rules(role="operator"))}
    node = Node(queues(**{name: S() for name in ("a", "b", "dead")}), authorizer=rights_of(users, 0))
    node.open(1, 9)
    for number, name in ((1, "root"), (9, "ann")):
        node.broker.connections[number].principal = Principal(name, RecognisedBy.PASSWORD)
    lie(node, "/queue/a", "/queue/b", "/queue/a")
    answer = give_back(node)
    assert (answer["to"], answer["why"]) == ({"a": 2}, {"not-allowed": 1})
    assert node.admin(9, do="return", queue="a")["code"] == "forbidden"


def test_rights_that_are_taken_meanwhile_count_from_the_next_slice_on(small: None) -> None:
    ann = User(name="ann", rules=Rules(read=("/queue/dead",), write=("/queue/a",)))
    node = Node(queues(a=S(), dead=S()), authorizer=rights_of({"ann": ann}, 0))
    node.open(9)
    node.broker.connections[9].principal = Principal("ann", RecognisedBy.PASSWORD)
    for number in range(9):
        message = Message("/queue/dead", b"original-destination:/queue/a\n", 2, b"%d" % number, 1)
        node.broker.destinations.queues.all["dead"].put(message)
    node.turn([])
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
    while not node.broker.destinations.queues.all["a"].ledger.stored:
        assert node.step()
    node.broker.parts.authorization.use({"ann": User(name="ann", rules=Rules(read=("/queue/dead",)))})
    node.auto = True
    node.turn([])
    answer = json.loads(node.message(9).message.body)
    assert (answer["to"], answer["why"]) == ({"a": 3}, {"not-allowed": 6})


def test_a_thousand_origins_and_ten_thousand_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, {"LOAD_MESSAGES": 500})
    names = [f"o{number}" for number in range(1000)]
    node = Node(queues(dead=S(), **{name: S() for name in names}))
    node.open(1, 9)
    for round_ in range(10):
        lie(node, *(f"/queue/{name}" for name in names), body=b"%d" % round_)
    answer = give_back(node)
    assert answer["returned"] == 10_000 and len(answer["to"]) == RETURNED_QUEUES
    assert "in 1000 queues" in answer["sentence"] and set(answer["to"].values()) == {10}
    assert node.numbers("dead")["messages"] == 0 and node.stored("o999") == [b"%d" % n for n in range(10)]


def test_a_queue_that_is_deleted_meanwhile_ends_it(small: None) -> None:
    node = Node(Declarations(create_queues=True))
    node.open(1, 9)
    lie(node, *["/queue/a"] * 20)
    node.say(send(1, "a"))
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"return","queue":"dead"}', reply_to="t"))
    node.say(send(9, "/admin", b'{"do":"delete","queue":"dead"}', reply_to="t"))
    node.auto = True
    node.turn([])
    first, second = (json.loads(one) for one in node.bodies(9))
    assert {first["ok"], second["ok"]} == {True} and not node.has("dead")


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"count": 1, "message_ids": ["feedfacecafebeef-1-1"]}, "this has both"),
        ({"count": 0}, "`count` must be a whole number from 1"),
        ({"message_ids": []}, "must be 1 to 100 message-ids"),
        ({"message_ids": [f"x-1-{n}" for n in range(101)]}, "it has 101"),
        ({"message_ids": ["nonsense"]}, "is not a message-id"),
        ({"message_ids": ["x-1-1", "x-1-1"]}, "more than once"),
        ({"message_ids": "x-1-1"}, "must be a list of message-ids"),
        ({"queue": "nowhere"}, "There is no /queue/nowhere"),
    ],
)
def test_wrong_requests_are_refused(wrong: dict[str, Any], error: str) -> None:
    answer = node_of().admin(9, **{"do": "return", "queue": "dead", **wrong})
    assert answer["ok"] is False and error in answer["error"], answer


def test_it_is_told_in_the_log() -> None:
    node = node_of()
    lie(node, "/queue/a")
    give_back(node)
    (note,) = [one for one in node.notes if one.event == "returned"]
    assert note.fields == {"queue": "dead", "messages": 1}
