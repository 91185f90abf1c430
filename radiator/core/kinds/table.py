"""The kinds of addresses that there are. A new one is a row here, and one in model/addresses.py."""

from collections.abc import Mapping

from radiator.core.kinds.admin import AdminKind
from radiator.core.kinds.exchange import ExchangeKind
from radiator.core.kinds.existing_queue import ExistingQueueKind
from radiator.core.kinds.fanout import FanoutKind
from radiator.core.kinds.kind import Kind
from radiator.core.kinds.log import LogKind
from radiator.core.kinds.queue import QueueKind
from radiator.core.kinds.reply_queue import ReplyQueueKind
from radiator.core.kinds.temp_queue import TempQueueKind
from radiator.core.kinds.topic import TopicKind
from radiator.core.routing.incoming import Incoming
from radiator.model.recovery import Recovery

KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (
        QueueKind,
        ExistingQueueKind,
        FanoutKind,
        TopicKind,
        ExchangeKind,
        LogKind,
        TempQueueKind,
        ReplyQueueKind,
        AdminKind,
    )
}
Kinds = Mapping[str, Kind]


def start(incoming: Incoming, recovery: Recovery) -> Kinds:
    """Makes one object of each, and all destinations that the store has or config.toml declares. Raises StoreError."""
    kinds = {name: kind(incoming) for name, kind in KINDS.items()}
    destinations = incoming.destinations
    destinations.counted = [*kinds.values()]
    # queues last: what leads to them is there, and logs have the first numbers
    for kind in reversed(kinds.values()):
        kind.recover(recovery)
    destinations.recover_bindings(recovery)
    for kind in reversed(kinds.values()):
        kind.make_declared(recovery)
    destinations.bind_declared()
    return kinds
