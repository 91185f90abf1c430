"""Requests about fanouts."""

from radiator.broker.admin.queues import may_be_named
from radiator.broker.admin.request import Request
from radiator.declaring import fanout_children, mistake


def declare(request: Request) -> None:
    """A fanout of that name to these queues is there from now on; `passive`: it must be there."""
    destinations = request.broker.destinations
    name, given, is_passive = request.declaration("fanout")
    there = destinations.fanout(name) if is_passive else destinations.fanouts.get(name)
    children = fanout_children(given if given or there is None else {"children": there.children})
    if there is None:
        for child in children:
            if not may_be_named(request.broker, child):
                raise mistake("children", f"names {child!r}, which is no queue; declare it first")
    created = destinations.declare_fanout(name, children)
    if created:
        request.broker.desk.note("info", "declared", fanout=name)
    request.answer_synced(lambda: {"created": created})


def describe(request: Request) -> None:
    """Its children, and how much was sent to it."""
    request.has_only("fanout")
    fanout = request.broker.destinations.fanout(request.name("fanout"))
    request.answer_synced(lambda: {"children": list(fanout.children), "accepted": fanout.accepted})


def delete(request: Request) -> None:
    """The fanout goes; its children stay."""
    request.has_only("fanout")
    name = request.name("fanout")
    request.broker.destinations.delete_fanout(name)
    request.broker.desk.note("info", "deleted", fanout=name)
    request.answer_synced(lambda: {"deleted": 1})
