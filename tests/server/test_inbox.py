from radiator.model.commands import CLIENT_INDIVIDUAL, Ack, Closed, Command, Committed, Nack, Open, Read, Stop, Tick
from radiator.model.limits import (
    ADMIN_COPIES,
    COMMANDS_AT_ONCE,
    COMMANDS_PER_TURN,
    COPIES_PER_TURN,
    INBOX_MAX_BYTES,
    READS_PER_TURN,
)
from radiator.server.inbox import Inbox
from tests.core.node import Node
from tests.core.words import send, subscribe


def summoned(inbox: Inbox) -> list[bool]:
    calls: list[bool] = []
    inbox.summon = lambda: calls.append(True)
    return calls


def test_inbox_summons_once_for_each_take() -> None:
    inbox = Inbox()
    calls = summoned(inbox)
    for number in range(5):
        inbox.put(Read(number, []), 10)
    inbox.report(Committed(1))
    assert len(calls) == 1
    inbox.take()
    inbox.report(Committed(2))
    assert len(calls) == 2


def test_report_that_may_wait_summons_nobody_and_comes_with_the_next_turn() -> None:
    inbox = Inbox()
    calls = summoned(inbox)
    inbox.report(Tick(1, 1), at_once=False)
    assert calls == []
    inbox.put(Open(1))
    assert inbox.take() == [Tick(1, 1), Open(1)]


def test_what_a_client_says_keeps_its_order_behind_reports() -> None:
    inbox = Inbox()
    commands = [Open(1), Read(1, [], 5), Read(1, [], 0), Closed(1)]
    for event in commands:
        inbox.put(event)
    inbox.report(Committed(1))
    assert inbox.take() == [Committed(1), *commands]
    assert inbox.take() == []


def test_take_gives_reads_per_turn_and_all_reports() -> None:
    inbox = Inbox()
    for number in range(READS_PER_TURN + 1):
        inbox.put(Read(number, []))
        inbox.report(Committed(number))
    assert len(inbox.take()) == READS_PER_TURN + READS_PER_TURN + 1
    assert inbox.has_more
    assert inbox.take() == [Read(READS_PER_TURN, [])]
    assert not inbox.has_more


def test_inbox_is_full_at_its_bound_and_calls_the_waiting_when_it_is_not() -> None:
    inbox = Inbox()
    calls: list[str] = []
    inbox.put(Read(1, []), INBOX_MAX_BYTES - 1)
    assert not inbox.is_full
    inbox.put(Read(2, []), 1)
    assert inbox.is_full
    inbox.when_not_full(lambda: calls.append("room"))
    inbox.report(Committed(1))  # is taken though it is full
    assert inbox.take() == [Committed(1), Read(1, []), Read(2, [])]
    assert calls == ["room"] and not inbox.is_full
    inbox.put(Read(3, []), 1)
    inbox.take()
    assert calls == ["room"]


def test_inbox_does_not_call_the_waiting_while_it_is_full() -> None:
    inbox = Inbox()
    calls: list[str] = []
    for number in range(READS_PER_TURN):
        inbox.put(Read(number, []), 0)
    inbox.put(Read(READS_PER_TURN, []), INBOX_MAX_BYTES)
    inbox.when_not_full(lambda: calls.append("room"))
    inbox.take()
    assert calls == []
    inbox.take()
    assert calls == ["room"]


def acks(connection: int, count: int) -> list[Command]:
    return [Ack(connection, b"%d" % number) for number in range(count)]


def test_connections_take_turns_and_each_keeps_its_order() -> None:
    inbox = Inbox()
    commands = acks(1, 2 * COMMANDS_AT_ONCE + 1)
    inbox.put(Read(1, commands, 7))
    inbox.put(Read(2, acks(2, 1)))
    inbox.put(Closed(1))
    one, two = COMMANDS_AT_ONCE, 2 * COMMANDS_AT_ONCE
    assert inbox.take() == [Read(1, commands[:one], 7), Read(2, acks(2, 1))]
    inbox.put(Read(3, acks(3, 1)))
    assert inbox.take() == [Read(1, commands[one:two], 7), Read(3, acks(3, 1))]
    assert inbox.has_more
    assert inbox.take() == [Read(1, commands[two:], 7), Closed(1)]
    assert not inbox.has_more


def test_channels_of_a_client_share_its_turn() -> None:
    inbox = Inbox()
    inbox.put(Read(9, acks(9, COMMANDS_AT_ONCE + 1)))  # from here on nothing is taken whole
    inbox.take()
    for channel in range(1, 3 * COMMANDS_AT_ONCE):
        inbox.put(Read(channel, acks(channel, 1)), client=1)
    inbox.put(Read(100, acks(100, 1)))
    taken = inbox.take()
    assert [event.connection for event in taken] == [9, *range(1, COMMANDS_AT_ONCE + 1), 100]  # type: ignore[union-attr]
    assert [event.connection for event in inbox.take()] == [*range(COMMANDS_AT_ONCE + 1, 2 * COMMANDS_AT_ONCE + 1)]  # type: ignore[union-attr]


def test_channels_that_come_and_go_take_the_turn_of_commands() -> None:
    inbox = Inbox()
    inbox.put(Read(9, acks(9, COMMANDS_AT_ONCE + 1)))
    for channel in range(1, 3 * COMMANDS_AT_ONCE):
        inbox.put(Closed(channel), client=1)
    assert len(inbox.take()) == 1 + COMMANDS_AT_ONCE


def test_a_channel_that_the_broker_is_behind_with_keeps_what_its_client_sent_after_that() -> None:
    inbox = Inbox()
    inbox.put(Read(9, acks(9, COMMANDS_AT_ONCE + 1)))
    for channel in (1, 2, 3):
        inbox.put(Read(channel, acks(channel, 1)), client=1)
    assert [event.connection for event in inbox.take({2: 1})] == [9, 1]  # type: ignore[union-attr]
    assert [event.connection for event in inbox.take({2: 1})] == [9]  # type: ignore[union-attr]
    assert [event.connection for event in inbox.take()] == [2, 3]  # type: ignore[union-attr]


def test_reader_of_what_the_next_turn_takes_whole_is_called_at_once() -> None:
    inbox = Inbox()
    calls: list[str] = []
    for channel in range(1, COMMANDS_AT_ONCE + 2):
        inbox.put(Read(channel, acks(channel, 1)), client=1)
    inbox.when_taken(1, lambda: calls.append("told"))
    assert calls == ["told"]


def test_turn_has_no_more_commands_than_it_may() -> None:
    inbox = Inbox()
    for number in range(READS_PER_TURN):
        inbox.put(Read(number, acks(number, COMMANDS_AT_ONCE)))
    assert sum(len(event.commands) for event in inbox.take() if isinstance(event, Read)) == COMMANDS_PER_TURN
    assert inbox.has_more


def test_reader_is_called_when_all_that_it_said_was_taken() -> None:
    inbox = Inbox()
    calls: list[str] = []
    inbox.put(Read(1, acks(1, COMMANDS_AT_ONCE + 1)), 10)
    inbox.when_taken(1, lambda: calls.append("told"))
    inbox.take()
    assert calls == []
    inbox.take()
    inbox.take()
    assert calls == ["told"]


def test_stop_comes_after_everything_that_was_said() -> None:
    inbox = Inbox()
    inbox.put(Read(1, acks(1, COMMANDS_AT_ONCE + 1)))
    inbox.stop()
    assert Stop() not in inbox.take()
    assert inbox.has_more
    assert inbox.take()[-1] == Stop()
    assert not inbox.has_more


def test_who_has_said_what_the_broker_is_behind_with_waits_and_others_do_not() -> None:
    inbox = Inbox()
    for number in range(3):
        inbox.put(Read(number, acks(number, COMMANDS_AT_ONCE + 1)), INBOX_MAX_BYTES)
    inbox.take()
    inbox.report(Committed(1))
    assert inbox.take({0: 16, 1: 1, 2: 1}) == [Committed(1)]
    assert inbox.is_full and inbox.has_more
    inbox.put(Read(3, acks(3, 1)))
    assert inbox.take({0: 16, 1: 1}) == [Read(2, acks(2, COMMANDS_AT_ONCE + 1)[-1:]), Read(3, acks(3, 1))]
    inbox.stop()
    assert inbox.take({0: 1, 1: 1}) == []
    assert [event.connection for event in inbox.take({0: 1}) if isinstance(event, Read)] == [1]
    assert inbox.take({0: 1}) == [] and inbox.has_more
    assert inbox.take()[-1] == Stop() and not inbox.has_more


def test_what_the_broker_is_behind_with_is_a_part_of_the_turn() -> None:
    inbox = Inbox()
    for number in range(READS_PER_TURN):
        inbox.put(Read(number, acks(number, 1)), 1)
    assert inbox.take({99: COMMANDS_PER_TURN - COMMANDS_AT_ONCE + 1}) == []
    some = inbox.take({0: COMMANDS_PER_TURN - 2 * COMMANDS_AT_ONCE})
    assert [event.connection for event in some if isinstance(event, Read)] == [*range(1, COMMANDS_AT_ONCE + 2)]
    assert inbox.size_bytes == READS_PER_TURN - len(some)


def test_what_was_put_before_the_broker_was_behind_keeps_its_order() -> None:
    inbox = Inbox()
    first, second, third = acks(1, COMMANDS_AT_ONCE), acks(2, 1), acks(1, COMMANDS_AT_ONCE + 1)
    inbox.put(Read(1, first), 5)
    inbox.put(Read(2, second), 5)
    inbox.put(Read(1, third), 5)
    assert inbox.take({1: 3}) == [Read(2, second)]
    taken = [inbox.take() for _ in range(3)]
    assert [event.commands for events in taken for event in events if isinstance(event, Read)] == [
        first,
        third[:COMMANDS_AT_ONCE],
        third[COMMANDS_AT_ONCE:],
    ]
    assert inbox.size_bytes == 0 and not inbox.has_more


def test_others_go_on_beside_one_long_command() -> None:
    count, long, other = 20 * COMMANDS_PER_TURN, 1, 2
    node, inbox = Node(), Inbox()
    node.open(long, other)
    node.say(subscribe(long, "/queue/q", CLIENT_INDIVIDUAL, prefetch_count=count))
    for _ in range(count // COMMANDS_PER_TURN):
        node.say(*(send(other, "/queue/q", b"x") for _ in range(COMMANDS_PER_TURN)))
    ids = [one.message_id for one in node.messages(long)]
    node.auto = False
    nack = Nack(long, ids[0], more=tuple(ids[1:]))
    inbox.put(Read(long, [nack, *(send(long, "/queue/behind", b"x") for _ in range(40))]), 1)
    turns = 0
    while "behind" not in node.broker.destinations.queues.all:
        before = len(node.broker.destinations.queues.all)
        inbox.put(Read(other, [send(other, f"/queue/{turns}", b"x")]), 1)
        for _ in range(3):
            node.turn(inbox.take(node.broker.behind))
            turns += 1
            if len(node.broker.destinations.queues.all) > before:
                break
        assert len(node.broker.destinations.queues.all) > before, "it waits for all of the long command"
    assert turns >= count // COMMANDS_PER_TURN


def test_a_stop_at_once_waits_for_nothing_that_the_broker_is_behind_with() -> None:
    inbox = Inbox()
    inbox.stop(at_once=True)
    assert inbox.take({99: 1}) == [Stop(at_once=True)]


def test_who_comes_behind_a_flood_that_fills_turns_waits_for_one_round_of_it() -> None:
    """Requests to /admin fill a turn long before COMMANDS_PER_TURN: what a turn could not do must not go before what
    others say later, nor leave the inbox's bound.
    """
    flood, other, each = range(1, 21), 99, 640
    node, inbox = Node(), Inbox()
    node.open(*flood, other)
    node.auto = False
    for number in flood:
        requests: list[Command] = [send(number, "/admin", b'{"do": "none"}', reply_to="t") for _ in range(each)]
        inbox.put(Read(number, requests), INBOX_MAX_BYTES // 20 + 1)

    def turn() -> None:
        node.turn(inbox.take(node.broker.behind))
        backlog = [event for event in node.broker.backlog if isinstance(event, Read)]
        assert sum(len(event.commands) for event in backlog) <= COMMANDS_PER_TURN, "it has left the bound"

    for _ in range(50):
        turn()
    assert inbox.is_full
    inbox.put(Read(other, [send(other, "/queue/q", b"x", receipt=b"1")]))
    turns = 0
    while not node.broker.destinations.queues.all:
        turn()
        turns += 1
    at_once = COPIES_PER_TURN // ADMIN_COPIES
    assert turns <= (COMMANDS_PER_TURN + len(flood) * COMMANDS_AT_ONCE) // at_once + 2
