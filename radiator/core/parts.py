"""The parts of one broker, put together; also for code that needs all of them: operators' requests, statistics, a
reload. Code that has the parts can read and call them; only the Broker takes turns and seals batches.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from radiator.core.acks import Acks
from radiator.core.answers import Answers
from radiator.core.audit_writer import AuditWriter
from radiator.core.authorization import Authorization, Authorizer
from radiator.core.background import BackgroundTasks
from radiator.core.blocking import Blocking
from radiator.core.clients import Clients
from radiator.core.clock import Clock
from radiator.core.cluster.cluster import Cluster
from radiator.core.connections import Connection, Delivery
from radiator.core.dead_letters import DeadLetters
from radiator.core.disk_pressure import DiskPressure
from radiator.core.getting import Getting
from radiator.core.journal_writer import JournalWriter
from radiator.core.kinds.table import start
from radiator.core.leases import Leases
from radiator.core.lifetimes import Lifetimes
from radiator.core.logs.checkouts import Checkouts
from radiator.core.memory import Memory
from radiator.core.memory_pressure import MemoryPressure
from radiator.core.overview.overview import Overview
from radiator.core.ports import ReloadPort
from radiator.core.queues.sweeping import Sweeping
from radiator.core.reading import Reading
from radiator.core.registrations import Registrations
from radiator.core.repetitions import Repetitions
from radiator.core.rounds import Rounds
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.incoming import Incoming
from radiator.core.routing.router import Router
from radiator.core.routing.turn_shares import TurnShares
from radiator.core.routing.waiting import Waitable
from radiator.core.searches import Searches
from radiator.core.server_view import ServerView
from radiator.core.subscriptions import Subscriptions
from radiator.core.timers import Timers
from radiator.core.transactions.applying import Applying
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.core.usage import Usages
from radiator.model.commands import Command, Read
from radiator.model.limits import LEASE_KEY_BYTES, Limits
from radiator.model.recovery import Recovery
from radiator.model.settings import AUDIT, JOURNAL, Declarations, Node


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that the broker runs on. map_size: how large the store may become; disk_free_min: what must stay
    free; both in bytes. entropy: returns so many random bytes. version: of the program. now_s, now_ms: of the start.
    trust_clock: follow the system's clock, however far it is from the time that the store has kept. uid: of the
    process. view: of the server.
    """

    map_size: int
    disk_free_min: int
    entropy: Callable[[int], bytes]
    version: str
    now_s: float
    now_ms: int
    trust_clock: bool = False
    uid: int = 0
    view: ServerView = ServerView()


class Parts:
    """unblocked: what may have room again for its waiters. half_open and certificates_left_s: as the server reports
    them in each Tick; store_behind_since_s: since when each has said that the tables are far behind; None: not now.
    """

    reload: ReloadPort  # given by the Broker: it needs the parts

    def __init__(
        self,
        declarations: Declarations,
        limits: Limits,
        recovery: Recovery,
        machine: Machine,
        node: Node | None,
        *,
        authorizer: Authorizer | None,
        carry_out: Callable[[Connection, Command], Waitable | None],
        postpone: Callable[[Read], None],
    ) -> None:
        """carry_out, postpone: as in blocking.py. Raises StoreError."""
        self.version = machine.version
        self.view = machine.view
        self.entropy = machine.entropy
        self.started_s = machine.now_s
        self.limits = limits
        self.half_open = 0
        self.certificates_left_s: Mapping[str, int] = {}
        self.store_behind_since_s: float | None = None
        self.connections: dict[int, Connection] = {}
        self.unblocked: dict[Waitable, None] = {}
        self.background = BackgroundTasks()
        self.context = TurnContext(recovery.store_id, recovery.boot)
        self.context.schedule = self.background.append
        self.audit = AuditWriter(self.context)
        self.context.on_forbidden = self.audit.forbidden
        self.usages = Usages(self.context, self.wake_waiters)
        self.authorization = Authorization(authorizer, self.usages, machine.uid)
        self.clock = Clock(0 if machine.trust_clock else recovery.time_ms, machine.now_s, machine.now_ms)
        self.context.now_s, self.context.now_ms = machine.now_s, self.clock.at(machine.now_s, machine.now_ms)
        self._make_destinations(declarations, recovery, machine, node)
        self._make_what_waits(recovery, carry_out, postpone)
        self._make_commands()
        self.overview = Overview(self)
        self.audit.log = self.destinations.logs.all.get(AUDIT) if declarations.has_journal else None
        if self.journal is not None:
            self.journal.started(
                self.destinations.logs.all[JOURNAL], self.destinations.queues.everything(), recovery.was_clean
            )

    def _make_destinations(
        self, declarations: Declarations, recovery: Recovery, machine: Machine, node: Node | None
    ) -> None:
        context, limits = self.context, self.limits
        self.dead_letters = DeadLetters(
            context, limits, lambda: self.destinations, lambda: self.admission.disk_wait_list.is_tight
        )
        self.journal = JournalWriter(context) if declarations.has_journal else None
        self.destinations: Destinations = Destinations(
            declarations,
            recovery,
            context,
            limits,
            machine.entropy,
            self.dead_letters.put,
            self.wake_waiters,
            self.usages,
            node is not None,
            self.journal,
        )
        incoming = Incoming(context, self.destinations, limits)
        self.kinds = start(incoming, recovery)
        self.background.extend(Sweeping(context, number, left) for number, left in recovery.retired.items())
        self.memory = Memory(self.destinations, limits)
        self.admission = Admission(Router(incoming, self.kinds), self.memory)
        self.disk = DiskPressure(
            context, limits, self.admission, self.unblocked, map_size=machine.map_size, free_min=machine.disk_free_min
        )
        self.cluster: Cluster | None = None
        if node is not None or recovery.doubts:
            self.cluster = Cluster(node, declarations, recovery, context, self.destinations, self.admission)
            if node is not None:
                self.destinations.spread(self.cluster.gossip, self.cluster.standing)

    def _make_what_waits(
        self,
        recovery: Recovery,
        carry_out: Callable[[Connection, Command], Waitable | None],
        postpone: Callable[[Read], None],
    ) -> None:
        context, destinations, begin = self.context, self.destinations, self.background.append
        self.applying = Applying(context, destinations, self.admission, self.unblocked, begin, self.authorization)
        self.prepared = PreparedTransactions(context, self.admission, self.limits, recovery, self.applying, begin)
        self.checkouts = Checkouts(context, destinations, begin)
        self.registrations = Registrations(context)
        self.answers = Answers(begin, self.unblocked)
        self.searches = Searches(context, destinations.windows)
        self.lifetimes = Lifetimes(context, destinations, self.checkouts, begin, self.unblocked)
        self.turn_shares = TurnShares(context)
        self.blocking = Blocking(
            context,
            self.limits,
            self.admission,
            self.unblocked,
            self.turn_shares,
            carry_out=carry_out,
            postpone=postpone,
            go_on_prepared=self.applying.go_on,
        )

    def _make_commands(self) -> None:
        context, limits, lifetimes = self.context, self.limits, self.lifetimes
        self.subscriptions = Subscriptions(
            context,
            self.destinations,
            limits,
            lifetimes.delete,
            lifetimes.left,
            self.unblocked,
            self.kinds,
            self.authorization,
        )
        self.transactions = Transactions(
            context, limits, self.admission, self.prepared, self.turn_shares, lifetimes.left, self.read_back
        )
        self.admission.into_transaction = self.transactions.send
        self.acks = Acks(context, self.transactions, lifetimes.left, self.read_back)
        self.leases = self._made_leases()
        self.getting = Getting(context, self.kinds, self.wake_waiters, lifetimes.left)
        self.repetitions = Repetitions(context, self.authorization, self.answers)
        self.memory_pressure = MemoryPressure(context, limits, self.memory, self.admission, self.unblocked)
        self.clients = Clients(
            context,
            limits,
            cluster=self.cluster,
            acks=self.acks,
            answers=self.answers,
            background=self.background,
            blocking=self.blocking,
            getting=self.getting,
            leases=self.leases,
            repetitions=self.repetitions,
            lifetimes=lifetimes,
            subscriptions=self.subscriptions,
            transactions=self.transactions,
            connections=self.connections,
            authorization=self.authorization,
            usages=self.usages,
            audit=self.audit,
        )
        self.timers = Timers(
            context, self.clock, self.destinations, self.admission, self.background, self.kinds, self.audit
        )
        self.rounds = Rounds(
            context,
            self.kinds,
            self.clients.awake,
            self.leases.owners,
            self.memory_pressure,
            self.blocking,
            self.transactions,
            lifetimes,
            self.usages,
            begin_task=self.background.append,
            forget_dedup_ids=self.timers.forget_dedup_ids,
        )

    def _made_leases(self) -> Leases:
        return Leases(
            self.context,
            self.limits,
            self.entropy(LEASE_KEY_BYTES),
            authorization=self.authorization,
            usages=self.usages,
            kinds=self.kinds,
            begin=self.background.append,
            on_left=self.lifetimes.left,
            read_back=self.read_back,
            batch_wait_list=self.acks.batch_wait_list,
        )

    def wake_waiters(self, waitable: Waitable) -> None:
        """Has those who wait for it tried again in this turn."""
        self.unblocked[waitable] = None

    def read_back(self, deliveries: list[Delivery]) -> Reading:
        """Returns what to wait for while the bytes of these deliveries are read back."""

        def read(reading: Reading) -> None:
            if reading.waiters:
                self.unblocked[reading] = None

        return Reading(deliveries, read)
