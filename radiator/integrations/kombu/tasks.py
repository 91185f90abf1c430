"""What Celery means by the headers of a task that was not published by kombu.

Such a message comes with headers of STOMP, which are text, where Celery has numbers, lists and None: `retries:0` for 0,
`timelimit:[null,null]` for two times None, an empty `eta` for None. A worker that took them unchanged would crash.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

LIMIT_MAX_S = 1_000_000_000

_NUMBER = re.compile(r"[0-9]{1,9}")
_MILLISECONDS = re.compile(r"[0-9]{10,14}")  # a time of ISO 8601 without a sign in it has 8 digits at most
_NEVER = "0"


def task_headers(headers: Mapping[str, str], message_id: str) -> dict[str, Any]:
    """The headers as Celery has them, if there is one called `task`; otherwise unchanged.

    An empty one is left out, and a task without an `id` gets that of its message. Raises ValueError for an invalid one.
    """
    if "task" not in headers:
        return dict(headers)
    found: dict[str, Any] = {}
    for name, text in headers.items():
        if text or name not in _NONE_WHERE_EMPTY:
            found[name] = _READERS[name](text) if name in _READERS else text
    found.setdefault("id", message_id)
    return {name: value for name, value in found.items() if value is not None or name not in _NONE_WHERE_EMPTY}


def queue_of(reply_to: str) -> str:
    """The queue of a `reply_to`: a task published over AMQP is answered at a queue, which STOMP shows as an address."""
    return reply_to.removeprefix("/queue/")


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r:.100} is not a whole number, as a task has it in retries and group_index.")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r:.100} is neither true nor false, as a task has it in ignore_result.")
    return text.lower() == "true"


def _time_limits(text: str) -> Any:
    """The hard and the soft limit, in seconds."""
    limits = _json(text)
    if limits is not None and not (isinstance(limits, list) and len(limits) == 2 and all(map(_is_limit, limits))):
        raise ValueError(f"{text!r:.100} are no time limits of a task: [null, 60] would be.")
    return limits


def _is_limit(limit: object) -> bool:
    return limit is None or (
        isinstance(limit, int | float) and not isinstance(limit, bool) and 0 <= limit <= LIMIT_MAX_S
    )


def _names(text: str) -> Any:
    names = _json(text)
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{text!r:.100} are no stamped_headers of a task, which are a list of names.")
    return names


def _stamps(text: str) -> Any:
    stamps = _json(text)
    if stamps is not None and not isinstance(stamps, dict):
        raise ValueError(f"{text!r:.100} are no stamps of a task, which are an object.")
    return stamps


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text!r:.100} is not JSON, as a task has it in timelimit and stamps.") from None


def _expires(text: str) -> str | None:
    """The time that Celery expects; the broker has milliseconds in a header of that name."""
    if text == _NEVER:
        return None
    return datetime.fromtimestamp(int(text) / 1000, UTC).isoformat() if _MILLISECONDS.fullmatch(text) else text


_READERS: dict[str, Callable[[str], Any]] = {
    "expires": _expires,
    "group_index": _number,
    "ignore_result": _truth,
    "replaced_task_nesting": _number,
    "retries": _number,
    "stamped_headers": _names,
    "stamps": _stamps,
    "timelimit": _time_limits,
}
_NONE_WHERE_EMPTY = frozenset(
    [
        *_READERS,
        *("argsrepr", "compression", "eta", "group", "id", "kwargsrepr", "lang", "meth", "origin", "parent_id"),
        *("root_id", "shadow"),
    ]
)
