"""A link: one open connection to another node, as long as it lasts."""

from collections.abc import Callable

from radiator.core.cluster.lane import Lane
from radiator.core.cluster.parcel import IncomingParcel, OutgoingParcel
from radiator.core.connections import Connection
from radiator.core.turn import TurnContext
from radiator.model.limits import LINK_OUTBOX_BYTES
from radiator.model.peer import Identity, PeerFrame
from radiator.model.replies import SendToPeer

WORD_COST_BYTES = 64  # of a word without a message


class Link:
    """Frames on a link arrive in order, or are lost with all those behind them.

    given, arrived: messages of each queue that were handed over on it, and that came; allowed: the most of them that
    were ever granted. These outlive a queue which is deleted and made again, so that both ends count alike.
    declared_here: queues whose declaration here was sent to the other node; declared_there: their declarations there.
    gives, takes: the lanes of messages of queues and of copies, in each direction. outgoing, incoming: the large
    message whose bytes go ahead, and come; parcels_waiting: the senders of the next ones.
    """

    __slots__ = (
        "allowed", "arrived", "connection", "declared_here", "declared_there", "context", "given", "gives", "identity",
        "incoming", "outgoing", "parcels_waiting", "takes",
    )  # fmt: skip

    def __init__(self, connection: Connection, identity: Identity, context: TurnContext) -> None:
        self.connection = connection
        self.identity = identity
        self.context = context
        self.given: dict[str, int] = {}
        self.arrived: dict[str, int] = {}
        self.allowed: dict[str, int] = {}
        self.declared_here: set[str] = set()
        self.declared_there: dict[str, tuple[str, ...]] = {}
        self.gives = (Lane(), Lane())
        self.takes = (Lane(), Lane())
        self.outgoing: OutgoingParcel | None = None
        self.incoming: IncomingParcel | None = None
        self.parcels_waiting: dict[Callable[[], None], None] = {}

    @property
    def name(self) -> str:
        """The name of the node at the other end."""
        return self.identity.name

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be sent that messages of topics are dropped."""
        return self.connection.outbox_bytes >= LINK_OUTBOX_BYTES

    def send(self, word: PeerFrame, size: int = WORD_COST_BYTES) -> None:
        """Sends a word, unless the link is being closed. size: its cost in the outgoing buffer."""
        connection = self.connection
        if not connection.is_closing:
            connection.post(self.context, SendToPeer(connection.number, word), size, None)
