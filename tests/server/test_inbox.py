from radiator.commands import Closed, Committed, Open, Read, Tick
from radiator.limits import INBOX_MAX_BYTES, READS_PER_TURN
from radiator.server.inbox import Inbox


def summoned(inbox: Inbox) -> list[bool]:
    calls: list[bool] = []
    inbox.summon = lambda: calls.append(True)
    return calls


def test_inbox_summons_once_for_each_take() -> None:
    inbox = Inbox()
    calls = summoned(inbox)
    for number in range(5):
        inbox.say(Read(number, []), 10)
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
    inbox.say(Open(1))
    assert inbox.take() == [Tick(1, 1), Open(1)]


def test_what_a_client_says_keeps_its_order_behind_reports() -> None:
    inbox = Inbox()
    said = [Open(1), Read(1, [], 5), Read(1, [], 0), Closed(1)]
    for event in said:
        inbox.say(event)
    inbox.report(Committed(1))
    assert inbox.take() == [Committed(1), *said]
    assert inbox.take() == []


def test_take_gives_reads_per_turn_and_all_reports() -> None:
    inbox = Inbox()
    for number in range(READS_PER_TURN + 1):
        inbox.say(Read(number, []))
        inbox.report(Committed(number))
    assert len(inbox.take()) == READS_PER_TURN + READS_PER_TURN + 1
    assert inbox.has_more
    assert inbox.take() == [Read(READS_PER_TURN, [])]
    assert not inbox.has_more


def test_inbox_is_full_at_its_bound_and_calls_the_waiting_when_it_is_not() -> None:
    inbox = Inbox()
    calls: list[str] = []
    inbox.say(Read(1, []), INBOX_MAX_BYTES - 1)
    assert not inbox.is_full
    inbox.say(Read(2, []), 1)
    assert inbox.is_full
    inbox.when_room(lambda: calls.append("room"))
    inbox.report(Committed(1))  # is taken though it is full
    assert inbox.take() == [Committed(1), Read(1, []), Read(2, [])]
    assert calls == ["room"] and not inbox.is_full
    inbox.say(Read(3, []), 1)
    inbox.take()
    assert calls == ["room"]


def test_inbox_does_not_call_the_waiting_while_it_is_full() -> None:
    inbox = Inbox()
    calls: list[str] = []
    for _ in range(READS_PER_TURN):
        inbox.say(Read(1, []), 0)
    inbox.say(Read(2, []), INBOX_MAX_BYTES)
    inbox.when_room(lambda: calls.append("room"))
    inbox.take()
    assert calls == []
    inbox.take()
    assert calls == ["room"]
