"""A connection that is lost and comes again: what is said again, what is not, and who is told."""

import logging
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from radiator.client import Client, ConnectionLost, Message, NoAnswer, Reconnect, TransactionLost
from radiator.model.errors import Refusal
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.client.conftest import CONFIG
from tests.client.peer import CONNECTED, Script, greet, read_frame, read_until_closed
from tests.client.proxy import Proxy
from tests.ports import free_port

SOON = Reconnect(first_s=0.01, most_s=0.1, timeout_s=20)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    one = Client(proxy.address, answer_timeout_s=15, reconnect=SOON)
    yield one
    one.abandon()


@pytest.fixture
def direct(broker: BrokerProcess) -> Iterator[Client]:
    """A client that no cut reaches."""
    with Client(broker.address) as one:
        yield one


@pytest.fixture
def beside() -> Iterator[Callable[..., "Future[object]"]]:
    """Calls something in a thread of its own."""
    with ThreadPoolExecutor(8) as executor:
        yield executor.submit


def accepted(client: Client, queue: str) -> int:
    queues = client.admin({"do": "stats"})["queues"]
    return int(queues[queue]["accepted"]) if queue in queues else 0


def wait_until_accepted(client: Client, queue: str, count: int) -> None:
    end_s = time.monotonic() + 10
    while accepted(client, queue) < count:
        assert time.monotonic() < end_s, f"{queue} has only {accepted(client, queue)} of {count}"


def received(client: Client, timeout_s: float = 10) -> Message:
    message = client.receive(timeout_s)
    assert message is not None
    return message


# ---- what is sent


@pytest.mark.parametrize(("queue", "dedup", "copies"), [("twice", False, 2), ("once.exact", True, 1)])
def test_send_without_receipt_is_sent_again(
    proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"], queue: str, dedup: bool, copies: int
) -> None:
    with Client(proxy.address, reconnect=SOON, dedup=dedup) as client:
        proxy.mute()
        sending = beside(client.send, f"/queue/{queue}", "x")
        wait_until_accepted(direct, queue, 1)
        assert not sending.done()
        proxy.cut()
        sending.result(10)
        assert (accepted(direct, queue), client.connections) == (copies, 2)


def test_sends_that_nobody_awaits_are_sent_again_in_order(proxy: Proxy, direct: Client) -> None:
    with Client(proxy.address, reconnect=SOON, dedup=True) as client:
        proxy.mute()
        for number in range(50):
            client.send("/queue/once.order", str(number), confirm=False)
        wait_until_accepted(direct, "once.order", 50)
        proxy.cut()
        for number in range(50, 60):
            client.send("/queue/once.order", str(number), confirm=False)
        client.flush()
    direct.subscribe("/queue/once.order")
    assert [received(direct).body for _ in range(60)] == [b"%d" % number for number in range(60)]
    assert direct.receive(0.05) is None


@pytest.mark.parametrize("is_awaited", [True, False])
def test_dedup_does_not_send_again_to_another_store(
    proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"], tmp_path: Path, is_awaited: bool
) -> None:
    with (
        BrokerProcess(tmp_path, CONFIG) as other,
        Client(other.address) as beyond,
        Client([proxy.address, other.address], reconnect=SOON, dedup=True) as client,
    ):
        proxy.mute()
        queue = f"once.at-one-node.{is_awaited}"
        sending = beside(client.send, f"/queue/{queue}", "x", confirm=is_awaited)
        wait_until_accepted(direct, queue, 1)
        proxy.refuse(True)
        proxy.cut()
        with pytest.raises(ConnectionLost, match="another store: it may or may not have happened"):
            sending.result(10)
            client.flush()
        client.send(f"/queue/{queue}", "y")
        assert accepted(direct, queue) == accepted(beyond, queue) == 1


def test_dedup_leaves_ids_of_the_application_alone(direct: Client, broker: BrokerProcess) -> None:
    with Client(broker.address, dedup=True) as client:
        for _ in range(2):
            client.send("/queue/once.named", "x", {"dedup-id": "mine"})
        for _ in range(2):
            client.send("/queue/once.unnamed", "x")
        with Client(broker.address, dedup=True) as other:
            other.send("/queue/once.unnamed", "x")
    assert (accepted(direct, "once.named"), accepted(direct, "once.unnamed")) == (1, 3)


def test_send_is_not_sent_again_where_the_caller_says_no(
    proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"]
) -> None:
    policy = Reconnect(first_s=0.01, most_s=0.1, resend=False)
    with Client(proxy.address, reconnect=policy) as client:
        proxy.mute()
        sending = beside(client.send, "/queue/not-again", "x")
        wait_until_accepted(direct, "not-again", 1)
        proxy.cut()
        with pytest.raises(ConnectionLost, match="may or may not have happened"):
            sending.result(10)
        client.send("/queue/not-again", "y")
        proxy.mute()
        client.send("/queue/not-again", "z", confirm=False)
        wait_until_accepted(direct, "not-again", 3)
        proxy.cut()
        with pytest.raises(ConnectionLost, match="may or may not have happened"):
            client.flush()
        client.flush()
        assert accepted(direct, "not-again") == 3


def test_refused_send_is_raised_and_the_others_are_sent_again(client: Client, direct: Client) -> None:
    client.send("/queue/small.refused", "fits")
    with pytest.raises(Refusal) as refused:
        client.send("/queue/small.refused", "does not")
    assert refused.value.code == "queue-full"
    client.send("/queue/others", "one")
    client.send("/queue/small.refused", "nor this", confirm=False)
    with pytest.raises(Refusal):
        client.flush()
    client.send("/queue/others", "two")
    assert (client.unconfirmed, accepted(direct, "small.refused"), accepted(direct, "others")) == (0, 1, 2)


def test_request_that_lost_its_connection_raises(
    client: Client, proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"]
) -> None:
    direct.subscribe("/queue/memory.asked")
    asking = beside(client.request, "/queue/memory.asked", "?", 30)
    received(direct)
    proxy.cut()
    with pytest.raises(ConnectionLost, match="may or may not be carried out"):
        asking.result(10)
    assert client.admin({"do": "queues"})["ok"]


def test_request_that_is_refused_raises_that(client: Client) -> None:
    with pytest.raises(Refusal) as refused:
        client.request("/topic/nobody", "?", 10, {"mandatory": "true"})
    assert refused.value.code == "no-subscriber"
    assert client.admin({"do": "queues"})["ok"]


# ---- what is received


def test_subscription_is_made_again_with_its_headers(client: Client, proxy: Proxy, direct: Client) -> None:
    client.subscribe(
        "/queue/again", subscription="mine", ack="client-individual", prefetch=3, headers={"exclusive": "true"}
    )
    proxy.cut()
    direct.send_many("/queue/again", ["1", "2", "3", "4"])
    messages = [received(client) for _ in range(3)]
    assert [message.subscription for message in messages] == ["mine"] * 3
    assert client.receive(0.05) is None, "prefetch-count was not sent again"
    with pytest.raises(Refusal, match="exclusive|only consumer"):
        direct.subscribe("/queue/again")


def test_ended_subscription_is_not_made_again(client: Client, proxy: Proxy, direct: Client) -> None:
    client.unsubscribe(client.subscribe("/queue/ended"))
    proxy.cut()
    client.send("/queue/ended", "x")
    assert client.receive(0.05) is None


def test_ack_of_a_lost_connection_is_dropped_and_the_message_comes_again(client: Client, proxy: Proxy) -> None:
    client.send("/queue/acked-late", "x")
    client.subscribe("/queue/acked-late", ack="client-individual")
    old = received(client)
    proxy.cut()
    new = received(client)
    assert (new.message_id, new.headers["redelivered"]) == (old.message_id, "true")
    assert [client.ack(old), client.nack(old), client.ack(old, confirm=False), client.ack(old, confirm=None)] == [
        False
    ] * 4
    assert client.ack(new)
    assert client.receive(0.05) is None
    assert client.connections == 2


def test_ack_whose_receipt_was_lost_says_so(
    client: Client, proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"]
) -> None:
    client.send("/queue/acked-in-doubt", "x")
    client.subscribe("/queue/acked-in-doubt", ack="client-individual")
    message = received(client)
    proxy.mute()
    acking = beside(client.ack, message)
    end_s = time.monotonic() + 10
    while direct.admin({"do": "stats"})["queues"]["acked-in-doubt"]["acked"] == 0:
        assert time.monotonic() < end_s
    proxy.cut()
    assert acking.result(10) is False


def test_what_nobody_has_received_is_not_received_twice(client: Client, proxy: Proxy) -> None:
    client.subscribe("/queue/unseen", ack="client-individual", prefetch=5)
    client.subscribe("/topic/unseen")
    for number in range(5):
        client.send("/queue/unseen", str(number))
    client.send("/topic/unseen", "kept: it will not come again")
    while client.waiting < 6:
        client.admin({"do": "queues"})
    proxy.cut()
    client.admin({"do": "queues"})
    bodies = Counter(received(client).body for _ in range(6))
    assert bodies == Counter([b"0", b"1", b"2", b"3", b"4", b"kept: it will not come again"])
    assert client.receive(0.05) is None


def test_receive_is_in_time_while_there_is_no_connection(client: Client, proxy: Proxy) -> None:
    client.subscribe("/queue/in-time")
    proxy.refuse(True)
    proxy.cut()
    began_s = time.monotonic()
    assert client.receive(0.3) is None
    assert 0.25 <= time.monotonic() - began_s < 2
    assert not client.is_open
    proxy.refuse(False)
    client.send("/queue/in-time", "x")
    assert received(client).body == b"x"


# ---- transactions


def test_transaction_that_was_open_is_lost(client: Client, proxy: Proxy, direct: Client) -> None:
    client.send("/queue/lost-work", "job")
    client.subscribe("/queue/lost-work", ack="client-individual")
    job = received(client)
    with pytest.raises(TransactionLost, match="nothing of it has happened"), client.transaction() as open_before:
        client.send("/queue/lost-result", "half", transaction=open_before)
        proxy.cut()
        assert received(client).message_id == job.message_id
        client.send("/queue/lost-result", "other half", transaction=open_before)
    with pytest.raises(TransactionLost, match="comes again"), client.transaction() as open_after:
        client.send("/queue/lost-result", "half", transaction=open_after)
        client.ack(job, transaction=open_after)
    with client.transaction() as whole:
        client.send("/queue/lost-result", "all", transaction=whole)
    assert accepted(direct, "lost-result") == 1


@pytest.mark.parametrize("confirm", [True, False, None])
def test_commit_of_a_lost_transaction_raises(
    client: Client, proxy: Proxy, direct: Client, confirm: bool | None
) -> None:
    transaction = client.begin()
    client.send("/queue/never", "x", transaction=transaction, confirm=confirm)
    proxy.cut()
    # else COMMIT may be sent before it learns of the cut: then nobody knows what came of it, which is another test
    while client.connections < 2:
        assert client.receive(0.01) is None
    with pytest.raises(TransactionLost):
        client.commit(transaction)
    client.abort(client.begin(transaction))
    assert accepted(direct, "never") == 0


def test_commit_whose_receipt_was_lost_may_have_happened(
    client: Client, proxy: Proxy, direct: Client, beside: Callable[..., "Future[object]"]
) -> None:
    transaction = client.begin()
    client.send("/queue/in-doubt", "x", transaction=transaction)
    proxy.mute()
    committing = beside(client.commit, transaction)
    wait_until_accepted(direct, "in-doubt", 1)
    proxy.cut()
    with pytest.raises(ConnectionLost, match="may or may not have happened") as lost:
        committing.result(10)
    assert not isinstance(lost.value, TransactionLost)


# ---- where to, and how long


def test_next_address_is_taken_where_one_does_not_answer(broker: BrokerProcess, proxy: Proxy) -> None:
    dead = f"stomp://127.0.0.1:{free_port()}"
    with Client([dead, proxy.address, broker.address], reconnect=SOON) as client:
        assert str(client.address) == proxy.address
        proxy.refuse(True)
        proxy.cut()
        client.send("/queue/failover", "x")
        assert str(client.address) == broker.address


def test_no_address_answers_at_the_beginning() -> None:
    dead = f"stomp://127.0.0.1:{free_port()}"
    began_s = time.monotonic()
    with pytest.raises(ConnectionLost, match="Cannot connect"):
        Client([dead, dead])
    assert time.monotonic() - began_s < 2, "without `reconnect` each address is tried once"
    with pytest.raises(ConnectionLost, match="Cannot connect"):
        Client([dead, dead], reconnect=Reconnect(first_s=0.01, most_s=0.05, timeout_s=0.3))
    assert time.monotonic() - began_s >= 0.3


def test_broker_may_start_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with BrokerProcess(tmp_path, EVERYTHING_MAY_BE_CREATED) as broker:
        broker.stop()
        port = broker.port
        broker.config_file.write_text(f'[server]\nlisten = ["stomp://127.0.0.1:{port}"]\n' + EVERYTHING_MAY_BE_CREATED)
        with ThreadPoolExecutor(1) as others:
            waiting = others.submit(Client, f"stomp://127.0.0.1:{port}", reconnect=SOON)
            time.sleep(0.2)  # it is tried in vain meanwhile
            assert not waiting.done()
            broker.start()
            with waiting.result(10) as client:
                client.send("/queue/late", "x")
        assert sum("It is tried again." in line for line in caplog.messages) == 1


def test_refused_login_is_said_at_once(peer: Callable[[Script], str]) -> None:
    address = peer(lambda one: (read_frame(one), one.sendall(b"ERROR\ncode:login\nmessage:Who are you?\n\n\0"))[1])
    with pytest.raises(Refusal, match="Who are you"):
        Client(address, reconnect=True)


def test_client_gives_up_after_its_time(proxy: Proxy) -> None:
    client = Client(proxy.address, reconnect=Reconnect(first_s=0.01, most_s=0.05, timeout_s=0.3))
    proxy.refuse(True)
    proxy.cut()
    with pytest.raises(ConnectionLost, match=r"no lasting connection within 0\.3 s"):
        client.send("/queue/a", "x")
    with pytest.raises(ConnectionLost, match="There is no connection"):
        client.receive()
    client.close()


def test_subscription_that_is_refused_again_is_not_asked_for_without_a_pause(
    client: Client, proxy: Proxy, direct: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else has become the one consumer meanwhile: until that one leaves."""
    caplog.set_level(logging.CRITICAL, "radiator.client")
    client.subscribe("/queue/taken", headers={"exclusive": "true"})
    proxy.refuse(True)
    proxy.cut()
    assert client.receive(0) is None
    while direct.admin({"do": "describe", "queue": "taken"})["consumers"]:
        pass
    taken = direct.subscribe("/queue/taken", headers={"exclusive": "true"})
    proxy.refuse(False)
    before = proxy.accepted
    assert client.receive(0.5) is None
    assert 3 <= proxy.accepted - before <= 60
    direct.unsubscribe(taken)
    direct.send("/queue/taken", "x")
    assert received(client).body == b"x"


def test_close_sends_again_what_is_unconfirmed(proxy: Proxy, direct: Client) -> None:
    client = Client(proxy.address, reconnect=SOON, dedup=True)
    proxy.mute()
    client.send("/queue/once.closing", "x", confirm=False)
    wait_until_accepted(direct, "once.closing", 1)
    proxy.cut()
    client.close()
    assert (client.unconfirmed, client.connections, accepted(direct, "once.closing")) == (0, 2, 1)


def test_close_gives_up_what_it_cannot_send_in_time(client: Client, proxy: Proxy) -> None:
    client.send("/queue/given-up", "x", confirm=False)
    proxy.refuse(True)
    proxy.mute()
    client.send("/queue/given-up", "x", confirm=False)
    proxy.cut()
    with pytest.raises(NoAnswer, match="given up"):
        client.close(timeout_s=0.1)


def test_close_waits_for_no_connection_that_nobody_needs(client: Client, proxy: Proxy) -> None:
    proxy.refuse(True)
    proxy.cut()
    assert client.receive(0.05) is None
    client.close()
    with pytest.raises(ConnectionLost, match="closed by this program"):
        client.send("/queue/a")


def test_without_reconnect_a_lost_connection_stays_lost(proxy: Proxy) -> None:
    client = Client(proxy.address)
    proxy.cut()
    with pytest.raises(ConnectionLost, match="is lost"):
        client.send("/queue/a")
    with pytest.raises(ConnectionLost, match="There is no connection"):
        client.send("/queue/a")
    assert proxy.accepted == 1


def test_another_version_that_cannot_say_it_is_told(peer: Callable[[Script], str]) -> None:
    """After a failover to an older broker a header may be beyond what it understands."""

    def newer(connection: socket.socket) -> None:
        greet(connection)
        read_frame(connection)

    def older(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"1.2", b"1.0"))
        read_until_closed(connection)

    client = Client([peer(newer), peer(older)], reconnect=SOON, connect_timeout_s=0.2)
    with pytest.raises(Exception, match="no escape here"):
        client.send("/queue/a", "x", {"two": "lines\nof it"})
    client.abandon()


# ---- books


def test_books_balance_over_many_cuts(proxy: Proxy, direct: Client) -> None:
    """Every message is stored exactly once, and received at least once; nothing raises but what is said to."""
    cuts = 25
    chance = random.Random(5)
    both_there, is_over = threading.Event(), threading.Event()
    seen: Counter[bytes] = Counter()

    def produce() -> int:
        number = 0
        with Client(proxy.address, reconnect=SOON, dedup=True, window=10) as producer:
            both_there.wait(10)
            while not is_over.is_set():
                producer.send("/queue/once.books", str(number), confirm=number % 7 == 0)
                number += 1
            producer.send("/queue/once.books", "last")
        return number

    def consume() -> None:
        with Client(proxy.address, reconnect=SOON) as consumer:
            consumer.subscribe("/queue/once.books", ack="client-individual", prefetch=5)
            both_there.set()
            while b"last" not in seen or direct.admin({"do": "describe", "queue": "once.books"})["messages"]:
                if (message := consumer.receive(0.2)) is not None:
                    seen[message.body] += 1
                    consumer.ack(message, confirm=chance.choice([True, False, None]))

    with ThreadPoolExecutor(2) as executor:
        producing, consuming = executor.submit(produce), executor.submit(consume)
        try:
            assert both_there.wait(10)
            for number in range(cuts):
                proxy.wait_for(number + 2)
                proxy.cut()
        finally:
            is_over.set()
        messages = producing.result(60)
        consuming.result(60)
    assert accepted(direct, "once.books") == messages + 1
    assert set(seen) == {b"last", *(b"%d" % number for number in range(messages))}


@pytest.mark.slow
def test_client_goes_on_over_kills_of_the_broker(tmp_path: Path) -> None:
    """SIGKILL, and another start on the same data, with a producer and a consumer going on."""
    messages, kills = 150, 3
    seen: Counter[bytes] = Counter()
    with BrokerProcess(tmp_path, CONFIG) as broker, Proxy(broker.host, broker.port) as proxy:

        def produce() -> None:
            with Client(proxy.address, reconnect=SOON, dedup=True) as producer:
                for number in range(messages):
                    producer.send("/queue/once.kills", str(number))
                    if number % (messages // kills) == messages // kills - 5:
                        half_way.set()

        def consume() -> None:
            with Client(proxy.address, reconnect=SOON) as consumer:
                consumer.subscribe("/queue/once.kills", ack="client-individual")
                while len(seen) < messages:
                    message = received(consumer, 30)
                    seen[message.body] += 1
                    consumer.ack(message)

        half_way = threading.Event()
        with ThreadPoolExecutor(2) as executor:
            both = [executor.submit(consume), executor.submit(produce)]
            for _ in range(kills):
                assert half_way.wait(30)
                half_way.clear()
                broker.kill()
                broker.start()
                proxy.upstream = (broker.host, broker.port)
            for one in both:
                one.result(60)
        with Client(broker.address) as client:
            numbers = client.admin({"do": "stats"})["queues"]["once.kills"]
    assert set(seen) == {b"%d" % number for number in range(messages)}
    assert numbers["accepted"] == messages
