"""Implements what Spark calls to read: batches, and streams of logs or of a queue by checkout.

Spark makes several readers for one query, in processes of their own, and pickles them: `__init__` opens nothing. An
error in a stream's `latestOffset`, `partitions` or `commit` ends the query, so requests there are tried again for a
while (`ask.py`). Spark does not call `commit` for the last batch of a run; it calls `latestOffset(start)` when that
batch is done.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil, inf
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from radiator.integrations.spark import offsets as kept
from radiator.integrations.spark.ask import BrokerRequests
from radiator.integrations.spark.offsets import Json, LogState, Offsets, Range, SourceLog
from radiator.integrations.spark.options import (
    CHECKOUT,
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    Places,
    SourceOptions,
    column_options,
    matching,
    sink_options,
    source_options,
)
from radiator.integrations.spark.read import read_range
from radiator.integrations.spark.schema import columns, ddl, ddl_type
from radiator.integrations.spark.sink import BatchWriter, StreamWriter, check_schema
from radiator.integrations.spark.value_schema import value_schema
from radiator.model.errors import RadiatorError
from radiator.model.limits import AWAIT_MAX_MS

CHECKOUT_MAX = 100_000  # how many one request may take: docs/PROTOCOL.md
VAIN_S = 0.1  # before a queue is asked again whose ready messages others keep taking

_log = logging.getLogger("radiator.spark")


class RadiatorDataSource(DataSource):
    """`format("radiator")`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format(...)`."""
        return "radiator"

    def schema(self) -> str:
        """Returns the columns of the rows that are read. Raises OptionError."""
        return ddl(self._columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch. Raises OptionError."""
        options = source_options(self.options, is_stream=False)
        self._check_columns(schema)
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of a stream. Raises OptionError."""
        options = source_options(self.options, is_stream=True)
        self._check_columns(schema)
        return CheckoutReader(options) if options.mode == CHECKOUT else LogReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns the writer of a batch. Raises OptionError."""
        options = sink_options(self.options, is_stream=False)
        check_schema(schema, options)
        if overwrite:
            raise RadiatorError('Nothing can be overwritten in a destination of messages: use mode("append").')
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Returns the writer of a stream. Raises OptionError."""
        options = sink_options(self.options, is_stream=True)
        check_schema(schema, options)
        if overwrite:
            raise RadiatorError('Nothing can be overwritten in a destination of messages: use outputMode("append").')
        return StreamWriter(options)

    def _columns(self) -> pa.Schema:
        include_headers, schema, keeps_misfits = column_options(self.options)
        return columns(include_headers, None if schema is None else value_schema(schema), keeps_misfits)

    def _check_columns(self, schema: StructType) -> None:
        expected = self._columns()
        if [field.name for field in schema] != expected.names:
            raise RadiatorError(f"The source has these columns, and a schema cannot be given: {ddl(expected)}.")
        value, planned = ddl_type(expected.field("value").type).replace("`", ""), schema["value"].dataType
        if planned.simpleString() != value:
            raise RadiatorError(
                f"The column value is {value}, and the query was planned with {planned.simpleString()}: load it again "
                "where the file of valueSchema has changed; a schema cannot be given."
            )


class Part(InputPartition):
    """The part that one task reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a partition. Spark makes one without a value if a batch has none. Whoever planned it has
    reached the broker.
    """
    if partition.value is not None:
        yield from read_range(replace(options, connect=options.connect.reached), partition.value)


class BatchReader(DataSourceReader):
    """`spark.read`: the ranges are fixed when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plans the ranges. Raises DataLoss if what is asked for no longer exists."""
        options = self._options
        with BrokerRequests(options.connect) as broker:
            states = _states(broker, options)
            if not states:
                raise RadiatorError(f"There are no {options}.")
            start = _placed(broker, states, options.starting, EARLIEST_OFFSET)
            end = _placed(broker, states, options.ending, LATEST_OFFSET)
        by_log = {state.log: state for state in states.values()}
        wanted, losses = kept.still_there(kept.ranges(start, end, by_log), by_log)
        losses += kept.beyond(start, by_log)
        _warn(kept.check_losses(losses, options.fail_on_data_loss))
        return [Part(one) for one in kept.split(wanted, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches."""
        return _read(self._options, partition)


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream` of logs: all its state is in Spark's checkpoint, none in the broker."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds."""
        self._options = options
        self._broker = BrokerRequests(options.connect)
        self._clock = clock
        self._batch_s = -inf  # when the last batch was planned
        self._end: Offsets = {}
        self._latest: Offsets = {}
        self._target: Offsets | None = None
        self._warned_of: Offsets = {}

    def initialOffset(self) -> Json:
        """Returns where a query without a checkpoint begins."""
        states = _states(self._broker, self._options)
        if not states:
            _log.warning("There are no %s yet: they are read once they are there.", self._options)
        return kept.to_json(_placed(self._broker, states, self._options.starting, EARLIEST_OFFSET))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit that the options set."""
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Leaves what is appended later to another run."""
        self._target = _latest(_states(self._broker, self._options))

    def reportLatestOffset(self) -> dict[str, Any]:
        """Returns, for the progress of the query, what there was when its last batch was planned, and how far that is
        behind.
        """
        return kept.report(self._end, self._latest, str(self._options))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Returns the end of the next batch; `start` if there is not enough new within pollTimeoutMs."""
        begin, latest, states = self._look(start)
        missing = self._missing(begin, latest, limit)
        if missing and begin == kept.from_json(start):
            self._wait(states, missing)
            begin, latest, states = self._look(start)
            missing = self._missing(begin, latest, limit)
        end, most = begin, self._most(limit, states)
        if not missing:
            self._batch_s = self._clock()
            end = latest if most is None else kept.limited(begin, latest, most)
        self._end = end
        return kept.to_json(end)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Returns the same records for the same offsets. Raises DataLoss if they no longer exist."""
        options = self._options
        first, last = kept.from_json(start), kept.from_json(end)
        if first == last:
            return []
        # a batch that is run again has the same records, also of a log that is no longer named
        names = {log.name for log in last if last[log] != first.get(log)}
        states = (self._broker.find(name) for name in sorted(names))
        by_log = {state.log: state for state in states if state is not None}
        wanted, losses = kept.still_there(kept.ranges(first, last, by_log), by_log)
        _warn(kept.check_losses(losses, options.fail_on_data_loss))
        return [Part(one) for one in kept.split(wanted, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches."""
        return _read(self._options, partition)

    def stop(self) -> None:
        """Spark does not always call it."""
        self._broker.close()

    def _look(self, start: Json) -> tuple[Offsets, Offsets, dict[str, LogState]]:
        """Returns where to go on, how far one could read, and the state of the logs. Raises DataLoss."""
        options = self._options
        before = kept.from_json(start)
        names = [log.name for log in before]
        states = _states(self._broker, options, names)
        losses: list[str] = []
        if options.pattern is not None:
            before, losses = kept.without(before, matching(options.pattern, names) - states.keys())
        begin, passed_over = kept.begin(before, states)
        _warn(kept.check_losses(losses + passed_over, options.fail_on_data_loss))
        unread = kept.unread(begin, states)
        self._warn_unread(unread)
        self._latest = _latest(states)
        latest = kept.joined(self._latest, unread)
        return begin, latest if self._target is None else kept.at_most(latest, self._target, begin), states

    def _missing(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> int:
        """Returns how many records are still missing for a batch."""
        if self._target is not None:
            return 0
        is_due = isinstance(limit, ReadAllAvailable) or self._clock() - self._batch_s >= self._options.max_delay_s
        return max(0, (1 if is_due else self._options.min_rows) - sum(kept.lags(begin, latest)))

    def _wait(self, states: Mapping[str, LogState], missing: int) -> None:
        """Waits until so many may have come, or the batch is due without them, or the poll's time is over."""
        due_s = self._batch_s + self._options.max_delay_s - self._clock()
        timeout_ms = min(self._options.poll_timeout_ms, ceil(due_s * 1000) if due_s > 0 else AWAIT_MAX_MS)
        if not states:
            time.sleep(timeout_ms / 1000)  # there is no log yet for which the broker could wait
            return
        # before all of them have come, one partition has got its share
        partitions = sum(len(state.next) for state in states.values())
        self._broker.wait(states.values(), timeout_ms, -(-missing // partitions))

    def _warn_unread(self, unread: Offsets) -> None:
        if unread != self._warned_of:
            self._warned_of = unread
            for log, by_partition in sorted(unread.items()):
                _log.warning(
                    "/log/%s, partition %s, is in the checkpoint and is not read: its offsets are kept there, and the "
                    "query goes on from them once it is named again.",
                    log.name,
                    ", ".join(map(str, sorted(by_partition))),
                )

    def _most(self, limit: ReadLimit, states: Mapping[str, LogState]) -> int | None:
        """Returns how many records a batch may have; None: any number."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if self._options.max_bytes is None or isinstance(limit, ReadAllAvailable):
            return most
        sizes = [state.record_bytes for state in states.values() if state.record_bytes]
        by_bytes = max(1, self._options.max_bytes // max(sizes)) if sizes else most
        return by_bytes if most is None or by_bytes is None else min(most, by_bytes)


class CheckoutReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream` of a queue: what is taken from it has a number, and is the same until it is acked."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._broker = BrokerRequests(options.connect)
        self._queue = next(iter(options.partitions))
        self._target: int | None = None
        self._end: Offsets = {}
        self._taken_until: Offsets = {}

    def initialOffset(self) -> Json:
        """Returns where the query begins: with what the group has taken and not acked."""
        state = self._checkout(0)
        return kept.to_json({state.log: state.first})

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit; bounded in any case, since nobody else gets what is taken."""
        return ReadMaxRows(self._options.max_rows or CHECKOUT_MAX)

    def prepareForTriggerAvailableNow(self) -> None:
        """Leaves what is sent later to another run, unless somebody else takes some of what is there now."""
        self._target = self._checkout(0).next[0] + self._broker.ready(self._queue)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Returns, for the progress of the query, what is taken and could be taken, and how far its last batch is
        behind that.
        """
        ready = self._broker.ready(self._queue)
        latest = {log: {0: following[0] + ready} for log, following in self._taken_until.items()}
        return kept.report(self._end, latest, str(self._options))

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """Acks all before `start`, which is done; takes more, up to the limit, waiting for at most pollTimeoutMs."""
        log, done, following = self._go_on(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else CHECKOUT_MAX
        wanted = done + most if self._target is None else max(done, min(done + most, self._target))
        end_s, is_vain = time.monotonic() + self._options.poll_timeout_ms / 1000, False
        while True:
            following = self._taken(following, wanted)
            left_ms = int((end_s - time.monotonic()) * 1000)
            if following > done or self._target is not None or left_ms <= 0:
                self._end = {log: {0: following}}
                return kept.to_json(self._end)
            if self._broker.ready(self._queue, left_ms) and is_vain:
                time.sleep(VAIN_S)
            is_vain = True

    def commit(self, end: Json) -> None:
        """Acks all before `end`."""
        self._go_on(end)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Returns the same messages for the same offsets."""
        first, last = kept.from_json(start), kept.from_json(end)
        if first == last:
            return []
        state = self._checkout(0)
        by_log = {state.log: state}
        wanted, losses = kept.still_there(kept.ranges(first, last, by_log), by_log)
        losses += _of_others(last, state.log)
        _warn(kept.check_losses(losses, self._options.fail_on_data_loss))
        return [Part(one) for one in kept.split(wanted, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches."""
        return _read(self._options, partition)

    def stop(self) -> None:
        """Spark does not always call it."""
        self._broker.close()

    def _go_on(self, at: Json) -> tuple[SourceLog, int, int]:
        """Acks all before `at`; returns the log, the number that comes next, and the end of what is taken."""
        state = self._checkout(0)
        offsets, losses = kept.begin(kept.from_json(at), {state.log.name: state})
        losses += _of_others(kept.from_json(at), state.log)
        _warn(kept.check_losses(losses, self._options.fail_on_data_loss))
        done = offsets[state.log][0]
        if done > state.first[0]:
            self._broker.checkout_ack(self._queue, self._options.group, done)
        return state.log, done, state.next[0]

    def _taken(self, following: int, wanted: int) -> int:
        """Returns the end of what is taken, at most `wanted`. It was `following`; takes what is missing, as far as
        there is any.
        """
        while following < wanted:
            before = following
            following = self._checkout(min(CHECKOUT_MAX, wanted - following)).next[0]
            if following == before or self._options.max_bytes is not None:
                break
        return min(following, wanted)

    def _checkout(self, most: int) -> LogState:
        """Takes up to so many more; returns what there is then."""
        log, first, following = self._broker.checkout(self._queue, self._options.group, most, self._options.max_bytes)
        self._taken_until = {log: {0: following}}
        return LogState(log, {0: first}, {0: following})


def _states(broker: BrokerRequests, options: SourceOptions, known: Iterable[str] = ()) -> dict[str, LogState]:
    """Returns the states of all logs that are read, by name. known: with a pattern, others that existed before."""
    if options.pattern is None:
        return {name: broker.state(name, wanted) for name, wanted in options.partitions.items()}
    names = matching(options.pattern, {*broker.logs(), *known})
    found = ((name, broker.find(name)) for name in sorted(names))
    return {name: state for name, state in found if state is not None}


def _of_others(at: Offsets, own: SourceLog) -> list[str]:
    """Returns a sentence for each checkout in these offsets that is not `own`."""
    return [
        f"The checkpoint is of /log/{log.name}, not of /log/{own.name}: what was taken there and is not acked stays "
        "taken (radiator release QUEUE GROUP). Use a checkpoint of its own for each queue and group."
        for log in at
        if log.name != own.name
    ]


def _placed(broker: BrokerRequests, states: Mapping[str, LogState], places: Places, untold: int) -> Offsets:
    """Returns the offsets that `places` names. untold: the one for a partition that it does not name."""
    placed: Offsets = {}
    for name in places.keys() - states.keys() if isinstance(places, Mapping) else ():
        raise RadiatorError(f"An option gives offsets of /log/{name}, which is not there.")
    for name, state in states.items():
        by_word = {EARLIEST: state.first, LATEST: state.next}
        if isinstance(places, str):
            placed[state.log] = dict(by_word[places])
        elif isinstance(places, int):
            at = broker.offsets_at(name, places)
            placed[state.log] = {partition: at[partition] for partition in state.first}
        else:
            wanted = places.get(name, {})
            for partition in wanted.keys() - state.first.keys():
                raise RadiatorError(
                    f"/log/{name} has no partition {partition} that is read, but an option gives its offset."
                )
            by_number = {EARLIEST_OFFSET: state.first, LATEST_OFFSET: state.next}
            placed[state.log] = {
                partition: by_number[offset][partition] if offset in by_number else offset
                for partition in state.first
                for offset in [wanted.get(partition, untold)]
            }
    return placed


def _latest(states: Mapping[str, LogState]) -> Offsets:
    return {state.log: dict(state.next) for state in states.values()}


def _warn(losses: list[str]) -> None:
    for sentence in losses:
        _log.warning("%s It is passed over, as failOnDataLoss says.", sentence)
