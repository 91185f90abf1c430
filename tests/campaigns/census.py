"""The `radiator` command that counts itself when told to: a program for BrokerProcess, of tests/campaigns/growth.py.

At SIGUSR2 it writes census.json into its directory: how many objects of each class of the broker's there are, how much
its containers hold, by the attribute that they stand in, what its event loop waits for, and what its own numbers say.
Garbage in circles, which the broker itself collects seldom, is collected first, and what is free in the heap is given
back: the broker keeps as much as its largest batch so far has taken, which is no leak and comes in jumps.
"""

import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
from collections import Counter, deque
from pathlib import Path
from types import FrameType

import gevent

from radiator.core import stats
from radiator.core.broker import Broker
from radiator.protocols.administration import JSON
from radiator.server import last_lines
from radiator.tools.cli import main

FILE = Path("census.json")
KEPT_LINES = 8  # of the log: what is kept up to a bound is full before anything is judged, and grows no more


def attributes(found: object) -> list[tuple[str, object]]:
    names = [name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())]
    return [(name, getattr(found, name, None)) for name in {*names, *getattr(found, "__dict__", ())}]


def own_numbers(broker: Broker) -> Counter[str]:
    answer = json.loads(JSON.whole(stats.of(broker.parts)))
    names = ("connections", "subscriptions", "transactions", "parked")
    return Counter({name: answer[name] for name in names}) + Counter({
        f"{name} of the queues": sum(queue[name] for queue in answer["queues"].values())
        for name in ("unacked", "storing", "consumers", "blocked")
    })  # fmt: skip


def census() -> Counter[str]:
    gc.collect()
    counted: Counter[str] = Counter()
    gc.unfreeze()  # else what was there at the start is not shown
    for found in gc.get_objects():
        kind = type(found)
        if not str(kind.__module__).startswith(("radiator", "gevent")):
            continue
        counted[kind.__qualname__] += 1
        if isinstance(found, Broker):
            counted += own_numbers(found)
        if str(kind.__module__).startswith("radiator"):
            for name, value in attributes(found):
                if isinstance(value, (dict, list, set, deque)):
                    counted[f"{kind.__qualname__}.{name}"] += len(value)
    counted["watchers of the event loop"] = gevent.get_hub().loop.activecnt
    return counted


def write(number: int, frame: FrameType | None) -> None:
    new = FILE.with_suffix(".new")
    new.write_text(json.dumps(census()))
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    os.replace(new, FILE)


if __name__ == "__main__":
    last_lines.LOG_KEPT_LINES = KEPT_LINES
    signal.signal(signal.SIGUSR2, write)
    sys.exit(main())
