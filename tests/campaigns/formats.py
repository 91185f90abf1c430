"""T17: stores that released formats have written open, give all that is in them, and are empty and sound afterwards.

tests/formats holds them, with lists of what was said to the brokers that wrote them. Each is drained, also over a kill
in the middle and through a backup; of a key in order, one at a time, and what holds its key until it is due holds it
after a start, too. A format that is not known is refused, and nothing of it is changed.

It cannot see what no such store holds; make.py there says what they hold.
"""

import base64
import hashlib
import json
import lzma
import shutil
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radiator.model.errors import EXIT_REFUSED, StoreError
from radiator.storage.backup import backup, restore
from radiator.storage.check import check
from radiator.storage.codec import records
from radiator.storage.codec.tables import FORMAT, META
from radiator.storage.lmdb.datafile import open_for_writing
from tests.acceptance.conftest import adds_up, stats
from tests.acceptance.wire import Frame, Gone, Wire
from tests.broker_process import SERVER, BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.formats.make import (
    APP_VERSION,
    FIRST_WITH_LOG,
    GROUP_AT,
    KEYED,
    LATE_MS,
    NEWS,
    NEWS_QUEUE,
    PREPARED,
    program,
)

FORMATS = Path(__file__).resolve().parent.parent / "formats"
KINDS = ("clean", "unclean")
OF_THE_BROKER = {
    "message-id", "destination", "subscription", "ack", "content-length", "timestamp", "redelivered",
    "redelivery-count", "fanout-message-id",
}  # fmt: skip
READ = f"1 to {records.FORMAT}"
MAP_BYTES = 64 << 20

Expected = dict[str, Any]


def numbers() -> list[int]:
    return sorted(int(folder.name) for folder in FORMATS.iterdir() if folder.name.isdigit())


@dataclass(slots=True)
class Old:
    """An old store, unpacked for a broker of today, and what must be found in it."""

    format: int
    kind: str
    broker: BrokerProcess
    expected: Expected

    @property
    def file(self) -> Path:
        return self.broker.data_dir / "data.mdb"

    @property
    def keys(self) -> list[list[Expected]]:
        """What the queue with keys holds, by key and in order; before format 6 there was none."""
        return [entries for keys in self.expected.get("keys", {}).values() for entries in keys]

    def expect_marked(self) -> None:
        """Every message counts as one that was out, and the ledgers have moved on."""
        self.expected["ledgers"] = {}
        for entries in [*self.expected["queues"].values(), *self.keys]:
            for entry in entries:
                entry["redelivered"] = True
                entry["count"] = None

    def set_clock(self, after_ms: int) -> None:
        """Of its broker's next start: so long after it was written. Before format 3 nothing was due at any time."""
        if "written_ms" in self.expected:
            self.broker.program = program(self.expected["written_ms"] + after_ms - time.time_ns() // 10**6)

    def __str__(self) -> str:
        return f"the {self.kind} store of format {self.format}"


def unpack(number: int, kind: str, directory: Path) -> Old:
    """From format 3 on its broker's clock stands where all is due that shall ever be."""
    folder = FORMATS / str(number)
    expected = json.loads((folder / f"{kind}.json").read_text())
    broker = BrokerProcess(directory, f"{SERVER}\n{(folder / 'config.toml').read_text()}")
    old = Old(number, kind, broker, expected)
    old.set_clock(2 * LATE_MS)
    broker.data_dir.mkdir()
    if number < FIRST_WITH_LOG:
        old.file.write_bytes(lzma.decompress((folder / f"{kind}.mdb.xz").read_bytes()))
    else:
        with tarfile.open(folder / f"{kind}.tar.xz") as packed:
            packed.extractall(broker.data_dir)
    return old


# ---- what is done with one ------------------------------------------------------------------------------------------


def drained(old: Old, run: Run) -> None:
    drain(old, run, old.broker)


def drained_over_a_kill(old: Old, run: Run) -> None:
    """What was acked before the kill does not come again; all that is left comes marked."""
    broker = old.broker.start()
    with connected(broker) as wire:
        for queue, entries in old.expected["queues"].items():
            acked = run.chance.randint(0, len(entries))
            for frame in taken(wire, queue, entries)[:acked]:
                wire.ack(frame)
            del entries[:acked]
        for frame, entries in next(rounds(wire, old.keys), []):
            if run.chance.random() < 0.5:
                wire.ack(frame)
                del entries[0]
    broker.kill()
    old.expect_marked()
    drain(old, run, broker)


def drained_once_all_is_due(old: Old, run: Run) -> None:
    """Before, what holds its key holds it, and all other keys have what is theirs."""
    old.set_clock(0)
    broker = old.broker.start()
    if old.keys:
        with connected(broker) as wire:
            drain_keys(old, run, wire, old.expected["keys"].pop("free"))
    broker.kill()
    old.set_clock(2 * LATE_MS)
    old.expect_marked()
    drain(old, run, broker)


def drained_from_a_backup(old: Old, run: Run) -> None:
    """A restored store has a new id, and its messages count as from before an unclean stop."""
    copy = old.broker.directory / "backup"
    backup(old.broker.data_dir, copy, compact=run.chance.random() < 0.5)
    shutil.rmtree(old.broker.data_dir)
    for finding in restore(copy, old.broker.data_dir).findings:
        run.violation(f"{old}, restored from a backup: {finding}")
    for entry in (entry for entries in [*old.expected["queues"].values(), *old.keys] for entry in entries):
        entry["redelivered"] = True
        entry["message-id"] = None
    drain(old, run, old.broker)


def refused_if_newer(old: Old, run: Run) -> None:
    for number in (records.FORMAT + 1, run.chance.choice((records.FORMAT + 2, 0, 255, 1 << 32, (1 << 64) - 1))):
        refused_if_of(old, run, number)


def refused_if_of(old: Old, run: Run, number: int) -> None:
    with open_for_writing(old.broker.data_dir, MAP_BYTES) as env:
        table = env.open_db(META, create=False)
        with env.begin(write=True) as txn:
            txn.put(FORMAT, records.encode_number(FORMAT, number), db=table)
    before = hashlib.sha256(old.file.read_bytes()).digest()
    for way, refusal in (("serve", served), ("backup", backed_up), ("check", checked)):
        sentence = refusal(old)
        if f"has format {number}, this Radiator reads formats {READ}:" not in sentence:
            run.violation(f"{old}, made to be of format {number}: {way} does not refuse it: {sentence}")
        if hashlib.sha256(old.file.read_bytes()).digest() != before:
            run.violation(f"{old}, made to be of format {number}: {way} has changed it")


def served(old: Old) -> str:
    try:
        old.broker.start()
    except AssertionError:
        status = old.broker.wait(10)
        return old.broker.log if status == EXIT_REFUSED else f"it ended with {status}: {old.broker.log}"
    return f"it serves it: {old.broker.log}"


def backed_up(old: Old) -> str:
    try:
        backup(old.broker.data_dir, old.broker.directory / "backup")
    except StoreError as refused:
        return str(refused)
    return "it was copied"


def checked(old: Old) -> str:
    return " ".join(check(old.broker.data_dir).findings)


WAYS: tuple[Callable[[Old, Run], None], ...] = (
    drained,
    refused_if_newer,
    drained_over_a_kill,
    drained_from_a_backup,
    drained_once_all_is_due,
)


# ---- the judgement --------------------------------------------------------------------------------------------------


def connected(broker: BrokerProcess) -> Wire:
    wire = Wire((broker.host, broker.port))
    wire.connect()
    return wire


def taken(wire: Wire, queue: str, entries: list[Expected]) -> list[Frame]:
    """All of a queue; AssertionError where there is less or more."""
    if not entries:
        return []
    window = {"prefetch-count": str(len(entries) + 1)}
    if queue == NEWS_QUEUE:
        wire.subscribe(NEWS, id="reader", headers={**window, "durable": "true", "auto-delete": "false"})
    else:
        wire.subscribe(f"/queue/{queue}", id=queue, headers=window)
    try:
        frames = wire.messages(len(entries))
    except TimeoutError:
        raise AssertionError(f"/queue/{queue} does not give the {len(entries)} messages that it should") from None
    assert wire.is_silent(), f"/queue/{queue} gives more than it should: {wire.early}"
    return frames


def rounds(wire: Wire, keys: list[list[Expected]]) -> Iterator[list[tuple[Frame, list[Expected]]]]:
    """The message that each key has next, with what is left of the key; AssertionError where others come. Before the
    next round these have to be acked and taken out.
    """
    if keys:
        wire.subscribe(f"/queue/{KEYED}", id=KEYED, headers={"prefetch-count": "100"})
    while left := {base64.b64decode(entries[0]["body"]): entries for entries in keys if entries}:
        try:
            frames = wire.messages(len(left))
        except TimeoutError:
            raise AssertionError(f"/queue/{KEYED} gives fewer than the next of each key: {[*left]}") from None
        assert wire.is_silent() and {frame.body for frame in frames} == {*left}, (
            f"/queue/{KEYED} gives {frames} and {wire.early}, not the next of each key: {[*left]}"
        )
        yield [(frame, left[frame.body]) for frame in frames]
    assert wire.is_silent(), f"/queue/{KEYED} gives more than it should: {wire.early}"


def drain_keys(old: Old, run: Run, wire: Wire, keys: list[list[Expected]]) -> None:
    for of_each in rounds(wire, keys):
        for frame, entries in of_each:
            for fault in faults(frame, entries.pop(0)):
                run.violation(f"{old}: /queue/{KEYED}: {fault}: {frame}")
            wire.ack(frame)


def drain(old: Old, run: Run, broker: BrokerProcess) -> None:
    for finding in check(broker.data_dir).findings:
        run.violation(f"{old}: `radiator check` finds: {finding}")
    broker.start()
    for name, ledger in old.expected["ledgers"].items():
        found = stats(broker)["queues"].get(name, {})
        if any(found.get(key) != value for key, value in ledger.items()):
            run.violation(f"{old}: the ledger of {name} is {found}, and was {ledger}")
    with connected(broker) as wire:
        for queue, entries in old.expected["queues"].items():
            for frame, entry in zip(taken(wire, queue, entries), entries, strict=True):
                for fault in faults(frame, entry):
                    run.violation(f"{old}: /queue/{queue}: {fault}: {frame}")
                wire.ack(frame)
        drain_keys(old, run, wire, old.keys)
        for number in range(5):
            wire.send("/queue/once", "again", {"dedup-id": f"id-{number}"})
        wire.send("/queue/once", "new", {"dedup-id": "id-new"})
    expected = {"once": 1}
    if old.format >= 3:
        expected |= {"never": 1, "few": 1, "pair.a": 1, "pair.b": 1, NEWS_QUEUE: 1}
        use_what_was_declared(broker)
    if old.format >= 4:
        expected |= {"prepared": 2}
        for fault in faults_of_logs(broker, old.expected["logs"]):
            run.violation(f"{old}: {fault}")
        commit_what_was_prepared(broker)
    left = {name: queue["stored"] for name, queue in stats(broker)["queues"].items() if queue["stored"]}
    if left != expected or not all(adds_up(queue) for queue in stats(broker)["queues"].values()):
        run.violation(f"{old}: after the drain, and new SENDs, it stores {left}, and should {expected}")
    if broker.stop() != 0 or "Traceback" in broker.log:
        run.violation(f"{old}: no clean stop: {broker.log[-2000:]}")
    for finding in check(broker.data_dir).findings:
        run.violation(f"{old}: after the drain `radiator check` finds: {finding}")


def use_what_was_declared(broker: BrokerProcess) -> None:
    """A binding, two fanout children, a durable subscription; and settings, which refuse a second message."""
    with connected(broker) as wire:
        for destination in ("/exchange/routes/a.b", "/fanout/pair", "/topic/news.b"):
            wire.send(destination, "new", {"mandatory": "true"})
        wire.begin_ask("SEND", {"destination": "/exchange/routes/a.b.c"})
        assert wire.refusal()["code"] == "queue-full"


def faults_of_logs(broker: BrokerProcess, logs: dict[str, list[list[str]]]) -> list[str]:
    """Each record, the group's position, and the journal, whose events go on from one run to the next."""
    wrong = []
    for name, partitions in logs.items():
        for partition, bodies in enumerate(partitions):
            found = [frame.body.decode() for frame in read_log(broker, name, partition)]
            if found != bodies:
                wrong.append(f"partition {partition} of /log/{name} has {found}, and should {bodies}")
    with connected(broker) as wire:
        answer = json.loads(wire.admin(b'{"do": "position", "log": "trail", "group": "g"}'))
    if answer["offsets"] != [GROUP_AT, 0]:
        wrong.append(f"the position of the group is {answer}")
    events = [json.loads(frame.body) for frame in read_log(broker, "journal", 0)]
    if [event["seq"] for event in events] != [*range(len(events))]:
        wrong.append(f"the journal has a gap: {[event['seq'] for event in events]}")
    starts = [event["reason"] for event in events if event["event"] == "started" and not event["queue"]]
    if len(starts) < 2:
        wrong.append(f"the journal has the starts {starts}")
    return wrong


def read_log(broker: BrokerProcess, name: str, partition: int) -> list[Frame]:
    frames = []
    with connected(broker) as wire:
        where = {"from": "earliest", "until": "end", "partition": str(partition), "prefetch-count": "60000"}
        wire.subscribe(f"/log/{name}", headers=where)
        while (frame := wire.message()).get("end") is None:
            frames.append(frame)
    return frames


def commit_what_was_prepared(broker: BrokerProcess) -> None:
    """The first comes into its queue; the other one is let go of, for its version was committed before."""
    with connected(broker) as wire:
        for name, version in zip(PREPARED, (APP_VERSION + 1, APP_VERSION), strict=True):
            wire.ask("COMMIT", {"transaction": name, "txn-app-id": "app", "txn-version": str(version)})
        deadline_s = time.monotonic() + 10
        while json.loads(wire.admin(b'{"do": "prepared"}'))["prepared"]:
            assert time.monotonic() < deadline_s, "a prepared transaction is not over"
            time.sleep(0.02)


def faults(frame: Frame, entry: Expected) -> list[str]:
    wrong = []
    if frame.body != base64.b64decode(entry["body"]):
        wrong.append(f"the body was {entry['body'][:100]!r}")
    own = Counter(pair for pair in frame.pairs if pair[0] not in OF_THE_BROKER)
    if own != Counter(entry["headers"].items()):
        wrong.append(f"the headers were {entry['headers']}")
    if (frame["redelivered"] == "true") != entry["redelivered"]:
        wrong.append(f"redelivered was {entry['redelivered']}")
    if entry["count"] is not None and int(frame.get("redelivery-count") or 0) != entry["count"]:
        wrong.append(f"the redelivery count was {entry['count']}")
    if entry["message-id"] is not None and frame["message-id"] != entry["message-id"]:
        wrong.append(f"the message id was {entry['message-id']}")
    return wrong


def open_old_stores(run: Run) -> None:
    while not run.is_over:
        for way in WAYS:
            for number in numbers():
                for kind in KINDS:
                    directory = run.directory / f"store-{run.done}"
                    directory.mkdir()
                    old = unpack(number, kind, directory)
                    try:
                        way(old, run)
                    except Gone as gone:
                        run.violation(f"{old}: {gone}: {old.broker.log[-2000:]}")
                    finally:
                        old.broker.kill()
                        shutil.rmtree(directory)
                    run.case()
                    if run.is_over:
                        return


ALL = len(WAYS) * len(KINDS) * len(numbers())

CAMPAIGNS = (
    Campaign(
        number="T17",
        name="old-formats",
        title="opens and drains the stores that released formats have written, and refuses unknown ones",
        unit="old stores",
        run=open_old_stores,
        cases=(ALL, 20 * ALL, 100 * ALL),
        mutants=(
            "counts-changed-silently",
            "newer-version-accepted",
            "earlier-ledgers-refused",
            "bindings-not-recovered",
            "delayed-counts-lost",
            "held-key-forgotten-at-a-restart",
        ),
        mutant_cases=ALL,
        quick_mutants=2,
    ),
)
