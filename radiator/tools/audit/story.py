"""One message's whole story: its own events, and those of what it came from and of what it went on as."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
_POSITION_BYTES = 12


@dataclass(slots=True)
class Happened:
    """One event of the story. number: due_ms, copies or messages, as docs/JOURNAL.md says; 0: there is none."""

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


class Teller(Protocol):
    """Where events are looked for."""

    def of(self, ids: set[str]) -> list[Happened]:
        """Those that name one of these ids, in order."""


def story(teller: Teller, one: str) -> list[Happened]:
    """All that is told of a message and of its relatives, in order: the message that it came from (dead letter, move),
    and what it became, but not other copies of the same fanout. Of a fanout-message-id the stories of all copies.
    """
    known = {one}
    asked: set[str] = set()
    found: dict[int, Happened] = {}
    while known - asked and len(known) <= RELATIVES_MAX:
        asking = known - asked
        asked |= asking
        for happened in teller.of(asking):
            if happened.event == COPIED and happened.other_id == one:
                known.add(happened.message_id)
            found[happened.seq] = happened
            if happened.event in (DEAD_LETTERED, MOVED, ACCEPTED) and happened.other_id:
                known |= {happened.message_id, happened.other_id}
    return [found[seq] for seq in sorted(found) if found[seq].message_id in known]


class StoredTeller:
    """The journal of a store: blocks in which the positions do not stand are not decoded."""

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
        found: list[Happened] = []
        begin, end = self._part.first, self._part.next
        for first, key, value in self._source.raw(self._log, 0, begin):
            self._progress("looking through the journal", "events", first - begin, end - begin)
            if any(one in value for one in wanted):
                try:
                    events = events_in(key, value)
                except DamagedRecord:
                    continue
                found += self._named(first, events, places)
        return found

    def _named(self, first: int, events: Sequence[JournalEvent], places: set[int]) -> Iterable[Happened]:
        for seq, one in enumerate(events, first):
            if one.event != STARTED and (one.position in places or one.other in places):
                yield Happened(
                    seq, one.ms, one.event, one.queue, self._text(one.position), one.client, one.attempt, one.size,
                    self._text(one.other), one.other_queue, one.reason, one.address, one.number, self._node,
                )  # fmt: skip

    def _text(self, position: int) -> str:
        return message_id(self._source.store_id, position).decode() if position else ""
