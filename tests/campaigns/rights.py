"""T25: principals whose rights come and go, on a simulated disk: nothing happens in the name of one that may not do it.

Proves, for the core: each message that reaches a queue is of somebody who may send there at that moment, be it sent at
once, after it has waited for room, by a COMMIT, or prepared and applied much later, over restarts too; who may not read
has no subscription, who may not purge changes nothing, and both are told so. Of what was receipted nothing is lost:
it is there once, as soon as its sender may again.

It cannot see sockets and checks (tests/server/test_checks.py), nor links (tests/core/test_authorization.py).
"""

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random

from radiator.model.administration import AdminCommand, PurgeQueue
from radiator.model.commands import Abort, Command, Commit, Open, Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.principal import Principal
from radiator.model.replies import Receipt, Refuse, RefusedReceipt, Scope
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.writes import Put, Write
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import ack, begin, send, subscribe, unsubscribe
from tests.sim.disk import Platter, SimDisk

QUEUES = ("wide", "narrow")
DECLARED = Declarations(queues={"wide": QueueSettings(), "narrow": QueueSettings(max_messages=2)})
NAMES = ("ann", "bob", "eve")
VERBS = ("send", "read", "purge")
CONSUMER = 9  # takes everything, and may do all that it does
STEPS = 60
Right = tuple[str, str, str]  # name, verb, queue
ALL: list[Right] = [*product(NAMES, VERBS, QUEUES)]


class Rights:
    """Those that are held now."""

    def __init__(self, chance: Random) -> None:
        self.held: set[Right] = {("consumer", "read", queue) for queue in QUEUES}
        self.held |= {right for right in ALL if chance.random() < 0.6}

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        verbs: dict[type, str] = {Send: "send", Subscribe: "read", PurgeQueue: "purge"}
        verb = verbs.get(type(command))
        if verb is None:
            return
        address = command.queue if isinstance(command, PurgeQueue) else command.destination  # type: ignore[union-attr]
        if address != "/admin" and (principal.name, verb, address.removeprefix("/queue/")) not in self.held:
            raise Refusal("forbidden", f"{principal.name} may not {verb} {address}.")


class Observed(SimDisk):
    """A disk. stored: is called with each body that comes into a queue."""

    def __init__(self, platter: Platter | None, stored: Callable[[bytes], None]) -> None:
        super().__init__(platter)
        self.stored = stored

    def commit(self, writes: list[Write]) -> None:
        for write in writes:
            if isinstance(write, Put):
                self.stored(write.message.body)
        super().commit(writes)


class History:
    """One random history. A body says who has sent it, and where to; mistakes: what went wrong, in sentences.

    transactions: the bodies of each, by its name; prepared: those of them that are. open: which is open on a
    connection. of_nobody: bodies that were prepared before the last start, and are on the disk without a name;
    committers: who has asked for the COMMIT of each since. judged: bodies whose COMMIT came before the last start.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.rights = Rights(self.chance)
        self.mistakes: list[str] = []
        self.sent = self.forbidden = self.starts = 0
        self.puts: Counter[bytes] = Counter()
        self.promised: set[bytes] = set()
        self.transactions: dict[bytes, list[bytes]] = {}
        self.prepared: dict[bytes, None] = {}
        self.open: dict[int, bytes] = {}
        self.of_nobody: set[bytes] = set()
        self.judged: set[bytes] = set()
        self.committers: dict[bytes, set[str]] = {}
        self.start(None)
        for _ in range(STEPS):
            self.step()
        self.finish()

    def start(self, platter: Platter | None) -> None:
        self.starts += 1
        self.node = Node(DECLARED, disk=Observed(platter, self.stored), authorizer=self.rights)
        self.open.clear()
        for number, name in [*enumerate(NAMES, 1), (CONSUMER, "consumer")]:
            self.node.inbox[number], self.node.delivers[number] = [], 0
            self.node.turn([Open(number, closes_at=Scope.CONNECTION, principal=Principal(name))])
        for queue in QUEUES:
            self.node.say(subscribe(CONSUMER, queue, prefetch_count=1000))

    def stored(self, body: bytes) -> None:
        """It is in the batch that is committed now."""
        name, queue, _ = body.decode().split()
        self.puts[body] += 1
        senders = self.committers.get(body, set()) if body in self.of_nobody else {name}
        if body not in self.judged and not any((who, "send", queue) in self.rights.held for who in senders):
            self.mistakes.append(f"{body!r} reached its queue, where {senders} may not send")

    def may(self, connection: int, verb: str, queue: str) -> bool:
        return (NAMES[connection - 1], verb, queue) in self.rights.held

    # ---- steps ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        kinds = {
            self.send: 9, self.send_in_transaction: 7, self.commit: 5, self.commit_prepared: 2, self.subscribe: 2,
            self.purge: 2, self.change: 9, self.consume: 3, self.restart: 0.3,
        }  # fmt: skip
        (kind,) = self.chance.choices([*kinds], [*kinds.values()])
        kind()
        self.hear()

    def connection(self) -> int:
        """One that waits for nothing, as long as there is one."""
        free = [number for number in range(1, len(NAMES) + 1) if number not in self.node.paused]
        return self.chance.choice(free or [1])

    def body(self, connection: int) -> tuple[str, bytes]:
        queue = self.chance.choice(QUEUES)
        self.sent += 1
        return queue, f"{NAMES[connection - 1]} {queue} {self.sent}".encode()

    def send(self) -> None:
        connection = self.connection()
        queue, body = self.body(connection)
        self.node.say(send(connection, queue, body, body, survives_refusal=self.chance.random() < 0.3))

    def send_in_transaction(self) -> None:
        connection = self.connection()
        if connection not in self.open:
            name = self.open[connection] = b"t%d" % self.sent
            self.transactions[name] = []
            self.node.say(begin(connection, name))
        queue, body = self.body(connection)
        self.node.say(send(connection, queue, body, transaction=self.open[connection]))
        if self.may(connection, "send", queue):
            self.transactions[self.open[connection]].append(body)

    def commit(self) -> None:
        """Or prepare."""
        connection = self.chance.choice([*self.open, None])
        if connection is None or connection in self.node.paused:
            return
        name = self.open.pop(connection)
        prepare = name.decode() if self.chance.random() < 0.5 else None
        self.node.say(Commit(connection, name, (b"prepare " if prepare else b"commit ") + name, prepare))
        may = all(self.may(connection, "send", body.decode().split()[1]) for body in self.transactions[name])
        if may == bool(self.refusals(connection)):
            self.mistakes.append(f"the COMMIT of {self.transactions[name]} was{' not' * (not may)} refused")

    def commit_prepared(self) -> None:
        if self.prepared:
            name = self.chance.choice([*self.prepared])
            connection = self.connection()
            for body in self.transactions[name]:
                self.committers.setdefault(body, set()).add(NAMES[connection - 1])
            self.node.say(Commit(connection, name, b"commit " + name, None, f"app of {name.decode()}", 1))

    def subscribe(self) -> None:
        connection, queue = self.connection(), self.chance.choice(QUEUES)
        if connection in self.node.paused:
            return
        self.node.say(subscribe(connection, queue))
        is_there = queue.encode() in self.node.broker.connections[connection].queue_subscriptions
        if is_there != self.may(connection, "read", queue):
            self.mistakes.append(f"{NAMES[connection - 1]} and its right to read {queue} differ")
        if is_there:
            for deliver in self.node.messages(connection):
                self.node.say(ack(deliver))
            self.node.say(unsubscribe(connection, queue))

    def purge(self) -> None:
        connection, queue = self.connection(), self.chance.choice(QUEUES)
        if connection in self.node.paused:
            return
        before = self.node.stored(queue)
        is_done = self.node.admin(connection, do="purge", queue=queue)["ok"]
        if is_done != self.may(connection, "purge", queue):
            self.mistakes.append(f"{NAMES[connection - 1]} and its right to purge {queue} differ")
        if not is_done and self.node.stored(queue) != before:
            self.mistakes.append(f"a purge of {queue} was refused, and has purged")

    def change(self) -> None:
        """A right comes, or goes; then what has waited may go on, or not."""
        self.rights.held ^= {self.chance.choice(ALL)}
        self.node.wait(0.25)

    def consume(self) -> None:
        for deliver in self.node.messages(CONSUMER):
            self.node.say(ack(deliver))

    def restart(self) -> None:
        """The power goes: what was open is gone, what was prepared is there, and nobody knows by whom."""
        self.hear()
        kept = {body for bodies in self.transactions.values() for body in bodies}
        self.of_nobody |= {body for body in kept if not self.puts[body]}
        self.judged |= self.promised
        self.committers.clear()
        self.start(self.node.disk.platter)

    def finish(self) -> None:
        """Everybody may do everything: what was promised is there then, each once."""
        self.rights.held |= {*ALL}
        for _ in range(50):
            self.node.wait(0.25)
            self.consume()
            self.hear()
        lost = [body for body in sorted(self.promised) if self.puts[body] != 1]
        if lost or max(self.puts.values(), default=1) > 1:
            self.mistakes.append(f"promised, and not there once: {lost}; {self.puts.most_common(1)}")

    # ---- what is told -----------------------------------------------------------------------------------------------

    def refusals(self, connection: int) -> list[Refuse]:
        replies = self.node.inbox[connection]
        return [reply for reply in replies if isinstance(reply, Refuse) and reply.code == "forbidden"]

    def hear(self) -> None:
        for number in range(1, len(NAMES) + 1):
            for refuse in self.refusals(number):
                self.forbidden += 1
                what, _, name = (refuse.receipt or b"").partition(b" ")
                if what in (b"commit", b"prepare"):
                    self.node.say(Abort(number, name))
            for reply in self.node.take(number):
                if isinstance(reply, RefusedReceipt) and self.puts[reply.receipt]:
                    self.mistakes.append(f"{reply.receipt!r} was refused, and is there")
                elif type(reply) is Receipt:
                    self.receipted(reply.receipt)

    def receipted(self, receipt: bytes) -> None:
        what, _, name = receipt.partition(b" ")
        if what == b"prepare":
            self.prepared[name] = None
        elif what == b"commit":
            self.prepared.pop(name, None)
            self.promised |= {*self.transactions[name]}
        else:
            self.promised.add(receipt)


def simulate(run: Run) -> None:
    sent = forbidden = promised = starts = 0
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        history = History(seed)
        for mistake in history.mistakes:
            run.violation(f"History({seed}): {mistake}")
        sent += history.sent
        forbidden += history.forbidden
        promised += len(history.promised)
        starts += history.starts
        run.case()
    run.figures |= {"messages sent": sent, "kept": promised, "commands refused": forbidden, "starts": starts}
    enough = promised > run.done and forbidden > run.done and starts > run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T25",
        name="rights",
        title="random histories of principals whose rights come and go, on simulated time",
        unit="histories",
        run=simulate,
        cases=(200, 100_000, 1_000_000),
        mutants=(
            "authorized-by-nobody",
            "request-not-authorized",
            "commit-not-authorized",
            "prepared-not-authorized",
            "prepared-by-anyone",
            "waiting-not-authorized",
            "principal-not-kept",
        ),
        mutant_cases=2000,
        quick_mutants=7,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
