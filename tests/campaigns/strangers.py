"""S1: whoever has not said CONNECT is a stranger: nothing that they say is done. Nor is a second CONNECT.

Every command of STOMP is said first, in every style; then commands in random order, at random places cut. A small model
says which are answered and where it ends; what lies behind the end must leave no trace in the broker. TCP only: it does
not see TLS, WebSocket or HTTP.
"""

from dataclasses import dataclass, field
from random import Random

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Operator, in_pieces, upright
from tests.campaigns.campaign import Campaign, Run

VERSIONS = ("1.0", "1.1", "1.2")
OPENING = ("CONNECT", "STOMP")
LATER = ("SEND", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "ACK", "NACK", "DISCONNECT")
OF_SERVERS = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")
STYLES = (b"\n", b"\r\n")
QUEUE = "said"  # the queue that every SEND names; its books show what was done
CONFIG = "[create]\nqueues = true\ntopics = true\n"

Answer = tuple[str, str]  # a command of the broker, and the receipt's id where it has one


@dataclass(slots=True)
class Model:
    """What the broker owes one client. answers: in order; sent: messages that it must have accepted in the end."""

    version: str
    is_connected: bool = False
    is_over: bool = False
    subscriptions: set[str] = field(default_factory=set)
    transactions: dict[str, int] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    sent: int = 0

    def hear(self, command: str, name: str, receipt: str) -> None:
        """One frame. name: the transaction or subscription that it names; "": none."""
        if self.is_over:
            return
        if not self.is_connected:
            self.is_connected = command in OPENING
            self.is_over = not self.is_connected
            self.answers.append(("CONNECTED", "") if self.is_connected else ("ERROR", ""))
        elif self._is_right(command, name):
            self.answers.append(("RECEIPT", receipt))
            self.is_over = command == "DISCONNECT"
        else:
            self.is_over = True
            self.answers.append(("ERROR", ""))

    def _is_right(self, command: str, name: str) -> bool:
        """Carries it out, if it may be."""
        if command == "SEND" and not name:
            self.sent += 1
        elif command == "SEND" and name in self.transactions:
            self.transactions[name] += 1
        elif command == "SUBSCRIBE" and name not in self.subscriptions:
            self.subscriptions.add(name)
        elif command == "UNSUBSCRIBE" and name in self.subscriptions:
            self.subscriptions.remove(name)
        elif command == "BEGIN" and name not in self.transactions:
            self.transactions[name] = 0
        elif command == "COMMIT" and name in self.transactions:
            self.sent += self.transactions.pop(name)
        elif command == "ABORT" and name in self.transactions:
            self.transactions.pop(name)
        else:
            return command == "DISCONNECT"
        return True


def frame(command: str, name: str, receipt: str, version: str, end_of_line: bytes) -> bytes:
    """With all headers that it may need: a stranger is refused for being one, not for a header that is missing."""
    headers = {
        "CONNECT": [f"accept-version:{version}", "host:test"],
        "STOMP": [f"accept-version:{version}", "host:test"],
        "SEND": [f"destination:/queue/{QUEUE}"] + ([f"transaction:{name}"] if name else []),
        "SUBSCRIBE": [f"id:{name}", "destination:/queue/quiet", "ack:client"],
        "UNSUBSCRIBE": [f"id:{name}"],
        "ACK": ["id:m1", "message-id:m1", "subscription:s1"],
        "NACK": ["id:m1", "message-id:m1", "subscription:s1"],
        "CONNECTED": ["version:1.2"],
        "MESSAGE": [f"destination:/queue/{QUEUE}", "message-id:m1", "subscription:s1"],
        "RECEIPT": ["receipt-id:r1"],
        "ERROR": ["message:no"],
        "DISCONNECT": [],
    }.get(command, [f"transaction:{name}"])
    if command not in OPENING:
        headers.append(f"receipt:{receipt}")
    body = b"a message" if command == "SEND" else b""
    return end_of_line.join([command.encode(), *(header.encode() for header in headers), b"", body]) + b"\0"


def random_script(chance: Random) -> list[tuple[str, str]]:
    """Commands with the names they use: mostly such as are right, so that a script gets far."""
    script = [("CONNECT", "")] if chance.random() < 0.9 else []
    open_names: dict[str, list[str]] = {"t": [], "s": []}
    for _ in range(chance.randrange(9)):
        if chance.random() < 0.12:
            script.append((chance.choice((*OPENING, *LATER, *OF_SERVERS)), chance.choice(("", "t0", "s0"))))
            continue
        command = chance.choice(LATER[:6])
        kind = "s" if "SUBSCRIBE" in command else "t"
        if command in ("SUBSCRIBE", "BEGIN"):
            name = f"{kind}{len(script)}"
            open_names[kind].append(name)
        elif command == "SEND" and (chance.random() < 0.5 or not open_names["t"]):
            name = ""
        elif open_names[kind]:
            name = chance.choice(open_names[kind])
            if command != "SEND":
                open_names[kind].remove(name)
        else:
            continue
        script.append((command, name))
    return script


def first_scripts() -> list[tuple[list[tuple[str, str]], str, bytes]]:
    """Each command first, and behind it what a client says; then a second CONNECT or STOMP."""
    rest = [("CONNECT", ""), ("SEND", ""), ("BEGIN", "t0"), ("SEND", "t0"), ("COMMIT", "t0")]
    first = [[(command, "t0"), *rest] for command in (*LATER, *OF_SERVERS)]
    first += [[(first, ""), ("SEND", ""), (second, ""), ("SEND", "")] for first in OPENING for second in OPENING]
    return [(script, version, style) for script in first for version in VERSIONS for style in STYLES]


def heard(wire: Wire) -> list[Answer]:
    """All that the broker says until it closes."""
    commands: list[Answer] = []
    try:
        while True:
            got = wire.read_frame()
            commands.append((got.command, got["receipt-id"] if got.command == "RECEIPT" else ""))
    except Gone:
        return commands


def try_script(
    run: Run, broker: BrokerProcess, operator: Operator, script: list[tuple[str, str]], version: str, style: bytes
) -> None:
    model = Model(version)
    data = b""
    for number, (command, name) in enumerate([*script, ("DISCONNECT", "")]):
        # 1.0 and 1.1 end a line with LF alone, once it is known that they are spoken
        ends = style if version == "1.2" or command in OPENING else b"\n"
        data += frame(command, name, f"r{number}", version, ends if number or command in OPENING else style)
        model.hear(command, name, f"r{number}")
    before = operator.stats()
    with Wire((broker.host, broker.port), version) as wire:
        for piece in in_pieces(run.chance.choice((b"", b"\n", b"\r\n\n")) + data, run.chance):
            try:
                wire.send_raw(piece)
            except ConnectionError:
                break
        answers = heard(wire)
    after = operator.stats()
    silent = [] if not model.is_connected else model.answers  # a stranger may be left without a word
    if answers not in (model.answers, silent):
        run.violation(f"{script} in {version} was answered {answers} and not {model.answers}. It was {data!r}.")
    accepted = after["queues"][QUEUE]["accepted"] - before["queues"][QUEUE]["accepted"]
    if accepted != model.sent:
        run.violation(
            f"{script} in {version}: {accepted} messages were accepted and not {model.sent}. It was {data!r}."
        )
    strange = set(after["queues"]) - {QUEUE, "quiet"}
    if strange or after["queues"][QUEUE]["stored"] != after["queues"][QUEUE]["accepted"]:
        run.violation(f"{script} in {version} left its traces: {after['queues']}. It was {data!r}.")
    run.case()


def strangers(run: Run) -> None:
    with BrokerProcess(run.directory, CONFIG) as broker, upright(run, broker):
        operator = Operator(broker)
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.send(f"/queue/{QUEUE}", "so that it is there")
        first = first_scripts()
        run.chance.shuffle(first)
        while not run.is_over:
            if first:
                script, version, style = first.pop()
            else:
                script, version = random_script(run.chance), run.chance.choice(VERSIONS)
                style = run.chance.choice(STYLES)
            try_script(run, broker, operator, script, version, style)
        operator.close()


CAMPAIGNS = (
    Campaign(
        number="S1",
        name="strangers",
        title="every command before CONNECT, a second CONNECT, and commands in random orders",
        unit="scripts",
        run=strangers,
        cases=(1500, 30_000, 1_000_000),
        mutants=("frames-before-connect-accepted", "second-connect-accepted"),
        mutant_cases=300,
        quick_mutants=2,
        needs=("linux",),
    ),
)
