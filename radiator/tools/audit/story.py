"""One message's whole story: its own events, and those of what it came from and of what it went on as. Those of all
messages of a trace.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from radiator.model.errors import DamagedRecord, Refusal
from radiator.model.journal import ACCEPTED, COPIED, DEAD_LETTERED, MOVED, STARTED, JournalEvent
from radiator.model.message import message_id
from radiator.model.settings import JOURNAL
from radiator.storage.codec.blocks import events_in
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.source import ArchivedPartition, Source
from radiator.tools.audit.journal import place_of

RELATIVES_MAX = 64  # messages of one story: what a message became may have become another, and so on
TRACED_MAX = 1000  # messages of one trace
_POSITION_BYTES = 12
_SEARCHED_MAX = 100  # texts: to search a block for more takes longer than to decode it


@dataclass(slots=True)
class Happened:
    """One event of the story. number: due_ms, copies or messages, as docs/JOURNAL.md says; 0: there is none.

    traceparent: of `accepted`; empty: there is none.
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


class Teller(Protocol):
    """Where events are looked for."""

    def of(self, ids: set[str]) -> list[Happened]:
        """Those that name one of these ids, in order."""

    def traced(self, trace_id: str) -> Iterator[str]:
        """The message-ids that were accepted with that trace id, in order."""


def messages_of(teller: Teller, trace_id: str) -> tuple[set[str], bool]:
    """The messages of a trace, the first TRACED_MAX of them; and whether there are more."""
    ids = [*islice(teller.traced(trace_id), TRACED_MAX + 1)]
    return set(ids[:TRACED_MAX]), len(ids) > TRACED_MAX


def story(teller: Teller, ids: set[str]) -> list[Happened]:
    """All that is told of these messages and of their relatives, in order: the message that one came from (dead letter,
    move), and what it became, but not other copies of the same fanout. Of a fanout-message-id the stories of all
    copies.
    """
    known = set(ids)
    asked: set[str] = set()
    found: dict[int, Happened] = {}
    while known - asked and len(known) < len(ids) + RELATIVES_MAX:
        asking = known - asked
        asked |= asking
        for happened in teller.of(asking):
            if happened.event == COPIED and happened.other_id in ids:
                known.add(happened.message_id)
            found[happened.seq] = happened
            if happened.event in (DEAD_LETTERED, MOVED, ACCEPTED) and happened.other_id:
                known |= {happened.message_id, happened.other_id}
    return [found[seq] for seq in sorted(found) if found[seq].message_id in known]


class StoredTeller:
    """The journal of a store: blocks in which what is looked for does not stand are not decoded."""

    def __init__(self, source: Source, node: str = "", progress: Progress = unheard) -> None:
        """node: whose store it is. Raises Refusal where the store has no journal."""
        log = source.logs().get(JOURNAL)
        if log is None:
            raise Refusal(
                "no-journal", "This store has no journal: [journal] enabled = true in config.toml begins one."
            )
        self._source = source
        self._node = node
        self._progress = progress
        self._log = log
        self._part = log.partitions.get(0, ArchivedPartition(0, 0))

    def of(self, ids: set[str]) -> list[Happened]:
        places = {place_of(one) for one in ids if one.rsplit("-", 2)[0] == self._source.store_id}
        if not places:
            return []
        wanted = [place.to_bytes(_POSITION_BYTES, "big") for place in places]
        return [
            happened for first, events in self._blocks_with(wanted) for happened in self._named(first, events, places)
        ]

    def traced(self, trace_id: str) -> Iterator[str]:
        for _, events in self._blocks_with([trace_id.encode()]):
            for event in events:
                if f"-{trace_id}-" in event.traceparent:
                    yield self._text(event.position)

    def _blocks_with(self, wanted: list[bytes]) -> Iterator[tuple[int, list[JournalEvent]]]:
        """First offset and events of each block that may have any of these."""
        begin, end = self._part.first, self._part.next
        for first, key, value in self._source.raw(self._log, 0, begin):
            self._progress("looking through the journal", "events", first - begin, end - begin)
            if len(wanted) > _SEARCHED_MAX or any(one in value for one in wanted):
                try:
                    events = events_in(key, value)
                except DamagedRecord:
                    continue
                yield first, events

    def _named(self, first: int, events: Sequence[JournalEvent], places: set[int]) -> Iterable[Happened]:
        for seq, one in enumerate(events, first):
            if one.event != STARTED and (one.position in places or one.other in places):
                yield Happened(
                    seq, one.ms, one.event, one.queue, self._text(one.position), one.client, one.attempt, one.size,
                    self._text(one.other), one.other_queue, one.reason, one.address, one.number, self._node,
                    one.traceparent,
                )  # fmt: skip

    def _text(self, position: int) -> str:
        return message_id(self._source.store_id, position).decode() if position else ""
