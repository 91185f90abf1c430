"""`encode`: the writes of a batch as operations on tables, which go to the disk. Pure.

The result depends on the batch's writes alone: neither the store nor an earlier batch is read. So the same operations
can be carried out at another time, or on another machine. Contradictions of what is stored are found before, by the
guard (guard.py), and by the writer: each operation states what it must find.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from radiator.model.writes import (
    Append,
    AppendEvent,
    BeginBoot,
    Bind,
    Count,
    Declare,
    DeclareLog,
    Delay,
    Doubt,
    DropApp,
    DropDeclared,
    DropLog,
    DropPosition,
    DropSegment,
    DropTransaction,
    Forget,
    KeepApp,
    KeepDeclared,
    KeepNode,
    KeepPeer,
    KeepPosition,
    KeepSegments,
    KeepSettings,
    KeepTime,
    KeepTransaction,
    Ledger,
    MakeDue,
    Put,
    Remember,
    Remove,
    RemovePrepared,
    Retire,
    SaveLedger,
    Settle,
    StoppedClean,
    StorePrepared,
    Sweep,
    Unbind,
    Upgrade,
    Write,
)
from radiator.storage.codec import records, transactions
from radiator.storage.codec.appends import appended
from radiator.storage.codec.keyed import by_key_of, of_held, of_keys
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    MakeTable,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Row,
    Upsert,
    UpsertIndexed,
)
from radiator.storage.codec.tables import (
    APPS,
    BINDINGS,
    BOOT,
    BY_KEY,
    CLEAN,
    COUNTS,
    DECLARED,
    DEDUP,
    DEDUP_BY_TIME,
    DELAYED,
    DOUBTS,
    FORMAT,
    HELD,
    LEDGERS,
    LOGS,
    MESSAGES,
    META,
    NEXT_QUEUE,
    NODE,
    PEERS,
    POSITIONS,
    PREPARED_SENDS,
    QUEUES,
    RECORDS,
    REDELIVERED_BELOW,
    RETIRED,
    SEGMENTS,
    SETTINGS,
    TABLES,
    TIME,
    TRANSACTIONS,
    tables_of,
)

Operations = list[Operation]


def encode(writes: Sequence[Write]) -> Operations:
    """Puts, counts, removals, delays and messages made due come first, then the keys of these, the ledgers and the
    appends to logs, each in the order of keys; then the other writes in their order. So a batch may put and remove the
    same message, and a Retire finds the last ledger of its queue.
    """
    puts: list[Row] = []
    counts: list[Row] = []
    removes: list[bytes] = []
    delays: list[Row] = []
    due_keys: list[bytes] = []
    ledgers: list[Row] = []
    keyed: list[bytes] = []
    keyed_gone: list[bytes] = []
    holding: list[Delay | MakeDue] = []
    appends: list[Append | AppendEvent] = []
    others: list[Write] = []
    message_key, encode_message = records.message_key, records.encode_message
    for write in writes:
        if isinstance(write, Put):
            key = message_key(write.queue, write.position)
            puts.append((key, encode_message(key, write.message)))
            if write.key:
                keyed.append(by_key_of(key, write.key))
        elif isinstance(write, Remove):
            removes.append(key := message_key(write.queue, write.position))
            if write.key:
                keyed_gone.append(by_key_of(key, write.key))
        elif isinstance(write, SaveLedger):
            key = records.queue_key(write.queue)
            ledgers.append((key, records.encode_ledger(key, write.ledger)))
        elif isinstance(write, Append | AppendEvent):
            appends.append(write)
        elif isinstance(write, Count):
            key = message_key(write.queue, write.position)
            counts.append((key, records.encode_count(key, write.redeliveries, write.redelivered)))
        elif isinstance(write, Delay):
            assert write.due_ms, f"{write} is delayed until never"
            key = records.delayed_key(write.queue, write.due_ms, write.position)
            delays.append((key, records.encode_delayed(key, write.message, write.redeliveries, write.redelivered)))
            if write.held:
                holding.append(write)
        elif isinstance(write, MakeDue):
            due_keys.append(records.delayed_key(write.queue, write.due_ms, write.position))
            if write.held:
                holding.append(write)
        else:
            others.append(write)
    if others:
        ledgers += _first_ledgers(ledgers, others)
    operations = _of_messages(puts, counts, removes, delays, due_keys, ledgers)
    operations += of_keys(keyed, keyed_gone) + of_held(holding)
    if ledgers:
        operations.append(Upsert(LEDGERS, sorted(ledgers)))
    if appends:
        operations.append(Insert(RECORDS, appended(appends, others)))
    for write in others:
        operations += _ENCODERS[type(write)](write)
    if others:
        operations += _of_doubts(others) + _unbound(others)
    return operations


def _of_messages(
    puts: list[Row],
    counts: list[Row],
    removes: list[bytes],
    delays: list[Row],
    due_keys: list[bytes],
    ledgers: Iterable[Row],
) -> Operations:
    operations: Operations = []
    if puts:
        puts.sort()
        operations.append(Insert(MESSAGES, puts))
        # the queues that get messages must be there; the guard has judged those with a ledger in the batch
        first, last = puts[0][0][: records.QUEUE_KEY_BYTES], puts[-1][0][: records.QUEUE_KEY_BYTES]
        queues = {first} if first == last else {key[: records.QUEUE_KEY_BYTES] for key, _ in puts}
        for key, _ in ledgers:
            queues.discard(key)
        if queues:
            operations.append(Require(QUEUES, sorted(queues)))
    if counts:
        counts.sort()
        operations.append(Upsert(COUNTS, counts))
    if removes:
        removes.sort()
        operations += (Delete(MESSAGES, removes), DeleteIfPresent(COUNTS, removes))
    if delays:
        delays.sort()
        at_place = [records.place_of_delayed(key) for key, _ in delays]
        operations += (Insert(DELAYED, delays), RequireAbsent(MESSAGES, at_place))
    if due_keys:
        due_keys.sort()
        operations.append(Delete(DELAYED, due_keys))
    return operations


# ---- queues -------------------------------------------------------------------------------------------------------


def _first_ledgers(ledgers: Iterable[Row], others: Iterable[Write]) -> list[Row]:
    """Returns an empty ledger for each queue that is declared, and has none in the batch."""
    declared = [records.queue_key(write.queue) for write in others if isinstance(write, Declare)]
    given = {key for key, _ in ledgers} if declared else set()
    return [(key, records.encode_ledger(key, Ledger())) for key in declared if key not in given]


def _declare(write: Declare) -> Operations:
    key = records.queue_key(write.queue)
    return [_next_number(write.queue), Insert(QUEUES, [(key, records.encode_text(key, write.name))])]


def _next_number(number: int) -> Operation:
    """Returns the next number: queues and logs share them."""
    return _number(META, NEXT_QUEUE, number + 1)


def _retire(write: Retire) -> Operations:
    key = records.queue_key(write.queue)
    operations: Operations = [
        Delete(LEDGERS, [key]),
        Delete(QUEUES, [key]),
        DeleteIfPresent(SETTINGS, [records.settings_key(write.queue)]),
    ]
    if write.stored:
        operations.append(_number(RETIRED, key, write.stored))
    return operations


def _sweep(write: Sweep) -> Operations:
    key = records.queue_key(write.queue)
    end = records.behind(key)
    swept = DeleteFirst((MESSAGES, DELAYED), key, end, write.count, True, COUNTS)
    # no message has two of these rows: the last slice finds the last of them
    rows_of_keys = DeleteFirst((BY_KEY, HELD), key, end, write.count, False, b"")
    return [swept, rows_of_keys, _number(RETIRED, key, write.left) if write.left else Delete(RETIRED, [key])]


def _remember(write: Remember) -> Operations:
    key = records.dedup_key(write.queue, write.dedup_id)
    by_time = records.dedup_time_key(write.until_ms, key)
    value = records.encode_number(key, write.until_ms)
    return [UpsertIndexed(DEDUP, key, value, DEDUP_BY_TIME, records.encode_number(by_time, write.until_ms))]


def _forget(write: Forget) -> Operations:
    end = records.dedup_time_key(max(0, write.before_ms), b"")
    return [DeleteFirst((DEDUP_BY_TIME,), b"", end, write.limit, False, DEDUP, len(end))]


# ---- what is declared at run time ---------------------------------------------------------------------------------


def _keep_settings(write: KeepSettings) -> Operations:
    return [_text(SETTINGS, records.settings_key(write.queue), write.text)]


def _keep_declared(write: KeepDeclared) -> Operations:
    return [_text(DECLARED, records.declared_key(write.kind, write.name), write.text)]


def _drop_declared(write: DropDeclared) -> Operations:
    return [Delete(DECLARED, [records.declared_key(write.kind, write.name)])]


def _bind(write: Bind) -> Operations:
    key = records.binding_key(write.queue, write.exchange, write.key)
    return [Insert(BINDINGS, [(key, records.encode_binding(key, write.exchange, write.key))])]


def _unbind(write: Unbind) -> Operations:
    return [Delete(BINDINGS, [records.binding_key(write.queue, write.exchange, write.key)])]


def _unbound(others: Iterable[Write]) -> Operations:
    """Requires that no binding leads to what is deleted."""
    deleted = [write.queue for write in others if isinstance(write, Retire)]
    deleted += [write.log for write in others if isinstance(write, DropLog)]
    keys = map(records.queue_key, deleted)
    return [RequireEmpty(BINDINGS, key, records.behind(key)) for key in keys]


# ---- linked nodes -------------------------------------------------------------------------------------------------


def _keep_peer(write: KeepPeer) -> Operations:
    key = records.peer_key(write.peer)
    return [Upsert(PEERS, [(key, records.encode_peer(key, write))])]


def _of_doubts(others: Iterable[Write]) -> Operations:
    """Returns the doubts that are left once all are carried out: a message that is offered and settled in one batch may
    also be removed by it.
    """
    after: dict[bytes, Doubt | None] = {}
    was_there: list[bytes] = []
    for write in others:
        if isinstance(write, Doubt | Settle):
            key = records.doubt_key(write.peer, write.sequence)
            if isinstance(write, Settle) and key not in after:
                was_there.append(key)
            after[key] = write if isinstance(write, Doubt) else None
    if not after:
        return []
    rows, messages = [], []
    for key, doubt in after.items():
        if doubt is not None:
            rows.append((key, records.encode_doubt(key, doubt.queue, doubt.position)))
            messages.append(records.message_key(doubt.queue, doubt.position))
    operations: Operations = [Delete(DOUBTS, sorted(was_there))] if was_there else []
    if rows:
        rows.sort()
        operations += (Insert(DOUBTS, rows), Require(MESSAGES, messages))
    return operations


def _nothing(write: Doubt | Settle) -> Operations:
    """`_of_doubts` encodes them."""
    return []


# ---- logs ---------------------------------------------------------------------------------------------------------


def _declare_log(write: DeclareLog) -> Operations:
    key = records.log_key(write.log)
    return [_next_number(write.log), Insert(LOGS, [(key, records.encode_text(key, write.name))])]


def _drop_log(write: DropLog) -> Operations:
    prefix = records.queue_key(write.log)
    return [
        Delete(LOGS, [records.log_key(write.log)]),
        DeleteIfPresent(SETTINGS, [records.settings_key(write.log)]),
        DeleteRange(POSITIONS, prefix, records.behind(prefix)),
    ]


def _keep_segments(write: KeepSegments) -> Operations:
    rows = []
    for segment in write.segments:
        assert segment.log == write.log, f"{segment} is not of log {write.log}"
        key = records.record_key(segment.log, segment.partition, segment.first)
        rows.append((key, records.encode_segment(key, segment)))
    return [Upsert(SEGMENTS, rows)]


def _drop_segment(write: DropSegment) -> Operations:
    key = records.record_key(write.log, write.partition, write.first)
    end = records.record_key(write.log, write.partition, write.end)
    return [Delete(SEGMENTS, [key]), DeleteRange(RECORDS, key, end)]


def _keep_position(write: KeepPosition) -> Operations:
    key = records.group_key(write.log, write.group)
    return [Upsert(POSITIONS, [(key, records.encode_position(key, write.offsets))])]


def _drop_position(write: DropPosition) -> Operations:
    return [Delete(POSITIONS, [records.group_key(write.log, write.group)])]


# ---- prepared transactions ----------------------------------------------------------------------------------------


def _keep_transaction(write: KeepTransaction) -> Operations:
    key = transactions.transaction_key(write.transaction)
    return [Upsert(TRANSACTIONS, [(key, transactions.encode_transaction(key, write))])]


def _store_prepared(write: StorePrepared) -> Operations:
    rows = []
    for number, send in enumerate(write.sends, write.first):
        key = transactions.send_key(write.transaction, number)
        rows.append((key, transactions.encode_send(key, send)))
    return [Insert(PREPARED_SENDS, rows)] if rows else []


def _remove_prepared(write: RemovePrepared) -> Operations:
    keys = [transactions.send_key(write.transaction, number) for number in range(write.first, write.end)]
    return [Delete(PREPARED_SENDS, keys)] if keys else []


def _drop_transaction(write: DropTransaction) -> Operations:
    key = transactions.transaction_key(write.transaction)
    return [Delete(TRANSACTIONS, [key]), DeleteRange(PREPARED_SENDS, key, records.behind(key))]


def _keep_app(write: KeepApp) -> Operations:
    key = transactions.app_key(write.app)
    return [Upsert(APPS, [(key, transactions.encode_app(key, write))])]


def _drop_app(write: DropApp) -> Operations:
    return [Delete(APPS, [transactions.app_key(write.app)])]


# ---- one run of the broker ----------------------------------------------------------------------------------------


def _upgrade(write: Upgrade) -> Operations:
    there = tables_of(write.from_format)
    new = [MakeTable(table) for table in TABLES if table not in there]
    return [*new, _number(META, FORMAT, records.FORMAT)]


def _begin_boot(write: BeginBoot) -> Operations:
    return [
        _number(META, BOOT, write.boot),
        _number(META, CLEAN, 0),
        _number(META, REDELIVERED_BELOW, write.redelivered_below),
    ]


def _keep_node(write: KeepNode) -> Operations:
    return [_text(META, NODE, write.node)]


def _keep_time(write: KeepTime) -> Operations:
    return [_number(META, TIME, write.ms)]


def _stopped_clean(write: StoppedClean) -> Operations:
    return [_number(META, CLEAN, 1)]


def _number(table: bytes, key: bytes, number: int) -> Operation:
    return Upsert(table, [(key, records.encode_number(key, number))])


def _text(table: bytes, key: bytes, text: str) -> Operation:
    return Upsert(table, [(key, records.encode_text(key, text))])


_ENCODERS: dict[type, Callable[[Any], Operations]] = {
    Declare: _declare,
    KeepSettings: _keep_settings,
    KeepDeclared: _keep_declared,
    DropDeclared: _drop_declared,
    Bind: _bind,
    Unbind: _unbind,
    Retire: _retire,
    Sweep: _sweep,
    Remember: _remember,
    Forget: _forget,
    KeepPeer: _keep_peer,
    Doubt: _nothing,
    Settle: _nothing,
    DeclareLog: _declare_log,
    DropLog: _drop_log,
    KeepSegments: _keep_segments,
    DropSegment: _drop_segment,
    KeepPosition: _keep_position,
    DropPosition: _drop_position,
    KeepTransaction: _keep_transaction,
    StorePrepared: _store_prepared,
    RemovePrepared: _remove_prepared,
    DropTransaction: _drop_transaction,
    KeepApp: _keep_app,
    DropApp: _drop_app,
    Upgrade: _upgrade,
    BeginBoot: _begin_boot,
    KeepNode: _keep_node,
    KeepTime: _keep_time,
    StoppedClean: _stopped_clean,
}
"""How each write is encoded; `encode` itself gathers those of messages and ledgers, and the appends to logs."""
