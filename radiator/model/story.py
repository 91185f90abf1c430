"""One message's whole story: its own events, and those of what it came from and of what it went on as. Those of all
messages of a trace, or of a correlation-id.

Pure: a Story says which messages to look for next, and takes what was found. Where events are looked for, in the store
of a running broker, beside it or in an archive, is the caller's choice.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from radiator.model.journal import ACCEPTED, COPIED, DEAD_LETTERED, MOVED, JournalEvent
from radiator.model.limits import CORRELATION_MAX_BYTES
from radiator.model.message import SEQUENCE_BITS, message_id, position_of

RELATIVES_MAX = 64  # messages of one story: what a message became may have become another, and so on
TRACED_MAX = 1000  # messages of one trace, or one correlation-id
_BOOT_BITS = 32  # as the disk has it

_MESSAGE_ID = re.compile(r"[0-9a-zA-Z_.]+-[0-9]{1,10}-[0-9]{1,20}")
_NOTHING_OF_TRACE = (
    "Its messages may be in memory only, from a time that the journal does not cover, or without a valid traceparent "
    "of version 00; or they are of another node."
)
_NOTHING_OF_CORRELATION = (
    "Its messages may be in memory only, from a time that the journal does not cover, or of another node; and it "
    f"keeps none of more than {CORRELATION_MAX_BYTES} bytes."
)


@dataclass(slots=True)
class Happened:
    """One event of the story. number: due_ms, copies or messages, as docs/JOURNAL.md says; 0: there is none.

    traceparent, correlation_id: of `accepted`; empty: there is none.
    """

    seq: int
    ms: int
    event: str
    queue: str
    message_id: str
    client: str
    attempt: int
    bytes: int
    other_id: str
    other_queue: str
    reason: str
    address: str
    number: int
    node: str = ""
    traceparent: str = ""
    correlation_id: str = ""


def happened(seq: int, event: JournalEvent, store_id: str, node: str = "") -> Happened:
    """The event at that offset of the journal. node: whose journal it is; "": a broker without a name."""

    def text(position: int) -> str:
        return message_id(store_id, position).decode() if position else ""

    return Happened(
        seq, event.ms, event.event, event.queue, text(event.position), event.client, event.attempt, event.size,
        text(event.other), event.other_queue, event.reason, event.address, event.number, node, event.traceparent,
        event.correlation_id,
    )  # fmt: skip


# ---- ids ------------------------------------------------------------------------------------------------------------


def message_id_in(text: str) -> str:
    """The text, if it may be a message-id. Raises ValueError with a sentence."""
    if not _MESSAGE_ID.fullmatch(text):
        raise ValueError(f"{text!r:.80} is not a message-id; one looks like 4f0c2a91b7d3e865-3-17")
    return text


def positions_in(ids: Iterable[str], store_id: str) -> frozenset[int]:
    """The positions that these ids say, without those of another store, and those that no message can have."""
    found = set()
    for one in ids:
        _, boot, sequence = one.rsplit("-", 2)
        position = position_of(int(boot), int(sequence))
        is_possible = 0 < int(boot) < 1 << _BOOT_BITS and int(sequence) < 1 << SEQUENCE_BITS
        if is_possible and message_id(store_id, position) == one.encode():  # no zeros in front either
            found.add(position)
    return frozenset(found)


def nothing_of_message(one: str, store_id: str) -> str:
    """The sentences that say that nothing was found, and why that may be."""
    of = one.rsplit("-", 2)[0]
    why = "It may be in memory only, or from a time that the journal does not cover, or there is no such message."
    if of != store_id:
        why = f"It is of store {of}, and this is store {store_id}: a node, and a restored backup, has one of its own."
    return f"The journal tells nothing of {one}. {why}"


def nothing_of_trace(trace_id: str) -> str:
    """Returns the sentence that the journal tells nothing of a trace."""
    return f"The journal tells nothing of trace {trace_id}. {_NOTHING_OF_TRACE}"


def nothing_of_correlation(correlation_id: str) -> str:
    """Returns the sentence that the journal tells nothing of a correlation-id."""
    return f"The journal tells nothing of the correlation-id {correlation_id!r:.100}. {_NOTHING_OF_CORRELATION}"


# ---- what to look for -----------------------------------------------------------------------------------------------


class TracedMessages:
    """The messages of a trace, or of a correlation-id: the first TRACED_MAX that are added. are_more: whether there
    were more.
    """

    __slots__ = ("are_more", "ids")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.are_more = False

    def add(self, one: str) -> bool:
        """Adds the next message that was accepted with its id. Returns whether a further one is of use."""
        if one not in self.ids and len(self.ids) == TRACED_MAX:
            self.are_more = True
            return False
        self.ids.add(one)
        return True


class Story:
    """All that happened to some messages and to their relatives: the message that one came from (dead letter, move),
    and what it became, but not other copies of the same fanout. Of a fanout-message-id the stories of all copies.

    after, events_max: it keeps only events behind that place in the journal, and the first so many of them. ids_max: it
    knows no more messages. is_cut: whether it has relatives that were not looked for.
    """

    __slots__ = ("_after", "_asked", "_events_max", "_found", "_ids_max", "_known", "_of", "is_cut", "is_empty")

    def __init__(
        self, ids: Iterable[str], after: int = -1, events_max: int | None = None, ids_max: int | None = None
    ) -> None:
        self._of = frozenset(ids)
        self._known = set(self._of)
        self._asked: set[str] = set()
        self._found: dict[int, Happened] = {}
        self._after, self._events_max, self._ids_max = after, events_max, ids_max
        self.is_cut = False
        self.is_empty = True  # nothing was found, nor before `after`

    @property
    def ids_count(self) -> int:
        """How many messages it knows of."""
        return len(self._known)

    @property
    def kept_count(self) -> int:
        """How many events it keeps."""
        return len(self._found)

    def next_ids(self) -> set[str]:
        """The messages to look for next: all events that name one of them are to be taken. Empty: the story is
        complete, or cut.
        """
        asking = self._known - self._asked
        if len(self._known) >= len(self._of) + RELATIVES_MAX:
            self.is_cut = self.is_cut or bool(asking)
            return set()
        self._asked |= asking
        return asking

    def take(self, one: Happened) -> None:
        """Takes an event that names one of the messages that were asked for. The same may be taken again."""
        self.is_empty = False
        if one.event == COPIED and one.other_id in self._of:
            self._know(one.message_id)
        if one.event in (DEAD_LETTERED, MOVED, ACCEPTED) and one.other_id:
            self._know(one.message_id)
            self._know(one.other_id)
        if one.seq <= self._after:
            return
        self._found[one.seq] = one
        if self._events_max is not None and len(self._found) > 2 * self._events_max:
            self._found = {seq: self._found[seq] for seq in sorted(self._found)[: self._events_max + 1]}

    def _know(self, one: str) -> None:
        if self._ids_max is None or len(self._known) < self._ids_max or one in self._known:
            self._known.add(one)
        else:
            self.is_cut = True

    def events(self) -> tuple[list[Happened], bool]:
        """Its events, in order; and whether there are more behind them."""
        found = [self._found[seq] for seq in sorted(self._found) if self._found[seq].message_id in self._known]
        return found[: self._events_max], self._events_max is not None and len(found) > self._events_max
