"""Requests about fanouts."""

from radiator.core.admin.queues import check_there, may_be_named
from radiator.core.admin.request import Request
from radiator.core.answers import Part
from radiator.model.validation import LOG_PREFIX, fanout_children, mistake


def declare(request: Request) -> None:
    """A fanout of that name to these queues is there from now on; `passive`: it must be there."""
    parts, destinations = request.parts, request.parts.destinations
    name, given, is_passive = request.declaration("fanout")
    there = destinations.all_fanouts.get(name) if is_passive else destinations.fanouts.get(name)
    may_create = request.flag("create", True)
    children = fanout_children(given if given or there is None else {"children": there.children})
    if there is None:
        for child in children:
            is_log = child.startswith(LOG_PREFIX)
            if not is_log and not may_create:
                check_there(request, child)
            if not (child.removeprefix(LOG_PREFIX) in destinations.logs if is_log else may_be_named(parts, child)):
                raise mistake(
                    "children", f"names {child!r}, which is no {'log' if is_log else 'queue'}; declare it first"
                )
    created = destinations.declare_fanout(name, children)
    if created:
        request.parts.context.note("info", "declared", fanout=name)
    request.answer_synced(lambda: {"created": created})


def describe(request: Request) -> None:
    """Its children, and how much was sent to it."""
    request.has_only("fanout")
    fanout = request.parts.destinations.all_fanouts.get(request.name("fanout"))
    destinations = request.parts.destinations
    is_shared = fanout.name in destinations.declarations.cluster_fanouts
    outboxes = sorted(queue.name for queue in (*destinations.copies_to, *destinations.copies_dropped) if is_shared)
    request.answer_synced(
        lambda: {"children": Part(iter(fanout.children)), "outboxes": outboxes, "accepted": fanout.accepted},
        in_slices=True,
    )


def delete(request: Request) -> None:
    """The fanout goes; its children stay."""
    request.has_only("fanout")
    name = request.name("fanout")
    request.parts.destinations.all_fanouts.delete(name)
    request.parts.context.note("info", "deleted", fanout=name)
    request.answer_synced(lambda: {"deleted": 1})
