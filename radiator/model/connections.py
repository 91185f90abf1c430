"""What is asked and answered about connections: who is connected, and what each holds; see administration.py."""

from dataclasses import dataclass

from radiator.model.numbers import Later, Rows


@dataclass(slots=True)
class ListConnections:
    """The connections of a user, or all, by number: ConnectionsListed. after: only numbers above that; limit: at most
    so many.
    """

    user: str | None = None
    after: int = 0
    limit: int | None = None


@dataclass(slots=True)
class DescribeConnection:
    """One of them, with its subscriptions: ConnectionDescribed. Refused: `no-such-connection`."""

    number: int


@dataclass(slots=True)
class CloseConnection:
    """Closes it with an ERROR, and its channels with it: ConnectionClosed. Refused: one that does not exist, the
    asker's own (`own-connection`), and a link with another node (`linked`).
    """

    number: int


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ConnectionNumbers:
    """One connection that is open, of a client or of a linked node.

    address: of the other end. user: in whose name it speaks; recognised_by: what has proved that (principal.py).
    protocol: as people call it. tls: its version; None: without TLS. client: what it says that it is, or the name of
    one of its consumers; None: neither. subscriptions, unacked, transactions: how many it has. outbox_bytes: sent to
    it, and not taken by the system yet. memory_bytes: what goes with it. blocked: what its next command waits for, or
    that it is being closed, as a sentence; None: neither. channel_of: the number of the connection that it is a channel
    of; None: it is none. channels: how many it has itself.
    """

    number: int
    address: str
    user: str
    recognised_by: str
    protocol: str
    tls: str | None
    client: str | None
    age_ms: int
    subscriptions: int
    unacked: int
    outbox_bytes: int
    transactions: int
    memory_bytes: int
    blocked: str | None
    channel_of: int | None
    channels: int


@dataclass(slots=True)
class ConnectionsListed:
    """count: of all that there are, or all of the user, whatever page of them this is."""

    connections: Rows[ConnectionNumbers]
    count: Later[int]


@dataclass(slots=True)
class SubscriptionNumbers:
    """One subscription of a connection. id, destination: as its SUBSCRIBE gave them. consumer: its name, or None.
    window: how many messages it may have unacked, where it shares that with others of its connection too; None: no
    bound. unacked: how many it has. stands: what keeps it from the next message, as of Consumer (consumers.py).
    """

    id: str
    destination: str
    ack: str
    consumer: str | None
    window: int | None
    unacked: int
    stands: str


@dataclass(slots=True)
class ConnectionDescribed:
    """numbers: `subscriptions` among them counts all, of which subscription_list has the first. channel_list: the
    numbers of its channels.
    """

    numbers: ConnectionNumbers
    subscription_list: Rows[SubscriptionNumbers]
    channel_list: Rows[int]


@dataclass(slots=True)
class ConnectionClosed:
    """A connection that was told to close. It is gone once that is written, or after GOODBYE_MAX_S."""

    number: int
    user: str
    address: str


ConnectionAnswer = ConnectionsListed | ConnectionDescribed | ConnectionClosed
