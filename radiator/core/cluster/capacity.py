"""Bytes that a linked node may still hand over: granted by the taker, and respected by the giver.

A count of messages bounds nothing where each may have 16 MiB, and one copy of a fanout is stored once for each child.
So besides the counts (Credit) the taker grants bytes, measured by what storing a message with all its copies costs it.
What all links together have been granted is reserved: neither they nor local clients can fill the disk beyond the marks
at which SENDs wait. A message that finds no room waits at its own node; if it is larger than what is left, its node
says so (Want), and gets that room in turn with the other nodes.
"""

from collections.abc import Iterable

from radiator.core.cluster.link import Link
from radiator.core.routing.admission import Admission
from radiator.core.turn import TurnContext
from radiator.model.errors import LinkError
from radiator.model.limits import LINK_CAPACITY_BYTES, LINK_CAPACITY_SHARE, largest_message_bytes
from radiator.model.peer import Capacity, Want, cost_bytes


class Capacities:
    """The taking side of all links. is_scarce: a node wants more than there is, so all wait for the Tick."""

    __slots__ = ("context", "admission", "is_scarce")

    def __init__(self, context: TurnContext, admission: Admission) -> None:
        self.context = context
        self.admission = admission
        self.is_scarce = False

    @property
    def available_bytes(self) -> int:
        """Returns how many bytes may still be granted. A batch may take half as much again on the disk as its messages
        have.
        """
        admission = self.admission
        if admission.disk_wait_list.is_tight:
            return 0
        return max(0, admission.disk_left_bytes - self.context.open.disk_bytes) * 2 // 3 - admission.promised_bytes

    def take(self, link: Link, is_copies: bool, cost: int) -> None:
        """Counts `cost` bytes as arrived. Raises LinkError if they were not granted."""
        lane = link.takes[is_copies]
        if cost > lane.left:
            what = "Copies" if is_copies else "Messages of queues"
            raise LinkError(f"{what} of {lane.used + cost} bytes on this link, where {lane.through} were granted.")
        lane.used += cost
        self.admission.promised_bytes -= cost

    def want(self, link: Link, word: Want, children: int) -> None:
        """Called when a message waits for that much room. Raises LinkError if no message can cost so much, even stored
        for each of the children.
        """
        most = cost_bytes(largest_message_bytes(self.admission.limits), children)
        if word.size > most:
            raise LinkError(f"A message that costs {word.size} bytes waits there: none can cost more than {most}.")
        link.takes[word.is_copies].wanted = word.size

    def unlinked(self, link: Link) -> None:
        """Called when nothing more arrives on that link."""
        for lane in link.takes:
            self.admission.promised_bytes -= lane.left
            lane.through = lane.used

    def top_up(self, link: Link, is_copies: bool, links: int) -> None:
        """Called after an arrival: grants more at once if there is enough room for all nodes."""
        if not self.is_scarce:
            self.grant(link, is_copies, links)

    def grant_all(self, links: Iterable[Link]) -> None:
        """ON TICK: grants each link what it lacks; the links that have waited longest come first."""
        self.is_scarce = False
        lanes = [(link.takes[is_copies].granted_turn, is_copies, link) for link in links for is_copies in (False, True)]
        for _, is_copies, link in sorted(lanes, key=lambda lane: lane[0]):
            self.grant(link, is_copies, len(lanes) // 2)

    def grant(self, link: Link, is_copies: bool, links: int) -> None:
        """Grants a link what it lacks, as far as there is room: the base in any case, and what it wants either in full
        or not at all.
        """
        lane, available = link.takes[is_copies], self.available_bytes
        base = min(LINK_CAPACITY_BYTES, available // (LINK_CAPACITY_SHARE * links))
        if lane.left >= max(lane.wanted, base // 2):
            return
        more = max(base, lane.wanted) - lane.left
        if more > available:
            self.is_scarce = True
            more = base - lane.left
            if more <= 0:
                return
        lane.through += more
        lane.granted_turn = self.context.turn_number
        self.admission.promised_bytes += more
        if lane.left >= lane.wanted:
            lane.wanted = 0
        link.send(Capacity(is_copies, lane.through))
