"""Keeps what connections wait for: room in a queue, in memory, on the disk, in a batch; or an answer."""

from collections import deque
from typing import Protocol, runtime_checkable

from radiator.core.producer import Producer


class WaitList:
    """Something that can be waited for. `waiters`: first come, first served. `is_tight`: everybody waits. `is_timed`:
    block_timeout_s applies: not to a wait that needs no room, and ends by itself. `is_brief`: it ends with the next
    answer of the disk, whatever clients do.
    """

    __slots__ = ("is_brief", "is_tight", "is_timed", "name", "waiters")

    def __init__(self, name: str, *, is_timed: bool = True, is_brief: bool = False) -> None:
        self.name = name
        self.is_timed = is_timed
        self.is_brief = is_brief
        self.waiters: deque[Producer] = deque()
        self.is_tight = False


@runtime_checkable
class Waitable(Protocol):
    """A WaitList, or a queue or log that has no room. `waiters`: first come, first served."""

    name: str
    waiters: deque[Producer]


def name_of_waitable(waitable: Waitable) -> str:
    """Returns what has no room, as sentences name it."""
    return waitable.name if isinstance(waitable, WaitList) else f"/queue/{waitable.name}"


# not room but time: this turn ends here and goes on after its replies have been written
FLUSH = WaitList("flush", is_brief=True)
# the same, of a command of which this turn has done a part: others have their turn before the rest
REST = WaitList("rest", is_brief=True)
