"""S34: whatever a node accepts, its links can carry.

Frames of every kind are sent to node a, as a client writes them: to every address that leads into a queue of scope
"cluster", in all three versions, with names, keys and headers of every length and character, with every option of SEND,
in transactions and prepared. What is refused there is no matter. What is accepted must come to the consumers of node b,
byte for byte, and as long as both are well no link may end. The nodes are whole brokers on simulated disks; each word
between them goes through the bytes of the link.
"""

from collections import Counter
from random import Random

from radiator.model.commands import Command, Commit, Fail, Open, Read, Send
from radiator.model.errors import Violation
from radiator.model.limits import NAME_MAX_BYTES, Limits
from radiator.model.peer import Transfer
from radiator.model.replies import Receipt
from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from radiator.protocols.stomp.session import StompSession
from tests.campaigns.campaign import Campaign, Run
from tests.core.cluster.nodes import Nodes
from tests.core.words import ack, nack, subscribe

LIMITS = Limits(max_frame_bytes=3000, max_header_bytes=1200, max_headers=24)
LONG, ODD = "l" * NAME_MAX_BYTES, "a b:ü\\/.日-" + "ö" * 60
SENDS = 25  # of one life of two nodes
DECLARED = Declarations(
    queues={
        "w": QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=0),
        LONG: QueueSettings(scope="cluster", dedup_window_s=60),
        ODD: QueueSettings(scope="cluster", message_ttl_ms=10**9),
        "dead": QueueSettings(scope="cluster"),
        "x": QueueSettings(),
    },
    fanouts={"near": ("w", ODD), "far": ("x",), LONG: ("x",)},
    topics=["t.#"],
    cluster_fanouts=frozenset({"far", LONG}),
    cluster_topics=frozenset({"t.#"}),
    exchanges={
        "ex": ExchangeSettings(type="direct"),
        LONG: ExchangeSettings(type="fanout"),
        ODD: ExchangeSettings(type="topic"),
    },
    bindings=[
        Binding("ex", "k", "w"), Binding("ex", LONG, LONG), Binding("ex", ODD, ODD), Binding(LONG, "", "w"),
        Binding(ODD, "#", LONG), Binding("amq.topic", "#", ODD),
    ],
    create_topics=True,
)  # fmt: skip
QUEUES = ("w", LONG, ODD, "dead", "x")
ADDRESSES = (
    "w", "/queue/w", f"/queue/{LONG}", f"/queue/{ODD}", "/amq/queue/w", f"/amq/queue/{LONG}", "/exchange/ex/k",
    f"/exchange/ex/{LONG}", f"/exchange/ex/{ODD}", f"/exchange/{LONG}", f"/exchange/{LONG}/", f"/exchange/{LONG}/any",
    f"/exchange/{ODD.replace('/', '')}/a.b", "/exchange/amq.topic/a.b.c", "/fanout/near", "/fanout/far",
    f"/fanout/{LONG}", "/topic/t.a", f"/topic/t.{'x' * 250}",
)  # fmt: skip
SNIPPETS = (
    b"", b"a", b"key", b":", b"::", b"\\c", b"\\n", b"\\\\", b"\\r", b"\r", b" ", b"\t", b"\x01", b"\x7f", b"\xc2\x85",
    "größe".encode(), "日本".encode(), b"\xff", b"=", b",", b"x" * 100, b"x" * 600, b"\xef\xbb\xbf", b"-1", b"0",
)  # fmt: skip
OPTIONS = (
    b"persistent:true", b"persistent:false", b"priority:9", b"reply-to:/temp-queue/r", b"reply-to:/reply-queue/abc",
    b"reply-to:\\c", b"correlation-id:" + b"c" * 255, b"dedup-id:" + b"d" * 64, b"dedup-id:1", b"expires:4102444800000",
    b"expires:9999999999999999", b"expiration:1000000", b"expiration:99999999999", b"delay:1", b"deliver-at:1",
    b"mandatory:true", b"immediate:true", b"content-type:text/plain", b"content-length:5", b"message-id:x",
    b"subscription:s", b"ack:a", b"timestamp:1", b"redelivered:true", b"redelivery-count:7", b"node-path:a,b",
    b"dead-letter-reason:r", b"original-destination:/queue/w", b"original-message-id:m", b"fanout-message-id:f",
    b"receipt-id:1", b"id:1", b"key:k", b"txn-app-id:x", b"Destination:/queue/w", b"destination:/queue/w", b"host:h",
    b"node-path :a", b" node-path:a", b"receipt :r",
)  # fmt: skip


def frame(chance: Random, number: int, minor: int, transaction: bytes) -> bytes:
    """A SEND; most are right."""
    to = chance.choice(ADDRESSES).encode()
    lines = [b"destination:" + (to.replace(b"\\", b"\\\\").replace(b":", b"\\c") if minor else to)]
    lines += [b"receipt:%d" % number, *([b"transaction:" + transaction] if transaction else [])]
    lines += chance.sample(OPTIONS, chance.choice((0, 0, 1, 1, 2, 5)))
    for _ in range(chance.choice((0, 1, 2, 2, 24))):
        name, value = (b"".join(chance.choices(SNIPPETS, k=chance.choice((1, 1, 2, 3)))) for _ in range(2))
        lines.append((name or b"n") + b":" + value)
    if chance.random() < 0.2:  # as long as may be
        used = len(b"SEND\n") + sum(len(line) + 1 for line in lines) + 1
        lines.append(b"z:" + chance.choice((b"z", b":")) * max(0, LIMITS.max_header_bytes - used - 3))
    if chance.random() < 0.2:
        chance.shuffle(lines)
    end = b"\r\n" if minor == 2 and chance.random() < 0.3 else b"\n"
    sized = chance.random() < 0.5
    body = chance.choice((b"", b"x", b"\xff\n:", b"y" * 2990, chance.randbytes(300) if sized else b"z"))
    if sized and not any(line.startswith(b"content-length") for line in lines):
        lines.append(b"content-length:%d" % len(body))
    return b"SEND" + end + end.join(lines) + end + end + body + b"\0"


def commands(chance: Random, connection: int, number: int) -> list[Command]:
    """What a session makes of a client's frames, up to the first that it refuses."""
    minor = chance.randrange(3)
    session = StompSession(connection, "s", LIMITS)
    (opened,) = session.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % minor)
    assert isinstance(opened, Open)
    kind = chance.choice(("", "", "", "transaction", "prepared"))
    frames = [frame(chance, number, minor, b"t" if kind else b"")]
    if kind:
        prepare = b"prepare:p%d\n" % number if kind == "prepared" else b""
        frames = [
            b"BEGIN\ntransaction:t\n\n\0", *frames, b"COMMIT\ntransaction:t\nreceipt:c\n" + prepare + b"\n\0",
            *([b"COMMIT\ntransaction:p%d\ntxn-app-id:a\ntxn-version:%d\nreceipt:v\n\n\0" % (number, number)]
              if prepare else []),
        ]  # fmt: skip
    given: list[Command] = []
    for data in frames:
        for command in session.receive(data):
            if isinstance(command, Fail | Open):
                return []
            given.append(command)
    return given


class Life:
    """Two nodes that are linked: clients send to a, and consume at b. `known`: what was accepted, by its body block."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.nodes = Nodes("ab", declarations=DECLARED, limits=LIMITS)
        self.next = 10
        self.got: Counter[str] = Counter()
        b = self.nodes["b"]
        b.open(1, 2)
        for name in QUEUES:
            b.say(subscribe(1, f"/queue/{name}", prefetch_count=1000))
        b.say(subscribe(2, "/topic/t.#", ack="auto"))
        self.settle()

    def send(self) -> bool:
        """One client, and what it says. Whether the broker took all of it."""
        self.next += 1
        number, a = self.next, self.nodes["a"]
        given = commands(self.run.chance, number, number)
        a.open(number)
        for command in given:
            a.turn([Read(number, [command])])
        is_taken = bool(given) and not a.is_refused(number)
        wanted = sum(isinstance(command, Send | Commit) for command in given)
        if is_taken and sum(isinstance(reply, Receipt) for reply in a.inbox[number]) != wanted:
            self.run.violation(f"{given} has {wanted} receipts due, and got {a.inbox[number]}.")
        a.close(number)
        a.inbox.pop(number)
        return is_taken

    def settle(self) -> None:
        """Everything goes where it is wanted; b rejects some, which go on as dead letters."""
        b = self.nodes["b"]
        for _ in range(12):
            try:
                self.nodes.wait(0.6)
            except Violation as broken:
                self.run.violation(f"A link cannot carry what a node has accepted: {broken}")
                return
            for deliver in b.messages(1):
                self.got[deliver.message.destination.split("/")[1]] += 1
                rejects = deliver.subscription == b"/queue/w" and self.run.chance.random() < 0.2
                b.say(nack(deliver, requeue=False) if rejects else ack(deliver))
            b.take(2)

    def judge(self) -> None:
        """Nothing is left at a, nothing was set aside, and both ends still have their first link."""
        a = self.nodes["a"].broker
        for queue in a.destinations.queues.stored.values():
            if queue.ledger.stored and queue.settings.scope == "cluster" or queue.name.startswith("$outbox/"):
                left = [stored.message for stored in queue.in_memory()]
                if left:
                    self.run.violation(
                        f"{len(left)} messages of /queue/{queue.name:.80} stay at a, as {left[0]!r:.2000}"
                    )
        for name in "ab":
            for peer in self.nodes.cluster(name).figures.all():
                if peer["state"] != "up" or peer["out_epoch"] != 1:
                    self.run.violation(f"The link of {name} and {peer['name']} is {peer['state']}: {peer}")
            notes = [note for note in self.nodes[name].notes if note.level == "error"]
            if notes:
                self.run.violation(f"{name} logs {notes[0]}")


def carry(run: Run) -> None:
    taken, crossed, kinds = 0, 0, Counter[str]()
    while not run.is_over:
        life = Life(run)
        before = taken
        for _ in range(SENDS):
            taken += life.send()
            run.case()
        life.settle()
        life.judge()
        crossed += len(life.nodes.sent(Transfer))
        kinds += life.got
        if run.level == "quick" and taken == before:
            run.violation("Not one of them was taken: this shows nothing.")
    run.figures = {"taken": taken, "crossed": crossed, **{f"to {kind}": count for kind, count in sorted(kinds.items())}}


CAMPAIGNS = (
    Campaign(
        number="S34",
        name="carry",
        title="every kind of SEND that a node accepts, over a link",
        unit="SENDs",
        run=carry,
        cases=(1500, 60_000, 600_000),
        mutants=("link-carries-queues-only",),
        mutant_cases=300,
    ),
)
