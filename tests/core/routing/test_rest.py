"""What a plan does in memory waits for its part on the disk, and its room is kept for it."""

from radiator.model.commands import AUTO, Begin, Commit, Send, Subscribe
from radiator.model.headers import ESCAPING_ALL
from radiator.model.replies import Deliver
from radiator.model.settings import Declarations, QueueSettings
from tests.core.node import Node


def test_the_memory_part_comes_when_the_disk_part_is_synced_and_has_its_room_until_then() -> None:
    queues = {"disk": QueueSettings(), "memory": QueueSettings(persistent=False, max_messages=1)}
    node = Node(Declarations(queues=queues, create_queues=True), auto=False)
    node.open(1, 2)
    node.say(Subscribe(2, b"s", "/queue/memory", AUTO))
    sends = [Send(1, f"/queue/{name}", b"", ESCAPING_ALL, b"x", transaction=b"t") for name in queues]
    node.say(Begin(1, b"t"), *sends, Commit(1, b"t", b"done"))
    memory, queue = node.broker.parts.memory, node.broker.destinations.queues.all["memory"]
    assert memory.waiting_bytes > 0 and queue.reserved == 1 and node.inbox[2] == []
    node.seal()
    node.commit()
    assert memory.waiting_bytes == queue.reserved == 0
    (deliver,) = node.inbox[2]
    assert isinstance(deliver, Deliver) and deliver.message.body == b"x"
