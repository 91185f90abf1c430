"""T8c: the headers of SEND, SUBSCRIBE, UNSUBSCRIBE, NACK and COMMIT that Radiator reads, with values of every kind.

Judged by a table that says docs/PROTOCOL.md once more: what a header may be, and what the command then says; anything
else is one Fail and no command. What is stored of a SEND are the sender's own lines, unchanged. It does not see what
the broker makes of the commands.
"""

import re
from dataclasses import dataclass
from random import Random

from radiator.model.commands import Command, Commit, Fail, Nack, Send, Subscribe, Unsubscribe
from radiator.model.limits import Limits
from radiator.protocols.stomp.session import StompSession
from tests.campaigns.campaign import Campaign, Run

YEAR_S = 31_536_000
TIME_MAX = 999_999_999_999_999
HOP = (b"receipt", b"on-refusal", b"transaction", b"destination", b"content-length", b"message-id", b"subscription",
       b"ack", b"timestamp", b"redelivered", b"redelivery-count", b"dead-letter-reason", b"original-destination",
       b"original-message-id", b"fanout-message-id", b"node-path")  # fmt: skip


@dataclass(frozen=True)
class Number:
    least: int
    most: int

    def read(self, value: bytes) -> int:
        if not re.fullmatch(rb"[0-9]{1,18}", value) or not self.least <= int(value) <= self.most:
            raise ValueError
        return int(value)


class Flag:
    def read(self, value: bytes) -> bool:
        return {b"true": True, b"false": False, b"True": True, b"False": False}[value]


class Address:
    def read(self, value: bytes) -> str:
        text = value.decode()
        text = text if text.startswith("/") else f"/queue/{text}"
        if re.search("[\x00-\x1f\x7f-\x9f]", text):
            raise ValueError
        match = re.fullmatch("/(queue|fanout|topic|temp-queue|reply-queue|exchange|log)/(.*)", text)
        if match is None:
            return text  # the broker says whether it leads anywhere
        name, key = match[2], ""
        if match[1] == "exchange":
            name, _, key = name.partition("/")
        if not 1 <= len(name.encode()) <= 255 or len(key.encode()) > 255:
            raise ValueError
        return text


class Mode:
    def read(self, value: bytes) -> str:
        return {b"auto": "auto", b"client": "client", b"client-individual": "client-individual"}[value]


class Name:
    def read(self, value: bytes) -> str:
        if not 1 <= len(value) <= 255:
            raise ValueError
        return value.decode()


@dataclass(frozen=True)
class Place:
    """In a log."""

    words: tuple[bytes, ...]

    def read(self, value: bytes) -> tuple[str, int]:
        if value in self.words:
            return value.decode(), 0
        kind, _, count = value.partition(b":")
        if kind not in (b"offset", b"time"):
            raise ValueError
        return kind.decode(), Number(0, TIME_MAX).read(count)


Reader = Number | Flag | Address | Mode | Name | Place
TIME, FLAG, ADDRESS, NAME = Number(0, TIME_MAX), Flag(), Address(), Name()
LOG_OPTIONS = (b"from", b"until", b"partition", b"group")
SECONDS = Number(1, YEAR_S)
# command -> header -> how it is read, and the field that says it
TABLE: dict[bytes, dict[bytes, tuple[Reader, str]]] = {
    b"SEND": {
        b"destination": (ADDRESS, "destination"),
        b"delay": (TIME, "delay_ms"),
        b"deliver-at": (TIME, "deliver_at_ms"),
        b"immediate": (FLAG, "immediate"),
        b"mandatory": (FLAG, "mandatory"),
        b"expiration": (TIME, "expiration_ms"),
        b"expires": (TIME, "expires_ms"),
    },
    b"SUBSCRIBE": {
        b"destination": (ADDRESS, "destination"),
        b"durable": (FLAG, "durable"),
        b"persistent": (FLAG, "persistent"),
        b"auto-delete": (FLAG, ""),
        b"ack-timeout-s": (SECONDS, "ack_timeout_s"),
        b"prefetch-count": (Number(1, 65535), "prefetch_count"),
        b"exclusive": (FLAG, "exclusive"),
        b"ack": (Mode(), "ack"),
        b"from": (Place((b"earliest", b"latest")), "start"),
        b"until": (Place((b"end",)), "until"),
        b"partition": (Number(0, 1023), "partition"),
        b"group": (NAME, "group"),
    },
    b"UNSUBSCRIBE": {
        b"durable": (FLAG, "durable"),
        b"persistent": (FLAG, "persistent"),
        b"auto-delete": (FLAG, ""),
    },
    b"NACK": {b"delay": (TIME, "delay_ms"), b"requeue": (FLAG, "requeue")},
    b"COMMIT": {
        b"prepare": (NAME, "prepare"),
        b"producer-id": (NAME, "app"),
        b"txn-app-id": (NAME, "app"),
        b"txn-version": (TIME, "version"),
    },
}
WORDS = {b"SEND": Send, b"SUBSCRIBE": Subscribe, b"UNSUBSCRIBE": Unsubscribe, b"NACK": Nack, b"COMMIT": Commit}
NUMBERS = (
    b"0", b"1", b"00", b"007", b"15", b"65535", b"65536", b"31536000", b"31536001", b"999999999999999",
    b"1000000000000000", b"99999999999999999999999", b"-1", b"-0", b"+1", b"1.0", b"1e3", b"0x5", b"1_0", b"", b" 5",
    b"5 ", b"\t5", b"five", b"\xd9\xa3", b"NaN", b"inf", b"1,0", b"true", b"\xc2\xb2",
)  # fmt: skip
FLAGS = (
    b"true",
    b"false",
    b"True",
    b"False",
    b"TRUE",
    b"1",
    b"0",
    b"",
    b" true",
    b"true ",
    b"yes",
    b"null",
    b"truefalse",
)
ADDRESSES = (
    "/exchange/x/k", "/exchange/x", "/exchange/x/", "/exchange//k", "/exchange/", "/exchange", "/exchange/x/a/b.c",
    "/exchange/" + "n" * 255 + "/k", "/exchange/" + "n" * 256 + "/k", "/exchange/x/" + "k" * 255,
    "/exchange/x/" + "k" * 256, "/exchange/é/ü", "/exchange/x/a\u0085b", "/exchange/x\u007f/a", "/exchanges/x/k",
    "/exchange/" + "é" * 127 + "/" + "é" * 128, "/queue/$durable/topic/a/b", "$outbox/a", "/queue/", "/topic/#", "a",
    "/exchange/x/#.*.#.*", "/Exchange/x/k", "/exchange/amq.topic/" + "." * 255, "", "/log/l", "/log/", "/log",
    "/log/$checkout/q/g", "/log/" + "n" * 255, "/log/" + "n" * 256, "/log/a\u0085b", "/Log/l", "/logs/l",
)  # fmt: skip
PLACES = (b"earliest", b"latest", b"end", b"offset:0", b"offset:", b"offset:-1", b"offset:1000000000000000", b"time:5",
          b"offset", b"time:1.5", b"Earliest", b"", b"offset:\xc2\xb2", b" earliest", b"offset: 5", b"begin",
          b"time:999999999999999", b"offset:00000000000000000001")  # fmt: skip
MODES = (b"auto", b"client", b"client-individual", b"", b"Client", b" auto", b"client-")
NAMES = (
    b"g",
    b"",
    b"x" * 255,
    b"x" * 256,
    "\u00e9".encode() * 127,
    "\u00e9".encode() * 128,
    b"a/b",
    b" ",
    b" g ",
    b"*",
)


def drawn_value(chance: Random, reader: Reader) -> bytes:
    """Mostly right ones, for else nothing would come through together."""
    is_wild = chance.random() < 0.2
    if isinstance(reader, Address):
        return (
            chance.choice(ADDRESSES).encode()
            if chance.random() < 0.5
            else chance.choice((b"/exchange/x/k.a", b"/log/l"))
        )
    if isinstance(reader, Place):
        return chance.choice(PLACES) if is_wild else chance.choice((*reader.words, b"offset:7", b"time:1700000000000"))
    if isinstance(reader, Mode):
        return chance.choice(MODES if is_wild else MODES[1:3])
    if isinstance(reader, Name):
        return chance.choice(NAMES if is_wild else NAMES[:1])
    if isinstance(reader, Flag):
        return chance.choice(FLAGS if chance.random() < 0.2 else FLAGS[:2])
    return chance.choice(NUMBERS) if chance.random() < 0.3 else b"%d" % chance.randrange(1, 60_000)


def drawn_frame(chance: Random, version: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """A command, and its headers; now and then one of them twice."""
    command = chance.choice([*TABLE] if version else [name for name in TABLE if name != b"NACK"])
    pairs = [
        (name, drawn_value(chance, reader))
        for name, (reader, _) in TABLE[command].items()
        if name == b"destination" or chance.random() < 0.3
    ]
    for _ in range(chance.choice((0, 0, 1))):
        if pairs:
            name, _ = chance.choice(pairs)
            pairs.append((name, drawn_value(chance, TABLE[command][name][0])))
    if command != b"SEND":
        pairs.append((b"id", b"1"))
        if command == b"COMMIT":
            pairs.append((b"transaction", b"t"))
        if command == b"NACK":
            pairs += [(b"message-id", b"m"), (b"subscription", b"s")]
    elif chance.random() < 0.3:
        pairs.append((b"x-own", b"value"))
    chance.shuffle(pairs)
    return command, pairs


def expected(command: bytes, pairs: list[tuple[bytes, bytes]], version: int) -> dict[str, object] | None:
    """The fields that the command must have; None: it must be refused."""
    first: dict[bytes, bytes] = {}
    for name, value in pairs:
        first.setdefault(name, value.strip(b" ") if version == 0 else value)
    found: dict[str, object] = {}
    try:
        for name, (reader, field) in TABLE[command].items():
            if name in first:
                found[field] = reader.read(first[name])
            elif isinstance(reader, Flag):
                found[field] = field == "requeue"
            elif isinstance(reader, Mode):
                found[field] = "auto"
            elif field == "version":
                found[field] = 0
            elif field != "destination":
                found.setdefault(field, None)  # of two names for one thing the other may be there
    except (ValueError, KeyError):
        return None
    if "persistent" in found:
        # two words for the same; on a queue they say nothing
        asks = bool(found.pop("persistent")) | bool(found["durable"])
        contradicts = asks and first.get(b"auto-delete", b"").lower() == b"true"
        kept = str(found.get("destination", "/topic/")).startswith(("/topic/", "/exchange/"))
        found["durable"] = asks and kept
    else:
        contradicts = False
    contradicts = contradicts or (found.get("delay_ms") is not None and found.get("requeue") is False)
    contradicts = contradicts or contradicts_itself(first, found)
    found.pop("", None)
    return None if contradicts else found


def contradicts_itself(first: dict[bytes, bytes], found: dict[str, object]) -> bool:
    """Of logs and of prepared transactions: what does not go together, each by itself being right."""
    if any(name in first for name in LOG_OPTIONS) and not str(found.get("destination")).startswith("/log/"):
        return True
    if found.get("group") is not None and found["ack"] == "auto":
        return True
    producers = {first[name] for name in (b"producer-id", b"txn-app-id") if name in first}
    is_committed = bool(producers)
    return len(producers) > 1 or is_committed != (b"txn-version" in first) or (is_committed and b"prepare" in first)


def read(version: int, command: bytes, pairs: list[tuple[bytes, bytes]]) -> list[Command]:
    session = StompSession(1, "s", Limits())
    session.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % version)
    lines = [command, *(name + b":" + value for name, value in pairs)]
    return session.receive(b"\n".join(lines) + b"\n\n\0")


def judge(run: Run, version: int, command: bytes, pairs: list[tuple[bytes, bytes]]) -> bool:
    """Whether it was taken."""
    case = f"{command.decode()} {pairs} of STOMP 1.{version}"
    words = read(version, command, pairs)
    fields = expected(command, pairs, version)
    if len(words) != 1 or not isinstance(words[0], Fail if fields is None else WORDS[command]):
        run.violation(f"{case} became {words}; it should have been {'refused' if fields is None else fields}")
        return False
    word = words[0]
    if isinstance(word, Fail) or fields is None:
        return False
    wrong = {name: getattr(word, name) for name, value in fields.items() if getattr(word, name) != value}
    if wrong:
        run.violation(f"{case} says {wrong}, instead of {fields}")
    if isinstance(word, Send):
        kept = b"".join(name + b":" + value + b"\n" for name, value in pairs if name not in HOP)
        if word.headers != kept:
            run.violation(f"{case} is stored as {word.headers!r}, instead of {kept!r}")
    return True


def read_headers(run: Run) -> None:
    taken = 0
    while not run.is_over:
        version = run.chance.randrange(3)
        taken += judge(run, version, *drawn_frame(run.chance, version))
        run.case()
    run.figures["taken"] = taken
    assert run.is_hunt or taken > run.done // 5, f"only {taken} were taken"


CAMPAIGNS = (
    Campaign(
        number="T8c",
        name="headers",
        title="headers of SEND, SUBSCRIBE, UNSUBSCRIBE, NACK and COMMIT with values of every kind",
        unit="frames",
        run=read_headers,
        cases=(30_000, 1_000_000, 10_000_000),
        mutants=("durable-may-delete-itself", "delay-without-bound", "routing-key-without-bound"),
        mutant_cases=30_000,
        quick_mutants=3,
    ),
)
