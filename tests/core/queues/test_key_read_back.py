"""What was passed over is read back by its key: in order, once, and never twice; what is missing ends the broker."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from radiator.model.errors import StoreError
from radiator.model.reads import LoadedKeys, ReadHeld, ReadKeys, ReadQueue, StoredMessage
from tests.core.backlogs import durable
from tests.core.conftest import shrink
from tests.core.keyed import consume, drained, got, is_clean, keyed, names, of_key, say, word
from tests.core.node import Node
from tests.core.words import ack, nack, send, unsubscribe


def backlog(node: Node, count: int = 30, keys: str = "ab") -> None:
    say(node, " ".join(f"{key}{number}" for number in range(count) for key in keys))


def numbered(key: str, end: int, first: int = 0) -> list[str]:
    return [f"{key}{number}" for number in range(first, end)]


# ---- what comes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch_count", [1, 2, 3, 100])
@pytest.mark.parametrize("key_messages", [1, 2, 16])
def test_each_message_of_each_key_comes_once_and_in_order(
    small: None, prefetch_count: int, key_messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, {"KEY_MESSAGES": key_messages})
    node = keyed()
    backlog(node, 30, "abcdefgh")
    node.say(consume(1, prefetch_count=prefetch_count))
    seen = drained(node)
    assert len(seen) == 240 and all(of_key(seen, key) == numbered(key, 30) for key in "abcdefgh")
    assert node.numbers("q")["messages"] == 0 and is_clean(node)


@pytest.mark.parametrize("window", [1, 3])
def test_new_messages_line_up_behind_what_was_passed_over(small: None, window: int) -> None:
    node = keyed(window=window)
    backlog(node, 10)
    node.say(consume(1, prefetch_count=3))
    seen, waiting = [], node.messages(1)
    for number in range(10, 60):
        say(node, f"a{number} b{number} c{number}")
        waiting += node.messages(1)
        for deliver in waiting[:2]:
            seen.append(deliver.message.body.decode())
            node.say(ack(deliver))
        del waiting[:2]
    node.close(1)
    node.say(consume(2))
    seen += drained(node, 2)
    for key in "ab":
        assert [*dict.fromkeys(of_key(seen, key))] == numbered(key, 60)
    assert of_key(seen, "c") == numbered("c", 60, 10) and is_clean(node)


def test_what_comes_while_a_read_is_under_way_comes_once(small: None) -> None:
    node = keyed()
    backlog(node, 12, "a")
    node.say(consume(1))
    out = got(node)
    node.auto = False
    node.say(ack(out["a0"]))
    while not any(isinstance(read, ReadKeys) for read in node.read_requests):
        for deliver in node.messages(1):
            node.say(ack(deliver))
    read = node.read_requests[0]
    assert isinstance(read, ReadKeys)
    node.read_requests.clear()
    found = node.disk.load_keys(read)
    say(node, "a12 a13 b1")
    node.turn([found])
    node.auto = True
    node.turn([])
    seen = drained(node)
    assert of_key(seen, "a")[-2:] == ["a12", "a13"] and len({*seen}) == len(seen) and is_clean(node)


def test_what_is_not_on_the_disk_yet_is_waited_for(small: None) -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a0")
    out = got(node)
    node.auto = False
    backlog(node, 8, "abcde")
    node.say(ack(out["a0"]))
    assert node.read_requests == []
    node.seal()
    node.turn([])
    assert node.read_requests == []
    node.auto = True
    node.turn([])
    seen = drained(node)
    assert all(of_key(seen, key) == numbered(key, 8) for key in "abcde")


def test_reads_of_keys_and_of_the_next_stretch_take_turns(small: None) -> None:
    node = keyed()
    backlog(node, 20, "a")
    for number in range(40):
        node.say(send(9, "q", b"x%d" % number, headers=b"key:x%d\n" % number))
    node.say(consume(1, prefetch_count=1))
    asked: list[type] = []
    node.auto = False
    for _ in range(2000):
        for read in node.read_requests:
            asked.append(type(read))
        node.say(*map(ack, node.messages(1)))
        if not node.step() and not node.numbers("q")["messages"]:
            break
    assert node.numbers("q")["messages"] == 0 and ReadKeys in asked and ReadQueue in asked


def test_a_queue_deleted_while_it_is_read_back(small: None) -> None:
    for kind in (ReadKeys, ReadQueue):
        node = Node()
        node.open(1, 9)
        assert node.admin(9, do="declare", queue="n", partition_key="header:key")["created"]
        say(node, " ".join(f"{key}{number}" for key in "abcdefgh" for number in range(20)), to="n")
        node.auto = False
        node.say(consume(1, "n"))
        for _ in range(200):
            if any(isinstance(read, kind) for read in node.read_requests):
                break
            node.say(*map(ack, node.messages(1)))
            node.step()
        assert any(isinstance(read, kind) for read in node.read_requests)
        node.close(1)
        body = b'{"do":"delete","queue":"n"}'
        node.say(send(9, "/admin", body, reply_to="admin", correlation_id=b"1"))
        node.auto = True
        node.turn([])
        for _ in range(100):
            node.wait(1)
        assert not node.has("n") and not node.disk.platter.messages


def test_a_queue_deleted_while_it_is_asked_which_keys_are_held() -> None:
    node = Node()
    node.open(1, 9)
    assert node.admin(9, do="declare", queue="n", partition_key="header:key")["created"]
    node.say(consume(1, "n"))
    say(node, "a1 a2", to="n")
    node.say(nack(got(node)["a1"], delay_ms=1000), unsubscribe(1, "n"))
    again = node.crashed()
    again.open(1, 9)
    again.auto = False
    again.say(consume(1, "n"))
    assert [type(read) for read in again.read_requests] == [ReadHeld] and names(again) == ""
    again.close(1)
    body = b'{"do":"delete","queue":"n"}'
    again.say(send(9, "/admin", body, reply_to="admin", correlation_id=b"1"))
    again.auto = True
    again.turn([])
    again.wait(1)
    assert not again.has("n")


def test_nothing_is_delivered_before_it_is_known_which_keys_are_held() -> None:
    node = keyed()
    node.say(consume(1))
    say(node, "a1 a2")
    node.say(nack(got(node)["a1"], delay_ms=1000))
    again = node.crashed()
    again.open(1, 9)
    again.auto = False
    again.say(consume(1), word("b1"))
    again.seal()
    again.commit()
    assert names(again) == ""
    again.auto = True
    again.turn([])
    assert names(again) == "b1"


# ---- damage ---------------------------------------------------------------------------------------------------------


def changed(node: Node, change: Callable[[list[StoredMessage]], list[StoredMessage]]) -> Node:
    """Its answers about keys are as `change` makes them."""
    real = node.disk.load_keys

    def load(asked: ReadKeys) -> LoadedKeys:
        answer = real(asked)
        for found in answer.found:
            found.messages = change(found.messages)
        return answer

    node.disk.load_keys = load  # type: ignore[method-assign]
    return node


def damaged(*bodies: bytes) -> Callable[[list[StoredMessage]], list[StoredMessage]]:
    def change(rows: list[StoredMessage]) -> list[StoredMessage]:
        for row in rows:
            if row.message is not None and row.message.body in bodies:
                row.message = None
        return rows

    return change


def test_a_damaged_record_is_reported_stays_and_the_next_of_its_key_goes_on(small: None) -> None:
    node = keyed()
    backlog(node, 20)
    changed(node, damaged(b"a10", b"a11", b"b19"))
    node.say(consume(1))
    seen = drained(node)
    assert of_key(seen, "a") == [*numbered("a", 10), *numbered("a", 20, 12)]
    assert of_key(seen, "b") == numbered("b", 19)
    assert node.stored("q") == [b"a10", b"a11", b"b19"] and node.numbers("q")["damaged"] == 3
    assert [note.fields["queue"] for note in node.notes if note.event == "damaged_record"] == ["q"] * 3
    assert is_clean(node)


def damage(node: Node, *bodies: bytes) -> None:
    """On the disk, whatever reads them."""
    real = node.disk._stored

    def stored(place: tuple[int, int]) -> StoredMessage:
        found = real(place)
        return replace(found, message=None) if found.message is not None and found.message.body in bodies else found

    node.disk._stored = stored  # type: ignore[method-assign]


@pytest.mark.parametrize("bodies", [(b"a10", b"a11"), (b"a0",), (b"a19",), (b"b10", b"a10")])
def test_one_that_a_stretch_has_found_damaged_is_not_counted_when_its_key_is_read(
    small: None, bodies: tuple[bytes, ...]
) -> None:
    node = keyed()
    backlog(node, 20)
    again = node.crashed()
    again.open(1, 9)
    damage(again, *bodies)
    again.say(consume(1, prefetch_count=1))
    seen = drained(again)
    for key in "ab":
        assert of_key(seen, key) == [name for name in numbered(key, 20) if name.encode() not in bodies]
    assert again.numbers("q")["damaged"] == len(bodies) and is_clean(again)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_records_of_keys_with_the_same_hash_are_reported_once_and_all_others_come(
    small: None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say of which of the keys they were."""
    monkeypatch.setattr("radiator.core.queues.partitions.hash_of", lambda key: bytes(8))
    chance = Random(seed)
    node = keyed()
    backlog(node, 20, "abc")
    if chance.random() < 0.5:
        node = node.crashed()
        node.open(1, 9)
    whole = [f"{key}{number}" for key in "abc" for number in range(20)]
    gone = chance.sample(whole, chance.choice((1, 2, 10)))
    node.say(consume(1, prefetch_count=chance.choice((1, 2, 100))))
    seen = []
    for _ in range(chance.randrange(30)):
        for deliver in node.messages(1):
            seen.append(deliver.message.body.decode())
            node.say(ack(deliver))
    damage(node, *(name.encode() for name in gone))
    say(node, "a20 b20 c20")
    seen += drained(node)
    for key in "abc":
        # what was in memory by then needed no reading
        expected = [name for name in numbered(key, 21) if name not in gone or name in seen]
        assert of_key(seen, key) == expected
    assert node.numbers("q")["damaged"] == len([name for name in gone if name not in seen]) and is_clean(node)


@pytest.mark.durability("D32")
def test_one_that_is_missing_beside_a_damaged_one_ends_the_broker(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.queues.partitions.hash_of", lambda key: bytes(8))
    node = keyed()
    backlog(node, 20)
    damage(node, b"a10")
    changed(node, lambda rows: [row for row in rows if row.message is None or row.message.body != b"b15"])
    node.say(consume(1, prefetch_count=1))
    with pytest.raises(StoreError, match="ends for a key after message .*, but has 1 further message"):
        drained(node)


@pytest.mark.durability("D32")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows[:-1], "ends for a key after message .*, but has .* further message"),
        (lambda rows: [], "ends for a key after message .*, but has .* further message"),
        (lambda rows: rows + rows, "has more messages of a key than were stored"),
    ],
)
def test_messages_that_are_missing_or_double_end_the_broker(
    small: None, change: Callable[[list[StoredMessage]], list[StoredMessage]], sentence: str
) -> None:
    node = keyed()
    backlog(node, 12, "a")
    changed(node, change)
    node.say(consume(1))
    with pytest.raises(StoreError, match=f"^/queue/q {sentence}"):
        drained(node)


def test_a_purge_while_a_read_of_keys_is_under_way(small: None) -> None:
    node = keyed()
    backlog(node, 20)
    node.say(consume(1))
    node.auto = False
    for _ in range(100):
        if any(isinstance(read, ReadKeys) for read in node.read_requests):
            break
        node.say(*map(ack, node.messages(1)))
        node.step()
    body = b'{"do":"purge","queue":"q"}'
    node.say(send(9, "/admin", body, reply_to="admin", correlation_id=b"1"))
    node.auto = True
    node.turn([])
    say(node, "a99")
    seen = drained(node)
    assert seen[-1] == "a99" and node.numbers("q")["messages"] == 0 and is_clean(node)
    assert durable(node).window.size == 0
