"""The `radiator` command with its core watched: a program for BrokerProcess, of tests/campaigns/switches.py.

Each switch of greenlets inside the core, and each entry into the broker while it is inside, is told on stderr by a line
WATCHED; at the end one more says how much was seen. It watches the thread of the hub, where all of the core runs.
"""

import atexit
import functools
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import greenlet

from radiator.core.broker import Broker
from radiator.protocols.stomp.session import StompSession
from radiator.server.outbox import OutgoingBuffer
from radiator.tools.cli import main

CORE = {
    Broker: ("turn", "seal"),
    StompSession: ("receive", "encode", "take_outgoing", "heart_beat"),
    OutgoingBuffer: ("append", "next", "took", "clear"),
}

inside: list[str] = []
seen = {"calls": 0, "switches": 0}


def say(line: str) -> None:
    os.write(2, f"WATCHED {line}\n".encode())


def guarded(kind: type, name: str) -> Callable[..., Any]:
    method = getattr(kind, name)
    label = f"{kind.__name__}.{name}"

    @functools.wraps(method)
    def watched(*arguments: object, **more: object) -> object:
        if threading.current_thread() is not threading.main_thread():
            say(f"{label} was called by another thread")
        if inside:
            say(f"{label} was entered from within {inside[-1]}")
        seen["calls"] += 1
        inside.append(label)
        try:
            return method(*arguments, **more)
        finally:
            inside.pop()

    return watched


def switched(event: str, greenlets: tuple[greenlet.greenlet, greenlet.greenlet]) -> None:
    """Called by greenlet right after each switch, in the greenlet that goes on."""
    seen["switches"] += 1
    if inside:
        stack = traceback.extract_stack(greenlets[0].gr_frame)[-3:]
        where = " < ".join(f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(stack))
        say(f"a {event} inside {inside[-1]}: {where}")


for core_class, methods in CORE.items():
    for method_name in methods:
        setattr(core_class, method_name, guarded(core_class, method_name))
greenlet.settrace(switched)
atexit.register(lambda: say(f"the end: {seen['calls']} calls, {seen['switches']} switches"))

if __name__ == "__main__":
    sys.exit(main())
