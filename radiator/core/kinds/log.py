"""`/log/NAME`: what is sent to it is appended; a subscriber reads it."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from radiator.core.answers import in_order, rested
from radiator.core.connections import Connection
from radiator.core.kinds import unbinding
from radiator.core.kinds.kind import AdmissionPort, Asked, Kind, Round, Subscriber
from radiator.core.logs.groups import Group
from radiator.core.logs.log import Log, is_reserved_log
from radiator.core.logs.log_consumer import LogConsumer
from radiator.core.logs.logs import partitions_mistake
from radiator.core.ports import Background, TopologyPort
from radiator.core.producer import Producer
from radiator.core.request import warnings
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import LOG
from radiator.model.administration import DeclareDestination, DeleteDestination, DescribeDestination
from radiator.model.answers import Declared, Deleted, LogDescribed, PartitionsDescribed
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.limits import DESCRIBED_GROUPS
from radiator.model.numbers import PAUSE, Later, LogNumbers, NamedRows, PauseRow, Rows
from radiator.model.recovery import Recovery
from radiator.model.replies import LogReceipt
from radiator.model.settings import Declarations
from radiator.model.validation import log_settings
from radiator.model.without_effect import log_without_effect

MANY_PARTITIONS = 64  # a log with as many has a slice to itself


class LogKind(Kind):
    """See above."""

    name = LOG
    instead = " Subscribe to it: that removes nothing."
    can_prepare = True

    __slots__ = ()

    def log(self, command: Send, name: str) -> Log:
        """Returns the log that a SEND goes straight to. Raises Refusal."""
        there = self.destinations.logs.all.get(name)
        if is_reserved_log(name) or (there is not None and there.is_reserved):
            raise Refusal("reserved", f"/log/{name:.255} is written by the broker alone.")
        log = self.destinations.logs.get(name)
        if command.expiration_ms is not None or command.expires_ms:
            raise Refusal("no-delay", f"A record of {log.name} has no `expiration`: only retention removes it.")
        if command.immediate:
            raise no_consumer(command.destination, "it is a log")
        return log

    def send(self, admission: AdmissionPort, connection: Connection, command: Send, name: str) -> Waitable | None:
        return admission.send_to(connection, self.log(command, name), command)

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        self.incoming.put_into(plan, command, headers, (self.log(command, name),), 0)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """Subscribes with a reader of its own; its group's position is on the disk with the RECEIPT."""
        log = self.destinations.logs.get(name)
        reader = LogConsumer(log, command, self.destinations.readers)
        if reader.needs_search(command):
            found = subscriber.search(connection, command, log)
            if not isinstance(found, list):
                return found
            reader.firsts = found
        subscription = subscriber.consume(connection, command, reader)
        reader.begin(subscription, command)
        # D26: behind the batch that has where a new group begins
        if command.offsets_max and command.receipt is not None:
            # D41: a record that is not on the disk yet may be gone after a crash, and another have its offset
            offsets = {index: min(one.next, one.partition.committed) for index, one in reader.cursors.items()}
            connection.say(self.context, LogReceipt(connection.number, command.receipt, offsets))
        else:
            subscriber.receipt(connection, command, durable=command.group is not None)
        reader.join(subscription)
        return None

    # ---- its destinations -------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return self.destinations.logs.partitions

    def names(self) -> Iterable[str]:
        return self.destinations.logs.all

    def numbers(self, port: TopologyPort, name: str) -> LogNumbers | None:
        log = self.destinations.logs.all.get(name)
        return None if log is None else of_log(log)

    def recover(self, recovery: Recovery) -> None:
        for found in recovery.logs:
            self.destinations.logs.recover(found)

    def make_declared(self, recovery: Recovery) -> None:
        self.destinations.logs.make_declared()

    def contradictions(self, new: Declarations) -> Iterable[str]:
        for name, settings in new.logs.items():
            log = self.destinations.logs.all.get(name)
            if log is not None and log.log_settings.partitions != settings.partitions:
                yield partitions_mistake(name, settings, log.log_settings)

    def use(self, old: Declarations, new: Declarations) -> None:
        logs = self.destinations.logs
        for name, log in logs.all.items():
            log.is_declared = name in new.logs
            if log.is_declared:
                logs.use(log, new.logs[name])

    def tick(self, background: Background) -> None:
        """Begins retention; wakes those that wait for a log, or read until a time."""
        logs = self.destinations.logs
        if logs.retention.look() and logs.retention not in background:
            background.append(logs.retention)
        for log in logs.all.values():
            log.wake_waiting()
        self.destinations.readers.ticked()

    def looks(self, round_: Round) -> Iterator[int]:
        for reader in [*self.destinations.readers.all]:
            yield from round_.watch_timeouts(reader)
        for log in [*self.destinations.logs.all.values()]:
            if log.maker is not None:
                round_.look_at_stored(log.maker, log.size)
                yield len(log.partitions)

    # ---- requests of operators --------------------------------------------------------------------------------------

    def declare(self, request: Asked, command: DeclareDestination) -> None:
        logs, name = self.destinations.logs, command.name
        log = logs.get(name) if command.passive else logs.all.get(name)
        settings = log_settings(command.settings, None if log is None else log.log_settings)
        created = logs.declare(name, settings)
        if created:
            self.context.note("info", "declared", log=name)
        useless = log_without_effect(settings, request.parts.disk.high_water_bytes)
        answer = Declared(created, warnings(command.settings, useless))
        request.answer_synced(lambda: answer)

    def describe(self, request: Asked, command: DescribeDestination) -> None:
        """Answers with its settings, what each partition has on the disk, and its readers."""
        log = self.existing_log(request, command.name)

        def described() -> LogDescribed:
            partitions = log.partitions
            return LogDescribed(
                settings=log.log_settings,
                incarnation=log.incarnation,
                partitions=PartitionsDescribed(
                    first=[one.first for one in partitions],
                    next=[one.committed for one in partitions],
                    bytes=[one.size for one in partitions],
                    first_ms=[one.first_ms or None for one in partitions],
                    last_ms=[one.last_ms or None for one in partitions],
                ),
                readers=readers_of(log),
                groups=Rows(iter([*islice(log.groups, DESCRIBED_GROUPS)])),
            )

        request.answer_synced(described, in_slices=True)

    def delete(self, request: Asked, command: DeleteDestination) -> None:
        """Deletes the log with its records and the positions of its groups."""
        destinations, log = self.destinations, self.existing_log(request, command.name)
        destinations.logs.check_unused(log)

        def undo(binding: tuple[str, str]) -> None:
            if binding in destinations.bindings_of(log):
                destinations.exchanges.undo(*binding, log)

        again = partial(self.delete, request, command)
        if unbinding.begins(request, lambda: [*destinations.bindings_of(log)], undo, again):
            return
        count = destinations.logs.delete(log)
        self.context.note("info", "deleted", log=log.bare_name, records=count)
        request.answer_synced(lambda: Deleted(count))

    def existing_log(self, request: Asked, name: str) -> Log:
        """Returns the log of that name, and counts the look at all its partitions. Raises Refusal where there
        is none.
        """
        log = self.destinations.logs.get(name)
        request.costs(len(log.partitions))
        return log


# ---- numbers --------------------------------------------------------------------------------------------------------


def of_log(log: Log) -> LogNumbers:
    """Returns the numbers of a log."""
    return LogNumbers(
        partitions=len(log.partitions),
        records=log.records,
        bytes=log.size,
        retention_bytes=log.log_settings.retention_bytes,
        accepted=log.ledger.accepted,
        accepted_bytes=log.ledger.accepted_bytes,
        readers=readers_of(log),
        unread=NamedRows(_unread(log)),
        damaged=log.damaged,
    )


def _unread(log: Log) -> Iterator[tuple[str, int] | PauseRow]:
    for name in in_order(log.groups, limit=DESCRIBED_GROUPS):
        group = None if name is PAUSE else log.groups.get(name)
        if group is not None and name is not PAUSE:
            yield name, unread_of(log, group)
        if len(log.partitions) >= MANY_PARTITIONS or name is PAUSE:
            yield PAUSE


def unread_of(log: Log, group: Group) -> int:
    """Returns how many records come after a group's positions."""
    return sum(max(0, p.committed - max(p.first, at)) for p, at in zip(log.partitions, group.positions, strict=True))


def readers_in(log: Log) -> Iterator[set[Any] | PauseRow]:
    """Yields PAUSEs, then the set of the LogConsumers that read the log, or have records of it unacked."""
    found: set[Any] = set()
    cursors = chain.from_iterable([*partition.cursors] for partition in log.partitions)
    looked_at: Iterable[Any] = chain(cursors, [*log.groups.values()])
    for one in rested(looked_at):
        if one is PAUSE:
            yield PAUSE
        elif isinstance(one, Group):
            found.update(one.members)
        else:
            found.add(one.reader)
    yield found


def readers_of(log: Log) -> Later[int]:
    """Returns how many readers a log has."""
    return Later(PAUSE if found is PAUSE else len(found) for found in readers_in(log))
