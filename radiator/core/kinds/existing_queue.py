"""`/amq/queue/NAME`: an existing queue; a SEND or SUBSCRIBE to this address creates none."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import AdmissionPort, Kind, Subscriber
from radiator.core.producer import Producer
from radiator.core.queues.queue import Queue
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import EXISTING
from radiator.model.commands import Send, Subscribe
from radiator.model.errors import Refusal
from radiator.model.grounds import ADDRESS_MAKES_NONE, NoSuchQueue


class ExistingQueueKind(Kind):
    """See above."""

    name = EXISTING
    can_prepare = True

    __slots__ = ()

    def send(self, admission: AdmissionPort, connection: Connection, command: Send, name: str) -> Waitable | None:
        found = self.destinations.queues.all.get(name)
        if found is None:
            return admission.send_planned(connection, command)
        return admission.send_to(connection, found, command)

    def can_delay(self, name: str) -> bool:
        return True

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        found = self.destinations.queues.all.get(name)
        if command.more_keys or found is None:
            queues = self.incoming.named_by(plan, command, found)
        else:
            queues = [found]
        if queues:
            self.incoming.put_into(plan, command, headers, queues, due_ms)
        elif command.mandatory and command.returns:
            plan.returned.append(command)
        elif command.mandatory:
            raise Refusal("no-subscriber", f"There is no /queue/{name}, and the message is mandatory.")
        elif command.immediate:
            raise no_consumer(command.destination, "there is no such queue")

    def subscribe(
        self, subscriber: Subscriber, connection: Connection, command: Subscribe, name: str
    ) -> Waitable | None:
        found = self.existing(command.destination, name, connection)
        subscription = subscriber.consume(connection, command, found)
        subscriber.receipt(connection, command)
        found.join(subscription)
        return None

    def leased(self, destination: str, name: str) -> Queue:
        return self.existing(destination, name, None)

    def existing(self, destination: str, name: str, user: Connection | None) -> Queue:
        found = self.destinations.queues.all.get(name)
        if found is None:
            raise Refusal.on(NoSuchQueue(name, ADDRESS_MAKES_NONE))
        self.destinations.queues.owned.check(found, user)
        return found
