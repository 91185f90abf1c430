"""Reads requests for the overview of the broker: its history, the table of queues, and what needs attention."""

from radiator.model.addresses import QUEUE
from radiator.model.checks import shown
from radiator.model.errors import Refusal
from radiator.model.limits import NAME_MAX_BYTES, QUEUE_TABLE_ROWS_MAX, SIZE_MAX, TIME_MAX_MS
from radiator.model.overview import (
    NEEDS,
    SORTS,
    ReadAttention,
    ReadHistory,
    ReadQueueHistory,
    ReadQueueTable,
)
from radiator.protocols.administration.asked import Asked

TABLE_COUNT = 50  # rows of a page, if the request gives no count


def history(asked: Asked) -> ReadHistory | ReadQueueHistory:
    """Reads `history`, of the whole broker or of one queue."""
    asked.has_only("queue", "after_ms")
    after_ms = asked.number("after_ms", TIME_MAX_MS, 0)
    return ReadQueueHistory(asked.name(QUEUE), after_ms) if QUEUE in asked else ReadHistory(after_ms)


def queue_table(asked: Asked) -> ReadQueueTable:
    """Reads `queue-table`: a page of the table of queues."""
    asked.has_only("match", "text", "sort", "first", "count", "filter")
    text = asked.text("text", "a part of the names", "")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > NAME_MAX_BYTES:
        raise Refusal("bad-request", f"`text` has at most {NAME_MAX_BYTES} bytes; it has {size}: {shown(text)}.")
    sort = asked.text("sort", f"one of {', '.join(SORTS)}", "-ready")
    if sort.removeprefix("-") not in SORTS:
        right = f"one of {', '.join(SORTS)}, with - before it for descending"
        raise Refusal("bad-request", f"`sort` must be {right}; it is {shown(sort)}.")
    wanted = asked.text("filter", NEEDS, "")
    if wanted not in ("", NEEDS):
        raise Refusal("bad-request", f"`filter` must be {NEEDS}, or left out; it is {shown(wanted)}.")
    return ReadQueueTable(
        match=asked.pattern("match", QUEUE) if "match" in asked else None,
        text=text,
        by=sort.removeprefix("-"),
        is_descending=sort.startswith("-"),
        first=asked.number("first", SIZE_MAX, 0),
        count=asked.whole("count", TABLE_COUNT, QUEUE_TABLE_ROWS_MAX),
        needs=bool(wanted),
    )


def attention(asked: Asked) -> ReadAttention:
    """Reads `attention`: what needs an operator."""
    asked.has_only()
    return ReadAttention()
