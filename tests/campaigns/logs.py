"""S25: whatever clients say, the log stays one line for each event, printable, cut, and without their secrets.

Line feeds, carriage returns, escape sequences, forged lines and fields, other alphabets, bytes that are no text and a
MiB of something are put into every field that a client controls: commands, header names and values, destinations,
logins, ids, receipts, and the JSON of /admin. Each client has an address of its own. Then a flood of refused clients,
which may not fill the disk: of each event so many lines a second, fewer of one address, and the numbers of those left
out.

What is done where nobody reads stderr, tests/server/test_log.py sees.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from random import Random

from radiator.model.limits import LOG_DROPPED_EVERY_S, LOG_LINES_OF_CLIENT, MIB
from tests.acceptance.wire import Gone, Wire, escape
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.campaigns.campaign import Campaign, Run

CONFIG = f'[logging]\nlevel = "debug"\n[limits]\nmax_frame_bytes = "4MiB"\n{EVERYTHING_MAY_BE_CREATED}'
LINE = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{3}Z (debug|info|warning|error) (?P<event>[a-z_]+)"
    r'(?P<fields>( [a-z_]+=([!#-<>-\[\]-~]+|"([^"\\]|\\.)*"))*)'
)
FIELD = re.compile(r' ([a-z_]+)=(?:[!#-<>-\[\]-~]+|"(?:[^"\\]|\\.)*")')
LINE_CHARACTERS_MAX = 3000
LINES_A_SECOND_MAX = 110  # of one event: a second of the broker's clock may be cut by ours
FLOOD = 1200
ONE, OTHER = "127.2.0.1", "127.2.0.2"
CASES_A_LOOK = 200
TIME_FOR_THE_LOG_S = 5.0
QUIET_MAX_S = 60.0

FORGED = "2026-11-21T08:00:00.000Z error halted forged=1"
PIECES = (
    f"\n{FORGED}", f"\r{FORGED}", f"\r\n{FORGED}\r\n", f" {FORGED}", f'" forged=1 x="{FORGED}', " forged=1 ", "\\",
    '\\" forged=1 "', "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x08\x08\x08", "\x7f", "\x00", "\x85", "\x9b31m",
    "\u2028forged=1", "\u202egnp", "\ufeff", "größe", "字", "%s%n{0}${jndi:ldap://x}", "=", "", "a",
)  # fmt: skip


def nasty(chance: Random) -> bytes:
    """What is put into a field."""
    text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 5))).encode()
    if chance.random() < 0.1:
        text += chance.randbytes(chance.randrange(1, 30))
    if chance.random() < 0.05:
        text += b"A" * chance.choice((300, 10_000, MIB))
    return text


def nasty_name(chance: Random) -> str:
    """Of a destination: what has no control character is allowed there."""
    text = "".join(piece for _ in range(3) if (piece := chance.choice(PIECES)).isprintable() and piece)
    return (text or 'x" forged=1').replace("*", "").replace("#", "")[:100]


def address(number: int) -> str:
    """One of this machine's for each client: one that causes much hides nobody else."""
    return f"127.1.{number // 250 % 250}.{number % 250 + 1}"


class Speaker:
    """One client with something nasty to say. secret: its passcode, which must stand nowhere."""

    def __init__(self, broker: BrokerProcess, chance: Random, number: int) -> None:
        self.chance = chance
        self.version = chance.choice(("1.0", "1.1", "1.2"))
        self.secret = f"passcode-{number}-{chance.getrandbits(64):x}"
        self.wire = Wire((broker.host, broker.port), self.version, address(number))

    def field(self) -> bytes:
        """As it is, or escaped as this version asks for it."""
        raw = nasty(self.chance)
        if self.chance.random() < 0.5:
            return raw
        return escape(raw.decode(errors="replace"), self.version).encode()

    def credentials(self) -> list[bytes]:
        return [b"passcode:" + self.secret.encode(), b"login:" + self.chance.choice((b"me", self.field()))]

    def connect(self) -> None:
        lines = [
            b"CONNECT",
            b"accept-version:" + self.version.encode(),
            b"host:x",
            b"login:me",
            *self.credentials()[:1],
        ]
        self.wire.send_raw(b"\n".join(lines) + b"\n\n\0")
        self.wire.read("CONNECTED")

    # ---- what it says

    def connects_wrongly(self) -> None:
        lines = [b"CONNECT", b"accept-version:1.0,1.1,1.2", b"host:x", *self.credentials()]
        lines.append(self.chance.choice((b"heart-beat:", b"accept-version:", b"host:", b"")) + self.field())
        self.chance.shuffle(lines[1:])
        self.wire.send_raw(b"\n".join(lines) + b"\n\n\0")

    def says_no_stomp(self) -> None:
        self.wire.send_raw(self.field() + b"\n\n\0")

    def connects_twice(self) -> None:
        self.connect()
        self.wire.send_raw(b"\n".join([b"CONNECT", b"host:" + self.field(), *self.credentials()]) + b"\n\n\0")

    def names_no_destination(self) -> None:
        """It is of no known kind, and as long as a header may be."""
        self.connect()
        self.wire.send_raw(
            b"SEND\ndestination:/" + self.field()[:1000] + b"A" * self.chance.randrange(60_000) + b"\n\n\0"
        )

    def says_a_wrong_command(self) -> None:
        self.connect()
        self.wire.send_raw(self.field() + b"\ndestination:/queue/x\n\n\0")

    def puts_it_into_a_header(self) -> None:
        self.connect()
        command, names = self.chance.choice(COMMANDS)
        headers = {name: b"/queue/x" if name == b"destination" else b"1" for name in names}
        headers[self.chance.choice(names)] = self.field()
        lines = [command, *(name + b":" + value for name, value in headers.items())]
        if self.chance.random() < 0.2:
            lines.append(self.field() + b":value")
        self.wire.send_raw(b"\n".join(lines) + b"\n\nbody\0")

    def names_a_queue(self) -> None:
        """A queue that may have that name, and what an operator does with it."""
        self.connect()
        name = nasty_name(self.chance)
        for destination in (f"/queue/{name}", f"/topic/{name}"):
            self.wire.send_frame("SEND", {"destination": destination}, b"x")
        for do in ("purge", "move", "delete"):
            request = {"do": do, "queue": name, "from": name, "to": "x", "count": 1}
            with suppress(AssertionError):
                self.wire.admin(json.dumps(request).encode())

    def asks_admin(self) -> None:
        self.connect()
        text = nasty(self.chance).decode(errors="replace")
        what = {
            "do": self.chance.choice(("peek", "purge", "delete", "move", text)),
            "queue": text,
            "from": text,
            "to": text,
        }
        body = self.chance.choice((json.dumps(what).encode(), self.field(), json.dumps({text: text}).encode()))
        self.wire.send_frame("SEND", {"destination": "/admin", "reply-to": "/temp-queue/a", "receipt": "r"}, body)

    def reads_too_slowly(self) -> None:
        self.connect()
        topic = f"/topic/{nasty_name(self.chance)}"
        self.wire.send_frame("SUBSCRIBE", {"id": "0", "destination": topic, "buffer-max-messages": "1"})
        for _ in range(20):
            self.wire.send_frame("SEND", {"destination": topic}, bytes(100_000))


COMMANDS = (
    (b"SEND", (b"destination", b"receipt", b"transaction", b"expires", b"reply-to", b"dedup-id", b"content-length")),
    (b"SUBSCRIBE", (b"destination", b"id", b"ack", b"selector", b"prefetch-count", b"receipt", b"buffer-max-bytes")),
    (b"UNSUBSCRIBE", (b"id", b"destination", b"receipt")),
    (b"ACK", (b"id", b"message-id", b"subscription", b"transaction", b"receipt")),
    (b"NACK", (b"id", b"message-id", b"subscription", b"requeue", b"receipt")),
    (b"BEGIN", (b"transaction", b"receipt")),
    (b"COMMIT", (b"transaction", b"receipt")),
    (b"ABORT", (b"transaction", b"receipt")),
    (b"DISCONNECT", (b"receipt",)),
)  # fmt: skip
SAYINGS: tuple[Callable[[Speaker], None], ...] = (
    Speaker.connects_wrongly, Speaker.says_no_stomp, Speaker.connects_twice, Speaker.says_a_wrong_command,
    Speaker.puts_it_into_a_header, Speaker.puts_it_into_a_header, Speaker.names_no_destination,
    Speaker.names_a_queue, Speaker.asks_admin, Speaker.reads_too_slowly,
)  # fmt: skip


def speak(run: Run, broker: BrokerProcess, number: int) -> str:
    """One client's life: its secret."""
    speaker = Speaker(broker, run.chance, number)
    with speaker.wire:
        with suppress(ConnectionError, Gone):
            run.chance.choice(SAYINGS)(speaker)
            speaker.wire.send_raw(b"\nBEGIN\n\n\0")  # where it was let be, this is an end too
        with suppress(ConnectionError, TimeoutError):
            answer = speaker.wire.socket.recv(1 << 20)
            if speaker.secret.encode() in answer:
                run.violation(f"seed {run.seed}: a passcode stands in the answer {answer[:500]!r}")
    return speaker.secret


# ---- the judgement --------------------------------------------------------------------------------------------------


class Reader:
    """Reads the log on from where it was."""

    def __init__(self, run: Run, broker: BrokerProcess) -> None:
        self.run = run
        self.broker = broker
        self.read_characters = 0
        self.seconds: Counter[tuple[str, str]] = Counter()
        self.dropped = 0

    def read(self, secrets: list[str]) -> None:
        log = self.broker.log
        new, self.read_characters = log[self.read_characters :], len(log)
        for line in new.split("\n")[:-1]:
            self._judge(line)
        found = [secret for secret in secrets if secret in new]
        if found:
            place = new.index(found[0])
            self.run.violation(f"a passcode stands in the log: {new[max(0, place - 300) : place + 60]!r}")

    def _judge(self, line: str) -> None:
        found = LINE.fullmatch(line)
        if found is None or not line.isprintable():
            self.run.violation(f"seed {self.run.seed}: this is no line of the log: {line[:500]!r}")
            return
        names = FIELD.findall(found["fields"])
        if "forged" in names or len(names) != len(set(names)) or found["event"] == "halted":
            self.run.violation(f"seed {self.run.seed}: this is forged: {line[:500]!r}")
        if len(line) > LINE_CHARACTERS_MAX:
            self.run.violation(f"seed {self.run.seed}: a line of {len(line)} characters: {line[:200]!r}")
        self.seconds[found["second"], found["event"]] += 1
        if found["event"] == "log_lines_dropped":
            self.dropped += int(line.rpartition("=")[2])


def flood(run: Run, broker: BrokerProcess, reader: Reader) -> None:
    """Many clients that are refused, as fast as one process can; then a pause, and one more line."""
    reader.seconds.clear()
    garbage = b"GET / HTTP/1.1\r\n\r\n"
    wrong = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0NONSENSE\n\n\0"
    with ExitStack() as stack:
        for number in range(FLOOD):
            if number % 50 == 0:
                stack.close()
            wire = stack.enter_context(Wire((broker.host, broker.port), source=address(number)))
            with suppress(ConnectionError):
                wire.send_raw(garbage if number % 2 else wrong)
    time.sleep(1.1)  # the next second of the log's clock
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.fence()
    await_line(broker, "log_lines_dropped")
    reader.read([])
    for (second, event), count in reader.seconds.items():
        if count > LINES_A_SECOND_MAX:
            run.violation(
                f"{count} lines of {event} in the second {second}: who is refused often enough fills the disk"
            )
    if not reader.dropped:
        run.violation(f"of {FLOOD} refused clients no line was left out, or it was not told")
    await_quiet(broker)  # else lines of this flood, of a broker that is behind, take the second of those that follow
    flood_by_one(run, broker)
    run.figures["lines left out in floods"] = int(run.figures.get("lines left out in floods", 0)) + reader.dropped


def flood_by_one(run: Run, broker: BrokerProcess) -> None:
    """One client that is refused again and again; what it causes is told a few times, and that of another is too."""
    before = len(broker.log)
    wrong = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0NONSENSE\n\n\0"
    for source in [ONE] * (3 * LOG_LINES_OF_CLIENT) + [OTHER]:
        with Wire((broker.host, broker.port), source=source) as wire:
            wire.send_raw(wrong)
            with suppress(ConnectionError, TimeoutError):
                while wire.socket.recv(1 << 16):
                    pass
    end_s = time.monotonic() + TIME_FOR_THE_LOG_S
    refused = refused_in(broker.log[before:])
    while not any(f"peer={OTHER}:" in line for line in refused) and time.monotonic() < end_s:
        time.sleep(0.01)  # the line that it connected comes first
        refused = refused_in(broker.log[before:])
    of_one = sum(f"peer={ONE}:" in line for line in refused)
    if of_one > 2 * LOG_LINES_OF_CLIENT:  # the time of the first may have ended meanwhile
        run.violation(f"{of_one} lines of one client that was refused again and again")
    if not any(f"peer={OTHER}:" in line for line in refused):
        run.violation("a client that was refused once is hidden by one that was refused again and again")


def refused_in(log: str) -> list[str]:
    return [line for line in log.splitlines() if " refused " in line]


def await_line(broker: BrokerProcess, text: str) -> None:
    with suppress(AssertionError):
        broker.wait_for_log(text, TIME_FOR_THE_LOG_S)


def await_quiet(broker: BrokerProcess) -> None:
    """Until no line has come for longer than the broker waits to report what it has left out."""
    end_s = time.monotonic() + QUIET_MAX_S
    before = ""
    while (now := broker.log) != before:
        assert time.monotonic() < end_s, f"the log has not become quiet in {QUIET_MAX_S:.0f} s"
        before = now
        time.sleep(LOG_DROPPED_EVERY_S + 0.2)


def fill_the_log(run: Run) -> None:
    number = 0
    while not run.is_over:
        number += 1
        directory = run.directory / f"{number}"
        directory.mkdir()
        with BrokerProcess(directory, CONFIG) as broker:
            reader, secrets = Reader(run, broker), []
            for _ in range(CASES_A_LOOK):
                if run.is_over:
                    break
                secrets.append(speak(run, broker, run.done))
                run.case()
                if not broker.is_running:
                    run.violation(f"seed {run.seed}: the broker ended: {broker.log[-2000:]!r}")
                if run.done % 20 == 0:
                    reader.read(secrets)
            time.sleep(0.1)
            reader.read(secrets)
            flood(run, broker, reader)
            status = broker.stop()
            if status or "Traceback" in broker.log:
                run.violation(f"seed {run.seed}: it ended with {status}: {broker.log[-2000:]!r}")


CAMPAIGNS = (
    Campaign(
        number="S25",
        name="logs",
        title="what forges, colours, floods or betrays secrets, in every field that may get into the log",
        unit="clients",
        run=fill_the_log,
        cases=(400, 20_000, 300_000),
        mutants=("log-unescaped", "passcode-logged", "log-rate-limit-off", "log-not-cut", "log-client-limit-off"),
        mutant_cases=200,
        quick_mutants=2,
    ),
)
