"""Decides which messages of a queue of scope "cluster" go where.

Local consumers come first: only surplus is given away, which is ready while none of them has room. It goes to nodes
that have granted credit. A node whose consumers are idle while its queue is empty sends a Demand; a node with surplus
sends a Supply; the fullest of these is granted credit, and no other. All three are hints: one that is lost or late
costs time, never a message; one that leads to nothing is forgotten and sent anew. They answer each other, so they are
counted: while no message comes or goes, a share sends only so many from one Tick to the next.
"""

from radiator.core.cluster.handover import Handover
from radiator.core.cluster.neighbour import Neighbour, Neighbourhood
from radiator.core.cluster.neighbours import Neighbours
from radiator.core.cluster.peer import Peer
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.entry import Entry
from radiator.core.turn import TurnContext
from radiator.model.commands import AUTO
from radiator.model.limits import (
    AHEAD_DECAY,
    DEMAND_EVERY_S,
    HINTS_MAX,
    LINK_CREDIT_MAX,
    LINK_SUPPLY_MAX,
    LINK_WINDOW,
    PASSED_OVER_MAX,
    PATH_HOPS_MAX,
    PATIENCE_MAX_S,
    PATIENCE_S,
    STARVING_S,
)
from radiator.model.peer import Credit, Demand, Supply


class Share:
    """One queue of scope "cluster", as this node shares it.

    source: the one giver that we have granted `granted` more messages. ahead: how many we ask for beyond what is ready:
    doubled where consumers ran dry (is_dry) although a node had more. is_asked: all linked nodes know that our
    consumers are idle; awaited: those that have not answered yet. is_cramped: there was no room for more. hoped_s: when
    we last asked, granted or got something. staying: messages that may not travel now, as last seen; refused_s: since
    when they are wanted elsewhere while nothing else is given (0: they are not); wanted_s: when that last was so.
    hints: how many were sent since the last message came or went, or the last Tick; is_owing: there was more to send.
    """

    __slots__ = (
        "address", "ahead", "around", "demanded_s", "awaited", "context", "granted", "handover", "hints", "hoped_s",
        "is_asked", "is_cramped", "is_dry", "is_owing", "neighbours", "patience_s", "queue", "refused_s",
        "source", "staying", "wanted_s", "was_draining",
    )  # fmt: skip

    def __init__(self, queue: DurableQueue, context: TurnContext, handover: Handover, around: Neighbourhood) -> None:
        self.queue = queue
        self.address = f"/queue/{queue.name}"
        self.context = context
        self.handover = handover
        self.around = around
        self.neighbours = Neighbours(queue.name, context, around)
        self.staying = 0
        self.refused_s = self.wanted_s = 0.0
        self.was_draining = around.is_draining
        self.source: Neighbour | None = None
        self.granted = 0
        self.ahead = 0
        self.is_dry = self.is_cramped = self.is_asked = self.is_owing = False
        self.hints = 0
        self.awaited: set[str] = set()
        self.demanded_s = 0.0
        self.hoped_s = context.now_s
        self.patience_s = PATIENCE_S
        queue.observe(self.pumped)

    def pumped(self) -> None:
        """Called after each change of the queue: gives surplus away, or asks for more."""
        if self.queue.is_gone:
            return  # deleted, while it waited for room in the window
        if self.neighbours.all or self.around.is_draining:
            self.give()
        if self.may_say():
            if self.neighbours.all or self.around.is_draining:
                self.offer_to_takers()
            if not self.around.is_draining:
                self.want()

    def may_say(self) -> bool:
        """Whether one more hint may be sent to all nodes. If not, the next Tick sends what is to be said then."""
        is_enough = self.hints >= HINTS_MAX * (1 + len(self.neighbours.all))
        self.is_owing |= is_enough
        return not is_enough

    # ---- giving -----------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Gives surplus to the nodes that have granted credit, in turn."""
        queue = self.queue
        stays: list[Entry] = []
        aside: list[Entry] = []
        while len(stays) + len(aside) < PASSED_OVER_MAX and queue.has_surplus() and queue.ready_count > self.kept:
            if not self.neighbours.have_credit:
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
                    stays.append(entry)  # the message has travelled enough for now
                    continue
                path = []
            elif not self.around.is_draining:
                self.refused_s = 0.0
            queue.in_doubt.offer(entry)
            self.hints = 0
            taker.credit -= 1
            given = taker.link.given
            given[queue.name] = given.get(queue.name, 0) + 1
            taker.offered = self.could_give(taker)
            self.handover.offer(taker.peer, queue, entry, self.address, path, taker.offered)
        for entry in (*stays, *aside):
            queue.window.put_back(entry)
        queue.watch_head()
        self.staying = len(stays) + len(aside)
        if stays and not self.refused_s:
            self.refused_s = self.wanted_s = self.context.now_s

    @property
    def is_starving(self) -> bool:
        """Whether a node has long wanted messages that stay here, and got nothing else."""
        return 0 < self.refused_s <= self.context.now_s - STARVING_S

    def next_taker(self, head: Entry | None) -> Neighbour | None:
        """Returns, of the nodes with credit and room for that message, the one that was served longest ago; for a large
        message, one that has its bytes already.
        """
        handover, pumped, address = self.handover, self.pumped, self.address
        size = head.size if head is not None else 0
        is_awaited = False  # one of them is sent the bytes, so they are sent to no other
        for name, taker in self.neighbours.all.items():
            peer = taker.peer
            if taker.credit <= 0 or not handover.may_offer(peer, pumped):
                continue
            if not handover.fits(peer, address, size, pumped):
                continue
            if (
                head is None
                or self.has_travelled(head)
                or handover.has_gone_ahead(peer, address, head, pumped, is_awaited)
            ):
                self.neighbours.was_served(name)
                return taker
            is_awaited = is_awaited or handover.parcels.is_awaited(taker.link, head)
        return None

    def has_travelled(self, entry: Entry) -> bool:
        """Whether the message has been on so many nodes that it stays for now."""
        if self.around.is_draining or self.is_starving:
            return False
        return len(self.handover.path_before(entry)) >= PATH_HOPS_MAX

    @property
    def kept(self) -> int:
        """Returns how many messages stay for consumers here, which would otherwise ask for them again: as many as were
        asked for ahead, but at most half.
        """
        if self.around.is_draining or not self.queue.subscriptions:
            return 0
        return min(self.ahead, self.queue.ready_count // 2)

    @property
    def givable(self) -> int:
        """Returns how many messages are ready here and may travel, as far as is known."""
        return max(0, self.queue.ready_count - self.staying - self.kept)

    def could_give(self, taker: Neighbour) -> int:
        """Returns how many messages are here, and how many the fullest node that the taker cannot ask itself could give
        through this one.
        """
        best = self.neighbours.best_giver((taker.peer.name,))
        return self.givable + (best.ready if best is not None else 0)

    def offer_to_takers(self) -> None:
        """Tells nodes that have sent a Demand (while draining, all nodes), once, that there is surplus; tells nodes
        that have granted credit that none is left, so that they need not wait for this node if others may have some.
        """
        is_draining = self.around.is_draining
        if is_draining:
            for peer in self.around.peers.values():
                if peer.is_welcome:
                    self.neighbours.of(peer)
        for taker in self.neighbours.all.values():
            if taker.credit:
                if taker.offered and not self.could_give(taker):
                    self.offer(taker, 0)
            elif not taker.offered and (taker.path or is_draining) and self.givable and self.queue.has_surplus():
                self.offer(taker, self.givable)

    def offer(self, taker: Neighbour, ready: int, hops: int = 1) -> None:
        """Tells a node what it could get from this one, or through it."""
        self.hints += 1
        taker.offered = ready
        taker.link.send(Supply(self.queue.name, ready, hops, self.around.is_draining))

    def credit_from(self, peer: Peer, through: int) -> None:
        """ON RECEIVE Credit: the node takes `through` messages on this link, in all."""
        taker = self.neighbours.of(peer)
        taker.path = taker.path or (peer.name,)
        taker.credit = max(0, through - taker.link.given.get(self.queue.name, 0))
        if taker.credit:
            taker.ready = 0  # the taker has no messages itself any more
            # the taker believes that there are some; otherwise it must be told that there are none
            taker.offered = taker.offered or 1
        self.pumped()

    def asked(self, peer: Peer, word: Demand) -> None:
        """ON RECEIVE Demand."""
        if self.around.name in word.path:
            return
        asker = self.neighbours.of(peer)
        asker.path = word.path
        asker.offered = 0
        if len(word.path) == 1:
            asker.ready = 0  # the asking node has no messages itself
        self.pumped()
        if asker.offered:
            return
        if self.may_say() and not self.relay(asker):
            self.offer(asker, 0)
        self.neighbours.pass_demand(word.path)

    # ---- for others, who are not linked -----------------------------------------------------------------------------

    def relay(self, asker: Neighbour) -> bool:
        """Offers messages that another node could give through this one. Returns whether there is such a node."""
        best = self.neighbours.best_giver(asker.path)
        if best is None or self.around.is_draining:
            return False
        self.offer(asker, best.ready, best.hops + 1)
        return True

    def relay_to_all(self) -> None:
        """Offers messages that other nodes could give, to all nodes that have asked and know of nothing that they could
        get through this one.
        """
        if not self.queue.ready_count:
            for asker in self.neighbours.all.values():
                if asker.path and not asker.offered and not asker.credit:
                    self.relay(asker)

    # ---- wanting ----------------------------------------------------------------------------------------------------

    def want(self) -> None:
        """Grants the fullest node more credit, or asks which nodes have messages."""
        queue, source = self.queue, self.source
        self.is_cramped = False
        stock = max(0, queue.ready_count - self.staying) + queue.storing_count
        if self.granted and source is not None and not source.is_draining and self.is_sated(stock, source):
            self.withdraw()
        best = self.neighbours.best_giver()
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
        if self.awaited and self.context.now_s - self.demanded_s < DEMAND_EVERY_S:
            return  # a fuller one may still answer
        wanted = max(idle, self.ahead)
        source = best if wanted else self.neighbours.best_for_takers()
        if source is None:
            return
        target = min(LINK_CREDIT_MAX, wanted + self.neighbours.credit_beyond(source))
        if target and stock + self.coming <= target // 2:
            self.grant(source, target - stock)

    def is_sated(self, stock: int, source: Neighbour) -> bool:
        """Whether there are more messages here than local consumers can take, or nobody waits for those of that source.
        Neither the source counts, nor nodes that can ask it without us: else nodes without consumers would want
        messages for each other for ever.
        """
        if self.queue.ring:
            return False
        if stock > self.ahead:
            return self.queue.has_ready()
        return not self.ahead and not self.neighbours.credit_beyond(source)

    @property
    def coming(self) -> int:
        """Returns how many messages are granted, unless the source has none."""
        return self.granted if self.source is not None and self.source.ready else 0

    def idle_slots(self, most: int) -> int:
        """How many messages local consumers could take at once; an ack:auto one counts as one."""
        slots = 0
        for subscription in self.queue.ring:
            if subscription.can_take():
                if subscription.is_shared or subscription.ack == AUTO:
                    slots += 1
                else:
                    slots += (subscription.prefetch_count or 1) - subscription.in_flight
            if slots >= most:
                return most
        return slots

    def ask(self) -> None:
        """Asks all linked nodes, once: they remember it."""
        self.is_asked = True
        self.demanded_s = self.hoped_s = self.context.now_s
        for name, peer in self.around.peers.items():
            if peer.link is not None:
                giver = self.neighbours.of(peer)
                if not giver.is_asked:
                    giver.is_asked = True
                    giver.offered = 0  # who is asked knows that we have none
                    self.awaited.add(name)
                    giver.link.send(Demand(self.queue.name, [self.around.name]))

    def grant(self, giver: Neighbour, credit: int) -> None:
        """Grants credit to one node at a time: a node that had credit, and is no longer the fullest, loses it."""
        capacity = self.around.capacity_for(self.queue)
        self.is_cramped = not capacity
        if not capacity:
            return
        if self.source is not giver and self.granted:
            self.withdraw()
        self.source, self.granted = giver, min(credit, capacity)
        self.hoped_s = self.context.now_s
        giver.offered = 0  # who is granted credit knows that we have none
        self.send_credit(giver)

    def withdraw(self) -> None:
        """Takes back credit beyond what has arrived. Messages that are on their way still arrive."""
        self.granted = 0
        if self.source is not None:
            self.send_credit(self.source)

    def send_credit(self, giver: Neighbour) -> None:
        link, name = giver.link, self.queue.name
        through = link.arrived.get(name, 0) + self.granted
        link.allowed[name] = max(through, link.allowed.get(name, 0))
        self.hints += 1
        link.send(Credit(name, through))

    def supply_from(self, peer: Peer, word: Supply) -> None:
        """ON RECEIVE Supply."""
        self.awaited.discard(peer.name)
        giver = self.neighbours.of(peer)
        giver.ready, giver.hops, giver.is_draining = min(word.ready, LINK_SUPPLY_MAX), word.hops, word.is_draining
        if word.ready and word.hops == 1:
            giver.credit = 0  # the giver has messages itself now
        if word.ready and giver is self.source and self.granted:
            self.withdraw()  # offers are for those who have granted nothing: so both know the same again
        self.pumped()
        if word.ready and self.may_say():
            self.relay_to_all()

    def came(self, peer: Peer, left: int) -> None:
        """Called when a message has arrived from that node, where `left` more are left."""
        giver = self.neighbours.of(peer)
        giver.ready = min(left, LINK_SUPPLY_MAX)  # an answer, too
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
        """Whether the passing of time alone may change what is to be done."""
        if self.ahead or self.is_cramped or self.granted or self.is_owing or self.refused_s:
            return True
        is_late = self.context.now_s - self.hoped_s >= self.patience_s
        return bool(self.queue.ring) and (is_late or bool(self.awaited) or not self.is_asked)

    def ticked(self) -> None:
        """Asks for fewer ahead if consumers have not run dry since the last message came, for none if there are none.

        Forgets hints of other nodes that led to nothing, each time later than before.
        """
        was_owing, self.is_owing, self.hints = self.is_owing, False, 0
        if self.neighbours.have_credit:
            self.wanted_s = self.context.now_s
        # a node that starves takes its credit back now and then, and grants it anew
        if not self.queue.ready_count or self.context.now_s - self.wanted_s >= PATIENCE_S:
            self.refused_s = 0.0
        if self.around.is_draining:
            # a Supply may cross what was handed over before it was made, which says that less is left
            for taker in self.neighbours.all.values():
                taker.offered = taker.offered if taker.credit else 0
        if not self.queue.subscriptions:
            self.ahead = 0
        elif self.ahead and not (self.is_dry and self.queue.ring):
            self.ahead -= -(-self.ahead // AHEAD_DECAY)
        if self.context.now_s - self.demanded_s >= DEMAND_EVERY_S:
            self.awaited.clear()
        if self.granted and not self.around.capacity_for(self.queue):
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
        """Forgets what other nodes could give: they are asked again."""
        if self.granted:
            self.withdraw()
        self.ahead = 0
        self.is_dry = self.is_asked = False
        self.awaited.clear()
        for giver in self.neighbours.all.values():
            giver.ready = 0
            giver.is_asked = False

    def reconsider(self) -> None:
        """Called when other nodes are linked than before, or when a drain of this node begins or ends: judges anew what
        others know.
        """
        if self.was_draining != self.around.is_draining:
            self.was_draining = self.around.is_draining
            self.staying = 0
            self.start_over()
            for taker in self.neighbours.all.values():
                taker.offered = taker.credit = 0
        self.is_asked = False
        self.neighbours.passed_s.clear()
        for neighbour in self.neighbours.all.values():
            if neighbour.path:
                self.neighbours.pass_demand(neighbour.path)
        self.pumped()

    def unlinked(self, peer: Peer) -> None:
        """Forgets all that the node has sent about this queue."""
        gone = self.neighbours.remove(peer)
        self.awaited.discard(peer.name)
        if gone is not None and gone is self.source:
            self.source, self.granted = None, 0
