"""Requests about fanouts."""

from radiator.core.admin.queues import check_there, may_be_named
from radiator.core.admin.request import Request
from radiator.model.administration import DeclareFanout, DeleteFanout, DescribeFanout
from radiator.model.answers import Declared, Deleted, FanoutDescribed
from radiator.model.numbers import Rows
from radiator.model.validation import LOG_PREFIX, fanout_children, mistake


def declare(request: Request, command: DeclareFanout) -> None:
    """A fanout of that name to these queues is there from now on; `passive`: it must be there."""
    destinations, name, given = request.parts.destinations, command.fanout, command.settings
    there = destinations.all_fanouts.get(name) if command.passive else destinations.fanouts.get(name)
    children = fanout_children(given if given or there is None else {"children": there.children})
    if there is None:
        for child in children:
            _check_child(request, child, command.create)
    created = destinations.declare_fanout(name, children)
    if created:
        request.parts.context.note("info", "declared", fanout=name)
    request.answer_synced(lambda: Declared(created))


def _check_child(request: Request, child: str, may_create: bool) -> None:
    """Raises Refusal where a fanout may not have it."""
    destinations, is_log = request.parts.destinations, child.startswith(LOG_PREFIX)
    if not is_log and not may_create:
        check_there(request, child)
    if not (child.removeprefix(LOG_PREFIX) in destinations.logs if is_log else may_be_named(destinations, child)):
        raise mistake("children", f"names {child!r}, which is no {'log' if is_log else 'queue'}; declare it first")


def describe(request: Request, command: DescribeFanout) -> None:
    """Its children, and how much was sent to it."""
    destinations = request.parts.destinations
    fanout = destinations.all_fanouts.get(command.fanout)
    is_shared = fanout.name in destinations.declarations.cluster_fanouts
    outboxes = sorted(queue.name for queue in (*destinations.copies_to, *destinations.copies_dropped) if is_shared)
    request.answer_synced(
        lambda: FanoutDescribed(Rows(iter(fanout.children)), outboxes, fanout.accepted), in_slices=True
    )


def delete(request: Request, command: DeleteFanout) -> None:
    """The fanout goes; its children stay."""
    request.parts.destinations.all_fanouts.delete(command.fanout)
    request.parts.context.note("info", "deleted", fanout=command.fanout)
    request.answer_synced(lambda: Deleted(1))
