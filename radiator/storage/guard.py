"""Rejects a contradictory batch before any of it reaches the disk: a bug of the broker, never of a client. Pure.

The guard knows which queues and logs exist, and which messages are in doubt, from what the start found and the batches
since. Checks that need the tables are made where the operations are carried out (codec/operations.py).
"""

from collections.abc import Sequence

from radiator.model.recovery import Recovery
from radiator.model.writes import (
    Append,
    AppendEvent,
    Bind,
    Declare,
    DeclareLog,
    Delay,
    Doubt,
    DropLog,
    KeepPosition,
    KeepSettings,
    Remove,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    Write,
)

_IN_QUEUES = frozenset({Delay, SaveLedger})
_CHANGES = frozenset(
    {
        Append, AppendEvent, Bind, Declare, DeclareLog, Doubt, DropLog, KeepPosition, KeepSettings, Retire, Settle,
        StoppedClean,
    }
)  # fmt: skip
_JUDGED = _IN_QUEUES | _CHANGES

InDoubt = dict[tuple[str, int], tuple[int, int]]
"""The message's queue and position, by peer and sequence."""


class Guard:
    """`judge` each batch, in order; after an AssertionError nothing more may be committed."""

    def __init__(self, recovery: Recovery) -> None:
        self._next_number = recovery.next_queue  # of queues and logs
        self._queues = {queue.number for queue in recovery.queues}
        self._logs = {log.number for log in recovery.logs if log.name}
        self._in_doubt: InDoubt = {
            (doubt.peer, doubt.sequence): (doubt.queue, doubt.position) for doubt in recovery.doubts
        }
        self._has_stopped = False

    def judge(self, writes: Sequence[Write]) -> None:
        """Raises AssertionError where the batch contradicts itself or those before it (contract.py)."""
        assert not self._has_stopped, "nothing may be committed after a clean stop"
        judged = [write for write in writes if write.__class__ in _JUDGED]
        gone = {write.queue for write in judged if write.__class__ in _IN_QUEUES} - self._queues  # type: ignore[union-attr]
        changes = [write for write in judged if write.__class__ in _CHANGES]
        if gone:
            # else the next start would find a ledger without a queue
            gone -= {write.queue for write in changes if isinstance(write, Declare)}
            assert not gone, f"something is written in the queues {gone}, which are not there"
        in_doubt = self._in_doubt_after(changes) if changes else self._in_doubt
        if in_doubt:
            _assert_doubts_stay(in_doubt, writes)
        if changes:
            self._judge_changes(changes)
        self._in_doubt = in_doubt

    def _judge_changes(self, changes: Sequence[Write]) -> None:
        declared_logs = {write.log for write in changes if isinstance(write, DeclareLog)}
        for write in changes:
            if isinstance(write, (Append, AppendEvent)):
                is_there = write.log in self._logs or write.log in declared_logs
                assert is_there, f"log {write.log} is appended to, but is not there"
            else:
                self._judge_one(write)

    def _judge_one(self, write: Write) -> None:
        """Judges one write, in the order of the batch: what the batch has declared exists, what it has deleted no
        longer does.
        """
        if isinstance(write, Declare):
            self._give_number(write.queue)
            self._queues.add(write.queue)
        elif isinstance(write, DeclareLog):
            self._give_number(write.log)
            self._logs.add(write.log)
        elif isinstance(write, Retire):
            assert write.queue in self._queues, f"queue number {write.queue} is retired, but is not there"
            self._queues.remove(write.queue)
        elif isinstance(write, DropLog):
            assert write.log in self._logs, f"log number {write.log} is dropped, but is not there"
            self._logs.remove(write.log)
        elif isinstance(write, KeepPosition):
            assert write.log in self._logs, f"{write} of a log that is not there"
        elif isinstance(write, KeepSettings | Bind):
            is_there = write.queue in self._queues or write.queue in self._logs
            assert is_there, f"{write} of a queue or log that is not there"
        elif isinstance(write, StoppedClean):
            self._has_stopped = True

    def _give_number(self, number: int) -> None:
        assert number >= self._next_number, f"queue number {number} was used before"
        self._next_number = number + 1

    def _in_doubt_after(self, changes: Sequence[Write]) -> InDoubt:
        """Returns which message is in doubt once these are carried out."""
        doubts = [write for write in changes if isinstance(write, (Doubt, Settle))]
        if not doubts:
            return self._in_doubt
        in_doubt = self._in_doubt.copy()
        for write in doubts:
            key = (write.peer, write.sequence)
            if isinstance(write, Doubt):
                assert key not in in_doubt, f"sequence {write.sequence} of {write.peer} is in doubt already"
                in_doubt[key] = (write.queue, write.position)
            else:
                is_settled = in_doubt.pop(key, None) is not None
                assert is_settled, f"a Settle of {write.sequence} of {write.peer}, which is not in doubt"
        return in_doubt


def _assert_doubts_stay(in_doubt: InDoubt, writes: Sequence[Write]) -> None:
    """Asserts that no message is in doubt twice, and that neither it nor its queue is removed while it is in doubt."""
    messages = set(in_doubt.values())
    assert len(messages) == len(in_doubt), "a message is in doubt twice"
    for write in writes:
        if isinstance(write, Remove):
            assert (write.queue, write.position) not in messages, f"{write} of a message in doubt"
    retired = {write.queue for write in writes if isinstance(write, Retire)}
    if retired:
        assert retired.isdisjoint(queue for queue, _ in messages), f"of {retired} a queue has messages in doubt"
