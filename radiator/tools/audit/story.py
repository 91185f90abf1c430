"""Finds, for `radiator explain`, the events of a story (model/story.py): in a store, beside its broker or alone."""

from collections.abc import Iterator
from typing import Protocol

from radiator.model.errors import Refusal
from radiator.model.journal import NO_JOURNAL, JournalEvent
from radiator.model.message import message_id
from radiator.model.settings import JOURNAL
from radiator.model.story import Happened, Story, TracedMessages, happened, positions_in
from radiator.storage.codec.search import EventSearch
from radiator.storage.report import Progress, unheard
from radiator.tools.archive.source import ArchivedPartition, Source


class Teller(Protocol):
    """A place where events are looked for."""

    def of(self, ids: set[str]) -> list[Happened]:
        """Returns the events that name one of these ids, in order."""

    def traced(self, trace_id: str) -> Iterator[str]:
        """Returns the message-ids that were accepted with that trace id, in order."""

    def correlated(self, correlation_id: str) -> Iterator[str]:
        """Returns the message-ids that were accepted with that correlation-id."""


def messages_of(ids: Iterator[str]) -> tuple[set[str], bool]:
    """Returns the first TRACED_MAX messages of a trace, or of a correlation-id; and whether there are more."""
    found = TracedMessages()
    for one in ids:
        if not found.add(one):
            break
    return found.ids, found.are_more


def story(teller: Teller, ids: set[str]) -> list[Happened]:
    """Returns all events of these messages and of their relatives, in order."""
    found = Story(ids)
    while asking := found.next_ids():
        for one in teller.of(asking):
            found.take(one)
    return found.events()[0]


class StoredTeller:
    """The journal of a store."""

    def __init__(self, source: Source, node: str = "", progress: Progress = unheard) -> None:
        """node: whose store it is. Raises Refusal where the store has no journal."""
        log = source.logs().get(JOURNAL)
        if log is None:
            raise Refusal("no-journal", NO_JOURNAL)
        self._source = source
        self._node = node
        self._progress = progress
        self._log = log
        self._part = log.partitions.get(0, ArchivedPartition(0, 0))

    def of(self, ids: set[str]) -> list[Happened]:
        store_id = self._source.store_id
        positions = positions_in(ids, store_id)
        if not positions:
            return []
        return [happened(seq, event, store_id, self._node) for seq, event in self._found(EventSearch(positions))]

    def traced(self, trace_id: str) -> Iterator[str]:
        return self._ids(EventSearch(trace_id=trace_id))

    def correlated(self, correlation_id: str) -> Iterator[str]:
        return self._ids(EventSearch(correlation_id=correlation_id))

    def _ids(self, search: EventSearch) -> Iterator[str]:
        for _, event in self._found(search):
            yield message_id(self._source.store_id, event.position).decode()

    def _found(self, search: EventSearch) -> Iterator[tuple[int, JournalEvent]]:
        begin, end = self._part.first, self._part.next
        for first, key, value in self._source.raw(self._log, 0, begin):
            self._progress("looking through the journal", "events", first - begin, end - begin)
            yield from search.found_in(first, key, value)
