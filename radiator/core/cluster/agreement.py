"""Whether two linked nodes have declared a shared queue alike. If they have not, each message is treated by the rules
of the node that holds it, and both nodes report the difference in the log, in `peers` and in `why`.

On each link each node says once how it has declared a queue of scope "cluster"; a node that has declared it otherwise
answers with its own declaration, even one of scope "node". Bounds (max_messages, max_bytes) and windows may differ:
they limit each node by itself.
"""

from radiator.core.cluster.link import Link
from radiator.core.cluster.peer import Peer
from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.core.turn import TurnContext
from radiator.model.limits import UNLIKE_KEPT, Limits
from radiator.model.peer import Declared
from radiator.model.settings import CLUSTER, QueueSettings

_ALIKE = (
    "scope", "dead_letter", "dead_letter_exchange", "dead_letter_key", "max_redeliveries", "message_ttl_ms", "overflow",
    "ack_timeout_s", "redelivery_delay_ms", "redelivery_delay_factor", "redelivery_delay_max_ms",
    "drop_after_redeliveries",
)  # fmt: skip

NO_TEXT = '""'  # the value of a setting that is empty, as the default exchange is


def as_lines(settings: QueueSettings) -> list[str]:
    """Returns the settings that nodes must have alike, as `NAME=VALUE` lines; nothing follows the `=` of a setting
    without a value.
    """
    values = ((name, getattr(settings, name)) for name in _ALIKE)
    return [f"{name}={_text(value)}" for name, value in values]


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value) or NO_TEXT


class Agreement:
    """Whether the queues of this node are declared as at the nodes that it is linked with."""

    __slots__ = ("context", "destinations", "limits", "name", "peers")

    def __init__(
        self, context: TurnContext, name: str, destinations: Destinations, limits: Limits, peers: dict[str, Peer]
    ) -> None:
        self.context = context
        self.name = name
        self.peers = peers
        self.destinations = destinations
        self.limits = limits

    def say(self, link: Link, name: str, settings: QueueSettings) -> None:
        """Sends the declaration of this queue here, once on a link."""
        if name not in link.declared_here and len(link.declared_here) < self.limits.max_destinations:
            link.declared_here.add(name)
            word = Declared(name, as_lines(settings))
            link.send(word, sum(map(len, word.settings)))

    def changed(self, queue: Queue) -> None:
        """Called when the queue's settings have changed: nodes that were sent them are sent them again."""
        for peer in self.peers.values():
            link = peer.link
            if link is not None and queue.name in link.declared_here:
                link.declared_here.discard(queue.name)
                self.say(link, queue.name, queue.settings)
        self.made(queue)

    def hear(self, peer: Peer, word: Declared) -> None:
        """ON RECEIVE Declared."""
        assert peer.link is not None, "a word is heard on a link only"
        there = peer.link.declared_there
        if word.queue not in there and len(there) >= self.limits.max_destinations:
            return
        there[word.queue] = tuple(word.settings)
        if self.is_known(word.queue):
            self.compare(peer, word.queue)

    def is_known(self, name: str) -> bool:
        """Whether there is a queue of that name here, or config.toml says how it would be declared."""
        declarations = self.destinations.declarations
        return name in self.destinations.queues.all or declarations.declares_queue(name)

    def made(self, queue: Queue) -> None:
        """Called for a new queue, whose declaration other nodes may have sent already."""
        for peer in self.peers.values():
            if peer.link is not None and queue.name in peer.link.declared_there:
                self.compare(peer, queue.name)

    def compare(self, peer: Peer, name: str) -> None:
        """Reports differences that are new. If only the other node has dead letters for the queue, slows redelivery
        (`calm`).
        """
        assert peer.link is not None
        settings = self.destinations.queues.settings_for(name)
        here = dict(line.split("=", 1) for line in as_lines(settings))
        there = _there(peer, name)
        keys = [key for key in here if there.get(key, here[key]) != here[key]]
        if here["scope"] != CLUSTER and there.get("scope") != CLUSTER:
            keys = []
        self.calm(name, settings)
        if not keys:
            peer.unlike.pop(name, None)
            return
        self.say(peer.link, name, settings)
        differing = ", ".join(
            f"{key} is {_shown(there[key])} at {peer.name} and {_shown(here[key])} at {self.name}" for key in keys
        )
        sentence = f"/queue/{name} is declared otherwise: {differing}. Declare it alike at all nodes that have it."
        if peer.unlike.get(name) != sentence and (name in peer.unlike or len(peer.unlike) < UNLIKE_KEPT):
            peer.unlike[name] = sentence
            self.context.note("warning", "declared_otherwise", node=peer.name, queue=name, sentence=sentence)

    def calm(self, name: str, settings: QueueSettings) -> None:
        """If only another node has dead letters for the queue: slows the redelivery here of what would be a dead letter
        there.
        """
        queue = self.destinations.queues.all.get(name)
        if queue is None or settings.scope != CLUSTER:
            return
        bounds = []
        for peer in self.peers.values():
            there = _there(peer, name)
            most = there.get("max_redeliveries", "")
            has_dead_letters = there.get("dead_letter") or there.get("dead_letter_exchange")
            if not settings.has_dead_letters and has_dead_letters and most.isascii() and most.isdecimal():
                bounds.append(int(most))
        queue.calm_after = min(bounds, default=None)

    def sentences_of(self, name: str) -> str:
        """Returns the sentences that `why` adds about the queue."""
        return " ".join(peer.unlike[name] for peer in self.peers.values() if name in peer.unlike)


def _there(peer: Peer, name: str) -> dict[str, str]:
    """Returns the settings of the queue at a linked node, as far as that node has sent them."""
    lines = peer.link.declared_there.get(name, ()) if peer.link is not None else ()
    return dict(line.split("=", 1) for line in lines)


def _shown(value: str) -> str:
    return "".join(c if c.isprintable() else " " for c in value) or "none"
