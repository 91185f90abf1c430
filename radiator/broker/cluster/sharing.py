"""Which messages go where: queues of scope "cluster", and the copies of fanouts that wait for other nodes.

Local consumers come first: what is given away is surplus, ready while none of them has room. It goes to nodes that have
granted credit. A node whose consumers are idle while its queue is empty asks; who has surplus offers; the fullest is
granted credit, and nobody else. Asks and offers are hints: lost or late they cost time, never a message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radiator.broker.cluster.handover import Handover, path_of
from radiator.broker.cluster.peer import Peer
from radiator.broker.entry import Entry
from radiator.broker.kinds.durable_queue import DurableQueue
from radiator.broker.turn import Desk
from radiator.commands import AUTO
from radiator.limits import (
    AHEAD_DECAY,
    ASK_EVERY_S,
    LINK_CREDIT_MAX,
    LINK_WINDOW,
    NODES_MAX,
    PASSED_OVER_MAX,
    PATH_HOPS_MAX,
    PATIENCE_MAX_S,
    PATIENCE_S,
    QUEUE_HOPS_MAX,
)
from radiator.links import Ask, Grant, Offer


class Neighbourhood(Protocol):
    """What a share must know of its node."""

    name: str
    is_draining: bool
    peers: dict[str, Peer]

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether the two are linked, as far as is known."""

    def room_for(self, queue: DurableQueue) -> int:
        """How many messages disk, memory and the queue's bounds let come in."""


class Outbox:
    """The copies of fanouts that wait for one node. given, credit: how many were handed over on this link, and how many
    more may be.
    """

    __slots__ = ("credit", "given", "handover", "is_lacking", "peer", "queue", "tell_lacking")

    def __init__(
        self, queue: DurableQueue, peer: Peer, handover: Handover, tell_lacking: Callable[[Peer, str], None]
    ) -> None:
        self.queue = queue
        self.peer = peer
        self.handover = handover
        self.credit = self.given = 0
        self.is_lacking = False
        self.tell_lacking = tell_lacking
        queue.on_pumped = self.pumped

    def granted(self, through: int) -> None:
        """The other node takes so many on this link, in all."""
        self.credit = through - self.given
        self.pumped()

    def unlinked(self, peer: Peer) -> None:
        """Credit lasts as long as its link."""
        self.credit = self.given = 0
        self.is_lacking = False

    def pumped(self) -> None:
        """Hand over what is ready, in order; what the other node does not take is passed over."""
        queue, peer = self.queue, self.peer
        stays: list[Entry] = []
        while self.credit > 0 and len(stays) < PASSED_OVER_MAX and not queue.is_gone:
            if not self.handover.has_room(peer, self.pumped) or not queue.has_ready():
                break
            entry = queue.take_head()
            if entry is None:
                continue
            fanout = entry.message.destination.removeprefix("/fanout/")
            if fanout not in peer.fanouts:
                stays.append(entry)
                continue
            queue.doubt(entry)
            self.credit -= 1
            self.given += 1
            self.handover.offer(peer, queue, entry, entry.message.destination, queue.ready_count)
        for entry in stays:
            queue.put_back(entry)
        if stays and not self.is_lacking:
            self.is_lacking = True
            self.tell_lacking(peer, stays[0].message.destination.removeprefix("/fanout/"))


@dataclass(slots=True)
class Known:
    """An Offer, and what has become of it since."""

    ready: int
    hops: int
    is_draining: bool


class Share:
    """One queue of scope "cluster", as this node shares it.

    credits: what others let us hand them. told: what we said last that we could give. hungry: who has ever asked,
    and by which path. offered: what they were offered, and have not answered. offers: what others could give us.
    source: the one that we have granted `granted` more messages. ahead: how many we ask for beyond what is ready:
    doubled where consumers ran dry although somebody had more. is_asked: all who are linked know that we are hungry;
    awaited: they have not answered yet.
    """

    __slots__ = (
        "ahead", "around", "asked_s", "awaited", "credits", "desk", "granted", "handover", "hungry",
        "is_asked", "is_cramped", "is_dry", "is_pumping", "moved_s", "offered", "offers", "passed_s",
        "patience_s", "queue", "source", "staying", "told",
    )  # fmt: skip

    def __init__(self, queue: DurableQueue, desk: Desk, handover: Handover, around: Neighbourhood) -> None:
        self.queue = queue
        self.desk = desk
        self.handover = handover
        self.around = around
        self.credits: dict[str, int] = {}
        self.hungry: dict[str, list[str]] = {}
        self.offered: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.offers: dict[str, Known] = {}
        self.source = ""
        self.granted = 0
        self.ahead = 0
        self.is_dry = False
        self.is_cramped = False  # nothing was granted for want of room
        self.is_asked = False
        self.asked_s = 0.0
        self.patience_s = PATIENCE_S
        self.moved_s = desk.now_s  # when the last message came, or credit was granted
        self.awaited: set[str] = set()
        self.passed_s: dict[str, float] = {}
        self.is_pumping = False
        self.staying = 0  # messages that may travel no more, as last seen
        queue.on_pumped = self.pumped

    def pumped(self) -> None:
        """After each change of the queue: give what is surplus, or see to it that more comes."""
        if self.is_pumping:
            return
        self.is_pumping = True
        if (self.credits or self.hungry or self.around.is_draining) and self.queue.has_surplus():
            self.give()
            self.offer()
        if self.credits:
            self.tell_empty()
        if not self.around.is_draining and not self.queue.is_gone:
            self.want()
        self.is_pumping = False

    # ---- giving -----------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Surplus to those who have granted credit, round robin."""
        queue = self.queue
        stays: list[Entry] = []
        while len(stays) < PASSED_OVER_MAX and queue.has_surplus():
            peer = self.next_taker()
            if peer is None:
                break
            entry = queue.take_head()
            if entry is None:
                continue
            if len(path_of(entry.message.headers)) >= PATH_HOPS_MAX and not self.around.is_draining:
                stays.append(entry)  # it has travelled enough
                continue
            queue.doubt(entry)
            self.credits[peer.name] -= 1
            assert peer.link is not None, "there is room on a link only"
            peer.link.given[queue.name] = peer.link.given.get(queue.name, 0) + 1
            if not self.credits[peer.name]:
                del self.credits[peer.name]
                self.offered[peer.name] = queue.ready_count  # as the last message will tell
            self.told[peer.name] = left = self.could_give(peer.name)
            self.handover.offer(peer, queue, entry, f"/queue/{queue.name}", left)
        for entry in stays:
            queue.put_back(entry)
        self.staying = len(stays)

    def next_taker(self) -> Peer | None:
        """Of those with credit and room, the one served longest ago."""
        for name, credit in self.credits.items():
            peer = self.around.peers[name]
            if credit > 0 and self.handover.has_room(peer, self.pumped):
                self.credits[name] = self.credits.pop(name)
                return peer
        return None

    def could_give(self, to: str) -> int:
        """What is here, and what the fullest of those that it cannot ask itself could give through us."""
        best = self.best_offer([to])
        return self.givable + (self.offers[best].ready if best is not None else 0)

    @property
    def givable(self) -> int:
        """What is ready here and may travel, as far as is known."""
        return max(0, self.queue.ready_count - self.staying)

    def tell_empty(self) -> None:
        """Who has granted us credit must not wait for us, where others may have some."""
        for name in self.credits:
            if self.told.get(name) != 0 and not self.could_give(name):
                self.told[name] = 0
                self.tell(name, Offer(self.queue.name, 0, 1, self.around.is_draining))

    def offer(self) -> None:
        """Tell those who have asked; while draining, everybody."""
        ready, draining = self.givable, self.around.is_draining
        if not ready:
            return
        names = [name for name, peer in self.around.peers.items() if peer.is_welcome] if draining else self.hungry
        for name in names:
            if self.offered.get(name, 0) == 0 and self.credits.get(name, 0) == 0:
                self.offered[name] = self.told[name] = ready
                self.tell(name, Offer(self.queue.name, ready, 1, draining))

    def asked(self, peer: Peer, word: Ask) -> None:
        """ON RECEIVE Ask."""
        if self.around.name in word.path:
            return
        self.hungry[peer.name] = word.path
        self.offered.pop(peer.name, None)
        self.offers.pop(peer.name, None)
        if self.around.is_draining:
            return
        if self.queue.ready_count and not self.idle_slots():
            self.pumped()
            return
        best = self.best_offer(word.path)
        if best is None or not self.pass_offer(peer.name, best):
            self.tell(peer.name, Offer(self.queue.name, 0, 1, False))
        self.pass_ask(word.path)

    def pass_ask(self, path: list[str]) -> None:
        """To nodes that who asks cannot ask itself; not more often than it makes sense."""
        asker, now_s = path[0], self.desk.now_s
        if len(path) >= QUEUE_HOPS_MAX or now_s - self.passed_s.get(asker, -ASK_EVERY_S) < ASK_EVERY_S:
            return
        if len(self.passed_s) >= NODES_MAX:
            self.passed_s.clear()
        self.passed_s[asker] = now_s
        for name, other in self.around.peers.items():
            if other.is_welcome and not self.is_near(path, name):
                self.tell(name, Ask(self.queue.name, [*path, self.around.name]))

    def is_near(self, path: list[str], name: str) -> bool:
        """Whether that node is in the path of an Ask, or can be asked without us by a node that is."""
        return any(name == other or self.around.are_neighbours(name, other) for other in path)

    def granted_by(self, peer: Peer, through: int) -> None:
        """ON RECEIVE Grant: it takes so many on this link, in all."""
        assert peer.link is not None, "a word is heard on a link only"
        credit = through - peer.link.given.get(self.queue.name, 0)
        self.hungry.setdefault(peer.name, [peer.name])
        self.offered.pop(peer.name, None)
        if credit > 0:
            self.credits[peer.name] = credit
            self.offers.pop(peer.name, None)  # it has none itself any more
        else:
            self.credits.pop(peer.name, None)
        self.pumped()

    # ---- wanting ----------------------------------------------------------------------------------------------------

    def want(self) -> None:
        """More credit to the fullest, or the question who has some."""
        queue = self.queue
        stock = self.givable + queue.storing_count
        idle = 0 if stock else self.idle_slots()
        source = self.offers.get(self.source)
        is_relief = source is not None and source.is_draining
        if self.granted and stock > self.ahead and not is_relief and self.queue.has_surplus():
            self.withdraw()  # there is more here than our consumers can take
        best = self.best_offer()
        if idle and best is not None and not self.is_dry:
            self.is_dry = True
            self.ahead = min(LINK_CREDIT_MAX, max(idle, 2 * self.ahead))
        if best is None:
            if idle:
                self.ask()
            return
        if self.awaited and self.desk.now_s - self.asked_s < ASK_EVERY_S:
            return  # a fuller one may still answer
        relayed = sum(credit for name, credit in self.credits.items() if not self.around.are_neighbours(name, best))
        target = min(LINK_CREDIT_MAX, max(idle, self.ahead) + relayed)
        coming = self.granted if source is not None and source.ready else 0
        if stock + coming > target // 2 or not target:
            return
        room = self.around.room_for(queue)
        self.is_cramped = not room
        if room:
            self.grant(best, min(target - stock, room))

    def idle_slots(self) -> int:
        """How many messages our consumers could take at once; an ack:auto one counts as one."""
        slots = 0
        for subscription in self.queue.ring:
            if subscription.has_room():
                if subscription.is_shared or subscription.ack == AUTO:
                    slots += 1
                else:
                    slots += (subscription.prefetch_count or 1) - subscription.in_flight
            if slots >= LINK_CREDIT_MAX:
                return LINK_CREDIT_MAX
        return slots

    def best_offer(self, path: list[str] | None = None) -> str | None:
        """The fullest; of those alike, the nearest. Not who wants some itself, nor who is near the path of an Ask."""
        usable = [
            (-offer.ready, offer.hops, name)
            for name, offer in self.offers.items()
            if offer.ready > 0 and name not in self.credits and not (path and self.is_near(path, name))
        ]
        return min(usable)[2] if usable else None

    def ask(self) -> None:
        """Everybody who is linked, once: they remember it."""
        if self.is_asked:
            return
        self.is_asked = True
        self.asked_s = self.desk.now_s
        for name, peer in self.around.peers.items():
            if peer.link is not None:
                self.awaited.add(name)
                self.tell(name, Ask(self.queue.name, [self.around.name]))

    def grant(self, name: str, credit: int) -> None:
        """To one node at a time: who had credit before and is not the fullest any more loses it."""
        if self.source != name and self.granted:
            self.withdraw()
            self.is_asked = False
        self.source, self.granted = name, credit
        self.moved_s = self.desk.now_s
        self.tell_granted()

    def withdraw(self) -> None:
        """The source may hand us no more than has come: what is on its way comes all the same."""
        self.granted = 0
        self.tell_granted()

    def tell_granted(self) -> None:
        link, name = self.around.peers[self.source].link, self.queue.name
        if link is not None:
            through = link.arrived.get(name, 0) + self.granted
            link.allowed[name] = max(through, link.allowed.get(name, 0))
            link.tell(Grant(name, through))

    def offered_by(self, peer: Peer, word: Offer) -> None:
        """ON RECEIVE Offer."""
        self.awaited.discard(peer.name)
        self.offers[peer.name] = Known(word.ready, word.hops, word.is_draining)
        if word.ready and word.hops == 1:
            self.credits.pop(peer.name, None)  # it has some itself now
        if word.ready and peer.name == self.source:
            self.granted = 0  # offers are for those who have granted nothing
        if self.around.is_draining:
            return
        if word.is_draining:
            self.relieve(peer.name)
        self.want()
        if not self.queue.ready_count:
            for name, path in self.hungry.items():
                if peer.name not in path and self.offered.get(name, 0) == 0:
                    self.pass_offer(name, peer.name)

    def pass_offer(self, to: str, source: str) -> bool:
        """What another could give through us. Whether it was said."""
        word = self.offers[source]
        if word.hops >= QUEUE_HOPS_MAX or self.is_near(self.hungry[to], source):
            return False
        self.offered[to] = self.told[to] = word.ready
        self.tell(to, Offer(self.queue.name, word.ready, word.hops + 1, False))
        return True

    def relieve(self, name: str) -> None:
        """Take from a node that is being drained, whether we need it or not."""
        word = self.offers[name]
        room = self.around.room_for(self.queue)
        if not self.granted and word.ready > 0 and room:
            self.grant(name, min(word.ready, LINK_WINDOW, room))

    def came(self, peer: Peer, left: int) -> None:
        """A message of it has come from there, where so many more are left."""
        self.is_asked = self.is_dry = False
        self.awaited.discard(peer.name)  # `left` is an answer too
        self.moved_s = self.desk.now_s
        self.patience_s = PATIENCE_S
        if peer.name == self.source and self.granted:
            self.granted -= 1
        known = self.offers.get(peer.name)
        if known is not None:
            known.ready = left
            if known.is_draining and not self.around.is_draining:
                self.relieve(peer.name)

    # ---- time and links ---------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether time alone may change what is to be done."""
        if self.queue.ring and (not self.is_asked or self.desk.now_s - self.moved_s >= self.patience_s):
            return True
        return bool(self.ahead or self.granted or self.credits or self.awaited or self.is_cramped)

    def ticked(self) -> None:
        """Want less ahead where consumers have not run dry since the last message came.

        What is known of others are hints: where nothing comes of them they are forgotten, ever more seldom.
        """
        if self.ahead and not self.is_dry:
            self.ahead -= -(-self.ahead // AHEAD_DECAY)
        if self.desk.now_s - self.moved_s >= self.patience_s and not self.queue.ready_count and self.idle_slots():
            self.moved_s = self.desk.now_s
            self.patience_s = min(2 * self.patience_s, PATIENCE_MAX_S)
            if self.granted:
                self.withdraw()
            self.offers.clear()
            self.is_asked = False
        self.pumped()

    def rerouted(self) -> None:
        """Other nodes are linked than before: who is asked, and for whom we ask, is judged anew."""
        self.is_asked = False
        self.passed_s.clear()
        for path in self.hungry.values():
            self.pass_ask(path)
        self.pumped()

    def drained(self, is_draining: bool) -> None:
        """The operator has begun, or ended, to empty this node."""
        if self.granted:
            self.withdraw()
        self.offered.clear()
        self.is_asked = False
        self.pumped()

    def linked(self, peer: Peer) -> None:
        """It can be asked, or handed what it has granted credit for."""
        self.is_asked = False
        self.rerouted()

    def unlinked(self, peer: Peer) -> None:
        """Nothing that it has said of this queue counts any more."""
        self.credits.pop(peer.name, None)
        self.hungry.pop(peer.name, None)
        self.offered.pop(peer.name, None)
        self.offers.pop(peer.name, None)
        self.told.pop(peer.name, None)
        self.awaited.discard(peer.name)
        if self.source == peer.name:
            self.source, self.granted = "", 0
        self.is_asked = False

    def tell(self, name: str, word: Ask | Offer | Grant) -> None:
        """To a linked node."""
        link = self.around.peers[name].link
        if link is not None:
            link.tell(word)
