"""Headers of a SEND or SUBSCRIBE that other brokers heed, and this one does not. Those of a SEND are passed on like any
other header; the log names the header, and what to use instead.
"""

_NO_PRIORITIES = "Only a queue with max_priority has priorities; elsewhere use a separate queue for urgent messages."
_DELAYS = "Use delay:MS or deliver-at:MS to delay a message."
_NO_SCHEDULES = "The broker has no schedules: send the message each time."
_NO_GROUPS = (
    'A queue with partition_key = "header:%s" keeps an order for each group. Other queues have no '
    "groups: exclusive:true, or a log with partition-key, keeps an order."
)
_EXPIRATION = "Use expiration:MS for a message's time to live."

_OWN_TOO = "A connection also gets what it sends itself, if it is subscribed: mark that with a header of your own."
_CONSUMER_PRIORITY = "Use consumer-priority:N to say which consumers come first."
_NOT_BEFORE = (
    "A topic delivers only new messages: durable:true keeps those sent while the subscriber is away, and a log keeps "
    "all."
)

OF_SUBSCRIBE = {
    b"no-local": _OWN_TOO,
    b"activemq.noLocal": _OWN_TOO,
    b"activemq.priority": _CONSUMER_PRIORITY,
    b"x-priority": _CONSUMER_PRIORITY,
    b"activemq.retroactive": _NOT_BEFORE,
}
OF_SEND = {
    b"priority": _NO_PRIORITIES,
    b"AMQ_SCHEDULED_DELAY": _DELAYS,
    b"AMQ_SCHEDULED_PERIOD": _NO_SCHEDULES,
    b"AMQ_SCHEDULED_REPEAT": _NO_SCHEDULES,
    b"AMQ_SCHEDULED_CRON": _NO_SCHEDULES,
    b"_AMQ_SCHED_DELIVERY": _DELAYS,
    b"x-delay": _DELAYS,
    b"x-message-ttl": _EXPIRATION,
    b"JMSXGroupID": _NO_GROUPS % "JMSXGroupID",
    b"_AMQ_GROUP_ID": _NO_GROUPS % "_AMQ_GROUP_ID",
}
_NOTHING = (b"0", b"false", b"False", b"")
_USUAL = {b"priority": (b"0", b"4")}  # what clients of AMQP and JMS send by default


def unheeded(headers: dict[bytes, bytes], known: dict[bytes, str]) -> bytes | None:
    """Returns the first of the known headers whose value asks for something, or None."""
    if known.keys().isdisjoint(headers):
        return None  # nearly every SEND has none: one look instead of one for each known header
    for header in known:
        value = headers.get(header)
        if value is not None and value.strip() not in _USUAL.get(header, _NOTHING):
            return header
    return None
