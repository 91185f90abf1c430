"""What a store promises. lmdb/ is the one implementation; the simulated disk of the tests keeps the same promises."""

from collections.abc import Sequence
from typing import Protocol

from radiator.model.commands import Event, LoadedPrepared
from radiator.model.reads import (
    DedupLookup,
    Found,
    Loaded,
    LoadedDelayed,
    LoadedEvents,
    LoadedHeld,
    LoadedKeys,
    LoadedLog,
    ReadDelayed,
    ReadEvents,
    ReadHeld,
    ReadKeys,
    ReadLog,
    ReadPrepared,
    ReadQueue,
    ReadRequest,
)
from radiator.model.recovery import Recovery as Recovery
from radiator.model.recovery import StoredQueue as StoredQueue
from radiator.model.writes import Write


class Store(Protocol):
    """Threads: `commit` from one thread only; `load`, `look_up` and `used_bytes` from one other thread."""

    recovery: Recovery

    def commit(self, writes: Sequence[Write]) -> None:
        """Writes. When this returns, all writes are on the disk, synced; if it raises DiskFailed, all or none of them
        are.

        A batch that contradicts the store is a bug: it raises AssertionError, and nothing of the batch is kept.

        - Queues: a Put, Delay or SaveLedger of a queue that is not there before the batch, nor declared by it (one that
          the batch retires may have them); a Put over a stored message; a Remove, or a MakeDue, of what is not there; a
          Delay over a delayed message, with due_ms 0, or of one that is at its place after the batch; a Sweep of more
          than there is. The hash of a key that has not 8 bytes; a Remove with one that its message was not put with; a
          MakeDue with one, of a message that holds none.
        - Declarations: a number that was given before; KeepSettings of, or a Bind to, a queue that is not there; a
          Bind of what is bound, an Unbind of what is not, a DropDeclared of what is not declared; a Retire or DropLog
          of what is not there, or of what is still bound after the batch.
        - Linked nodes: a Doubt of a message that is not there or is in doubt already, or under a sequence that is; a
          Settle of what is not in doubt; a message that is gone after the batch, or its queue retired, and still in
          doubt.
        - Logs: an Append or AppendEvent to a log that is not there before the batch, nor declared by it, to an offset
          that has a record, or with a gap after the one before it in the batch; a DropSegment or DropPosition of what
          is not there, a KeepPosition of a log that is not.
        - Prepared transactions: a StorePrepared over a stored SEND; a RemovePrepared, DropTransaction or DropApp of
          what is not there.

        Not checked here, but by a start or `radiator check`: a KeepPeer that lacks doubts of its node between out_taken
        and out_offered, segments that do not follow each other, appends without their segment, and a Remove or MakeDue
        without the key that its message was put with, or holds.

        StoreError: what is stored cannot be read, and nothing of the batch is kept. After a DiskFailed or a StoreError
        the store must not be used any more.
        """

    def load(self, load: ReadQueue) -> Loaded:
        """Messages of the last committed state, each checked; a damaged one has `message` None.

        They come as the disk has them: the caller checks that they are in order, and as many as the ledger says.
        """

    def load_keys(self, load: ReadKeys) -> LoadedKeys:
        """Messages of the last committed state by their keys, each checked as those of `load`. A queue that is deleted
        has none: while it is swept, rows of keys are there without their messages.

        StoreError: a row by which they are found is damaged, out of order, or of no message.
        """

    def load_held(self, load: ReadHeld) -> LoadedHeld:
        """Returns what the delayed messages of the last committed state hold; in a queue that is deleted, nothing.
        StoreError: a row is damaged, or out of order.
        """

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        """Delayed messages of the last committed state, and when the next one is due.

        A damaged one has `message` None, in every answer, since it stays where it is: delayed in the ledger and never
        made due; the caller reports it once. Its time means nothing: one that comes first is in the answer, due or not.
        It counts for neither limit, so it never keeps others from being read. When its queue is deleted, it is swept
        with the others.
        """

    def load_log(self, load: ReadLog) -> LoadedLog:
        """Records of the last committed state. An offset in a segment, but in no sound block, has `message` None: one
        flipped bit loses at most one block.
        """

    def load_events(self, load: ReadEvents) -> LoadedEvents:
        """Events of the journal, of the last committed state: all that are there and sound, each in one slice. What was
        removed a moment ago may still be found.
        """

    def load_prepared(self, load: ReadPrepared) -> LoadedPrepared:
        """SENDs of the last committed state; damaged ones are counted, for the limits too."""

    def look_up(self, look_up: DedupLookup) -> bool:
        """Whether the dedup-id is remembered."""

    def used_bytes(self) -> int:
        """Returns the bytes of pages in use, free pages inside the file not counted."""

    def close(self) -> None:
        """Releases the data directory."""


def answer(store: Store, read_request: ReadRequest) -> Event:
    """Answers one read request from the last committed state."""
    if isinstance(read_request, ReadQueue):
        return store.load(read_request)
    if isinstance(read_request, ReadKeys):
        return store.load_keys(read_request)
    if isinstance(read_request, ReadHeld):
        return store.load_held(read_request)
    if isinstance(read_request, ReadDelayed):
        return store.load_delayed(read_request)
    if isinstance(read_request, ReadLog):
        return store.load_log(read_request)
    if isinstance(read_request, ReadEvents):
        return store.load_events(read_request)
    if isinstance(read_request, ReadPrepared):
        return store.load_prepared(read_request)
    return Found(read_request.request, store.look_up(read_request))
