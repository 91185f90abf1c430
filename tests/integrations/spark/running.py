"""What the tests of streams share: a sink that remembers its batches, and a query that is run to its end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StreamingQuery

END_MAX_S = 60


class Batches:
    """A sink that knows each batch by its number: as one that is exact would. fail: of which number it fails, once."""

    def __init__(self, fail: int | None = None) -> None:
        self.tries: list[tuple[int, list[Row]]] = []
        self._fail = fail

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.tries.append((number, sorted(frame.collect(), key=lambda row: (row.log, row.partition, row.offset))))
        if number == self._fail:
            self._fail = None
            raise RuntimeError("this sink fails behind its work")

    @property
    def rows(self) -> list[Row]:
        """Of each batch those of its last try, in the order of the batches."""
        return [row for _, rows in sorted(dict(self.tries).items()) for row in rows]

    @property
    def values(self) -> list[str]:
        return [bytes(row.value).decode() for row in self.rows]


def started(
    frame: DataFrame, checkpoint: Path, sink: Callable[[DataFrame, int], None], **trigger: Any
) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def run(frame: DataFrame, checkpoint: Path, sink: Callable[[DataFrame, int], None]) -> None:
    """With all that is there now. Raises what the query ends with."""
    query = started(frame, checkpoint, sink, availableNow=True)
    try:
        assert query.awaitTermination(END_MAX_S), "the query has not ended"
    finally:
        query.stop()
