"""stompman: asyncio, STOMP 1.2, strict about what a server says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

stompman = pytest.importorskip("stompman")

from tests.broker_process import BrokerProcess  # noqa: E402

TIMEOUT_S = 10
Scenario = Callable[[Any], Awaitable[None]]


def run(broker: BrokerProcess, scenario: Scenario, **options: Any) -> None:
    """The scenario, with a connected client. An ERROR that it did not ask for fails it."""
    errors: list[Any] = []

    async def main() -> None:
        server = stompman.ConnectionParameters(host=broker.host, port=broker.port, login="", passcode="")
        async with (
            asyncio.timeout(TIMEOUT_S),
            stompman.Client([server], on_error_frame=errors.append, **options) as client,
        ):
            await scenario(client)

    asyncio.run(main())
    assert errors == []


def fail(error: Exception, frame: Any) -> None:
    raise AssertionError(f"{frame}: {error}")


async def take(inbox: "asyncio.Queue[Any]") -> Any:
    return await asyncio.wait_for(inbox.get(), TIMEOUT_S)


def test_message_makes_the_round_trip(broker: BrokerProcess, name: str) -> None:
    async def scenario(client: Any) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        body = bytes(range(256)) + "zwölf €".encode()
        subscription = await client.subscribe(
            f"/queue/{name}", inbox.put, on_suppressed_exception=fail, receipt_timeout=5
        )
        await client.send(body, f"/queue/{name}", headers={"a:b": "c\nd\\"}, content_type="x/y", receipt_timeout=5)
        frame = await take(inbox)
        assert frame.body == body
        assert frame.headers["a:b"] == "c\nd\\"
        assert frame.headers["content-type"] == "x/y"
        await subscription.unsubscribe()

    run(broker, scenario)


def test_acks_let_the_next_one_come(broker: BrokerProcess, name: str) -> None:
    async def scenario(client: Any) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        for number in range(5):
            await client.send(b"%d" % number, f"/queue/{name}", receipt_timeout=5)
        subscription = await client.subscribe_with_manual_ack(f"/queue/{name}", inbox.put)
        for number in range(5):
            frame = await take(inbox)
            assert frame.body == b"%d" % number
            assert inbox.empty()
            await frame.ack()
        await subscription.unsubscribe()

    run(broker, scenario)


def test_nack_brings_it_again(broker: BrokerProcess, name: str) -> None:
    async def scenario(client: Any) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        await client.send(b"x", f"/queue/{name}", receipt_timeout=5)
        subscription = await client.subscribe_with_manual_ack(f"/queue/{name}", inbox.put)
        await (await take(inbox)).nack()
        again = await take(inbox)
        assert (again.headers["redelivered"], again.headers["redelivery-count"]) == ("true", "1")
        await again.ack()
        await subscription.unsubscribe()

    run(broker, scenario)


def test_handler_that_fails_brings_it_again(broker: BrokerProcess, name: str) -> None:
    """stompman NACKs what its handler raises on."""

    async def scenario(client: Any) -> None:
        seen: asyncio.Queue[Any] = asyncio.Queue()

        async def handler(frame: Any) -> None:
            await seen.put(frame)
            if frame.headers["redelivered"] == "false":
                raise ValueError("not this time")

        subscription = await client.subscribe(
            f"/queue/{name}", handler, on_suppressed_exception=lambda error, frame: None, receipt_timeout=5
        )
        await client.send(b"x", f"/queue/{name}", receipt_timeout=5)
        assert (await take(seen)).headers["redelivered"] == "false"
        assert (await take(seen)).headers["redelivered"] == "true"
        await subscription.unsubscribe()

    run(broker, scenario)


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_each_ack_mode_gets_everything(broker: BrokerProcess, name: str, ack: str) -> None:
    async def scenario(client: Any) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        subscription = await client.subscribe(
            f"/queue/{name}", inbox.put, ack=ack, on_suppressed_exception=fail, receipt_timeout=5
        )
        for number in range(20):
            await client.send(b"%d" % number, f"/queue/{name}")
        assert [(await take(inbox)).body for _ in range(20)] == [b"%d" % number for number in range(20)]
        await subscription.unsubscribe()

    run(broker, scenario)


def test_transaction_happens_at_commit(broker: BrokerProcess, name: str) -> None:
    async def scenario(client: Any) -> None:
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        subscription = await client.subscribe(
            f"/queue/{name}", inbox.put, ack="auto", on_suppressed_exception=fail, receipt_timeout=5
        )
        with pytest.raises(ValueError, match="given up"):
            async with client.begin() as transaction:
                await transaction.send(b"never", f"/queue/{name}")
                raise ValueError("given up")
        async with client.begin() as transaction:
            await transaction.send(b"1", f"/queue/{name}")
            await transaction.send(b"2", f"/queue/{name}")
        assert [(await take(inbox)).body for _ in range(2)] == [b"1", b"2"]
        await subscription.unsubscribe()

    run(broker, scenario)


def test_refusal_is_an_error_frame(broker: BrokerProcess) -> None:
    """stompman connects anew by itself after it."""
    errors: list[Any] = []

    async def main() -> None:
        server = stompman.ConnectionParameters(host=broker.host, port=broker.port, login="", passcode="")
        async with asyncio.timeout(TIMEOUT_S), stompman.Client([server], on_error_frame=errors.append) as client:
            with pytest.raises(stompman.Error):
                await client.send(b"x", "/nowhere/x", receipt_timeout=1)

    asyncio.run(main())
    assert b"/nowhere/x" in errors[0].body


@pytest.mark.slow
def test_heart_beats_keep_a_silent_connection(broker: BrokerProcess, name: str) -> None:
    async def scenario(client: Any) -> None:
        await asyncio.sleep(3)
        assert client.is_alive()
        await client.send(b"still here", f"/queue/{name}", receipt_timeout=5)

    run(broker, scenario, heartbeat=stompman.Heartbeat(300, 300))
