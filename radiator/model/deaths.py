"""Where a message has died: what is written into one that goes on by an exchange, and how one that circulates is found.

A Death stands for all deaths in one queue with one reason; the newest comes first. They are one line of the header
block, `x-death`, which is JSON; docs/PROTOCOL.md describes it. RabbitMQ has the same, by the same rules.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from radiator.model.headers import X_DEATH
from radiator.model.limits import DEATHS_BYTES, DEATHS_MAX
from radiator.model.message import Message

REJECTED = "rejected"  # the one reason that somebody has decided on
_COUNT_MAX = 2**63 - 1  # stays: what a client's number holds


@dataclass(frozen=True, slots=True)
class Death:
    """exchange, routing_keys: what the message was sent to, before it died there first; "": the default exchange.
    time_s: when it died there last, in seconds since the epoch. is_first: the message died there before anywhere else.
    """

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    time_s: int
    is_first: bool = False


def deaths_in(message: Message) -> list[Death]:
    """The deaths in its header; none if its line is not as brokers write it."""
    value = message.field(X_DEATH)
    if value is None or len(value) > DEATHS_BYTES:
        return []
    try:
        rows = json.loads(value)
    except (ValueError, RecursionError):
        return []
    if not isinstance(rows, list) or len(rows) > DEATHS_MAX:
        return []
    found = [_death(row) for row in rows]
    return [death for death in found if death is not None]


def with_death(deaths: Sequence[Death], one: Death) -> list[Death]:
    """The deaths with one more: in front, and counted if it has happened before."""
    for index, there in enumerate(deaths):
        if (there.queue, there.reason) == (one.queue, one.reason):
            again = replace(there, count=min(there.count + 1, _COUNT_MAX), time_s=one.time_s)
            return [again, *deaths[:index], *deaths[index + 1 :]]
    return [replace(one, is_first=not deaths), *deaths]


def comes_round(deaths: Sequence[Death], queue: str) -> bool:
    """Whether a message with these deaths comes back to the queue although nobody has rejected it since it died there:
    it would go round for ever.
    """
    for death in deaths:
        if death.reason == REJECTED:
            return False
        if death.queue == queue:
            return True
    return False


def as_line(deaths: Sequence[Death], escaping: int) -> tuple[bytes, bool]:
    """The line of the block; and whether the message has died in more places than are kept, and nobody has rejected it
    in any of these: then it may go round too, so slowly that `comes_round` does not see it.

    Of too many the oldest are forgotten, but not the first.
    """
    kept = list(deaths)
    line = X_DEATH.line(_text(kept), escaping)
    while len(kept) > DEATHS_MAX or len(line) > DEATHS_BYTES:
        del kept[-2 if kept[-1].is_first else -1]
        line = X_DEATH.line(_text(kept), escaping)
    is_cut = len(kept) < len(deaths)
    return line, is_cut and all(death.reason != REJECTED for death in kept[:-1])


def _text(deaths: Sequence[Death]) -> bytes:
    rows = []
    for death in deaths:
        row = {
            "queue": death.queue,
            "reason": death.reason,
            "count": death.count,
            "exchange": death.exchange,
            "routing-keys": death.routing_keys,
            "time": death.time_s,
        }
        rows.append(row | {"first": True} if death.is_first else row)
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()


def _death(row: object) -> Death | None:
    """None: it is none."""
    if not isinstance(row, dict):
        return None
    texts = [row.get(key) for key in ("queue", "reason", "exchange")]
    numbers = [row.get(key) for key in ("count", "time")]
    keys = row.get("routing-keys")
    if not isinstance(keys, list) or not all(isinstance(one, str) for one in (*texts, *keys)):
        return None
    if not all(type(one) is int and 0 <= one <= _COUNT_MAX for one in numbers):
        return None
    queue, reason, exchange = map(str, texts)
    count, time_s = (int(str(one)) for one in numbers)
    return Death(queue, reason, count, exchange, tuple(keys), time_s, row.get("first") is True)
