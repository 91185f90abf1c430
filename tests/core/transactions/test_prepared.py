"""Prepared transactions: kept, committed once for each version, and put into their destinations over anything."""

import json

import pytest

from radiator.core.transactions import prepared
from radiator.model import limits
from radiator.model.commands import Begin, Commit, Send
from radiator.model.limits import Limits
from radiator.model.replies import Receipt
from radiator.model.settings import QueueSettings
from tests.core.transactions.preparing import (
    MEMORY,
    SMALL,
    bodies,
    committed,
    consume,
    fill,
    names,
    node,
    prepare,
    prepared_on_disk,
    sends,
)
from tests.core.words import ack, begin, commit, send, subscribe

# ---- prepare --------------------------------------------------------------------------------------------------------


def test_a_prepared_transaction_is_on_the_disk_and_nowhere_else() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 3))
    assert broker.receipts(1) == [b"prepared"] and broker.stats()["prepared"] == 1
    assert broker.stored("a") == [] and prepared_on_disk(broker) == ["p"]
    assert broker.broker.connections[1].transaction_bytes == 0 and not broker.broker.connections[1].transactions


@pytest.mark.durability("D30")
def test_the_receipt_of_a_prepare_waits_for_the_disk() -> None:
    broker = node(auto=False)
    fill(broker, sends("a", 1))
    broker.say(Commit(1, b"t", b"prepared", "p"))
    assert broker.receipts(1) == []
    broker.seal()
    assert broker.receipts(1) == []
    broker.commit()
    assert broker.receipts(1) == [b"prepared"]


def test_a_crash_before_the_receipt_leaves_nothing() -> None:
    broker = node(auto=False)
    fill(broker, sends("a", 1))
    broker.say(Commit(1, b"t", b"prepared", "p"))
    broker.seal()
    assert names(broker.crashed()) == []


@pytest.mark.parametrize(
    ("word", "part"),
    [
        (send(1, "/topic/a"), "/topic/a cannot be prepared"),
        (send(1, "/temp-queue/a"), "/temp-queue/a cannot be prepared"),
        (send(1, "/reply-queue/a"), "/reply-queue/a cannot be prepared"),
        (send(1, "a", mandatory=True), "has `mandatory`, so it cannot be prepared"),
        (send(1, "a", immediate=True), "has `immediate`, so it cannot be prepared"),
        (send(1, "a", reply_to="b"), "has `reply-to`, so it cannot be prepared"),
    ],
)
def test_what_cannot_be_kept_for_later_is_refused(word: Send, part: str) -> None:
    broker = node()
    prepare(broker, "p", send(1, "a"), word)
    refusal = broker.refusal(1)
    assert refusal.code == "not-preparable" and part in refusal.sentence and refusal.receipt == b"prepared"
    assert names(broker) == [] and broker.stored("a") == []


def test_an_ack_cannot_be_prepared_and_stays_unacked() -> None:
    broker = node()
    broker.say(subscribe(1, "a"), send(2, "a"))
    broker.say(begin(1), ack(broker.message(1), transaction=b"t"), Commit(1, b"t", b"r", "p"))
    assert broker.refusal(1).code == "not-preparable"
    broker.close(1)
    assert broker.numbers("a")["ready"] == 1


@pytest.mark.parametrize(
    ("to", "code"), [("/fanout/none", "no-such-destination"), ("/exchange/none/k", "no-such-destination")]
)
def test_destinations_are_judged_when_it_is_prepared(to: str, code: str) -> None:
    broker = node()
    prepare(broker, "p", send(1, to))
    assert broker.refusal(1).code == code and names(broker) == []


def test_a_message_that_its_queue_could_never_hold_is_refused_when_it_is_prepared() -> None:
    broker = node(a=QueueSettings(max_bytes=10))
    prepare(broker, "p", send(1, "a", b"x"), send(1, "a", b"x" * 11), send(1, "a", b"x"))
    assert broker.refusal(1).code == "too-large"


def test_a_name_that_is_in_use_is_refused_until_it_is_committed() -> None:
    broker = node()
    prepare(broker, "p", send(1, "a"))
    prepare(broker, "p", send(1, "a"))
    assert broker.refusal(1).code == "prepared"
    broker.say(committed("p"))
    broker.open(1)
    prepare(broker, "p", send(1, "b"))
    assert broker.receipts(1) == [b"prepared"] and names(broker) == ["p"]


def test_as_many_as_the_limit_says_are_kept_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "PREPARED_MAX", 2)
    broker = node()
    for name in ("p", "q"):
        prepare(broker, name, send(1, "a"))
    prepare(broker, "r", send(1, "a"))
    refusal = broker.refusal(1)
    assert refusal.code == "too-many-transactions" and "2 transactions are prepared" in refusal.sentence


def test_it_waits_for_a_disk_that_has_no_room() -> None:
    broker = node()
    broker.broker.parts.disk.high_water_bytes = -1
    fill(broker, sends("a", 1))
    broker.wait(1)
    broker.say(Commit(1, b"t", b"prepared", "p"))
    assert broker.receipts(1) == [] and 1 in broker.paused
    broker.broker.parts.disk.high_water_bytes = limits.GIB
    broker.wait(1)
    assert broker.receipts(1) == [b"prepared"]


# ---- commit ---------------------------------------------------------------------------------------------------------


def test_another_connection_commits_it() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 3))
    broker.close(1)
    broker.say(committed("p"))
    assert broker.receipts(2) == [b"committed"]
    assert broker.stored("a") == bodies(3)
    assert not broker.disk.platter.transactions and not broker.disk.platter.prepared


def test_it_is_committed_after_a_crash_and_applied_after_another() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 3))
    broker = broker.crashed()
    assert names(broker) == ["p"]
    broker.auto = False
    broker.open(2)
    broker.say(committed("p"))
    assert broker.receipts(2) == []
    broker.seal()
    broker.commit()
    assert broker.receipts(2) == [b"committed"] and broker.stored("a") == []
    broker = broker.crashed()
    assert broker.stored("a") == bodies(3) and names(broker) == []


@pytest.mark.durability("D30")
def test_a_crash_before_the_commits_receipt_leaves_it_prepared() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 3))
    broker.auto = False
    broker.say(committed("p"))
    broker.seal()
    broker = broker.crashed()
    assert names(broker) == ["p"] and broker.broker.parts.prepared.apps == {}
    broker.open(2)
    broker.say(committed("p"))
    assert broker.stored("a") == bodies(3)


def test_prepare_and_commit_may_be_in_one_batch() -> None:
    broker = node(auto=False)
    fill(broker, sends("a", 3))
    broker.say(Commit(1, b"t", b"r", "p"), committed("p"))
    while broker.step():
        pass
    assert broker.receipts(2) == [b"committed"] and broker.stored("a") == bodies(3)


def test_a_name_that_is_not_prepared_is_refused() -> None:
    broker = node()
    broker.say(committed("none"))
    refusal = broker.refusal(2)
    assert refusal.code == "not-prepared" and "'none'" in refusal.sentence
    assert broker.broker.parts.prepared.apps == {}


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_version_that_is_not_higher_is_receipted_and_what_is_prepared_let_go_of(version: int) -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 2))
    broker.say(committed("p", 5))
    prepare(broker, "again", *sends("a", 2))
    broker.say(committed("again", version))
    assert broker.receipts(2) == [b"committed", b"committed"]
    assert broker.stored("a") == bodies(2) and prepared_on_disk(broker) == []
    broker.say(committed("p", version), committed("never", version))
    assert broker.receipts(2) == [b"committed"] * 4
    assert broker.crashed().stored("a") == bodies(2)


def test_a_retry_whose_first_try_is_on_its_way_to_the_disk_is_receipted_no_earlier() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 1))
    broker.auto = False
    broker.say(committed("p"))
    broker.seal()
    broker.open(3)
    broker.say(committed("p", connection=3))
    assert broker.receipts(3) == []
    broker.commit()
    broker.seal()
    broker.commit()
    assert broker.receipts(2) == broker.receipts(3) == [b"committed"]


def test_versions_of_one_app_say_nothing_of_another() -> None:
    broker = node()
    for app in ("one", "two"):
        prepare(broker, "p", *sends(app, 1))
        broker.say(committed("p", 7, app=app))
    assert broker.stored("one") == broker.stored("two") == bodies(1)
    assert broker.crashed().broker.parts.prepared.apps["two"].version == 7


def test_an_open_transaction_is_carried_out_once_for_each_version() -> None:
    broker = node()
    for version in (1, 1, 2, 0):
        fill(broker, sends("a", 2))
        broker.say(Commit(1, b"t", b"%d" % version, None, "app", version))
    assert broker.receipts(1) == [b"1", b"1", b"2", b"0"]
    assert broker.stored("a") == bodies(2) * 2 and not broker.broker.connections[1].transactions


@pytest.mark.durability("D30")
def test_an_open_transaction_and_its_version_are_in_one_batch() -> None:
    broker = node(auto=False, m=MEMORY)
    broker.say(subscribe(2, "m"))
    fill(broker, [send(1, "m"), send(1, "a")])
    broker.say(Commit(1, b"t", b"r", None, "app", 1))
    before = broker.crashed()
    assert before.broker.parts.prepared.apps == {} and before.stored("a") == []
    assert broker.receipts(1) == [] and broker.messages(2) == []
    broker.seal()
    broker.commit()
    assert broker.receipts(1) == [b"r"] and len(broker.messages(2)) == 1
    after = broker.crashed()
    assert after.broker.parts.prepared.apps["app"].version == 1 and after.stored("a") == [b"x"]


def test_what_is_for_memory_only_waits_for_its_version_too() -> None:
    broker = node(auto=False, m=MEMORY)
    broker.say(subscribe(2, "m"))
    fill(broker, [send(1, "m")])
    broker.say(Commit(1, b"t", b"r", None, "app", 1))
    assert broker.receipts(1) == [] and broker.messages(2) == []
    broker.seal()
    broker.commit()
    assert broker.receipts(1) == [b"r"] and len(broker.messages(2)) == 1


def test_the_receipt_of_a_version_waits_for_the_disk_though_nothing_was_sent() -> None:
    broker = node(auto=False)
    fill(broker, [])
    broker.say(Commit(1, b"t", b"r", None, "app", 1))
    assert broker.receipts(1) == []
    broker.seal()
    broker.commit()
    assert broker.receipts(1) == [b"r"] and broker.disk.platter.apps["app"].version == 1


def test_an_ack_in_a_transaction_whose_version_was_committed_is_not_carried_out() -> None:
    broker = node()
    broker.say(subscribe(1, "a"), send(2, "a"))
    delivered = broker.message(1)
    for version in (1, 1):
        broker.say(begin(1))
        if version == 1 and broker.broker.parts.prepared.apps:
            broker.say(ack(delivered, transaction=b"t"))
        broker.say(Commit(1, b"t", b"r", None, "app", 1))
    assert broker.numbers("a")["unacked"] == 1
    broker.say(ack(delivered))
    assert broker.numbers("a")["messages"] == 0


def test_without_app_only_an_open_transaction_is_committed() -> None:
    broker = node()
    prepare(broker, "p", send(1, "a"))
    broker.say(commit(2, b"p"))
    assert broker.refusal(2).code == "transaction"


def test_as_many_apps_as_the_limit_says_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "APPS_MAX", 1)
    broker = node()
    prepare(broker, "p", send(1, "a"))
    prepare(broker, "q", send(1, "a"))
    broker.say(committed("p", app="one"), committed("q", app="two"))
    assert broker.refusal(2).code == "too-many-transactions" and names(broker) == ["q"]


def test_an_empty_transaction_is_prepared_and_committed() -> None:
    broker = node()
    prepare(broker, "p")
    broker = broker.crashed()
    assert names(broker) == ["p"]
    broker.open(2)
    broker.say(committed("p"))
    assert broker.receipts(2) == [b"committed"] and broker.disk.platter.transactions == {}


# ---- over time ------------------------------------------------------------------------------------------------------


def test_what_nobody_commits_is_let_go_of_in_time() -> None:
    broker = node(Limits(prepared_max_s=10))
    prepare(broker, "p", send(1, "a"))
    broker.wait(5)
    prepare(broker, "q", send(1, "a"))
    broker.wait(5)
    assert names(broker) == ["p", "q"]
    broker = broker.crashed()
    broker.wait(0.001)
    broker.wait(0.001)
    assert names(broker) == ["q"] == prepared_on_disk(broker)
    assert [note.fields for note in broker.notes if note.event == "prepared_expired"] == [{"name": "p", "messages": 1}]


def test_what_is_committed_is_not_let_go_of_by_time() -> None:
    broker = node(Limits(prepared_max_s=10), a=SMALL)
    prepare(broker, "p", *sends("a", 5))
    broker.say(committed("p"))
    broker.wait(100)
    assert broker.disk.platter.transactions


def test_an_app_that_stands_still_is_forgotten() -> None:
    broker = node(Limits(app_max_s=10))
    for version, app in enumerate(("one", "two", "one")):
        broker.wait(4)
        prepare(broker, "p", send(1, "a"))
        broker.say(committed("p", version, app=app))
    broker.wait(7)
    assert list(broker.broker.parts.prepared.apps) == list(broker.disk.platter.apps) == ["one"]
    again = broker.crashed()
    again.wait(4)
    assert again.disk.platter.apps == {}


def test_a_clean_stop_leaves_what_is_to_be_done() -> None:
    broker = node(a=SMALL)
    prepare(broker, "p", *sends("a", 5))
    prepare(broker, "q", *sends("b", 5))
    broker.say(committed("p"))
    broker.stop()
    again = broker.again_on(broker.disk.platter)
    again.open(2)
    assert list(consume(again, "a")) == bodies(5) and names(again) == ["q"]


def test_receipts_keep_their_order() -> None:
    broker = node(auto=False)
    fill(broker, sends("a", 1))
    broker.say(Commit(1, b"t", b"1", "p"), Begin(1, b"u", b"2"))
    while broker.step():
        pass
    assert [r for r in broker.take(1) if isinstance(r, Receipt)] == [Receipt(1, b"1"), Receipt(1, b"2")]


# ---- /admin ---------------------------------------------------------------------------------------------------------


def test_several_are_committed_at_once_and_once() -> None:
    broker = node()
    for name in ("p", "q"):
        prepare(broker, name, *sends(name, 3))
    request = {"do": "commit", "prepared": ["p", "q", "p"], "app": "app", "version": 0}
    assert broker.admin(2, **request) == {"ok": True, "committed": True, "messages": 6}
    assert broker.stored("p") == broker.stored("q") == bodies(3)
    assert broker.admin(2, **request) == {"ok": True, "committed": False, "messages": 0}
    assert broker.admin(2, do="version", app="app") == {"ok": True, "version": 0}
    assert broker.admin(2, do="version", app="other") == {"ok": True, "version": None}


def test_one_name_that_is_not_there_and_nothing_is_committed() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 3))
    answer = broker.admin(2, do="commit", prepared=["p", "none"], app="app", version=1)
    assert answer["code"] == "not-prepared" and "'none'" in answer["error"]
    assert broker.stored("a") == [] and broker.admin(2, do="version", app="app")["version"] is None


def test_an_answer_comes_when_what_it_tells_is_synced() -> None:
    broker = node(auto=False)
    fill(broker, sends("a", 1))
    broker.say(Commit(1, b"t", b"r", "p"))
    body = b'{"do": "commit", "prepared": ["p"], "app": "app", "version": 3}'
    broker.say(send(2, "/admin", body, reply_to="admin"))
    broker.say(send(2, "/admin", b'{"do": "version", "app": "app"}', reply_to="admin"))
    assert broker.messages(2) == []
    broker.seal()
    broker.commit()
    assert [d.message.body for d in broker.messages(2)] == [
        b'{"ok": true, "committed": true, "messages": 1}',
        b'{"ok": true, "version": 3}',
    ]


def test_an_app_that_is_over_is_forgotten_also_by_the_disk() -> None:
    broker = node()
    prepare(broker, "p", *sends("a", 1))
    assert broker.admin(2, do="commit", prepared=["p"], app="app", version=3)["committed"] is True
    assert broker.admin(2, do="version", app="app", forget=True)["version"] is None
    assert broker.admin(2, do="version", app="app", forget=True)["version"] is None
    broker = broker.crashed()
    broker.open(2)
    assert broker.admin(2, do="version", app="app")["version"] is None


def test_what_is_prepared_is_listed_and_aborted() -> None:
    broker = node(a=SMALL)
    prepare(broker, "p", *sends("a", 5))
    prepare(broker, "q", send(1, "b", b"x", headers=b"k:v\n"))
    broker.wait(2)
    broker.say(committed("p"))
    answer = broker.admin(2, do="prepared")
    assert answer == {
        "ok": True,
        "count": 2,
        "prepared": [
            {
                "name": "p", "messages": 5, "bytes": 5, "age_ms": 2000, "applied": 3, "is_committed": True,
                "waits": "/queue/a has no room.",
            },
            {
                "name": "q", "messages": 1, "bytes": 5, "age_ms": 2000, "applied": 0, "is_committed": False,
                "waits": None,
            },
        ],
    }  # fmt: skip
    assert broker.admin(2, do="abort", prepared=["q", "q", "p", "none"]) == {"ok": True, "aborted": 1}
    assert names(broker.crashed()) == [""]


def test_many_are_aborted_in_several_batches_and_answered_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "BATCH_WRITES", 8)
    broker = node()
    wanted = [f"p{number}" for number in range(6)]
    for name in wanted:
        prepare(broker, name, *sends("a", 5))
    broker.auto = False
    body = json.dumps({"do": "abort", "prepared": wanted}).encode()
    broker.say(send(2, "/admin", body, reply_to="admin"))
    left = set()
    while broker.step():
        left.add(len(broker.disk.platter.transactions))
        again = broker.crashed()
        assert sorted(names(again)) == sorted(prepared_on_disk(broker))
        if replies := broker.messages(2):
            assert replies[0].message.body == b'{"ok": true, "aborted": 6}' and not broker.disk.platter.transactions
    assert left == {4, 2, 0} and broker.broker.parts.prepared.count == 0


def test_who_aborts_little_does_not_wait_for_what_others_abort_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """And who aborts what is not there waits for nobody."""
    monkeypatch.setattr(prepared, "BATCH_WRITES", 2)
    broker = node()
    for name in ("a1", "a2", "b1", "b2", "b3", "c1"):
        prepare(broker, name, send(1, "a"))
    broker.auto = False
    broker.open(3, 4, 5)
    for connection, prefix in ((2, "a"), (3, "b"), (4, "c"), (5, "none")):
        broker.say(send(connection, "/admin", json.dumps({"do": "abort", "prefix": prefix}).encode(), reply_to="admin"))
    left_at = {}
    while broker.step():
        for connection in (2, 3, 4, 5):
            if broker.messages(connection):
                left_at.setdefault(connection, len(broker.disk.platter.transactions))
    assert left_at == {5: 5, 2: 4, 3: 1, 4: 0}


def test_a_name_that_is_being_let_go_of_can_be_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "BATCH_WRITES", 1)
    broker = node(auto=False)
    for name in ("p", "q", "r"):
        fill(broker, sends("a", 2), name.encode())
        broker.say(Commit(1, name.encode(), None, name))
    while broker.step():
        pass
    broker.say(send(2, "/admin", b'{"do": "abort", "prepared": ["p", "q", "r"]}', reply_to="admin"))
    broker.say(committed("r"))
    assert broker.refusal(2).code == "not-prepared"
    fill(broker, sends("b", 3))
    broker.say(Commit(1, b"t", b"again", "r"))
    while broker.step():
        assert len(prepared_on_disk(broker)) == len(set(prepared_on_disk(broker)))
    assert broker.receipts(1) == [b"again"] and prepared_on_disk(broker) == ["r"]
    assert names(broker.crashed()) == ["r"]


def test_all_whose_names_begin_so_are_aborted_and_refused_for_a_while() -> None:
    broker = node()
    for name in ("job-1-x", "job-1-y", "job-10-x", "other"):
        prepare(broker, name, send(1, "a"))
    assert broker.admin(2, do="abort", prefix="job-1-", refuse_s=10) == {"ok": True, "aborted": 2}
    assert names(broker.crashed()) == ["job-10-x", "other"]
    fill(broker, sends("a", 1), b"late")
    broker.say(Commit(1, b"late", None, "job-1-z"))
    assert broker.refusal(1).code == "aborted" and names(broker) == ["job-10-x", "other"]
    broker.open(1)
    prepare(broker, "job-1", send(1, "a"))
    prepare(broker, "job-2-x", send(1, "a"))
    broker.wait(9.999)
    fill(broker, sends("a", 1), b"later")
    broker.say(Commit(1, b"later", None, "job-1-"))
    assert broker.refusal(1).code == "aborted"
    broker.open(1)
    broker.wait(0.001)
    prepare(broker, "job-1-z", send(1, "a"))
    assert names(broker) == ["job-10-x", "other", "job-1", "job-2-x", "job-1-z"]
    assert broker.broker.parts.prepared.refused == {}


def test_a_prefix_stands_before_each_name() -> None:
    broker = node()
    for name in ("job-1", "job-2", "1", "p" + "r" * 254):
        prepare(broker, name, send(1, "a", name[:5].encode()))
    assert broker.admin(2, do="commit", prefix="job-", prepared=["2"], app="app", version=1)["messages"] == 1
    assert broker.stored("a") == [b"job-2"]
    assert broker.admin(2, do="abort", prefix="job-", prepared=["1", "2"])["aborted"] == 1
    assert broker.admin(2, do="abort", prefix="p", prepared=["r" * 254])["aborted"] == 1
    assert names(broker) == ["1"]


def test_a_later_abort_does_not_shorten_the_while_nor_does_the_clock() -> None:
    broker = node()
    broker.admin(2, do="abort", prefix="job-", refuse_s=10)
    broker.admin(2, do="abort", prefix="job-", refuse_s=1)
    broker.now_ms += 3_600_000
    broker.wait(9)
    fill(broker, sends("a", 1))
    broker.say(Commit(1, b"t", None, "job-1"))
    assert broker.refusal(1).code == "aborted"
    broker.open(1)
    broker.now_ms -= 7_200_000
    broker.wait(1)
    prepare(broker, "job-1", send(1, "a"))
    assert names(broker) == ["job-1"]


def test_without_a_while_more_is_prepared_at_once_and_a_restart_forgets_it() -> None:
    broker = node()
    prepare(broker, "job-1", send(1, "a"))
    assert broker.admin(2, do="abort", prefix="job") == {"ok": True, "aborted": 1}
    prepare(broker, "job-1", send(1, "a"))
    assert broker.admin(2, do="abort", prefix="job", refuse_s=3600)["aborted"] == 1
    again = broker.crashed()
    again.open(1)
    prepare(again, "job-1", send(1, "a"))
    assert names(again) == ["job-1"]


def test_what_is_committed_is_not_aborted_by_its_name() -> None:
    broker = node()
    prepare(broker, "job-1", *sends("a", 2))
    broker.say(committed("job-1"))
    assert broker.admin(2, do="abort", prefix="job-", refuse_s=1)["aborted"] == 0
    assert broker.stored("a") == bodies(2)


def test_of_too_many_prefixes_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "PREFIXES_MAX", 2)
    broker = node()
    for prefix in ("a", "b", "a", "c"):
        broker.admin(2, do="abort", prefix=prefix, refuse_s=60)
    assert [*broker.broker.parts.prepared.refused] == ["a", "c"]
    prepare(broker, "b", send(1, "a"))
    assert names(broker) == ["b"]


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "commit", "prepared": ["p"], "app": "a"},
        {"do": "commit", "prepared": ["p"], "version": 1},
        {"do": "commit", "prepared": ["p"], "app": "", "version": 1},
        {"do": "commit", "prepared": ["p"], "app": "a" * 256, "version": 1},
        {"do": "commit", "prepared": ["p"], "app": "\ud800", "version": 1},
        {"do": "commit", "prepared": ["p"], "app": "a", "version": -1},
        {"do": "commit", "prepared": ["p"], "app": "a", "version": 10**15},
        {"do": "commit", "prepared": ["p"], "app": "a", "version": True},
        {"do": "commit", "prepared": ["p"], "app": "a", "version": 1.0},
        {"do": "commit", "prepared": [], "app": "a", "version": 1},
        {"do": "commit", "prepared": "p", "app": "a", "version": 1},
        {"do": "commit", "prepared": [1], "app": "a", "version": 1},
        {"do": "commit", "prepared": ["p"], "app": "a", "version": 1, "force": True},
        {"do": "abort"},
        {"do": "abort", "prepared": [None]},
        {"do": "abort", "prepared": ["p" * 256]},
        {"do": "abort", "prepared": ["p"], "prefix": ""},
        {"do": "abort", "prepared": ["p"], "prefix": "p" * 255},
        {"do": "abort", "prepared": ["p"], "prefix": 1},
        {"do": "abort", "prepared": [1], "prefix": "p"},
        {"do": "commit", "prepared": ["p"], "prefix": "p" * 255, "app": "a", "version": 1},
        {"do": "abort", "prepared": ["p"], "refuse_s": 1},
        {"do": "abort", "prefix": ""},
        {"do": "abort", "prefix": "p" * 256},
        {"do": "abort", "prefix": "p", "refuse_s": -1},
        {"do": "abort", "prefix": "p", "refuse_s": 3601},
        {"do": "abort", "prefix": "p", "refuse_s": True},
        {"do": "abort", "prefix": "p", "refuse_s": 1.0},
        {"do": "prepared", "queue": "a"},
        {"do": "version"},
        {"do": "version", "app": 1},
        {"do": "version", "app": "a", "forget": 1},
    ],
)
def test_a_wrong_request_is_a_bad_request_with_a_sentence(request_: dict[str, object]) -> None:
    broker = node()
    prepare(broker, "p", send(1, "a"))
    answer = broker.admin(2, **request_)
    assert answer["code"] == "bad-request" and answer["error"].endswith(".")
    assert names(broker) == ["p"] and not broker.is_refused(2)
