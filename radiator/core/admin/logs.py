"""Requests about logs: where a time is, whether there is more, and where a group goes on."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from radiator.core.logs.log import Log
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.model.administration import (
    AwaitLog,
    AwaitLogs,
    FindOffsets,
    ForgetPosition,
    ReadPosition,
    SetPosition,
)
from radiator.model.answers import (
    AdminAnswer,
    LogEnds,
    LogsEnds,
    Offsets,
    Position,
)
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import TIME_MAX_MS
from radiator.model.numbers import NamedRows
from radiator.model.validation import mistake


class LogsPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def destinations(self) -> Destinations: ...


def existing_log(request: Request[LogsPort], name: str) -> Log:
    """Returns the log of that name, and counts the look at its partitions. Raises Refusal where there is none."""
    log = request.parts.destinations.logs.get(name)
    request.costs(len(log.partitions))
    return log


def offsets(request: Request[LogsPort], command: FindOffsets) -> None:
    """Answers with the offset, for each partition, of the first record accepted at a time or later."""
    log = existing_log(request, command.log)
    answered = request.begin_waiting()

    def done(found: list[int]) -> None:
        answered()
        request.answer(Offsets(found))

    log.find_offsets(command.time_ms, done, lambda: request.connection.is_closing)


# ---- await ----------------------------------------------------------------------------------------------------------


def wait(request: Request[LogsPort], command: AwaitLog) -> None:
    """Answers as soon as there is more than the client knows of, or after a while."""
    log = existing_log(request, command.log)
    _wait(request, [log], command.known, command.timeout_ms, lambda: request.answer(_ends(log)))


def wait_for_several(request: Request[LogsPort], command: AwaitLogs) -> None:
    """Answers as soon as one of several logs has more than the client knows."""
    logs = [request.parts.destinations.logs.get(name) for name in command.logs]
    request.costs(sum(len(log.partitions) for log in logs))

    def ends() -> AdminAnswer:
        return LogsEnds(NamedRows((log.bare_name, _ends(log)) for log in logs))

    _wait(request, logs, command.known, command.timeout_ms, lambda: request.answer_in_slices(ends))


def _wait(
    request: Request[LogsPort], logs: list[Log], known: Sequence[int], timeout_ms: int, answer: Callable[[], None]
) -> None:
    """Calls `answer` once, when one of them has more or time is up, or refuses if one of them has gone."""
    nexts = iter(_by_partition("next", known, *logs))
    before = [(log, [*islice(nexts, len(log.partitions))]) for log in logs]
    answered = request.begin_waiting()
    is_answered = False

    def done() -> None:
        nonlocal is_answered
        if is_answered:
            return
        is_answered = True
        answered()
        gone = next((log for log in logs if log.is_gone), None)
        if gone is not None:
            request.refuse(Refusal("no-such-destination", f"{gone.name} has been deleted."))
        else:
            answer()

    for log, nexts_of_one in before:
        log.wait(nexts_of_one, timeout_ms, done, lambda: is_answered or request.connection.is_closing)


def _ends(log: Log) -> LogEnds:
    return LogEnds([one.committed for one in log.partitions], [one.first for one in log.partitions])


def _by_partition(key: str, offsets: Sequence[int], *logs: Log) -> list[int]:
    """Returns the offsets, if there is one for each partition, log after log. Raises Refusal for anything else."""
    count = sum(len(log.partitions) for log in logs)
    if not isinstance(offsets, list | tuple) or len(offsets) != count:
        raise mistake(
            key, f"must be a list of {count_text(count, 'offset')}, one for each partition; it is {offsets!r:.80}"
        )
    for one in offsets:
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one <= TIME_MAX_MS:
            raise mistake(key, f"has {one!r:.80}; an offset is a whole number from 0 on")
    return [*offsets]


# ---- where a group goes on ------------------------------------------------------------------------------------------


def position(request: Request[LogsPort], command: ReadPosition) -> None:
    """Answers with the position of a group."""
    _answer_position(request, existing_log(request, command.log), command.group)


def set_position(request: Request[LogsPort], command: SetPosition) -> None:
    """Sets the position of a group."""
    log = existing_log(request, command.log)
    log.set_position(command.group, _by_partition("offsets", command.offsets, log))
    _answer_position(request, log, command.group)


def forget_position(request: Request[LogsPort], command: ForgetPosition) -> None:
    """Forgets a group, as if it had never been."""
    log = existing_log(request, command.log)
    log.forget(command.group)
    _answer_position(request, log, command.group)


def _answer_position(request: Request[LogsPort], log: Log, group: str) -> None:
    found = log.groups.get(group)
    # as of now: what is acked after this is in a later batch
    at = None if found is None else [*found.positions]
    request.answer_synced(lambda: Position(at))
