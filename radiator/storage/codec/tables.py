"""The tables of a store, LMDB's named databases, and the rows of `meta`. docs/FORMAT.md describes their contents."""

MESSAGES = b"messages"
COUNTS = b"counts"
QUEUES = b"queues"
LEDGERS = b"ledgers"
RETIRED = b"retired"
DEDUP = b"dedup"
DEDUP_BY_TIME = b"dedup_by_time"
META = b"meta"
PEERS = b"peers"
DOUBTS = b"doubts"
SETTINGS = b"settings"
DECLARED = b"declared"
BINDINGS = b"bindings"
DELAYED = b"delayed"
LOGS = b"logs"
RECORDS = b"records"
SEGMENTS = b"segments"
POSITIONS = b"positions"
TRANSACTIONS = b"stages"
PREPARED_SENDS = b"staged"
APPS = b"apps"
BY_KEY = b"by_key"
HELD = b"held"
ADDED = {  # by which format
    2: (PEERS, DOUBTS),
    3: (SETTINGS, DECLARED, BINDINGS, DELAYED),
    4: (LOGS, RECORDS, SEGMENTS, POSITIONS, TRANSACTIONS, PREPARED_SENDS, APPS),
    5: (BY_KEY,),
    6: (HELD,),
}
TABLES = (
    MESSAGES, COUNTS, QUEUES, LEDGERS, RETIRED, DEDUP, DEDUP_BY_TIME, META,
    *(table for tables in ADDED.values() for table in tables),
)  # fmt: skip
INDEXES = frozenset({BY_KEY})
"""Tables of which each row comes and goes in one batch with a row of another, which says whether that may be."""

FIRST_WITH_LOG = 5  # a store of this format, or a later one, has a write-ahead log


def tables_of(number: int) -> tuple[bytes, ...]:
    """Returns the tables of a store of that format."""
    later = {name for added, names in ADDED.items() if added > number for name in names}
    return tuple(name for name in TABLES if name not in later)


# ---- rows of meta
FORMAT = b"format"  # never changes its shape, in any format
STORE_ID = b"store_id"
BOOT = b"boot"
CLEAN = b"clean"  # 1 from a clean stop to the next start
REDELIVERED_BELOW = b"redelivered_below"  # messages of earlier boots than this were stored before an unclean stop
NEXT_QUEUE = b"next_queue"
NODE = b"node"  # whose store it is; not there before it was started with a [node]
TIME = b"time"  # the last time that the broker has kept; not there before it has
APPLIED = b"applied"  # the last entry of the log that the tables have
BACKUP = b"backup"  # only in a file made by `radiator backup`
NUMBERS = (FORMAT, BOOT, CLEAN, REDELIVERED_BELOW, NEXT_QUEUE)
