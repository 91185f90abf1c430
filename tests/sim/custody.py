"""The books of a simulated mesh: who holds each copy of a message, who was handed it, who has acked it.

A body is said once only: what is sent again, because nobody knows what became of it, gets a new body. So a body is one
accepted message, whatever ids nodes give it as it changes its owner, and one message is acked by one consumer at most.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from zlib import crc32

from radiator.core.turn import Batch
from radiator.model.limits import STARVING_S
from radiator.model.replies import Deliver
from radiator.model.settings import QueueSettings
from radiator.model.writes import Delay, Doubt, MakeDue, Put, Remove, Settle
from tests.sim.simulation import SimNode

WORK = ("work", "frail", "brief")  # queues of scope "cluster"; what is too often given back in `frail` goes to `dead`
CHILDREN = ("x", "y")  # of the fanout of scope "cluster"
LOCAL = (*CHILDREN, "dead")


def numbered(body: bytes) -> bytes:
    """The header by which an altered body is seen."""
    return b"crc:%08x\n" % crc32(body)


@dataclass
class Custody:
    """What is known of all nodes at once. `mistakes` must stay empty.

    A place is (node, queue). live: where the disk has it and nobody else was offered it. in_doubt: where it was.
    """

    queues: dict[str, QueueSettings]
    hops_max: int  # links that a message may cross without rest
    mistakes: list[str] = field(default_factory=list)
    sent: dict[bytes, tuple[str, str]] = field(default_factory=dict)  # body -> node, destination
    receipted: set[bytes] = field(default_factory=set)
    live: dict[bytes, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    in_doubt: dict[bytes, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    bodies: dict[tuple[str, int, int], bytes] = field(default_factory=dict)  # node, queue, position
    doubts: dict[tuple[str, str, int], tuple[str, int, int]] = field(default_factory=dict)  # node, peer, sequence
    stored: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))  # how often, as work, by any node
    may_travel: bool = False  # a node is drained: then nobody counts the links that a message crosses
    out: set[bytes] = field(default_factory=set)  # bodies of WORK that were handed to somebody
    outs: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))  # how often
    acked: dict[tuple[str, bytes], str] = field(default_factory=dict)  # place or "", body -> by whom, with receipt
    nacked: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    came: dict[bytes, dict[tuple[str, str], set[bytes]]] = field(default_factory=lambda: defaultdict(dict))
    deliveries: int = 0
    redeliveries: int = 0
    handed_over: int = 0
    delayed: int = 0
    latest_ms: dict[str, int] = field(default_factory=dict)  # that a node's clock has shown before it was set

    # ---- the disks --------------------------------------------------------------------------------------------------

    def committed(self, node: SimNode, batch: Batch) -> None:
        """Something is on the disk of that node now."""
        names = node.disk.platter.queues
        touched: dict[bytes, None] = {}
        delayed = {(w.queue, w.position) for w in batch.writes if isinstance(w, Delay)}
        put = {(w.queue, w.position) for w in batch.writes if isinstance(w, Put)}
        for write in batch.writes:
            if isinstance(write, Put | Delay):
                body = write.message.body
                key = node.name, write.queue, write.position
                self.live[body].add((node.name, names[write.queue][0]))
                self.stored[body] += names[write.queue][0] in WORK and key not in self.bodies
                self.bodies[key] = body
                self.delayed += isinstance(write, Delay)
                touched[body] = None
            elif isinstance(write, MakeDue):
                latest_ms = max(self.latest_ms.get(node.name, 0), node.now_ms)
                if write.due_ms > latest_ms:
                    self.mistakes.append(f"woken early: {write} by {node.name} at {latest_ms}")
                if (write.queue, write.position) not in put:  # expired, or let go of
                    body = self.bodies.pop((node.name, write.queue, write.position))
                    self.live[body].discard((node.name, names[write.queue][0]))
            elif isinstance(write, Remove) and (write.queue, write.position) not in delayed:
                body = self.bodies.pop((node.name, write.queue, write.position))
                place = node.name, names[write.queue][0]
                self.live[body].discard(place)
                self.in_doubt[body].discard(place)
            elif isinstance(write, Doubt):
                key = self.doubts[node.name, write.peer, write.sequence] = node.name, write.queue, write.position
                place = node.name, names[write.queue][0]
                self.live[self.bodies[key]].discard(place)
                self.in_doubt[self.bodies[key]].add(place)
            elif isinstance(write, Settle):
                key = self.doubts.pop((node.name, write.peer, write.sequence))
                if key in self.bodies:
                    body, place = self.bodies[key], (node.name, names[key[1]][0])
                    self.in_doubt[body].discard(place)
                    self.live[body].add(place)
                    touched[body] = None
        for body in touched:
            if len(self.live[body]) > 1 and self.is_work(body):
                self.mistakes.append(f"two holders: {body!r} is held by {sorted(self.live[body])} at once")

    def is_work(self, body: bytes) -> bool:
        return body in self.sent and self.sent[body][1] in WORK

    # ---- consumers --------------------------------------------------------------------------------------------------

    def handed(self, node: SimNode, deliver: Deliver) -> None:
        """That node gives it to a consumer."""
        if deliver.message.destination.startswith("/topic/"):
            return
        assert deliver.subscription is not None
        queue, body = deliver.subscription.decode(), deliver.message.body
        self.deliveries += 1
        self.redeliveries += deliver.redelivered
        if body not in self.sent:
            self.mistakes.append(f"unexpected: {body!r} in {queue} of {node.name}")
            return
        if numbered(body) not in deliver.message.headers:
            self.mistakes.append(f"altered: {body!r}: {deliver.message.headers!r}")
        if 0 < deliver.message.expires_ms <= node.now_ms:
            self.mistakes.append(f"expired: {body!r} in {queue} was handed out after its time")
        if queue in CHILDREN:
            self.came[body].setdefault((node.name, queue), set()).add(deliver.message_id)
            key = f"{node.name} {queue}", body
        else:
            key = "", body
            self.work_handed(node, queue, deliver)
        if key in self.acked:
            self.mistakes.append(f"acked and handed out again: {body!r} in {queue} of {node.name}")

    def work_handed(self, node: SimNode, queue: str, deliver: Deliver) -> None:
        body = deliver.message.body
        elsewhere = {name for name, _ in self.live[body]} - {node.name}
        if elsewhere:
            self.mistakes.append(f"two holders: {body!r} is handed out by {node.name}, and {elsewhere} could too")
        if body in self.out and not deliver.redelivered and queue != "dead":
            self.mistakes.append(f"not marked: {body!r} was out before, and comes from {node.name} as new")
        if deliver.redeliveries < self.nacked[body] and queue != "dead":
            self.mistakes.append(f"count: {body!r} came back {self.nacked[body]} times, not {deliver.redeliveries}")
        most = self.queues[queue].max_redeliveries
        if self.queues[queue].dead_letter is not None and deliver.redeliveries > most:
            self.mistakes.append(f"too often: {body!r} is handed out for the {deliver.redeliveries}th time, of {most}")
        if b"\nnode-path:" in b"\n" + deliver.message.headers and (self.sent[body][0] != node.name):
            self.handed_over += 1
        self.out.add(body)
        self.outs[body] += 1
        self.came[body].setdefault((node.name, queue), set()).add(deliver.message_id)

    def was_acked(self, who: str, place: str, body: bytes) -> None:
        """With receipt."""
        if (place, body) in self.acked:
            self.mistakes.append(f"acked twice: {body!r} by {self.acked[place, body]}, and by {who}")
        self.acked[place, body] = who

    # ---- the end ----------------------------------------------------------------------------------------------------

    def judge(self, nodes: list[SimNode], neighbours: dict[str, set[str]], now_s: float) -> None:
        """When everything has been drained."""
        rests = int(now_s / STARVING_S) + sum(node.boots for node in nodes)
        for node in nodes:
            platter = node.disk.platter
            for name, ledger in platter.queues.values():
                if ledger.stored:
                    self.mistakes.append(f"not drained: {ledger.stored} in {name} of {node.name}")
            if platter.doubts:
                self.mistakes.append(f"not settled: {platter.doubts} of {node.name}")
        for body, (node_name, to) in self.sent.items():
            came = self.came.get(body, {})
            if to in WORK:
                if self.stored[body] > (1 + self.hops_max) * (1 + rests + self.outs[body]) and not self.may_travel:
                    self.mistakes.append(
                        f"ping-pong: {body!r} was stored by {self.stored[body]} nodes, one after another"
                    )
                if body in self.receipted and not came and to != "brief":
                    self.mistakes.append(f"lost: {body!r} in {to}, receipted by {node_name}, came to nobody")
                continue
            places = [(name, child) for name in [node_name, *sorted(neighbours[node_name])] for child in CHILDREN]
            times = [len(came.get(place, ())) for place in places]
            if body in self.receipted and not all(times):
                self.mistakes.append(f"lost: {body!r}, receipted by {node_name}, came {times} times to {places}")
            if len(set(times)) > 1 or max(times) > 1 or came.keys() - {*places}:
                self.mistakes.append(f"not once: {body!r} of {node_name} came {times} times to {places}: {came}")
