"""Every metric that there may be, as rows of tables; docs/OPERATING.md has a row for each too: a name is a promise to
those who have written alerts. Values are in seconds and bytes, whatever the unit of what they are read from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from radiator.model.addresses import EXCHANGE, FANOUT, KINDS, LOG, QUEUE, TOPIC
from radiator.model.administration import PEERS, USERS

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(slots=True, frozen=True)
class Metric:
    """One number. field: where it stands in what it is read from, a dot for each step down; it is divided by `unit`.
    by: the label of each of its numbers, where it is a table of several by name. is_one_if: the text of which it is 1,
    and of every other text 0; "": it is a number.
    """

    name: str
    kind: str
    field: str
    help: str
    unit: int = 1
    by: str = ""
    is_one_if: str = ""


BROKER = (
    Metric("boot", GAUGE, "boot", "Starts of the broker on this store."),
    Metric("uptime_seconds", GAUGE, "uptime_s", "Since the broker has started."),
    Metric(
        "clock_ahead_seconds",
        GAUGE,
        "clock_ahead_s",
        "How far the system's clock is ahead of the broker's; 0: they agree.",
    ),
    Metric("connections", GAUGE, "connections", "Clients that are connected, and links with other nodes."),
    Metric("connections_max", GAUGE, "limits.max_connections", "The limit max_connections, of clients."),
    Metric("half_open_connections", GAUGE, "half_open", "Connections that have not said CONNECT yet."),
    Metric("half_open_connections_max", GAUGE, "limits.max_half_open", "The limit max_half_open."),
    Metric(
        "certificate_left_seconds",
        GAUGE,
        "certificate_left_s",
        "Until the end of the certificate that ends first; below 0: it has expired.",
    ),
    Metric(
        "listener_certificate_left_seconds",
        GAUGE,
        "certificates_left_s",
        "The same of a listener with a certificate of its own.",
        by="listener",
    ),
    Metric("channels", GAUGE, "channels", "Channels of clients of AMQP."),
    Metric("subscriptions", GAUGE, "subscriptions", "Subscriptions of all connections."),
    Metric("transactions", GAUGE, "transactions", "Transactions that are open."),
    Metric("prepared", GAUGE, "prepared", "Transactions that are prepared, or not in their destinations yet."),
    Metric("prepared_max", GAUGE, "limits.max_prepared", "How many there may be."),
    Metric("parked", GAUGE, "parked", "Connections whose SEND waits for room."),
    Metric("destinations", GAUGE, "destinations", "Queues, exchanges, fanouts, topics and partitions of logs."),
    Metric("destinations_max", GAUGE, "limits.max_destinations", "The limit max_destinations."),
    Metric("bindings", GAUGE, "bindings", "Bindings of all exchanges, and durable subscriptions."),
    Metric("bindings_max", GAUGE, "limits.max_bindings", "How many there may be."),
    Metric("group_positions", GAUGE, "positions", "Positions of all groups in all partitions of logs."),
    Metric("group_positions_max", GAUGE, "limits.max_positions", "How many there may be."),
    Metric("memory_bytes", GAUGE, "memory_bytes", "What is held in memory, copies of what is on the disk included."),
    Metric("memory_counted_bytes", GAUGE, "memory_counted_bytes", "Of that, what counts for max_memory_bytes."),
    Metric("memory_max_bytes", GAUGE, "limits.max_memory_bytes", "The limit max_memory_bytes."),
    Metric("outbox_bytes", GAUGE, "outbox_bytes", "What the outgoing buffers of all connections hold."),
    Metric("outbox_largest_bytes", GAUGE, "outbox_largest_bytes", "What the fullest outgoing buffer holds."),
    Metric("outbox_max_bytes", GAUGE, "limits.outbox_max_bytes", "The limit outbox_max_bytes, of each."),
    Metric("store_used_bytes", GAUGE, "store.used_bytes", "What the store uses of its file."),
    Metric(
        "store_reusable_bytes", GAUGE, "store.reusable_bytes", "Free pages in the store's file, used before it grows."
    ),
    Metric("wal_bytes", GAUGE, "store.wal_bytes", "The files of the write-ahead log."),
    Metric("wal_kept_bytes", GAUGE, "store.wal_kept_bytes", "Of that, what is kept only because of log_keep."),
    Metric("store_high_water_bytes", GAUGE, "store.high_water_bytes", "SENDs wait while the store uses more."),
    Metric("store_map_size_bytes", GAUGE, "store.map_size", "The setting map_size."),
    Metric("disk_free_bytes", GAUGE, "store.disk_free_bytes", "Free on the file system of the store."),
    Metric(
        "disk_room_bytes",
        GAUGE,
        "store.disk_room_bytes",
        "What the disk has for messages: free, and in the store's file if that is mostly free pages.",
    ),
    Metric("disk_room_min_bytes", GAUGE, "store.disk_free_min", "SENDs wait while there is less: disk_free_min."),
    Metric(
        "store_checked_ratio", GAUGE, "store.checked_percent", "How much of the store's structure was checked.", 100
    ),
    Metric("batches_total", COUNTER, "batches", "Batches that were given to the disk."),
)
LATENCIES = (
    Metric(
        "commit_latency_seconds",
        HISTOGRAM,
        "commit_latency",
        "From the turn that closes a batch to the turn that hears that it is on the disk, synced.",
    ),
    Metric(
        "delivery_latency_seconds",
        HISTOGRAM,
        "delivery_latency",
        "From a message's SEND, or its due time, to the turn that first writes it to a consumer of its queue.",
    ),
)
COUNTERS = {
    "damaged_sends": "Stored SENDs of transactions that could not be read.",
    "dead_letters_dropped": "Dead letters that an exchange led nowhere, or round in a circle.",
    "duplicates": "SENDs whose dedup-id was known.",
    "log_readers_overtaken": "Readers of logs that were closed since retention was faster.",
    "nodes_ignored": "Nodes that were heard of beyond the bound.",
    "refusals": "Requests that were refused.",
    "replies_dropped": "Replies that found nobody, or no room.",
    "set_aside": "Messages that no link can carry.",
    "slow_exchange_subscribers": "Subscribers of exchanges that were closed for not keeping up.",
    "slow_topic_subscribers": "Subscribers of topics that were closed for not keeping up.",
    "topic_copies_unwanted": "Messages of topics from other nodes that nobody wanted here.",
    "topic_duplicates": "Messages of topics that came again from another node.",
    "topic_messages": "Messages that were sent to topics.",
    "topic_messages_dropped": "Messages of topics that were dropped on their way to another node.",
    "topic_messages_strange": "Messages of topics from other nodes that could not be used.",
    "unrouted": "Messages to exchanges that matched no binding.",
}
_QUEUE = (
    Metric("messages", GAUGE, "messages", "Messages of a queue, in any state."),
    Metric("bytes", GAUGE, "bytes", "Their bytes of headers and bodies."),
    Metric("max_messages", GAUGE, "max_messages", "The bound max_messages of a queue that has one."),
    Metric("max_bytes", GAUGE, "max_bytes", "The bound max_bytes of a queue that has one."),
    Metric("ready", GAUGE, "ready", "Messages that wait for a consumer."),
    Metric("oldest_ready_seconds", GAUGE, "oldest_ms", "The age of the oldest message that is ready.", 1000),
    Metric("unacked", GAUGE, "unacked", "Messages that are out with consumers."),
    Metric("delayed", GAUGE, "delayed", "Messages that wait for their time."),
    Metric("in_doubt", GAUGE, "in_doubt", "Messages offered to another node that has not answered."),
    Metric("set_aside", GAUGE, "set_aside", "Messages that no link can carry."),
    Metric("checked_out", GAUGE, "checked_out", "Messages that groups have checked out."),
    Metric("storing", GAUGE, "storing", "Messages on their way to the disk."),
    Metric("consumers", GAUGE, "consumers", "Subscriptions to the queue."),
    Metric("useful_consumers", GAUGE, "useful_consumers", "Consumers that could be busy at once: for autoscaling."),
    Metric("active_keys", GAUGE, "active_keys", "Keys of a partitioned queue that memory knows messages of."),
    Metric("key_moves_total", COUNTER, "key_moves", "How often a key went to another consumer than before."),
    Metric("blocked", GAUGE, "blocked", "Connections whose SEND waits for room in the queue."),
    Metric("damaged", GAUGE, "damaged", "Stored messages that cannot be read."),
    Metric("adds_up", GAUGE, "adds_up", "1: the queue's ledger adds up; 0: that is a bug."),
    Metric("accepted_total", COUNTER, "accepted", "Messages that came in."),
    Metric("accepted_bytes_total", COUNTER, "accepted_bytes", "Their bytes."),
    Metric("acked_total", COUNTER, "acked", "Messages that were acked."),
    Metric("acked_bytes_total", COUNTER, "acked_bytes", "Their bytes."),
    Metric("expired_total", COUNTER, "expired", "Messages that expired and were removed."),
    Metric("expired_bytes_total", COUNTER, "expired_bytes", "Their bytes."),
    Metric("dropped_total", COUNTER, "dropped", "Messages that were dropped: rejected, or at a bound."),
    Metric("dropped_bytes_total", COUNTER, "dropped_bytes", "Their bytes."),
    Metric("purged_total", COUNTER, "purged", "Messages that an operator purged or moved."),
    Metric("purged_bytes_total", COUNTER, "purged_bytes", "Their bytes."),
    Metric("dead_lettered_total", COUNTER, "dead_lettered", "Messages that went to the dead-letter queue."),
    Metric("dead_lettered_bytes_total", COUNTER, "dead_lettered_bytes", "Their bytes."),
    Metric("redelivered_total", COUNTER, "redelivered", "Redeliveries."),
)
_EXCHANGE = (
    Metric("accepted_total", COUNTER, "accepted", "Messages that were sent to an exchange."),
    Metric("unrouted_total", COUNTER, "unrouted", "Of these, those that matched no binding."),
    Metric("bindings", GAUGE, "bindings", "Bindings of an exchange."),
)
_LOG = (
    Metric("accepted_total", COUNTER, "accepted", "Records that were appended to a log."),
    Metric("records", GAUGE, "records", "Records of a log."),
    Metric("bytes", GAUGE, "bytes", "Their bytes of headers and bodies."),
    Metric("retention_bytes", GAUGE, "retention_bytes", "The setting retention_bytes of a log that has one."),
    Metric("readers", GAUGE, "readers", "Subscriptions to a log."),
    Metric("unread", GAUGE, "unread", "Records of a log that a group has not acked.", by="group"),
)
_FANOUT = (Metric("accepted_total", COUNTER, "accepted", "Messages that were sent to a fanout."),)
_PEER = (
    Metric("up", GAUGE, "state", "1: this node is linked with that one.", is_one_if="up"),
    Metric("in_doubt", GAUGE, "in_doubt", "Messages offered to a node that has not answered."),
    Metric("outbox", GAUGE, "outbox", "Copies that wait for a node."),
    Metric("outbox_bytes", GAUGE, "outbox_bytes", "Their bytes."),
    Metric("outbox_max_bytes", GAUGE, "outbox_max_bytes", "The bound of those bytes."),
    Metric("outbox_blocked", GAUGE, "outbox_blocked", "Connections whose SEND waits for room in the node's outbox."),
    Metric("copies_kept", GAUGE, "copies_kept", "1: copies are kept for a node while it is away."),
    Metric("lag_seconds", GAUGE, "lag_ms", "How far a node is behind with the copies kept for it.", 1000),
    Metric("handed_over_total", COUNTER, "handed_over", "Messages that were handed over to a node."),
    Metric("taken_in_total", COUNTER, "taken_in", "Messages that were taken over from a node."),
    Metric("outbox_dropped_total", COUNTER, "outbox_dropped", "Copies for a node that were dropped at its bound."),
)
_TOPIC = (Metric("subscribers", GAUGE, "subscribers", "Subscribers of a topic."),)
_USER = (
    Metric("connections", GAUGE, "connections", "Connections of a user."),
    Metric("connections_max", GAUGE, "max_connections", "The bound max_connections of a user that has one."),
    Metric("subscriptions", GAUGE, "subscriptions", "Subscriptions of a user's connections."),
    Metric("subscriptions_max", GAUGE, "max_subscriptions", "The bound max_subscriptions of a user that has one."),
    Metric("destinations", GAUGE, "destinations", "Destinations that a user has made."),
    Metric("destinations_max", GAUGE, "max_destinations", "The bound max_destinations of a user that has one."),
    Metric("unacked_bytes", GAUGE, "unacked_bytes", "Bytes that are out with a user's connections."),
    Metric("unacked_max_bytes", GAUGE, "max_unacked_bytes", "The bound max_unacked_bytes of a user that has one."),
    Metric("memory_bytes", GAUGE, "memory_bytes", "What a user's connections hold in memory."),
    Metric("memory_max_bytes", GAUGE, "max_memory_bytes", "The bound max_memory_bytes of a user that has one."),
    Metric("stored_bytes", GAUGE, "stored_bytes", "What is stored in queues and logs that a user has made."),
    Metric("stored_max_bytes", GAUGE, "max_stored_bytes", "The bound max_stored_bytes of a user that has one."),
    Metric("blocked", GAUGE, "blocked", "Connections whose SEND waits because of a bound of a user."),
)
OF_EACH = {QUEUE: _QUEUE, EXCHANGE: _EXCHANGE, LOG: _LOG, FANOUT: _FANOUT, "peer": _PEER, TOPIC: _TOPIC, "user": _USER}
"""By the label of their samples. What is of a kind without a row here has none."""

BROKER_SECTION = "broker"
"""What is of no section of `stats`."""

SECTIONS = {
    KINDS[label].section if label in KINDS else {"peer": PEERS, "user": USERS}[label]: label for label in OF_EACH
}
"""The label of what each section of `stats` has."""

INFO = Metric("info", GAUGE, "", "1, with the broker's version and the id of its store.")


def metrics() -> Iterator[Metric]:
    """All that there may be, with their whole names, in the order of the text."""
    for metric in (INFO, *BROKER, *LATENCIES):
        yield replace(metric, name=f"radiator_{metric.name}")
    for name, help in sorted(COUNTERS.items()):
        yield Metric(f"radiator_{name}_total", COUNTER, name, help)
    for label, of_each in OF_EACH.items():
        for metric in of_each:
            yield replace(metric, name=f"radiator_{label}_{metric.name}")
