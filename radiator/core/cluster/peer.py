"""What is known of another node beyond one link, and across restarts of either side. Its row on the disk has the state
of both hand-overs.

A Peer is part of the batch that changes its row, as a queue is part of the batch that changes its ledger. Words that
may be sent only once the row is on the disk (Hello, Welcome, Taken) are sent in `committed`, and nowhere else.
"""

from collections.abc import Callable
from dataclasses import dataclass

from radiator.core.cluster.link import Link
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.turn import QueueChanges, TurnContext
from radiator.model.limits import EPOCH_STEP_MAX, LINK_CAUSE_MAX, PEER_STORES_KEPT
from radiator.model.peer import Hello, Taken, Welcome, cost_bytes
from radiator.model.writes import KeepPeer, PeerStore

FANOUTS, TOPICS = COPIES = "/fanout/", "/topic/"  # what the destination of a copy begins with
UP, HANDSHAKE, REFUSED, DOWN = "up", "handshake", "refused", "down"


@dataclass(slots=True)
class PendingTransfer:
    """A message in doubt: its place, what its removal subtracts from the ledger, and how often it was redelivered."""

    queue: DurableQueue
    position: int
    size: int
    expires: bool
    since_ms: int
    redeliveries: int


class Peer:
    """See KeepPeer for the fields of the row; docs/CLUSTER.md for the procedures.

    doubts: by sequence, ascending. is_greeted: Hello was sent on this link; is_welcome: and answered, so that messages
    may be handed over. is_heard: the other side's Hello waits for the disk; is_answered: Welcome was sent to it.
    is_deaf: it was sent Untaken, and has not sent Hello since. is_new: nothing is known of its store, and it has not
    yet said what that has. earlier: stores that it had before. fanouts: those that it takes copies for, and how many
    copies it stores of each message. out_sent: the last sequence that it can have received. cause: why there is no
    link, as last reported; "" where there is one. epoch_step: what the next refused epoch is raised by. unlike: queues
    that it has declared otherwise, and the sentence about each.
    """

    __slots__ = (
        "cause", "copies", "copies_granted", "context", "doubt_bytes", "doubts", "earlier", "epoch_step", "fanouts",
        "handed_over", "has_stood", "in_epoch", "in_last", "is_answered", "is_deaf", "is_greeted", "is_heard", "is_new",
        "is_refused", "is_welcome", "link", "name", "our_fanouts", "out_epoch", "out_offered", "out_sent", "out_taken",
        "taken_sent", "sealed", "since_s", "store_id", "taken_in", "topic_times", "unlike", "waiting",
    )  # fmt: skip

    def __init__(
        self, context: TurnContext, name: str, our_fanouts: dict[str, int], row: KeepPeer | None = None
    ) -> None:
        self.context = context
        self.name = name
        self.our_fanouts = our_fanouts
        row = row or KeepPeer(name, "", 0, 0, 0, 0, 0)
        self.store_id = row.store_id
        self.out_epoch, self.out_taken, self.out_offered = row.out_epoch, row.out_taken, row.out_offered
        self.out_sent = row.out_offered
        self.in_epoch, self.in_last = row.in_epoch, row.in_last
        self.earlier = row.earlier
        self.sealed = row
        self.doubts: dict[int, PendingTransfer] = {}
        self.doubt_bytes = 0
        self.fanouts: dict[str, int] = {}
        self.link: Link | None = None
        self.is_greeted = self.is_heard = self.is_answered = self.is_welcome = self.is_refused = False
        self.is_deaf = False
        self.has_stood = False  # whether it has said on this link what its durable subscriptions want
        self.is_new = False
        self.epoch_step = 1
        self.waiting: dict[Callable[[], None], None] = {}  # the senders with more to hand over than the window allows
        self.taken_sent = 0
        # copies on this link: how many have arrived, and how many may
        self.copies = self.copies_granted = 0
        self.since_s = context.now_s
        self.cause = ""
        self.handed_over = self.taken_in = 0
        self.unlike: dict[str, str] = {}
        self.topic_times: Callable[[str, str], int] = lambda node, topic: 1

    def cost_of(self, destination: str, size: int) -> int:
        """Returns what a message of that size costs the peer to store. A copy of a fanout that the peer has not
        declared stays here.
        """
        return cost_bytes(size, self.times(destination))

    def times(self, destination: str) -> int:
        """Returns how often the peer stores a message sent there."""
        if destination.startswith(FANOUTS):
            return self.fanouts.get(destination.removeprefix(FANOUTS), 1)
        return self.topic_times(self.name, destination.removeprefix(TOPICS)) if destination.startswith(TOPICS) else 1

    @property
    def state(self) -> str:
        """The state that `radiator peers` shows."""
        if self.link is not None:
            return UP if self.is_welcome else HANDSHAKE
        return REFUSED if self.is_refused else DOWN

    def touch(self) -> None:
        """Called when the peer's row has changed: the open batch writes it."""
        self.context.part(self)

    def linked(self, link: Link) -> None:
        """ON LINK UP: begins a new epoch. Hello is sent when that is on the disk, so that no earlier connection
        counts.
        """
        # D16: an epoch is sent only once it is on the disk, and never twice
        self.link = link
        self.begin_epoch()
        self.is_heard = self.is_answered = self.is_refused = self.is_deaf = False
        self.since_s = self.context.now_s
        self.cause = ""

    def begin_epoch(self) -> None:
        """Begins an epoch. Nothing is handed over until the other side has answered with Welcome."""
        self.out_epoch += 1
        self.is_greeted = self.is_welcome = False
        self.touch()

    def superseded(self) -> None:
        """Called when the other side knows a later epoch of this node than the node itself: the store here is an older
        copy. The step doubles each time, so that the epoch is found in a few tries.
        """
        self.out_epoch += self.epoch_step
        self.epoch_step = min(2 * self.epoch_step, EPOCH_STEP_MAX)
        self.touch()

    def unlinked(self) -> None:
        """ON LINK DOWN: messages in doubt stay in doubt."""
        # D17: no code gives back what is in doubt because a link is lost
        self.link = None
        self.is_welcome = self.has_stood = False
        self.copies = self.copies_granted = 0
        self.since_s = self.context.now_s

    def not_linked(self, cause: str, is_refused: bool) -> None:
        """Keeps the reason for the operator. Another node may have worded it, so it is cut and made printable."""
        self.cause = "".join(c if c.isprintable() else " " for c in cause[:LINK_CAUSE_MAX])
        self.is_refused = is_refused

    # ---- its stores -------------------------------------------------------------------------------------------------

    def meet(self, store_id: str, known: PeerStore | None) -> None:
        """Called when the node comes with a store that it did not have last time. known: the state of the hand-overs
        with that store.
        """
        if self.store_id:
            self.earlier = (*self.earlier, self._store())[-PEER_STORES_KEPT:]
        self._set_store(known or PeerStore(store_id))
        self.is_new = known is None

    def let_go(self, store_id: str) -> PeerStore | None:
        """Called when that store has another name from now on, and none of its messages are in doubt. Returns what was
        known of the store under this name.
        """
        found = next((store for store in self.earlier if store.store_id == store_id), None)
        if found is not None:
            self.earlier = tuple(store for store in self.earlier if store is not found)
            self.touch()
        elif self.store_id == store_id:
            found = self._store()
            self._set_store(PeerStore(""))
        return found

    def _store(self) -> PeerStore:
        return PeerStore(self.store_id, self.out_taken, self.out_offered, self.in_epoch, self.in_last)

    def _set_store(self, store: PeerStore) -> None:
        assert not self.doubts, "they are with the store of before"
        self.store_id = store.store_id
        self.out_taken, self.out_offered, self.out_sent = store.out_taken, store.out_offered, store.out_offered
        self.in_epoch, self.in_last = store.in_epoch, store.in_last
        self.touch()

    # ---- a part of the batch ----------------------------------------------------------------------------------------

    def unawaited(self, part: QueueChanges) -> int:
        return 0

    def as_write(self) -> KeepPeer:
        """Returns the row, to be written with the batch."""
        self.sealed = KeepPeer(
            self.name,
            self.store_id,
            self.out_epoch,
            self.out_taken,
            self.out_offered,
            self.in_epoch,
            self.in_last,
            self.earlier,
        )
        return self.sealed

    def committed(self, part: QueueChanges) -> None:
        """ON COMMITTED: sends the words that the row allows."""
        link, row = self.link, self.sealed
        if link is None or row.store_id != self.store_id:
            return  # words for a store that has been replaced are not for its successor
        if not self.is_greeted and row.out_epoch == self.out_epoch:
            self.is_greeted = True
            link.send(Hello(row.out_epoch, [*self.our_fanouts], [*self.our_fanouts.values()]))
        if self.is_heard and row.in_epoch == self.in_epoch:
            self.is_heard = False
            self.is_answered = True
            self.taken_sent = row.in_last
            link.send(Welcome(row.in_epoch, row.in_last))
        elif self.is_answered and row.in_last > self.taken_sent:
            # D18: messages and `last` were written by one batch, and that is on the disk
            self.taken_sent = row.in_last
            link.send(Taken(row.in_last))
