"""Does what a plan does outside the disk, once its persistent part is on the disk."""

from dataclasses import dataclass
from typing import Protocol

from radiator.core.connections import ConsumedQueue, Delivery
from radiator.core.deliveries import settle
from radiator.core.memory import Memory
from radiator.core.producer import Producer
from radiator.core.queues.entry import cost_of
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.plan import Plan
from radiator.core.turn import TurnContext
from radiator.model.commands import Ack, Nack
from radiator.model.message import Message


class RestPort(Protocol):
    """The part of Admission that it needs."""

    context: TurnContext
    destinations: Destinations
    memory: Memory

    def answer(self, queue: Queue | None, message: Message) -> None:
        """Sends an answer to the client that asked."""

    def answer_at(self, node: str, message: Message) -> None:
        """Sends an answer to a client of another node."""


@dataclass(slots=True)
class Rest:
    """The part of a plan that is not on the disk. Its room is reserved while its persistent part is on its way to the
    disk.
    """

    admission: RestPort
    producer: Producer
    puts: list[tuple[Target, Message, int]]
    plan: Plan
    settlements: list[tuple[Ack | Nack, list[Delivery]]]

    @property
    def is_empty(self) -> bool:
        has_memory_ack = any(not d.subscription.queue.is_persistent for _, ds in self.settlements for d in ds)
        plan = self.plan
        has_reply = bool(plan.replies or plan.answers)
        return not (self.puts or plan.publishes or has_reply or plan.copies or has_memory_ack)

    def reserve(self) -> None:
        for queue, message, _ in self.puts:
            queue.reserved += 1
            queue.reserved_bytes += message.size
        self.weigh(self.cost_bytes)

    def carry_out_reserved(self) -> None:
        for queue, message, _ in self.puts:
            queue.reserved -= 1
            queue.reserved_bytes -= message.size
        self.weigh(-self.cost_bytes)
        self.carry_out()

    @property
    def cost_bytes(self) -> int:
        plan = self.plan
        sizes = [message.size for _, message, _ in (*self.puts, *plan.copies)]
        sizes += [message.size for _, message, _ in plan.publishes]
        sizes += [message.size for _, message in (*plan.replies, *plan.answers)]
        return cost_of(len(sizes), sum(sizes))

    def weigh(self, size: int) -> None:
        self.admission.memory.bytes += size
        self.admission.memory.waiting_bytes += size
        self.producer.rest_bytes += size

    def carry_out(self) -> None:
        admission, ids = self.admission, self.plan.ids
        touched: dict[Target | ConsumedQueue, None] = {}
        for command, deliveries in self.settlements:
            for delivery in deliveries:
                consumed = delivery.subscription.queue
                if not consumed.is_persistent and not consumed.is_gone:
                    settle(command, delivery)
                touched[consumed] = None
        for queue, message, due_ms in self.puts:
            if not queue.is_gone:
                queue.take_in(message, due_ms)
                admission.memory.bytes += message.size
                touched[queue] = None
                if ids is not None:
                    ids.append(queue.last_id())
        exchanges = admission.destinations.exchanges
        for queue, message, due_ms in self.plan.copies:
            if exchanges.deliver(queue, message, due_ms):
                admission.memory.bytes += message.size
                touched[queue] = None
        for reply_queue, message in self.plan.replies:
            admission.answer(reply_queue, message)
        for node, message in self.plan.answers:
            admission.answer_at(node, message)
        topics = admission.destinations.topics
        for name, message, copied in self.plan.publishes:
            message_id = topics.new_id()
            if ids is not None:
                ids.append(message_id)
            topics.publish(message, topics.matching(name), message_id)
            if topics.gossip is not None:
                topics.gossip.publish(name, message, message_id, copied)
            admission.context.count("topic_messages")
        for one in touched:
            one.pump()
        for queue in dict.fromkeys(queue for queue, _, _ in self.puts):
            if not queue.is_gone:
                queue.came_in()
