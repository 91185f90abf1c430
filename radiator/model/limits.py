"""Every bound of the broker, with its unit and its reason.

An operator may set `Limits` ([limits] in config.toml); the constants below are fixed. Beside each is what happens at
it: wait (back-pressure), refuse (ERROR, close), close or cut. What callers of the client may choose has its default.
"""

from dataclasses import dataclass
from math import inf

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(slots=True, kw_only=True)
class Limits:
    """The [limits] table; docs/OPERATING.md says how to choose them."""

    max_connections: int = 20_000  # one more is refused with ERROR; a connection costs under 20 KiB
    max_half_open: int = 2000  # connections that have not sent CONNECT yet; for one more, one of them is closed
    max_half_open_per_address: int = 500  # the same of one IPv4 address, or of one /64 of IPv6
    max_memory_bytes: int = GIB  # past 80 % the large holders wait, past it the largest holder is closed
    max_frame_bytes: int = 16 * MIB  # refuse: a frame is held whole in memory
    max_header_bytes: int = 64 * KIB  # refuse: the header block of one frame, command line included
    max_headers: int = 256  # refuse: header lines of one frame
    max_destinations: int = 10_000  # refuse: queues, exchanges, fanouts, topics, partitions of logs
    max_subscriptions: int = 1024  # refuse: for each connection; its temp queues too
    ack_client_window: int = 1  # wait: unacked, of a subscription with ack:client that asks for no window of its own
    max_leases: int = 100_000  # refuse: messages under a lease, of each user; each takes some KiB of memory
    max_transactions: int = 16  # refuse: open, for each connection
    max_batch_bytes: int = 64 * MIB  # refuse: a transaction, or one SEND with all its copies
    outbox_max_bytes: int = 32 * MIB  # close: a topic's subscriber; by default two largest frames
    connect_timeout_s: float = 10  # close: the whole CONNECT frame; later, a frame of which no byte comes for so long
    frame_timeout_s: float = 60  # ERROR, close: a frame that is not whole, or FRAME_BYTES_PER_S where that is longer
    block_timeout_s: float = 60  # refuse: how long a SEND may wait for room
    transaction_max_s: float = 600  # close: how long a transaction may be open; its bytes are held for as long
    prepared_max_s: float = 86_400  # dropped: a prepared transaction that is not committed
    app_max_s: float = 90 * 86_400  # forgotten: a producer-id without a commit
    tcp_timeout_s: float = 60  # close: a peer whose TCP answers nothing for so long
    heart_beat_ms: tuple[int, int] = (10_000, 10_000)  # what the server offers, and wants

    @property
    def outbox_filled_bytes(self) -> int:
        """Queues fill no more of an outgoing buffer, and a client that leaves more unread is not read from."""
        return min(self.outbox_max_bytes, OUTBOX_FILLED_BYTES)

    @property
    def has_default_outbox(self) -> bool:
        """Whether outbox_max_bytes has its default."""
        return self.outbox_max_bytes == outbox_default_bytes(self.max_frame_bytes)


# ---- names and protocol
NAME_MAX_BYTES = 255  # refuse: a destination's NAME in UTF-8; a key of LMDB holds 511
COMMAND_MAX_BYTES = 32  # refuse: no STOMP command is longer than 11
ID_MAX_BYTES = KIB  # refuse: an `id` or `transaction`; each is kept while what it names lasts
TOPIC_WORDS_MAX = 16  # refuse: words of a topic, or of a pattern; matching costs every word times what is followed
KEY_WORDS_MAX = 48  # refuse: of a key of a topic exchange; Celery and NServiceBus put 28 before a key that waits
PATTERN_WILDCARDS_MAX = 3  # refuse: `*` and `#` in one pattern; with 4, ten hostile connections cost 0.15 s a publish
BINDINGS_MAX = 131_072  # refuse: bindings of all exchanges, and durable subscriptions; made up to cost most, 6 KiB each
MATCHES_KEPT = 4096  # forgotten, and searched again: names whose matches a trie keeps; no more than its patterns
MATCHED_KEPT = 8  # forgotten: the matches of all kept names together, for each pattern of a trie
WALK_STEPS_MAX = 500  # refuse: a pattern that makes the matching of a name take that many steps, of some 0.4 µs
MATCHES_DEAR = 64  # not kept: matches found in fewer steps, of some 0.4 µs each
CONTAINS_SETS_MAX = 64  # refuse: ways on that are followed to find out whether a pattern contains another
PREFIX_MIN_BYTES = 16  # refuse: a shorter one, by which whoever is no admin would abort what others have prepared
VERDICTS_KEPT = 16_384  # forgotten, and judged again: whether a user has a right on an address
CORRELATION_MAX_BYTES = 255  # left out: of a correlation-id that the journal tells; AMQP has none that is longer
DEDUP_ID_MAX_BYTES = 255  # refuse: it is part of an LMDB key of at most 511 bytes
PREFETCH_COUNT_MAX = 65_535  # refuse: one subscription's window
EXTEND_MIN_S = 0.001  # refuse: a shorter one in an `extend`
ACK_TIMEOUT_MAX_S = 365 * 86_400  # refuse: what a SUBSCRIBE or an `extend` may ask for
TIME_MAX_MS = 10**15 - 1  # refuse: some 31,700 years; a time and a time to live together stay within 64 bits
SIZE_MAX = 10**15 - 1  # refuse: bytes or messages that a header asks for; 15 digits, as a time has
NUMBER_DIGITS_MAX = 18  # refuse: more than any number in a header needs; int() of a long text is slow
CONNECT_MAX_BYTES = 8 * KIB  # close: what an unknown client may make the broker hold before CONNECT is whole
HTTP_HEAD_BYTES = 16 * KIB  # refuse: a request's line and headers
HTTP_TARGET_BYTES = 4 * KIB  # refuse: of that, its target
HTTP_HEADERS = 64  # refuse: of one request
HTTP_SEGMENTS = 8  # refuse: parts of a path between `/`
HTTP_QUERY_FIELDS = 16  # refuse: parameters behind the `?`
HTTP_LOGIN_BYTES = 8 * KIB  # refuse: a body of JSON with a login, which is read of a stranger
HTTP_BATCH_MESSAGES = 1_000  # refuse: messages of one request
HTTP_BATCH_BYTES = MIB  # refuse: of a body of JSON or Avro that holds messages or settlements
HTTP_JSON_VALUES = 32_768  # refuse: members, elements, arrays and objects of a body, which is read in one go: 25 ms
HTTP_REQUESTS_AT_ONCE = 16  # wait: requests of a connection before the others get their turn, of up to 0.1 ms each
HTTP_ANSWERS_BYTES = 64 * KIB  # wait: answered by a session itself, and of what its client leaves unread
HTTP_BODY_AT_ONCE_BYTES, HTTP_BATCH_AT_ONCE_BYTES = 16 * KIB, 512  # wait: a longer body has a turn among all of these
HTTP_PIPELINED = 64  # wait: requests of a connection that are not answered yet
HTTP_IDLE_S = 60  # close: how long a connection without a request is kept
TUNNEL_BYTES = 256 * KIB  # wait: of a session of STOMP over HTTP: of one request, and what its client has not fetched
TUNNELS_BYTES = 64 * MIB  # wait: of all such sessions together; then each reads only TUNNEL_LEAST_BYTES ahead
TUNNELS_ENDED = 10_000  # cut: sessions that have ended, of which not all was fetched; the oldest is forgotten
TUNNEL_LEAST_BYTES = 16 * KIB  # wait: what the client of one has not fetched, while all together keep so much
HTTP_EVENTS_BEAT_S = 15  # how often a stream of events says that it is alive
HTTP_STATS_EVERY_S = 5  # how often a stream of stats has the numbers, where its request does not say
HTTP_STATS_EVERY_MAX_S = 3600  # refuse: a longer period of such a stream
REPEATED_AT_ONCE = 100  # wait, until the next Tick: streams of stats whose period is over
HTTP_EVENTS_PARTITIONS = 64  # refuse: of a log, read by one stream of events; each event has the place in all of them
WEBSOCKET_FRAGMENTS = 1_024  # close: frames of one message; a sender uses few, and each costs the same, if empty too
WEBSOCKET_FRAMES_AT_ONCE = 64  # wait: frames of a connection before the others get their turn, a slice more at most
WEBSOCKET_SLICE_BYTES = 256  # what is taken for frames at once; they are counted behind it
WEBSOCKET_MORE_BYTES = 64 * KIB  # close: a message longer than max_frame_bytes by more
HEART_BEAT_MIN_MS = 100  # wait: the broker never sends more often, whatever was asked for
ADDRESSES_KEPT = 64  # forgotten, and decoded again: destinations that a session remembers; a sender uses few
PUBLISHED_BYTES = 256 * KIB  # of a larger one a single frame is kept
PUBLISHED_KEPT = 16  # forgotten, and encoded again: frames of the last message of a topic, by subscription id
HEADER_LINES_KEPT = 1024  # forgotten, and encoded again: `destination` and `subscription` lines of MESSAGEs
SHOWN_BYTES = 60  # cut: how much of a peer's value a sentence repeats
ERROR_MESSAGE_CHARACTERS = 200  # cut: the part of the sentence in ERROR's `message`; the body has all of it
# Of Radiator's client: the broker adds to the frame that was sent, and escaping for another version may double a header
CLIENT_LIMITS = Limits(max_frame_bytes=64 * MIB, max_header_bytes=256 * KIB, max_headers=512)

# ---- the dispatcher: one turn stays under about 2 ms so that heart-beats and other clients are not late
READ_BYTES = 64 * KIB  # wait: what one reader takes before others get their turn
READS_PER_TURN = 64  # wait: reads, or waiting connections, that one turn takes
COMMANDS_PER_TURN = 256  # wait: commands that one turn carries out, at 4 to 10 µs each
REPLIES_PER_TURN = 16_000  # wait: a burst to a topic of many subscribers goes on in the next turn
COPIES_PER_TURN = 1024  # wait: copies that SENDs to exchanges, fanouts, and transactions make in a turn; one goes alone
COMMITTED_PER_TURN = 4096  # wait: messages that COMMITs send and settle in a turn, at 2 to 3 µs each; one goes alone
STEPS_PER_COPY = 8  # steps of matching that cost as much as a copy
OFFERS_PER_TURN = 256  # wait: connections of users that were at max_unacked_bytes, and are given messages again
COMMANDS_AT_ONCE = 16  # wait: commands of one connection before the others get their turn
INBOX_MAX_BYTES = 8 * MIB  # wait: readers stop until the dispatcher has caught up
UNBINDINGS_PER_STEP = 320  # wait: bindings that one step removes, of some 7 µs each
STALE_TIMEOUTS = 64  # swept: ack timeouts of settled deliveries, past this number plus that of those still out
STEP_MESSAGES = 1000  # wait: how many messages one step of a long work (LOST, purge, move, sweep) handles
DEAD_LETTER_HEADER_BYTES = 128  # each of these counts as a command more: deaths are read and written anew
MEMORY_TIGHT = 0.8  # wait: the share of max_memory_bytes past which SENDs of large holders wait
MEMORY_SHARE = 8  # wait: past that, a connection that holds more than this part of it, and than a largest frame
NEXT_TO_NOTHING_BYTES = 16 * KIB  # a connection that holds less is never closed for memory
COSTLY_S = 0.004  # wait: steps of sessions that take long, between two looks at the sockets; one may take longer
COSTLY_REST_S, COSTLY_REST_MAX_S = 0.001, 0.05  # wait: between those; as long as they have taken, within these two
BACKGROUND_REST_S = 0.001  # wait: between two turns with background work, while a thread is busy at the disk
WINDOW_FULL_S = 10.0  # logged: a consumer with ack:client, its window full, that acks nothing while more is ready
RELOAD_LOOKS = 1000  # wait: what one slice of a reload looks at or changes, in microseconds
RELOAD_AT_ONCE = 250  # wait: queues that get other settings in one turn; those beyond in the next ones
CONFIG_MAX_BYTES = 16 * MIB  # refused: of config.toml, of the users_file, and of the contexts
CHANGE_CHARACTERS = 500  # cut: one value in the report of a reload
JUDGED_LOOKS = 4  # microseconds that it takes to judge a connection or subscription again, once rights have changed
MISTAKES_SHOWN = 100  # cut: sentences about a configuration that cannot be reloaded
UNHEEDED_NOTED = 256  # not logged: further destinations of SENDs with a header that means nothing here
HOLDERS_SHOWN = 5  # cut: connections and memory queues that hold most, as the log, `stats` and `why` name them

# ---- sockets
WRITE_BYTES = 256 * KIB  # wait: what one write joins at most
WRITTEN_AT_ONCE_BYTES = 64 * KIB  # such a write is reported to the broker at once, a smaller one with the next turn
HANDSHAKES_PER_TURN = 4  # wait: steps of TLS handshakes in one turn of the loop, of up to 1 ms each
TLS_SLICE_BYTES = 5 * KIB  # what is encrypted or decrypted at once: OpenSSL's two buffers keep a third more
TLS_FILE_BYTES = 64 * KIB  # refuse: a certificate with its chain, or a key; a handshake must fit the system's buffer
TLS_CA_BYTES = 2 * MIB  # refuse: a file of CAs; that of all which a system trusts has a quarter of a MiB
TLS_UNSENT_BYTES = MIB  # close: encrypted bytes, other than a write's, that a client does not read
TLS_EMPTY_RECORDS, TLS_EMPTY_S = 32, 60.0  # close: more records without data in that time; each may take 20 us
TLS_TINY_BYTES = 64  # wait: records below, at 1 us each: a read behind them takes TLS_SLICE_BYTES instead of READ_BYTES
CERTIFICATE_READY_S = 86_400  # refuse: a broker whose certificate is over so soon is not ready for clients
CERTIFICATE_WARN_DAYS, CERTIFICATE_LOOK_S = 30, 86_400.0  # logged, so often: from so long before the certificate's end
FRAME_BYTES_PER_S = 16 * KIB  # ERROR, close: a frame that comes more slowly, once frame_timeout_s is over
OUTBOX_FILLED_BYTES = 4 * MIB  # wait: queues, and clients that leave more unread; topics too where memory is half used
SEND_BUFFER_BYTES = 256 * KIB  # wait: what the system buffers for a peer that does not read; unset it took 3.8 MiB
GOODBYE_MAX_S = 10.0  # close: how long an ERROR, and what is due before it, may take to be written
LINGER_S, LINGER_BYTES = 1.0, 4 * MIB  # close: a peer's time and bytes after the last byte, which a close may destroy
ACCEPTS_AT_ONCE = 8  # wait: new connections taken before the others get their turn; 0.1 ms each where one makes way
LISTEN_BACKLOG = 1024  # wait: in the system, before they are accepted
CHECKS_WAITING_MAX = 32  # refuse: identity checks that have not begun; a hash takes some 0.1 s
SECRET_GIVEN_MAX_BYTES = 1024  # refuse: a longer password or token
LOGINS_KEPT = 4096  # forgotten, the oldest: logins that were right, and as many that were wrong; some 0.3 KiB each
COOKIE_BYTES = 32  # random bytes of the cookie that a browser keeps a login in
COOKIE_IDLE_S = 30 * 60  # ends: a login in a cookie that was not used for so long
COOKIE_MAX_S = 8 * 3600  # ends: any login in a cookie
COOKIES_MAX = 1_000  # ends, the longest unused: logins in cookies, some 1 KiB each
COOKIES_OF_USER = 100  # the same of one user
COOKIES_LOOK_S = 1.0  # how often it is looked whether one of them has ended
WRONG_KEPT_S = 60.0  # forgotten: a JSON Web Token that was wrong, which may only have come before its time
FAILURES_KEPT = 4096  # forgotten, the oldest: names, and as many networks, whose failed logins are counted
FAILURES_OF_NAME = 10  # refuse: failed logins of one name at once; each further one may come after
FAILURE_OF_NAME_S = 6.0  # this
FAILURES_OF_NETWORK = 50  # the same of one network
FAILURE_OF_NETWORK_S = 1.0
JWT_MAX_BYTES = 6 * KIB  # refuse: a longer JSON Web Token; with what else CONNECT says it must fit CONNECT_MAX_BYTES
JWT_TIME_MAX_S = 10**11  # refuse: a later `exp` or `nbf`, of the year 5138; most often it is in milliseconds
JWT_KEYS_MAX = 32  # refuse: keys in a file
JWT_KEYS_MAX_BYTES = 256 * KIB  # refuse: what such a file has
RSA_MIN_BITS, RSA_MAX_BITS = 2048, 8192  # refuse: a key that is too weak, or takes too long
SCRYPT_MEMORY_MAX_BYTES = 128 * MIB  # refuse: what one hash of a password may take; work grows with it
USERS_MAX = 65_536  # refuse: users of a configuration
TOKENS_MAX = 16  # refuse: of one user: each wrong one is compared with all of them
HALF_OPEN_MIN = 32  # for max_half_open where the system gives too few files: this, or a tenth of them if that is more
UNIX_PATH_MAX_BYTES = 107  # refuse: sun_path of unix(7) has 108, a NUL included
OPERATORS_CONNECTIONS = 32  # refuse: at radiator.sock, beside max_connections; as many more may be half-open there
SPARE_FILES = 64  # open files beside those of connections
ACCEPT_AGAIN_S = 0.5  # wait: after the system had no file for a new connection
LOOK_EVERY_S = 0.02  # how exactly heart-beats and timeouts are kept
LOOKS_AT_ONCE = 256  # wait: connections that are looked at before the others get their turn, some 14 µs each
ENDED_AT_ONCE = 1000  # wait, until the next tick: connections whose login has run out
LOOKS_PER_TCP_TIMEOUT = 8  # how often within tcp_timeout_s the system is asked whether a peer still answers
RESET_LOOK_S = 1.0  # and after that, as long as nothing is read from it, whether it has reset the connection

# ---- the disk
WAL_SEGMENT_FIRST_BYTES = MIB  # of the write-ahead log; each further one is twice as long, up to
WAL_SEGMENT_BYTES = 64 * MIB  # this, or a 16th of map_size or of the disk where that is less
WAL_SHARE = 16
UNAPPLIED_BYTES = 4 * MIB  # wait: of the log that the tree does not have yet; a start has it in less than a second
UNAPPLIED_ENTRIES = 4096  # the same in entries
UNAPPLIED_ROWS = 8192  # the same in rows: each may lie on a page of its own, which is copied, 32 MiB of them
LOG_KEEP_FREE_BYTES = 128 * MIB  # log_keep keeps nothing while the disk has less; or, where that is less,
LOG_KEEP_FREE_SHARE = 8  # than an 8th of it,
LOG_KEEP_FREE_SEGMENTS = 6  # and than so many of the longest segments: one is made, the tables take as much, twice
APPLIED_EVERY_S = 0.5  # how long an entry may wait until the tree has it
GATHER_MAX_S = 0.0005  # wait: for the clients that the last commit answered, at most this, and no longer than it took
GATHER_WRITES = 4  # and only while the batch has fewer writes than this for each of them
UNAWAITED_MAX_S = 0.01  # how long a batch may wait that no client awaits: what needs no receipt shares a commit
UNAWAITED_QUEUES = 256  # and only where it is of no more queues than this: each is looked at in each turn
BLOCK_RECORDS = 256  # of a log, in one row of the disk
BLOCK_BYTES = 256 * KIB  # the same in bytes, unless one record is larger
EVENT_BYTES = 32  # the size of a journal event in its segment's counters; on the disk it takes about that much
SEGMENT_RECORDS = 16_384  # a stretch of a log that is removed at once: LMDB deletes its rows within some milliseconds
SEGMENT_BYTES = 8 * MIB  # the same in bytes
PARTITIONS_MAX = 1024  # refuse: of a log; each costs a row of its segment in each batch that appends to it
PARTITIONS_PER_TICK = 1024  # wait: partitions whose retention a Tick checks, some 2 µs each
SCHEMA_MAX_BYTES = 24 * KIB  # refuse: the JSON of an Avro schema; a request to /admin escapes it, and has 64 KiB
SCHEMAS_KEPT = 256  # forgotten, and made anew: schemas as bodies are judged by them, some 30 times their text
BODY_VALUES_MAX = 16_384  # refuse: of a body that a schema judges, some 0.3 µs each; a map's key is one, and a union
BODY_TEXT_BYTES = 256  # so many bytes of a text count as one more value, as three further ones of a number do
BODY_DEPTH_MAX = 100  # refuse: values within each other, in such a body
BODY_PLACE_CHARACTERS = 160  # cut, in the middle: the place of a wrong value
JSON_BODY_MAX_BYTES = 64 * KIB  # refuse: such a body in JSON; hostile JSON takes 4 ms
JUDGED_VALUES_MAX = 65_536  # refuse: values of all bodies of one transaction that schemas judge
KEYED_BODY_MAX_BYTES = 16 * KIB  # passed over: a body that is searched for a message's key; hostile JSON takes 1 ms
KEY_SOURCES_MAX = 8  # refuse: places in which the keys of a queue's messages may stand
KEY_HASH_BYTES = 8  # what stands for a key in the store: two of a million keys are alike once in 37 million such queues
PARTITION_WINDOW_MAX = 1000  # refuse: messages of one key that may be out at once
SEGMENTS_MIN = 8  # a log has at least that many segments: it may keep one more than its retention allows
GROUPS_MAX = 4096  # refuse: groups of one log
POSITIONS_MAX = 262_144  # refuse: positions of all groups, one for each partition; some 70 bytes, and 1 KiB for a group
WATCHED_MAX = 262_144  # refuse: partitions that all readers read, each as often as it is read; some 220 bytes
GROUP_AHEAD_MAX = 100_000  # wait: records that a group reads of a partition beyond the first that it has not acked
AHEAD_MAX = 262_144  # wait: what all groups have acked beyond such a one; some 160 bytes each
RECORDS_PER_TURN = 2048  # wait: records handed to readers of logs in one turn; a thousand readers go on in the next
RECORD_BYTES = 4 * KIB  # each of these bytes of a larger record counts as one more
ENCODED_RECORDS = 16  # a record that its protocol writes in another form, as JSON, counts as so many: 20 µs and more
READERS_BYTES = 32 * MIB  # what all readers of logs have read and not finished: past it each reads one record at a time
PRESSED_OUTBOX_BYTES = 64 * KIB  # wait: unread by a reader of logs where memory is half used: the disk has the records
TAIL_BYTES = 8 * MIB  # the last records of all logs, kept in memory for readers that have read all before
AWAIT_MAX_MS = 60_000  # refuse: how long a request may wait for a log to grow, or for a message to be ready
AWAITED_LOGS_MAX = 256  # refuse: how many logs one such request may wait for
AWAITS_MAX = 16  # refuse: how many such requests of one connection may wait
AWAITS_OF_ONE_MAX = 1000  # answered early: the oldest, where more wait for one log or queue: each is looked at often
AWAITED_OFFSETS_MAX = 16_384  # answered early: the same, where all of them together wait for more offsets than this
CHECKOUT_MESSAGES_MAX = 100_000  # refuse: what one request may take out of a queue
LEASED_AT_ONCE_MAX = 1000  # refuse: messages that one Receive asks for
SETTLED_AT_ONCE_MAX = 1000  # refuse: leases that one Settle names
LEASE_MIN_MS = 1000  # refuse: a shorter lease
LEASE_MAX_MS = 12 * 3_600_000  # refuse: a longer one, counted from when it is given or extended
CONSUMER_NAME_MAX_BYTES = 128  # refuse: a longer name of a consumer
SHOWN_KEY_CHARACTERS = 64  # cut: a key of a partitioned queue, where it is shown
REGISTRATIONS_MAX = 10_000  # refuse: one more that registers and is not subscribed, of all queues; some 5 KB each
REGISTERED_MIN_MS, REGISTERED_MAX_MS = 1000, 3_600_000  # refuse: a shorter or longer lease of a registration
REGISTERED_MS = 30_000  # that of a registration that asks for none
REGISTERED_STEP_S = 1.0  # how much later than its end, beside a Tick, a registration is forgotten
REGISTERED_ENDS_AT_ONCE = 200  # wait, until the next Tick: leases that are over; 0.05 ms each, for the points of keys
DRAINS_MAX = 1000  # answered early: the oldest request that waits for a consumer to be drained
DRAIN_WAIT_MAX_MS = 60_000  # refuse: how long a request may wait for a consumer to be drained
RECEIVES_MAX = 10_000  # refuse: Receives of one user that wait; one of each connection
LEASE_KEY_BYTES = 32  # random bytes that the tokens of leases are made with
LEASE_STEP_S = 1.0  # how much later than its end, beside a Tick, a lease is given back
OVERDUE_AT_ONCE = 10_000  # wait, until the next Tick: leases that are over
RECEIVE_LOAD_S = 1.0  # answered without: how long a Receive waits beyond its time for messages that are being read back
BATCH_BYTES = 4 * MIB  # wait: an open batch past this takes no further SEND; a larger single one goes alone
BATCH_WRITES = 4096  # wait: the same in writes; 64,000 tiny ones would take 0.3 s, and all clients wait for them
SMALL_BYTES = 64 * KIB  # wait: what adds more to a batch has a line of its own for the next one
ACKED_PER_BATCH = 2 * BATCH_WRITES  # wait: an ACK, with so many writes in the open batch; each may copy a page
SETTLED_PER_TRANSACTION, SENT_PER_TRANSACTION = 8192, 16_384  # refuse: what one COMMIT acks and sends, in one turn
LOAD_MESSAGES = 500  # one stretch of a window that is read back
LOAD_BYTES = MIB
WINDOW_MESSAGES = 1000  # READY messages of one persistent queue that are kept in memory
KEY_MESSAGES = 16  # of one key of a partitioned queue, READY in memory; the others are read back when their turn comes
KEYS_HELD_BYTES = 64 * MIB  # wait: deliveries of a persistent queue, where keys that delays hold take so much memory
WINDOW_BYTES = 2 * MIB  # the same in bytes; an empty window takes one message of any size
PREPARED_MAX = 16_384  # refuse: transactions that are prepared, or not yet in their destinations; half a KiB each
PREFIXES_MAX = 1024  # forgotten, the oldest: prefixes under which nothing can be prepared for a while
REFUSE_MAX_S = 3600  # refuse: a longer time without them
APPS_MAX = 65_536  # refuse: values of producer-id that are remembered, of some 0.5 KiB each
APPLIES_AT_ONCE = 4  # wait: committed transactions that are read back at once, LOAD_MESSAGES of each
WAITS_NOTED_S = 1.0  # how long one must have waited for room before the log reports it
OLDEST_AT_ONCE = 4  # answered later: queues whose oldest message is read back only for its age
DELAYED_READS_AT_ONCE = 4  # wait: queues whose delayed messages are read back at once, LOAD_MESSAGES of each
WINDOWS_BYTES = 32 * MIB  # all windows together: past it one message is kept of each whose consumer has room
WINDOWS_SHARE = 8  # they, and KEYS_HELD_BYTES: at most this part of max_memory_bytes
OUT_BYTES = 16 * MIB  # unacked messages of all persistent queues, at most half of the windows: past it on disk only
MAP_BATCHES_MIN = 4  # refuse: a map_size that holds fewer largest batches
READERS_MAX = 16  # refuse, with a StoreError: readers of the store at one time: the loader, backups and checks
FILL_AHEAD_BYTES = 512 * KIB  # allocated before they are used: a sync that makes a file longer takes twice as long
FILL_AHEAD_GROWN_BYTES = 64 * KIB  # not after a commit that takes more: its bytes cost more than the file's metadata
MAP_EXTRA_SHARE = 3  # map beyond map_size, or a file that has outgrown it, of that: address space alone, for what
MAP_EXTRA_BYTES = GIB  # emptying a full store copies, stores anew elsewhere, and keeps while somebody reads a snapshot
BACKUP_META_BYTES = 16 * MIB  # map beyond the pages of a file, for a few rows of meta
FORGET_MESSAGES = 1000  # dedup-ids that one Forget drops, besides twice as many as came in since the last
FORGET_BUSY_S = 1.0  # how often, while ids come in
FORGET_IDLE_S = 10.0  # how often otherwise
STRUCTURE_CHECKED_BYTES = 64 * MIB  # a longer file is not read completely at each start: 0.1 to 0.4 s for this size
STRUCTURE_PAGES = 16  # wait: pages of a longer file that are checked at once while it is served; some 1 ms of Python
STRUCTURE_SLICE_S = 0.002  # wait: or as many as this allows, but at least one
STRUCTURE_REST_S = 0.025  # between two slices, and at least STRUCTURE_SHARE times as long as the last took: 2.5 MiB/s
STRUCTURE_SHARE = 10
CHECK_SLICE_RECORDS = 10_000  # one read transaction each: a longer one pins pages that a running broker frees
CHECK_FINDINGS_MAX = 1000  # counted: sentences of one `radiator check` beyond these

# ---- operations
CLOCK_SET_MS = 1_577_836_800_000  # 2020: a clock that shows less was never set; any time that it is set to is accepted
CLOCK_JUMP_MAX_S = 180 * 86_400  # not accepted: the system's clock where it is further from the known time
CLOCK_KEPT_S = 60  # how often the store saves the time, while anything is written
CLOCK_KEPT_IDLE_S = 86_400  # and otherwise
TICK_S = 0.25  # how often the broker looks at all queues and connections for what is due by time
DUE_STEP_MS = 10  # what expires, or is delayed, is late by up to this: what is due within one step has one turn
BEAT_S = 1.0  # how often a thread that touches the disk shows that it is not stuck
READER_CHECK_S = 10  # slots of dead readers in LMDB pin pages until they are checked
STOP_MAX_S = 4.0  # SIGTERM: the contract says 5 s for the whole stop
STOP_FINISH_MAX_S = 1.5  # SIGTERM: for so long commands already read are carried out; the rest was never receipted
COLLECT_EVERY_S = 3600.0  # how often reference cycles are collected: it stops everything, 0.1 s for 500,000 messages
COLLECT_EVERY_CONNECTIONS = 10_000  # and, among what is new, once that many were closed: some milliseconds
STOP_LINGER_S = 0.2  # SIGTERM: how long peers may take to hang up once everything is written
HEAP_KEPT_BYTES = 16 * MIB  # free memory at the heap's end that is kept: frames of 64 KiB need no new pages each
HEAP_MAPPED_BYTES = MIB  # a block of that size is mapped by itself, and returned as it is freed
HEAP_PAD_BYTES = 256 * KIB  # the heap grows by at least that much
HEAP_FREED_BYTES = 32 * MIB  # so much less is used than before, for so long: what was freed goes back to the system
HEAP_TRIM_AFTER_S = 1.0
LOG_LINES_MAX = 1000  # dropped and counted: lines that stderr does not take
LOG_LINES_PER_S = 100  # dropped and counted: further lines of one event within a second, whatever causes them
LOG_LINES_OF_CLIENT = 10  # dropped and counted: further lines of one event that one address causes within
LOG_CLIENT_EVERY_S = 10.0  # this time; then the log reports how many
LOG_CLIENTS_MAX = 1024  # pairs of address and event that are counted; the bound of the event alone holds for others
LOG_CLIENTS_LISTED = 10  # cut: the clients with the most dropped lines have a line each, the others one together
LOG_TRACE_LINES_MAX = 100  # cut: the last lines of a traceback in a JSON object
LOG_DROPPED_EVERY_S = 1.0  # how often, at most, the log reports the number of dropped lines
LOG_VALUE_CHARACTERS = 200  # cut: one value in the log
LOG_KEPT_LINES = 500  # forgotten, the oldest: lines that are kept for who asks for the last ones
LOG_KEPT_BYTES = 256 * KIB  # the same in bytes
LOG_FLUSH_MAX_S = 1.0  # how long the last lines may take at the end
AUDIT_EVERY_S = 10.0  # counted: of each event, further records of the audit log within this time, beyond so many of one
AUDIT_OF_ONE = {"login": 100, "login-refused": 10, "forbidden": 10, "act": 1000}  # user, or network, and
AUDIT_RECORDS = 2000  # beyond so many of all
AUDIT_NAMES_MAX = 1024  # pairs of event and user, or network, that are counted; the bound of all holds for others
AUDIT_LISTED = 10  # cut: those with the most records left out have a record each, the others one for each event
AUDIT_VALUE_CHARACTERS = 300  # cut: one value in the audit log
READS_AT_ONCE, READS_S = 16, 0.002  # wait: loads that are answered together, of which none is begun after so long
PEEK_MESSAGES_MAX = 1000  # refuse: what one `peek` may ask for
RETURNED_IDS_MAX = 100  # refuse: messages that one `return` may name
RETURNED_QUEUES = 100  # cut: queues that its answer tells of by name
PEEK_BODY_BYTES = 64 * KIB  # cut: one body in the answer
PEEK_PART_BYTES = 256 * KIB  # cut: that of a message that is looked at alone
PEEK_BODIES_BYTES = 8 * MIB  # cut: all bodies of one answer together: it must fit the asker's queue
EXPLAINED_EVENTS_MAX = 1000  # refuse: events that one `explain` may ask for
EXPLAINED_IDS_MAX = 16_384  # cut: messages that one search for a story knows of
EXPLAINED_ID_BYTES = 256  # what one of them is counted as
EXPLAINED_EVENT_BYTES = KIB  # what an event is counted as while its answer is made, its texts included
SEARCHES_AT_ONCE = 16  # refuse: searches of the journal by `explain`, of all connections
SEARCH_WORK = 2_000_000  # wait: one slice of a search; to search a byte for one text is 1, some 0.2 ns of the loader
SEARCH_REST_WORK = 1_000_000  # after so much of it the loader rests,
SEARCH_REST_S = 0.0003  # for so long: commits need Python's lock as it does. It costs
SEARCH_BLOCK_WORK = 5000  # to read a block,
SEARCH_POSITIONS_WORK = 20_000  # to find the positions in it, where many are wanted,
SEARCH_POSITION_WORK = 200  # and to look at each,
SEARCH_DECODED_WORK = 50_000  # to begin to decode it,
SEARCH_EVENT_WORK = 2000  # to decode an event of it,
SEARCH_FOUND_WORK = 12_000  # and to take one that is wanted: a turn takes some 500 of them at most
ADMIN_BODY_MAX_BYTES = 64 * KIB  # refuse: a request to /admin
ADMIN_COPIES = 64  # wait: the cost of a request to /admin among COPIES_PER_TURN; 0.1 ms of a turn
ADMIN_BYTES_PER_COPY = 64  # each of these bytes of its body costs one more
ANSWERS_WAITING_MAX = 4  # wait: unfinished long answers to one connection; at this number it is not read from
ANSWERS_AT_ONCE = 4  # wait: answers that are made at once, of all connections, of each of these lines
ANSWER_LINES = (4, 16, inf)  # slices of an answer at most: `describe`, `why` 1 to 3, a page of 10,000 queues 14
ANSWER_ROWS = 32  # wait: rows of a long answer that are made in one turn, of some 20 µs each
ANSWER_SLICE_BYTES = 32 * KIB  # wait: the same in bytes, or one row
ANSWER_PART_BYTES = MIB  # a long answer is in parts of that size, as one that grows may be copied in each step
ANSWER_MAX_BYTES = 60 * MIB  # refuse: a longer one fits neither its asker's queue nor the limits of Radiator's client
STORE_BEHIND_S = 10.0  # refuse: a broker whose tables are far behind the write-ahead log for so long is not ready
METRICS_USERS = 1000  # cut: users with samples of their own, those with most connections
MATCH_STEPS = 2 * KIB  # wait: words of patterns times words of names that are compared in one turn; up to 0.5 µs each
METRICS_WORDS = 64  # refuse: words of all patterns that one asks for metrics by
LOOKED_AT_PER_COPY = 2  # things that a request looks at in the turn it comes in, for one more; 0.8 µs each
LOOKS_PER_TURN = 1000  # wait: queues and connections that are looked at in one turn from a Tick on, some 1 µs each
WATCHED_LOOKS = 4  # the cost of a queue that depends on time; then of one that is deleted
DELETED_LOOKS = 50
REFUSED_LOOKS = 20  # and a connection that is refused
HEAP_LOOKS = 3  # and what is taken from a heap of thousands
LOOKED_AT_ONCE = 1000  # wait: what is looked at in one turn for a number, or the order, of an answer
WHY_LOOKED_AT = 10_000  # cut: unacked messages whose consumers `why` counts
CLIENT_SHOWN = 100  # cut: characters of what a client says that it is, which each connection keeps
CONNECTION_SUBSCRIPTIONS = 100  # cut: subscriptions in one answer to `connection`
SUBSCRIPTIONS_NAMED = 16  # cut: subscriptions whose consumer's name is looked for as that of a connection
UNACKED_PAGE = 100  # messages in one answer to `unacked`, where it does not say how many; else refuse: more than
UNACKED_PAGE_MAX = 1000
WHY_CONSUMERS = 20  # cut: consumers, and groups, in one answer to `why`
DESCRIBED_BINDINGS = 1000  # cut: bindings in one answer to `describe`
ROUTED_TARGETS = 1000  # cut: queues and logs in one answer to `route`
DESCRIBED_PREPARED = 1000  # cut: prepared transactions in one answer
DESCRIBED_GROUPS = 1000  # cut: groups in one answer to `describe`
HISTORY_S = 3600  # forgotten: older samples of the broker, one a second, and of queues
HISTORY_QUEUES = 200  # forgotten: samples of queues that are less busy than so many others; 11.5 KiB each
HISTORY_QUEUE_EVERY_S = 5  # how often a queue is sampled, and its rates are told
SAMPLED_AT_ONCE = 1000  # wait: queues that are sampled, or sorted, in one turn, of some 0.5 µs each
LOOK_KEPT_S = 60.0  # forgotten: what a look has found, when nobody has asked for it for so long
QUEUE_TABLE_ROWS_MAX = 200  # refuse: rows of one page of the table of queues
QUEUE_ORDERS_KEPT = 8  # forgotten, and made again: orders of the table of queues, each for one question
ATTENTION_ITEMS = 50  # cut: of what needs attention, in one answer
ATTENTION_EVERY_S = 5.0  # wait: how often it is looked for, and later where there is more of it
ATTENTION_GROUPS_MAX = 10_000  # passed over: groups of logs of which it is known since when they stand

# ---- links between nodes
NODE_NAME_MAX_BYTES = 64  # refuse: the name of a node; it is part of an LMDB key and of each message's path
SECRET_MIN_BYTES = 16  # refuse: a shorter secret of nodes can be guessed
SECRET_MAX_BYTES = 1024  # refuse: a longer one is not a secret but another file
NODES_MAX = 1024  # refuse: nodes that one node hears of
NODE_NEIGHBOURS_MAX = 1024  # refuse: links of one node
NODE_PATTERNS_MAX = 4096  # past it a node asks for all topics of scope "cluster"
PATTERNS_MAX = 65_536  # refuse: patterns of all other nodes together; made up to cost most, they take 0.5 GB
PEER_STORES_KEPT = 8  # forgotten: of the earlier stores of a node, under one name, the one not met for longest
LINK_WINDOW = 64  # wait: messages in doubt on one link, in one direction
LINK_WINDOW_BYTES = 8 * MIB  # wait: their bytes; with less in doubt, one more of any size is offered
LINK_CAPACITY_BYTES = 8 * MIB  # wait: what a node takes on one link before it says that it has room, by default
DEATHS_MAX = 32  # forgotten: places and reasons of earlier deaths in the x-death of a dead letter
DEATHS_BYTES = 16 * KIB  # forgotten: of them, beyond that line in a header block; refuse: it from a node
LINK_CAPACITY_SHARE = 8  # and each link has at most this part of the free capacity without having asked
LINK_COST_BYTES = KIB  # what a message costs its taker besides its own bytes: its rows, and the header with its path
LINK_WHOLE_BYTES = 64 * KIB  # a larger body is sent ahead of its message in pieces, so that others can go between
PIECE_BYTES = 32 * KIB  # refuse: of a body at once
PIECES_AHEAD_BYTES = 128 * KIB  # wait: what a link's outgoing buffer holds, before a further piece is put there
LINK_PARTS_BYTES = 64 * MIB  # wait: bodies of all links that are not whole yet; one of any size has room
PARTS_KEPT_S = 60.0  # dropped: such a body, when nothing more of it has come for so long
LINK_CHILDREN_MAX = 1_000_000  # refuse: children that another node's fanout has; max_destinations is no more
LINK_SUPPLY_MAX = 2**32  # cut: messages that a node can supply; with what relays add it must still be a number
SEQUENCE_MAX = 2**62  # refuse: a higher beginning of a link's sequence, so that there is always room above
EPOCH_STEP_MAX = 2**32  # cut: the step by which a node raises an epoch that the other one rejects as over
LINK_CREDIT_MAX = 256  # wait: messages of one queue that a node asks for ahead of its consumers' demand
TOPIC_HOPS_MAX = 16  # drop: links that a topic's message crosses
ROUTES_KEPT = 16_384  # forgotten, and searched again: the links for an origin and a topic
ROUTES_PER_TURN = 16  # wait: routes found for other nodes' messages; each may cost a tree of NODES_MAX nodes
SHARES_PER_TURN = 16  # wait: queues of scope "cluster" that a turn looks at after a change of links, and at a Tick
TREES_KEPT = 64  # forgotten, and computed again: trees of origins, each with a row for every node
SCOPES_KEPT = 4096  # forgotten, and looked up again: whether a topic is of scope "cluster"
INCARNATION_MAX = 2**62 - 1  # refuse: of a node; some 2 million boots
PASSED_OVER_MAX = 64  # wait: messages that may not travel further, among which one that may is searched
LINK_SETTINGS_MAX = 32  # refuse: settings of a queue that one node sends to another
UNLIKE_KEPT = 256  # not logged: queues that a linked node has declared otherwise, beyond these
UNLIKE_SHOWN = 16  # cut: of these, in what `peers` answers
CALM_MS = 1000  # wait: before a message returns that another node's dead-letter queue would have had by now
QUEUE_HOPS_MAX = 4  # links that a Demand or a Supply crosses: work is sought no further
PATH_HOPS_MAX = 8  # wait: links that a queue's message crosses without rest, so that none is passed to and fro
STARVING_S = 2.0  # go on: how long such a message is wanted elsewhere before it crosses another link
HINTS_MAX = 8  # wait: words about one queue to each linked node, from Tick to Tick while no message moves
DEMAND_EVERY_S = 0.25  # wait: how often a Demand of one node is passed on, and how long answers are awaited
PATIENCE_S = 1.0  # ask again: how long a node waits for messages that another has offered to supply
PATIENCE_MAX_S = 60.0  # and at most, where nothing ever comes
AHEAD_DECAY = 8  # the part of the credit asked for ahead that is given up at each Tick where it was not needed
LINK_SOCKETS = 4  # close: sockets of links for each node and one more, those of strangers included
LINK_REFUSALS_KEPT = 1024  # forgotten, and logged again: causes for which there is no link, as they were logged
DIAL_AGAIN_MIN_S = 0.1  # how long after a lost link, or a failed try, a node is dialled again; each time twice as long
DIAL_AGAIN_MAX_S = 10.0
LINK_STEADY_S = 10.0  # a link that was up for so long resets that time
PEER_OUTBOXES_SHARE = 4  # wait: by default all outboxes together hold a quarter of map_size
LAG_EVERY_S = 1.0  # wait: how often watchers of system.peers get the lag of a node
LINK_OUTBOX_BYTES = 32 * MIB  # drop: topic messages for a link whose outgoing buffer holds more; two largest frames
NONCE_BYTES = 32  # refuse: random bytes that each side of a link adds to the proof, so that none can be used again
GREETING_MAX_BYTES = 80  # close: the line that a link begins with
STORE_ID_MAX_BYTES = 64  # refuse: Radiator's have 16
NODE_ADDRESS_MAX_BYTES = 300  # refuse: `peer://HOST:PORT`; a host's name has at most 253
LINK_REFUSAL_BYTES = KIB  # cut: the sentence of a refusal
LINK_CAUSE_MAX = 512  # cut: characters of the cause for which there is no link, in `radiator peers`
LINK_HEADERS_GROWTH = 2  # refuse: a block larger than max_header_bytes by this factor: unescaped colons take two bytes
LINK_ADDED_LINE_BYTES = 576  # refuse: a header that brokers add; the name of a dead letter's queue takes 539
LINK_ADDED_LINES = 7  # refuse: more of them, each once
LINK_TEXTS_KEPT = 4096  # forgotten, and checked again: names and destinations that peers have sent
REDELIVERIES_MAX = 2**31 - 1  # refuse: of a message that is handed over; its record has 32 bits

assert WINDOW_MESSAGES >= LOAD_MESSAGES and WINDOW_BYTES >= LOAD_BYTES, "a loaded stretch must fit an empty window"
assert STEP_MESSAGES <= WINDOW_MESSAGES, "a long work steps through windows"


def outbox_default_bytes(max_frame_bytes: int) -> int:
    """The default of outbox_max_bytes: two largest frames that come at once close no subscriber that reads."""
    return max(OUTBOX_FILLED_BYTES, 2 * max_frame_bytes)


def largest_batch_bytes(limits: Limits) -> int:
    """The most that one commit can add to the store: a full open batch, a whole transaction, or one frame alone."""
    return max(BATCH_BYTES, limits.max_batch_bytes, limits.max_frame_bytes)


def largest_message_bytes(limits: Limits) -> int:
    """Headers and body of the largest message that a link carries, with all that brokers add to it."""
    added_bytes = (LINK_ADDED_LINES - 1) * LINK_ADDED_LINE_BYTES + DEATHS_BYTES
    return limits.max_frame_bytes + LINK_HEADERS_GROWTH * limits.max_header_bytes + added_bytes


def high_water_bytes(map_size: int, limits: Limits) -> int:
    """Used pages above which SENDs wait, so that accepted messages, and every Remove, still find room: two largest
    batches (one being committed, one open: pages that the first frees are not yet usable), and a tenth for the pages
    that removing copies. At least half of the map_size that config accepts.
    """
    return min(map_size - 2 * largest_batch_bytes(limits), map_size // 10 * 9)
