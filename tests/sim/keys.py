"""Judges partitioned queues in a history: what of one key is handed over, and to whom, as its disk and its books say.

Truth is what the disk has, with all that is written and on its way there: nothing is asked of the code that chooses.
"""

from radiator.core.queues.queue import Queue
from radiator.model.message import Message, position_in
from radiator.model.replies import Deliver
from radiator.model.writes import Delay, MakeDue, Put, Remove, Write
from tests.sim.books import Books, headers_of
from tests.sim.simulation import SimNode

KEY = b"key:"


def key_of(message: Message) -> bytes | None:
    for line in headers_of(message).split(b"\n"):
        if line.startswith(KEY):
            return line.removeprefix(KEY)
    return None


class KeyJudge:
    """handed: called with each MESSAGE as the node hands it over. keys: so many were judged."""

    def __init__(self, node: SimNode, books: Books) -> None:
        self.node = node
        self.books = books
        self.judged = 0

    def handed(self, name: str, deliver: Deliver) -> None:
        queue = self.node.broker.destinations.queues.find(name)
        key = key_of(deliver.message)
        if queue is None or not queue.settings.partition_key or key is None:
            return
        self.judged += 1
        position = position_in(deliver.message_id)
        what = f"{deliver.message.body!r} ({deliver.message_id!r}) of key {key!r} in {name}"
        beside = [out for place, out in queue.entries_out.items() if place != position and self.is_of(out.entry, key)]
        if len(beside) >= queue.settings.partition_window:
            self.books.mistakes.append(f"at once: {what} is handed over, and {len(beside)} more of it are out")
        if any(out.subscription.connection.number != deliver.connection for out in beside):
            self.books.mistakes.append(f"two consumers: {what} is handed over, and another one has some of it")
        out = {*queue.entries_out} if queue.settings.partition_window > 1 else set()
        passed = [place for place in self.unsettled(queue, key) if place < position and place not in out]
        if passed:
            self.books.mistakes.append(f"overtaken: {what} is handed over before {len(passed)} earlier ones")

    def is_of(self, entry: object, key: bytes) -> bool:
        """Of an entry that is out: its message is on the disk too."""
        position = entry.position  # type: ignore[attr-defined]
        return any(key_of(m) == key for (_, place), m in self.node.disk.platter.messages.items() if place == position)

    def unsettled(self, queue: Queue, key: bytes) -> list[int]:
        """The places of all of that key that are to be delivered, and were not sent to come later."""
        disk = self.node.disk.platter
        there = {place: m for (number, place), m in disk.messages.items() if number == queue.number}
        held = {
            place: one.message
            for (number, _, place), one in disk.delayed.items()
            if number == queue.number and one.redeliveries
        }
        writes: list[Write] = []
        if self.node.being_committed is not None and not self.node.is_on_the_disk:
            writes += self.node.being_committed.writes
        writes += self.node.broker.context.open.writes
        for write in writes:
            if isinstance(write, Put) and write.queue == queue.number:
                there[write.position] = write.message
            elif isinstance(write, Remove) and write.queue == queue.number:
                del there[write.position]
            elif isinstance(write, Delay) and write.queue == queue.number and write.redeliveries:
                held[write.position] = write.message
            elif isinstance(write, MakeDue) and write.queue == queue.number:
                held.pop(write.position, None)
        return [place for place, m in (there | held).items() if key_of(m) == key and not self.is_late(m)]

    def is_late(self, message: Message) -> bool:
        """Whether it was sent with a delay: it joins its key when it is due."""
        sent = self.books.sent.get(message.body)
        return sent is not None and (sent.delay_ms is not None or sent.deliver_at_ms is not None)
