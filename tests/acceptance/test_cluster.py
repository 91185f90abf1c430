"""Several nodes from outside (docs/CLUSTER.md): real processes, and clients that share no code with them."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from radiator.tools.cli import main
from tests.acceptance.conftest import queues_that_do_not_add_up
from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess
from tests.nodes.cluster import SECRET, Node, Nodes, chain, mesh, soon
from tests.nodes.reroute import silence_s

OTHER_SECRET = "a secret of somebody else altogether"
HEART_BEAT_MS = 500
PATIENT_HEART_BEAT_MS = 10_000  # where no link is cut: a topic's message is lost with its link, which a stall may end
TABLES = """\
[create]
topics = true
[queue."work.#"]
scope = "cluster"
[queue."own.#"]
[topic."news.#"]
scope = "cluster"
[topic."news.own.#"]
[fanout."events"]
children = ["audit", "mail"]
scope = "cluster"
[queue."audit"]
[queue."mail"]
[queue."work.bound"]
scope = "cluster"
[exchange."ex"]
bindings = [{ key = "k", queue = "work.bound" }]
"""
QUIET_S = 0.6  # what has not crossed by then does not cross

Linked = Callable[..., Nodes]


@pytest.fixture(scope="module")
def abc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A chain: a and c are linked with b only. At the end all is well with each of them."""
    with Nodes(tmp_path_factory.mktemp("chain"), chain("abc"), TABLES, heart_beat_ms=PATIENT_HEART_BEAT_MS) as nodes:
        yield nodes
        for node in nodes.all:
            assert "Traceback" not in node.log and "link_error" not in node.log, node.log
            assert queues_that_do_not_add_up(node) == []
            assert node.stop() == 0, node.log


@pytest.fixture
def wire() -> Iterator[Callable[[Node], Wire]]:
    """`wire(node)` is a greeted connection to it."""
    opened: list[Wire] = []

    def connect(node: Node) -> Wire:
        opened.append(node.wire())
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    """`linked("ab")` is a full mesh of nodes of its own, which may be killed."""
    made: list[Nodes] = []

    def begin(names: str, tables: str = TABLES, map_size: str = "1GiB", limits: str = "") -> Nodes:
        nodes = Nodes(tmp_path, mesh(names), tables, heart_beat_ms=HEART_BEAT_MS, map_size=map_size, limits=limits)
        made.append(nodes)
        return nodes.__enter__()

    yield begin
    for nodes in made:
        nodes.close()


def is_silent(wire: Wire, timeout_s: float = QUIET_S) -> bool:
    """Whether nothing comes."""
    try:
        wire.early.append(wire.read("MESSAGE", timeout_s))
    except TimeoutError:
        return True
    return False


def wait_until_heard(publisher: Wire, subscriber: Wire, topic: str) -> None:
    """Returns once what is published there is heard here, and nothing more of it is on the way."""
    deadline_s = time.monotonic() + 10
    while is_silent(subscriber, 0.05):
        assert time.monotonic() < deadline_s, f"nobody hears of {topic}"
        publisher.send(topic, "can you hear me?")
    publisher.send(topic, "yes")
    while subscriber.message().body != b"yes":
        pass


def run(node: Node, capsys: pytest.CaptureFixture[str], line: str, is_remote: bool = True) -> tuple[int, str]:
    """`radiator LINE` at that node: exit status and what it says."""
    status = main([*line.split(), *(("--broker", node.address) if is_remote else ())])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


# ---- the distributed topic


def test_topic_is_heard_at_every_node_once_and_in_order(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    topic = f"/topic/news.{name}"
    readers = [wire(node) for node in (*abc.all, abc["c"])]
    for reader, pattern in zip(readers, (topic, "/topic/news.*", "/topic/news.#", topic), strict=True):
        reader.subscribe(pattern, ack="auto")
    for node in abc.all:
        publisher = wire(node)
        for reader in readers:
            wait_until_heard(publisher, reader, topic)
        for reader in readers:
            while not is_silent(reader, 0.2):
                reader.message()
        for number in range(50):
            publisher.send_frame("SEND", {"destination": topic, "number": f"{number}"}, f"{number}".encode())
        for reader in readers:
            frames = reader.messages(50)
            assert [frame.body.decode() for frame in frames] == [frame["number"] for frame in frames]
            assert [int(frame.body) for frame in frames] == list(range(50))
            assert frames[0]["destination"] == topic
        assert all(is_silent(reader, 0.1) for reader in readers)


def test_nobody_hears_who_has_unsubscribed(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    topic = f"/topic/news.{name}"
    reader, publisher = wire(abc["c"]), wire(abc["a"])
    reader.subscribe(topic, ack="auto")
    wait_until_heard(publisher, reader, topic)
    reader.ask("UNSUBSCRIBE", {"id": "0"})
    publisher.send(topic, "too late")
    assert is_silent(reader, 0.3)


@pytest.mark.parametrize("topic", ["chat", "news.own.a"])
def test_topic_of_scope_node_stays_at_its_node(abc: Nodes, wire: Callable[[Node], Wire], topic: str) -> None:
    here, there, publisher = wire(abc["a"]), wire(abc["b"]), wire(abc["a"])
    for reader in (here, there):
        reader.subscribe(f"/topic/{topic}", ack="auto")
    publisher.send(f"/topic/{topic}", "local")
    assert here.message().body == b"local"
    assert is_silent(there)


@pytest.mark.alone("within two heart-beats is a promise about time")
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "silence"])
def test_dead_way_is_routed_around_within_two_heart_beats(tmp_path: Path, fault: str) -> None:
    assert silence_s(tmp_path, fault, 1000) < 2.0


# ---- the distributed queue


def test_work_posted_here_is_done_there(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    queue = f"/queue/work.{name}"
    boss, worker = wire(abc["a"]), wire(abc["c"])
    worker.subscribe(queue)
    jobs = [f"job {number}" for number in range(20)]
    before_ms = time.time_ns() // 1_000_000
    for job in jobs:
        boss.send(queue, job, {"colour": "red", "node-path": "x,y"})
    done: list[Frame] = []
    for _ in jobs:
        done.append(worker.message())
        worker.ack(done[-1])
    assert sorted(frame.body.decode() for frame in done) == sorted(jobs)
    assert {(frame["node-path"], frame["colour"], frame["redelivered"]) for frame in done} == {("a,b", "red", "false")}
    assert all(before_ms <= int(frame["timestamp"]) <= time.time_ns() // 1_000_000 for frame in done)
    assert is_silent(worker, 0.2)
    for node in abc.all:
        soon(lambda node=node: node.queue(f"work.{name}")["stored"] == 0, f"{node.name} still has a job")
        assert all(peer["in_doubt"] == 0 for peer in node.peers().values())


def test_work_keeps_the_address_that_it_was_sent_to(abc: Nodes, wire: Callable[[Node], Wire]) -> None:
    """Whatever that is: and the links go on with all else."""
    boss, worker = wire(abc["a"]), wire(abc["c"])
    links = [peer["out_epoch"] for node in abc.all for peer in node.peers().values()]
    shown = {  # the queue's name is what its subscriber calls it
        "/exchange/ex/k": "/exchange/ex/k",
        "/amq/queue/work.bound": "/queue/work.bound",
        "/queue/work.bound": "/queue/work.bound",
    }
    worker.subscribe("/queue/work.bound")
    for address, destination in shown.items():
        boss.send(address, "job")
        job = worker.message()
        assert (job["destination"], job.body, job["node-path"]) == (destination, b"job", "a,b")
        worker.ack(job)
    boss.send("/exchange/ex/k", "later", {"delay": "50"})
    assert (late := worker.message())["destination"] == "/exchange/ex/k"
    worker.ack(late)
    assert [peer["out_epoch"] for node in abc.all for peer in node.peers().values()] == links, "a link was lost"


def test_queue_deleted_while_messages_come_to_it_keeps_no_node_from_starting(
    linked: Linked, wire: Callable[[Node], Wire]
) -> None:
    """What arrives then is not taken: its sender keeps it, and both start again on their stores."""
    nodes = linked("ab")
    a, b = nodes["a"], nodes["b"]
    for node in nodes.all:
        assert node.admin(do="declare", queue="rt", scope="cluster")["ok"]
    boss, worker = wire(a), wire(b)
    worker.subscribe("/queue/rt", ack="client-individual", headers={"prefetch-count": "100"})
    done: list[bytes] = []
    sent, is_over = 0, threading.Event()

    def produce() -> None:
        nonlocal sent
        while not is_over.is_set():
            boss.send("/queue/rt", f"{sent}")  # returns once it is receipted
            sent += 1

    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(200):
        message = worker.message()
        done.append(message.body)
        worker.ack(message)
    worker.close()
    soon(lambda: not b.queue("rt")["unacked"], "b has messages in flight")
    assert b.admin(do="delete", queue="rt", if_unused=False)["ok"]
    time.sleep(QUIET_S)
    is_over.set()
    producer.join()
    assert a.is_linked("b"), a.log
    for node in nodes.all:
        assert node.stop() == 0, node.log
        node.start()
    assert a.queue("rt")["stored"] > 0
    assert queues_that_do_not_add_up(a) == queues_that_do_not_add_up(b) == []


def test_local_consumer_comes_first(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    queue = f"/queue/work.{name}"
    boss, near, far = wire(abc["a"]), wire(abc["a"]), wire(abc["b"])
    for worker in (near, far):
        worker.subscribe(queue)
    time.sleep(QUIET_S)  # a knows that b is hungry
    for number in range(10):
        boss.send(queue, f"{number}")
        job = near.message()
        assert "node-path" not in job
        near.ack(job)
    assert is_silent(far)


def test_surplus_goes_to_idle_consumers_elsewhere(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    queue = f"/queue/work.{name}"
    boss, near, far = wire(abc["a"]), wire(abc["a"]), wire(abc["b"])
    for worker in (near, far):
        worker.subscribe(queue)
    boss.send(queue, "one")
    boss.send(queue, "two")  # near has one, and room for one only
    assert {near.message().body, far.message().body} == {b"one", b"two"}


def test_redelivery_is_counted_at_whichever_node_it_is(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    queue = f"/queue/work.{name}"
    boss, worker = wire(abc["a"]), wire(abc["a"])
    boss.send(queue, "hard")
    worker.subscribe(queue)
    for _ in range(2):
        worker.nack(worker.message())
    assert worker.message()["redelivery-count"] == "2"
    far = wire(abc["c"])
    far.subscribe(queue)
    worker.close()
    job = far.message()
    assert (job["redelivered"], job["redelivery-count"]) == ("true", "3")
    far.ack(job)


def test_queue_of_scope_node_stays_at_its_node(abc: Nodes, wire: Callable[[Node], Wire], name: str) -> None:
    boss, far = wire(abc["a"]), wire(abc["b"])
    far.subscribe(f"/queue/own.{name}")
    boss.send(f"/queue/own.{name}", "mine")
    assert is_silent(far)
    assert abc["a"].queue(f"own.{name}")["ready"] == 1


def test_dead_node_s_jobs_wait_for_it(linked: Linked, wire: Callable[[Node], Wire]) -> None:
    nodes = linked("ab")
    boss, worker = wire(nodes["b"]), wire(nodes["a"])
    for number in range(5):
        boss.send("/queue/work.late", f"{number}")
    nodes["b"].kill()
    worker.subscribe("/queue/work.late")
    assert is_silent(worker)
    nodes["b"].start()
    found = set()
    for _ in range(5):
        job = worker.message()
        found.add(job.body)
        worker.ack(job)
    assert found == {b"0", b"1", b"2", b"3", b"4"}


@pytest.mark.alone("who gets how much depends on who gets the processor")
@pytest.mark.slow
def test_equal_consumers_at_all_nodes_work_alike(linked: Linked) -> None:
    """None does less than 80 % of the mean while there is work, nor waits for long.

    Now and then a node waits up to a second, since it waits for one that has nothing left: it then asks anew.
    """
    jobs = 3000
    nodes = linked("abc")
    done, end = [], threading.Event()
    waits_s: list[float] = []

    def work(node: Node) -> None:
        with node.wire() as worker:
            worker.subscribe("/queue/work.equal")
            last_s = time.monotonic()
            while not end.is_set():
                if not is_silent(worker, 0.1):
                    job = worker.message()
                    time.sleep(0.005)
                    done.append(node.name)
                    waits_s.append(time.monotonic() - last_s)
                    last_s = time.monotonic()
                    worker.send_frame("ACK", {"id": job["ack"]})

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes.all]
    for thread in threads:
        thread.start()
    with nodes["a"].wire() as boss:
        for number in range(jobs):
            boss.send_frame("SEND", {"destination": "/queue/work.equal"}, f"{number}".encode())
        soon(lambda: len(done) == jobs, "not all jobs are done", 30)
    end.set()
    for thread in threads:
        thread.join()
    counts = {name: done.count(name) for name in "abc"}
    logs = "\n".join(f"{node.name}:\n{node.log}" for node in nodes.all)
    assert min(counts.values()) >= 0.8 * jobs / 3, f"{counts}, in this order: {''.join(done)}\n{logs}"
    assert max(waits_s) < 5, f"{max(waits_s)} s"


# ---- fanouts over nodes


def test_fanout_is_one_copy_for_each_child_of_each_direct_peer(abc: Nodes, wire: Callable[[Node], Wire]) -> None:
    wire(abc["b"]).send("/fanout/events", "from the middle")
    wire(abc["a"]).send("/fanout/events", "from the end")
    due = {"a": {"from the middle", "from the end"}, "b": {"from the middle", "from the end"}, "c": {"from the middle"}}
    for name, bodies in due.items():
        for child in ("audit", "mail"):
            reader = wire(abc[name])
            reader.subscribe(f"/queue/{child}", headers={"prefetch-count": "10"})
            frames = reader.messages(len(bodies))
            assert {frame.body.decode() for frame in frames} == bodies
            for frame in frames:
                reader.ack(frame)
            assert is_silent(reader, 0.3)
    for node in abc.all:
        assert all(peer["outbox"] == 0 for peer in node.peers().values())


def test_copies_wait_for_a_dead_node(linked: Linked, wire: Callable[[Node], Wire]) -> None:
    nodes = linked("ab")
    nodes["b"].kill()
    sender = wire(nodes["a"])
    for number in range(100):
        sender.send("/fanout/events", f"{number}")
    peer = nodes["a"].peers()["b"]
    assert (peer["outbox"], peer["state"]) == (100, "down")
    nodes["a"].kill()
    nodes.start(["a", "b"])
    reader = wire(nodes["b"])
    reader.subscribe("/queue/audit", headers={"prefetch-count": "200"})
    assert reader.bodies(100) == [f"{number}" for number in range(100)]
    assert is_silent(reader, 0.3)


def test_a_dead_node_stops_only_the_fanout_and_copies_for_it_can_be_dropped(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = linked("ab", map_size="256MiB", limits="block_timeout_s = 1\n")
    a = nodes["a"]
    nodes["b"].kill()
    reader = wire(a)
    for child in ("audit", "mail"):
        reader.subscribe(f"/queue/{child}", id=child, ack="auto")
    sender, sent = wire(a), 0
    while sent < 200:
        sender.send_frame("SEND", {"destination": "/fanout/events", "receipt": "r"}, b"x" * (1 << 20))
        frame = sender.read_frame()
        if frame.command == "ERROR":
            break
        sent += 1
        reader.messages(2)
    assert 30 < sent < 70 and "$outbox/b" in str(frame.body), frame
    wire(a).send("/queue/own.other", "goes on")
    peer = a.peers()["b"]
    assert peer["outbox"] == sent and peer["outbox_max_bytes"] <= 64 << 20
    assert "node b, which is not linked" in run(a, capsys, "why $outbox/b")[1]
    assert "node b, which is not linked" in run(a, capsys, "why /fanout/events")[1]
    assert run(a, capsys, "peer drop b")[0] == 2
    status, printed = run(a, capsys, "peer drop b --force")
    assert status == 0 and printed.startswith(f"{sent} copies")
    wire(a).send("/fanout/events", "missed")
    a.kill()
    a.start()
    assert run(a, capsys, f"check {a.data_dir}", is_remote=False)[0] == 0
    wire(a).send("/fanout/events", "missed too")
    assert "not kept until it is linked" in run(a, capsys, "peers")[1]
    nodes.start(["b"])
    nodes.wait_until_linked()
    wire(a).send("/fanout/events", "heard")
    far = wire(nodes["b"])
    far.subscribe("/queue/audit")
    assert far.message().body == b"heard"
    assert queues_that_do_not_add_up(a) == []


def test_names_of_outboxes_are_refused_to_clients(abc: Nodes, wire: Callable[[Node], Wire]) -> None:
    for command, headers in (("SEND", {}), ("SUBSCRIBE", {"id": "0"})):
        one = wire(abc["a"])
        one.send_frame(command, {"destination": "/queue/$outbox/b", **headers})
        assert one.refusal().get("code") == "reserved"


@pytest.mark.slow
def test_a_small_message_passes_a_large_one_on_a_slow_link_and_that_goes_on_after_a_cut(
    linked: Linked, wire: Callable[[Node], Wire]
) -> None:
    nodes = linked("ab")
    near, far = wire(nodes["a"]), wire(nodes["b"])
    for name in ("small", "large"):
        far.subscribe(f"/queue/work.{name}", id=name, headers={"prefetch-count": "9"})
        near.send(f"/queue/work.{name}", "first")
        assert far.message().body == b"first"
    nodes.network.slow("a")
    body = Random(1).randbytes(4 << 20)
    near.send("/queue/work.large", body)
    for round_ in range(2):
        began_s = time.monotonic()
        near.send("/queue/work.small", f"five{round_}")
        message = far.message(20)
        # after the cut it is asked for, offered and handed over: twice behind what the buffers hold, some 4 s each
        assert message.body == b"five%d" % round_ and time.monotonic() - began_s < 15
        if not round_:
            nodes.network.cut("a", "b")
            nodes.wait_until_linked(30)
    nodes.network.heal()
    message = far.message(30)
    assert message["subscription"] == "large" and message.body == body
    assert is_silent(far)
    assert nodes["a"].peers()["b"]["in_doubt"] == 0


# ---- operations


def test_peers_shows_links_and_routes(abc: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    status, printed = run(abc["a"], capsys, "peers")
    assert status == 0
    lines = [line.split() for line in printed.splitlines()]
    assert lines[0] == ["This", "is", "node", "a."]
    assert any(line[:2] == ["b", "up"] for line in lines)
    assert ["c", "2", "b"] in lines


def test_release_of_a_linked_node_is_refused(abc: Nodes, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(abc["a"], capsys, "peer release b --force")[0] == 1
    status, printed = run(abc["a"], capsys, "peer release nobody --force")
    assert status == 1 and "'nobody'" in printed


def be_in_doubt(nodes: Nodes, wire: Callable[[Node], Wire]) -> None:
    """Five jobs are sent to a, of which some are in doubt with b."""
    boss, worker = wire(nodes["a"]), wire(nodes["b"])
    worker.subscribe("/queue/work.doubtful", headers={"prefetch-count": "5"})
    boss.send("/queue/work.doubtful", "first")
    worker.ack(worker.message())
    soon(lambda: nodes["a"].peers()["b"]["in_doubt"] == 0, "the first is still in doubt")
    nodes.network.silence("b", "a")  # b takes what it hears, and nobody hears it say so
    for number in range(5):
        boss.send("/queue/work.doubtful", f"{number}")
    soon(lambda: nodes["a"].peers()["b"]["in_doubt"] > 0, "nothing is in doubt")


def bury(nodes: Nodes) -> None:
    """b is dead, and a has noticed; what b said last is lost."""
    nodes["b"].kill()
    soon(lambda: nodes["a"].peers()["b"]["state"] == "down", "b is not taken for dead")


def replace_store(nodes: Nodes) -> None:
    """b comes back with an empty disk."""
    bury(nodes)
    shutil.rmtree(nodes["b"].data_dir)
    nodes.network.heal()
    nodes["b"].start()


def test_release_frees_what_is_in_doubt_with_a_dead_node(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = linked("ab")
    be_in_doubt(nodes, wire)
    bury(nodes)
    doubts = nodes["a"].peers()["b"]["in_doubt"]
    near = wire(nodes["a"])
    near.subscribe("/queue/work.doubtful", headers={"prefetch-count": "9"})
    near.messages(5 - doubts)
    assert is_silent(near)  # it is given to nobody
    nodes["a"].kill()
    nodes.start(["a"])
    assert nodes["a"].peers()["b"]["in_doubt"] == doubts
    status, printed = run(nodes["a"], capsys, "peer release b")
    assert status == 2 and "may be processed twice" in printed
    status, printed = run(nodes["a"], capsys, "peer release b --force")
    assert status == 0 and printed.startswith(f"{doubts} message") and "may be processed twice" in printed
    near = wire(nodes["a"])
    near.subscribe("/queue/work.doubtful", headers={"prefetch-count": "9"})
    assert len({frame.body for frame in near.messages(5)}) == 5


def test_drain_hands_everything_over(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = linked("abc")
    boss = wire(nodes["a"])
    for number in range(2000):
        boss.send_frame("SEND", {"destination": "/queue/work.much"}, f"{number}".encode())
    boss.send("/queue/own.rest", "stays")
    status, printed = run(nodes["a"], capsys, "drain")
    assert status == 0
    assert (
        "Nothing is left to hand over" in printed and "1 message of queues of scope node, or delayed, stays" in printed
    )
    assert nodes["a"].queue("work.much")["stored"] == 0
    assert nodes["b"].queue("work.much")["stored"] + nodes["c"].queue("work.much")["stored"] == 2000
    assert run(nodes["a"], capsys, "peers")[1].startswith("This is node a, which is being drained.")
    assert run(nodes["a"], capsys, "drain --stop")[0] == 0
    worker = wire(nodes["a"])
    worker.subscribe("/queue/work.much", headers={"prefetch-count": "300"})
    assert len({*worker.bodies(300)}) == 300  # it takes in again


def test_a_broker_that_is_alone_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerProcess(tmp_path) as broker:
        for command in ("peers", "drain", "drain --stop", "peer release b --force"):
            assert main([*command.split(), "--broker", broker.address]) == 1
            printed = capsys.readouterr()
            assert printed.out == ""
            assert printed.err == "radiator: This broker has no [node] in its configuration: it is alone.\n"


# ---- system.peers


def test_system_peers_tells_who_comes_and_goes(linked: Linked, wire: Callable[[Node], Wire]) -> None:
    nodes = linked("ab")
    watcher = wire(nodes["a"])
    watcher.subscribe("/topic/system.peers", ack="auto")

    def wait_for(event: str) -> dict[str, Any]:
        while (answer := json.loads(watcher.message().body))["event"] != event:
            pass
        return dict(answer)

    nodes["b"].kill()
    assert wait_for("unlinked")["node"] == "b"
    assert wait_for("left")["node"] == "b"
    nodes["b"].start()
    assert wait_for("linked")["node"] == "b"
    assert wait_for("joined")["node"] == "b"
    assert nodes["a"].admin(do="drain")["draining"]
    assert wait_for("draining") == {"event": "draining", "node": "a", "draining": True}


def test_system_peers_is_refused_to_senders(abc: Nodes, wire: Callable[[Node], Wire]) -> None:
    one = wire(abc["a"])
    one.send_frame("SEND", {"destination": "/topic/system.peers"}, b"lies")
    assert one.refusal().get("code") == "reserved"


# ---- who may not


def is_refused(node: Node) -> bool:
    (peer,) = node.peers().values()
    return peer["state"] == "refused" and "wrong-secret" in peer["cause"]


def test_wrong_secret_is_no_link(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, mesh("ab"), TABLES, heart_beat_ms=HEART_BEAT_MS)
    text = nodes["b"].config_file.read_text().replace("../secret", "../other")
    nodes["b"].config_file.write_text(text)
    other = tmp_path / "other"
    other.touch(mode=0o600)
    other.write_text(OTHER_SECRET)
    try:
        nodes.start()
        for node in nodes.all:
            node.wait_for_log("wrong-secret")
            soon(lambda node=node: is_refused(node), "the operator is not told")
            assert OTHER_SECRET not in node.log and SECRET.strip() not in node.log
    finally:
        nodes.close()


def test_replaced_store_waits_for_the_operator_where_messages_are_in_doubt(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = linked("ab")
    be_in_doubt(nodes, wire)
    replace_store(nodes)
    nodes["a"].wait_for_log("peer_store_changed")
    assert nodes["a"].peers()["b"]["state"] == "refused"
    assert run(nodes["a"], capsys, "peer release b --force")[0] == 0
    nodes.wait_until_linked()
    worker = wire(nodes["b"])
    worker.subscribe("/queue/work.doubtful", headers={"prefetch-count": "9"})
    assert len({frame.body for frame in worker.messages(5)}) == 5


def test_replaced_store_gets_copies_again(linked: Linked, wire: Callable[[Node], Wire]) -> None:
    nodes = linked("ab")
    sender = wire(nodes["a"])
    nodes.network.silence("b", "a")
    sender.send("/fanout/events", "once")
    soon(lambda: nodes["a"].peers()["b"]["outbox"] == 1, "no copy waits")
    replace_store(nodes)
    nodes.wait_until_linked()
    reader = wire(nodes["b"])
    reader.subscribe("/queue/audit")
    assert reader.message().body == b"once"
    nodes["a"].wait_for_log("peer_store_changed")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('[queue."work.#"]', '[queue."work.#"]\nexclusive = true'), "exclusive"),
        (('[queue."work.#"]', '[queue."work.#"]\npersistent = false'), "persistent"),
        (('scope = "cluster"', 'scope = "galaxy"'), "scope"),
        (('[node]\nname = "a"', '[node]\nname = "b"'), "b"),
    ],
)
def test_a_scope_that_cannot_be_is_a_sentence(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    nodes = Nodes(tmp_path, mesh("ab"), TABLES)
    try:
        file = nodes["a"].config_file
        file.write_text(file.read_text().replace(*change))
        assert nodes["a"].start_and_fail() == 2
        assert words in nodes["a"].log and "Traceback" not in nodes["a"].log
    finally:
        nodes.close()


def test_nodes_do_not_start_on_each_others_disks_and_link_again_once_those_are_back(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = linked("abc")
    a, b = nodes["a"], nodes["b"]
    hand_over_each_way(nodes)
    assert a.stop() == b.stop() == 0
    swap_disks(a, b)
    assert a.start_and_fail() == b.start_and_fail() == 1
    assert "is the data directory of the node 'b'" in a.log and "`radiator rename" in a.log
    swap_disks(a, b)
    nodes.start("ab")
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    assert a.stop() == b.stop() == 0
    swap_disks(a, b)
    for node in (a, b):
        assert main(["rename", str(node.data_dir), node.name]) == 0, capsys.readouterr().err
    nodes.start("ab")
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    assert a.stop() == b.stop() == 0
    swap_disks(a, b)
    for node in (a, b):
        assert main(["rename", str(node.data_dir), node.name]) == 0, capsys.readouterr().err
    nodes.start("ab")
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    for node in nodes.all:
        assert "link_error" not in node.log, node.log


@pytest.mark.parametrize("is_in_doubt", [False, True])
def test_a_snapshot_of_a_disk_is_linked_again_at_the_latest_after_the_command_in_the_log(
    linked: Linked, wire: Callable[[Node], Wire], capsys: pytest.CaptureFixture[str], is_in_doubt: bool
) -> None:
    nodes = linked("ab")
    a, b = nodes["a"], nodes["b"]
    assert b.stop() == 0
    snapshot = b.directory / "snapshot"
    shutil.copytree(b.data_dir, snapshot)
    b.start()
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    if is_in_doubt:
        be_in_doubt(nodes, wire)
    bury(nodes)
    shutil.rmtree(b.data_dir)
    snapshot.rename(b.data_dir)
    nodes.network.heal()
    b.start()
    if is_in_doubt:
        assert "`radiator peer release b --force` at a" in a.wait_for_log("link_error")
        assert run(a, capsys, "peer release b --force")[0] == 0
        a.kill()
        a.start()
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    if not is_in_doubt:
        a.wait_for_log("stores_disagree")


def test_a_disk_that_was_away_is_linked_again_and_what_was_in_doubt_is_done_once(
    linked: Linked, wire: Callable[[Node], Wire]
) -> None:
    nodes = linked("ab")
    a, b = nodes["a"], nodes["b"]
    hand_over_each_way(nodes)
    be_in_doubt(nodes, wire)
    doubts = a.peers()["b"]["in_doubt"]
    a.kill()
    nodes.network.heal()
    mine = a.data_dir.rename(a.directory / "away")
    a.start()
    nodes.wait_until_linked()
    hand_over_each_way(nodes)
    # else b would be right to refuse: what it gave to the disk that goes is in doubt, as it knows that after its crash
    soon(lambda: b.peers()["a"]["in_doubt"] == 0, "what b gave is in doubt still")
    with b.wire() as one:
        one.send("/queue/mail", "batches are committed in order")
    b.kill()
    assert a.stop() == 0
    shutil.rmtree(a.data_dir)
    mine.rename(a.data_dir)
    nodes.start("ab")
    nodes.wait_until_linked()
    soon(lambda: a.peers()["b"]["in_doubt"] == 0, "it is still in doubt")
    worker = wire(b)
    worker.subscribe("/queue/work.doubtful", headers={"prefetch-count": "9"})
    assert sorted(frame.body for frame in worker.messages(5)) == [b"0", b"1", b"2", b"3", b"4"]
    assert is_silent(worker) and doubts
    assert "link_error" not in a.log + b.log and "stores_disagree" not in a.log + b.log


@pytest.mark.parametrize("fault", ["cut", "silence", "killed"])
def test_durable_subscription_at_another_node_misses_nothing(
    linked: Linked, wire: Callable[[Node], Wire], fault: str
) -> None:
    nodes = linked("ab")
    with nodes["b"].wire() as keeper:
        keeper.subscribe("/topic/news.#", "kept", headers={"durable": "true", "prefetch-count": "100"})
    sender = wire(nodes["a"])

    def is_known() -> bool:
        sender.send("/topic/news.x", "probe")
        return bool(nodes["a"].peers()["b"]["handed_over"])

    soon(is_known, "a has not heard of it")  # it does a moment behind the RECEIPT of the SUBSCRIBE
    sent = [f"{number}" for number in range(145)]
    for number, body in enumerate(sent):
        if number == 20:
            if fault == "killed":
                nodes["b"].kill()
            else:
                getattr(nodes.network, fault)("a", "b")
        sender.send("/topic/news.x", body)
    if fault == "killed":
        nodes["a"].kill()
        nodes.start()
    nodes.network.heal()
    nodes.wait_until_linked()
    soon(lambda: nodes["a"].peers()["b"]["outbox"] == 0, "copies wait")
    keeper = wire(nodes["b"])
    keeper.subscribe("/topic/news.#", "kept", headers={"durable": "true", "prefetch-count": "1000"})
    bodies = [keeper.message().body.decode()]
    while bodies[-1] != sent[-1]:
        bodies.append(keeper.message().body.decode())
    assert [body for body in bodies if body != "probe"] == sent
    assert is_silent(keeper)


def hand_over_each_way(nodes: Nodes) -> None:
    """A job of each node is done at each other one, and no node has one in doubt any more."""
    for giver, taker in permutations(nodes.all, 2):
        with giver.wire() as boss, taker.wire() as worker:
            boss.send("/queue/work.each", f"{giver.name} to {taker.name}")
            worker.subscribe("/queue/work.each")
            job = worker.message()
            worker.ack(job)
            assert job.body.decode() == f"{giver.name} to {taker.name}"
    # who stops before has it on its disk, and is not renamed then
    for node in nodes.all:
        soon(lambda node=node: not any(peer["in_doubt"] for peer in node.peers().values()), "one is still in doubt")


def swap_disks(one: Node, other: Node) -> None:
    aside = one.directory / "aside"
    one.data_dir.rename(aside)
    other.data_dir.rename(one.data_dir)
    aside.rename(other.data_dir)


@pytest.mark.parametrize("server_at", "abc")
def test_reply_of_a_server_at_another_node_reaches_who_has_asked(
    abc: Nodes, wire: Callable[[Node], Wire], server_at: str
) -> None:
    asker, server = wire(abc["a"]), wire(abc[server_at])
    queue = f"/queue/work.asked.{server_at}"
    server.subscribe(queue)
    asker.send(queue, "question", {"reply-to": "/temp-queue/answers", "correlation-id": "7"})
    request = server.message()
    server.send(request["reply-to"], "answer", {"correlation-id": request["correlation-id"], "mandatory": "true"})
    server.ack(request)
    answer = asker.message()
    assert (answer.body, answer["correlation-id"]) == (b"answer", "7")
