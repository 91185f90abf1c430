"""Requests about logs: declare, describe, delete, where a time is, whether there is more, and where a group goes on."""

from collections.abc import Callable, Sequence
from itertools import islice

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request, warnings
from radiator.core.logs.log import Log
from radiator.core.stats import readers_of
from radiator.model.administration import (
    AwaitLog,
    AwaitLogs,
    DeclareLog,
    DeleteLog,
    DescribeLog,
    FindOffsets,
    ForgetPosition,
    ReadPosition,
    SetPosition,
)
from radiator.model.answers import (
    AdminAnswer,
    Declared,
    Deleted,
    LogDescribed,
    LogEnds,
    LogsEnds,
    Offsets,
    PartitionsDescribed,
    Position,
)
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import DESCRIBED_GROUPS, TIME_MAX_MS
from radiator.model.numbers import NamedRows, Rows
from radiator.model.validation import log_settings, log_without_effect, mistake


def there(request: Request, name: str) -> Log:
    """The log of that name. Raises Refusal where it is not there."""
    log = request.parts.destinations.all_logs.get(name)
    request.costs(len(log.partitions))
    return log


def declare(request: Request, command: DeclareLog) -> None:
    """A log of that name with these settings is there from now on; `passive`: it must be there."""
    destinations, name = request.parts.destinations, command.log
    log = destinations.all_logs.get(name) if command.passive else destinations.logs.get(name)
    settings = log_settings(command.settings, None if log is None else log.log_settings)
    created = destinations.all_logs.declare(name, settings)
    if created:
        request.parts.context.note("info", "declared", log=name)
    useless = log_without_effect(settings, request.parts.disk.high_water_bytes)
    answer = Declared(created, warnings(command.settings, useless))
    request.answer_synced(lambda: answer)


def describe(request: Request, command: DescribeLog) -> None:
    """Settings, what each partition has on the disk, and who reads it."""
    log = there(request, command.log)

    def described() -> LogDescribed:
        partitions = log.partitions
        return LogDescribed(
            settings=log.log_settings,
            incarnation=log.incarnation,
            partitions=PartitionsDescribed(
                first=[one.first for one in partitions],
                next=[one.committed for one in partitions],
                bytes=[one.size for one in partitions],
                first_ms=[one.first_ms or None for one in partitions],
                last_ms=[one.last_ms or None for one in partitions],
            ),
            readers=readers_of(log),
            groups=Rows(iter([*islice(log.groups, DESCRIBED_GROUPS)])),
        )

    request.answer_synced(described, in_slices=True)


def delete(request: Request, command: DeleteLog) -> None:
    """The log goes, with its records and the positions of its groups."""
    log = there(request, command.log)
    destinations = request.parts.destinations
    destinations.all_logs.check_unused(log)

    def undo(binding: tuple[str, str]) -> None:
        if binding in destinations.bindings_of(log):
            destinations.exchanges.undo(*binding, log)

    if unbinding.begins(request, lambda: [*destinations.bindings_of(log)], undo, lambda: delete(request, command)):
        return
    count = destinations.all_logs.delete(log)
    request.parts.context.note("info", "deleted", log=log.bare_name, records=count)
    request.answer_synced(lambda: Deleted(count))


def offsets(request: Request, command: FindOffsets) -> None:
    """Of each partition that of the first record accepted at a time or later."""
    log = there(request, command.log)
    answered = request.begin_waiting()

    def done(found: list[int]) -> None:
        answered()
        request.answer(Offsets(found))

    log.tell_offsets(command.time_ms, done, lambda: request.connection.is_closing)


# ---- await ----------------------------------------------------------------------------------------------------------


def wait(request: Request, command: AwaitLog) -> None:
    """Answered as soon as there is more than the asker knows of, or after a while."""
    log = there(request, command.log)
    _wait(request, [log], command.known, command.timeout_ms, lambda: request.answer(_ends(log)))


def wait_for_several(request: Request, command: AwaitLogs) -> None:
    """The same of several logs: as soon as there is more in one of them."""
    logs = [request.parts.destinations.all_logs.get(name) for name in command.logs]
    request.costs(sum(len(log.partitions) for log in logs))

    def ends() -> AdminAnswer:
        return LogsEnds(NamedRows((log.bare_name, _ends(log)) for log in logs))

    _wait(request, logs, command.known, command.timeout_ms, lambda: request.answer_in_slices(ends))


def _wait(request: Request, logs: list[Log], known: Sequence[int], timeout_ms: int, answer: Callable[[], None]) -> None:
    """Call `answer` once, or refuse where one of them has gone."""
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
    """Them, one for each partition, of one log after the other. Raises Refusal for anything else."""
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


def position(request: Request, command: ReadPosition) -> None:
    """Where a group goes on."""
    _answer_position(request, there(request, command.log), command.group)


def set_position(request: Request, command: SetPosition) -> None:
    """From there, from now on."""
    log = there(request, command.log)
    log.set_position(command.group, _by_partition("offsets", command.offsets, log))
    _answer_position(request, log, command.group)


def forget_position(request: Request, command: ForgetPosition) -> None:
    """As one that never was."""
    log = there(request, command.log)
    log.forget(command.group)
    _answer_position(request, log, command.group)


def _answer_position(request: Request, log: Log, group: str) -> None:
    found = log.groups.get(group)
    # as of now: what is acked after this is in a later batch
    at = None if found is None else [*found.positions]
    request.answer_synced(lambda: Position(at))
