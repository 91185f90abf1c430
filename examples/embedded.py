"""The core and a store in one process, without a server, a socket or a thread: a message is sent, received and acked.

An example of how the parts fit together, and no promised API: python examples/embedded.py DIRECTORY
"""

import os
import sys
import time

from radiator.core.broker import Broker
from radiator.core.parts import Machine
from radiator.model.commands import CLIENT, Ack, Committed, Event, Open, Read, Send, Stop, Subscribe
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import GIB, Limits
from radiator.model.replies import Deliver, Reply
from radiator.model.settings import Declarations
from radiator.storage.contract import answer
from radiator.storage.lmdb.store import open_store

clock = {"now_s": time.monotonic(), "now_ms": time.time_ns() // 1_000_000}  # which stands still here
store = open_store(sys.argv[1], map_size=GIB)
machine = Machine(map_size=GIB, disk_free_min=0, entropy=os.urandom, version="embedded", **clock)
broker = Broker(Declarations(create_queues=True), Limits(), store.recovery, machine)


def happened(*events: Event) -> list[Reply]:
    """All that the broker replies to these. What it promises to keep is on the disk by then."""
    turn = broker.turn([*events], **clock)
    following: list[Event] = [answer(store, request) for request in turn.read_requests]
    if batch := broker.seal():
        store.commit(batch.writes)
        following.append(Committed(batch.number))
    return turn.replies + happened(*following) if following or turn.again else turn.replies


send = Send(1, "/queue/orders", b"colour:blue\n", ESCAPING_ALL, b"a chair", receipt=b"sent")
for reply in happened(Open(1), Read(1, [Subscribe(1, b"s", "/queue/orders", CLIENT), send])):
    print(reply)
    if isinstance(reply, Deliver):
        happened(Read(1, [Ack(1, reply.message_id, receipt=b"acked")]))
happened(Stop())
store.close()
