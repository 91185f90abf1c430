"""S6: headers that try to become something else on their way: another header, another frame, a word of the broker.

Random headers, full of line ends, colons, backslashes and other scripts, are sent in each version and received in each
through durable queues, memory queues, topics, fanouts, transactions, requests and restarts. What the receiver reads
must be what was said, without what only the broker sets and what its version cannot express. Wrong escapes and what is
no UTF-8 are refused. Both ends are tests/acceptance/wire.py, which shares nothing with the broker's codec.
"""

from random import Random

from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import upright
from tests.campaigns.campaign import Campaign, Run

VERSIONS = ("1.0", "1.1", "1.2")
CONFIG = """\
[create]
queues = true
topics = true
[queue."memory.#"]
persistent = false
[fanout."fan"]
children = ["fan.1.0", "fan.1.1", "fan.1.2"]
"""
RESTART_EVERY = 400  # cases
PER_BATCH = 12  # messages that are on their way at once

# set by the broker alone, whoever else says them
OWNED = (
    "receipt", "transaction", "destination", "content-length", "message-id", "subscription", "ack", "timestamp",
    "redelivered", "redelivery-count", "dead-letter-reason", "original-destination", "original-message-id",
    "fanout-message-id",
)  # fmt: skip
MAY_COME = {"destination", "message-id", "subscription", "ack", "content-length", "timestamp", "redelivered"}
MAY_COME |= {"redelivery-count"}
MUST_COME = {"destination", "message-id", "content-length", "timestamp", "redelivered"}

# meaning something in a SEND, and then refused where it means nonsense
MEANINGFUL = {"expiration", "expires", "mandatory", "dedup-id", "reply-to"}

PARTS = (
    "\n", "\r", "\r\n", "\n\n", ":", "::", "\\", "\\\\", "\\n", "\\c", "\\r", "\\t", "\\\n", " ", "  ", "\t", "a", "B",
    "7", "é", "€", "😀", "\u2028", "\u0085", "\x01", "\x7f", "\ufeff", "ack:x", "\nack:1", "\r\n\r\nbody", "%0a",
    "message-id", "MESSAGE", "\nSEND\n", "^@", "'", '"', "=", ",", ";", "{}", "%s",
)  # fmt: skip

WAYS = ("queue", "memory", "topic", "fanout", "transaction", "stored")
Pairs = list[tuple[str, str]]


def word(chance: Random, least: int = 0) -> str:
    return "".join(chance.choice(PARTS) for _ in range(chance.randrange(least, 6)))


def can_say(version: str, name: str, value: str) -> bool:
    """Whether a frame of that version can have this header at all."""
    if not name:
        return False
    if version == "1.0":
        return "\n" not in name + value and ":" not in name
    return True


def headers(chance: Random, version: str) -> Pairs:
    """Such as the version can say, some of them owned by the broker, some of them again."""
    pairs: Pairs = []
    while len(pairs) < chance.randrange(1, 9):
        name = chance.choice((word(chance, 1), word(chance, 1), chance.choice(OWNED[4:]), "a", "Message-Id", "ack "))
        if chance.random() < 0.1 and pairs:
            name = pairs[-1][0]
        value = word(chance)
        if name not in MEANINGFUL and can_say(version, name, value):
            pairs.append((name, value))
    return pairs


def expected(pairs: Pairs, receiver: str) -> Pairs:
    return [(name, value) for name, value in pairs if name not in OWNED and can_say(receiver, name, value)]


def raw_send(wire: Wire, destination: str, pairs: Pairs, body: bytes, chance: Random, more: Pairs) -> bytes:
    """The frame; some leave colons in values as they are, and that is one way to say them."""
    data = wire.frame("SEND", [("destination", destination), *more, *pairs], body)
    if wire.version != "1.0" and chance.random() < 0.2:
        head, end, rest = data.partition(b"\n\n")
        lines = [line.partition(b":") for line in head.split(b"\n")]
        data = b"\n".join(name + colon + value.replace(b"\\\\c", b"\0").replace(b"\\c", b":").replace(b"\0", b"\\\\c")
                          for name, colon, value in lines) + end + rest  # fmt: skip
    return data


class Ends:
    """A sender and receivers of each version, and where they meet."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.broker = BrokerProcess(run.directory, CONFIG)
        self.senders: dict[str, Wire] = {}
        self.receivers: dict[str, Wire] = {}

    def connect(self) -> None:
        self.broker.start()
        address = (self.broker.host, self.broker.port)
        for version in VERSIONS:
            self.senders[version] = Wire(address, version)
            self.receivers[version] = Wire(address, version)
            self.senders[version].connect()
            self.receivers[version].connect()
            for number, destination in enumerate(self.live_addresses(version)):
                self.receivers[version].subscribe(destination, id=self.subscription(version, number), ack="auto")

    def close(self) -> None:
        for wire in (*self.senders.values(), *self.receivers.values()):
            wire.close()
        self.broker.kill()

    def again(self, version: str) -> Wire:
        """A sender in place of one that was refused."""
        self.senders[version].close()
        self.senders[version] = wire = Wire((self.broker.host, self.broker.port), version)
        wire.connect()
        return wire

    def live_addresses(self, version: str) -> list[str]:
        """What a receiver of that version is subscribed to; the names do not make it easy."""
        return [f"/queue/in:{version}\\n", f"/queue/memory.{version}", f"/topic/\\c:{version}", f"/queue/fan.{version}"]

    def subscription(self, version: str, number: int) -> str:
        return f"{number}:\\n {'' if version == '1.0' else chr(10)}é"

    def address(self, way: str, version: str) -> str:
        queue, memory, topic, fan = self.live_addresses(version)
        return {"memory": memory, "topic": topic, "fanout": "/fanout/fan", "stored": f"/queue/stored.{version}"}.get(
            way, queue
        )


def judge(ends: Ends, way: str, sender: str, receiver: str, pairs: Pairs, got: Frame, case: str) -> None:
    run = ends.run
    names = [name for name, _ in got.pairs]
    # the broker's own come first; of a repeated name the first counts
    own = next((i for i, name in enumerate(names) if name not in MAY_COME), len(names))
    theirs = got.pairs[own:]
    if way == "fanout":  # its copies carry a common id, behind the sender's headers
        name, _ = theirs.pop()
        if name != "fanout-message-id":
            run.violation(f"{case} came without a fanout-message-id: {got.lines}.")
    right = expected(pairs, receiver)
    if theirs != right:
        run.violation(f"{case} was read as {theirs}, not as {right}; it came as {got.lines}.")
    mistakes = MUST_COME - set(names[:own]) or len(set(names[:own])) != own
    if mistakes or got["redelivered"] not in ("false", "true" if way == "stored" else "false"):
        run.violation(f"{case} came with these headers of the broker: {got.pairs[:own]}.")
    if got["destination"] != ends.address(way, receiver):
        run.violation(f"{case} came as from {got['destination']!r}, not {ends.address(way, receiver)!r}.")
    if got["content-length"] != str(len(got.body)):
        run.violation(f"{case} came with content-length {got['content-length']}, and {len(got.body)} bytes.")
    if way != "stored" and receiver != "1.0":
        number = ends.live_addresses(receiver).index(
            f"/queue/fan.{receiver}" if way == "fanout" else ends.address(way, receiver)
        )
        if got["subscription"] != ends.subscription(receiver, number):
            run.violation(f"{case} came for subscription {got['subscription']!r}.")


def pass_on(ends: Ends, batch: int) -> None:
    """Some messages of one sender by one way to one receiver, or to all of them."""
    run, chance = ends.run, ends.run.chance
    way, sender, receiver = chance.choice(WAYS[:5]), chance.choice(VERSIONS), chance.choice(VERSIONS)
    wire = ends.senders[sender]
    commands = [headers(chance, sender) for _ in range(PER_BATCH)]
    more: Pairs = [("transaction", f"t{batch}\\")] if way == "transaction" else []
    frames = [
        raw_send(wire, ends.address(way, receiver), pairs, b"%d.%d" % (batch, i), chance, more)
        for i, pairs in enumerate(commands)
    ]
    if more:
        wire.ask("BEGIN", more)
    wire.send_raw(b"".join(frames))
    receipt = f"r:{batch}\\{'' if sender == '1.0' else chr(10)}"
    wire.send_frame("COMMIT" if more else "BEGIN", {**dict(more or [("transaction", f"b{batch}")]), "receipt": receipt})
    answer = wire.read_frame()
    if answer.command != "RECEIPT" or answer["receipt-id"] != receipt:
        run.violation(
            f"{commands} in {sender} to {ends.address(way, receiver)} was answered {answer}. It was {frames}."
        )
    if not more:
        wire.ask("ABORT", {"transaction": f"b{batch}"})
    for to in VERSIONS if way == "fanout" else (receiver,):
        for i, pairs in enumerate(commands):
            got = ends.receivers[to].message()
            what = f"{pairs} from {sender} to {to} by {way}, sent as {frames[i]!r},"
            if got.body != b"%d.%d" % (batch, i):
                run.violation(f"{what} never came; instead of it {got}.")
            judge(ends, way, sender, to, pairs, got, what)
    run.case(PER_BATCH)


WRONG = (
    (VERSIONS, b"a:\xff"), (VERSIONS, b"a\xc3:b"), (VERSIONS, b"a:\xc0\xaf"), (VERSIONS, b"a:\xed\xa0\x80"),
    (VERSIONS, b"a:\xf4\x90\x80\x80"), (VERSIONS, b"a:\xe2\x82"), (VERSIONS, b"\x80:b"),
    (VERSIONS, b"a:\xf8\x88\x80\x80\x80"),
    (VERSIONS, b"a:b\0c"), (VERSIONS, b":b"), (VERSIONS, b"no colon"), (VERSIONS, b" "),
    (("1.1", "1.2"), b"a:\\t"), (("1.1", "1.2"), b"a\\x:b"), (("1.1", "1.2"), b"a:b\\"), (("1.1", "1.2"), b"a:\\N"),
    (("1.1", "1.2"), b"a:\\0"), (("1.1", "1.2"), b"a:\\ "), (("1.1", "1.2"), b"a\\:b"),
    (("1.1", "1.2"), "a:\\é".encode()),
    (("1.1",), b"a:\\r"), (("1.2",), b"a:b\rc"), (("1.2",), b"a\r:b"), (("1.2",), b"a:b\r\r"),
    (("1.1",), b"receipt:\\r"),
)  # fmt: skip


def refuse(ends: Ends) -> None:
    """A header that is no header: ERROR and close, and nothing was sent."""
    run, chance = ends.run, ends.run.chance
    versions, line = chance.choice(WRONG)
    version, receiver = chance.choice(versions), chance.choice(VERSIONS)
    wire = ends.senders[version]
    good = [f"g{i}:x".encode() for i in range(chance.randrange(3))]
    lines = [b"destination:" + ends.address("memory", receiver).encode(), *good]
    lines.insert(chance.randrange(len(lines) + 1), line)
    data = b"SEND\n" + b"".join(one + b"\n" for one in lines) + b"\nforged\0"
    wire.send_raw(data)
    try:
        answer = wire.read_frame(3)
        if answer.command != "ERROR" or not wire.is_closed():
            run.violation(f"{data!r} in {version} was answered {answer}.")
    except (Gone, TimeoutError) as wrong:
        run.violation(f"{data!r} in {version} was answered nothing: {wrong}.")
    wire = ends.again(version)
    wire.send(ends.address("memory", receiver), "right")
    got = ends.receivers[receiver].message()
    if got.body != b"right":
        run.violation(f"{data!r} in {version} was refused, but it came: {got}.")
    run.case()


def store_and_restart(ends: Ends) -> None:
    """Stored by every version, read by every version after a restart, clean or not."""
    run, chance = ends.run, ends.run.chance
    found: dict[str, list[tuple[str, Pairs]]] = {version: [] for version in VERSIONS}
    for receiver in VERSIONS:
        for _ in range(PER_BATCH):
            sender = chance.choice(VERSIONS)
            pairs = headers(chance, sender)
            wire = ends.senders[sender]
            data = raw_send(wire, ends.address("stored", receiver), pairs, b"x", chance, [])
            wire.send_raw(data)
            wire.fence()
            wire.send(f"/queue/fence.{sender}", "so that all before it is stored")
            found[receiver].append((sender, pairs))
    if chance.random() < 0.5:
        ends.close()
    else:
        for wire in (*ends.senders.values(), *ends.receivers.values()):
            wire.close()
        if ends.broker.stop() != 0:
            run.violation(f"The broker did not stop clean: {ends.broker.log[-2000:]}")
    ends.connect()
    for receiver in VERSIONS:
        wire = ends.receivers[receiver]
        wire.subscribe(ends.address("stored", receiver), id="stored", ack="auto")
        for sender, pairs in found[receiver]:
            got = wire.message()
            judge(ends, "stored", sender, receiver, pairs, got, f"{pairs} from {sender} to {receiver}, stored,")
            run.case()
        wire.ask("UNSUBSCRIBE", {"id": "stored"})


def go_through(ends: Ends) -> None:
    run = ends.run
    next_restart = RESTART_EVERY
    for batch in range(run.cases):
        if run.is_over:
            break
        if run.done >= next_restart:
            store_and_restart(ends)
            next_restart += RESTART_EVERY
        elif run.chance.random() < 0.7:
            pass_on(ends, batch)
        else:
            refuse(ends)


def inject(run: Run) -> None:
    ends = Ends(run)
    try:
        ends.connect()
        with upright(run, ends.broker):
            go_through(ends)
    finally:
        ends.close()


CAMPAIGNS = (
    Campaign(
        number="S6",
        name="injection",
        title="headers full of line ends, colons and backslashes, between all versions and by every way",
        unit="messages",
        run=inject,
        cases=(2000, 100_000, 2_000_000),
        mutants=(
            "owned-header-not-stripped",
            "escape-missing-when-relayed",
            "inexpressible-header-relayed",
            "headers-not-checked-for-utf8",
            "unescape-missing",
        ),
        mutant_cases=1000,
        quick_mutants=3,
        needs=("linux",),
    ),
)
