"""Implements what Spark calls to write: each row is a SEND.

delivery=exactlyOnce: a task prepares transactions, the driver commits all those of a batch at once, once for each
(txnAppId, version). Spark calls `abort` also for a batch whose `commit` may have happened: a committed transaction
cannot be aborted. It also calls it while other tasks of the batch still run, about which the driver learns nothing
more. So all transactions of a batch have names with a common prefix, and are aborted by that prefix.

delivery=atLeastOnce: a task SENDs with a window of receipts; each row has a `dedup-id`, for queues that have a
`dedup_window_s`.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from radiator.client import ConnectionLost, NoAnswer
from radiator.integrations.spark.ask import BrokerRequests, Tries, lasting
from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.options import EXACTLY_ONCE, SinkOptions
from radiator.integrations.spark.outgoing import Columns, OutgoingRow, check_columns, content_id, slices
from radiator.model.errors import RadiatorError, Refusal

NAMES_MAX = 2000  # how many one commit may name, without their common prefix: a request to /admin has at most 64 KiB
STRAGGLER_MAX_S = 600  # for how long a task that still runs when its batch is aborted can prepare nothing more

_log = logging.getLogger("radiator.spark")


class Task(NamedTuple):
    """The part of a batch that this process writes; app, version and destination are the same for every try, attempt
    for all tasks of one try. destination: None if each row has its own.
    """

    app: str
    version: int
    partition: int
    attempt: str
    destination: str | None

    @property
    def ledger(self) -> str:
        """The `producer-id` under which the broker counts versions: so writes to two destinations are not taken for
        one.
        """
        return ledger(self.app, self.destination)

    @property
    def version_prefix(self) -> str:
        """The prefix of all names that are prepared in any try of the batch."""
        return f"spark-{_digest(f'{self.version} {self.ledger}')}-"

    @property
    def prefix(self) -> str:
        """The prefix of those that are prepared in this try."""
        return f"{self.version_prefix}{self.attempt}-"


def ledger(app: str, destination: str | None) -> str:
    """See Task. At most 17 bytes longer than `app`."""
    return f"{app} {_digest(destination or '')}"


@dataclass(frozen=True)
class WrittenRows(WriterCommitMessage):
    """The rows that a task has written. prepared: names of transactions, without the prefix of the try; empty: the rows
    were sent.
    """

    task: Task
    prepared: list[str] = field(default_factory=list)


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raises RadiatorError if such rows cannot be sent."""
    check_columns({one.name: one.dataType.simpleString() for one in schema}, options)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`. Without txnAppId and txnVersion, each write is an application of its own."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._app = options.app or f"spark-{os.urandom(16).hex()}"
        self._version = options.version or 0
        self._attempt = os.urandom(8).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows."""
        context = TaskContext.get()
        assert context is not None, "a task has its context"
        return _write(self._options, self._task(context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits all rows, once. An application that was made up for this one batch ends with it."""
        _commit(self._options.connect.reached, messages)
        if self._options.app is None and any(one.prepared for one in _tasks(messages)):
            # if this fails, the broker forgets it after app_max_s
            with suppress(RadiatorError), BrokerRequests(self._options.connect) as broker:
                broker.forget(self._task(0).ledger)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Aborts the rows, unless they are committed."""
        if self._options.delivery == EXACTLY_ONCE:
            _let_go(self._options.connect, self._task(0).prefix)

    def _task(self, partition: int) -> Task:
        return Task(self._app, self._version, partition, self._attempt, self._options.destination)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`: the application is the query, the version its batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows."""
        context = TaskContext.get()
        assert context is not None, "a task has its context"
        # the jobs of one run of a query are a group; a batch that fails ends the run
        properties = ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
        query, batch, run = map(context.getLocalProperty, properties)
        assert query and batch and run, "Spark tells each task of a stream its query, batch and run"
        app, destination = self._options.app or f"spark-{query}", self._options.destination
        task = Task(app, int(batch), context.partitionId(), _digest(run), destination)
        return _write(self._options, task, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits all rows of the batch, once. Raises RadiatorError if Spark has run none of its tasks here."""
        if None in messages:
            raise RadiatorError(
                f"Spark has given the sink no row of batch {batchId}, and takes it for written: it does so with "
                "trigger(continuous=...) and a sink in Python. Use trigger(processingTime=...), or availableNow=True."
            )
        _commit(self._options.connect.reached, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Aborts the rows, unless they are committed. If no task has reported, the names are not known here: then the
        next commit of this batch aborts them.
        """
        if self._options.delivery == EXACTLY_ONCE:
            for begin in {one.task.prefix for one in _tasks(messages)}:
                _let_go(self._options.connect, begin)


def _write(options: SinkOptions, task: Task, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    if options.delivery == EXACTLY_ONCE:
        return WrittenRows(task, _prepare(options, task, Columns(options).rows(batches)))
    _send(options, task, Columns(options).rows(batches))
    return WrittenRows(task)


# ---- exactly once


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _prepare(options: SinkOptions, task: Task, rows: Iterator[OutgoingRow]) -> list[str]:
    """Prepares transactions that hold all rows, in their order; returns their names without the prefix of the try."""
    own = f"{task.partition}-{os.urandom(3).hex()}-"
    tries = Tries(options.connect)
    try:
        with BrokerRequests(options.connect) as broker:
            return [
                _prepare_slice(broker, tries, slice_, task.prefix, f"{own}{number}")
                for number, slice_ in enumerate(slices(rows))
            ]
    except BaseException as why:
        # a task that is refused as aborted was aborted with all others: thousands of further requests would displace
        # theirs
        if not (isinstance(why, Refusal) and why.code == "aborted"):
            _let_go(options.connect, task.prefix + own)
        raise


def _prepare_slice(broker: BrokerRequests, tries: Tries, slice_: list[OutgoingRow], begin: str, name: str) -> str:
    """Prepares a slice; returns its name, without `begin`. Each try has another name, since one whose connection was
    lost may have succeeded.
    """
    attempt = 0
    while True:
        attempted = name if not attempt else f"{name}-{attempt}"
        try:
            client = broker.client()
            transaction = client.begin()
            for one in slice_:
                headers = one.headers_with(None)
                client.send(one.destination, one.body, headers, transaction=transaction, confirm=None)
            client.commit(transaction, prepare=begin + attempted)
        except (ConnectionLost, NoAnswer, Refusal) as why:
            broker.close()
            tries.failed(why)
            attempt += 1
        else:
            tries.went_on()
            return attempted


def _let_go(connect: Connect, begin: str) -> None:
    """Aborts all whose names begin so, and those about to be prepared, if the broker is reached now: otherwise it
    aborts them itself when their time is over (prepared_max_s).
    """
    with suppress(RadiatorError), BrokerRequests(connect) as broker:
        broker.abort(begin, STRAGGLER_MAX_S)


def _tasks(messages: list[WriterCommitMessage | None]) -> list[WrittenRows]:
    """Returns what the tasks have written, ordered by partition. A task that has failed has no message."""
    return sorted((one for one in messages if isinstance(one, WrittenRows)), key=lambda one: one.task)


def _commit(connect: Connect, messages: list[WriterCommitMessage | None]) -> None:
    written = _tasks(messages)
    names = [name for one in written for name in one.prepared]
    if not names:
        return
    if len(names) > NAMES_MAX:
        raise RadiatorError(
            f"The batch is in {len(names)} prepared transactions, but one commit can name {NAMES_MAX} only. Of a "
            "stream, make batches smaller (maxOffsetsPerTrigger, maxBytesPerTrigger); else write it in parts, each "
            "with a txnVersion of its own, or with fewer tasks (coalesce) where these have few rows each."
        )
    task = written[0].task
    with BrokerRequests(connect) as broker:
        # earlier versions of this sink have committed for the app alone, and so for every destination
        last = broker.version(task.app)
        is_before = last is not None and task.version <= last
        if is_before or not broker.commit(task.prefix, names, task.ledger, task.version):
            _log.warning(
                "Version %d of %r was committed before to %s: nothing is sent again.",
                task.version,
                task.app,
                task.destination or "the destinations of its rows",
            )
        # what was prepared for this version in vain: a connection was lost, a task or the driver has failed
        with suppress(RadiatorError):
            broker.abort(task.version_prefix, 0)


# ---- at least once


def _send(options: SinkOptions, task: Task, rows: Iterator[OutgoingRow]) -> None:
    """Sends the rows, and awaits the RECEIPT of every one."""
    with lasting(options.connect, options.receipt_window) as client:
        for number, one in enumerate(rows):
            place = f"{task.app}-{task.version}-{task.partition}-{number}-{content_id(one)}"
            client.send(one.destination, one.body, one.headers_with(place), confirm=False)
        client.flush()
