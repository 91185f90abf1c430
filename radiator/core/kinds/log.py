"""`/log/NAME`: what is sent to it is appended; who subscribes reads it."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import Door, Kind, Subscriber
from radiator.core.logs.log import Log
from radiator.core.logs.log_consumer import LogConsumer
from radiator.core.logs.logs import is_reserved_log
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import LOG
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal


class LogKind(Kind):
    """See above."""

    name = LOG

    __slots__ = ()

    def log(self, command: Send, name: str) -> Log:
        """The log that a SEND goes straight to. Raises Refusal."""
        if is_reserved_log(name):
            raise Refusal("reserved", f"/log/{name:.255} is written by the broker alone.")
        log = self.destinations.all_logs.get(name)
        if command.expiration_ms is not None or command.expires_ms:
            raise Refusal(
                "no-delay", f"{log.name} keeps everything as long as it keeps it: a record has no `expiration`."
            )
        if command.immediate:
            raise no_consumer(command.destination, "it is a log")
        return log

    def send(self, door: Door, connection: Connection, command: Send, name: str) -> Waitable | None:
        return door.send_to(connection, self.log(command, name), command)

    def plan(self, plan: Plan, connection: Connection, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        self.incoming.put_into(plan, command, headers, (self.log(command, name),), 0)

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        """With a reader of its own; its group's position is on the disk with the RECEIPT."""
        log = self.destinations.all_logs.get(name)
        reader = LogConsumer(log, command, self.destinations.readers)
        if reader.needs_search(command):
            found = subscriber.search(connection, command, log)
            if not isinstance(found, list):
                return found
            reader.firsts = found
        subscription = subscriber.consume(connection, command, reader)
        reader.begin(subscription, command)
        # D26: behind the batch that has where a new group begins
        subscriber.receipt(connection, command, durable=command.group is not None)
        reader.join(subscription)
        return None
