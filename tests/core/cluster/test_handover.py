"""Messages change their owner: the promises of the hand-over, one by one, and what a bad peer cannot do."""

import pytest

from radiator.model.commands import PeerMessage, Read, Send, Stop
from radiator.model.limits import LOG_VALUE_CHARACTERS
from radiator.model.peer import Credit, Taken, Transfer, Untaken, Welcome
from radiator.model.replies import SendToPeer
from radiator.model.settings import QueueSettings
from tests.core.cluster.nodes import Nodes, declared
from tests.core.words import ack, header, nack, send, subscribe
from tests.sim.disk import Platter


def pair() -> Nodes:
    """Two nodes; a client each, number 1."""
    nodes = Nodes("ab")
    for name in "ab":
        nodes[name].open(1)
    return nodes


def offered(count: int = 1) -> Nodes:
    """`a` has offered messages to `b`: they are in doubt, and on their way."""
    nodes = pair()
    nodes["b"].say(subscribe(1, "work", prefetch_count=count))
    nodes.run()
    for number in range(count):
        nodes["a"].say(send(1, "work", b"%d" % number))
    while not any(isinstance(reply, SendToPeer) and isinstance(reply.word, Transfer) for reply in waiting(nodes, "a")):
        assert nodes.step()
    return nodes


def waiting(nodes: Nodes, name: str) -> list[object]:
    return [reply for end in nodes.ends if end[0] == name for reply in nodes[name].inbox[end[1]]]


def state(nodes: Nodes, name: str) -> tuple[int, int, int]:
    numbers = nodes[name].numbers("work")
    return numbers["messages"], numbers["ready"], numbers["in_doubt"]


def test_message_is_given_to_an_idle_consumer_elsewhere_and_leaves_this_node() -> None:
    nodes = pair()
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work", b"one", receipt=b"r"))
    assert nodes["a"].receipts(1) == [b"r"]
    nodes.run()
    message = nodes["b"].message(1)
    assert message.message.body == b"one" and message.message.destination == "/queue/work"
    assert header(message.message, b"node-path") == b"a"
    assert state(nodes, "a") == (0, 0, 0) and nodes["a"].numbers("work")["acked"] == 1
    nodes["b"].say(ack(message))
    assert nodes["b"].stored("work") == nodes["a"].stored("work") == []
    assert not nodes["a"].disk.platter.doubts


@pytest.mark.durability("D15")
def test_doubt_is_on_the_disk_before_the_message_is_said() -> None:
    nodes = pair()
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    a = nodes["a"]
    a.auto = False
    a.say(send(1, "work"))
    while not any(isinstance(reply, SendToPeer) and isinstance(reply.word, Transfer) for reply in waiting(nodes, "a")):
        if a.broker.cluster is not None and a.broker.cluster.peers["b"].doubts:
            break
        a.step() or nodes.step()
    assert not any(isinstance(reply, SendToPeer) and isinstance(reply.word, Transfer) for reply in waiting(nodes, "a"))
    assert not a.disk.platter.doubts
    a.seal()
    a.commit()
    assert list(a.disk.platter.doubts) == [("b", 1)]
    assert any(isinstance(reply, SendToPeer) and isinstance(reply.word, Transfer) for reply in waiting(nodes, "a"))


@pytest.mark.durability("D15")
def test_message_leaves_only_by_taken_and_with_its_doubt() -> None:
    nodes = offered()
    assert state(nodes, "a") == (1, 0, 1) and nodes["a"].stored("work") == [b"0"]
    nodes.run()
    assert state(nodes, "a") == (0, 0, 0) and not nodes["a"].disk.platter.doubts


@pytest.mark.durability("D17")
@pytest.mark.parametrize("is_crash", [False, True])
def test_what_is_in_doubt_is_given_to_nobody_while_the_link_is_down(is_crash: bool) -> None:
    nodes = offered()
    if is_crash:
        nodes.crash("a")
        nodes["a"].open(1)
    else:
        nodes.cut("a", "b")
    nodes["a"].say(subscribe(1, "work"))
    assert nodes["a"].messages(1) == []
    assert state(nodes, "a") == (1, 0, 1)


@pytest.mark.durability("D17")
@pytest.mark.parametrize("is_crash", [False, True])
def test_what_was_not_taken_is_ready_again_when_the_link_is_back(is_crash: bool) -> None:
    nodes = offered()
    nodes["b"].close(1)
    if is_crash:
        nodes.crash("a")
        nodes["a"].open(1)
    else:
        nodes.cut("a", "b")
    nodes["a"].say(subscribe(1, "work"))
    nodes.link("b", "a")
    nodes.run()
    assert nodes["a"].message(1).message.body == b"0"
    assert state(nodes, "a")[2] == 0 and not nodes["a"].disk.platter.doubts
    assert nodes["b"].stored("work") == []


@pytest.mark.durability("D18")
@pytest.mark.parametrize("crashed", ["", "a", "b", "ab"])
def test_what_was_taken_is_gone_here_when_the_link_is_back_though_its_answer_was_lost(crashed: str) -> None:
    nodes = offered(3)
    nodes.step(only="a")
    assert nodes["b"].stored("work") == [b"0", b"1", b"2"] and state(nodes, "a") == (3, 0, 3)
    nodes.cut("a", "b")
    for name in crashed:
        nodes.crash(name)
    nodes.link("a", "b")
    nodes.run()
    nodes["a"].open(2)
    nodes["a"].say(subscribe(2, "work", prefetch_count=9))
    assert nodes["a"].bodies(2) == [] and nodes["a"].stored("work") == []
    assert nodes["b"].stored("work") == [b"0", b"1", b"2"]


@pytest.mark.durability("D18")
def test_message_and_its_sequence_are_one_batch_at_the_receiver() -> None:
    nodes = offered()
    b = nodes["b"]
    b.auto = False
    nodes.step()
    assert b.stored("work") == [] and b.disk.platter.peers["a"].in_last == 0
    b.seal()
    b.commit()
    assert b.stored("work") == [b"0"] and b.disk.platter.peers["a"].in_last == 1


@pytest.mark.durability("D16")
def test_what_an_earlier_connection_still_brings_is_not_heard() -> None:
    nodes = offered()
    late = [reply.word for reply in waiting(nodes, "a") if isinstance(reply, SendToPeer)]
    old = next(far for end, far in nodes.ends.items() if end[0] == "a")
    nodes.cut_end(next(end for end in nodes.ends if end[0] == "a"))
    nodes["a"].say(subscribe(1, "work"))
    nodes.link("a", "b")  # b learns of the new link before it has read the old one's last bytes
    nodes["b"].turn([Read(old[1], [PeerMessage(old[1], word) for word in late])])
    nodes.run()
    assert nodes["a"].message(1).message.body == b"0"
    assert nodes["b"].stored("work") == []


@pytest.mark.durability("D16")
def test_epoch_is_on_the_disk_before_it_is_said_and_never_repeats() -> None:
    nodes = pair()
    epochs = [nodes["a"].disk.platter.peers["b"].out_epoch]
    for _ in range(3):
        nodes.crash("a")
        nodes.link("a", "b")
        nodes.run()
        epochs.append(nodes["a"].disk.platter.peers["b"].out_epoch)
    assert epochs == [1, 2, 3, 4]


@pytest.mark.parametrize("last", [2, 2**62])
def test_a_peer_that_has_more_than_it_was_offered_is_cut_off_and_nothing_is_deleted(last: int) -> None:
    nodes = offered()
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    nodes["a"].turn([Read(number, [PeerMessage(number, Taken(last))])])
    assert nodes["a"].refusal(number).code == "link-error"
    assert nodes["a"].stored("work") == [b"0"] and state(nodes, "a") == (1, 0, 1)
    assert [note.event for note in nodes["a"].notes if note.level == "error"] == ["link_error"]


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 2},
        {"sequence": 0},
        {"epoch": 9},
        {"destination": "/queue/local"},
        {"destination": "/fanout/none"},
        {"destination": "/exchange/amq.direct/k"},
        {"destination": "nonsense"},
    ],
)
def test_a_message_that_may_not_come_is_refused_and_nothing_is_stored(change: dict[str, object]) -> None:
    nodes = offered()
    a_end, b_end = next((end, far) for end, far in nodes.ends.items() if end[0] == "a")
    (word,) = [r.word for r in nodes["a"].take(a_end[1]) if isinstance(r, SendToPeer) and isinstance(r.word, Transfer)]
    for name, value in change.items():
        setattr(word, name, value)
    nodes["b"].turn([Read(b_end[1], [PeerMessage(b_end[1], word)])])
    assert nodes["b"].refusal(b_end[1]).code == "link-error"
    assert not nodes["b"].disk.platter.messages


def test_second_welcome_and_taken_before_welcome_end_the_link() -> None:
    for words in ([Welcome(1, 0)], [Welcome(7, 0)]):
        nodes = pair()
        number = next(end[1] for end in nodes.ends if end[0] == "a")
        nodes["a"].turn([Read(number, [PeerMessage(number, word) for word in words])])
        assert nodes["a"].refusal(number).code == "link-error"


def test_redeliveries_expiry_and_time_of_acceptance_come_along() -> None:
    nodes = pair()
    a, b = nodes["a"], nodes["b"]
    a.say(send(1, "work", b"x", expiration_ms=60_000), subscribe(1, "work"))
    accepted_ms = a.now_ms
    a.say(nack(a.message(1)))
    a.close(1)
    b.say(subscribe(1, "work"))
    nodes.wait(1)
    message = b.message(1)
    assert (message.redelivered, message.redeliveries) == (True, 2)
    assert message.message.accepted_ms == accepted_ms and message.message.expires_ms == accepted_ms + 60_000
    again = b.crashed()
    again.open(1)
    again.say(subscribe(1, "work"))
    assert again.message(1).redeliveries == 2


def test_dead_letters_and_bounds_of_the_receiver_hold_for_what_was_handed_over() -> None:
    nodes = Nodes("ab", declarations=declared(work=QueueSettings(scope="cluster", dead_letter="x", max_redeliveries=0)))
    nodes["a"].open(1)
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work", b"bad"))
    nodes.run()
    nodes["b"].say(nack(nodes["b"].message(1)))
    assert nodes["b"].stored("x") == [b"bad"] and nodes["a"].stored("x") == []


def test_release_frees_what_is_in_doubt_and_a_late_return_deletes_nothing() -> None:
    nodes = offered()
    nodes.step(only="a")
    nodes.cut("a", "b")
    a = nodes["a"]
    assert a.admin(1, do="peer-release", peer="b")["code"] == "bad-request"
    assert a.admin(1, do="peer-release", peer="nobody", force=True)["code"] == "unknown-node"
    assert a.admin(1, do="peer-release", peer="b", force=True) == {"ok": True, "released": 1}
    assert state(nodes, "a") == (1, 1, 0)
    nodes.link("a", "b")
    nodes.run()
    assert a.stored("work") == [b"0"] or nodes["b"].stored("work") == [b"0", b"0"]
    assert a.admin(1, do="peer-release", peer="b", force=True)["code"] == "linked"


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("restart", ["", "clean", "crash"])
def test_what_is_released_is_redelivered_since_somebody_may_have_had_it(restart: str, is_stopped: bool) -> None:
    nodes = pair()
    a = nodes["a"]
    a.say(send(1, "work", b"back"), subscribe(1, "work", prefetch_count=1))
    a.close(1)
    a.open(1)
    a.say(send(1, "work", b"new"))
    nodes["b"].say(subscribe(1, "work", prefetch_count=2))
    while len(nodes.cluster("a").peers["b"].doubts) < 2:
        assert nodes.step()
    if restart == "clean":
        a.turn([Stop()])
        nodes.cut("a", "b")
        nodes.start("a", a.disk.platter)
    elif restart:
        nodes.crash("a")
    else:
        nodes.cut("a", "b")
    a = nodes["a"]
    if restart:
        a.open(1)
    assert a.admin(1, do="peer-release", peer="b", force=True)["released"] == 2
    if is_stopped:
        a.turn([Stop()])
        a = a.again_on(a.disk.platter)
        a.open(1)
    a.say(subscribe(1, "work", prefetch_count=5))
    given = [(reply.message.body, reply.redelivered, reply.redeliveries) for reply in a.messages(1)]
    assert given == [(b"back", True, 1), (b"new", True, 0)]


def test_what_is_released_while_it_is_read_back_is_redelivered_too() -> None:
    nodes = offered()
    a = nodes["a"]
    a.turn([Stop()])
    nodes.cut("a", "b")
    nodes.start("a", a.disk.platter)
    a = nodes["a"]
    a.open(1, 2)
    a.auto = False
    a.say(subscribe(1, "work"))
    a.say(Send(2, "/admin", b"", 2, b'{"do": "peer-release", "peer": "b", "force": true}', reply_to="admin"))
    assert a.read_requests and a.disk.platter.doubts
    while a.step():
        pass
    assert a.message(1).redelivered


def test_what_is_released_stays_redelivered_at_the_node_that_gets_it_then() -> None:
    nodes = Nodes("abc")
    nodes["a"].open(1)
    nodes["b"].open(1)
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    nodes["a"].say(send(1, "work"))
    while not nodes.cluster("a").peers["b"].doubts:
        assert nodes.step()
    nodes.cut("a", "b")
    nodes.cut("b", "c")
    nodes["a"].admin(1, do="peer-release", peer="b", force=True)
    nodes["c"].open(1)
    nodes["c"].say(subscribe(1, "work"))
    nodes.run()
    assert nodes["c"].message(1).redelivered


def test_copies_that_are_sent_again_are_redelivered() -> None:
    nodes = pair()
    a = nodes["a"]
    a.say(send(1, "/fanout/events", b"copy"))
    while not nodes.cluster("a").peers["b"].doubts:
        assert nodes.step()
    nodes.cut("a", "b")
    a.admin(1, do="peer-release", peer="b", force=True)
    nodes.link("a", "b")
    nodes.run()
    nodes["b"].say(subscribe(1, "x"))
    assert nodes["b"].message(1).redelivered


def test_clean_stop_hands_over_nothing_more_and_leaves_doubts() -> None:
    nodes = offered(2)
    a = nodes["a"]
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    a.turn([Read(number, [PeerMessage(number, Credit("work", 100))])])
    a.auto = False
    a.say(*[send(1, "work", b"more") for _ in range(3)])
    a.turn([Stop()])
    while a.step():
        pass
    assert a.stopped and a.disk.platter.is_clean
    assert len(a.disk.platter.doubts) == 2 and len(a.stored("work")) == 5
    again = a.again_on(a.disk.platter)
    assert again.numbers("work")["in_doubt"] == 2 and again.numbers("work")["ready"] == 3


def test_who_waits_for_a_full_batch_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radiator.core.cluster.handover.BATCH_BYTES", 100)
    queues = [f"w{number}" for number in range(8)]
    nodes = Nodes("ab", declarations=declared(**{queue: QueueSettings(scope="cluster") for queue in queues}))
    a = nodes["a"]
    a.open(1)
    for queue in queues:
        a.say(*[send(1, queue) for _ in range(50)])
    number = next(end[1] for end in nodes.ends if end[0] == "a")
    a.auto = False
    a.turn([Read(number, [PeerMessage(number, Credit(queue, 50)) for queue in queues])])
    waiting = 0
    while a.step():
        waiting = max(waiting, len(a.broker.context.open.then))
    assert len(a.disk.platter.doubts) == 64 and waiting <= 10


def test_an_older_copy_of_a_store_is_linked_and_told_of_while_nothing_is_in_doubt() -> None:
    nodes = pair()
    older = nodes["b"].disk.platter.copy()
    for _ in range(20):
        nodes.cut("a", "b")
        nodes.link("a", "b")
    nodes["b"].say(subscribe(1, "work"))
    nodes["a"].say(send(1, "work"))
    nodes.run()
    nodes["b"].say(ack(nodes["b"].message(1)))
    nodes["b"].close(1)
    nodes["b"].open(1)
    nodes["a"].say(subscribe(1, "work"))
    nodes["b"].say(send(1, "work"), send(1, "work"))
    nodes.run()
    nodes["a"].close(1)
    nodes["a"].open(1)
    nodes.cut("a", "b")
    nodes.start("b", older)
    tries = link_again(nodes)
    assert tries <= 6 and nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up"
    assert "b no longer knows that it took messages 1 to " in disagreement(nodes, "a")
    assert "which b does not know to have handed over" in disagreement(nodes, "b")
    assert_handed_over_both_ways(nodes)


@pytest.mark.parametrize("restarted", ["", "a"])
def test_what_is_in_doubt_with_an_older_copy_waits_for_one_command_and_that_lasts(restarted: str) -> None:
    nodes = pair()
    older = nodes["b"].disk.platter.copy()
    nodes["b"].say(subscribe(1, "work", prefetch_count=3))
    nodes.run()
    nodes["a"].say(send(1, "work", b"0"))
    nodes.run()
    nodes["a"].say(send(1, "work", b"1"))
    while not nodes.cluster("a").peers["b"].doubts:
        assert nodes.step()
    nodes.cut("a", "b")
    nodes.start("b", older)
    link_again(nodes)
    (broken, *_) = (note.fields for note in nodes["a"].notes if note.event == "link_error")
    assert "`radiator peer release b --force` at a;" in str(broken["advice"])
    assert all(len(str(text)) <= LOG_VALUE_CHARACTERS for text in broken.values())
    assert nodes.cluster("a").peers["b"].state == "refused" and nodes["a"].stored("work") == [b"1"]
    assert nodes["a"].admin(1, do="peer-release", peer="b", force=True) == {"ok": True, "released": 1}
    if restarted:
        nodes.crash("a")
        nodes["a"].open(1)
    link_again(nodes)
    nodes.cut("a", "b")
    nodes.crash("b")
    nodes["b"].open(1)
    link_again(nodes)
    assert nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up"
    assert_handed_over_both_ways(nodes)


def test_stores_that_were_swapped_and_swapped_back_link_again() -> None:
    nodes = pair()
    assert_handed_over_both_ways(nodes)
    mine = nodes["b"].disk.platter
    for platter in (Platter(store_id="x" * 16), mine):
        nodes.cut("a", "b")
        nodes.start("b", platter)
        nodes["b"].open(1)
        link_again(nodes)
        assert nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up"
        assert_handed_over_both_ways(nodes)
    assert "link_error" not in [note.event for name in "ab" for note in nodes[name].notes]


def link_again(nodes: Nodes) -> int:
    """As the dialler does, until there is a link, or it is refused for ever; how many tries it took."""
    tries = 0
    while tries < 9:
        tries += 1
        nodes.link("a", "b")
        nodes.run()
        if nodes.cluster("a").peers["b"].state == nodes.cluster("b").peers["a"].state == "up":
            break
    return tries


def disagreement(nodes: Nodes, name: str) -> str:
    (noted,) = (note for note in nodes[name].notes if note.event == "stores_disagree")
    return str(noted.fields["sentence"])


def assert_handed_over_both_ways(nodes: Nodes) -> None:
    for giver, taker in ("ab", "ba"):
        for name in giver, taker:
            nodes[name].open(7)
        nodes[taker].say(subscribe(7, "work", prefetch_count=9))
        nodes.run()
        nodes[giver].say(send(7, "work", b"to " + taker.encode()))
        nodes.run()
        given = nodes[taker].messages(7)
        assert b"to " + taker.encode() in [reply.message.body for reply in given]
        nodes[taker].say(*map(ack, given))
        for name in giver, taker:
            nodes[name].close(7)
            nodes[name].inbox.pop(7)


# ---- a queue that is gone


def declare(nodes: Nodes, name: str, **settings: object) -> None:
    answer = nodes[name].admin(1, do="declare", queue="rt", scope="cluster", **settings)
    assert answer["ok"], answer


def on_their_way(count: int, credit: int = 0) -> Nodes:
    """A queue `rt` that was declared at run time: `a` has said so many messages of it, which `b` has not heard."""
    nodes = pair()
    for name in "ab":
        declare(nodes, name)
    nodes["b"].say(subscribe(1, "rt", prefetch_count=credit or count))
    nodes.run()
    for number in range(count):
        nodes["a"].say(send(1, "rt", b"%d" % number, receipt=b"%d" % number))
    nodes.step("a")  # it has some
    nodes.step("b")  # which are wanted
    assert sum(isinstance(r, SendToPeer) and isinstance(r.word, Transfer) for r in waiting(nodes, "a")) == count
    return nodes


def assert_they_start_again(nodes: Nodes) -> None:
    for name in "ab":
        nodes[name].crashed()


def test_what_comes_for_a_deleted_queue_is_not_taken_and_stays_at_its_sender() -> None:
    nodes = on_their_way(5)
    nodes["a"].say(send(1, "work", b"other"))
    assert nodes["b"].admin(1, do="delete", queue="rt", if_unused=False)["ok"]
    nodes.run()
    assert nodes["a"].stored("rt") == [b"0", b"1", b"2", b"3", b"4"] and not nodes["b"].has("rt")
    numbers = nodes["a"].numbers("rt")
    assert (numbers["ready"], numbers["in_doubt"]) == (5, 0)
    assert not nodes["a"].disk.platter.doubts and not nodes["b"].disk.platter.messages
    assert len(nodes.sent(Untaken)) == 1
    assert {peer["state"] for peer in nodes.cluster("a").figures.all() + nodes.cluster("b").figures.all()} == {"up"}
    assert_they_start_again(nodes)
    nodes.wait(60)
    assert len(nodes.sent(Untaken)) == 1, "nothing is tried again as long as nobody asks for it"
    nodes["b"].say(subscribe(1, "work"))
    nodes.run()
    assert nodes["b"].message(1).message.body == b"other"


def test_what_was_not_taken_comes_when_the_queue_is_there_again() -> None:
    nodes = on_their_way(5)
    nodes["a"].turn([Read(1, [send(1, "rt", b"%d" % number) for number in range(5, 300)])])
    for _ in range(3):
        assert nodes["b"].admin(1, do="delete", queue="rt", if_unused=False)["ok"]
        nodes["b"].say(send(1, "rt", b"of a node alone"))  # another queue of that name
        nodes.run()
        assert nodes["b"].admin(1, do="delete", queue="rt", if_unused=False)["ok"]
        declare(nodes, "b")
        nodes["b"].open(2)
        nodes["b"].say(subscribe(2, "rt", prefetch_count=7))
        for _ in range(3):
            nodes.step()
        nodes["b"].close(2)
        while nodes["b"].numbers("rt")["unacked"]:
            nodes.step()
    nodes["b"].open(3)
    nodes["b"].say(subscribe(3, "rt", prefetch_count=50))
    came: list[bytes] = []
    for _ in range(100):
        nodes.wait(0.3)
        for deliver in nodes["b"].messages(3):
            came.append(deliver.message.body)
            nodes["b"].say(ack(deliver))
    left = nodes["a"].numbers("rt")["messages"] + nodes["b"].numbers("rt")["messages"]
    assert left == 0 and len(came) == len({*came})
    assert_they_start_again(nodes)


def test_a_sender_that_hears_untaken_counts_what_it_has_not_said_yet() -> None:
    """Both ends go on counting alike, so credit that is granted later is neither more nor less."""
    nodes = on_their_way(5, credit=9)
    a = nodes["a"]
    here, there = nodes.cluster("a").peers["b"].link, nodes.cluster("b").peers["a"].link
    assert here is not None and there is not None
    a.auto = False
    a.say(send(1, "rt", b"5"))
    a.seal()
    a.commit()
    assert here.given["rt"] == 6 and nodes.cluster("a").peers["b"].out_sent == 5, "in doubt, and not said"
    assert nodes["b"].admin(1, do="delete", queue="rt", if_unused=False)["ok"]
    nodes.step("a")
    nodes.step("b")
    assert here.given["rt"] == there.arrived["rt"] == 5
    a.auto = True
    a.turn([])
    nodes.run()
    nodes.wait(1)
    assert a.numbers("rt")["ready"] == 6 and len(nodes.sent(Untaken)) == 1
    assert nodes.cluster("a").peers["b"].is_welcome and nodes.cluster("a").peers["b"].out_epoch == 2


def test_untaken_of_another_epoch_ends_the_link() -> None:
    for epoch in (0, 2, 7):
        nodes = pair()
        number = next(end[1] for end in nodes.ends if end[0] == "a")
        nodes["a"].turn([Read(number, [PeerMessage(number, Untaken(epoch, "work"))])])
        assert nodes["a"].refusal(number).code == "link-error"
