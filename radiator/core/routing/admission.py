"""Accepts messages: a SEND, the copies of a fanout or a whole transaction is first judged, then applied as a whole.

Judging has one of three results: the message is accepted; it must wait, and what it waits for is returned; or it is
refused: a Refusal is raised before anything has changed.
"""

from collections import Counter
from collections.abc import Callable

from radiator.core.connections import Connection, ConsumedQueue, Delivery, Transaction
from radiator.core.deliveries import settle
from radiator.core.memory import Memory
from radiator.core.producer import Producer
from radiator.core.queues.dedup import Dedup
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.batch_lines import BatchLines
from radiator.core.routing.bodies import check_bodies, check_body
from radiator.core.routing.lacks import Lacks
from radiator.core.routing.plan import Arrival, Plan, is_fanned, no_consumer, with_ttl
from radiator.core.routing.rest import Rest
from radiator.core.routing.router import Router
from radiator.core.routing.waiting import FLUSH, Waitable, WaitList
from radiator.core.turn import WRITE_COST_BYTES
from radiator.model.addresses import split
from radiator.model.commands import Ack, Nack, Send
from radiator.model.errors import Refusal
from radiator.model.headers import CONTENT_TYPE
from radiator.model.limits import (
    BATCH_BYTES,
    BATCH_WRITES,
    COPIES_PER_TURN,
    REPLIES_PER_TURN,
    SMALL_BYTES,
    STEPS_PER_COPY,
)
from radiator.model.message import Message
from radiator.model.peer import Answer
from radiator.model.replies import Receipt, Returned
from radiator.model.settings import BLOCK


class Admission:
    """Lets messages in. into_transaction: keeps a SEND for the COMMIT of its transaction, which is given by its id."""

    into_transaction: Callable[[Connection, Send, bytes], Waitable | None]  # given by Parts: transactions need this

    __slots__ = (
        "batch_lines", "copies", "copies_turn", "context", "destinations", "disk_left_bytes", "disk_wait_list",
        "incoming", "into_transaction", "lacks", "limits", "lookups", "memory", "memory_wait_list", "promised_bytes",
        "queues", "remembered", "router",
    )  # fmt: skip

    def __init__(self, router: Router, memory: Memory) -> None:
        self.router = router
        self.incoming = incoming = router.incoming
        self.context = incoming.context
        self.destinations = incoming.destinations
        self.limits = incoming.limits
        self.batch_lines = BatchLines(incoming.context)
        self.memory_wait_list = WaitList("memory")
        self.disk_wait_list = WaitList("disk")
        self.disk_left_bytes = 0  # room until SENDs wait for the disk; links may bring that much (cluster/capacity.py)
        self.promised_bytes = 0
        self.memory = memory
        self.lacks = Lacks(self.context, self.blocked)
        self.lookups: dict[int, tuple[WaitList, Dedup, bytes]] = {}
        # dedup-ids written since the last Forget
        self.remembered = 0
        # how many copies plans have put in the turn `copies_turn`
        self.copies_turn = self.copies = 0
        self.queues = incoming.destinations.queues.all

    # ---- one SEND ---------------------------------------------------------------------------------------------------

    def send(self, connection: Connection, command: Send) -> Waitable | None:
        """Judges a SEND, and carries it out or returns what it must wait for. Raises Refusal."""
        if command.transaction is not None:
            return self.into_transaction(connection, command, command.transaction)
        address = command.destination
        # the hot path: a queue that exists
        queue = self.queues.get(address[7:]) if address.startswith("/queue/") else None
        if queue is not None:
            return self.send_to(connection, queue, command)
        kind, name = split(address)
        return self.router.kinds[kind].send(self, connection, command, name)

    def send_to(self, connection: Connection, target: Target, command: Send) -> Waitable | None:
        """Hands a message to one target, by the rules of the target's kind."""
        settings = target.settings
        if (
            command.delay_ms is not None
            or command.deliver_at_ms is not None
            or command.immediate
            or command.more_keys
            or (settings.dedup_window_s and command.dedup_id is not None)
        ):
            return self.send_planned(connection, command)
        headers = command.headers
        if command.reply_to is not None:
            headers = self.incoming.with_reply_to(connection, command, command.reply_to)
        size = len(headers) + len(command.body)
        is_bounded = settings.max_messages is not None or settings.max_bytes is not None
        if is_bounded:
            target.check_size(size)
            if not target.judge(1, size):
                return target
        is_persistent = target.is_persistent
        blocked = self.blocked(connection, target, is_persistent, size)
        if blocked is None and target.maker is not None:
            blocked = target.maker.stored_wait(connection, size)
        if blocked is not None:
            return blocked
        if settings.schema is not None:
            check_body(target, command.body, CONTENT_TYPE.value(command.headers, command.escaping))
        if is_bounded and settings.overflow != BLOCK:
            target.evict(1, size)
        target.put(command.message(headers, self.context.now_ms, settings.message_ttl_ms))
        if is_persistent and size > SMALL_BYTES:
            self.batch_lines.added(size, size, 1)
        if not is_persistent:
            self.memory.bytes += size
            target.pump()
        if command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt), is_persistent)
        return None

    def send_planned(self, connection: Connection, command: Send) -> Waitable | None:
        """Carries out a plan: all of it or nothing."""
        blocked = self.apply_plan(connection, self.router.plan(connection, command, Plan()))
        if blocked is None:
            self.receipt(connection, command)  # apply_plan has said what it waits for
        return blocked

    def receipt(self, connection: Connection, command: Send) -> None:
        """Answers with the RECEIPT, if one was asked for."""
        if command.receipt is not None:
            connection.say(self.context, Receipt(connection.number, command.receipt))

    def answer(self, queue: Queue | None, message: Message) -> None:
        """Sends an answer to the client that asked, unless it has gone or does not read."""
        if queue is None or queue.is_gone or not queue.has_capacity(1, message.size):
            self.context.count("replies_dropped")
        else:
            queue.put(message)
            queue.pump()

    def answer_at(self, node: str, message: Message) -> None:
        """Sends an answer to a client of another node."""
        gossip = self.destinations.topics.gossip
        if gossip is None or not gossip.answer(Answer(node, 1, message)):
            self.lose_answer(node)

    def lose_answer(self, node: str) -> None:
        """Counts an answer that cannot be delivered: there is no way to its client, or no room on it."""
        self.context.count("replies_dropped")
        self.context.note("warning", "reply_dropped", node=node)

    def blocked(
        self, producer: Producer, queue: Target | None, is_persistent: bool, size: int, is_commit: bool = False
    ) -> Waitable | None:
        """Returns the room that this must wait for, though its queue would take it: that room is short, or others came
        first. is_commit: this is a COMMIT, which frees memory that the connection holds.
        """
        if queue is not None and queue.waiters and queue.waiters[0] is not producer:
            return queue
        memory = self.memory
        if memory.bytes > memory.tight_bytes:
            if not is_commit and memory.is_above_share(producer):
                return self.memory_wait_list
            if queue is not None and not is_persistent and not memory.has_capacity(queue, size):
                return queue
        if is_persistent:
            disk = self.disk_wait_list
            # D10: only incoming messages ask this; ACKs, NACKs, dead letters and removals never do
            if disk.is_tight or (disk.waiters and disk.waiters[0] is not producer):
                return disk
            batch, lines = self.context.open, self.batch_lines
            # the usual case is settled here, without a call for each SEND
            has_capacity = batch.size + size <= BATCH_BYTES and len(batch.writes) < BATCH_WRITES
            if not has_capacity or lines.small.waiters or lines.large.waiters:
                return lines.wait_for(producer, size)
        return None

    # ---- everything else: a plan, judged as a whole and applied as a whole ------------------------------------------

    def apply_plan(self, producer: Producer, plan: Plan, transaction: Transaction | None = None) -> Waitable | None:
        """Judges the whole plan, then carries all of it out: what is persistent in one batch, the rest when that is
        synced, or now if nothing must wait for the disk. Returns the room to wait for, or None. Raises Refusal.
        """
        self.lacks.forget(producer)
        new = self.without_duplicates(producer, plan)
        if isinstance(new, WaitList):
            return new
        puts, duplicates_of = new
        needs, persistent_bytes = self.needs(puts)
        if plan.immediate:
            self.check_immediate(plan, needs)
        blocked = self.first_blocked(producer, needs, persistent_bytes, plan, transaction is not None)
        if blocked is not None:
            return blocked
        if not producer.is_promised:
            check_bodies((queue, message) for queue, message, _, _ in puts)
        # D5 D6 D23: nothing below can fail, and everything persistent goes into the open batch
        plan.duplicates = len(plan.puts) - len(puts)
        if plan.duplicates:
            self.context.count("duplicates", plan.duplicates)
        self.forget_wait(producer)
        for one in plan.counted:
            one.accepted += 1
        for exchange in plan.unrouted:
            exchange.unrouted += 1
        for outbox, size in plan.unkept:
            outbox.drop_unkept(size)
        if plan.missing:
            self.context.count("unrouted", plan.missing)
        for queue, (count, size) in needs.items():
            if queue.settings.overflow != BLOCK:
                queue.evict(count, size)
        batch = self.context.open
        batch_bytes, writes = batch.size, len(batch.writes)
        self.store(puts, plan.ids)
        self.batch_lines.added(persistent_bytes, batch.size - batch_bytes, len(batch.writes) - writes)
        settlements = transaction.settlements if transaction is not None else []
        # copies that are not kept for a node are counted in the batch that the RECEIPT waits for
        is_persistent = self.settle_stored(settlements) or persistent_bytes > 0 or bool(plan.unkept)
        context = self.context
        memory_puts = [(q, m, due_ms) for q, m, _, due_ms in puts if not q.is_persistent]
        rest = Rest(self, producer, memory_puts, plan, settlements)
        # what the same connection sends next must not overtake what waits for the disk
        must_wait = (is_persistent or producer.rest_batch > context.committed) and not rest.is_empty
        if must_wait:
            rest.reserve()
            context.open.then.append(rest.carry_out_reserved)
            producer.rest_batch = context.open.number
        else:
            rest.carry_out()
        if is_persistent or must_wait:
            producer.held_batch = context.open.number
        elif duplicates_of > context.committed:
            producer.held_batch = max(producer.held_batch, duplicates_of)
        if plan.returned:
            self.give_back(producer, plan.returned)
        return None

    def give_back(self, producer: Producer, sends: list[Send]) -> None:
        """Sends the mandatory messages that have reached no queue back to their producer."""
        assert isinstance(producer, Connection), "what is mandatory is not prepared"
        for send in sends:
            returned = Returned(producer.number, send.destination, send.headers, send.escaping, send.body)
            producer.say(self.context, returned)

    def without_duplicates(self, producer: Producer, plan: Plan) -> tuple[list[Arrival], int] | WaitList:
        """Returns the messages of a plan that are new, with dedup-ids only where they count, and the batch that the
        duplicates wait for (0: none); or the wait list to wait on while the disk is asked.
        """
        for put in plan.puts:
            if put[2] is not None:
                break
        else:
            return plan.puts, 0
        duplicates_of = 0
        puts: list[Arrival] = []
        seen: set[tuple[int, bytes]] = set()
        for queue, message, dedup_id, due_ms in plan.puts:
            if dedup_id is not None and queue.settings.dedup_window_s and queue.dedup is not None:
                known = self.is_known(producer, queue.dedup, dedup_id)
                if isinstance(known, WaitList):
                    return known
                if known is not None or (queue.number, dedup_id) in seen:
                    duplicates_of = max(duplicates_of, known or 0)
                    continue
                seen.add((queue.number, dedup_id))
                puts.append((queue, message, dedup_id, due_ms))
            else:
                puts.append((queue, message, None, due_ms))
        return puts, duplicates_of

    def needs(self, puts: list[Arrival]) -> tuple[dict[Target, tuple[int, int]], int]:
        """Returns messages and bytes for each queue, and what the persistent ones cost in a batch. Raises Refusal."""
        needs: dict[Target, tuple[int, int]] = {}
        last, alone = None, (1, 0)
        for queue, message, _, _ in puts:
            if message is not last:  # a fanout may put one into thousands of queues
                last, alone = message, (1, message.size)
            queue.check_size(alone[1])
            before = needs.get(queue)
            needs[queue] = alone if before is None else (before[0] + 1, before[1] + alone[1])
        persistent_bytes = sum(
            size + count * WRITE_COST_BYTES for queue, (count, size) in needs.items() if queue.is_persistent
        )
        if persistent_bytes > self.limits.max_batch_bytes:
            raise Refusal(
                "too-large",
                f"This comes to {persistent_bytes} bytes with all its copies: "
                f"max_batch_bytes is {self.limits.max_batch_bytes}.",
            )
        return needs, persistent_bytes

    def store(self, puts: list[Arrival], ids: list[bytes] | None) -> None:
        """Adds to the open batch: the messages of persistent queues, and the dedup-ids that go with them."""
        context = self.context
        copies: dict[bytes, int] = {}
        if self.destinations.journal is not None:
            copies = Counter(m.headers for queue, m, _, _ in puts if queue.journal is not None and is_fanned(m))
        for queue, message, dedup_id, due_ms in puts:
            if queue.is_persistent:
                queue.take_in(message, due_ms)
                if ids is not None:
                    ids.append(queue.last_id())
                if copies and queue.journal is not None and is_fanned(message):
                    queue.journal.copied(queue.name, context.last_position, message, copies[message.headers])
                if dedup_id is not None and queue.dedup is not None:
                    queue.dedup.remember(dedup_id, queue.settings.dedup_window_s)
                    self.remembered += 1

    def settle_stored(self, settlements: list[tuple[Ack | Nack, list[Delivery]]]) -> bool:
        """Settles, in the open batch, the deliveries of persistent queues; those of all queues leave their windows.
        Returns whether there were persistent ones.
        """
        settled: dict[ConsumedQueue, None] = {}
        for command, deliveries in settlements:
            for delivery in deliveries:
                delivery.transaction = None
                delivery.leave_window()
                queue = delivery.subscription.queue
                if queue.is_persistent:
                    settle(command, delivery)
                    settled[queue] = None
        for queue in settled:
            queue.pump()
        return bool(settled)

    def first_blocked(
        self,
        producer: Producer,
        needs: dict[Target, tuple[int, int]],
        persistent_bytes: int,
        plan: Plan,
        is_commit: bool,
    ) -> Waitable | None:
        """Returns the first room that the whole plan must wait for, or None. Raises Refusal if any target refuses."""
        full = [queue for queue, (count, size) in needs.items() if not queue.judge(count, size)]
        if full:
            self.lacks.note(producer, full[0], needs, persistent_bytes, is_commit)
            return full[0]
        is_asked = False  # about the disk and the batch: the answer is the same for all persistent queues
        for queue, (_, size) in needs.items():
            blocked = None
            if not queue.is_persistent:
                blocked = self.blocked(producer, queue, False, size, is_commit)
            elif queue.waiters or not is_asked:
                is_asked = True
                blocked = self.blocked(producer, queue, True, persistent_bytes, is_commit)
            if blocked is not None:
                self.lacks.note(producer, queue, needs, persistent_bytes, is_commit)
            elif queue.maker is not None:
                blocked = queue.maker.stored_wait(producer, size)
            if blocked is not None:
                return blocked
        if not needs and (plan.publishes or plan.copies):
            blocked = self.blocked(producer, None, False, 0, is_commit)
            if blocked is not None:
                return blocked
        cost = len(needs) + len(plan.copies) + plan.steps // STEPS_PER_COPY
        if cost > 1 and self.is_turn_full(cost):
            return FLUSH
        if plan.publishes and len(self.context.turn.replies) >= REPLIES_PER_TURN:
            return FLUSH
        topics = self.destinations.topics
        for name, message, _ in plan.publishes:
            if topics.must_flush(topics.matching(name), message.size):
                return FLUSH
            if topics.gossip is not None and topics.gossip.must_flush(name):
                return FLUSH
        if any(topics.gossip is not None and topics.gossip.must_flush_to(node) for node, _ in plan.answers):
            return FLUSH
        return None

    def check_immediate(self, plan: Plan, needs: dict[Target, tuple[int, int]]) -> None:
        """Raises Refusal unless the consumers of each queue that must deliver at once have room for all of it."""
        others: dict[Target | None, int] = {}
        for queue in (*(queue for queue, _, _ in plan.copies), *(queue for queue, _ in plan.replies)):
            others[queue] = others.get(queue, 0) + 1
        for queue, address in plan.immediate.items():
            count = needs.get(queue, (0, 0))[0] + others.get(queue, 0)
            if count and not queue.can_hand(count):
                raise no_consumer(address, "none has room for it")

    def is_turn_full(self, copies: int) -> bool:
        """Whether what costs that many copies must wait, as this turn has made too many. If not, counts them."""
        turn = self.context.turn_number
        if self.copies_turn != turn:
            self.copies_turn, self.copies = turn, 0
        if self.copies and self.copies + copies > COPIES_PER_TURN:
            return True
        self.copies += copies
        return False

    # ---- what was published on another node -------------------------------------------------------------------------

    def collect(self, queue: Target, message: Message) -> None:
        """Puts the message into the queue of a durable subscription; if there is no room, drops it, as for a slow
        subscriber.
        """
        copy = with_ttl(message, queue.settings.message_ttl_ms, self.context.now_ms)
        try:
            queue.check_size(copy.size)
            has_capacity = not self.disk_wait_list.is_tight and queue.judge(1, copy.size)
        except Refusal:
            has_capacity = False
        if not has_capacity:
            self.context.count("topic_messages_dropped")
            return
        if queue.settings.overflow != BLOCK:
            queue.evict(1, copy.size)
        queue.put(copy)

    # ---- dedup-id ----------------------------------------------------------------------------------------------------

    def is_known(self, producer: Producer, dedup: Dedup, dedup_id: bytes) -> int | WaitList | None:
        """Returns the number of the batch that stores its first SEND (0: on the disk already), None for a new id, or
        the wait list to wait on while the disk is asked.
        """
        number = dedup.batch_of(dedup_id)
        if number is not None:
            return number
        found = producer.found.get((dedup, dedup_id))
        if found is not None:
            return 0 if found[1] else None
        wait_list = WaitList("dedup", is_brief=True)
        request = dedup.look_up(dedup_id)
        self.lookups[request] = (wait_list, dedup, dedup_id)
        return wait_list

    def found(self, request: int, found: bool) -> WaitList:
        """Called when the disk has answered: gives the answer to the one producer that waits, which may go on."""
        wait_list, dedup, dedup_id = self.lookups.pop(request)
        if wait_list.waiters:
            wait_list.waiters[0].found[dedup, dedup_id] = (request, found)
        else:
            dedup.used(request)
        return wait_list

    def forget_wait(self, producer: Producer) -> None:
        """Called when a producer's wait is over: drops why it waited, and what the disk answered: ids stored since it
        was asked for need not be kept any longer.
        """
        self.lacks.forget(producer)
        for (dedup, _), (request, _) in producer.found.items():
            dedup.used(request)
        producer.found.clear()
