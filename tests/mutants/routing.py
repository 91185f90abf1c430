"""From an address to its queues: admission, plans, destinations, exchanges, topics, dedup-ids."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "binding-lost-with-a-restart",
        "A start takes up the durable subscriptions that the store has, and forgets the bindings of exchanges.",
        function="Exchanges.recover",
        old="self.put_on(row.exchange, row.key, queue, is_stored=True)",
        new="""
            if row.exchange == TOPICS:
                self.put_on(row.exchange, row.key, queue, is_stored=True)
        """,
    ),
    Mutant(
        "binding-not-written",
        "A binding is made in memory, and not written: it is gone after the next start.",
        function="Exchanges.bind",
        old="if is_stored:",
        new="if is_stored and name is None:",
    ),
    Mutant(
        "control-characters-in-names",
        "A name may have control characters.",
        function="address_mistake",
        old="if _CONTROL.search(address):",
        new=r'if "\0" in address:',
    ),
    Mutant(
        "dedup-forgotten",
        "A dedup-id is known only until its SEND is on the disk: what the disk answers is not looked at.",
        function="Admission.is_known",
        old="return 0 if found[1] else None",
        new="return None",
    ),
    Mutant(
        "dedup-not-written",
        "A dedup-id is kept in memory only.",
        function="Dedup.remember",
        old="context.write(Remember(self.number, dedup_id, until_ms), 2 * WRITE_COST_BYTES + len(dedup_id))",
        new="",
    ),
    Mutant(
        "delayed-forgotten-at-a-restart",
        "A start does not look when the first delayed message is due: they wait until another one comes.",
        function="Queues.recover",
        old="queue.next_due_ms = found.next_due_ms",
        new="queue.next_due_ms = 0",
    ),
    Mutant(
        "destination-limit-off-by-one",
        "One destination more than max_destinations may be created.",
        function="Destinations.check_total",
        old="if count + more > self.limits.max_destinations:",
        new="if count + more > self.limits.max_destinations + 1:",
    ),
    Mutant(
        "destination-limit-off",
        "First use creates as many destinations as anybody likes.",
        function="Destinations.check_total",
        old="if count + more > self.limits.max_destinations:",
        new="if count + more > self.limits.max_destinations and not self.declarations.create_queues:",
    ),
    Mutant(
        "durable-copy-not-put",
        "The first node with a durable subscription is named as one that gets a copy, and gets none.",
        function="TopicKind.plan",
        old="plan.puts.extend((outbox, message, dedup_id, 0) for outbox in kept)",
        new="plan.puts.extend((outbox, message, dedup_id, 0) for outbox in kept[1:])",
    ),
    Mutant(
        "durable-interest-forgotten-at-a-restart",
        "After a restart no other node is told what is durably subscribed to here, until somebody subscribes.",
        function="Destinations.spread",
        old="if exchange == TOPICS:",
        new='if exchange == TOPICS and pattern == "":',
    ),
    Mutant(
        "durable-receipt-does-not-wait",
        (
            "SUBSCRIBE to a durable subscription that is there already is receipted at once, though the disk may not"
            " have it yet."
        ),
        function="Subscriptions.consume_durably",
        old="self.receipt(connection, command, durable=True)",
        new="self.receipt(connection, command, durable=there is None)",
    ),
    Mutant(
        "durable-subscription-bound-later",
        "The queue of a durable subscription is made in one batch, and bound in the next.",
        function="Subscriptions.consume_durably",
        old="destinations.exchanges.bind(*binding, queue)",
        new="self.context.open.then.append(lambda: destinations.exchanges.bind(*binding, queue))",
    ),
    Mutant(
        "exchange-send-in-two-batches",
        "Of what is sent by an exchange the first copy goes into the batch; the others follow it in the next.",
        function="Admission.store",
        old="queue.take_in(message, due_ms)",
        new=(
            'is_later = queue is not puts[0][0] and message.destination.startswith("/exchange/")\n'
            "context.open.then.append(lambda q=queue, m=message, d=due_ms: q.take_in(m, d)) if is_later else"
            " queue.take_in(message, due_ms)"
        ),
    ),
    Mutant(
        "exchanges-not-counted",
        "Exchanges do not count as destinations: they are made without end.",
        function="ExchangeKind.count",
        old="return len(self.destinations.exchanges.all) - len(STANDARD_EXCHANGES)",
        new="return 0",
    ),
    Mutant(
        "fanout-in-two-batches",
        (
            "Only the first copy of a fanout (or the first SEND of a transaction) goes into the batch; the others"
            " follow it in the next."
        ),
        function="Admission.store",
        old="queue.take_in(message, due_ms)",
        new=(
            "queue.take_in(message, due_ms) if queue is puts[0][0] else context.open.then.append(lambda q=queue,"
            " m=message, d=due_ms: q.take_in(m, d))"
        ),
    ),
    Mutant(
        "fanout-outbox-in-another-batch",
        "The copies of a fanout for other nodes are stored by the batch after that of the local ones.",
        function="Admission.store",
        old="if queue.is_persistent:",
        new="""
            if queue in self.destinations.copies_to:
                context.open.then.append(lambda queue=queue, message=message: queue.put(message))
            elif queue.is_persistent:
        """,
    ),
    Mutant(
        "hash-takes-no-words",
        "In a pattern of topics, # stands for no word at all, and not for some.",
        function="Trie.walk",
        old="waiting.append((many, every & -(reached & -reached)))",
        new="waiting.append((many, reached))",
    ),
    Mutant(
        "immediate-judged-too-late",
        "Whether a consumer can take an immediate message is judged when it is stored already.",
        function="Admission.apply_plan",
        old="""
            if plan.immediate:
                self.check_immediate(plan, needs)
        """,
        new="",
        also=(
            Edit(
                function="Admission.apply_plan",
                old="self.store(puts, plan.ids)",
                new="""
                    self.store(puts, plan.ids)
                    if plan.immediate:
                        self.check_immediate(plan, needs)
                """,
            ),
        ),
    ),
    Mutant(
        "no-reserve",
        "SENDs do not wait for the disk: above the high-water mark, and below disk_free_min, they are accepted.",
        function="Admission.blocked",
        old="if disk.is_tight or (disk.waiters and disk.waiters[0] is not producer):",
        new="if disk.waiters and disk.waiters[0] is not producer:",
    ),
    Mutant(
        "routing-key-without-bound",
        "A routing key may have any length.",
        function="address_mistake",
        old="if len(key.encode()) > NAME_MAX_BYTES:",
        new="if len(key.encode()) > 100 * NAME_MAX_BYTES:",
    ),
    Mutant(
        "settings-not-kept",
        "The settings of a queue that is declared at run time are not written.",
        function="Queues._keep",
        old="if queue.is_persistent:",
        new="if queue is None:",
    ),
    Mutant(
        "slow-subscriber-loses-messages",
        "A subscriber of a topic over its bound is passed over, and nothing is said.",
        function="Topics.publish",
        old="connection.is_closing = True",
        new="""
            continue
            connection.is_closing = True
        """,
    ),
    Mutant(
        "slow-subscriber-never-dropped",
        "A subscriber of a topic that does not read is sent more and more.",
        function="Topics.publish",
        old="if connection.posted_turn != context.turn_number and subscription.is_over(size, self.is_pressed):",
        new="if False:",
    ),
    Mutant(
        "star-is-optional",
        "In a pattern of topics, * stands for one word or none.",
        function="Trie.walk",
        old="waiting.append((one, reached << 1 & every))",
        new="waiting.append((one, (reached << 1 | reached) & every))",
    ),
    Mutant(
        "subscription-leak",
        "A topic's subscription outlives its connection.",
        function="Subscriptions.closed",
        old="""
            for topic_subscription in connection.topic_subscriptions.values():
                destinations.topics.unsubscribe(topic_subscription)
        """,
        new="",
    ),
    Mutant(
        "temp-queue-leak",
        "Temp queues stay in the table of reply queues when their connection is over.",
        function="TempQueues.drop",
        old="del self.by_id[queue.reply_id]",
        new="",
    ),
    Mutant(
        "topic-matching-linear",
        "A publish asks every pattern that there is, whatever its words.",
        function="Trie.matching",
        old="matched = tuple(self.walk(name))",
        new="""
            everything = [("", self.root)]
            linear: dict[T, None] = {}
            matches = is_pattern.__globals__["matches"]
            while everything:
                pattern, word = everything.pop()
                everything.extend((f"{pattern}.{key}", after) for key, after in word.following.items())
                if word.things and matches(pattern[1:], name):
                    linear.update(word.things)
            matched = tuple(linear)
        """,
    ),
    Mutant(
        "topics-not-counted",
        "Topics that somebody is subscribed to do not count in max_destinations.",
        function="TopicKind.count",
        old="return len(self.destinations.topics.exact)",
        new="return 0",
    ),
    Mutant(
        "unbind-not-written",
        "A binding that is undone stays on the disk: it is there again after the next start.",
        function="Exchanges.take_off",
        old="self.context.write(Unbind(name, key, queue.number))",
        new="pass",
    ),
    Mutant(
        "unbounded-outbox",
        "A topic's subscriber that does not read is never over its bound.",
        function="TopicSubscription.is_over",
        old="return connection.outbox_bytes + size + MESSAGE_COST_BYTES > most",
        new="return False",
    ),
    Mutant(
        "words-without-bound",
        "A topic may have any number of words, and a pattern any number of wildcards.",
        function="check_words",
        old="if count > most:",
        new="if count > 1000 * most:",
    ),
)
