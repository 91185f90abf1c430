"""The kinds of addresses that there are. A new one is a row here."""

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

KINDS: tuple[type[Kind], ...] = (
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
