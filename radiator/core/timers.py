"""Does what each Tick has to do beside the rounds (rounds.py): keeps the time in the store, forgets dedup-ids, and runs
what each kind of destination has to do.
"""

from functools import partial
from math import inf

from radiator.core.audit_writer import AuditWriter
from radiator.core.background import BackgroundTasks
from radiator.core.clock import Clock
from radiator.core.kinds.table import Kinds
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.limits import (
    CLOCK_KEPT_IDLE_S,
    CLOCK_KEPT_S,
    FORGET_BUSY_S,
    FORGET_IDLE_S,
    FORGET_MESSAGES,
)
from radiator.model.settings import JOURNAL
from radiator.model.writes import Forget, KeepTime


class Timers:
    """is_clock_noted: it has been logged that the system's clock is not followed. time_kept_s, time_kept_in: when the
    store last kept the time, and in which batch; forget_s: when dedup-ids are forgotten next.
    """

    __slots__ = (
        "audit", "background", "clock", "context", "destinations", "forget_s", "admission", "is_clock_noted", "kinds",
        "time_kept_in", "time_kept_s",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        clock: Clock,
        destinations: Destinations,
        admission: Admission,
        background: BackgroundTasks,
        kinds: Kinds,
        audit: AuditWriter,
    ) -> None:
        self.audit = audit
        self.context = context
        self.clock = clock
        self.destinations = destinations
        self.admission = admission
        self.background = background
        self.kinds = kinds
        self.is_clock_noted = False
        self.time_kept_s = -inf
        self.time_kept_in = 0
        self.forget_s = context.now_s

    def watch_clock(self) -> None:
        """Logs when the system's clock is no longer followed, or followed again, and has the store keep the time now
        and then.
        """
        context, ahead_s = self.context, self.clock.ahead_ms // 1000
        if bool(ahead_s) != self.is_clock_noted:
            self.is_clock_noted = bool(ahead_s)
            if ahead_s:
                context.note("error", "clock_not_followed", ahead_s=ahead_s, time_ms=context.now_ms)
            else:
                context.note("info", "clock_followed", time_ms=context.now_ms)
        since_s, sealed = context.now_s - self.time_kept_s, context.batches
        if since_s >= CLOCK_KEPT_IDLE_S or (since_s >= CLOCK_KEPT_S and sealed != self.time_kept_in):
            context.write(KeepTime(context.now_ms), 0)  # it replaces the last one
            self.time_kept_s, self.time_kept_in = context.now_s, sealed + 1

    def tick_kinds(self) -> None:
        """Has the journal and the audit log make room where they must, then runs each kind of destination."""
        destinations, audit = self.destinations, self.audit
        if audit.log is not None:
            cut = partial(destinations.logs.retention.keep_within, audit.log)
            audit.ticked(cut, self.admission.disk_wait_list.is_tight)
        if destinations.journal is not None:
            cut = partial(destinations.logs.retention.keep_within, destinations.logs.all[JOURNAL])
            destinations.journal.ticked(cut, self.admission.disk_wait_list.is_tight)
        for kind in self.kinds.values():
            kind.tick(self.background)

    def forget_dedup_ids(self) -> None:
        """Forgets those whose windows are over, from time to time."""
        context, admission = self.context, self.admission
        if context.now_s >= self.forget_s:
            # twice as many as came in: the table shrinks to what its windows hold, however fast ids come
            context.write(Forget(context.now_ms, FORGET_MESSAGES + 2 * admission.remembered))
            self.forget_s = context.now_s + (FORGET_BUSY_S if admission.remembered else FORGET_IDLE_S)
            admission.remembered = 0
