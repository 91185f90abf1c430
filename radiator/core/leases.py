"""Leases: Receive and Settle, for clients without a connection that could own what is unacked (docs/HTTP.md).

A lease is an unacked delivery that belongs to a user: to an Owner, which queues treat as a connection, and which exists
while it has leases or waiting Receives. A Receive is a consumer of its queue until it is answered, at the end of the
turn in which messages came, or when its time is over. If there are no users, all clients share one Owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from radiator.core.authorization import Authorization
from radiator.core.background import Requeue
from radiator.core.connections import Connection, ConsumedQueue, Delivery
from radiator.core.deadlines import Deadlines
from radiator.core.journal_writer import lease_client
from radiator.core.kinds.kind import Kind
from radiator.core.lease_owner import Lease, Owner, Receiving
from radiator.core.queues.queue import Queue
from radiator.core.reading import Reading
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.settlements import Settlements, Tokens
from radiator.core.states import Event
from radiator.core.turn import BackgroundTask, TurnContext
from radiator.core.usage import Usages
from radiator.model.addresses import split
from radiator.model.commands import CLIENT_INDIVIDUAL
from radiator.model.errors import Refusal, count_text
from radiator.model.leases import Leased, LeasedMessage, Receive, Settle
from radiator.model.limits import (
    AWAIT_MAX_MS,
    JUDGED_LOOKS,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    LEASE_STEP_S,
    LEASED_AT_ONCE_MAX,
    OFFERS_PER_TURN,
    OVERDUE_AT_ONCE,
    RECEIVE_LOAD_S,
    RECEIVES_MAX,
    REFUSED_LOOKS,
    STEP_MESSAGES,
    TICK_S,
    Limits,
)
from radiator.model.replies import MESSAGE_COST_BYTES, Deliver


class Leases:
    """owners: by user. asked: by connection, its Receive that waits. filled: Receives to be answered. held: by
    connection whose last answer waits for a batch, that batch and the leases in the answer. begin: begins a background
    task; on_left, read_back, batch_wait_list: as in acks.py.
    """

    __slots__ = (
        "asked", "authorization", "begin", "context", "ends", "filled", "held", "kinds", "last_number", "last_owner",
        "limits", "on_left", "owners", "settlements", "tokens", "usages", "waits",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        key: bytes,
        *,
        authorization: Authorization,
        usages: Usages,
        kinds: Mapping[str, Kind],
        begin: Callable[[BackgroundTask], None],
        on_left: Callable[[ConsumedQueue], None],
        read_back: Callable[[list[Delivery]], Reading],
        batch_wait_list: WaitList,
    ) -> None:
        self.context = context
        self.limits = limits
        self.authorization = authorization
        self.usages = usages
        self.kinds = kinds
        self.begin = begin
        self.on_left = on_left
        self.owners: dict[str, Owner] = {}
        self.asked: dict[Connection, Receiving] = {}
        self.filled: dict[Receiving, None] = {}
        self.held: dict[Connection, tuple[int, list[Lease]]] = {}
        self.ends: Deadlines[Lease] = Deadlines(LEASE_STEP_S)
        self.waits: Deadlines[Receiving] = Deadlines(TICK_S)
        self.last_number = self.last_owner = 0
        self.tokens = Tokens(key, context.boot)
        self.settlements = Settlements(
            context, self.tokens, self.ends, on_left=on_left, read_back=read_back, batch_wait_list=batch_wait_list
        )

    # ---- Receive ----------------------------------------------------------------------------------------------------

    def receive(self, connection: Connection, command: Receive) -> Waitable | None:
        """Makes the Receive a consumer until it is answered, or returns what it must wait for first. Raises Refusal."""
        _check(command)
        if connection in self.asked:
            raise Refusal("too-many-receives", "A Receive of this connection waits already: one at a time.")
        if self.context.handled >= STEP_MESSAGES:
            return FLUSH
        queue = self._queue(command)
        owner = self._owner(connection)
        if len(owner.queue_subscriptions) >= RECEIVES_MAX:
            count = len(owner.queue_subscriptions)
            raise Refusal("too-many-receives", f"{count} Receives of {_of(owner)} wait already, which is the limit.")
        if len(owner.unacked) >= self.limits.max_leases:
            have = f"{count_text(len(owner.unacked), 'message is', 'messages are')} leased to {_of(owner)} already"
            raise Refusal("too-many-leases", f"{have}: max_leases is {self.limits.max_leases}. Settle some first.")
        due_s = self.context.now_s + command.wait_ms / 1000
        receiving = Receiving(
            owner,
            f"{owner.address} #{owner.next_place}".encode(),
            queue,
            CLIENT_INDIVIDUAL,
            command.max_messages,
            False,
            True,
            owner.next_place,
            is_getter=True,
            client=lease_client(owner.name),
            destination=command.destination,
            asker=connection,
            command=command,
            source=queue,
            answer_max_bytes=self.limits.max_frame_bytes,
            due_s=due_s,
        )
        queue.subscribe(receiving)
        receiving.ack_timeout_s = None  # a lease has an end of its own
        owner.next_place += 1
        owner.queue_subscriptions[receiving.name] = self.asked[connection] = receiving
        queue.join(receiving)
        self.context.handled += len(receiving.messages)
        if not receiving.messages and command.wait_ms:
            self.waits.add(receiving, due_s)
        else:
            self.filled[receiving] = None
        return None

    def _queue(self, command: Receive) -> Queue:
        """Returns the queue that it names, created as by a SUBSCRIBE. Raises Refusal."""
        kind, name = split(command.destination)
        return self.kinds[kind].leased(command.destination, name)

    def lease(self, receiving: Receiving, deliver: Deliver, size: int) -> None:
        """Leases the message that was given to that Receive."""
        owner = receiving.connection
        assert isinstance(owner, Owner), "only an Owner has Receivings"
        self.last_number = number = self.last_number + 1
        lease_s = receiving.command.lease_ms / 1000
        due_s = self.context.now_s + lease_s
        delivery = owner.unacked[deliver.message_id]
        delivery.lease = number
        lease = Lease(number, owner, delivery, lease_s, due_s)
        owner.leases[number] = lease
        self.ends.add(lease, due_s)
        receiving.taken_bytes += size + MESSAGE_COST_BYTES
        receiving.leases.append(lease)
        receiving.messages.append(
            LeasedMessage(
                self.tokens.of(number, owner.name),
                deliver.message_id,
                deliver.message,
                deliver.redelivered,
                deliver.redeliveries,
            )
        )
        self.filled[receiving] = None

    def answer(self) -> bool:
        """Called at the end of a turn: answers Receives that have messages, or whose time is over. Returns whether more
        are left.
        """
        for _ in range(min(len(self.filled), OFFERS_PER_TURN)):
            receiving = next(iter(self.filled))
            del self.filled[receiving]
            if not receiving.is_late and receiving.awaits_disk:
                receiving.is_late = True
                receiving.due_s += RECEIVE_LOAD_S
                self.waits.add(receiving, receiving.due_s)
                continue
            asker, command, messages = receiving.asker, receiving.command, receiving.messages
            leases = self._over(receiving)
            asker.say(self.context, Leased(command.connection, command.receipt, messages))
            self.held.pop(asker, None)
            if leases and asker.held_batch > self.context.committed:
                self.held[asker] = asker.held_batch, leases
        return bool(self.filled)

    def _over(self, receiving: Receiving) -> list[Lease]:
        """Ends it as a consumer. Returns what it has taken, and drops all else: each lease keeps the Receiving, maybe
        for hours, and cycles of references stay until they are collected.
        """
        self.filled.pop(receiving, None)
        self.waits.remove(receiving, receiving.due_s)
        del self.asked[receiving.asker]
        del receiving.connection.queue_subscriptions[receiving.name]
        receiving.source.unsubscribe(receiving)
        self.on_left(receiving.source)
        leases, receiving.leases, receiving.messages = receiving.leases, [], []
        receiving.asker = receiving.connection
        return leases

    def refuse(self, receiving: Receiving, refusal: Refusal) -> None:
        """Refuses the Receive. What it has taken is returned, and counts as never leased."""
        asker, command = receiving.asker, receiving.command
        self.give_back(self._over(receiving), Event.UNUSED)
        if not asker.is_closing:
            asker.refused(self.context, command, refusal)

    def settle(self, connection: Connection, command: Settle) -> Waitable | None:
        """Carries out a Settle, or a slice of it; returns what the rest must wait for. Raises Refusal."""
        owner = self.owners.get(self.authorization.lease_owner(connection))
        return self.settlements.settle(connection, owner, command)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def give_back(self, leases: Iterable[Lease], event: Event) -> None:
        """Ends these leases, and returns their messages by that event, a slice a turn."""
        out = []
        owners: dict[Owner, None] = {}
        for lease in leases:
            self.settlements.forget(lease)
            out.append(lease.delivery)
            owners[lease.owner] = None

        def given_back(queues: dict[ConsumedQueue, None]) -> None:
            for queue in queues:
                self.on_left(queue)
            for owner in owners:
                owner.offer()

        if out:
            self.begin(Requeue(self.context, event, out, given_back))

    def closed(self, connection: Connection) -> None:
        """Called when a connection is closed. What is leased stays leased, except in an answer that was not sent:
        nobody has its tokens.
        """
        self.settlements.closed(connection)
        receiving = self.asked.get(connection)
        if receiving is not None:
            self.give_back(self._over(receiving), Event.UNUSED)
        held_in, leases = self.held.pop(connection, (0, []))
        if held_in > self.context.committed:
            self.give_back([one for one in leases if one.number in one.owner.leases], Event.UNUSED)

    def ticked(self) -> None:
        """Called as time passes: has Receives answered that have waited long enough, and ends leases that are over."""
        now_s = self.context.now_s
        self.filled.update(dict.fromkeys(self.waits.take_due(now_s, RECEIVES_MAX)))
        overdue = self.ends.take_due(now_s, OVERDUE_AT_ONCE)
        if overdue:
            self.context.count("leases_overdue", len(overdue))
            self.give_back(overdue, Event.OVERDUE)
        for owner in [*self.owners.values()]:
            if not owner.is_used:
                self._drop(owner)

    def judge(self) -> Iterator[int]:
        """Called when the users have changed: ends what its user may no longer have. Yields what each step costs, as in
        reload.py.
        """
        authorization = self.authorization
        for owner in [*self.owners.values()]:
            yield JUDGED_LOOKS
            try:
                authorization.check_owner(owner, owner.name)
            except Refusal as refusal:
                self.end(owner, refusal)
                yield REFUSED_LOOKS
                continue
            for receiving in [*owner.queue_subscriptions.values()]:
                yield JUDGED_LOOKS
                assert isinstance(receiving, Receiving), "it has no other subscriptions"
                if receiving.is_over:
                    continue
                try:
                    authorization.check_waiting(receiving.asker, receiving.command)
                except Refusal as refusal:
                    self.refuse(receiving, refusal)
                    yield REFUSED_LOOKS

    def end(self, owner: Owner, refusal: Refusal) -> None:
        """Ends an owner: refuses its Receives, and returns what it has leased uncounted."""
        if owner.is_closing:
            return
        owner.is_closing = True
        for receiving in [*owner.queue_subscriptions.values()]:
            assert isinstance(receiving, Receiving), "it has no other subscriptions"
            self.refuse(receiving, refusal)
        self.context.note(
            "info", "leases_ended", user=owner.name, leases=len(owner.leases), code=refusal.code, sentence=str(refusal)
        )
        self.give_back([*owner.leases.values()], Event.UNUSED)
        self._drop(owner)

    # ---- owners -----------------------------------------------------------------------------------------------------

    def _owner(self, connection: Connection) -> Owner:
        """Returns the owner of this client's user, made now if there is none."""
        name = self.authorization.lease_owner(connection)
        found = self.owners.get(name)
        if found is None:
            self.last_owner -= 1  # a number that no connection has
            found = self.owners[name] = Owner(self.last_owner, name, self)
            self.authorization.act_for(found, connection)
            found.usage = connection.usage
            if found.usage is not None:
                found.usage.has_leases = True
        return found

    def _drop(self, owner: Owner) -> None:
        if self.owners.get(owner.name) is owner:
            del self.owners[owner.name]
        if owner.usage is not None:
            self.usages.leases_end(owner.usage, owner)


def _of(owner: Owner) -> str:
    return owner.name or "all clients together"


def _check(command: Receive) -> None:
    """Raises Refusal for a number that is out of its range."""
    for name, value, least, most in (
        ("max_messages", command.max_messages, 1, LEASED_AT_ONCE_MAX),
        ("wait_ms", command.wait_ms, 0, AWAIT_MAX_MS),
        ("lease_ms", command.lease_ms, LEASE_MIN_MS, LEASE_MAX_MS),
    ):
        if not least <= value <= most:
            raise Refusal("bad-request", f"{name} is {value}: it must be {least} to {most}.")
