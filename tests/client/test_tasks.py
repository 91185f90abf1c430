"""The tasks of an event loop that share a channel: who goes on, in which order, and what a cancelled one leaves."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from radiator.client.address import Address
from radiator.client.channel import Steps, Wait
from radiator.client.errors import ConnectionLost
from radiator.client.inbox import ClientInbox
from radiator.client.tasks import Tasks
from radiator.model.errors import Refusal, Violation
from tests.client.pair import ADDRESS, linked
from tests.client.peer import MESSAGE


class Pairs:
    """A dialer whose broker is the test itself. others: the far ends."""

    def __init__(self) -> None:
        self.others: list[Any] = []

    async def dial(self, address: Address, number: int) -> Any:
        connection, other = linked(number)
        connection.address = address
        other.setblocking(False)
        self.others.append(other)
        return connection


def run(test: Callable[[Tasks, Any], Coroutine[Any, Any, None]], max_bytes: int = 10_000) -> None:
    async def main() -> None:
        pairs = Pairs()
        tasks = Tasks([ADDRESS], None, 10, 5.0, ClientInbox(max_bytes), pairs)  # type: ignore[arg-type]
        await tasks.open()
        try:
            await test(tasks, pairs.others[0])
        finally:
            tasks.channel.let_go("over")
            tasks.go_on()

    asyncio.run(main())


def until(is_done: Callable[[], bool], timeout_s: float | None = 5.0) -> Steps[bool]:
    return (yield Wait(is_done, timeout_s))


def test_steps_that_need_not_wait_are_over_at_once() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        assert await tasks.run(until(lambda: True)) is True
        assert await tasks.run(until(lambda: False, 0.0)) is False

    run(test)


def test_those_who_wait_go_on_in_the_order_in_which_they_came_and_see_what_the_one_before_left() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        places, got = [0], []

        def take(number: int) -> Steps[None]:
            while not places[0]:
                yield Wait(lambda: places[0] > 0, None)
            places[0] -= 1
            got.append(number)

        waiting = [asyncio.create_task(tasks.run(take(number))) for number in range(3)]
        await asyncio.sleep(0)
        for count in (1, 2):
            places[0] = count
            tasks.go_on()
        await asyncio.gather(*waiting)
        assert got == [0, 1, 2] and places == [0]

    run(test)


def test_a_time_that_is_over_is_told() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        assert await tasks.run(until(lambda: False, 0.01)) is False

    run(test)


def test_what_steps_raise_is_raised_by_the_call_and_harms_no_other() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        def wrong() -> Steps[None]:
            yield Wait(lambda: True, None)
            raise Violation("Wrong.")

        patient = asyncio.create_task(tasks.run(until(lambda: tasks.channel.lost is None)))
        with pytest.raises(Violation, match="Wrong"):
            await tasks.run(wrong())
        assert await patient

    run(test)


def test_a_refusal_that_nobody_awaits_is_for_the_next_call() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        def refused() -> Steps[None]:
            yield Wait(lambda: True, None)
            raise Refusal("full", "No.")

        tasks.start(refused())
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="No"):
            tasks.channel.check_refused()

    run(test)


def test_a_cancelled_call_is_closed_and_the_next_in_line_goes_on() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        closed = []

        def steps() -> Steps[None]:
            try:
                yield Wait(lambda: False, None)
            finally:
                closed.append(True)

        waiting = asyncio.create_task(tasks.run(steps()))
        behind = asyncio.create_task(tasks.run(until(lambda: bool(closed), None)))
        await asyncio.sleep(0)
        waiting.cancel()
        assert await asyncio.wait_for(behind, 2)
        assert waiting.cancelled() or waiting.cancelling()

    run(test)


def test_what_comes_is_read_as_far_as_somebody_receives() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        inbox = tasks.channel.inbox
        other.send(MESSAGE)
        assert await tasks.run(until(lambda: len(inbox) == 1))
        assert inbox.is_full and not tasks._reads
        other.send(MESSAGE)
        assert not await tasks.run(until(lambda: len(inbox) == 2, 0.01))
        inbox.take()
        tasks.go_on()
        assert await tasks.run(until(lambda: len(inbox) == 1))

    run(test, max_bytes=1)


def test_all_who_wait_hear_that_the_connection_is_lost() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        waiting = [asyncio.create_task(tasks.run(until(lambda: False, None))) for _ in range(2)]
        await asyncio.sleep(0)
        other.close()
        lost = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in lost] == [ConnectionLost, ConnectionLost]

    run(test)


def test_it_is_opened_once() -> None:
    async def test(tasks: Tasks, other: Any) -> None:
        with pytest.raises(Violation, match="was opened before"):
            await tasks.open()

    run(test)
