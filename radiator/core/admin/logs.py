"""Requests about logs: declare, describe, delete, where a time is, whether there is more, and where a group goes on."""

from dataclasses import asdict
from itertools import islice

from radiator.core.admin import unbinding
from radiator.core.admin.request import Request
from radiator.core.answers import Answer, Part
from radiator.core.logs.log import LOG_PREFIX, Log
from radiator.core.stats import readers_of
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import AWAIT_MAX_MS, AWAITED_LOGS_MAX, DESCRIBED_GROUPS, NAME_MAX_BYTES, TIME_MAX_MS
from radiator.model.validation import log_settings, log_without_effect, mistake


def named(request: Request) -> Log:
    """The log that the request names. Raises Refusal where it is not there."""
    log = request.parts.destinations.all_logs.get(request.name("log"))
    request.costs(len(log.partitions))
    return log


def declare(request: Request) -> None:
    """A log of that name with these settings is there from now on; `passive`: it must be there."""
    destinations = request.parts.destinations
    name, given, is_passive = request.declaration("log")
    there = destinations.all_logs.get(name) if is_passive else destinations.logs.get(name)
    settings = log_settings(given, None if there is None else there.log_settings)
    created = destinations.all_logs.declare(name, settings)
    if created:
        request.parts.context.note("info", "declared", log=name)
    warnings = request.warnings(given, log_without_effect(settings, request.parts.disk.high_water_bytes))
    request.answer_synced(lambda: {"created": created, **warnings})


def describe(request: Request) -> None:
    """Settings, what each partition has on the disk, and who reads it."""
    request.has_only("log")
    log = named(request)

    def synced() -> Answer:
        partitions = log.partitions
        return {
            "settings": asdict(log.log_settings),
            "incarnation": log.incarnation,
            "partitions": {
                "first": [one.first for one in partitions],
                "next": [one.committed for one in partitions],
                "bytes": [one.size for one in partitions],
                "first_ms": [one.first_ms or None for one in partitions],
                "last_ms": [one.last_ms or None for one in partitions],
            },
            "readers": readers_of(log),
            "groups": Part(iter([*islice(log.groups, DESCRIBED_GROUPS)])),
        }

    request.answer_synced(synced, in_slices=True)


def delete(request: Request) -> None:
    """The log goes, with its records and the positions of its groups."""
    request.has_only("log")
    log = named(request)
    destinations = request.parts.destinations
    destinations.all_logs.check_unused(log)

    def undo(binding: tuple[str, str]) -> None:
        if binding in destinations.bindings_of(log):
            destinations.exchanges.undo(*binding, log)

    if unbinding.begins(request, lambda: [*destinations.bindings_of(log)], undo, delete):
        return
    count = destinations.all_logs.delete(log)
    request.parts.context.note("info", "deleted", log=log.bare_name, records=count)
    request.answer_synced(lambda: {"deleted": count})


def offsets(request: Request) -> None:
    """Of each partition that of the first record accepted at a time or later."""
    request.has_only("log", "time_ms")
    log = named(request)
    time_ms = request.number("time_ms", TIME_MAX_MS)
    answered = request.begin_waiting()

    def done(found: list[int]) -> None:
        answered()
        request.answer(offsets=found)

    log.tell_offsets(time_ms, done, lambda: request.connection.is_closing)


def wait(request: Request) -> None:
    """`await`: answered as soon as there is more than the asker knows of, in one of these logs, or after a while."""
    request.has_only("log", "next", "logs", "timeout_ms")
    is_of_several = "logs" in request.asked
    logs = _several(request) if is_of_several else [named(request)]
    nexts = iter(_offsets(request, "next", *logs))
    known = [(log, [*islice(nexts, len(log.partitions))]) for log in logs]
    timeout_ms = request.number("timeout_ms", AWAIT_MAX_MS)
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
        elif is_of_several:
            request.answer_in_slices(lambda: {"logs": Part(((log.bare_name, _ends(log)) for log in logs), "{}")})
        else:
            request.answer(**_ends(logs[0]))

    for log, before in known:
        log.wait(before, timeout_ms, done, lambda: is_answered or request.connection.is_closing)


def _several(request: Request) -> list[Log]:
    """Those that `logs` names. Raises Refusal."""
    names = request.asked["logs"]
    if "log" in request.asked:
        raise mistake("logs", "stands instead of `log`: one request has either")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise mistake("logs", f"must be a list of names; it is {names!r:.80}")
    if not 1 <= len(set(names)) == len(names) <= AWAITED_LOGS_MAX:
        raise mistake("logs", f"must be 1 to {AWAITED_LOGS_MAX} names, each once; it has {len(names)}")
    logs = [request.parts.destinations.all_logs.get(name.removeprefix(LOG_PREFIX)) for name in names]
    request.costs(sum(len(log.partitions) for log in logs))
    return logs


def _ends(log: Log) -> Answer:
    return {"next": [one.committed for one in log.partitions], "first": [one.first for one in log.partitions]}


def position(request: Request) -> None:
    """Where a group goes on; with `offsets` from there, with `forget` as one that never was."""
    request.has_only("log", "group", "offsets", "forget")
    log = named(request)
    group = _group(request)
    is_forgotten = request.flag("forget", False)
    if "offsets" in request.asked:
        if is_forgotten:
            raise mistake("forget", "is true, and `offsets` sets the position; one request does one of them")
        log.set_position(group, _offsets(request, "offsets", log))
    elif is_forgotten:
        log.forget(group)

    found = log.groups.get(group)
    # as of now: what is acked after this is in a later batch
    at = None if found is None else [*found.positions]
    request.answer_synced(lambda: {"offsets": at})


def _group(request: Request) -> str:
    """Its name: what SUBSCRIBE may say, so control characters too, but nothing that is no UTF-8."""
    group = request.text("group", "the name of a group")
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= NAME_MAX_BYTES:
        raise mistake("group", f"must be a name of 1 to {NAME_MAX_BYTES} bytes of UTF-8; it is {group!r:.80}")
    return group


def _offsets(request: Request, key: str, *logs: Log) -> list[int]:
    """A list of one offset for each partition, of one log after the other."""
    found = request.asked.get(key)
    count = sum(len(log.partitions) for log in logs)
    if not isinstance(found, list) or len(found) != count:
        raise mistake(
            key, f"must be a list of {count_text(count, 'offset')}, one for each partition; it is {found!r:.80}"
        )
    for one in found:
        if not isinstance(one, int) or isinstance(one, bool) or not 0 <= one <= TIME_MAX_MS:
            raise mistake(key, f"has {one!r:.80}; an offset is a whole number from 0 on")
    return found
