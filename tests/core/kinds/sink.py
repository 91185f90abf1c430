"""`/sink/NAME`, a tenth kind of address that no broker has: what is sent to it is counted and dropped. Its setting is
`max_bytes`: a larger message is refused. As a program it is the `radiator` command, with sinks.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest import MonkeyPatch

from radiator.core.kinds import table
from radiator.core.kinds.kind import Asked, Kind
from radiator.core.ports import Background, TopologyPort
from radiator.core.producer import Producer
from radiator.core.routing.incoming import Incoming
from radiator.core.routing.plan import Plan
from radiator.core.turn import WRITE_COST_BYTES
from radiator.model import addresses, checks, validation
from radiator.model.addresses import AddressKind
from radiator.model.administration import DeclareDestination, DeleteDestination
from radiator.model.answers import Declared, Deleted
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from radiator.model.recovery import Recovery
from radiator.model.writes import DropDeclared, KeepDeclared
from radiator.tools.cli import main

SINK = "sink"
CHECKS = {"max_bytes": checks.size(1, 1024)}


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, whole. Raises Refusal."""
    try:
        return {"max_bytes": 1024} | {key: CHECKS[key](value) for key, value in given.items()}
    except (KeyError, ValueError) as error:
        raise validation.mistake("max_bytes", str(error)) from error


@dataclass(slots=True)
class Sink:
    """last_s: what came in the last second."""

    max_bytes: int
    accepted: int = 0
    before: int = 0
    last_s: int = 0


@dataclass(frozen=True, slots=True)
class SinkNumbers:
    accepted: int
    last_s: int
    max_bytes: int


class SinkKind(Kind):
    """See above."""

    name = SINK

    __slots__ = ("sinks",)

    def __init__(self, incoming: Incoming) -> None:
        super().__init__(incoming)
        self.sinks: dict[str, Sink] = {}

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        sink = self.get(name)
        if len(command.body) > sink.max_bytes:
            raise Refusal("too-large", f"/sink/{name} takes at most {sink.max_bytes} bytes.")
        plan.counted.append(sink)

    def get(self, name: str) -> Sink:
        if name not in self.sinks:
            raise Refusal("no-such-destination", f"There is no /sink/{name}: declare it first.")
        return self.sinks[name]

    @property
    def count(self) -> int:
        return len(self.sinks)

    def names(self) -> Iterable[str]:
        return self.sinks

    def numbers(self, port: TopologyPort, name: str) -> SinkNumbers | None:
        sink = self.sinks.get(name)
        return None if sink is None else SinkNumbers(sink.accepted, sink.last_s, sink.max_bytes)

    def recover(self, recovery: Recovery) -> None:
        for row in recovery.declared:
            if row.kind == SINK:
                self.sinks[row.name] = Sink(**json.loads(row.text))

    def tick(self, background: Background) -> None:
        for sink in self.sinks.values():
            sink.last_s, sink.before = sink.accepted - sink.before, sink.accepted

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        name, settings = command.name, settings_of(command.settings)
        is_new = name not in self.sinks
        if command.passive:
            self.get(name)
        elif is_new:
            self.destinations.check_count()
            self.sinks[name] = Sink(**settings)
            text = json.dumps(settings)
            self.context.write(KeepDeclared(SINK, name, text), WRITE_COST_BYTES + len(text))
        request.answer_synced(lambda: Declared(is_new))

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        self.get(command.name)
        del self.sinks[command.name]
        self.context.write(DropDeclared(SINK, command.name))
        request.answer_synced(lambda: Deleted(1))


@contextmanager
def added() -> Iterator[None]:
    """While there are sinks: the two halves of its row, and the check of what is kept of one."""
    with MonkeyPatch.context() as patch:
        patch.setitem(table.KINDS, SINK, SinkKind)
        patch.setitem(addresses.KINDS, SINK, AddressKind(section="sinks", is_declared=True))
        patch.setitem(validation.DECLARED, SINK, settings_of)
        yield


if __name__ == "__main__":
    with added():
        sys.exit(main())
