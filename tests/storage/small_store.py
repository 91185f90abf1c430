"""A small store with something in every table. formats/ holds a backup of it for each format that was ever released.

Those are never made again, only added to: `python -m tests.storage.small_store FILE` writes one of the present format.
"""

import sys
import tempfile
from pathlib import Path

from radiator.model.writes import Bind, Count, Doubt, KeepDeclared, KeepPeer, KeepSettings, Remember, Remove
from radiator.storage.backup import backup
from tests.storage.scribe import DUE_MS, Scribe, hash_of, write_logs

LOG = 5
KEYED = 7
PEER = ("node.b", "0123456789abcdef", 9, 6, 8, 7, 12)
BINDINGS = [Bind("", "a.#", 4), Bind("amq.direct", "orders", 1), Bind("x", "", 1), Bind("x", "ä.*", 2)]


def write_small_backup(file: Path, has_keys: bool = True) -> None:
    """has_keys: of messages, which came last."""
    with tempfile.TemporaryDirectory() as path:
        scribe = Scribe(Path(path) / "data")
        orders, mail, gone = (scribe.declare(name) for name in ("orders", "mail.ä", "gone"))
        puts = [scribe.put(orders, b"order %d" % number) for number in range(4)]
        scribe.commit(*puts, scribe.put(mail, b"\0" * 5_000, expires_ms=1_900_000_000_000))
        scribe.commit(scribe.remove(orders, puts[0].position))
        scribe.store.commit([Count(orders, puts[1].position, 3), Count(orders, puts[2].position, 0)])
        scribe.store.commit([Remember(orders, b"order-1", 1_900_000_000_000)])
        scribe.store.commit(
            [KeepPeer(*PEER), *(Doubt("node.b", 5 + nth, orders, puts[nth].position) for nth in (2, 3))]
        )
        scribe.fill(gone, 2)
        late = scribe.declare("$durable/topic/a.#/ä")
        delays = [
            scribe.delay(late, DUE_MS + nth, b"late %d" % nth, 1_900_000_000_000 * (nth == 1)) for nth in range(4)
        ]
        scribe.commit(*delays, scribe.delay(gone, DUE_MS, b"gone"))
        scribe.commit(*scribe.wake(late, delays[0].position), *scribe.wake(late, delays[2].position))
        back = Remove(late, delays[2].position)
        scribe.commit(back, scribe.delay_again(late, back.position, DUE_MS - 1, redeliveries=4))
        scribe.store.commit(
            [KeepSettings(orders, '{"max_messages": 9}'), KeepDeclared("fanout", "f", '{"children": ["orders"]}')]
        )
        scribe.store.commit([KeepDeclared("exchange", "x", '{"type": "topic"}'), *BINDINGS])
        scribe.retire(gone, "gone")
        write_logs(scribe.store, LOG)
        if has_keys:
            write_keys(scribe)
        scribe.store.close()
        backup(Path(path) / "data", file, compact=True)


def write_keys(scribe: Scribe) -> None:
    """Of two keys two messages each are left, of which one is delayed and holds its key; one has none."""
    keyed = scribe.declare("keyed", KEYED)
    puts = [scribe.put(keyed, b"keyed %d" % number, key=hash_of(number % 2)) for number in range(5)]
    scribe.commit(*puts, scribe.put(keyed, b"without a key"))
    scribe.commit(scribe.remove(keyed, puts[0].position))
    held = Remove(keyed, puts[3].position, hash_of(1))
    scribe.commit(held, scribe.delay_again(keyed, held.position, DUE_MS, redeliveries=1, held=hash_of(1)))


if __name__ == "__main__":
    write_small_backup(Path(sys.argv[1]))
