"""Queues: what they take in, hand out, take back and let go of, and delayed messages."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "ack-client-means-only-the-last",
        "An ACK of a `client` subscription settles its own message, and none of those before it.",
        function="named_by",
        old="if earlier.transaction is None:",
        new="if earlier is delivery and earlier.transaction is None:",
    ),
    Mutant(
        "ack-not-committed",
        (
            "An ACK takes the message from its consumer, but changes neither the disk nor the ledger: it comes again"
            " after a restart."
        ),
        function="Queue.ack",
        old="self.left_out(entry)",
        new="""
            self.left_out(entry)
            return
        """,
    ),
    Mutant(
        "ack-timeout-off",
        "Whoever never ACKs may keep a message for ever: ack_timeout_s is not looked at.",
        function="AckTimeouts.overdue",
        old="if due_s <= now_s and is_unacked:",
        new="if False:",
    ),
    Mutant(
        "auto-acked-before-written",
        "A message of an `auto` subscription is removed when it is posted, not when it is written.",
        function="Consumable.deliver",
        old="""
                delivery if is_auto else None,
            )
        """,
        new="""
                None,
            )
            if is_auto:
                delivery.leave_window()
                self.ack(delivery, Event.WRITTEN)
        """,
    ),
    Mutant(
        "correlation-id-not-told",
        "The journal does not say of an accepted message which correlation-id it has.",
        function="JournalWriter.accepted",
        old='name = valid_correlation_id(value) if value else ""',
        new='name = ""',
    ),
    Mutant(
        "correlation-id-of-any-length-told",
        "The journal takes in whatever a correlation-id holds, however long it is.",
        function="valid_correlation_id",
        old="if len(value) > CORRELATION_MAX_BYTES:",
        new="if False:",
    ),
    Mutant(
        "dead-letter-not-put",
        "A dead letter is removed from its queue, and not put into its dead-letter queue.",
        function="Queue.discard",
        old="self.dead_letter(self, entry, reason)",
        new="pass",
    ),
    Mutant(
        "dead-letter-not-removed",
        "A dead letter is put into its dead-letter queue, and not removed from its old one.",
        function="Queue.discard",
        old="self.dead_letter(self, entry, reason)",
        new="return self.dead_letter(self, entry, reason)",
    ),
    Mutant(
        "dead-letter-by-exchange-not-removed",
        "A dead letter goes where an exchange leads it, and is not removed from its old queue.",
        function="Queue.discard",
        old="self.dead_letter(self, entry, reason)",
        new="""
            self.dead_letter(self, entry, reason)
            if self.settings.dead_letter_exchange is not None:
                return
        """,
    ),
    Mutant(
        "dead-letter-goes-round",
        "A dead letter comes back by exchanges to the queue where it has died, for ever, though nobody rejects it.",
        function="DeadLetters._by_exchange",
        old="is_judged = deaths[0].reason != REJECTED",
        new="is_judged = False",
    ),
    Mutant(
        "deliverable-before-commit",
        "A message is READY as soon as it is accepted, before the disk has it.",
        function="DurableQueue.put",
        old="""
            part.storing.append(entry)
            window.storing[position] = entry
        """,
        new="""
            entry.state = State.READY
            self.ready.append(entry)
        """,
    ),
    Mutant(
        "doubtful-loaded-as-ready",
        "What was in doubt is given to consumers after a restart.",
        function="ReadBack.stretch_read",
        old="if in_doubt.takes(stored, message):",
        new="if stored.position < 0:",
    ),
    Mutant(
        "drop-oldest-drops-newest",
        "`drop-oldest` drops the newest.",
        function="Queue.oldest",
        old="entry = heapq.heappop(self.returned)[1] if has_come_back else self.ready.popleft()",
        new="entry = heapq.heappop(self.returned)[1] if has_come_back else self.ready.pop()",
    ),
    Mutant(
        "end-not-checked",
        "A queue may end before its ledger does: what is missing is waited for, and nobody hears of it.",
        function="ReadBack.assert_agrees",
        old="if left > unseen and not answer.has_more:",
        new="if False:",
    ),
    Mutant(
        "end-not-told",
        "An ACK is not told in the journal.",
        function="Queue.ack",
        old="""
            if self.journal is not None:
                self.journal.acked(self.name, delivery, event)
        """,
        new="",
    ),
    Mutant(
        "expired-delivered",
        "What has expired is delivered all the same.",
        function="Queue.take_head",
        old="if 0 < entry.message.expires_ms <= self.context.now_ms and entry.is_over:",
        new="if 0 > entry.message.expires_ms:",
    ),
    Mutant(
        "expires-while-in-use",
        "A queue with expires_ms is deleted though it has consumers.",
        function="Lifetimes._unused_s",
        old="""
            if not queue.is_idle:
                queue.unused_since_s = inf
            elif queue.unused_since_s == inf:
        """,
        new="if queue.unused_since_s == inf:",
    ),
    Mutant(
        "foreign-ack-accepted",
        "An ACK may name a message that is unacked on another connection.",
        function="Connection.__init__",
        old="self.unacked: dict[bytes, Delivery] = {}",
        new='self.unacked: dict[bytes, Delivery] = globals().setdefault("_unacked", {})',
    ),
    Mutant(
        "kept-queue-circle",
        "A queue that is gone holds on to what was out, and that to it: only the hourly collector frees them.",
        function="Consumable.end",
        old="""
            self.ready.clear()
            self.returned.clear()
            self.entries_out.clear()
            self.timeouts = self.order = None
        """,
        new="",
    ),
    Mutant(
        "load-not-asked-again",
        "A load that found nothing, and is answered after the commit it should have waited for, is not asked again.",
        function="ReadBack.stretch_read",
        old="self.wait_for_commit = not answer.messages and self.asked_at == self.context.committed",
        new="self.wait_for_commit = not answer.messages",
    ),
    Mutant(
        "load-skips-a-message",
        "What is read back begins one position too late: off by one.",
        function="ReadBack.read_stretch",
        old="load = ReadQueue(context.next_position(), self.queue.number, window.end, LOAD_MESSAGES, bytes_max)",
        new="load = ReadQueue(context.next_position(), self.queue.number, window.end + 1, LOAD_MESSAGES, bytes_max)",
    ),
    Mutant(
        "max-messages-off-by-one",
        "A queue takes one message more than max_messages.",
        function="Queue.has_capacity",
        old="if is_light and (settings.max_messages is None or held <= settings.max_messages):",
        new="if is_light and (settings.max_messages is None or held <= settings.max_messages + 1):",
    ),
    Mutant(
        "max-redeliveries-off-by-one",
        "A message is redelivered once more than max_redeliveries.",
        function="Queue.give_back",
        old="elif entry.redeliveries >= settings.redeliveries_most:",
        new="elif entry.redeliveries > settings.redeliveries_most:",
    ),
    Mutant(
        "nack-delay-in-two-batches",
        "A NACK with a delay takes the message from its place, and stores it under its time with the next batch.",
        function="DurableQueue.delay",
        old="self.delayed.add(due_ms, entry.position, entry.message, entry.redeliveries, True, key_hash)",
        new=(
            "self.context.open.then.append(lambda: self.delayed.add(due_ms, entry.position, entry.message,"
            " entry.redeliveries, True, key_hash))"
        ),
    ),
    Mutant(
        "new-delays-missed",
        "A delayed message that comes in while others are read back is not looked for again.",
        function="Delayed.end",
        old="next_due_ms = _earlier(next_due_ms, self.late_ms)",
        new="",
    ),
    Mutant(
        "new-overtakes-what-is-beyond",
        "A new message takes a place in the window although older ones are beyond it, on the disk.",
        function="DurableQueue.put",
        old="if window.beyond == 0 and window.takes(size):",
        new="if window.takes(size):",
    ),
    Mutant(
        "overdue-not-given-back",
        "A connection that was closed by ack_timeout_s takes the overdue message along.",
        function="Rounds.give_back_overdue",
        old="queue.give_back(delivery, Event.OVERDUE)",
        new="",
    ),
    Mutant(
        "poison-never-dead-lettered",
        "A message comes back however often it did: max_redeliveries is not looked at.",
        function="Queue.give_back",
        old="elif entry.redeliveries >= settings.redeliveries_most:",
        new="elif settings.redeliveries_most < 0:",
    ),
    Mutant(
        "purge-not-told",
        "What an operator lets go of is not told in the journal.",
        function="Queue.withdraw",
        old="""
            elif self.journal is not None:
                self.journal.write(PURGED, self.name, entry)
        """,
        new="",
    ),
    Mutant(
        "redeliveries-not-handed-over",
        "A message that is handed over forgets how often it came back.",
        function="DurableQueue.put_handed_over",
        old="super().put_handed_over(message, redeliveries, redelivered, node)",
        new="super().put_handed_over(message, 0, False, node)",
    ),
    Mutant(
        "redelivery-count-not-written",
        "A redelivery count is kept in memory only: a restart forgets it.",
        function="DurableQueue.keep_count",
        old="self.context.write(Count(self.number, entry.position, entry.redeliveries))",
        new="",
    ),
    Mutant(
        "redelivery-delay-ignored",
        "What comes back is ready at once, whatever the redelivery_delay_ms of its queue.",
        function="Queue.give_back",
        old="delay_ms = self.redelivery_delay_ms(entry.redeliveries)",
        new="delay_ms = 0",
    ),
    Mutant(
        "remove-not-written",
        "What leaves a queue leaves its ledger, but not the disk.",
        function="DurableQueue.write_remove",
        old="self.context.write(Remove(self.number, position))",
        new="",
    ),
    Mutant(
        "returned-behind-the-others",
        "Messages that came back go behind those that were never delivered.",
        function="Queue.take_head",
        old="if returned and (not self.ready or returned[0][0] < self.ready[0].position):",
        new="if returned and not self.ready:",
    ),
    Mutant(
        "returned-in-wrong-order",
        "Of the messages that came back to a queue the youngest is delivered first.",
        function="Queue.to_place",
        old="heapq.heappush(self.returned, (entry.position, entry))",
        new="heapq.heappush(self.returned, (-entry.position, entry))",
    ),
    Mutant(
        "told-twice",
        "What comes into a queue is told twice.",
        function="DurableQueue.put",
        old="self.journal.accepted(self.name, position, message, size, came_from)",
        new="""
            self.journal.accepted(self.name, position, message, size, came_from)
            self.journal.accepted(self.name, position, message, size, came_from)
        """,
    ),
    Mutant(
        "traceparent-not-told",
        "The journal does not say of an accepted message which trace it belongs to.",
        function="JournalWriter.accepted",
        old='trace = valid_traceparent(value) if value else ""',
        new='trace = ""',
    ),
    Mutant(
        "traceparent-of-any-kind-told",
        "The journal takes whatever stands in the header traceparent for one.",
        function="valid_traceparent",
        old='return value.decode() if _VALID.fullmatch(value) else ""',
        new="return value.decode()",
    ),
    Mutant(
        "two-in-the-shared-window",
        "A connection gets two messages at a time in the window that its subscriptions share.",
        function="Subscription.has_window",
        old="if self.is_shared and 0 < connection.shared_window <= connection.shared_in_flight:",
        new="if self.is_shared and 0 < connection.shared_window < connection.shared_in_flight:",
    ),
    Mutant(
        "unacked-bytes-stay",
        "What is in flight keeps its bytes in memory, however much it is.",
        function="DurableQueue.pump",
        old="self.let_go_of_bytes(self.out_bytes - out_bytes)",
        new="pass",
    ),
    Mutant(
        "wake-not-written",
        "A delayed message that is woken is put at its place, and stays delayed on the disk too.",
        function="Delayed.end_delay",
        old="context.write(MakeDue(queue.number, entry.due_ms, entry.position, queue.hash_held(entry)))",
        new="pass",
    ),
    Mutant(
        "window-not-opened-by-ack",
        "An ACK does not open the window of its subscription.",
        function="Delivery.leave_window",
        old="subscription.in_flight -= 1",
        new="",
    ),
    Mutant(
        "woken-before-due",
        "Delayed messages are woken up to a second before their time.",
        function="Delayed.read_request",
        old="before_ms = _ALL_MS if self.queue.purge.through else self.context.now_ms + 1",
        new="before_ms = _ALL_MS if self.queue.purge.through else self.context.now_ms + 1000",
    ),
    Mutant(
        "woken-behind-the-others",
        "A delayed message enters its queue behind what was accepted after it.",
        function="DurableQueue.make_ready",
        old="self.to_place(entry)",
        new="ready.append(entry)",
    ),
    Mutant(
        "woken-is-read-back-too",
        "What is being woken is read back with the messages around it: it is there twice.",
        function="ReadBack.refill",
        old="""
            if queue.delayed.released_in > context.committed:
                return
        """,
        new="",
    ),
)
