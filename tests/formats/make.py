"""Has this build write two small stores, and notes beside them what must be found in them, for ever.

    python -m tests.formats.make FOLDER         FOLDER: tests/formats/NUMBER, which must not exist yet

What is expected is what was said to the broker, not what it read back; only message ids are asked of it. `clean` was
stopped with messages out, `unclean` was killed. The broker's wall clock was set to the year 2100 for it, so that no
dedup-id ends before that, and nothing delayed is due. A folder is never made again: it is what users of that format
have on their disks.
"""

import base64
import json
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.acceptance.conftest import stats
from tests.acceptance.wire import Wire
from tests.broker_process import SERVER, BrokerProcess

AHEAD_MS = 74 * 365 * 86_400_000
LATE_MS = 600_000
DUE_NEVER = str(10**14)
FIRST_WITH_LOG = 5  # a store of this format has a log beside its data.mdb


def program(ahead_ms: int) -> tuple[str, str]:
    """A broker whose wall clock is ahead."""
    return (
        "-c",
        f"""
import sys, time
from radiator.tools.cli import main
real_ns = time.time_ns
time.time_ns = lambda: real_ns() + {ahead_ms} * 10**6
sys.exit(main())
""",
    )


def clock_ms() -> int:
    """What that of the broker says which writes the stores."""
    return time.time_ns() // 10**6 + AHEAD_MS


CONFIG = """\
[create]
queues = true
topics = true

[queue."once"]
dedup_window_s = 31_536_000

[queue."fragile"]
max_redeliveries = 1
dead_letter = "dead"

[queue."keyed"]
partition_key = ["header:customer", "/customer"]

[fanout."events"]
children = ["events.a", "events.b"]

[log."trail"]
partitions = 2

[journal]
enabled = true
"""

BODIES = (b"", b"plain", "schön ✓".encode(), bytes(range(256)), b"\0\n\0", b"large " * 1_000)
HEADERS = {
    "1.2": {"colour": "blue:green", "lines": "one\ntwo\\three\rfour", "größe": "ö", "content-type": "text/x"},
    "1.1": {"colour": "blue:green", "lines": "one\ntwo\\three", "empty": ""},
    "1.0": {"colour": "blue:green \\n as it stands"},
}
EXPIRES = str(10**14)
NEWS = "/topic/news.#"
NEWS_QUEUE = "$durable/topic/news.#/reader"
DECLARATIONS = (
    {"do": "declare", "queue": "few", "max_messages": 1, "overflow": "reject"},
    {"do": "declare", "exchange": "routes", "type": "topic"},
    {"do": "bind", "exchange": "routes", "key": "a.*.#", "queue": "few"},
    {"do": "declare", "fanout": "pair", "children": ["pair.a", "pair.b"]},
)
KEYED = "keyed"  # the queue
EACH = 3  # so many messages of a key
TRAIL, TAKEN = "trail", "$checkout/taken/engine"  # logs
GROUP_AT = 2  # what group `g` has acked of partition 0 of the trail
PREPARED = ("later", "never")  # the second one is let go of
APP_VERSION = 7
DEDUP_IDS = 5
LEDGER = ("accepted", "stored", "acked", "dead_lettered", "accepted_bytes", "stored_bytes")

Entry = dict[str, Any]


def entry_of(body: bytes, headers: dict[str, str], count: int = 0) -> Entry:
    return {"body": base64.b64encode(body).decode(), "headers": headers, "redelivered": count > 0, "count": count}


class Author:
    """Says things to a broker, and notes what its queues must then hold."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.queues: dict[str, list[Entry]] = {}
        self.late: set[str] = set()  # queues that show nothing before LATE_MS have passed
        self.logs: dict[str, list[list[str]]] = {}  # bodies by partition
        self.keys: dict[str, list[list[Entry]]] = {"free": [], "late": []}  # of the queue with keys, each in order

    def wire(self, version: str = "1.2") -> Wire:
        wire = Wire((self.broker.host, self.broker.port), version)
        wire.connect()
        return wire

    def note(self, queue: str, body: bytes, headers: dict[str, str], count: int = 0) -> None:
        self.queues.setdefault(queue, []).append(entry_of(body, headers, count))

    def write(self) -> Wire:
        """The connection that it returns holds messages."""
        self.send_every_kind()
        self.send_copies()
        self.give_back()
        self.bury()
        self.send_once()
        self.delay()
        self.send_keyed()
        self.declare()
        self.append()
        self.check_out()
        self.prepare()
        return self.hold()

    def send_every_kind(self) -> None:
        for version, headers in HEADERS.items():
            with self.wire(version) as wire:
                for body in BODIES:
                    wire.send("/queue/orders", body, headers)
                    self.note("orders", body, headers)
                wire.send("/queue/orders", "late", {"expires": EXPIRES})
                self.note("orders", b"late", {"expires": EXPIRES})

    def send_copies(self) -> None:
        """Three by a fanout, one each by a transaction, and none by one that was aborted."""
        with self.wire() as wire:
            for number in range(3):
                wire.send("/fanout/events", f"event {number}", {"n": str(number)})
                for child in ("events.a", "events.b"):
                    self.note(child, b"event %d" % number, {"n": str(number)})
            for ending in ("COMMIT", "ABORT"):
                wire.ask("BEGIN", {"transaction": "t"})
                for queue in ("left", "right"):
                    wire.ask("SEND", {"destination": f"/queue/{queue}", "transaction": "t"}, ending.encode())
                wire.ask(ending, {"transaction": "t"})
            for queue in ("left", "right"):
                self.note(queue, b"COMMIT", {})

    def give_back(self) -> None:
        """A message comes back by every NACK, and once more as its connection is lost."""
        for nacks in range(4):
            name = f"counted.{nacks}"
            with self.wire() as wire:
                wire.send(f"/queue/{name}", name)
                wire.subscribe(f"/queue/{name}")
                for _ in range(nacks):
                    wire.nack(wire.message())
                wire.message()
            self.note(name, name.encode(), {}, count=nacks + 1)

    def bury(self) -> None:
        with self.wire() as wire:
            for reason in ("redeliveries", "rejected"):
                wire.send("/queue/fragile", reason, {"colour": "grey"})
                wire.subscribe("/queue/fragile")
                frame = wire.message()
                if reason == "rejected":
                    wire.nack(frame, {"requeue": "false"})
                else:
                    wire.nack(frame)
                    wire.nack(wire.message())
                wire.ask("UNSUBSCRIBE", {"id": "0"})
                grave = {
                    "dead-letter-reason": reason,
                    "original-destination": "/queue/fragile",
                    "original-message-id": frame["message-id"],
                }
                self.note("dead", reason.encode(), {"colour": "grey", **grave}, count=int(reason == "redeliveries"))
                self.queues["dead"][-1]["redelivered"] = False

    def send_once(self) -> None:
        """Five, of which three are acked, and the next one comes back: the ids of all five are remembered."""
        with self.wire() as wire:
            for number in range(DEDUP_IDS):
                wire.send("/queue/once", f"once {number}", {"dedup-id": f"id-{number}"})
            wire.subscribe("/queue/once")
            for _ in range(3):
                wire.ack(wire.message())
            wire.ask("UNSUBSCRIBE", {"id": "0"})
        for number in range(3, DEDUP_IDS):
            self.note("once", b"once %d" % number, {"dedup-id": f"id-{number}"}, count=int(number == 3))

    def delay(self) -> None:
        """Three are sent for later, one comes back for later, one is due at once, and one is never due."""
        self.late = {"late", "back-later"}
        with self.wire() as wire:
            due_ms = clock_ms() + LATE_MS
            for number in range(3):
                wire.send("/queue/late", f"late {number}", {"deliver-at": str(due_ms + number)})
                self.note("late", b"late %d" % number, {"deliver-at": str(due_ms + number)})
            wire.send("/queue/back-later", "again")
            wire.subscribe("/queue/back-later")
            wire.nack(wire.message(), {"delay": str(LATE_MS)})
            self.note("back-later", b"again", {}, count=1)
            wire.send("/queue/soon", "soon", {"delay": "1"})
            self.note("soon", b"soon", {"delay": "1"})
            wire.send("/queue/never", "never", {"deliver-at": DUE_NEVER})

    def send_keyed(self) -> None:
        """Of each key the first was out: that of `ann` is acked, that of `ben` holds its key until it is due, the one
        of a key in the body and those without a key come back. One is sent for later.
        """
        bodies: dict[str, list[str]] = {name: [f"{name} {nth}" for nth in range(EACH)] for name in ("ann", "ben")}
        in_body = [json.dumps({"customer": "cleo", "n": nth}) for nth in range(EACH)]
        keyless = [f"nobody's {nth}" for nth in range(EACH)]
        with self.wire() as wire:
            for nth in range(EACH):
                for name, own in bodies.items():
                    wire.send(f"/queue/{KEYED}", own[nth], {"customer": name})
                wire.send(f"/queue/{KEYED}", in_body[nth])
                wire.send(f"/queue/{KEYED}", keyless[nth])
            dan = {"customer": "dan", "deliver-at": str(clock_ms() + LATE_MS)}
            wire.send(f"/queue/{KEYED}", "dan 0", dan)
            wire.subscribe(f"/queue/{KEYED}", headers={"prefetch-count": "100"})
            out = {frame.body.decode(): frame for frame in wire.messages(EACH + 3)}
            wire.ask("UNSUBSCRIBE", {"id": "0"})  # or the next of a key came, when the one before was settled
            wire.ack(out["ann 0"])
            wire.nack(out["ben 0"], {"delay": str(LATE_MS)})
        keys = {name: [entry_of(body.encode(), {"customer": name}) for body in own] for name, own in bodies.items()}
        cleo = [entry_of(body.encode(), {}, int(nth == 0)) for nth, body in enumerate(in_body)]
        keys["ben"][0] |= {"redelivered": True, "count": 1}
        self.keys["free"] = [keys["ann"][1:], cleo, *([entry_of(body.encode(), {}, 1)] for body in keyless)]
        self.keys["late"] = [keys["ben"], [entry_of(b"dan 0", dan)]]

    def declare(self) -> None:
        """A queue, an exchange, a binding, a fanout, and a durable subscription that has collected something."""
        with self.wire() as wire:
            for request in DECLARATIONS:
                assert json.loads(wire.admin(json.dumps(request).encode()))["created"], request
            wire.subscribe(NEWS, id="reader", headers={"durable": "true", "auto-delete": "false"})
        with self.wire() as wire:
            for number in range(2):
                wire.send("/topic/news.a", f"news {number}")
                self.note(NEWS_QUEUE, b"news %d" % number, {})

    def append(self) -> None:
        """Records with keys in both partitions; a group has acked the first two of one of them."""
        bodies = self.logs[TRAIL] = [[], []]
        with self.wire() as wire:
            for number in range(40):
                key = f"key-{number % 7}"
                wire.send(f"/log/{TRAIL}", f"record {number}", {"partition-key": key, "n": str(number)})
                bodies[crc32(key.encode()) % 2].append(f"record {number}")
            group = {"group": "g", "from": "earliest", "partition": "0", "prefetch-count": str(GROUP_AT)}
            wire.subscribe(f"/log/{TRAIL}", headers=group)
            for frame in wire.messages(GROUP_AT):
                wire.ack(frame)

    def check_out(self) -> None:
        """Three of five are taken by a group, one of which it has acked: all three are there until retention."""
        with self.wire() as wire:
            for number in range(5):
                wire.send("/queue/taken", f"taken {number}")
            taken = {"do": "checkout", "queue": "taken", "group": "engine", "max_messages": 3}
            assert json.loads(wire.admin(json.dumps(taken).encode()))["log"] == TAKEN
            wire.admin(json.dumps({"do": "checkout-ack", "queue": "taken", "group": "engine", "before": 1}).encode())
        self.logs[TAKEN] = [["taken 1", "taken 2"]]
        for number in (3, 4):
            self.note("taken", b"taken %d" % number, {})

    def prepare(self) -> None:
        """Two transactions are prepared, and not committed; a third is, with its version."""
        with self.wire() as wire:
            for name in (*PREPARED, "now"):
                wire.ask("BEGIN", {"transaction": name})
                for number in range(2):
                    wire.ask("SEND", {"destination": "/queue/prepared", "transaction": name}, b"%d" % number)
                version = {"txn-app-id": "app", "txn-version": str(APP_VERSION)}
                wire.ask("COMMIT", {"transaction": name, **(version if name == "now" else {"prepare": name})})
        for number in range(2):
            self.note("prepared", b"%d" % number, {})

    def hold(self) -> Wire:
        """One of `orders` is acked, the next two are out."""
        wire = self.wire()
        wire.subscribe("/queue/orders", headers={"prefetch-count": "2"})
        wire.ack(wire.message())
        wire.messages(2)
        del self.queues["orders"][0]
        for entry in self.queues["orders"][:2]:
            entry["redelivered"] = True
        return wire


def peek(wire: Wire, queue: str) -> list[dict[str, Any]]:
    request = {"do": "peek", "queue": queue, "count": 1000}
    found: list[dict[str, Any]] = json.loads(wire.admin(json.dumps(request).encode()))["messages"]
    return found


def await_rest(broker: BrokerProcess) -> dict[str, Any]:
    """The numbers of all queues, once everything that was lost with a connection is back."""
    deadline_s = time.monotonic() + 10
    while True:
        numbers = stats(broker)["queues"]
        out = {name: queue["unacked"] for name, queue in numbers.items() if queue["unacked"]}
        if out == {"orders": 2} and numbers["soon"]["ready"]:
            return numbers
        assert time.monotonic() < deadline_s, f"still out: {out}"


def write_store(directory: Path, is_clean: bool, file: Path) -> dict[str, Any]:
    """Packs its data.mdb and its log into `file`; returns what must be found in them."""
    with BrokerProcess(directory, f"{SERVER}\n{CONFIG}", program(AHEAD_MS)) as broker:
        author = Author(broker)
        holding = author.write()
        numbers = await_rest(broker)
        with author.wire() as wire:
            for queue, entries in author.queues.items():
                shown = [{}] * len(entries) if queue in author.late else peek(wire, queue)
                for entry, of_entry in zip(entries, shown, strict=True):
                    entry["message-id"] = of_entry.get("message_id")
                    entry["redelivered"] = entry["redelivered"] or not is_clean
            ids = {shown["body"]: shown["message_id"] for shown in peek(wire, KEYED)}
            for entry in (entry for keys in author.keys.values() for entries in keys for entry in entries):
                entry["message-id"] = ids.get(base64.b64decode(entry["body"]).decode())  # none of what is delayed
                entry["redelivered"] = entry["redelivered"] or not is_clean
            wire.send("/queue/last", "behind all of it")  # its RECEIPT says that what was said before is on the disk
        author.note("last", b"behind all of it", {})
        author.queues["last"][0] |= {"redelivered": not is_clean, "message-id": None}
        if is_clean:
            assert broker.stop() == 0, broker.log
        else:
            broker.kill()
        holding.close()
        ledgers = {name: {key: queue[key] for key in LEDGER} for name, queue in numbers.items()}
        expected = {"queues": author.queues, "keys": author.keys, "ledgers": ledgers, "logs": author.logs}
        expected["written_ms"] = clock_ms()
        with tarfile.open(file, "w:xz", preset=9) as packed:
            for name in ("data.mdb", "wal"):
                packed.add(broker.data_dir / name, name)
        return expected


def main(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG)
    for name, is_clean in (("clean", True), ("unclean", False)):
        with tempfile.TemporaryDirectory() as directory:
            expected = write_store(Path(directory), is_clean, folder / f"{name}.tar.xz")
        (folder / f"{name}.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
