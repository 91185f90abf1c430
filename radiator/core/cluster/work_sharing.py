"""Which messages of a queue of scope "cluster" go where.

Local consumers come first: what is given away is surplus, ready while none of them has room. It goes to nodes that have
granted credit. A node whose consumers are idle while its queue is empty asks; who has surplus offers; the fullest is
granted credit, and nobody else. Asks, offers and grants are hints: lost or late they cost time, never a message; where
nothing comes of them, they are forgotten and said anew. They answer each other, so they are counted: where no message
comes or goes, a share says only so many from one Tick to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from radiator.core.cluster.handover import Handover
from radiator.core.cluster.link import Link
from radiator.core.cluster.peer import Peer
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO
from radiator.model.limits import (
    AHEAD_DECAY,
    ASK_EVERY_S,
    HINTS_MAX,
    LINK_CREDIT_MAX,
    LINK_OFFER_MAX,
    LINK_WINDOW,
    NODES_MAX,
    PASSED_OVER_MAX,
    PATH_HOPS_MAX,
    PATIENCE_MAX_S,
    PATIENCE_S,
    QUEUE_HOPS_MAX,
    STARVING_S,
)
from radiator.model.peer import Credit, Demand, Supply


class Neighbourhood(Protocol):
    """What a share must know of its node."""

    name: str
    is_draining: bool
    peers: dict[str, Peer]

    def are_neighbours(self, one: str, other: str) -> bool:
        """Whether the two are linked, as far as is known."""

    def room_for(self, queue: DurableQueue) -> int:
        """How many messages disk, memory and the queue's bounds let come in."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """What a linked node and this one have told each other of one queue, as long as the link lasts.

    As a taker. path: by which its last Ask came; empty: it never asked. told: how many we could give, as it knows.
    credit: how many more it lets us hand it.
    As a giver. is_asked: it knows that we are hungry. ready, hops, is_draining: its last Offer, and what has become of
    it since.
    """

    peer: Peer
    link: Link
    path: Sequence[str] = ()
    told: int = 0
    credit: int = 0
    is_asked: bool = False
    ready: int = 0
    hops: int = 1
    is_draining: bool = False


class Share:
    """One queue of scope "cluster", as this node shares it.

    source: the one giver that we have granted `granted` more messages. ahead: how many we ask for beyond what is ready:
    doubled where consumers ran dry (is_dry) although somebody had more. is_asked: all who are linked know that we are
    hungry; awaited: they have not answered yet. is_cramped: there was no room for more. hoped_s: when we last asked,
    granted or got something. staying: messages that may not travel now, as last seen; refused_s: since when they are
    wanted elsewhere, and nothing else is given (0: they are not); wanted_s: when that was so last. hints: how many were
    said since the last message came or went, or the last Tick; is_owing: there was more to say.
    """

    __slots__ = (
        "address", "ahead", "around", "asked_s", "awaited", "context", "granted", "handover", "hints", "hoped_s",
        "is_asked", "is_cramped", "is_dry", "is_owing", "neighbours", "passed_s", "patience_s", "queue", "refused_s",
        "source", "staying", "wanted_s", "was_draining",
    )  # fmt: skip

    def __init__(self, queue: DurableQueue, context: TurnContext, handover: Handover, around: Neighbourhood) -> None:
        self.queue = queue
        self.address = f"/queue/{queue.name}"
        self.context = context
        self.handover = handover
        self.around = around
        self.neighbours: dict[str, Neighbour] = {}
        self.staying = 0
        self.refused_s = self.wanted_s = 0.0
        self.was_draining = around.is_draining
        self.source: Neighbour | None = None
        self.granted = 0
        self.ahead = 0
        self.is_dry = self.is_cramped = self.is_asked = self.is_owing = False
        self.hints = 0
        self.awaited: set[str] = set()
        self.asked_s = 0.0
        self.hoped_s = context.now_s
        self.patience_s = PATIENCE_S
        self.passed_s: dict[str, float] = {}
        queue.observe(self.pumped)

    def pumped(self) -> None:
        """After each change of the queue: give what is surplus, or see to it that more comes."""
        if self.queue.is_gone:
            return  # deleted, while it waited for room in the window
        if self.neighbours or self.around.is_draining:
            self.give()
        if self.may_say():
            if self.neighbours or self.around.is_draining:
                self.tell_takers()
            if not self.around.is_draining:
                self.want()

    def neighbour(self, peer: Peer) -> Neighbour:
        """What is known of it."""
        known = self.neighbours.get(peer.name)
        if known is None:
            assert peer.link is not None, "only who is linked says something, or is told"
            known = self.neighbours[peer.name] = Neighbour(peer, peer.link)
        return known

    def may_say(self) -> bool:
        """Whether enough is left to say one thing to everybody; otherwise the next Tick says what there is then."""
        has_said_enough = self.hints >= HINTS_MAX * (1 + len(self.neighbours))
        self.is_owing |= has_said_enough
        return not has_said_enough

    # ---- giving -----------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Surplus to those who have granted credit, round robin."""
        queue = self.queue
        stays: list[Entry] = []
        aside: list[Entry] = []
        while len(stays) + len(aside) < PASSED_OVER_MAX and queue.has_surplus() and queue.ready_count > self.kept:
            if not any(taker.credit > 0 for taker in self.neighbours.values()):
                break
            head = queue.peek_head()
            if head is not None and not self.handover.is_carried(queue, head):
                aside += filter(None, (queue.take_head(),))
                continue
            taker = self.next_taker(head)
            if taker is None:
                break
            entry = queue.take_head()
            if entry is None:
                continue
            path = [] if self.around.is_draining else self.handover.path_before(entry)
            if len(path) >= PATH_HOPS_MAX:
                if not self.is_starving:
                    stays.append(entry)  # it has travelled enough for now
                    continue
                path = []
            elif not self.around.is_draining:
                self.refused_s = 0.0
            queue.in_doubt.offer(entry)
            self.hints = 0
            taker.credit -= 1
            given = taker.link.given
            given[queue.name] = given.get(queue.name, 0) + 1
            taker.told = self.could_give(taker)
            self.handover.offer(taker.peer, queue, entry, self.address, path, taker.told)
        for entry in (*stays, *aside):
            queue.window.put_back(entry)
        self.staying = len(stays) + len(aside)
        if stays and not self.refused_s:
            self.refused_s = self.wanted_s = self.context.now_s

    @property
    def is_starving(self) -> bool:
        """Whether somebody has wanted for long what stays here, and got nothing else."""
        return 0 < self.refused_s <= self.context.now_s - STARVING_S

    def next_taker(self, head: Entry | None) -> Neighbour | None:
        """Of those with credit, and room for that message, the one served longest ago; of a large one, who has got it
        already.
        """
        handover, pumped, address = self.handover, self.pumped, self.address
        size = head.size if head is not None else 0
        is_awaited = False  # at one of them: its bytes go to no other then
        for name, taker in self.neighbours.items():
            peer = taker.peer
            if taker.credit <= 0 or not handover.has_room(peer, pumped):
                continue
            if not handover.fits(peer, address, size, pumped):
                continue
            if (
                head is None
                or self.has_travelled(head)
                or handover.has_gone_ahead(peer, address, head, pumped, is_awaited)
            ):
                self.neighbours[name] = self.neighbours.pop(name)
                return taker
            is_awaited = is_awaited or handover.parcels.is_awaited(taker.link, head)
        return None

    def has_travelled(self, entry: Entry) -> bool:
        """Whether it has been on so many nodes that it stays for now."""
        if self.around.is_draining or self.is_starving:
            return False
        return len(self.handover.path_before(entry)) >= PATH_HOPS_MAX

    @property
    def kept(self) -> int:
        """How many stay for consumers here, who would ask for them again: what was asked for ahead, of half at most."""
        if self.around.is_draining or not self.queue.subscriptions:
            return 0
        return min(self.ahead, self.queue.ready_count // 2)

    @property
    def givable(self) -> int:
        """What is ready here and may travel, as far as is known."""
        return max(0, self.queue.ready_count - self.staying - self.kept)

    def could_give(self, taker: Neighbour) -> int:
        """What is here, and what the fullest of those that it cannot ask itself could give through us."""
        best = self.best_giver((taker.peer.name,))
        return self.givable + (best.ready if best is not None else 0)

    def tell_takers(self) -> None:
        """Who has asked (while draining: everybody) hears once that there is some; who has granted, that none is left.

        Who has granted credit must not wait for us where others may have some.
        """
        is_draining = self.around.is_draining
        if is_draining:
            for peer in self.around.peers.values():
                if peer.is_welcome:
                    self.neighbour(peer)
        for taker in self.neighbours.values():
            if taker.credit:
                if taker.told and not self.could_give(taker):
                    self.offer(taker, 0)
            elif not taker.told and (taker.path or is_draining) and self.givable and self.queue.has_surplus():
                self.offer(taker, self.givable)

    def offer(self, taker: Neighbour, ready: int, hops: int = 1) -> None:
        """Tell it what it could get from us, or through us."""
        self.hints += 1
        taker.told = ready
        taker.link.tell(Supply(self.queue.name, ready, hops, self.around.is_draining))

    def granted_by(self, peer: Peer, through: int) -> None:
        """ON RECEIVE Grant: it takes so many on this link, in all."""
        taker = self.neighbour(peer)
        taker.path = taker.path or (peer.name,)
        taker.credit = max(0, through - taker.link.given.get(self.queue.name, 0))
        if taker.credit:
            taker.ready = 0  # it has none itself any more
            taker.told = taker.told or 1  # it believes that there is some: else it must hear that there is not
        self.pumped()

    def asked(self, peer: Peer, word: Demand) -> None:
        """ON RECEIVE Ask."""
        if self.around.name in word.path:
            return
        asker = self.neighbour(peer)
        asker.path = word.path
        asker.told = 0
        if len(word.path) == 1:
            asker.ready = 0  # it has none itself
        self.pumped()
        if asker.told:
            return
        if self.may_say() and not self.relay(asker):
            self.offer(asker, 0)
        self.pass_ask(word.path)

    # ---- for others, who are not linked -----------------------------------------------------------------------------

    def pass_ask(self, path: Sequence[str]) -> None:
        """To nodes that who asks cannot ask itself; not more often than it makes sense."""
        asker, now_s = path[0], self.context.now_s
        if self.around.is_draining or len(path) >= QUEUE_HOPS_MAX:
            return
        if now_s - self.passed_s.get(asker, -ASK_EVERY_S) < ASK_EVERY_S:
            return
        if len(self.passed_s) >= NODES_MAX:
            self.passed_s.clear()
        self.passed_s[asker] = now_s
        for name, peer in self.around.peers.items():
            if peer.link is not None and peer.is_welcome and not self.is_near(path, name):
                peer.link.tell(Demand(self.queue.name, [*path, self.around.name]))

    def relay(self, asker: Neighbour) -> bool:
        """Offer what another could give through us. Whether there is such a one."""
        best = self.best_giver(asker.path)
        if best is None or self.around.is_draining:
            return False
        self.offer(asker, best.ready, best.hops + 1)
        return True

    def relay_to_all(self) -> None:
        """To all who have asked, and know of nothing that they could get through us."""
        if not self.queue.ready_count:
            for asker in self.neighbours.values():
                if asker.path and not asker.told and not asker.credit:
                    self.relay(asker)

    def is_near(self, path: Sequence[str], name: str) -> bool:
        """Whether that node is in the path of an Ask, or can be asked without us by a node that is."""
        return any(name == other or self.around.are_neighbours(name, other) for other in path)

    # ---- wanting ----------------------------------------------------------------------------------------------------

    def want(self) -> None:
        """More credit to the fullest, or the question who has some."""
        queue, source = self.queue, self.source
        self.is_cramped = False
        stock = max(0, queue.ready_count - self.staying) + queue.storing_count
        if self.granted and source is not None and not source.is_draining and self.is_sated(stock):
            self.withdraw()
        best = self.best_giver()
        if best is None:
            if not stock and not self.is_asked and self.idle_slots(1):
                self.ask()
            return
        if best.is_draining:
            if not self.coming:
                self.grant(best, min(best.ready, LINK_WINDOW))  # whether we need it or not
            return
        idle = 0 if stock else self.idle_slots(LINK_CREDIT_MAX)
        if idle and not self.is_dry:
            self.is_dry = True
            self.ahead = min(LINK_CREDIT_MAX, max(idle, 2 * self.ahead))
        if self.awaited and self.context.now_s - self.asked_s < ASK_EVERY_S:
            return  # a fuller one may still answer
        wanted = max(idle, self.ahead)
        source = best if wanted else self.best_for_takers()
        if source is None:
            return
        near = self.around.are_neighbours
        relayed = sum(t.credit for name, t in self.neighbours.items() if not near(name, source.peer.name))
        target = min(LINK_CREDIT_MAX, wanted + relayed)
        if target and stock + self.coming <= target // 2:
            self.grant(source, target - stock)

    def best_for_takers(self) -> Neighbour | None:
        """The fullest for one who has granted credit and cannot ask it itself."""
        found = (self.best_giver((name,)) for name, taker in self.neighbours.items() if taker.credit)
        return next((giver for giver in found if giver is not None), None)

    def is_sated(self, stock: int) -> bool:
        """Whether there is more here than our consumers can take, or nobody waits for more."""
        if self.queue.ring:
            return False
        if stock > self.ahead:
            return self.queue.has_ready()
        return not self.ahead and not any(taker.credit for taker in self.neighbours.values())

    @property
    def coming(self) -> int:
        """What is granted, unless the source has none."""
        return self.granted if self.source is not None and self.source.ready else 0

    def idle_slots(self, most: int) -> int:
        """How many messages our consumers could take at once; an ack:auto one counts as one."""
        slots = 0
        for subscription in self.queue.ring:
            if subscription.has_room():
                if subscription.is_shared or subscription.ack == AUTO:
                    slots += 1
                else:
                    slots += (subscription.prefetch_count or 1) - subscription.in_flight
            if slots >= most:
                return most
        return slots

    def best_giver(self, path: Sequence[str] = ()) -> Neighbour | None:
        """One that is being drained, else the fullest; of those alike, the nearest. Not who wants some itself.

        path: of an Ask that we would answer for it: not who is near that, nor what comes from too far.
        """
        best, best_rank = None, (True, 0, 0, "")
        for name, giver in self.neighbours.items():
            if giver.ready <= 0 or giver.credit:
                continue
            if path and (giver.hops >= QUEUE_HOPS_MAX or self.is_near(path, name)):
                continue
            rank = (not giver.is_draining, -giver.ready, giver.hops, name)
            if best is None or rank < best_rank:
                best, best_rank = giver, rank
        return best

    def ask(self) -> None:
        """All who are linked, once: they remember it."""
        self.is_asked = True
        self.asked_s = self.hoped_s = self.context.now_s
        for name, peer in self.around.peers.items():
            if peer.link is not None:
                giver = self.neighbour(peer)
                if not giver.is_asked:
                    giver.is_asked = True
                    giver.told = 0  # who is asked knows that we have none
                    self.awaited.add(name)
                    giver.link.tell(Demand(self.queue.name, [self.around.name]))

    def grant(self, giver: Neighbour, credit: int) -> None:
        """To one node at a time: who had credit before and is not the fullest any more loses it."""
        room = self.around.room_for(self.queue)
        self.is_cramped = not room
        if not room:
            return
        if self.source is not giver and self.granted:
            self.withdraw()
        self.source, self.granted = giver, min(credit, room)
        self.hoped_s = self.context.now_s
        giver.told = 0  # who is granted credit knows that we have none
        self.tell_granted(giver)

    def withdraw(self) -> None:
        """The source may hand us no more than has come: what is on its way comes all the same."""
        self.granted = 0
        if self.source is not None:
            self.tell_granted(self.source)

    def tell_granted(self, giver: Neighbour) -> None:
        link, name = giver.link, self.queue.name
        through = link.arrived.get(name, 0) + self.granted
        link.allowed[name] = max(through, link.allowed.get(name, 0))
        self.hints += 1
        link.tell(Credit(name, through))

    def offered_by(self, peer: Peer, word: Supply) -> None:
        """ON RECEIVE Offer."""
        self.awaited.discard(peer.name)
        giver = self.neighbour(peer)
        giver.ready, giver.hops, giver.is_draining = min(word.ready, LINK_OFFER_MAX), word.hops, word.is_draining
        if word.ready and word.hops == 1:
            giver.credit = 0  # it has some itself now
        if word.ready and giver is self.source and self.granted:
            self.withdraw()  # offers are for those who have granted nothing: so both know the same again
        self.pumped()
        if word.ready and self.may_say():
            self.relay_to_all()

    def came(self, peer: Peer, left: int) -> None:
        """A message of it has come from there, where so many more are left."""
        giver = self.neighbour(peer)
        giver.ready = min(left, LINK_OFFER_MAX)  # an answer, too
        self.awaited.discard(peer.name)
        if giver is self.source and self.granted:
            self.granted -= 1
        self.is_dry = False
        self.hints = 0
        self.hoped_s = self.context.now_s
        self.patience_s = PATIENCE_S

    # ---- time and links ---------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether time alone may change what is to be done."""
        if self.ahead or self.is_cramped or self.granted or self.is_owing or self.refused_s:
            return True
        is_late = self.context.now_s - self.hoped_s >= self.patience_s
        return bool(self.queue.ring) and (is_late or bool(self.awaited) or not self.is_asked)

    def ticked(self) -> None:
        """Want less ahead where consumers have not run dry since the last message came.

        What is known of others are hints: where nothing comes of them they are forgotten, ever more seldom.
        """
        was_owing, self.is_owing, self.hints = self.is_owing, False, 0
        if any(taker.credit for taker in self.neighbours.values()):
            self.wanted_s = self.context.now_s
        # who starves takes its credit back now and then, and grants it anew
        if not self.queue.ready_count or self.context.now_s - self.wanted_s >= PATIENCE_S:
            self.refused_s = 0.0
        if self.around.is_draining:
            # an Offer may cross what was handed over before it was made, which says that less is left
            for taker in self.neighbours.values():
                taker.told = taker.told if taker.credit else 0
        if self.ahead and not (self.is_dry and self.queue.ring):
            self.ahead -= -(-self.ahead // AHEAD_DECAY)
        if self.context.now_s - self.asked_s >= ASK_EVERY_S:
            self.awaited.clear()
        if self.granted and not self.around.room_for(self.queue):
            self.withdraw()
        is_late = self.context.now_s - self.hoped_s >= self.patience_s
        if is_late and not self.queue.ready_count and self.idle_slots(1):
            self.patience_s = min(2 * self.patience_s, PATIENCE_MAX_S)
            self.hoped_s = self.context.now_s
            self.start_over()
        self.pumped()
        if was_owing:
            self.relay_to_all()

    def start_over(self) -> None:
        """Forget what others have said that they could give: they are asked anew."""
        if self.granted:
            self.withdraw()
        self.ahead = 0
        self.is_dry = self.is_asked = False
        self.awaited.clear()
        for giver in self.neighbours.values():
            giver.ready = 0
            giver.is_asked = False

    def reconsider(self) -> None:
        """Other nodes are linked than before, or this one is to be emptied, or no longer: what others know is judged
        anew.
        """
        if self.was_draining != self.around.is_draining:
            self.was_draining = self.around.is_draining
            self.staying = 0
            self.start_over()
            for taker in self.neighbours.values():
                taker.told = taker.credit = 0
        self.is_asked = False
        self.passed_s.clear()
        for neighbour in self.neighbours.values():
            if neighbour.path:
                self.pass_ask(neighbour.path)
        self.pumped()

    def unlinked(self, peer: Peer) -> None:
        """Nothing that it has said of this queue counts any more."""
        gone = self.neighbours.pop(peer.name, None)
        self.awaited.discard(peer.name)
        if gone is not None and gone is self.source:
            self.source, self.granted = None, 0
