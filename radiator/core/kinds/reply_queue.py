"""`/reply-queue/ID`: the temp queue of the client that asked, here or at another node."""

from radiator.core.connections import Connection
from radiator.core.kinds.kind import AdmissionPort, Kind
from radiator.core.producer import Producer
from radiator.core.routing.plan import Plan, no_consumer
from radiator.core.routing.waiting import Waitable
from radiator.model.addresses import REPLY
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from radiator.model.getting import FindAsker
from radiator.model.grounds import NobodyAsks
from radiator.model.message import Message


class ReplyQueueKind(Kind):
    """See above."""

    name = REPLY

    __slots__ = ()

    def send(self, admission: AdmissionPort, connection: Connection, command: Send, name: str) -> Waitable | None:
        """Delivers a reply, or drops it where its queue is gone or full. Most replies need no plan."""
        if (
            command.mandatory
            or command.immediate
            or command.reply_to is not None
            or command.delay_ms is not None
            or command.deliver_at_ms is not None
            or connection.rest_batch > self.context.committed
            or self.destinations.temp_queues.node_of_asker(name)
        ):
            return admission.send_planned(connection, command)
        message = command.message(command.headers, self.context.now_ms, None)
        admission.answer(self.destinations.temp_queues.by_id.get(name), message)
        admission.receipt(connection, command)
        return None

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        """Plans a reply; where its queue is gone or full it is dropped, or refused if `mandatory` or `immediate`. A
        client that takes mandatory messages back gets it back if its queue is gone.
        """
        message = command.message(headers, self.context.now_ms, None)
        node = self.destinations.temp_queues.node_of_asker(name)
        if node:
            self.plan_answer(plan, command, message, node)
            return
        queue = self.destinations.temp_queues.by_id.get(name)
        if command.mandatory:
            if queue is None:
                _give_back(plan, command, "has no receiver (any more)")
                return
            if not queue.has_capacity(1, message.size):
                raise Refusal("queue-full", f"{command.destination} is full, and the message is mandatory.")
        if command.immediate:
            if queue is None:
                raise no_consumer(command.destination, "it has no receiver (any more)")
            plan.immediate[queue] = command.destination
        plan.replies.append((queue, message))

    def plan_answer(self, plan: Plan, command: Send, message: Message, node: str) -> None:
        """Plans a reply to a temp queue of another node."""
        if command.immediate:
            raise no_consumer(command.destination, f"it is at the node {node}")
        if command.mandatory and not self._is_reached(node):
            _give_back(plan, command, f"is at the node {node}, which is not reached")
            return
        plan.answers.append((node, message))

    def _is_reached(self, node: str) -> bool:
        gossip = self.destinations.topics.gossip
        return gossip is not None and gossip.way(node) is not None

    def find_asker(self, connection: Connection, command: FindAsker) -> None:
        """Says by the RECEIPT that the client that asked is there. One at another node counts as there while that node
        is reached. Raises Refusal.
        """
        temp_queues = self.destinations.temp_queues
        node = temp_queues.node_of_asker(command.reply_id)
        queue = temp_queues.by_id.get(command.reply_id)
        is_there = self._is_reached(node) if node else queue is not None and bool(queue.subscriptions)
        if not is_there:
            raise Refusal.on(NobodyAsks(command.reply_id))
        connection.receipt(self.context, command.receipt)


def _give_back(plan: Plan, command: Send, why: str) -> None:
    """Gives back a mandatory reply that cannot arrive. Raises Refusal if its sender does not take it back."""
    if not command.returns:
        raise Refusal("no-subscriber", f"{command.destination} {why}, and the message is mandatory.")
    plan.returned.append(command)
