"""T34: consumers of a partitioned queue come and go while each of its keys always has messages; who gets which is fair.

Each key has a next message whenever one of it is acked, and each consumer has room for all of them: so nobody gets a
key because others are busy. A consumer comes, or goes in one of the ways in which one can. When each key has been free
a few times since then, each consumer has its share of the keys within a tenth; and no more keys have changed hands than
had to, with a few that make shares equal. All of it is judged by what the consumers got.

Time is not real, and neither is the disk (tests/core/node.py).
"""

import math
from random import Random

from radiator.model.commands import CLIENT_INDIVIDUAL, Command, Read
from radiator.model.replies import Deliver
from tests.campaigns.campaign import Campaign, Run
from tests.core.keyed import settings
from tests.core.node import Node
from tests.core.words import ack, queues, send, subscribe, unsubscribe

PRODUCER = 1
CONSUMERS = (2, 20)  # at first, at least and at most
KEYS_EACH = (10, 40)  # for each consumer that there is at most
EVENTS = 6  # of a case
ROUNDS = 4  # in each of them every key is free once
AWAY_MAX = 0.12  # of the keys that need not move: how many may, to make shares equal


class Shares:
    """One queue. got: the messages that each consumer has, by its connection. holder: who had each key last."""

    def __init__(self, chance: Random, run: Run) -> None:
        self.chance, self.run = chance, run
        count = chance.randint(*CONSUMERS)
        self.keys = (count + EVENTS) * chance.randint(*KEYS_EACH)
        is_persistent = chance.random() < 0.5
        self.node = Node(queues(q=settings(persistent=is_persistent, max_messages=10**6)))
        self.node.open(PRODUCER)
        self.last = PRODUCER
        self.got: dict[int, list[Deliver]] = {}
        self.holder: dict[bytes, int] = {}
        self.what = f"{count} consumers of {self.keys} keys, {'persistent' if is_persistent else 'in memory'}"
        self.moves = 0
        for _ in range(count):
            self.come()
        self.send([b"%d" % number for number in range(self.keys)])
        self.rounds()
        self.judge("at first")

    def come(self) -> int:
        self.last += 1
        self.node.open(self.last)
        self.node.say(subscribe(self.last, "q", CLIENT_INDIVIDUAL, prefetch_count=self.keys))
        self.got[self.last] = []
        return self.last

    def go(self) -> int:
        """One that is lost gives back what it has; one that unsubscribes acks it later."""
        gone = self.chance.choice([*self.got])
        if self.chance.random() < 0.5:
            self.node.close(gone)
        else:
            self.node.say(unsubscribe(gone, "q"))
            self.take()
            self.settle({gone: self.got[gone]})
        del self.got[gone]
        return gone

    def send(self, keys: list[bytes]) -> None:
        sends: list[Command] = [send(PRODUCER, "q", key, headers=b"key:%b\n" % key) for key in keys]
        for at in range(0, len(sends), 100):
            self.node.turn([Read(PRODUCER, sends[at : at + 100])])

    def take(self) -> None:
        for connection, got in self.got.items():
            for deliver in self.node.messages(connection):
                got.append(deliver)
                key = deliver.message.body
                if not deliver.redelivered:
                    self.moves += self.holder.get(key, connection) != connection
                self.holder[key] = connection

    def settle(self, all_got: dict[int, list[Deliver]]) -> None:
        """In turns of some, from all consumers alike; each key has its next message before."""
        settled = [(connection, deliver) for connection, got in all_got.items() for deliver in got]
        self.chance.shuffle(settled)
        for got in all_got.values():
            got.clear()
        self.send([deliver.message.body for _, deliver in settled])
        while settled:
            some = [settled.pop() for _ in range(min(len(settled), self.chance.randint(1, 50)))]
            self.node.turn([Read(connection, [ack(deliver)]) for connection, deliver in some])
            self.take()

    def rounds(self) -> None:
        for _ in range(ROUNDS):
            self.take()
            self.settle(self.got)

    def event(self) -> None:
        before = dict(self.holder)
        if len(self.got) > 1 and self.chance.random() < 0.5:
            gone = self.go()
            name, must = "when one has gone", {key for key, holder in before.items() if holder == gone}
        else:
            newcomer = self.come()
            name, must = "when one has come", set()
        self.rounds()
        self.judge(name)
        moved = {key for key, holder in self.holder.items() if holder != before[key]}
        if name == "when one has come":
            must = {key for key in moved if self.holder[key] == newcomer}
        most = max(2.0, AWAY_MAX * self.keys)
        if len(moved - must) > most:
            self.run.violation(f"{len(moved - must)} keys moved that need not, {name}: at most {most:.0f}; {self.what}")

    def judge(self, when: str) -> None:
        counts = dict.fromkeys(self.got, 0)
        for holder in self.holder.values():
            counts[holder] += 1
        share = self.keys / len(counts)
        least, most = min(counts.values()), max(counts.values())
        if least < math.floor(0.9 * share) or most > math.ceil(1.1 * share):
            self.run.violation(f"Somebody has {least} keys, another {most}, of {share:.1f} {when}; {self.what}")


def share(run: Run) -> None:
    moves = 0
    while not run.is_over:
        shares = Shares(Random(run.chance.randrange(10**12)), run)
        for _ in range(EVENTS):
            shares.event()
        moves += shares.moves
        run.case()
    run.figures |= {"keys that came to another consumer": moves}


CAMPAIGNS = (
    Campaign(
        number="T34",
        name="shares",
        title="consumers come and go, and each has its share of the keys",
        unit="queues",
        run=share,
        cases=(10, 500, 3000),
        mutants=("newcomer-gets-no-key", "shares-as-the-ring-has-them"),
        mutant_cases=10,
        quick_mutants=2,
    ),
)
