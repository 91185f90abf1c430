"""S62: readers of logs by server-sent events, who are cut off and come back, over power cuts: nothing is missed, and
nothing comes twice.

A broker on a simulated disk, and readers in front of it, each a WebSession and what a browser keeps: the last `id`.
Records are appended, batches committed or lost by a power cut, streams cut anywhere between two events, and opened
again. A stream is sent further requests now and then, which must not be carried out; and one of more partitions than
are read together is asked for, and must be refused.
"""

from random import Random

from radiator.model.commands import Command, Identify, Open, Read
from radiator.model.limits import HTTP_EVENTS_PARTITIONS, Limits
from radiator.model.replies import Reply
from radiator.model.settings import Declarations, LogSettings
from radiator.protocols.http.session import WebSession
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import send

STEPS = 120
PRODUCER = 1
WIDE = b"GET /v1/logs/wide/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
BEHIND = b"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Browser:
    """Reads a log for ever. got: by partition, the offsets that came, in their order."""

    def __init__(self, partitions: int, start: str) -> None:
        self.start = start
        self.last_id = ""
        self.got: list[list[int]] = [[] for _ in range(partitions)]
        self.began: list[int] = []
        self.connection = 0
        self.session: WebSession | None = None
        self.taken = 0  # replies

    def open(self, node: Node, connection: int) -> None:
        """As a browser does that comes back."""
        self.connection, self.taken = connection, 0
        self.session = WebSession(connection, "s", Limits())
        last = f"Last-Event-ID: {self.last_id}\r\n" if self.last_id else ""
        head = f"GET /v1/logs/l/events?from={self.start} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n"
        node.open(connection)
        self.ask(node, head.encode())

    def ask(self, node: Node, data: bytes) -> int:
        """Returns how many commands that has become."""
        assert self.session is not None
        commands: list[Open | Command] = [
            one for one in self.session.receive(data) if not isinstance(one, Open | Identify)
        ]
        node.turn([Read(self.connection, commands)])  # type: ignore[arg-type]
        return len(commands)

    def read(self, node: Node) -> str:
        """Takes what has come. Returns what is wrong, or nothing."""
        replies: list[Reply] = node.inbox[self.connection][self.taken :]
        self.taken += len(replies)
        assert self.session is not None
        for event in b"".join(map(self.session.encode, replies)).decode().split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in event.split("\n"))
            if "id" in lines:
                self.last_id = lines["id"]
                if not self.began:
                    self.began = [int(one.partition(":")[2]) for one in self.last_id.split(",")]
            if "data" in lines and '"offset":' in lines["data"]:
                partition, offset = map(int, lines["data"].split('"')[3].split(":"))
                self.got[partition].append(offset)
            elif event.startswith(("HTTP/1.1 4", "event: refused")):
                return f"{self.last_id or self.start} was refused: {event[:300]}"
        return ""

    def close(self, node: Node) -> None:
        if self.session is not None:
            node.close(self.connection)
            del node.inbox[self.connection]
            self.session = None


def history(chance: Random) -> str:
    """One. Returns what is wrong with it, or nothing."""
    partitions = chance.choice((1, 2, 5))
    logs = {"l": LogSettings(partitions=partitions), "wide": LogSettings(partitions=HTTP_EVENTS_PARTITIONS + 1)}
    node = Node(Declarations(logs=logs), auto=False, seed=chance.randrange(1 << 30))
    node.open(PRODUCER)
    browsers = [Browser(partitions, start) for start in ("earliest", "latest", "latest")]
    connection = PRODUCER
    for step in range(STEPS):
        is_last = step == STEPS - 1
        if chance.random() < 0.04 and not is_last:
            node = node.crashed()
            node.auto = False
            for browser in browsers:
                browser.session = None
            node.open(PRODUCER)
        for _ in range(chance.randrange(4)):
            node.say(send(PRODUCER, "/log/l", b"x", headers=b"partition-key:%d\n" % chance.randrange(100)))
        for browser in browsers:
            if browser.session is None and (is_last or chance.random() < 0.3):
                connection += 1
                browser.open(node, connection)
            elif chance.random() < 0.1 and not is_last and browser.session is not None:
                browser.close(node)
        while is_last or chance.random() < 0.7:
            if not node.step():
                break
        for browser in browsers:
            if browser.session is None:
                continue
            if wrong := browser.read(node):
                return wrong
            if browser.last_id and chance.random() < 0.05 and browser.ask(node, BEHIND):
                return "a request behind a stream was carried out"
    ends = [partition.committed for partition in node.broker.destinations.logs.all["l"].partitions]
    for browser in browsers:
        for partition, (offsets, end) in enumerate(zip(browser.got, ends, strict=True)):
            first = browser.began[partition] if browser.start == "earliest" else (offsets[0] if offsets else end)
            if offsets != [*range(first, end)]:
                return f"partition {partition} from {browser.start}: {offsets} are not {first} to {end}"
            if browser.start == "latest" and first < browser.began[partition]:
                return f"partition {partition}: {first} is before {browser.began[partition]}, which was told"
    return wide(node, connection + 1)


def wide(node: Node, connection: int) -> str:
    """Asks for more than may be. Returns what is wrong, or nothing."""
    browser = Browser(1, "latest")
    browser.connection, browser.session = connection, WebSession(connection, "s", Limits())
    node.open(connection)
    browser.ask(node, WIDE)
    while node.step():
        pass
    return "" if browser.read(node) else f"a stream of {HTTP_EVENTS_PARTITIONS + 1} partitions began"


def run(run: Run) -> None:
    """Histories until there are enough."""
    while not run.is_over:
        seed = run.chance.randrange(1 << 40)
        if wrong := history(Random(seed)):
            run.violation(f"history {seed}: {wrong}")
        run.case()


CAMPAIGNS = (
    Campaign(
        number="S62",
        name="events",
        title="readers of logs by server-sent events come back, over power cuts",
        unit="histories",
        run=run,
        cases=(100, 3_000, 30_000),
        mutants=(
            "events-last-event-id-ignored",
            "events-with-requests-between",
            "events-of-any-number-of-partitions",
            "events-place-before-the-disk",
        ),
        mutant_cases=300,
        quick_mutants=4,
    ),
)
