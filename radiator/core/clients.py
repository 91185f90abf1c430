"""Connections as they come and go, and what is written to them."""

from math import inf

from radiator.core.acks import Acks
from radiator.core.answers import Answers
from radiator.core.audit_writer import AuditWriter
from radiator.core.authorization import Authorization
from radiator.core.background import BackgroundTasks, Requeue
from radiator.core.blocking import Blocking
from radiator.core.cluster.cluster import Cluster
from radiator.core.connections import Connection, ConsumedQueue
from radiator.core.getting import Getting
from radiator.core.leases import Leases
from radiator.core.lifetimes import Lifetimes
from radiator.core.repetitions import Repetitions
from radiator.core.routing.waiting import Waitable
from radiator.core.states import Event
from radiator.core.subscriptions import Subscriptions
from radiator.core.transactions.transactions import Transactions
from radiator.core.turn import TurnContext
from radiator.core.usage import Usages
from radiator.model.addresses import QUEUE, queue_address
from radiator.model.commands import (
    Closed,
    Disconnect,
    Fail,
    Identify,
    InvalidSend,
    LoginRefused,
    NotLinked,
    Open,
    PeerMessage,
    Renew,
    Unheeded,
    Written,
)
from radiator.model.errors import Refusal
from radiator.model.keys import HEADER
from radiator.model.limits import CLIENT_SHOWN, ENDED_AT_ONCE, STEP_MESSAGES, UNHEEDED_NOTED, Limits
from radiator.model.replies import Bye


class Clients:
    """all: every connection that is open, by its number: of clients, and of linked nodes."""

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        *,
        cluster: Cluster | None,
        acks: Acks,
        answers: Answers,
        background: BackgroundTasks,
        blocking: Blocking,
        getting: Getting,
        leases: Leases,
        lifetimes: Lifetimes,
        repetitions: Repetitions,
        subscriptions: Subscriptions,
        transactions: Transactions,
        connections: dict[int, Connection],
        authorization: Authorization,
        usages: Usages,
        audit: AuditWriter,
    ) -> None:
        self.context = context
        self.limits = limits
        self.cluster = cluster
        self.acks = acks
        self.answers = answers
        self.background = background
        self.blocking = blocking
        self.getting = getting
        self.leases = leases
        self.lifetimes = lifetimes
        self.repetitions = repetitions
        self.subscriptions = subscriptions
        self.transactions = transactions
        self.connections = connections
        self.awake: list[Connection] = []  # those that may hold memory
        self.authorization = authorization
        self.usages = usages
        self.audit = audit
        self.until_ms: dict[int, int] = {}  # when each login runs out, by the connection's number
        self.next_end_ms = inf  # none of them runs out before
        self.unheeded_noted: set[str] = set()  # destinations

    # ---- reports of the server --------------------------------------------------------------------------------------

    def opened(self, event: Open) -> bool:
        connection = Connection(event.connection, self.limits.outbox_filled_bytes, self.awake)
        connection.closes_at = event.closes_at
        connection.principal = event.principal
        connection.peer, connection.protocol, connection.tls = event.address, event.protocol, event.tls
        connection.client, connection.opened_s = event.client[:CLIENT_SHOWN], self.context.now_s
        connection.owner = event.channel_of or event.connection
        self.connections[event.connection] = connection
        is_channel = connection.owner != connection.number
        if is_channel:
            self.usages.channels += 1
            owner = self.connections.get(event.channel_of)
            if owner is None:
                sentence = f"There is no connection {event.channel_of} to have a channel."
                connection.refuse(self.context, "protocol", sentence)
                return True
            owner.channels[connection.number] = connection
            if owner.is_idle:
                owner.wake()  # channels beyond the first few are weighed
        try:
            connection.usage = self.usages.opened(connection, event.principal)
            # a reload may have come between its login and this turn
            until_ms = self.authorization.check_login(connection)
            if not is_channel:
                self.ends_at(event.connection, until_ms)
        except Refusal as refusal:
            connection.refuse_on(self.context, refusal)
            return True
        if event.peer is None and self.authorization.authorizer is not None and not is_channel:
            self.audit.logged_in(connection)
        if event.peer is not None:
            if self.cluster is None or self.context.is_stopping:
                connection.refuse(self.context, "unknown-node", "This broker is not one of several.")
            else:
                self.cluster.links.opened(connection, event.peer)
        return True

    def identify(self, connection: Connection, command: Identify) -> None:
        """Has what follows on the connection be done by, and count for, another user."""
        if connection.usage is not None:
            self.usages.closed(connection.usage, connection)
            connection.usage = None
        connection.principal = command.principal
        try:
            connection.usage = self.usages.opened(connection, command.principal)
            self.ends_at(connection.number, self.authorization.check_login(connection))
        except Refusal as refusal:
            connection.refuse_on(self.context, refusal)
            return
        self.audit.logged_in(connection)

    def renew(self, connection: Connection, command: Renew) -> None:
        """Has the connection and its channels end when the new secret runs out. Raises Refusal if that is another
        user's.
        """
        self.authorization.check_renewed(connection, command.principal)
        before, connection.principal = connection.principal, command.principal
        try:
            self.ends_at(connection.number, self.authorization.check_login(connection))
        except Refusal:
            connection.principal = before
            raise
        for channel in connection.channels.values():
            channel.principal = command.principal

    def ends_at(self, number: int, until_ms: int | None) -> None:
        """Sets when the connection's login runs out; None: it does not, even if an earlier one would."""
        if until_ms is None:
            self.until_ms.pop(number, None)
        else:
            self.until_ms[number] = until_ms
            self.next_end_ms = min(self.next_end_ms, until_ms)

    def login_refused(self, event: LoginRefused) -> bool:
        """Records it in the audit log."""
        self.audit.login_refused(event.name, event.peer, event.network)
        return True

    def ticked(self) -> None:
        """Ends connections whose login has run out, ENDED_AT_ONCE at a time."""
        now_ms = self.context.now_ms
        if now_ms < self.next_end_ms:
            return
        over = [number for number, until_ms in self.until_ms.items() if until_ms <= now_ms]
        for number in over[:ENDED_AT_ONCE]:
            del self.until_ms[number]
            connection = self.connections[number]
            if not connection.is_closing:
                refusal = self.authorization.run_out(connection)
                connection.refuse_on(self.context, refusal)
        self.next_end_ms = min(self.until_ms.values(), default=inf)

    def not_linked(self, event: NotLinked) -> bool:
        if self.cluster is not None:
            self.cluster.links.not_linked(event)
        return True

    def written(self, event: Written) -> bool:
        """Called when the outgoing buffer got smaller: acks `auto` messages whose last byte the operating system has
        taken.
        """
        connection = self.connections.get(event.connection)
        if connection is None or self.context.is_stopping:
            return True
        was_full = connection.outbox_bytes >= connection.outbox_max_bytes
        self.acks.written(connection, event.delivers)
        if was_full and connection.outbox_bytes < connection.outbox_max_bytes:
            # it may have been less while memory was short; whoever waits for room is offered it here
            connection.outbox_max_bytes = self.limits.outbox_filled_bytes
            connection.offer()
            self.answers.outbox_drained(connection)
            self.getting.drained(connection)
        if connection.is_link and self.cluster is not None:
            self.cluster.written(connection)
        return True

    def closed(self, event: Closed) -> bool:
        """Called when a connection is closed: returns its unacked messages, and drops whatever else it had open."""
        connection = self.connections.pop(event.connection, None)
        self.until_ms.pop(event.connection, None)
        if connection is None or self.context.is_stopping:
            return True
        connection.is_closing = True
        if connection.owner != connection.number:
            self.usages.channels -= 1
            if connection.owner in self.connections:
                self.connections[connection.owner].channels.pop(connection.number, None)
        if connection.usage is not None:
            self.usages.closed(connection.usage, connection)
            connection.usage = None
        if self.cluster is not None and connection.is_link:
            self.cluster.links.closed(connection, event.cause)
        if connection.waits_for is not None:
            self.blocking.unblock(connection)
        self.answers.closed(connection)
        self.leases.closed(connection)
        self.getting.closed(connection)
        self.acks.begun.pop(connection, None)
        self.repetitions.closed(connection)
        self.transactions.closed(connection)
        queues = self.subscriptions.closed(connection)
        lost = [
            *connection.unacked.values(),
            *(delivery for _, delivery in connection.unwritten if delivery is not None and delivery.is_out),
        ]
        connection.unwritten.clear()

        def given_back(touched: dict[ConsumedQueue, None]) -> None:
            for queue in queues | touched:
                self.lifetimes.left(queue)

        requeue = Requeue(self.context, Event.LOST, lost, given_back)
        if not lost or self.context.handled < STEP_MESSAGES:
            requeue.step()
        if not requeue.is_done:
            self.background.append(requeue)
        self.lifetimes.owner_left(connection.number)
        return True

    # ---- commands ---------------------------------------------------------------------------------------------------

    def disconnect(self, connection: Connection, command: Disconnect) -> None:
        connection.is_closing = True
        connection.receipt(self.context, command.receipt)
        connection.say(self.context, Bye(connection.number))

    def fail(self, connection: Connection, command: Fail) -> None:
        connection.refuse(self.context, command.code, command.sentence, command.receipt)
        if self.cluster is not None and connection.is_link:
            self.cluster.links.refused(connection, command.code, command.sentence)

    def invalid_send(self, connection: Connection, command: InvalidSend) -> None:
        raise Refusal("protocol", command.sentence)

    def heard(self, connection: Connection, command: PeerMessage) -> Waitable | None:
        if self.cluster is None:
            raise Refusal("unknown-node", "This broker is not one of several.")
        return self.cluster.heard(connection, command.word)

    def unheeded(self, connection: Connection, command: Unheeded) -> None:
        """Logs an unheeded header once for each destination, unless a queue takes its keys or priorities from it."""
        noted, address = self.unheeded_noted, command.destination
        if address not in noted and len(noted) < UNHEEDED_NOTED and not self.is_key(address, command.header):
            noted.add(address)
            self.context.note(
                "warning",
                "header_unheeded",
                connection=connection.number,
                header=command.header,
                destination=address,
                sentence=command.sentence,
            )

    def is_key(self, address: str, header: str) -> bool:
        """Whether the queue of that address takes the keys of its messages from that header, or their priorities."""
        name = queue_address(address).removeprefix(f"/{QUEUE}/")
        queue = self.subscriptions.destinations.queues.all.get(name)
        if queue is None:
            return False
        if header == "priority" and queue.settings.max_priority is not None:
            return True
        return HEADER + header in queue.settings.partition_key
