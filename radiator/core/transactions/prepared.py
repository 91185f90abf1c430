"""Prepared transactions: kept on the disk under a name, and committed from any connection, once for each version of an
app.

A prepared transaction is on the disk only; applying.py reads it back and puts it into its destinations.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from radiator.core.connections import Connection, Transaction
from radiator.core.queues.target import Target
from radiator.core.routing.admission import Admission
from radiator.core.routing.bodies import check_bodies
from radiator.core.routing.plan import Plan
from radiator.core.routing.waiting import Waitable
from radiator.core.transactions.applying import Applying, StoredTransaction
from radiator.core.turn import WRITE_COST_BYTES, BackgroundTask, TurnContext
from radiator.model.addresses import split
from radiator.model.answers import PreparedTransaction
from radiator.model.commands import Send
from radiator.model.errors import Refusal, shown
from radiator.model.limits import APPS_MAX, BATCH_WRITES, PREFIXES_MAX, PREPARED_MAX, STEP_MESSAGES, Limits
from radiator.model.message import expires_by
from radiator.model.recovery import Recovery
from radiator.model.writes import DropApp, DropTransaction, KeepApp, StorePrepared


class DropPrepared:
    """A background task that drops prepared transactions by name, in order, a few in each batch, so that batches stay
    short. Those that a crash leaves are prepared as before.

    `then`: callbacks, each called when no transaction is left whose number is lower than the one beside it.
    """

    __slots__ = ("begun", "context", "in_batch", "is_awake", "writes_left", "left", "then", "schedule")

    def __init__(self, context: TurnContext, schedule: Callable[[BackgroundTask], None]) -> None:
        self.context = context
        self.schedule = schedule
        self.left: dict[str, tuple[int, StoredTransaction]] = {}
        self.then: deque[tuple[int, Callable[[], None]]] = deque()
        self.begun = 0
        self.in_batch = self.writes_left = 0
        self.is_awake = False

    @property
    def is_done(self) -> bool:
        return not self.left

    @property
    def can_go_on(self) -> bool:
        return bool(self.left) and (self.writes_left > 0 or self.in_batch != self.context.open.number)

    def step(self) -> None:
        if self.in_batch != self.context.open.number:
            self.in_batch, self.writes_left = self.context.open.number, BATCH_WRITES
        while self.left and self.writes_left > 0:
            self.drop(next(iter(self.left)))
        self.is_awake = bool(self.left)
        first, _ = next(iter(self.left.values()), (self.begun, None))
        while self.then and self.then[0][0] <= first:
            _, then = self.then.popleft()
            then()

    def add(self, prepared: list[StoredTransaction], then: Callable[[], None]) -> None:
        """Adds transactions to drop; calls `then` when they are gone by the open batch or an earlier one, at once if
        there are none.
        """
        if not prepared:
            then()
            return
        for one in prepared:
            self.left[one.name] = (self.begun, one)
            self.begun += 1
        self.then.append((self.begun, then))
        if not self.is_awake:
            self.step()
            if self.is_awake:
                self.schedule(self)

    def drop(self, name: str) -> None:
        """Removes the transaction of that name, if there is one, with the open batch."""
        _, prepared = self.left.pop(name, (0, None))
        if prepared is not None:
            self.context.write(DropTransaction(prepared.number))
            self.writes_left -= 1 + prepared.count


class PreparedTransactions:
    """The transactions that are prepared and not committed, by name, oldest first; and the last version of each app, in
    the order of their commits. Both are as of the open batch: answers that report them wait until it is committed.

    refused: the prefixes of names under which nothing may be prepared, each with the time (`now_s`) until which that
    holds, oldest first; in memory only.
    """

    __slots__ = (
        "applying",
        "apps",
        "context",
        "admission",
        "drops",
        "limits",
        "next_transaction",
        "prepared",
        "refused",
    )

    def __init__(
        self,
        context: TurnContext,
        admission: Admission,
        limits: Limits,
        recovery: Recovery,
        applying: Applying,
        schedule: Callable[[BackgroundTask], None],
    ) -> None:
        self.context = context
        self.drops = DropPrepared(context, schedule)
        self.admission = admission
        self.limits = limits
        self.applying = applying
        self.apps = {app.app: app for app in sorted(recovery.apps, key=lambda app: app.committed_ms)}
        self.prepared: dict[str, StoredTransaction] = {}
        self.refused: dict[str, float] = {}
        self.next_transaction = 1
        for row in sorted(recovery.transactions, key=lambda row: row.prepared_ms):
            prepared = StoredTransaction(row.transaction, row.name, row.count, row.size, row.prepared_ms, row.applied)
            self.next_transaction = max(self.next_transaction, row.transaction + 1)
            if row.name:
                self.prepared[row.name] = prepared
            else:
                # D30: what was committed goes on where it was
                prepared.is_committed = True
                applying.begin(prepared)

    # ---- prepare ----------------------------------------------------------------------------------------------------

    def prepare(self, connection: Connection, transaction: Transaction, name: str) -> Waitable | None:
        """Stores the transaction under that name, in the open batch. Returns the room to wait for, or None. Raises
        Refusal.
        """
        if name in self.prepared:
            raise Refusal("prepared", f"A transaction is prepared as {shown(name.encode())} already: abort it first.")
        if name.startswith(tuple(self.refused)):
            raise Refusal("aborted", f"{shown(name.encode())} comes too late: all with such names are aborted.")
        if self.count >= PREPARED_MAX:
            raise Refusal(
                "too-many-transactions",
                f"{PREPARED_MAX} transactions are prepared, or committed and not yet in their destinations: commit or "
                "abort some first.",
            )
        self.judge(connection, transaction)
        blocked = self.admission.blocked(connection, None, True, transaction.size, is_commit=True)
        if blocked is not None:
            return blocked
        self.drops.drop(name)
        # D30: the whole of it is in one batch, and the RECEIPT waits for that
        sends = [self.absolute(send) for send in transaction.sends]
        size = sum(send.size for send in sends)
        prepared = self.prepared[name] = StoredTransaction(
            self.next_transaction, name, len(sends), size, self.context.now_ms
        )
        prepared.principal = connection.principal
        self.next_transaction += 1
        self.context.write(prepared.row())
        if sends:
            self.context.write(StorePrepared(prepared.number, 0, sends), size + len(sends) * WRITE_COST_BYTES)
        return None

    def judge(self, connection: Connection, transaction: Transaction) -> None:
        """Raises Refusal where a SEND could not be carried out now, or asks for what cannot be kept for later."""
        if transaction.settlements:
            raise Refusal("not-preparable", "A transaction with an ACK or NACK in it cannot be prepared: SENDs only.")
        # of those that are alike the largest stands for all
        largest: dict[tuple[object, ...], Send] = {}
        for send in transaction.sends:
            known = largest.get(alike := _alike(send))
            if known is None or send.size > known.size:
                largest[alike] = send
        with_schema: dict[tuple[object, ...], list[Target]] = {}
        for alike, send in largest.items():
            kind, _ = split(send.destination)
            if not self.admission.router.kinds[kind].can_prepare:
                raise Refusal(
                    "not-preparable",
                    f"A SEND to {send.destination} cannot be prepared: only to queues, fanouts, exchanges and logs.",
                )
            if send.mandatory or send.immediate or send.reply_to is not None or send.more_keys:
                others = "immediate" if send.immediate else "more keys" if send.more_keys else "reply-to"
                which = "mandatory" if send.mandatory else others
                raise Refusal(
                    "not-preparable", f"The SEND to {send.destination} has `{which}`, so it cannot be prepared."
                )
            puts = self.admission.router.plan(connection, send, Plan()).puts
            self.admission.needs(puts)
            with_schema[alike] = [target for target, _, _, _ in puts if target.settings.schema is not None]
        if any(with_schema.values()):
            now_ms = self.context.now_ms
            check_bodies(
                (target, send.message(send.headers, now_ms, None))
                for send in transaction.sends
                for target in with_schema[_alike(send)]
            )

    def absolute(self, send: Send) -> Send:
        """Returns the SEND as it is stored: its times count from now."""
        if send.expiration_ms is None and send.delay_ms is None:
            return send
        now_ms = self.context.now_ms
        expires_ms = send.expires_ms
        if send.expiration_ms is not None:
            expires_ms = expires_by(expires_ms or 0, send.expiration_ms, now_ms)
        deliver_at_ms = send.deliver_at_ms
        if send.delay_ms is not None:
            deliver_at_ms = max(now_ms + send.delay_ms, deliver_at_ms or 0)
        return replace(send, expiration_ms=None, expires_ms=expires_ms, delay_ms=None, deliver_at_ms=deliver_at_ms)

    # ---- commit, abort ----------------------------------------------------------------------------------------------

    def is_committed(self, app: str, version: int) -> bool:
        """Whether that version of the app, or a higher one, has been committed."""
        last = self.apps.get(app)
        return last is not None and version <= last.version

    def commit(self, connection: Connection, names: Iterable[str], app: str, version: int) -> int | None:
        """Commits what is prepared under these names. Returns how many SENDs are sure to reach their destinations, each
        once, when the open batch is on the disk. None: that version was committed before, and what is prepared under
        the names is dropped. Raises Refusal.
        """
        names = dict.fromkeys(names)
        if self.is_committed(app, version):
            self.abort(names, _nothing)
            return None
        for name in names:
            if name not in self.prepared:
                raise Refusal("not-prepared", f"No transaction is prepared as {shown(name.encode())}.")
        self.check_app(app)
        # D30: the version and all that it commits are in one batch
        self.keep_app(app, version)
        count = 0
        for name in names:
            prepared = self.prepared.pop(name)
            count += prepared.count
            prepared.is_committed = True
            prepared.principal = prepared.principal or connection.principal
            if prepared.count:
                self.context.write(prepared.row())
                self.applying.begin(prepared, self.context.open)
            else:
                self.context.write(DropTransaction(prepared.number))
        return count

    def check_app(self, app: str) -> None:
        """Raises Refusal where there would be one app too many."""
        if app not in self.apps and len(self.apps) >= APPS_MAX:
            raise Refusal(
                "too-many-transactions",
                f"{APPS_MAX} values of producer-id are remembered, which is the limit, for {self.limits.app_max_s:g} s "
                f"each (app_max_s): {shown(app.encode())} is refused.",
            )

    def keep_app(self, app: str, version: int) -> None:
        """Stores that version as the app's last, in the open batch."""
        self.apps.pop(app, None)
        self.apps[app] = row = KeepApp(app, version, self.context.now_ms)
        self.context.write(row, WRITE_COST_BYTES + len(app))

    def forget_app(self, app: str) -> None:
        """Forgets the app, in the open batch: its versions may be committed again."""
        if self.apps.pop(app, None) is not None:
            self.context.write(DropApp(app))

    def abort(self, names: Iterable[str], then: Callable[[int], None]) -> None:
        """Drops what is prepared under these names. `then` gets how many there were, when the last of them is dropped
        by the open batch, or an earlier one.
        """
        found = [self.prepared.pop(name) for name in dict.fromkeys(names) if name in self.prepared]
        self.drops.add(found, lambda: then(len(found)))

    def abort_all(self, prefix: str, refuse_s: int, then: Callable[[int], None]) -> None:
        """Aborts all prepared transactions whose names begin with `prefix`. For `refuse_s` seconds none can be prepared
        under such a name: a program that prepares them may not know yet that they were aborted.
        """
        if refuse_s:
            until_s = self.context.now_s + refuse_s
            self.refused[prefix] = max(until_s, self.refused.pop(prefix, until_s))
            if len(self.refused) > PREFIXES_MAX:
                self.refused.pop(next(iter(self.refused)))
        self.abort([name for name in self.prepared if name.startswith(prefix)], then)

    # ---- over time --------------------------------------------------------------------------------------------------

    def ticked(self) -> None:
        """Drops what nobody has committed in time, and forgets apps that have committed nothing for long."""
        self.applying.ticked()
        for prefix in [prefix for prefix, until_s in self.refused.items() if until_s <= self.context.now_s]:
            del self.refused[prefix]
        before_ms = self.context.now_ms - int(self.limits.prepared_max_s * 1000)
        while self.prepared and self.drops.is_done:
            name, oldest = next(iter(self.prepared.items()))
            if oldest.prepared_ms >= before_ms:
                break
            self.context.note("warning", "prepared_expired", name=name, messages=oldest.count)
            self.abort((name,), _nothing)
        before_ms = self.context.now_ms - int(self.limits.app_max_s * 1000)
        for _ in range(STEP_MESSAGES):
            first = next(iter(self.apps.values()), None)
            if first is None or first.committed_ms >= before_ms:
                break
            self.forget_app(first.app)

    @property
    def count(self) -> int:
        """How many are not finished, committed or not."""
        return len(self.prepared) + len(self.drops.left) + self.applying.count

    def described(self, most: int) -> list[PreparedTransaction]:
        """Returns the first of those that are not finished: committed ones, then the others, the oldest first."""
        found: list[PreparedTransaction] = []
        for prepared in (*self.applying.committed(), *self.prepared.values()):
            if len(found) >= most:
                break
            age_ms = max(0, self.context.now_ms - prepared.prepared_ms)
            waits = prepared.waits if prepared.is_committed else None
            found.append(
                PreparedTransaction(
                    prepared.name, prepared.count, prepared.size, age_ms, prepared.applied, prepared.is_committed, waits
                )
            )
        return found


def _nothing(count: int) -> None:
    """Does nothing: the callback where nobody waits."""


def _alike(send: Send) -> tuple[object, ...]:
    """Returns what SENDs that go into the same destinations in the same way have in common."""
    expires = send.expiration_ms is not None or send.expires_ms
    is_delayed = send.delay_ms is not None or send.deliver_at_ms is not None
    return send.destination, bool(expires), is_delayed, send.mandatory, send.immediate, send.reply_to
