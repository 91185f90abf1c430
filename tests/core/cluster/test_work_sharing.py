"""Which messages go where: local consumers first, the fullest answers, and nobody waits while there is work."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from radiator.core.routing.fanouts import Fanout
from radiator.core.turn import Turn
from radiator.model.commands import PeerMessage, Read
from radiator.model.limits import HINTS_MAX, PATH_HOPS_MAX, SHARES_PER_TURN
from radiator.model.peer import Credit, Demand, Supply, Transfer
from radiator.model.replies import SendToPeer
from radiator.model.settings import QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, header, nack, send, subscribe, unsubscribe


def with_clients(names: str, links: str | None = None, **queues: QueueSettings) -> Nodes:
    nodes = Nodes(names, links, declared(**queues))
    for name in names:
        nodes[name].open(1, 2)
    return nodes


def post(nodes: Nodes, name: str, count: int) -> None:
    nodes[name].say(*[send(1, "work", b"%s%d" % (name.encode(), number)) for number in range(count)])


def test_local_consumer_with_room_comes_first() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(subscribe(2, "work"))
    post(nodes, "a", 1)
    nodes.run()
    assert nodes["a"].bodies(2) == [b"a0"] and nodes["b"].bodies(1) == []


def test_what_local_consumers_have_no_room_for_goes_elsewhere() -> None:
    nodes = with_clients("ab")
    nodes["a"].say(subscribe(2, "work"))
    post(nodes, "a", 2)
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    assert nodes["a"].bodies(2) == [b"a0"] and nodes["b"].bodies(1) == [b"a1"]


def test_the_fullest_answers() -> None:
    nodes = with_clients("abc")
    post(nodes, "a", 3)
    post(nodes, "b", 50)
    nodes["c"].say(subscribe(1, "work"))
    nodes.run()
    assert nodes["c"].bodies(1) == [b"b0"]
    assert {(peer, name) for name, peer, word in nodes.sent(Credit) if word.queue and word.through} == {("b", "c")}


def test_the_next_head_expires_at_its_time_while_the_offer_is_on_its_way_to_the_disk() -> None:
    nodes = with_clients("ab")
    node = nodes["a"]
    post(nodes, "a", 1)
    node.say(send(1, "work", b"second", expires_ms=node.now_ms + 500))
    nodes["b"].say(subscribe(1, "work", prefetch_count=1))
    node.auto = False
    nodes.run()
    queue = node.broker.destinations.queues.all["work"]
    assert node.numbers("work")["in_doubt"] == 1 and node.wake_in_s == pytest.approx(0.5)
    node.wake()
    node.turn([])
    assert queue.ledger.expired == 1


@pytest.mark.parametrize("names, links", [("abc", "ab bc"), ("abcd", "ab bc cd"), ("abcde", "ab bc cd de")])
def test_work_comes_along_a_chain(names: str, links: str) -> None:
    nodes = with_clients(names, links)
    post(nodes, names[0], 3)
    nodes[names[-1]].say(subscribe(1, "work", prefetch_count=3))
    nodes.wait(1)
    got = nodes[names[-1]].messages(1)
    assert [one.message.body for one in got] == [b"a0", b"a1", b"a2"]
    assert header(got[0].message, b"node-path") == ",".join(names[:-1]).encode()


def test_path_is_bounded_so_that_nothing_goes_round_for_ever() -> None:
    nodes = with_clients("abcdef", "ab bc cd de ef")
    post(nodes, "a", 1)
    nodes["f"].say(subscribe(1, "work"))
    nodes.wait(1)
    assert nodes["f"].bodies(1) == []
    nodes["e"].say(subscribe(1, "work"))
    nodes.wait(1)
    assert nodes["e"].bodies(1) == [b"a0"]


def transfers(nodes: Nodes) -> int:
    return len(nodes.sent(Transfer))


def seconds_until_it_comes(nodes: Nodes, name: str, number: int) -> float:
    """How long a consumer that is connected now waits for the one job."""
    nodes[name].open(number)
    nodes[name].say(subscribe(number, "work"))
    for quarter in range(40):
        if nodes[name].messages(number):
            return quarter / 4
        nodes.wait(0.25)
    raise AssertionError(f"no consumer gets it within 10 s; it has crossed {transfers(nodes)} links")


@pytest.mark.parametrize("settings", [{}, {"redelivery_delay_ms": 100, "redelivery_delay_factor": 1}])
def test_job_whose_consumers_die_goes_on_to_the_next_however_often(settings: dict[str, int]) -> None:
    """Each consumer gets it at once: where one had it, its path begins anew."""
    nodes = with_clients("abc", work=QueueSettings(scope="cluster", **settings))  # type: ignore[arg-type]
    post(nodes, "a", 1)
    for death in range(4 * PATH_HOPS_MAX):
        name = "bca"[death % 3]
        assert seconds_until_it_comes(nodes, name, 10 + death) <= 1
        nodes[name].close(10 + death)
        nodes.run()
    assert transfers(nodes) >= 4 * PATH_HOPS_MAX - 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_jobs_that_many_drains_have_moved_come_to_a_consumer(is_restarted: bool) -> None:
    nodes = with_clients("abc")
    post(nodes, "a", 30)
    for drained in 5 * "abc":
        assert nodes[drained].admin(1, do="drain")["ok"]
        for _ in range(4):
            nodes.wait(0.25)
        assert nodes[drained].numbers("work")["messages"] == 0
        if is_restarted:
            nodes.crash(drained)
            nodes[drained].open(1)
            for other in {*"abc"} - {drained}:
                nodes.link(drained, other)
        else:
            assert nodes[drained].admin(1, do="drain", stop=True)["ok"]
        nodes.run()
    nodes["a"].open(3)
    nodes["a"].say(subscribe(3, "work", prefetch_count=100))
    for _ in range(4):  # sooner than what only rests
        nodes.wait(0.25)
    assert len(nodes["a"].bodies(3)) == 30


def moved_without_being_out(monkeypatch: pytest.MonkeyPatch, count: int) -> Nodes:
    """Jobs that have crossed as many links as they may, and lie at b: who wanted them there has gone."""
    monkeypatch.setattr("radiator.core.cluster.work_sharing.PATH_HOPS_MAX", 1)
    nodes = with_clients("abc")
    post(nodes, "a", count)
    nodes["b"].open(3)
    nodes["b"].say(subscribe(3, "work", prefetch_count=count))
    for name in "bacb":  # who has some? a has, c has none; some are wanted
        nodes.step(name)
    nodes["b"].close(3)
    for _ in range(20):
        nodes.wait(0.25)
    assert 0 < nodes["b"].numbers("work")["messages"] == transfers(nodes)
    return nodes


@pytest.mark.parametrize("count", [1, 30, 200])
def test_what_has_crossed_its_links_goes_on_to_who_starves(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    nodes = moved_without_being_out(monkeypatch, count)
    nodes["a"].admin(1, do="purge", queue="work")
    there = nodes["b"].numbers("work")["messages"]
    nodes["c"].open(3)
    nodes["c"].say(subscribe(3, "work", prefetch_count=1000))
    nodes.wait(0.25)
    assert nodes["c"].bodies(3) == [], "not at once, else it would have no rest"
    for _ in range(19):
        nodes.wait(0.25)
    assert len(nodes["c"].bodies(3)) == there


def test_what_a_node_has_kept_over_a_start_begins_its_path_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = moved_without_being_out(monkeypatch, 10)
    nodes["a"].admin(1, do="purge", queue="work")
    there = nodes["b"].numbers("work")["messages"]
    nodes.crash("b")
    nodes.link("b", "c")
    nodes["c"].open(3)
    nodes["c"].say(subscribe(3, "work", prefetch_count=1000))
    for _ in range(4):
        nodes.wait(0.25)
    assert len(nodes["c"].bodies(3)) == there


def test_who_has_starved_long_gets_it_soon_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """However seldom it asks by then."""
    monkeypatch.setattr("radiator.core.cluster.work_sharing.PATH_HOPS_MAX", 0)
    nodes = with_clients("abc")
    nodes["c"].say(subscribe(2, "work"))
    for _ in range(600):
        nodes.wait(0.5)
    post(nodes, "a", 1)
    for _ in range(20):
        nodes.wait(0.25)
    assert nodes["c"].bodies(2) == [b"a0"]


def test_nothing_is_thrown_to_and_fro_where_nobody_consumes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = moved_without_being_out(monkeypatch, 10)
    crossed = transfers(nodes)
    for _ in range(400):
        nodes.wait(0.25)
    assert transfers(nodes) == crossed


def who_want_from_each_other(names: str, links: str | None, ring: str, prefetch_count: int) -> Nodes:
    """Each node of the ring has granted the next one credit, all at once, and then its consumer has gone."""
    nodes = with_clients(names, links)
    for name in ring:
        nodes[name].open(3)
        nodes[name].say(subscribe(3, "work", prefetch_count=prefetch_count))
    nodes.run()
    for name, giver in zip(ring, ring[1:] + ring[0], strict=True):
        number = next(end[1] for end, far in nodes.ends.items() if (end[0], far[0]) == (name, giver))
        nodes[name].turn([Read(number, [PeerMessage(number, Supply("work", 1000, 1, False))])])
    nodes.run()
    for name in ring:
        share = nodes.cluster(name).shares.all["work"]
        assert share.granted == prefetch_count and share.neighbours.have_credit
        nodes[name].close(3)
    return nodes


EACH_OTHER = pytest.mark.parametrize("names, links, ring", [("abc", None, "ab"), ("abcd", "ab bc ac ad", "abc")])


@EACH_OTHER
def test_nodes_without_consumers_do_not_want_messages_for_each_other(names: str, links: str | None, ring: str) -> None:
    nodes = who_want_from_each_other(names, links, ring, 20)
    for _ in range(20):
        nodes.wait(0.25)
    post(nodes, "b", 1)
    for _ in range(40):
        nodes.wait(0.25)
    assert transfers(nodes) == 0 and nodes["b"].numbers("work")["messages"] == 1


@EACH_OTHER
def test_what_rests_goes_on_to_a_consumer_and_not_to_nodes_whose_own_have_just_left(
    names: str, links: str | None, ring: str
) -> None:
    """However many messages these had been asking for ahead."""
    nodes = who_want_from_each_other(names, links, ring, 256)
    post(nodes, "b", 1)
    nodes.run()
    assert transfers(nodes) == PATH_HOPS_MAX
    assert seconds_until_it_comes(nodes, names[-1], 10) <= 5


@pytest.mark.parametrize("way", ["dead", "moved"])
def test_dead_letters_and_what_is_moved_begin_their_path_anew(way: str) -> None:
    nodes = with_clients(
        "ab", dead=QueueSettings(scope="cluster"), work=QueueSettings(scope="cluster", dead_letter="dead")
    )
    post(nodes, "a", 1)
    nodes["b"].open(3, 4)
    nodes["b"].say(subscribe(3, "work"))
    nodes.run()
    job = nodes["b"].message(3)
    assert header(job.message, b"node-path") == b"a"
    if way == "dead":
        nodes["b"].say(nack(job, requeue=False))
    else:
        nodes["b"].close(3)
        nodes["b"].admin(1, **{"do": "move", "from": "work", "to": "dead"})
    nodes["b"].say(subscribe(4, "dead"))
    assert header(nodes["b"].message(4).message, b"node-path") is None


def test_in_a_full_mesh_asks_are_not_passed_on() -> None:
    nodes = with_clients("abcd")
    nodes["a"].say(subscribe(1, "work"))
    nodes.run()
    assert Counter(name for name, _, _ in nodes.sent(Demand)) == {"a": 3}


def test_idle_nodes_ask_ever_more_seldom() -> None:
    nodes = with_clients("abc")
    for name in "abc":
        nodes[name].say(subscribe(1, "work"))
    nodes.wait(1)
    nodes.heard.clear()
    for _ in range(1200):
        nodes.wait(0.25)
    asks = [name for name, _, _ in nodes.sent(Demand)]
    assert len(asks) <= 3 * 2 * 10  # 1, 2, 4, ... 60 s: at most ten times each in five minutes


def test_later_work_finds_those_who_asked_before() -> None:
    nodes = with_clients("abc")
    nodes["c"].say(subscribe(1, "work"))
    nodes.run()
    for name in "abab":
        post(nodes, name, 1)
        nodes.run()
        nodes["c"].say(ack(nodes["c"].message(1)))
        nodes.run()
    assert nodes["c"].numbers("work")["acked"] == 4


def test_a_link_that_comes_up_later_is_asked_too() -> None:
    nodes = with_clients("ab")
    nodes.cut("a", "b")
    post(nodes, "a", 1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes.link("a", "b")
    nodes.run()
    assert nodes["b"].bodies(1) == [b"a0"]


def test_a_long_backlog_beyond_memory_is_handed_over_in_order() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 3000)
    nodes["b"].say(subscribe(1, "work"))
    bodies = []
    for _ in range(3000):
        nodes.run()
        message = nodes["b"].message(1)
        bodies.append(message.message.body)
        nodes["b"].say(ack(message))
    assert bodies == [b"a%d" % number for number in range(3000)]
    assert nodes["a"].stored("work") == nodes["b"].stored("work") == []


def test_equal_consumers_get_equal_shares_of_a_backlog() -> None:
    nodes = with_clients("abc")
    for name in "abc":
        nodes[name].say(subscribe(2, "work"))
    nodes.run()
    post(nodes, "a", 900)
    work: Counter[str] = Counter()
    while sum(work.values()) < 900:
        # everybody takes as long for one message, and words take a part of that
        for name in "abc":
            for message in nodes[name].messages(2):
                work[name] += 1
                nodes[name].say(ack(message))
        for _ in range(4):
            nodes.step()
    assert min(work.values()) > 0.8 * 300, work


def test_full_queue_takes_no_more_than_it_may_hold() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 50)
    nodes["b"].broker.destinations.queues.all["work"].settings.max_messages = 5
    nodes["b"].say(subscribe(1, "work", prefetch_count=100))
    nodes.wait(1)
    assert nodes["b"].numbers("work")["messages"] == 5
    for message in nodes["b"].messages(1):
        nodes["b"].say(ack(message))
    nodes.wait(1)
    assert nodes["b"].numbers("work")["messages"] == 5 and nodes["b"].bodies(1) == [b"a%d" % n for n in range(5, 10)]


def test_message_of_a_fanout_keeps_its_destination() -> None:
    nodes = with_clients("ab")
    nodes.pairs = []
    for name in "ab":
        nodes[name].broker.destinations.fanouts.all["local"] = Fanout("local", ("work",))
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "/fanout/local", b"x"))
    nodes.run()
    assert nodes["b"].message(1).message.destination == "/fanout/local"


def test_drain_empties_a_node_that_clients_go_on_sending_to() -> None:
    """In whatever order words and commits cross: a Supply is overtaken by what was handed over before it."""
    for seed in range(40):
        random = Random(seed)
        nodes = Nodes("ab")
        nodes["a"].open(1)
        assert nodes["a"].admin(1, do="drain")["ok"]
        nodes.run()
        for node in nodes.at.values():
            node.auto = False
        for number in range(10):
            nodes["a"].say(send(1, "/queue/work", b"%d" % number))
            for _ in range(random.randrange(4)):
                name = random.choice("ab")
                if random.random() < 0.5:
                    nodes[name].step()
                else:
                    nodes.step(name)
        for node in nodes.at.values():
            node.auto = True
            node.turn([])
        nodes.run()
        nodes.wait(0.5)
        assert nodes["a"].stored("work") == [], seed
        assert sorted(nodes["b"].stored("work")) == [b"%d" % number for number in range(10)]


def test_drain_empties_a_node_into_the_others_whether_they_need_it_or_not() -> None:
    nodes = with_clients("abc")
    post(nodes, "a", 200)
    nodes["a"].say(send(1, "/queue/x", b"stays"))
    assert nodes["a"].admin(1, do="drain") == {"ok": True, "draining": True, "left": 200, "stays": 1}
    nodes.wait(1)
    assert nodes["a"].admin(1, do="drain") == {"ok": True, "draining": True, "left": 0, "stays": 1}
    stored = [len(nodes[name].stored("work")) for name in "bc"]
    assert sum(stored) == 200 and min(stored) > 0
    post(nodes, "a", 1)
    nodes.wait(1)
    assert nodes["a"].stored("work") == []
    assert nodes["a"].admin(1, do="drain", stop=True)["draining"] is False
    nodes["a"].say(subscribe(1, "work"))
    nodes.wait(1)
    assert len(nodes["a"].messages(1)) == 1


def test_delayed_message_stays_until_it_is_due_and_then_goes_where_it_is_wanted() -> None:
    nodes = with_clients("ab")
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work", b"late", delay_ms=5000))
    nodes.wait(1)
    assert nodes["a"].numbers("work")["delayed"] == 1 and nodes["b"].messages(1) == []
    assert nodes["a"].admin(1, do="drain") == {"ok": True, "draining": True, "left": 0, "stays": 1}
    assert nodes["a"].admin(1, do="drain", stop=True)["ok"]
    nodes.wait(5)
    assert nodes["b"].bodies(1) == [b"late"] and nodes["a"].numbers("work")["messages"] == 0


def test_draining_everybody_moves_nothing() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 3)
    for name in "ba":
        nodes[name].admin(1, do="drain")
    nodes.wait(1)
    assert nodes.sent(Transfer) == [] and [w.through for _, _, w in nodes.sent(Credit) if w.queue] == []
    assert nodes["a"].admin(1, do="drain")["left"] == 3


def test_offers_and_grants_for_queues_that_are_not_shared_here_change_nothing() -> None:
    nodes = with_clients("ab")
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    words = [
        Demand("x", ["b"]),
        Supply("x", 9, 1, False),
        Credit("x", 9),
        Demand("no/such", ["b"]),
        Credit("no/such", 1),
    ]
    nodes["a"].turn([Read(number, [PeerMessage(number, word) for word in words])])
    nodes["a"].say(send(1, "/queue/x"))
    nodes.run()
    assert nodes.sent(Transfer) == [] and nodes["a"].stored("x") == [b"x"]
    assert not nodes["a"].has("no/such")


def test_who_has_asked_once_need_not_ask_for_each_message() -> None:
    nodes = with_clients("abc")
    nodes["c"].say(subscribe(1, "work"))
    nodes.run()
    nodes.heard.clear()
    for _ in range(20):
        post(nodes, "a", 1)
        nodes.run()
        nodes["c"].say(ack(nodes["c"].message(1)))
        nodes.run()
    assert nodes.sent(Demand) == []


def test_drain_goes_on_when_there_is_room_again() -> None:
    nodes = with_clients("ab")
    nodes["b"].broker.destinations.queues.all["work"].settings.max_messages = 5
    post(nodes, "a", 8)
    nodes["a"].admin(1, do="drain")
    nodes.wait(1)
    assert nodes["a"].admin(1, do="drain")["left"] == 3
    nodes["b"].broker.destinations.queues.all["work"].settings.max_messages = None
    nodes.wait(1)
    assert nodes["a"].admin(1, do="drain")["left"] == 0


def test_end_of_drain_ends_it() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 500)
    nodes["a"].admin(1, do="drain")
    for _ in range(3):
        nodes.step()
    nodes["a"].admin(1, do="drain", stop=True)
    nodes.wait(1)
    assert 0 < len(nodes["b"].stored("work")) < 300 and len(nodes["a"].stored("work")) > 200


def test_credit_that_nobody_needs_any_more_is_taken_back() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 1)
    nodes["b"].say(subscribe(1, "work", prefetch_count=10))
    nodes.run()
    nodes["b"].say(unsubscribe(1, "work"))
    for _ in range(12):
        nodes.wait(0.25)
    post(nodes, "a", 5)
    nodes.wait(1)
    assert len(nodes["a"].stored("work")) == 5


def test_thousands_of_queues_do_not_hold_up_a_turn() -> None:
    names = [f"q{number}" for number in range(SHARES_PER_TURN * 2 + 1)]
    nodes = with_clients("ab", "", **{name: QueueSettings(scope="cluster") for name in names})
    a = nodes["a"]
    for name in names:
        a.say(subscribe(1, name))
    nodes.pairs = [("a", "b")]
    nodes.cluster("a").links.known["b"] = nodes.cluster("b").links.known["a"] = None
    nodes.link("a", "b")
    most, longest = 0, a.broker.turn

    def counted(*now: Any) -> Turn:
        nonlocal most
        turn = longest(*now)
        most = max(
            most, sum(isinstance(reply, SendToPeer) and isinstance(reply.word, Demand) for reply in turn.replies)
        )
        return turn

    a.broker.turn = counted  # type: ignore[method-assign]
    nodes.run()
    assert len(nodes.sent(Demand)) == len(names) and most == SHARES_PER_TURN


def test_ask_that_is_passed_on_does_not_mean_that_its_bearer_has_none() -> None:
    nodes = with_clients("abc", "ab bc")
    post(nodes, "b", 50)
    nodes["a"].say(subscribe(1, "work"))
    nodes["c"].say(subscribe(1, "work"))
    nodes.run()
    share = nodes.cluster("a").shares.all["work"]
    before = share.neighbours.all["b"].ready
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    nodes["a"].turn([Read(number, [PeerMessage(number, Demand("work", ["c", "b"]))])])
    assert share.neighbours.all["b"].ready == before > 0
    nodes["a"].turn([Read(number, [PeerMessage(number, Demand("work", ["b"]))])])
    assert share.neighbours.all["b"].ready == 0


def test_offer_of_who_was_granted_credit_takes_that_back_so_that_both_know_the_same() -> None:
    nodes = with_clients("ab")
    b, number = nodes["b"], next(end[1] for end in nodes.ends if end[0] == "b")
    b.say(subscribe(1, "work"))
    nodes.run()
    for _ in range(2):
        b.turn([Read(number, [PeerMessage(number, Supply("work", 5, 2, False))])])
    replies = [reply.word for reply in b.take(number) if isinstance(reply, SendToPeer)]
    assert [word.through for word in replies if isinstance(word, Credit)] == [1, 0, 1]


def test_what_is_said_while_no_message_moves_is_bounded_so_that_words_cannot_breed() -> None:
    nodes = with_clients("ab")
    b, number = nodes["b"], next(end[1] for end in nodes.ends if end[0] == "b")
    b.say(subscribe(1, "work"))
    nodes.run()

    def say(times: int) -> int:
        for _ in range(times):
            b.turn([Read(number, [PeerMessage(number, Supply("work", 5, 2, False))])])
        return len([reply for reply in b.take(number) if isinstance(reply, SendToPeer)])

    most = HINTS_MAX * 2  # it has one neighbour
    assert 0 < say(1000) <= most + 2 and say(1000) <= 1
    b.wait(1)
    assert 0 < say(1000) <= most + 2


def test_who_grants_credit_to_one_that_has_nothing_hears_so_and_does_not_wait() -> None:
    nodes = with_clients("ab")
    post(nodes, "a", 1)
    nodes["b"].say(subscribe(2, "work", ack="auto"))
    nodes.run()
    assert nodes["b"].bodies(2) == [b"a0"]
    a, number = nodes["a"], next(end[1] for end in nodes.ends if end[0] == "a")
    a.turn([Read(number, [PeerMessage(number, Credit("work", 9))])])
    assert Supply("work", 0, 1, False) in [reply.word for reply in a.take(number) if isinstance(reply, SendToPeer)]
