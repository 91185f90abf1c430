"""One request of an operator while it is carried out: what it may use, and how it is answered."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from radiator.core.answers import Give, Made, Making
from radiator.core.audit_writer import PendingAct
from radiator.core.connections import Connection
from radiator.core.ports import AnsweringPort
from radiator.core.queues.queue import Queue
from radiator.model.answers import AdminAnswer
from radiator.model.audit import DONE, REFUSED
from radiator.model.errors import Refusal
from radiator.model.limits import AWAITS_MAX, LOOKED_AT_PER_COPY
from radiator.model.rendering import Rendering

Port = TypeVar("Port", bound=AnsweringPort, covariant=True)


class Request(Generic[Port]):
    """parts: the parts of the broker that the request's handler may use. queue: its connection's queue for answers;
    None: they go elsewhere, if is_heard, or nowhere. give: takes the text of an answer, and the code if it is a
    refusal. act: its act in the audit log; None: it is none.
    """

    __slots__ = ("act", "connection", "give", "is_heard", "parts", "queue", "rendering")

    def __init__(
        self,
        parts: Port,
        connection: Connection,
        rendering: Rendering,
        queue: Queue | None,
        is_heard: bool,
        give: Give,
    ) -> None:
        self.parts = parts
        self.connection = connection
        self.rendering = rendering
        self.queue = queue
        self.is_heard = is_heard
        self.give = give
        self.act: PendingAct | None = None

    def answer(self, answer: AdminAnswer) -> None:
        """Grants the request and gives this answer now. It must be short, however much there is."""
        self.done()
        self.give(self.rendering.whole(answer))

    def answer_in_slices(self, make: Callable[[], Made], held_bytes: int = 0) -> None:
        """Grants the request. What `make` returns, which may have Rows, is given when its turn comes. held_bytes: of
        what it is made from and nobody else keeps.
        """
        self.done()
        if self.is_heard:
            self.parts.answers.begin(
                Making(self.connection, self.queue, make, self.rendering, self.give, self.refuse, held_bytes)
            )

    def answer_synced(self, make: Callable[[], AdminAnswer], in_slices: bool = False) -> None:
        """Grants the request. What `make` returns is given when all that was decided up to now is on the disk."""
        self.done()

        def synced() -> None:
            try:
                if in_slices:
                    self.answer_in_slices(make)
                else:
                    self.answer(make())
            except Refusal as refusal:
                self.refuse(refusal)

        self.parts.context.open.then.append(synced)

    def refuse(self, refusal: Refusal) -> None:
        """Refuses the request; its connection stays. If nobody gets the answer, the refusal is logged."""
        self.refused(refusal)
        if not self.is_heard:
            number, code = self.connection.number, refusal.code
            self.parts.context.note("warning", "request_refused", connection=number, code=code, sentence=str(refusal))
        self.give(self.rendering.refusal(refusal), refusal.code)

    def done(self) -> None:
        """Called when it is granted: all that it changes is in the open batch, or in one before."""
        if self.act is not None:
            self.act.ended(DONE)

    def refused(self, refusal: Refusal) -> None:
        """Called when it is refused: the audit log has it, whoever gets the answer."""
        if self.act is not None:
            self.act.ended(REFUSED, refusal.code)

    def costs(self, looked_at: int) -> None:
        """Counts the things that it looks at against what the turn has room for."""
        self.parts.admission.copies += looked_at // LOOKED_AT_PER_COPY

    def begin_waiting(self) -> Callable[[], None]:
        """Counts one more waiting request of its connection, until the returned function is called. Raises Refusal."""
        connection = self.connection
        if connection.awaits >= AWAITS_MAX:
            raise Refusal("bad-request", f"{AWAITS_MAX} requests of this connection wait already: no more may.")
        connection.awaits += 1

        def answered() -> None:
            connection.awaits -= 1

        return answered


def warnings(given: Mapping[str, object], found: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Returns sentences about given settings that have no effect. found: all that have none, and why."""
    return tuple(f"`{key}` has no effect: it {wrong}." for key, wrong in found if key in given)
