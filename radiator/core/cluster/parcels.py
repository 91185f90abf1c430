"""The bytes of large messages, which go ahead of them in pieces, so that other messages can go between.

A message larger than LINK_WHOLE_BYTES is first carried: the giver announces it (Parcel), the taker says from which byte
on it wants it (Proceed), and the bytes come (Piece), never more than PIECES_AHEAD_BYTES ahead of what the system has
taken. All that time the message is ready at the giver, as if nothing had been sent: it is not in doubt, has no
sequence, and a consumer may take it. Only when all bytes have come does the hand-over begin, with a Transfer whose body
is there already. So the proof of the hand-over does not involve pieces, and nothing partial is counted or delivered.

When a link is cut the taker keeps what it has for PARTS_KEPT_S, and the next Parcel of the same message goes on from
there.
"""

from collections.abc import Callable

from radiator.core.cluster.link import Link
from radiator.core.cluster.parcel import IncomingParcel, Key, OutgoingParcel
from radiator.core.cluster.peer import Peer
from radiator.core.queues.entry import Entry
from radiator.core.routing.admission import Admission
from radiator.core.states import State
from radiator.core.turn import TurnContext
from radiator.model.errors import LinkError
from radiator.model.limits import LINK_PARTS_BYTES, PARTS_KEPT_S, PATIENCE_S, PIECE_BYTES, PIECES_AHEAD_BYTES
from radiator.model.message import split_position
from radiator.model.peer import Parcel, Piece, Proceed


class Parcels:
    """Both sides of all links. life: this node's, a new one with each start. kept: what was incomplete when its link
    was lost, or when it made way for another; the oldest first.
    """

    __slots__ = ("context", "admission", "kept", "life", "links", "numbers")

    def __init__(self, context: TurnContext, admission: Admission, life: int) -> None:
        self.context = context
        self.admission = admission
        self.life = life
        self.links: dict[Link, None] = {}  # the links on which a parcel arrives
        self.kept: dict[Key, IncomingParcel] = {}
        self.numbers = 0

    # ---- out --------------------------------------------------------------------------------------------------------

    def has_gone_ahead(self, link: Link, destination: str, entry: Entry, pumped: Callable[[], None]) -> bool:
        """Whether the bytes of that message are at the other node; if not they go, or wait until another's have gone,
        and `pumped` is called when they have.
        """
        outgoing = link.outgoing
        if outgoing is not None and outgoing.entry is entry:
            return outgoing.carried_s is not None
        if outgoing is not None and (
            outgoing.is_offered or (outgoing.pumped != pumped and outgoing.entry.state is State.READY)
        ):
            link.parcels_waiting[pumped] = None
            return False
        self.numbers += 1
        link.outgoing = OutgoingParcel(self.numbers, destination, entry, entry.message.body, pumped, self.context.now_s)
        self.announce(link, link.outgoing, len(link.outgoing.body))
        return False

    def is_there(self, link: Link, entry: Entry) -> bool:
        """Whether all bytes of the message have been sent on that link."""
        outgoing = link.outgoing
        return outgoing is not None and outgoing.entry is entry and outgoing.carried_s is not None

    def is_awaited(self, link: Link, entry: Entry) -> bool:
        """Whether the bytes of the message go ahead on that link. False if the other node has had no room for them for
        so long that the message may go to other nodes.
        """
        outgoing = link.outgoing
        if outgoing is None or outgoing.entry is not entry:
            return False
        return outgoing.may_go or self.context.now_s - outgoing.begun_s < PATIENCE_S

    def announce(self, link: Link, outgoing: OutgoingParcel, size: int) -> None:
        """Sends the Parcel that announces a message. size: that of its body; 0: the announcement is taken back."""
        boot, sequence = split_position(outgoing.entry.position)
        link.send(Parcel(outgoing.destination, outgoing.number, self.life, boot, sequence, size))

    def proceed(self, link: Link, word: Proceed) -> None:
        """ON RECEIVE Proceed; one for an earlier parcel is ignored."""
        outgoing = link.outgoing
        if outgoing is None or outgoing.number != word.parcel or outgoing.may_go:
            return
        if word.have > len(outgoing.body):
            raise LinkError(f"Proceed from byte {word.have} of a message that has {len(outgoing.body)}.")
        outgoing.may_go = True
        outgoing.at = word.have
        self.carry(link)

    def carry(self, link: Link) -> None:
        """Sends as many bytes as the outgoing buffer should hold."""
        outgoing = link.outgoing
        if outgoing is None or not outgoing.may_go or outgoing.carried_s is not None:
            return
        body, number = outgoing.body, outgoing.number
        while link.connection.outbox_bytes < PIECES_AHEAD_BYTES and outgoing.at < len(body):
            data = body[outgoing.at : outgoing.at + PIECE_BYTES]
            link.send(Piece(number, outgoing.at, data), len(data))
            outgoing.at += len(data)
        if outgoing.at == len(body):
            outgoing.carried_s = self.context.now_s
            outgoing.pumped()

    def offered(self, link: Link, entry: Entry) -> int:
        """Returns the number of the parcel in which the message's body has gone ahead; 0: in none. No other parcel is
        announced until its Transfer is sent: the other node has room for one.
        """
        if link.outgoing is None or link.outgoing.entry is not entry:
            return 0
        link.outgoing.is_offered = True
        return link.outgoing.number

    def handed_over(self, peer: Peer, link: Link) -> None:
        """Called when a Transfer was sent. Senders that wait look again when it is taken, not while another is
        handled.
        """
        link.outgoing = None
        peer.waiting.update(link.parcels_waiting)
        link.parcels_waiting.clear()

    def look(self, link: Link) -> None:
        """ON TICK: drops parcels whose message has left another way, or is not wanted now, to make room for others."""
        outgoing = link.outgoing
        if (
            outgoing is not None
            and not outgoing.is_offered
            and (
                outgoing.entry.state is not State.READY
                or (outgoing.carried_s is not None and self.context.now_s - outgoing.carried_s >= PATIENCE_S)
            )
        ):
            link.outgoing = None
            self.announce(link, outgoing, 0)
        if link.outgoing is not None and not self.is_awaited(link, link.outgoing.entry):
            link.outgoing.pumped()
        if link.outgoing is None and link.parcels_waiting:
            waiting, link.parcels_waiting = link.parcels_waiting, {}
            for pumped in waiting:
                pumped()

    # ---- in ---------------------------------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The memory that all incomplete parcels take, or will take."""
        coming = sum(link.incoming.size for link in self.links if link.incoming is not None and link.incoming.may_come)
        return coming + sum(len(piece) for incoming in self.kept.values() for piece in incoming.pieces)

    def begin(self, link: Link, word: Parcel) -> None:
        """ON RECEIVE Parcel: asks for its bytes as soon as there is room. An incomplete parcel on that link makes way
        for it. Size 0 takes the announcement back.
        """
        if word.size > self.admission.limits.max_frame_bytes:
            raise LinkError(f"A body of {word.size} bytes: max_frame_bytes is {self.admission.limits.max_frame_bytes}.")
        self.set_aside(link)
        if not word.size:
            self.let_others_come()
            return
        key = link.name, link.identity.store_id, word.life, word.boot, word.sequence
        incoming = self.kept.pop(key, None)
        if incoming is None or incoming.size != word.size:
            incoming = IncomingParcel(word.parcel, key, word.destination, word.size)
        incoming.number, incoming.destination = word.parcel, word.destination
        link.incoming = incoming
        self.links[link] = None
        self.let_come(link, incoming)

    def let_come(self, link: Link, incoming: IncomingParcel) -> None:
        """Asks for the bytes of a parcel if there is room for them; there always is for one large message."""
        if self.admission.memory_wait_list.is_tight:
            return
        while self.held_bytes + incoming.size > LINK_PARTS_BYTES and self.kept:
            del self.kept[next(iter(self.kept))]
        held = self.held_bytes
        if held and held + incoming.size > LINK_PARTS_BYTES:
            return
        incoming.may_come = True
        incoming.until_s = self.context.now_s + PARTS_KEPT_S
        link.send(Proceed(incoming.number, incoming.have))

    def piece(self, link: Link, word: Piece) -> None:
        """ON RECEIVE Piece: takes the next bytes of the parcel that was asked for. Raises LinkError for any others."""
        incoming = link.incoming
        if incoming is None or not incoming.may_come or incoming.number != word.parcel or incoming.have != word.at:
            raise LinkError(f"Bytes from {word.at} on of message {word.parcel}, which were not asked for.")
        if incoming.have + len(word.data) > incoming.size or not word.data:
            raise LinkError(f"{incoming.have + len(word.data)} bytes of a message of {incoming.size}.")
        incoming.pieces.append(word.data)
        incoming.have += len(word.data)
        incoming.until_s = self.context.now_s + PARTS_KEPT_S

    def body(self, link: Link, parcel: int) -> bytes:
        """Returns the whole body of the message that a Transfer hands over, and forgets it."""
        incoming = link.incoming
        if incoming is None or incoming.number != parcel or incoming.have != incoming.size:
            raise LinkError(f"A message whose body is that of {parcel}, which is not here.")
        self.forget(link)
        return b"".join(incoming.pieces)

    def forget(self, link: Link) -> None:
        """Called when no parcel arrives on that link any more: asks for others that wait for room."""
        link.incoming = None
        self.links.pop(link, None)
        self.let_others_come()

    def let_others_come(self) -> None:
        """Asks for parcels that wait for room, first come, first served."""
        for link in self.links:
            if link.incoming is not None and not link.incoming.may_come:
                self.let_come(link, link.incoming)

    def set_aside(self, link: Link) -> None:
        """Keeps what is incomplete on that link for a later link."""
        incoming = link.incoming
        if incoming is None:
            return
        link.incoming = None
        self.links.pop(link, None)
        if incoming.have:
            incoming.may_come = False
            incoming.until_s = self.context.now_s + PARTS_KEPT_S
            self.kept[incoming.key] = incoming

    def unlinked(self, link: Link) -> None:
        """ON LINK DOWN."""
        self.set_aside(link)
        link.outgoing = None
        link.parcels_waiting.clear()

    def ticked(self) -> list[Link]:
        """ON TICK: drops parcels that nobody has continued. Returns the links on which no bytes arrive although they
        were asked for.
        """
        while self.kept:
            key, first = next(iter(self.kept.items()))
            if first.until_s > self.context.now_s:
                break
            del self.kept[key]
        self.let_others_come()
        self.admission.memory.parts_bytes = self.held_bytes
        now_s = self.context.now_s
        coming = [(link, link.incoming) for link in self.links if link.incoming is not None]
        return [link for link, incoming in coming if incoming.may_come and incoming.until_s <= now_s]
