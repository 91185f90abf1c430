"""T10: the core, clients, a disk, a network and crashes on one seeded scheduler (tests/sim/history.py).

Proves, for the core: what was receipted comes, to each queue whose binding was there (bindings and durable
subscriptions are made and unmade meanwhile), and not before its time; what was acked with receipt does not, once for a
dedup-id, whole or not at all, in order, marked and counted; and nobody waits for ever or spins. It proves the same of
what is published, leased and settled as HTTP does it: a lease goes on for its time and no longer, ends with the
broker's life, and is its user's alone. Bounds shrink at random, the disk stalls and fails, clocks jump. Every hundredth
history is made twice, and must be the same.

Clients of AMQP say bytes, which a real session reads and answers: what was confirmed or committed comes; of a
transaction all has happened, its acks too, or nothing; what was handed to a channel and is neither acked nor rejected
comes again; answers come in order, all of them where a client closes in order; who keeps the rules is told of none.

It cannot see sockets, threads and LMDB, nor sessions but those of AMQP; nor memory queues, live topics and replies
(model.py has those).
"""

import time

from tests.campaigns.campaign import Campaign, Run
from tests.sim.history import History

TWICE_EVERY = 100


def simulate(run: Run) -> None:
    deliveries = redeliveries = delayed = bound = boots = leases = confirms = commits = 0
    began_s = time.monotonic()
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        history = History(seed)
        for mistake in history.books.mistakes:
            run.violation(f"RADIATOR_SEED={seed} python -m pytest tests/sim\n{mistake}")
        if run.done % TWICE_EVERY == 0:
            again = History(seed)
            if again.scheduler.hash != history.scheduler.hash:
                run.violation(f"The history of the seed {seed} is another one when it is made again.")
        deliveries += history.books.deliveries
        redeliveries += history.books.redeliveries
        delayed += history.books.delayed
        bound += len(history.routes.spans)
        boots += history.node.boots
        leases += len(history.tokens.given)
        confirms += sum(client.confirms for client in history.amqp_clients)
        commits += sum(client.commits for client in history.amqp_clients)
        run.case()
    run.figures |= {
        "deliveries": deliveries,
        "redeliveries": redeliveries,
        "of delayed messages": delayed,
        "bindings and durable subscriptions": bound,
        "leases": leases,
        "confirmed over AMQP": confirms,
        "transactions committed over AMQP": commits,
        "starts": boots,
        "histories a second": round(run.done / (time.monotonic() - began_s)),
    }
    # a simulation without trouble would prove nothing
    enough = deliveries > 20 * run.done and redeliveries > 2 * run.done and boots > 1.5 * run.done
    enough = enough and delayed > 5 * run.done and bound > 5 * run.done and leases > run.done
    enough = enough and confirms > 3 * run.done and commits > 2 * run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T10",
        name="simulation",
        title="random histories of clients, disk, network, clocks and crashes, on simulated time",
        unit="histories",
        run=simulate,
        cases=(700, 250_000, 2_000_000),
        mutants=(
            "receipt-before-commit",
            "published-before-commit",
            "settled-before-commit",
            "confirmed-before-commit",
            "multiple-ack-past-the-tag",
            "transaction-first-send-alone",
            "transaction-acks-in-the-next-batch",
            "return-after-the-confirm",
            "close-overtakes",
            "abort-keeps-its-acks",
            "lease-forged",
            "lease-key-of-every-run",
            "overdue-lease-not-back",
            "lease-not-extended",
            "release-delay-ignored",
            "ack-not-committed",
            "lost-on-disconnect",
            "idle-though-it-holds",
            "fanout-in-two-batches",
            "deliverable-before-commit",
            "remove-not-written",
            "redelivery-count-not-written",
            "max-messages-off-by-one",
            "max-redeliveries-off-by-one",
            "expired-delivered",
            "load-skips-a-message",
            "new-overtakes-what-is-beyond",
            "transaction-sends-before-commit",
            "commit-receipt-does-not-wait",
            "window-not-opened-by-ack",
            "dead-letter-not-removed",
            "dedup-forgotten",
            "dedup-not-written",
            "clean-stop-does-not-mark",
            "load-not-asked-again",
            "dead-letter-not-put",
            "binding-lost-with-a-restart",
            "exchange-send-in-two-batches",
            "woken-before-due",
            "delayed-forgotten-at-a-restart",
            "woken-is-read-back-too",
            "redelivery-delay-ignored",
            "durable-subscription-bound-later",
            "binding-not-written",
            "unbind-not-written",
            "wake-not-written",
            "nack-delay-in-two-batches",
            "new-delays-missed",
            "lease-has-no-end",
            "lease-of-another-user",
            "key-freed-at-delivery",
            "returned-behind-the-next-of-its-key",
            "key-of-two-consumers",
            "key-held-by-no-delay",
            "held-key-forgotten-at-a-restart",
            "key-stuck-after-an-end",
            "hash-taken-for-the-key",
            "skipped-counted-once",
            "skipped-read-twice",
            "priority-ignored-on-read-back",
            "lower-priority-before-what-is-on-the-disk",
            "priority-of-a-delayed-message-forgotten",
            "lane-closed-too-early",
        ),
        mutant_cases=2000,
        quick_mutants=42,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
