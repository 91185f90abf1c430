"""Cables: connections between two simulated nodes, everything that may befall one, and who lays the next.

Words of one direction arrive in order, or not at all. Those of different cables overtake each other, also those of an
old cable the words of the new one between the same nodes: one side may hold on to what the other has long given up.
"""

from collections import deque
from collections.abc import Callable

from radiator.model.commands import Open, PeerMessage
from radiator.model.peer import Identity, PeerFrame
from radiator.model.replies import Refuse, Reply, SendToPeer
from tests.sim.simulation import Scheduler, SimNode


class End:
    """One side of a cable. To its node it is a connection like any other.

    door: what is on its way to this end, or has come. held_until_s: before then nothing goes in. is_mute: what is said
    here gets lost.
    """

    has_channels = False

    def __init__(self, cable: "Cable", node: SimNode, is_dialled: bool) -> None:
        self.cable = cable
        self.node = node
        self.is_dialled = is_dialled
        self.number = node.next_number()
        self.boot = node.boots
        self.other: End
        self.latest_s = 0.0
        self.door: deque[Callable[[], None]] = deque()
        self.held_until_s = 0.0
        self.is_open = False
        self.is_over = False
        self.is_mute = False

    def open(self) -> None:
        """The other node has proved who it is; where it dialled, it hears the same now, before anything else."""
        other = self.other.node
        if self.node.boots != self.boot or not self.node.takes_connections:
            self.cable.cut()
            return
        self.is_open = True
        if not self.is_dialled:
            self.carry(self.other.open)
        store_id = other.disk.recovery.store_id
        self.node.attach(self, Open(self.number, Identity(other.name, store_id, self.is_dialled)))

    def carry(self, what: Callable[[], None]) -> None:
        """To the other end, behind all that was said before."""
        if self.is_mute or self.is_over:
            return
        scheduler = self.cable.scheduler
        delay_s = scheduler.random.expovariate(1 / self.cable.delay_s)
        self.latest_s = max(self.latest_s, scheduler.now_s + delay_s)
        self.other.door.append(what)
        scheduler.at(self.latest_s, self.other.arrive)

    def arrive(self) -> None:
        if self.held_until_s > self.cable.scheduler.now_s:
            self.cable.scheduler.at(self.held_until_s, self.arrive)
            return
        what = self.door.popleft()
        if not self.is_over:
            what()

    def reply(self, reply: Reply) -> None:
        if isinstance(reply, SendToPeer):
            word = self.cable.mesh_word(self, reply.word)
            self.carry(lambda: self.other.hear(word))
        elif isinstance(reply, Refuse):
            self.carry(self.other.over)

    def hear(self, word: PeerFrame) -> None:
        self.node.read(self, [PeerMessage(self.number, word)])

    def over(self) -> None:
        """This side has found out that there is no connection any more; so will the other one, if it listens."""
        if not self.is_over:
            self.carry(self.other.over)
            self.is_over = True
            if self.node.boots == self.boot:
                self.node.lost(self)

    def cut(self) -> None:
        """The node has said its last word here, or has no power."""
        if self.node.boots == self.boot and self.node.is_up:
            self.over()
        else:
            self.is_over = True
            self.cable.scheduler.soon(self.cable.silence_s, self.other.over)


class Cable:
    """One connection, from the moment it is dialled. The one who accepts it opens first, then the one who dialled."""

    def __init__(
        self,
        scheduler: Scheduler,
        dialler: SimNode,
        acceptor: SimNode,
        delay_s: float,
        on_word: Callable[[End, PeerFrame], PeerFrame],
    ) -> None:
        self.scheduler = scheduler
        self.delay_s = delay_s
        self.silence_s = 0.05
        self.mesh_word = on_word
        self.ends = End(self, dialler, True), End(self, acceptor, False)
        near, far = self.ends
        near.other, far.other = far, near
        near.carry(far.open)

    @property
    def is_over(self) -> bool:
        return all(end.is_over for end in self.ends)

    # ---- what may befall it -----------------------------------------------------------------------------------------

    def cut(self, found_out_s: float = 0.01) -> None:
        """Both sides find out, each in its own time; words that are on their way may still arrive."""
        for end in self.ends:
            end.is_mute = True
            self.scheduler.soon(found_out_s, end.over)

    def half_open(self, deaf: int, for_s: float) -> None:
        """One side is sure that it is over; words of before wait at the door of the other, which finds out last."""
        end = self.ends[deaf]
        end.held_until_s = self.scheduler.now_s + for_s
        for each in self.ends:
            each.is_mute = True
        self.scheduler.soon(0.01, end.other.over)
        self.scheduler.after(for_s * self.scheduler.random.uniform(1, 2), end.over)

    def silence(self, mute: int, for_s: float) -> None:
        """What one side says is lost, until the other one takes the silence for death."""
        self.ends[mute].is_mute = True
        self.scheduler.after(for_s, self.ends[mute].other.over)

    def stall(self, slow: int, for_s: float) -> None:
        """Nothing comes to one side for a while; then everything."""
        self.ends[slow].held_until_s = self.scheduler.now_s + for_s


class Dialler:
    """Lays a cable from one node to another whenever its node has none, as far as it knows.

    again_s: how long it waits in the mean. is_blind: it knows nothing of cables that the other node has laid.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        node: SimNode,
        to: SimNode,
        again_s: float,
        is_blind: bool,
        lay: Callable[[SimNode, SimNode], Cable],
        cables: list[Cable],
    ) -> None:
        self.scheduler = scheduler
        self.node = node
        self.to = to
        self.again_s = again_s
        self.is_blind = is_blind
        self.lay = lay
        self.cables = cables
        self.blocked_until_s = 0.0
        scheduler.soon(again_s, self.dial)

    def dial(self) -> None:
        can = self.node.takes_connections and self.to.takes_connections
        if can and self.scheduler.now_s >= self.blocked_until_s and not self.has_one:
            self.lay(self.node, self.to)
        self.scheduler.soon(self.again_s, self.dial)

    @property
    def has_one(self) -> bool:
        for cable in self.cables:
            near, far = cable.ends
            if near.node is self.node and far.node is self.to and not near.is_over:
                return True
            if not self.is_blind and far.node is self.node and near.node is self.to and not far.is_over and far.is_open:
                return True
        return False
