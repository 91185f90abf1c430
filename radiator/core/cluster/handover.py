"""Messages change their owner: from one node's store into another's. The hand-over never loses or duplicates one.

At the giver a message is READY, or in doubt, or gone; the taker stores it with its sequence in the same transaction.
Only the taker's word, which it gives when that is on its disk, removes the message at the giver. A message in doubt is
delivered to nobody, however long the link is down; the next Welcome settles it. The protocol was model-checked
(tests/models).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from radiator.core.cluster.lane import Lane
from radiator.core.cluster.link import Link
from radiator.core.cluster.parcels import Parcels
from radiator.core.cluster.peer import COPIES, Peer, PendingTransfer
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.model.carriage import carriage_mistake
from radiator.model.errors import LinkError, Refusal
from radiator.model.journal import SET_ASIDE
from radiator.model.limits import (
    BATCH_BYTES,
    LINK_WHOLE_BYTES,
    LINK_WINDOW,
    LINK_WINDOW_BYTES,
    PEER_STORES_KEPT,
    SEQUENCE_MAX,
    Limits,
)
from radiator.model.patterns import is_node_name
from radiator.model.peer import Capacity, Hello, Taken, Transfer, Untaken, Want, Welcome
from radiator.model.writes import Count, Doubt, Settle


class Handover:
    """The procedures of both directions. `accept` stores a message that another node hands over, if its queue exists
    here. is_wary: another node could not read what this one has sent.
    """

    __slots__ = ("accept", "context", "is_wary", "limits", "name", "parcels", "waiting")

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        name: str,
        parcels: Parcels,
        accept: Callable[[Peer, Transfer], bool],
    ) -> None:
        self.context = context
        self.limits = limits
        self.is_wary = False
        self.parcels = parcels
        self.name = name
        self.accept = accept
        self.waiting: dict[Callable[[], None], None] = {}

    # ---- out --------------------------------------------------------------------------------------------------------

    def may_offer(self, peer: Peer, pumped: Callable[[], None]) -> bool:
        """Whether one more message may be offered now. If not, `pumped` is called when that has changed."""
        if len(peer.doubts) >= LINK_WINDOW or peer.doubt_bytes >= LINK_WINDOW_BYTES:
            peer.waiting[pumped] = None
            return False
        if not peer.is_welcome:
            return False
        if self.context.open.size < BATCH_BYTES:
            return True
        if not self.waiting:
            self.context.open.then.append(self.go_on)
        self.waiting[pumped] = None
        return False

    def fits(self, peer: Peer, destination: str, size: int, pumped: Callable[[], None]) -> bool:
        """Whether a message of that size may be offered, by what the other node has granted. If not, the other node is
        told that one waits, and `pumped` is called when it grants more. First come, first served: others wait behind
        it.
        """
        link = peer.link
        assert link is not None, "only who is linked has room"
        is_copies = destination.startswith(COPIES)
        lane, cost = link.gives[is_copies], peer.cost_of(destination, size)
        if lane.waiting and next(iter(lane.waiting)) != pumped:
            lane.waiting[pumped] = None
            return False
        if cost <= lane.left:
            if lane.waiting:
                del lane.waiting[pumped]
                lane.wanted = 0
            return True
        lane.waiting[pumped] = None
        if lane.wanted != cost:
            lane.wanted = cost
            link.send(Want(is_copies, cost))
        return False

    def capacity(self, link: Link, word: Capacity) -> None:
        """ON RECEIVE Capacity: raises the total that may be handed over. It never shrinks."""
        lane = link.gives[word.is_copies]
        lane.through = max(lane.through, word.through)
        self.retry(lane)

    def retry(self, lane: Lane) -> None:
        """Lets queues that wait for capacity look again: what waited may have left another way since."""
        waiting, lane.waiting = lane.waiting, {}
        lane.wanted = 0
        for pumped in waiting:
            pumped()

    def has_gone_ahead(
        self, peer: Peer, destination: str, entry: Entry, pumped: Callable[[], None], is_awaited: bool = False
    ) -> bool:
        """Whether the message can be offered: a large one only once the other node has its bytes; see Parcels.
        is_awaited: another node already waits for these bytes, so they are not sent to this one as well.
        """
        if len(entry.message.body) <= LINK_WHOLE_BYTES:
            return True
        assert peer.link is not None, "only who is linked has room"
        if is_awaited:
            return self.parcels.is_there(peer.link, entry)
        return self.parcels.has_gone_ahead(peer.link, destination, entry, pumped)

    def go_on(self) -> None:
        """Called when a batch that was full is on the disk."""
        waiting, self.waiting = self.waiting, {}
        for pumped in waiting:
            pumped()

    def is_carried(self, queue: DurableQueue, entry: Entry) -> bool:
        """Whether links can carry the message. One that no link can carry is set aside: this is logged once, and links
        pass over it; local consumers still get it.

        Messages that came in since the start were checked by the same rules then, so this is asked only once a link has
        failed.
        """
        if entry.position > self.context.first_position and not self.is_wary:
            return True
        mistake = carriage_mistake(entry.message, self.limits)
        if mistake and queue.in_doubt.set_aside(entry.position):
            message_id = self.context.message_id(entry.position).decode()
            self.context.count("set_aside")
            if queue.journal is not None:
                queue.journal.write(SET_ASIDE, queue.name, entry)
            self.context.note("error", "message_set_aside", queue=queue.name, id=message_id, sentence=mistake)
        return not mistake

    def path_before(self, entry: Entry) -> list[str]:
        """Returns the nodes where the message has been since a consumer last had it, or since its node was drained or
        restarted: from then on the links that it crosses are counted anew.
        """
        if entry.was_out or entry.position < self.context.first_position:
            return []
        return [name for name in entry.message.node_path if is_node_name(name)]

    def offer(
        self, peer: Peer, queue: DurableQueue, entry: Entry, destination: str, path: Sequence[str], left: int
    ) -> None:
        """Puts a message in doubt, and sends it once that is on the disk. The entry is IN_DOUBT already
        (InDoubt.offer). path: the nodes where it has been before.
        """
        context = self.context
        peer.out_offered += 1
        sequence, message = peer.out_offered, entry.message
        expires, redeliveries = message.expires_ms > 0, entry.redeliveries
        peer.doubts[sequence] = PendingTransfer(
            queue, entry.position, entry.size, expires, context.now_ms, redeliveries
        )
        peer.doubt_bytes += entry.size
        peer.touch()
        if peer.link is not None:
            peer.link.gives[destination.startswith(COPIES)].used += peer.cost_of(destination, entry.size)
        context.write(Doubt(peer.name, sequence, queue.number, entry.position), 2 * WRITE_COST_BYTES)
        link, epoch = peer.link, peer.out_epoch
        path = [*path, self.name]
        parcel = self.parcels.offered(link, entry) if link is not None else 0
        if parcel:
            message = replace(message, body=b"")  # the body has gone ahead
        word = Transfer(epoch, sequence, destination, message, path, redeliveries, entry.redelivered, left, parcel)

        def say() -> None:
            if link is not None and peer.link is link and peer.out_epoch == epoch:
                peer.out_sent = sequence
                link.send(word, word.message.size + WRITE_COST_BYTES)
            if link is not None and parcel:
                self.parcels.handed_over(peer, link)

        # D15: the doubt is on the disk before the other node can hear of the message
        context.open.then.append(say)

    def welcome(self, peer: Peer, word: Welcome) -> None:
        """ON RECEIVE Welcome. The other side says what it has: messages in doubt are settled, and the link may hand
        over.
        """
        if word.epoch != peer.out_epoch or peer.is_welcome or not peer.is_greeted:
            raise LinkError(f"Welcome to epoch {word.epoch}; ours is {peer.out_epoch}, and each is answered once.")
        if peer.doubts or word.last > SEQUENCE_MAX:
            older = " One of the two has an older copy of its store"
            forgotten = f", or {peer.name} has forgotten this one, after {PEER_STORES_KEPT} others of its node"
            self._check_last(
                peer,
                word.last,
                older + ("." if word.last else forgotten + "."),
                f"Bring the newer store back, or run `radiator peer release {peer.name} --force` at {self.name}; what "
                "is in doubt there may then be processed twice (redelivered:true).",
            )
        elif not peer.out_taken <= word.last <= peer.out_sent:
            # nothing is in doubt: whatever the other side has, nothing is removed or given back
            self._note_disagreement(peer, word.last)
        peer.is_new = False
        peer.epoch_step = 1
        self._settle(peer, word.last)
        # D17: only here, and by the operator's word, does a message in doubt become READY again
        # a node that has forgotten this store says 0 too, though it may have had them
        touched = self._return_doubts(peer, redelivered=not word.last)
        peer.out_offered = peer.out_sent = word.last
        peer.is_welcome = True
        peer.touch()
        for queue in touched:
            queue.pump()

    def taken(self, peer: Peer, word: Taken) -> None:
        """ON RECEIVE Taken. Everything up to `last` is on the other side's disk."""
        if not peer.is_welcome:
            raise LinkError("Taken before Welcome.")
        self._check_last(peer, word.last)
        self._settle(peer, word.last)
        waiting, peer.waiting = peer.waiting, {}
        for pumped in waiting:
            pumped()

    def untaken(self, peer: Peer, word: Untaken) -> None:
        """ON RECEIVE Untaken. The other side has no such queue, and ignores the rest of this epoch: its next Welcome
        says what it has.
        """
        if word.epoch != peer.out_epoch or not peer.is_welcome:
            raise LinkError(f"Untaken of epoch {word.epoch}; ours is {peer.out_epoch}.")
        peer.begin_epoch()

    def release(self, peer: Peer) -> int:
        """By the operator's word, makes messages in doubt READY again: they may be processed twice. Returns how many.
        Each is marked as redelivered, since a consumer of the other node may have had it.
        """
        count = len(peer.doubts)
        touched = self._return_doubts(peer, redelivered=True)
        peer.touch()
        for queue in touched:
            queue.pump()
        return count

    def _return_doubts(self, peer: Peer, redelivered: bool) -> list[DurableQueue]:
        """Makes messages in doubt READY again, in their old places. Returns their queues, which must be pumped."""
        for sequence, pending in peer.doubts.items():
            self.context.write(Settle(peer.name, sequence))
            if redelivered:
                self.context.write(Count(pending.queue.number, pending.position, pending.redeliveries))
            pending.queue.in_doubt.give_back(pending.position, pending.size, redelivered)
        touched = dict.fromkeys(pending.queue for pending in peer.doubts.values())
        peer.doubts.clear()
        peer.doubt_bytes = 0
        return [*touched]

    def _check_last(self, peer: Peer, last: int, why: str = "", advice: str = "") -> None:
        """Raises LinkError if the other side cannot have that many messages, or had more before: nothing is deleted
        that was not offered.
        """
        # nobody can have what was not sent yet, since its doubt is not on the disk
        if not peer.out_taken <= last <= peer.out_sent:
            raise LinkError(
                f"{peer.name} says that it has messages up to {last}; it was offered {peer.out_sent}, and had "
                f"{peer.out_taken} before.{why}",
                advice,
            )

    def _note_disagreement(self, peer: Peer, last: int) -> None:
        """Logs that one of the two stores is an older copy of itself, or is not remembered by the other. Nothing is in
        doubt, so the link goes on from there.
        """
        if peer.is_new:
            what = (
                f"{peer.name} has messages 1 to {last} of {self.name}, whose store knows nothing of it. Nothing is "
                "lost; if this store is an older copy, they are in it again, and may be processed twice."
            )
        elif last < peer.out_taken:
            forgotten = f"; if it has met {PEER_STORES_KEPT} other stores of this node since, nothing is"
            what = (
                f"{peer.name} no longer knows that it took messages {last + 1} to {peer.out_taken}: if its "
                f"store is an older copy, those that nobody had processed are lost{'' if last else forgotten}."
            )
        else:
            what = (
                f"{peer.name} has messages {peer.out_sent + 1} to {last}, which {self.name} does not know to have "
                "handed over: if this store is an older copy, they are in it again, and may be processed twice."
            )
        self.context.note(
            "warning" if peer.is_new else "error",
            "store_not_known" if peer.is_new else "stores_disagree",
            node=peer.name,
            sentence=what,
        )

    def _settle(self, peer: Peer, last: int) -> None:
        """Removes here the messages up to `last`, which the other node has, in one batch with the row that says so."""
        if last == peer.out_taken:
            return
        peer.out_taken = last
        peer.touch()
        doubts = peer.doubts
        while doubts:
            sequence = next(iter(doubts))
            if sequence > last:
                return
            pending = doubts.pop(sequence)
            peer.doubt_bytes -= pending.size
            peer.handed_over += 1
            # D15: its Remove and this are in one batch
            self.context.write(Settle(peer.name, sequence))
            pending.queue.in_doubt.journal_handed_over(pending.position, pending.size, peer.name)
            pending.queue.in_doubt.taken(pending.position, pending.size, pending.expires)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def hello(self, peer: Peer, word: Hello) -> None:
        """ON RECEIVE Hello. A new connection of the other side: earlier ones no longer count. Welcome is sent when that
        is on the disk.

        Raises Refusal if this is one of the earlier connections, whose frames came late.
        """
        if word.epoch <= peer.in_epoch:
            raise Refusal("superseded", f"Epoch {word.epoch} of {peer.name} is over: it had {peer.in_epoch} already.")
        peer.in_epoch = word.epoch
        if len(word.children) != len(word.fanouts):
            raise LinkError(f"{peer.name} names {len(word.fanouts)} fanouts, and the children of {len(word.children)}.")
        peer.fanouts = dict(zip(word.fanouts, word.children, strict=True))
        peer.is_heard = True
        peer.is_answered = peer.is_deaf = False
        peer.touch()

    def transfer(self, peer: Peer, word: Transfer) -> None:
        """ON RECEIVE Transfer. Stores the message together with its sequence, or not at all."""
        if peer.is_deaf and word.epoch == peer.in_epoch:
            return  # sent before it had received Untaken
        if word.epoch != peer.in_epoch or not peer.is_answered:
            # D16: of an earlier connection
            raise LinkError(f"A message of epoch {word.epoch}; that of {peer.name} is {peer.in_epoch}.")
        if word.sequence != peer.in_last + 1:
            raise LinkError(f"Message {word.sequence} of {peer.name}, where {peer.in_last + 1} is due.")
        if word.sequence > peer.taken_sent + LINK_WINDOW:
            raise LinkError(
                f"Message {word.sequence} of {peer.name}, which knows of {peer.taken_sent} that were taken."
            )
        # D18: what `accept` puts, and the row with its sequence, are parts of the open batch
        if not self.accept(peer, word):
            # a message that is not stored is not taken: `last` stays, and the messages behind it are not taken either
            peer.is_answered, peer.is_deaf = False, True
            assert peer.link is not None, "a word is heard on a link only"
            peer.link.send(Untaken(word.epoch, word.destination.removeprefix("/queue/")))
            return
        peer.in_last = word.sequence
        peer.taken_in += 1
        peer.touch()
