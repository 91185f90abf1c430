"""Every metric, as rows of tables. docs/OPERATING.md has a row for each too: alerts depend on the names. Values are in
seconds and bytes, whatever unit the broker's numbers have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from radiator.model.addresses import EXCHANGE, FANOUT, KINDS, LOG, QUEUE, TOPIC
from radiator.model.administration import PEERS, USERS

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(slots=True, frozen=True)
class Metric:
    """One metric. field: the dotted path of its number. unit: the number is divided by it. by: the label that tells its
    numbers apart, if there is a table of them by name. is_one_if: the text for which the metric is 1, and 0 for any
    other; "": the field is a number.
    """

    name: str
    kind: str
    field: str
    help: str
    unit: int = 1
    by: str = ""
    is_one_if: str = ""


BROKER = (
    Metric("boot", GAUGE, "boot", "How often the broker has started on this store."),
    Metric("uptime_seconds", GAUGE, "uptime_s", "Time since the broker started."),
    Metric(
        "clock_ahead_seconds",
        GAUGE,
        "clock_ahead_s",
        "How far the system's clock is ahead of the broker's; below 0: behind.",
    ),
    Metric("connections", GAUGE, "connections", "Connected clients, and links with other nodes."),
    Metric("connections_max", GAUGE, "limits.max_connections", "The limit max_connections on connected clients."),
    Metric("half_open_connections", GAUGE, "half_open", "Connections that have not sent CONNECT yet."),
    Metric(
        "half_open_connections_max",
        GAUGE,
        "limits.max_half_open",
        "The limit max_half_open on connections that have not sent CONNECT.",
    ),
    Metric(
        "certificate_left_seconds",
        GAUGE,
        "certificate_left_s",
        "Time until the certificate that expires first does so; below 0: since it expired.",
    ),
    Metric(
        "listener_certificate_left_seconds",
        GAUGE,
        "certificates_left_s",
        "Time until the certificate of a listener with its own expires; below 0: since it expired.",
        by="listener",
    ),
    Metric("channels", GAUGE, "channels", "Open channels of AMQP clients."),
    Metric("subscriptions", GAUGE, "subscriptions", "Subscriptions of all connections."),
    Metric("transactions", GAUGE, "transactions", "Open transactions."),
    Metric(
        "prepared", GAUGE, "prepared", "Transactions that are prepared, or committed and not yet in their destinations."
    ),
    Metric("prepared_max", GAUGE, "limits.max_prepared", "The bound on prepared transactions."),
    Metric("parked", GAUGE, "parked", "Connections whose SEND waits for room."),
    Metric("destinations", GAUGE, "destinations", "Queues, exchanges, fanouts, topics and partitions of logs."),
    Metric(
        "destinations_max",
        GAUGE,
        "limits.max_destinations",
        "The limit max_destinations on queues, exchanges, fanouts, topics and partitions of logs.",
    ),
    Metric("bindings", GAUGE, "bindings", "Bindings of all exchanges, and durable subscriptions."),
    Metric("bindings_max", GAUGE, "limits.max_bindings", "The bound on bindings and durable subscriptions."),
    Metric("group_positions", GAUGE, "positions", "Positions of all groups in all partitions of logs."),
    Metric(
        "group_positions_max", GAUGE, "limits.max_positions", "The bound on positions of groups in partitions of logs."
    ),
    Metric("memory_bytes", GAUGE, "memory_bytes", "Bytes held in memory, copies of what is on the disk included."),
    Metric(
        "memory_counted_bytes", GAUGE, "memory_counted_bytes", "Bytes held in memory that count for max_memory_bytes."
    ),
    Metric("memory_max_bytes", GAUGE, "limits.max_memory_bytes", "The limit max_memory_bytes."),
    Metric("outbox_bytes", GAUGE, "outbox_bytes", "Bytes in the outgoing buffers of all connections."),
    Metric("outbox_largest_bytes", GAUGE, "outbox_largest_bytes", "Bytes in the fullest outgoing buffer."),
    Metric("outbox_max_bytes", GAUGE, "limits.outbox_max_bytes", "The limit outbox_max_bytes on each outgoing buffer."),
    Metric("store_used_bytes", GAUGE, "store.used_bytes", "Bytes of its file that the store uses."),
    Metric(
        "store_reusable_bytes",
        GAUGE,
        "store.reusable_bytes",
        "Free pages in the store's file, which are used again before it grows.",
    ),
    Metric("wal_bytes", GAUGE, "store.wal_bytes", "Size of the files of the write-ahead log."),
    Metric(
        "wal_kept_bytes",
        GAUGE,
        "store.wal_kept_bytes",
        "Size of the files of the write-ahead log that are kept only because of log_keep.",
    ),
    Metric(
        "store_high_water_bytes",
        GAUGE,
        "store.high_water_bytes",
        "The high-water mark: SENDs wait while the store uses more.",
    ),
    Metric(
        "store_map_size_bytes",
        GAUGE,
        "store.map_size",
        "The setting map_size, the most that the store's file can have.",
    ),
    Metric("disk_free_bytes", GAUGE, "store.disk_free_bytes", "Free bytes on the file system of the store."),
    Metric(
        "disk_room_bytes",
        GAUGE,
        "store.disk_room_bytes",
        "Bytes of the disk left for messages: free ones, and those in the store's file if it is mostly free pages.",
    ),
    Metric(
        "disk_room_min_bytes",
        GAUGE,
        "store.disk_free_min",
        "The setting disk_free_min: SENDs wait while radiator_disk_room_bytes is less.",
    ),
    Metric(
        "store_checked_ratio",
        GAUGE,
        "store.checked_percent",
        "How much of the store's structure was checked since the start, 0 to 1.",
        100,
    ),
    Metric("batches_total", COUNTER, "batches", "Batches that were submitted to be committed."),
)
LATENCIES = (
    Metric(
        "commit_latency_seconds",
        HISTOGRAM,
        "commit_latency",
        "Time from the turn that closes a batch to the turn that learns that it is synced to the disk.",
    ),
    Metric(
        "delivery_latency_seconds",
        HISTOGRAM,
        "delivery_latency",
        "Time from a message's SEND, or its due time, to the turn that first writes it to a consumer of its queue.",
    ),
)
COUNTERS = {
    "damaged_sends": "Stored SENDs of transactions that could not be read.",
    "dead_letters_dropped": "Dead letters dropped because their exchange led to no queue, or back in a cycle.",
    "duplicates": "SENDs whose dedup-id was known, so that they stored nothing.",
    "log_readers_overtaken": "Readers of logs closed because retention had removed the records to be read next.",
    "nodes_ignored": "Nodes that other nodes told of and that were ignored, since the bound on nodes was reached.",
    "refusals": "Requests that were refused.",
    "replies_dropped": "Replies dropped because their receiver was gone or had no room.",
    "set_aside": "Messages set aside because no link can carry them.",
    "slow_exchange_subscribers": "Subscribers of exchanges closed because they read too slowly.",
    "slow_topic_subscribers": "Subscribers of topics closed because they read too slowly.",
    "topic_copies_unwanted": "Messages of topics that came from other nodes and had no subscriber on this node.",
    "topic_duplicates": "Messages of topics that came from other nodes more than once.",
    "topic_messages": "Messages sent to topics.",
    "topic_messages_dropped": "Messages of topics dropped on their way to another node.",
    "topic_messages_strange": "Messages of topics dropped because their node is unknown, or has started again since.",
    "unrouted": "Messages sent to exchanges that matched no binding.",
}
_QUEUE = (
    Metric("messages", GAUGE, "messages", "Messages of a queue, in any state."),
    Metric("bytes", GAUGE, "bytes", "Bytes of the headers and bodies of a queue's messages."),
    Metric("max_messages", GAUGE, "max_messages", "The bound max_messages of a queue that has one."),
    Metric("max_bytes", GAUGE, "max_bytes", "The bound max_bytes of a queue that has one."),
    Metric("ready", GAUGE, "ready", "Messages that wait for a consumer."),
    Metric("oldest_ready_seconds", GAUGE, "oldest_ms", "The age of the oldest message that is ready.", 1000),
    Metric("unacked", GAUGE, "unacked", "Messages delivered to consumers and not yet acked."),
    Metric("delayed", GAUGE, "delayed", "Messages kept back until they are due."),
    Metric("in_doubt", GAUGE, "in_doubt", "Messages offered to another node that has not answered yet."),
    Metric("set_aside", GAUGE, "set_aside", "Messages in a queue that no link can carry to another node."),
    Metric("checked_out", GAUGE, "checked_out", "Messages that groups have checked out."),
    Metric("storing", GAUGE, "storing", "Messages that are being written to the disk."),
    Metric("consumers", GAUGE, "consumers", "Subscriptions to the queue."),
    Metric("useful_consumers", GAUGE, "useful_consumers", "How many consumers could be busy at once, for autoscaling."),
    Metric(
        "active_keys", GAUGE, "active_keys", "Keys of a partitioned queue with messages that the broker has in memory."
    ),
    Metric("key_moves_total", COUNTER, "key_moves", "How often a key was assigned to another consumer than before."),
    Metric("blocked", GAUGE, "blocked", "Connections whose SEND waits for room in the queue."),
    Metric("damaged", GAUGE, "damaged", "Stored messages that cannot be read."),
    Metric("adds_up", GAUGE, "adds_up", "1: the queue's ledger adds up; 0: that is a bug."),
    Metric("accepted_total", COUNTER, "accepted", "Messages that a queue accepted."),
    Metric("accepted_bytes_total", COUNTER, "accepted_bytes", "Bytes of the messages that a queue accepted."),
    Metric("acked_total", COUNTER, "acked", "Messages that were acked."),
    Metric("acked_bytes_total", COUNTER, "acked_bytes", "Bytes of the messages that were acked."),
    Metric("expired_total", COUNTER, "expired", "Messages that expired and were removed."),
    Metric("expired_bytes_total", COUNTER, "expired_bytes", "Bytes of the messages that expired and were removed."),
    Metric("dropped_total", COUNTER, "dropped", "Messages that were dropped: rejected by a consumer, or at a bound."),
    Metric("dropped_bytes_total", COUNTER, "dropped_bytes", "Bytes of the messages that were dropped."),
    Metric("purged_total", COUNTER, "purged", "Messages that an operator purged or moved."),
    Metric("purged_bytes_total", COUNTER, "purged_bytes", "Bytes of the messages that an operator purged or moved."),
    Metric("dead_lettered_total", COUNTER, "dead_lettered", "Messages that became dead letters."),
    Metric(
        "dead_lettered_bytes_total", COUNTER, "dead_lettered_bytes", "Bytes of the messages that became dead letters."
    ),
    Metric("redelivered_total", COUNTER, "redelivered", "How often a message was redelivered."),
)
_EXCHANGE = (
    Metric("accepted_total", COUNTER, "accepted", "Messages that were sent to an exchange."),
    Metric("unrouted_total", COUNTER, "unrouted", "Messages sent to an exchange that matched no binding."),
    Metric("bindings", GAUGE, "bindings", "Bindings of an exchange."),
)
_LOG = (
    Metric("accepted_total", COUNTER, "accepted", "Records that were appended to a log."),
    Metric("records", GAUGE, "records", "Records of a log."),
    Metric("bytes", GAUGE, "bytes", "Bytes of the headers and bodies of a log's records."),
    Metric("retention_bytes", GAUGE, "retention_bytes", "The setting retention_bytes of a log that has one."),
    Metric("readers", GAUGE, "readers", "Subscriptions to a log."),
    Metric("unread", GAUGE, "unread", "Records of a log that a group has not acked.", by="group"),
)
_FANOUT = (Metric("accepted_total", COUNTER, "accepted", "Messages that were sent to a fanout."),)
_PEER = (
    Metric("up", GAUGE, "state", "1: this node is linked with that node; 0: it is not.", is_one_if="up"),
    Metric("in_doubt", GAUGE, "in_doubt", "Messages offered to a node that has not answered yet."),
    Metric("outbox", GAUGE, "outbox", "Copies of fanouts and topics that wait for a node."),
    Metric("outbox_bytes", GAUGE, "outbox_bytes", "Bytes of the copies that wait for a node."),
    Metric("outbox_max_bytes", GAUGE, "outbox_max_bytes", "The bound on the bytes of the copies that wait for a node."),
    Metric("outbox_blocked", GAUGE, "outbox_blocked", "Connections whose SEND waits for room in a node's outbox."),
    Metric(
        "copies_kept",
        GAUGE,
        "copies_kept",
        "1: copies are kept for a node while it is not linked; 0: an operator has ended that.",
    ),
    Metric(
        "lag_seconds", GAUGE, "lag_ms", "Age of the oldest message that waits for a node, or is in doubt with it.", 1000
    ),
    Metric("handed_over_total", COUNTER, "handed_over", "Messages that were handed over to a node."),
    Metric("taken_in_total", COUNTER, "taken_in", "Messages that a node handed over to this one."),
    Metric(
        "outbox_dropped_total",
        COUNTER,
        "outbox_dropped",
        "Copies for a node that were dropped at its bound, or by an operator.",
    ),
)
_TOPIC = (Metric("subscribers", GAUGE, "subscribers", "Subscribers of a topic."),)
_USER = (
    Metric("connections", GAUGE, "connections", "Connections of a user."),
    Metric("connections_max", GAUGE, "max_connections", "The bound max_connections of a user that has one."),
    Metric("subscriptions", GAUGE, "subscriptions", "Subscriptions of a user's connections."),
    Metric("subscriptions_max", GAUGE, "max_subscriptions", "The bound max_subscriptions of a user that has one."),
    Metric("destinations", GAUGE, "destinations", "Destinations that a user has made."),
    Metric("destinations_max", GAUGE, "max_destinations", "The bound max_destinations of a user that has one."),
    Metric("unacked_bytes", GAUGE, "unacked_bytes", "Bytes delivered to a user's connections and not yet acked."),
    Metric("unacked_max_bytes", GAUGE, "max_unacked_bytes", "The bound max_unacked_bytes of a user that has one."),
    Metric("memory_bytes", GAUGE, "memory_bytes", "Bytes that a user's connections hold in memory."),
    Metric("memory_max_bytes", GAUGE, "max_memory_bytes", "The bound max_memory_bytes of a user that has one."),
    Metric("stored_bytes", GAUGE, "stored_bytes", "Bytes stored in queues and logs that a user has made."),
    Metric("stored_max_bytes", GAUGE, "max_stored_bytes", "The bound max_stored_bytes of a user that has one."),
    Metric("blocked", GAUGE, "blocked", "Connections whose SEND waits because of a bound of a user."),
)
OF_EACH = {QUEUE: _QUEUE, EXCHANGE: _EXCHANGE, LOG: _LOG, FANOUT: _FANOUT, "peer": _PEER, TOPIC: _TOPIC, "user": _USER}
"""The metrics of one thing of each kind, by the label of their samples. Other kinds have no metrics."""

BROKER_SECTION = "broker"
"""The name for metrics of the whole broker, which no section of `stats` has."""

SECTIONS = {
    KINDS[label].section if label in KINDS else {"peer": PEERS, "user": USERS}[label]: label for label in OF_EACH
}
"""The label that tells the rows of each section of `stats` apart."""

INFO = Metric("info", GAUGE, "", "1, with the broker's version and the id of its store.")


def metrics() -> Iterator[Metric]:
    """Yields all metrics with their whole names, in the order of the text."""
    for metric in (INFO, *BROKER, *LATENCIES):
        yield replace(metric, name=f"radiator_{metric.name}")
    for name, help in sorted(COUNTERS.items()):
        yield Metric(f"radiator_{name}_total", COUNTER, name, help)
    for label, of_each in OF_EACH.items():
        for metric in of_each:
            yield replace(metric, name=f"radiator_{label}_{metric.name}")
