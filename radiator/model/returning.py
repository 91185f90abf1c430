"""Dead letters that go back to the queues that they come from: the request, its answer, and why a message may stay."""

from collections.abc import Mapping
from dataclasses import dataclass

from radiator.model.errors import count_text


@dataclass(slots=True)
class ReturnMessages:
    """Moves messages that are ready, the oldest first, each to the queue of its `original-destination`:
    MessagesReturned. message_ids: only these; None: any. count: at most so many; None: all that are ready now.
    """

    queue: str
    message_ids: tuple[str, ...] | None = None
    count: int | None = None


NO_ORIGIN, ORIGIN_GONE, ORIGIN_FULL = "no-origin", "origin-gone", "origin-full"
SAME_QUEUE, NOT_ALLOWED, BEHIND = "same-queue", "not-allowed", "behind-others"
NOT_THERE, NOT_READY, EXPIRED, DAMAGED = "not-there", "not-ready", "expired", "damaged"
WHY_THEY_STAY: Mapping[str, str] = {
    NO_ORIGIN: "without an original-destination that is a queue",
    ORIGIN_GONE: "of a queue that no longer exists",
    ORIGIN_FULL: "of a queue that is full",
    SAME_QUEUE: "of this same queue",
    NOT_ALLOWED: "of a queue that you may not write to",
    BEHIND: "behind others of their keys, for which you may ask again",
    NOT_THERE: "not in the queue, or delayed",
    NOT_READY: "not ready",
    EXPIRED: "expired",
    DAMAGED: "damaged",
}
"""In words, behind how many."""


@dataclass(slots=True)
class NotReturned:
    """One that was asked for by its id. why: of WHY_THEY_STAY."""

    message_id: str
    why: str


@dataclass(slots=True)
class MessagesReturned:
    """returned: how many are back, on the disk; to: how many in each queue, for the first queues by when they got one.
    stayed: how many that are ready were looked at and stay, or of those asked for; why: how many of these for each
    reason. not_returned: these one by one, where they were asked for by their ids. sentence: all this.
    """

    returned: int
    stayed: int
    to: Mapping[str, int]
    why: Mapping[str, int]
    not_returned: list[NotReturned]
    sentence: str


def sentence_of(queue: str, returned: int, queues: int, why: Mapping[str, int]) -> str:
    """What has come of it, in words. queues: how many got some."""
    if not returned and not why:
        return f"Nothing is ready in /queue/{queue}, so nothing went back."
    back = count_text(returned, "message is back", "messages are back")
    where = (
        f" where {'it' if returned == 1 else 'they'} came from, in {count_text(queues, 'queue')}" if returned else ""
    )
    reasons = ", ".join(f"{count} {WHY_THEY_STAY[reason]}" for reason, count in why.items())
    stay = count_text(sum(why.values()), "message stays", "messages stay")
    return f"{back}{where}." + (f" {stay}: {reasons}." if why else "")
