"""The request `why`: why nothing moves in a queue, or to the readers of a log. One word, one sentence, and the numbers.

The first reason that fits is the verdict; each is a row in the order of what an operator should look at first.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from radiator.broker.admin.logs import named as named_log
from radiator.broker.admin.queues import named
from radiator.broker.admin.request import Answer, Request
from radiator.broker.consumers import Subscription
from radiator.broker.kinds.durable_queue import DurableQueue
from radiator.broker.kinds.log import Log
from radiator.broker.kinds.queue import Queue
from radiator.broker.stats import of_queue as numbers_of
from radiator.commands import AUTO
from radiator.limits import WHY_CONSUMERS

if TYPE_CHECKING:
    from radiator.broker.broker import Broker

# where a consumer stands
CLOSING, OUTBOX, WINDOW, ROOM = "closing", "outbox-full", "window", "has-room"


# ---- a queue --------------------------------------------------------------------------------------------------------


def queue(request: Request) -> None:
    """Of a queue."""
    request.has_only("queue")
    asked = named(request)
    verdict, sentence = of_queue(request.broker, asked)
    request.answer(
        verdict=verdict,
        sentence=sentence,
        **numbers_of(asked, request.broker.checkouts.count(asked)),
        **_rooms(request.broker),
        next_due_ms=asked.next_due_ms or None,
        consumer_list=_listed(asked.subscriptions),
    )


def of_queue(broker: "Broker", asked: Queue) -> tuple[str, str]:
    """The verdict, and its sentence."""
    verdict, sentence = _of_ready(asked) if asked.ready_count else _of_none_ready(broker, asked)
    if asked.waiters:
        many = _many(len(asked.waiters), "producer waits", "producers wait")
        sentence += f" {many} for room in it: it is full, and its policy is to block."
    elif verdict != "disk-tight" and broker.intake.disk_room.is_tight:
        sentence += " And the disk is nearly full: nothing more is taken in anywhere."
    return verdict, sentence


def _of_ready(asked: Queue) -> tuple[str, str]:
    """Messages are ready, and nobody takes them."""
    ready = _many(asked.ready_count, "message is ready", "messages are ready")
    if not asked.subscriptions:
        return "no-consumer", f"{ready}, and nobody is subscribed."
    if any(_stands(one) == ROOM for one in asked.subscriptions):
        if isinstance(asked, DurableQueue) and not asked.ready and not asked.returned:
            return "loading", f"{ready}, and being read back from the disk; a consumer has room for them."
        return "moving", f"{ready}, and a consumer has room: nothing stands in the way."
    at = [_stands(one) for one in asked.subscriptions]
    consumers = _many(len(at), "consumer", "consumers")
    if OUTBOX in at and WINDOW not in at:
        return "outbox-full", f"{ready}, but no connection of the {consumers} reads what was sent to it."
    worst = max((one for one in asked.subscriptions if _stands(one) == WINDOW), key=_unacked, default=None)
    if worst is None:
        return "closing", f"{ready}, but every connection of the {consumers} is being closed."
    return "window", (
        f"{ready}, but no window of the {consumers} has room: {len(asked.entries_out)} are unacked. Connection "
        f"{worst.connection.number} has {_unacked(worst)} of {_window(worst)}."
    )


def _of_none_ready(broker: "Broker", asked: Queue) -> tuple[str, str]:
    """No message is ready."""
    numbers = numbers_of(asked)
    taken = broker.checkouts.count(asked)
    out, doubtful, delayed, storing = (numbers[name] for name in ("in_flight", "in_doubt", "delayed", "storing"))
    if out:
        holders = {delivery.subscription.connection.number for delivery in asked.entries_out.values()}
        who = f"connection {min(holders)}" if len(holders) == 1 else f"{len(holders)} connections"
        return "in-flight", f"No message is ready; {out} are out with {who}, and not acked yet."
    if doubtful:
        return "in-doubt", (
            f"No message is ready; {doubtful} are offered to another node, which has not said yet that it has them: "
            "`radiator peers` says which."
        )
    if storing:
        return "storing", f"No message is ready; {storing} are on their way to the disk."
    if asked.damaged:
        return "damaged", f"No message is ready; {asked.damaged} cannot be read: `radiator check` says why."
    if asked.is_waking:
        return "waking", f"No message is ready; of {delayed} delayed ones some are due, and being put at their places."
    if delayed:
        seconds = max(0, asked.next_due_ms - broker.desk.now_ms) / 1000
        return "delayed", f"No message is ready; {delayed} wait for their time, the first for {seconds:.1f} s more."
    if taken:
        return "checked-out", (
            f"No message is ready; {taken} are checked out: their group acks them, "
            "or `radiator release` puts them back."
        )
    if broker.intake.disk_room.is_tight:
        return "disk-tight", "It is empty, and the disk is nearly full: producers wait until there is room."
    if broker.intake.memory_room.is_tight:
        return "memory-tight", "It is empty, and the broker's memory is nearly used up: producers wait."
    return "empty", "It is empty: whatever was sent to it is done with."


# ---- a log ----------------------------------------------------------------------------------------------------------


def log(request: Request) -> None:
    """Of a log."""
    request.has_only("log")
    asked = named_log(request)
    unread = {
        name: sum(max(0, part.committed - at) for part, at in zip(asked.partitions, group.positions, strict=True))
        for name, group in islice(sorted(asked.groups.items()), WHY_CONSUMERS)
    }
    readers = asked.all_readers()
    verdict, sentence = of_log(asked, [one.subscription for one in readers], unread)
    request.answer(
        verdict=verdict,
        sentence=sentence,
        records=asked.records,
        readers=len(readers),
        groups=len(asked.groups),
        unread=unread,
        **_rooms(request.broker),
        consumer_list=_listed(one.subscription for one in readers),
    )


def of_log(asked: Log, readers: list[Subscription], unread: dict[str, int]) -> tuple[str, str]:
    records = _many(asked.records, "record", "records")
    most = max(unread, key=lambda name: unread[name], default=None)
    behind = f" Group {most!r:.80} is {unread[most]} behind." if most is not None and unread[most] else ""
    if not asked.records:
        return "empty", "It has no record."
    if not readers:
        return "no-consumer", f"It has {records}, and nobody reads it.{behind}"
    at = [_stands(one) for one in readers]
    if most is not None and not behind and len(unread) == len(asked.groups) and len(asked.groups) >= len(readers):
        return "done", f"It has {records}, and its groups have acked them all."
    if ROOM in at:
        return "moving", f"It has {records}, and a reader has room: nothing stands in the way.{behind}"
    if WINDOW in at:
        worst = max((one for one in readers if _stands(one) == WINDOW), key=_unacked)
        return "window", (
            f"No window of its {len(at)} readers has room: connection {worst.connection.number} has {_unacked(worst)} "
            f"unacked, of {_window(worst)}.{behind}"
        )
    return "outbox-full", f"No connection of its {len(at)} readers reads what was sent to it.{behind}"


# ---- who ------------------------------------------------------------------------------------------------------------


def _stands(one: Subscription) -> str:
    """What keeps a consumer from the next message, or ROOM."""
    connection = one.connection
    if connection.is_closing:
        return CLOSING
    if connection.outbox_bytes >= connection.outbox_max_bytes:
        return OUTBOX
    return ROOM if one.has_window() else WINDOW


def _unacked(one: Subscription) -> int:
    return one.connection.shared_in_flight if one.is_shared else one.in_flight


def _window(one: Subscription) -> int | None:
    """None: it has none (ack:auto)."""
    if one.ack == AUTO:
        return None
    return one.connection.shared_window if one.is_shared else one.prefetch_count


def _listed(consumers: Iterable[Subscription]) -> list[Answer]:
    """The first of them."""
    return [
        {
            "connection": one.connection.number,
            "subscription": one.name.decode("utf-8", "replace"),
            "stands": _stands(one),
            "unacked": _unacked(one),
            "window": _window(one),
            "outbox_bytes": one.connection.outbox_bytes,
        }
        for one in islice(consumers, WHY_CONSUMERS)
    ]


def _rooms(broker: "Broker") -> Answer:
    """Producers that wait for what is not this queue's."""
    intake = broker.intake
    return {
        "blocked_by_disk": len(intake.disk_room.waiters),
        "blocked_by_memory": len(intake.memory_room.waiters),
        "is_disk_tight": intake.disk_room.is_tight,
        "is_memory_tight": intake.memory_room.is_tight,
    }


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
