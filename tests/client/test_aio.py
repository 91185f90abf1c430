"""The client for asyncio: restarts, cancelled tasks, bounds. What both clients share, the other one's tests have."""

import asyncio
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from radiator.client import Client, ConnectionLost, Message, NoAnswer, Reconnect, Refusal, TransactionLost, Violation
from radiator.client.aio import AsyncClient
from tests.broker_process import BrokerProcess
from tests.client.conftest import CONFIG
from tests.client.peer import CONNECTED, MESSAGE, Script, greet, read_frame, read_until_closed, receipt_of
from tests.client.proxy import Proxy
from tests.client.test_reconnect import accepted, wait_until_accepted
from tests.ports import free_port

SOON = Reconnect(first_s=0.01, most_s=0.1, timeout_s=20)
T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """In a loop of its own, which tells of what was forgotten."""

    async def within() -> T:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(60):
            result = await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            with suppress(asyncio.CancelledError):
                await task
        assert complaints == []
        return result

    return asyncio.run(within())


@pytest.fixture
def direct(broker: BrokerProcess) -> Iterator[Client]:
    """A client that no cut reaches."""
    with Client(broker.address) as one:
        yield one


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def received(client: AsyncClient, timeout_s: float = 10) -> Message:
    message = await client.receive(timeout_s)
    assert message is not None
    return message


async def cancelled(awaited: Awaitable[object]) -> None:
    """Begun, and cancelled where it waits."""
    task = asyncio.ensure_future(awaited)
    await asyncio.sleep(0.02)
    assert not task.done(), "it did not wait"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---- what it does


def test_all_that_it_can_be_asked(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with AsyncClient(broker.address) as client:
            await client.send("/queue/aio", "one", {"kind": "first"})
            assert await client.send_many("/queue/aio", ["two", "three"]) == 2
            name = await client.subscribe("/queue/aio", ack="client-individual", prefetch=10)
            bodies = []
            async for message in client.messages(subscription=name):
                bodies.append(message.body)
                assert await client.ack(message)
                if len(bodies) == 3:
                    break
            assert bodies == [b"one", b"two", b"three"]
            assert [one async for one in client.messages(timeout_s=0.01)] == []
            async with client.transaction() as t:
                await client.send("/queue/aio", "four", transaction=t)
            message = await received(client)
            assert await client.nack(message)
            again = await received(client)
            assert again.headers["redelivered"] == "true"
            async with client.transaction() as t:
                await client.ack(again, transaction=t)
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as t:
                    await client.send("/queue/aio", "never", transaction=t)
                    raise ZeroDivisionError
            assert await client.receive(0) is None
            await client.unsubscribe(name)
            assert (await client.admin({"do": "describe", "queue": "aio"}))["messages"] == 0
            with pytest.raises(NoAnswer, match="No reply"):
                await client.request("/queue/aio.nobody", "?", 0.05)
            assert (client.is_open, client.connections, client.unconfirmed, client.waiting) == (True, 1, 0, 0)
            assert str(client.address) == broker.address
        assert not client.is_open
        await client.close()
        with pytest.raises(ConnectionLost, match="closed by this program"):
            await client.send("/queue/aio", "x")

    run(main())


def test_what_is_wrong_is_said_and_nothing_sent(broker: BrokerProcess) -> None:
    async def main() -> None:
        client = AsyncClient(broker.address)
        with pytest.raises(ConnectionLost, match="not been opened yet"):
            await client.send("/queue/aio", "x")
        async with client:
            with pytest.raises(Violation, match="opened before"):
                await client.open()
            with pytest.raises(TypeError, match="destination None is of type NoneType: it must be a str"):
                await client.send(None, "x")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="timeout_s '5'"):
                await client.receive("5")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="must be bytes or str"):
                await client.send("/queue/aio", None)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="pairs of str"):
                await client.send("/queue/aio", "x", {"number": 1})  # type: ignore[dict-item]
            with pytest.raises(Violation, match="must be auto"):
                await client.subscribe("/queue/aio", ack="sometimes")
            with pytest.raises(Violation, match="no open transaction"):
                await client.commit("t9")
            with pytest.raises(Refusal) as refused:
                await client.request("/topic/nobody", "?", 10, {"mandatory": "true"})
            assert refused.value.code == "no-subscriber"
        with pytest.raises(ConnectionLost):
            await client.receive()

    run(main())


def test_tasks_share_it_and_the_window_bounds_them(broker: BrokerProcess) -> None:
    """In the order in which they came."""

    async def main() -> None:
        most = 0

        async def send(number: int) -> None:
            nonlocal most
            await client.send("/queue/aio.shared", str(number))
            most = max(most, client.unconfirmed)

        async with AsyncClient(broker.address, window=7) as client:
            await asyncio.gather(*(send(number) for number in range(300)))
            assert 1 <= most <= 7
            await client.subscribe("/queue/aio.shared", ack="client-individual", prefetch=300)
            bodies = [int((await received(client)).body) for _ in range(300)]
            assert bodies == list(range(300))

    run(main())


def test_receivers_get_each_message_once(broker: BrokerProcess) -> None:
    async def main() -> None:
        seen: Counter[bytes] = Counter()

        async def take() -> None:
            async for message in client.messages():
                seen[message.body] += 1
                await asyncio.sleep(0)
                await client.ack(message)

        async with AsyncClient(broker.address) as client:
            await client.subscribe("/queue/aio.receivers", ack="client-individual", prefetch=20)
            takers = [asyncio.create_task(take()) for _ in range(5)]
            await client.send_many("/queue/aio.receivers", [str(number) for number in range(200)])
            await until(lambda: len(seen) == 200)
            assert client.waiting == 0
            for one in takers:
                one.cancel()
            await asyncio.gather(*takers, return_exceptions=True)
        assert seen == Counter(b"%d" % number for number in range(200))

    run(main())


# ---- a connection that is lost


@pytest.mark.parametrize(("queue", "dedup", "copies"), [("aio.twice", False, 2), ("once.aio", True, 1)])
def test_send_without_receipt_is_sent_again(proxy: Proxy, direct: Client, queue: str, dedup: bool, copies: int) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.address, reconnect=SOON, dedup=dedup) as client:
            proxy.mute()
            sending = asyncio.create_task(client.send(f"/queue/{queue}", "x"))
            await asyncio.to_thread(wait_until_accepted, direct, queue, 1)
            assert not sending.done()
            proxy.cut()
            await sending
            assert (accepted(direct, queue), client.connections) == (copies, 2)

    run(main())


def test_send_is_not_sent_again_where_the_caller_says_no(proxy: Proxy, direct: Client) -> None:
    async def main() -> None:
        policy = Reconnect(first_s=0.01, most_s=0.1, resend=False)
        async with AsyncClient(proxy.address, reconnect=policy) as client:
            proxy.mute()
            sending = asyncio.create_task(client.send("/queue/aio.not-again", "x"))
            await asyncio.to_thread(wait_until_accepted, direct, "aio.not-again", 1)
            proxy.cut()
            with pytest.raises(ConnectionLost, match="may or may not have happened"):
                await sending
            await client.send("/queue/aio.not-again", "y")
        assert accepted(direct, "aio.not-again") == 2

    run(main())


def test_without_reconnect_a_lost_connection_stays_lost(proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.address) as client:
            waiting = asyncio.create_task(client.receive())
            await asyncio.sleep(0)
            proxy.cut()
            with pytest.raises(ConnectionLost, match="is lost"):
                await waiting
            with pytest.raises(ConnectionLost, match="There is no connection"):
                await client.send("/queue/a")
            assert not client.is_open

    run(main())


def test_subscriptions_acks_and_transactions_over_a_cut(proxy: Proxy, direct: Client) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.address, reconnect=SOON) as client:
            await client.send("/queue/aio.over", "job")
            await client.subscribe("/queue/aio.over", ack="client-individual", prefetch=3)
            old = await received(client)
            transaction = await client.begin()
            proxy.cut()
            new = await received(client)
            assert (new.message_id, new.headers["redelivered"]) == (old.message_id, "true")
            assert await client.ack(old) is False
            with pytest.raises(TransactionLost):
                await client.commit(transaction)
            with pytest.raises(TransactionLost, match="comes again"):
                async with client.transaction() as t:
                    await client.ack(old, transaction=t)
            assert await client.ack(new)
            assert await client.receive(0.05) is None

    run(main())


def test_broker_may_start_later_or_never() -> None:
    async def main() -> None:
        address = f"stomp://127.0.0.1:{free_port()}"
        with pytest.raises(ConnectionLost, match="Cannot connect.*Is the broker running"):
            await AsyncClient(address).open()
        with pytest.raises(ConnectionLost, match="Cannot connect"):
            await AsyncClient(address, reconnect=Reconnect(first_s=0.01, most_s=0.05, timeout_s=0.2)).open()
        opening = asyncio.create_task(AsyncClient(address, reconnect=SOON).open())
        await asyncio.sleep(0.05)
        with socket.create_server(("127.0.0.1", nobody_port(address)), reuse_port=False) as listener:
            listener.settimeout(10)
            served, _ = await asyncio.to_thread(listener.accept)
            with served:
                await asyncio.to_thread(greet, served)
                client = await opening
                assert client.is_open
                client.abandon()

    run(main())


def nobody_port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_refused_login_is_said_at_once(peer: Callable[[Script], str]) -> None:
    address = peer(lambda one: (read_frame(one), one.sendall(b"ERROR\ncode:login\nmessage:Who are you?\n\n\0"))[1])
    with pytest.raises(Refusal, match="Who are you"):
        run(AsyncClient(address, reconnect=True).open())


def test_client_gives_up_after_its_time(proxy: Proxy) -> None:
    async def main() -> None:
        policy = Reconnect(first_s=0.01, most_s=0.05, timeout_s=0.3)
        async with AsyncClient(proxy.address, reconnect=policy) as client:
            proxy.refuse(True)
            proxy.cut()
            with pytest.raises(ConnectionLost, match=r"no lasting connection within 0\.3 s"):
                await client.send("/queue/a", "x")
            with pytest.raises(ConnectionLost, match="There is no connection"):
                await client.receive()

    run(main())


def test_heart_beats_go_while_the_program_sleeps_and_silence_is_seen(
    peer: Callable[[Script], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radiator.client.connection.SILENCE_SLACK_S", 0.05)
    beats = []

    def script(connection: socket.socket) -> None:
        greet(connection, CONNECTED.replace(b"0,0", b"50,50"))
        beats.append(connection.recv(1))
        read_until_closed(connection)

    async def main() -> None:
        client = await AsyncClient(peer(script), heart_beat_ms=(50, 50)).open()
        await until(lambda: not client.is_open)
        with pytest.raises(ConnectionLost, match="silent"):
            await client.receive()

    run(main())
    assert beats == [b"\n"]


# ---- cancelled


def test_cancelled_send_that_was_said_goes_on(proxy: Proxy, direct: Client) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.address, reconnect=SOON, dedup=True) as client:
            proxy.mute()
            await cancelled(client.send("/queue/once.cancelled", "x"))
            assert client.unconfirmed == 1
            await asyncio.to_thread(wait_until_accepted, direct, "once.cancelled", 1)
            proxy.cut()
            await client.flush()
            assert (client.connections, accepted(direct, "once.cancelled")) == (2, 1)

    run(main())


def test_cancelled_send_that_waited_for_room_or_a_connection_is_not_said(proxy: Proxy, direct: Client) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.address, reconnect=SOON, dedup=True, window=1) as client:
            proxy.mute()
            first = asyncio.create_task(client.send("/queue/once.room", "said"))
            await asyncio.sleep(0)
            await cancelled(client.send("/queue/once.room", "never"))
            proxy.refuse(True)
            proxy.cut()
            await until(lambda: not client.is_open)
            await cancelled(client.send("/queue/once.room", "never"))
            proxy.refuse(False)
            await first
            await client.flush()
        direct.subscribe("/queue/once.room")
        message = direct.receive(10)
        assert message is not None and message.body == b"said"
        assert direct.receive(0.05) is None

    run(main())


@pytest.mark.parametrize("is_answered_before", [False, True])
def test_refusal_of_a_cancelled_send_is_for_the_next_call(
    peer: Callable[[Script], str], is_answered_before: bool
) -> None:
    """Also where it came in the same turn of the loop as the cancellation."""
    may_answer = threading.Event()

    def script(connection: socket.socket) -> None:
        greet(connection)
        receipt = receipt_of(read_frame(connection))
        may_answer.wait(10)
        connection.sendall(receipt.replace(b"\n\n", b"\nrefused:queue-full\nmessage:It is full.\n\n"))
        read_until_closed(connection)

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        sending = asyncio.create_task(client.send("/queue/a", "x", {"on-refusal": "receipt"}))
        await asyncio.sleep(0.01)
        if is_answered_before:
            may_answer.set()
            time.sleep(0.1)  # the answer is in the socket; this loop has not seen it
            client._tasks._readable()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        may_answer.set()
        with pytest.raises(Refusal, match="It is full"):
            await client.flush()
        client.abandon()

    run(main())


def test_message_that_came_with_the_cancellation_is_for_the_next_receive(peer: Callable[[Script], str]) -> None:
    """In one turn of the loop."""
    may_send = threading.Event()

    def script(connection: socket.socket) -> None:
        greet(connection)
        may_send.wait(10)
        connection.sendall(MESSAGE)
        read_until_closed(connection)

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        receiving = asyncio.create_task(client.receive())
        await asyncio.sleep(0.01)
        may_send.set()
        time.sleep(0.1)
        client._tasks._readable()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert (await received(client)).body == b"a\0b"
        client.abandon()

    run(main())


def test_no_message_is_lost_by_cancelled_receives(broker: BrokerProcess) -> None:
    """With ack="auto" the broker has forgotten what the client has read."""
    many = 400

    async def main() -> None:
        chance = random.Random(3)
        bodies: list[bytes] = []

        async def take() -> None:
            message = await client.receive()
            assert message is not None
            bodies.append(message.body)

        async with AsyncClient(broker.address) as client, AsyncClient(broker.address) as producer:
            await client.subscribe("/queue/memory.aio")
            sending = asyncio.create_task(producer.send_many("/queue/memory.aio", [str(one) for one in range(many)]))
            while len(bodies) < many:
                tasks = [asyncio.create_task(take()) for _ in range(3)]
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(take(), chance.choice([0.0001, 0.001, 0.5]))
            await sending
            assert await client.receive(0.05) is None
        assert bodies == [b"%d" % number for number in range(many)]

    run(main())


def test_cancelled_subscribe_is_taken_back(peer: Callable[[Script], str]) -> None:
    frames = []

    def script(connection: socket.socket) -> None:
        greet(connection)
        frames.extend(read_frame(connection) for _ in range(2))
        connection.sendall(receipt_of(frames[0]) + receipt_of(frames[1]))
        frames.append(read_frame(connection))
        connection.sendall(receipt_of(frames[2]))

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        await cancelled(client.subscribe("/queue/a", ack="client-individual"))
        await client.flush()
        assert client._channel.subscriptions == {}
        await client.send("/queue/b", "x")
        client.abandon()

    run(main())
    assert [frame.partition(b"\n")[0] for frame in frames] == [b"SUBSCRIBE", b"UNSUBSCRIBE", b"SEND"]


def test_cancelled_transaction_is_aborted(broker: BrokerProcess, direct: Client) -> None:
    async def main() -> None:
        async with AsyncClient(broker.address) as client:

            async def work() -> None:
                async with client.transaction() as t:
                    await client.send("/queue/aio.aborted", "never", transaction=t)
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await until(lambda: client.unconfirmed == 0 and client.connections == 1)
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.flush()
            assert not client._calls.has("t1"), "it is open still"
            await client.send("/queue/aio.aborted", "sent")
            assert accepted(direct, "aio.aborted") == 1

    run(main())


def test_cancelled_request_is_dropped(broker: BrokerProcess) -> None:
    async def main() -> None:
        async with AsyncClient(broker.address) as client:
            await cancelled(client.request("/queue/aio.unanswered", "?"))
            assert client._channel.replies == {}
            assert (await client.admin({"do": "queues"}))["ok"]

    run(main())


# ---- bounds


def test_nothing_more_is_read_past_the_bound(broker: BrokerProcess) -> None:
    many, size = 300, 10_000

    async def main() -> None:
        async with AsyncClient(broker.address) as producer:
            await producer.send_many("/queue/memory.full", [b"x" * size] * many)
        async with AsyncClient(broker.address, received_max_bytes=10 * size) as client:
            await client.subscribe("/queue/memory.full")
            await until(lambda: client.waiting >= 8)
            await asyncio.sleep(0.05)
            assert client.waiting < 30, "more than the bound and one read"
            with pytest.raises(NoAnswer, match="nobody has received"):
                await client.send("/queue/memory.other", "x")
            count = 0
            while await client.receive(1) is not None:
                count += 1
                if count == many:
                    break
            assert count == many

    run(main())


def test_a_producer_waits_for_a_peer_that_reads_nothing(peer: Callable[[Script], str]) -> None:
    """Not more than a frame is held for the operating system, however many tasks send."""
    may_read = threading.Event()
    size = 1_000_000

    def script(connection: socket.socket) -> None:
        greet(connection)
        may_read.wait(10)
        while connection.recv(1 << 20):
            pass

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        sending = [asyncio.create_task(client.send("/queue/a", b"x" * size, confirm=None)) for _ in range(20)]
        await asyncio.sleep(0.1)
        connection = client._channel.connection
        assert connection is not None
        assert not all(one.done() for one in sending)
        assert 0 < len(connection.outgoing) < 2 * size
        may_read.set()
        await asyncio.gather(*sending)
        client.abandon()

    run(main())


def test_abandon_wakes_who_waits_and_close_is_closed_when_cancelled(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        read_until_closed(connection)

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        waiting = [asyncio.create_task(client.receive()), asyncio.create_task(client.send("/queue/a"))]
        await asyncio.sleep(0)
        client.abandon()
        for one in waiting:
            with pytest.raises(ConnectionLost, match="closed by this program"):
                await one
        other = await AsyncClient(peer(script)).open()
        await cancelled(other.close())
        assert not other.is_open
        await other.close()

    run(main())


def test_message_that_came_with_an_answer_is_there(peer: Callable[[Script], str]) -> None:
    def script(connection: socket.socket) -> None:
        greet(connection)
        connection.sendall(MESSAGE + receipt_of(read_frame(connection)))
        read_until_closed(connection)

    async def main() -> None:
        client = await AsyncClient(peer(script)).open()
        await client.send("/queue/b")
        assert client.waiting == 1
        assert (await received(client, 0)).body == b"a\0b"
        client.abandon()

    run(main())


# ---- books


def test_books_balance_over_many_cuts_and_cancellations(proxy: Proxy, direct: Client) -> None:
    """What was confirmed is stored exactly once; what was cancelled, at most once; all of it is received."""
    cuts = 15
    stored: set[bytes] = set()
    tried: set[bytes] = set()
    seen: Counter[bytes] = Counter()

    async def produce(producer: AsyncClient, number: int, is_over: asyncio.Event) -> None:
        chance = random.Random(number)
        count = 0
        while not is_over.is_set():
            body = f"{number}.{count}"
            tried.add(body.encode())
            count += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(chance.choice([None, None, 0.002])):
                    await producer.send("/queue/once.aio-books", body)
                    stored.add(body.encode())

    async def consume(is_sent: asyncio.Event) -> None:
        async with AsyncClient(proxy.address, reconnect=SOON) as consumer:
            await consumer.subscribe("/queue/once.aio-books", ack="client-individual", prefetch=5)
            while not is_sent.is_set() or not stored <= set(seen):
                if (message := await consumer.receive(0.2)) is not None:
                    seen[message.body] += 1
                    await consumer.ack(message, confirm=bool(len(seen) % 2))

    async def main() -> None:
        is_over, is_sent = asyncio.Event(), asyncio.Event()
        async with AsyncClient(proxy.address, reconnect=SOON, dedup=True, window=3) as producer:
            consuming = asyncio.create_task(consume(is_sent))
            producing = [asyncio.create_task(produce(producer, number, is_over)) for number in range(5)]
            for number in range(cuts):
                await until(lambda number=number: proxy.accepted >= number + 2)  # type: ignore[misc]
                await asyncio.sleep(0.01)
                proxy.cut()
            is_over.set()
            await asyncio.gather(*producing)
            await producer.flush()
            is_sent.set()
            await consuming

    run(main())
    assert stored <= set(seen) <= tried
    assert len(seen) <= accepted(direct, "once.aio-books") <= len(tried), "something was stored twice"


@pytest.mark.slow
def test_client_goes_on_over_kills_of_the_broker(tmp_path: Path) -> None:
    """SIGKILL, and another start on the same data, with a producer and a consumer going on."""
    messages, kills = 100, 2
    seen: Counter[bytes] = Counter()

    async def main(broker: BrokerProcess, proxy: Proxy) -> None:
        async def consume() -> None:
            async with AsyncClient(proxy.address, reconnect=SOON) as consumer:
                await consumer.subscribe("/queue/once.kills", ack="client-individual")
                while len(seen) < messages:
                    message = await received(consumer, 30)
                    seen[message.body] += 1
                    await consumer.ack(message)

        def restart() -> None:
            broker.kill()
            broker.start()
            proxy.upstream = (broker.host, broker.port)

        consuming = asyncio.create_task(consume())
        async with AsyncClient(proxy.address, reconnect=SOON, dedup=True) as producer:
            restarting: asyncio.Task[None] | None = None
            for number in range(messages):
                if number % (messages // kills) == messages // kills - 5:
                    if restarting is not None:
                        await restarting
                    restarting = asyncio.create_task(asyncio.to_thread(restart))
                await producer.send("/queue/once.kills", str(number))
            assert restarting is not None
            await restarting
        await consuming

    with BrokerProcess(tmp_path, CONFIG) as broker, Proxy(broker.host, broker.port) as proxy:
        run(main(broker, proxy))
        with Client(broker.address) as client:
            numbers = client.admin({"do": "stats"})["queues"]["once.kills"]
    assert set(seen) == {b"%d" % number for number in range(messages)}
    assert numbers["accepted"] == messages
