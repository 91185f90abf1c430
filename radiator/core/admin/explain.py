"""`explain`: what has become of a message, or of the messages of a trace or of a correlation-id, as the journal
tells it."""

from collections.abc import Callable, Iterable
from typing import Protocol

from radiator.core.cluster.cluster import Cluster
from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.routing.destinations import Destinations
from radiator.core.searches import Searches, Wanted
from radiator.model.administration import ExplainCorrelation, ExplainMessage, ExplainTrace
from radiator.model.answers import StoryExplained
from radiator.model.errors import Refusal
from radiator.model.journal import NO_JOURNAL, JournalEvent
from radiator.model.limits import EXPLAINED_EVENT_BYTES, EXPLAINED_ID_BYTES, EXPLAINED_IDS_MAX
from radiator.model.message import message_id
from radiator.model.numbers import Rows
from radiator.model.settings import JOURNAL
from radiator.model.story import (
    Story,
    TracedMessages,
    happened,
    nothing_of_correlation,
    nothing_of_message,
    nothing_of_trace,
    positions_in,
)


class ExplainPort(AnsweringPort, Protocol):
    """The parts of the broker that this request may use."""

    @property
    def cluster(self) -> Cluster | None: ...

    @property
    def destinations(self) -> Destinations: ...

    @property
    def searches(self) -> Searches: ...


def message(request: Request[ExplainPort], command: ExplainMessage) -> None:
    """Answers with what has become of a message, and of what it came from and went on as."""
    store_id = request.parts.context.store_id
    _begin(
        request, StorySeeker(request, command, [command.message_id], nothing_of_message(command.message_id, store_id))
    )


def trace(request: Request[ExplainPort], command: ExplainTrace) -> None:
    """Answers with the stories of a trace's messages."""
    nothing = nothing_of_trace(command.trace_id)
    _begin(request, GroupSeeker(request, command, Wanted(trace_id=command.trace_id), nothing))


def correlation(request: Request[ExplainPort], command: ExplainCorrelation) -> None:
    """Answers with the stories of the messages with that correlation-id."""
    nothing = nothing_of_correlation(command.correlation_id)
    _begin(request, GroupSeeker(request, command, Wanted(correlation_id=command.correlation_id), nothing))


def _begin(request: Request[ExplainPort], seeker: "StorySeeker") -> None:
    log = request.parts.destinations.logs.all.get(JOURNAL)
    if log is None:
        raise Refusal("no-journal", NO_JOURNAL)
    seeker.answered = request.begin_waiting()
    try:
        request.parts.searches.begin(log, seeker)
    except Refusal:
        seeker.ended()
        raise


class StorySeeker:
    """Looks for a story, and answers the request with it. It is a Seeker of searches.py.

    nothing: the sentence to answer with if there is none. answered: ends the request's wait. held_bytes: what counts as
    held by the connection for it.
    """

    def __init__(
        self,
        request: Request[ExplainPort],
        command: ExplainMessage | ExplainTrace | ExplainCorrelation,
        ids: Iterable[str],
        nothing: str,
    ) -> None:
        cluster = request.parts.cluster
        self.request = request
        self.command = command
        self.nothing = nothing
        self.store_id = request.parts.context.store_id
        self.node = "" if cluster is None else cluster.name
        self.story = self.story_of(ids)
        self.answered: Callable[[], None] = lambda: None
        self.held_bytes = 0

    def story_of(self, ids: Iterable[str]) -> Story:
        """Returns the story of these messages, of which it keeps as much as the answer has."""
        return Story(ids, self.command.after, self.command.limit, EXPLAINED_IDS_MAX)

    @property
    def is_gone(self) -> bool:
        request = self.request
        return (
            request.connection.is_closing
            or not request.is_heard
            or (request.queue is not None and request.queue.is_gone)
        )

    @property
    def is_cut(self) -> bool:
        """Whether there are more messages than it has."""
        return self.story.is_cut

    def next_wanted(self) -> Wanted | None:
        while ids := self.story.next_ids():
            positions = positions_in(ids, self.store_id)
            if positions:
                return Wanted(positions)
        self.answer()
        return None

    def take(self, events: list[tuple[int, JournalEvent]]) -> bool:
        for offset, event in events:
            self.story.take(happened(offset, event, self.store_id, self.node))
        self.hold(EXPLAINED_EVENT_BYTES * self.story.kept_count + EXPLAINED_ID_BYTES * self.story.ids_count)
        return True

    def answer(self) -> None:
        """Called when all that is to be found was found. Checks the right again, which may have changed since."""
        request = self.request
        try:
            request.parts.authorization.check_request(request.connection, self.command)
        except Refusal as refusal:
            request.refuse(refusal)
            return
        if self.story.is_empty:
            request.refuse(Refusal("no-events", self.nothing))
            return
        (events, has_more), is_cut = self.story.events(), self.is_cut
        request.answer_in_slices(
            lambda: StoryExplained(Rows(iter(events)), has_more, is_cut), EXPLAINED_EVENT_BYTES * len(events)
        )

    def ended(self) -> None:
        self.hold(0)
        self.answered()

    def hold(self, held_bytes: int) -> None:
        """Counts that many bytes as held from now on."""
        connection = self.request.connection
        if connection.is_idle:
            connection.wake()
        connection.found_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes


class GroupSeeker(StorySeeker):
    """First looks for the messages of the trace, or of the correlation-id, then for their stories. of: which."""

    def __init__(
        self, request: Request[ExplainPort], command: ExplainTrace | ExplainCorrelation, of: Wanted, nothing: str
    ) -> None:
        super().__init__(request, command, (), nothing)
        self.of = of
        self.messages = TracedMessages()
        self.has_begun = self.is_tracing = False

    @property
    def is_cut(self) -> bool:
        return self.messages.are_more or super().is_cut

    def next_wanted(self) -> Wanted | None:
        if not self.has_begun:
            self.has_begun = self.is_tracing = True
            return self.of
        if self.is_tracing:
            self.is_tracing = False
            self.story = self.story_of(self.messages.ids)
        return super().next_wanted()

    def take(self, events: list[tuple[int, JournalEvent]]) -> bool:
        if not self.is_tracing:
            return super().take(events)
        goes_on = all(self.messages.add(message_id(self.store_id, event.position).decode()) for _, event in events)
        self.hold(EXPLAINED_ID_BYTES * len(self.messages.ids))
        return goes_on
