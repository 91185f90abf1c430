"""Moves messages from one queue into another: as dead letters, or by an operator's command."""

from collections.abc import Callable
from math import inf

from radiator.core.queues.entry import Entry
from radiator.core.queues.queue import EXPIRED, OVERFLOW, REDELIVERIES, Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.matcher import Headers
from radiator.core.turn import NoteValue, TurnContext
from radiator.model.deaths import REJECTED, Death, as_line, comes_round, deaths_in, with_death
from radiator.model.headers import (
    DEAD_LETTER_REASON,
    EXPIRATION,
    EXPIRES,
    NODE_PATH,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
    REDELIVERY_COUNT,
    X_DEATH,
    block_of,
    without,
)
from radiator.model.journal import AS_DEAD_LETTER, DEAD_LETTERED, CameFrom
from radiator.model.limits import DEAD_LETTER_HEADER_BYTES, Limits
from radiator.model.message import Message, expires_by
from radiator.model.patterns import name_mistake

# Headers that a message does not take along: the broker sets them again, or they belong to the queue that it was in.
NOT_MOVED = (NODE_PATH, REDELIVERY_COUNT)
NOT_DEAD_LETTERED = (
    *NOT_MOVED,
    EXPIRATION,
    EXPIRES,
    DEAD_LETTER_REASON,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
    X_DEATH,
)
# Headers that a dead letter does not take back to the queue that it came from: it got them when it became one.
NOT_RETURNED = (*NOT_MOVED, DEAD_LETTER_REASON, ORIGINAL_DESTINATION, ORIGINAL_MESSAGE_ID, X_DEATH)
# Why a dead letter for an exchange is dropped: the exchange does not exist or leads nowhere; or it came round again.
UNROUTED, CYCLE = "unrouted", "cycle"
TARGETS_MAX = 64  # cut: queues that one dead letter goes into
NOTED_EVERY_S = 60.0  # not logged: another drop or cut of the same queue, sooner than that
NOTED_MAX = 1024  # forgotten, and logged again: queues whose drops or cuts were logged
# the reasons as x-death has them, in RabbitMQ's words
_DEATHS = {REJECTED: REJECTED, REDELIVERIES: "delivery_limit", EXPIRED: "expired", OVERFLOW: "maxlen"}
_QUEUE_PREFIX = "/queue/"


def origin_of(message: Message) -> str | None:
    """Returns the name of the queue that a dead letter comes from; None: it is not a dead letter, or does not say."""
    value = message.field(ORIGINAL_DESTINATION)
    try:
        address = "" if value is None else value.decode()
    except UnicodeDecodeError:
        return None
    name = address.removeprefix(_QUEUE_PREFIX)
    return None if name == address or name_mistake(name) else name


class DeadLetters:
    """destinations: returns where to look for the targets. is_tight: returns whether the disk is nearly full. noted_s:
    by queue, when it was last logged that its dead letters are dropped, or do not reach all targets.
    """

    __slots__ = ("context", "destinations", "is_tight", "limits", "noted_s")

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        destinations: Callable[[], Destinations],
        is_tight: Callable[[], bool],
    ) -> None:
        self.context = context
        self.limits = limits
        self.destinations = destinations
        self.is_tight = is_tight
        self.noted_s: dict[str, float] = {}

    def put(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Puts a new message where dead letters go, in the batch that removes the old one (D9), and counts it."""
        self.context.dead_letters_cost += 1 + len(entry.message.headers) // DEAD_LETTER_HEADER_BYTES
        if queue.settings.dead_letter is None:
            self._by_exchange(queue, entry, reason)
            return
        target = self.destinations().target(queue.settings.dead_letter)
        # D9: `leave` puts the Remove into this same batch
        target.put(self.moved(queue, entry, target, reason), CameFrom(AS_DEAD_LETTER, entry.position, queue.name))
        self._count(queue, entry, reason, self.context.last_position, target.name)
        if not target.is_persistent:
            target.pump()

    # ---- by an exchange ---------------------------------------------------------------------------------------------

    def _by_exchange(self, queue: Queue, entry: Entry, reason: str) -> None:
        """Puts it into each queue that the exchange leads to, all in this batch; drops it if there is none."""
        old, exchange = entry.message, queue.settings.dead_letter_exchange or ""
        deaths, key = self._died(queue, entry, reason), queue.settings.dead_letter_key
        key = _published(old, queue)[1] if key is None else key
        targets, cost = self.destinations().dead_letter_targets(exchange, key, Headers(old.headers, old.escaping))
        self.context.dead_letters_cost += cost
        line, is_endless = as_line(deaths, old.escaping)
        is_judged = deaths[0].reason != REJECTED
        if is_judged:
            targets, found = [one for one in targets if not (is_endless or comes_round(deaths, one.name))], targets
            if found and not targets:
                self._drop(queue, entry, CYCLE, exchange, key)
                return
        if not targets:
            self._drop(queue, entry, UNROUTED, exchange, key)
            return
        headers = self._headers(queue, entry, reason) + line
        going = targets[: self._most(entry.size + len(line))]
        if len(going) < len(targets):
            self._note(queue, "dead_letter_cut", exchange=exchange, key=key, queues=len(targets), reached=len(going))
        address = f"/exchange/{exchange}/{key}" if exchange else f"/queue/{key}"
        position, where = 0, ""
        self.context.dead_letters_cost += 1 + len(going)
        for target in going:
            message = self._in(target, old, headers, 0, address)
            is_journaled = self._hand(target, message, CameFrom(AS_DEAD_LETTER, entry.position, queue.name))
            if is_journaled and not position:
                position, where = self.context.last_position, target.name
            where = where or target.name
        self._count(queue, entry, reason, position, where, address)

    def _hand(self, target: Target, message: Message, came_from: CameFrom) -> bool:
        """Puts it into one target. Returns whether the target's journal records it. Targets in memory go on only once
        the batch is on the disk: the queue that it dies in is in the middle of something, and may be the next target.
        """
        exchanges, then = self.destinations().exchanges, self.context.open.then
        if target in exchanges.private:

            def deliver() -> None:
                if exchanges.deliver(target, message, 0):
                    target.pump()

            then.append(deliver)
            return False
        # D9: `leave` puts the Remove into this same batch
        target.put(message, came_from)
        if not target.is_persistent:
            then.append(target.pump)
            target.watch_head()  # it may expire before that
        return target.journal is not None

    def _most(self, size: int) -> int:
        """Returns how many queues one dead letter may go into: batch and disk must have room, as it cannot wait."""
        return 1 if self.is_tight() else max(1, min(TARGETS_MAX, self.limits.max_batch_bytes // max(1, size)))

    def _died(self, queue: Queue, entry: Entry, reason: str) -> list[Death]:
        """Returns all its deaths, this one first."""
        exchange, key = _published(entry.message, queue)
        one = Death(queue.name, _DEATHS[reason], 1, exchange, (key,), self.context.now_ms // 1000)
        return with_death(deaths_in(entry.message), one)

    # ---- what is counted --------------------------------------------------------------------------------------------

    def _count(self, queue: Queue, entry: Entry, reason: str, position: int, where: str, address: str = "") -> None:
        """Counts and journals a dead letter. position, where: its new position and queue; it may be in others too."""
        queue.ledger.dead_lettered += 1
        queue.ledger.dead_lettered_bytes += entry.size
        if queue.journal is not None:
            queue.journal.write(DEAD_LETTERED, queue.name, entry, reason, other=position, where=where, address=address)

    def _drop(self, queue: Queue, entry: Entry, why: str, exchange: str, key: str) -> None:
        """Drops a dead letter that goes nowhere, and counts it."""
        queue.count_dropped(entry, why)
        self.context.count("dead_letters_dropped")
        self._note(queue, "dead_letter_dropped", exchange=exchange, key=key, reason=why)

    def _note(self, queue: Queue, event: str, **fields: NoteValue) -> None:
        """Logs this for a queue, at most once in NOTED_EVERY_S."""
        now_s, noted_s = self.context.now_s, self.noted_s
        if now_s - noted_s.get(queue.name, -inf) < NOTED_EVERY_S:
            return
        if len(noted_s) >= NOTED_MAX:
            noted_s.clear()
        noted_s[queue.name] = now_s
        self.context.note("warning", event, queue=queue.name, **fields)

    # ---- the message as it goes on ----------------------------------------------------------------------------------

    def moved(self, queue: Queue, entry: Entry, target: Target, reason: str | None) -> Message:
        """Returns the message as it enters another queue; with a reason, as a dead letter."""
        old = entry.message
        if reason is None:
            # the redelivery count of a dead letter does not apply in the queue to which it is moved
            return self._in(target, old, without(old.headers, NOT_MOVED), old.expires_ms)
        headers = self._headers(queue, entry, reason)
        if old.field(X_DEATH) is not None:
            # otherwise a message could go round by an exchange and a `dead_letter` in turns
            headers += as_line(self._died(queue, entry, reason), old.escaping)[0]
        return self._in(target, old, headers, 0)

    def _headers(self, queue: Queue, entry: Entry, reason: str) -> bytes:
        """Returns the headers of the dead letter, without its deaths."""
        old = entry.message
        return without(old.headers, NOT_DEAD_LETTERED) + block_of(
            old.escaping,
            (DEAD_LETTER_REASON, reason.encode()),
            (ORIGINAL_DESTINATION, b"/queue/" + queue.name.encode()),
            (ORIGINAL_MESSAGE_ID, self.context.message_id(entry.position)),
            (REDELIVERY_COUNT, b"%d" % entry.redeliveries),
        )

    def returned(self, old: Message, target: Target) -> Message:
        """Returns the dead letter as it goes back into the queue that it came from."""
        return self._in(target, old, without(old.headers, NOT_RETURNED), old.expires_ms)

    def _in(self, target: Target, old: Message, headers: bytes, expires_ms: int, address: str | None = None) -> Message:
        """Returns the message with these headers, for that target. address: its destination; None: the target's."""
        if target.settings.message_ttl_ms is not None:
            expires_ms = expires_by(expires_ms, target.settings.message_ttl_ms, self.context.now_ms)
        address = f"/queue/{target.name}" if address is None else address
        return Message(address, headers, old.escaping, old.body, self.context.now_ms, expires_ms)


def _published(message: Message, queue: Queue) -> tuple[str, str]:
    """Returns the exchange and key to which it was sent; if it was sent to none, "" and the name of the queue."""
    name, slash, key = message.destination.removeprefix("/exchange/").partition("/")
    is_by_exchange = message.destination.startswith("/exchange/") and slash
    return (name, key) if is_by_exchange else ("", queue.name)
