"""The disk: what a store promises. One implementation (lmdb.py); the simulated disk of the tests keeps the same
promises.
"""

from collections.abc import Sequence
from typing import Protocol

from radiator.model.commands import Loaded, LoadedDelayed, LoadedLog, LoadedPrepared
from radiator.model.reads import DedupLookup, ReadDelayed, ReadLog, ReadPrepared, ReadQueue
from radiator.model.recovery import Recovery as Recovery
from radiator.model.recovery import StoredQueue as StoredQueue
from radiator.model.writes import Write


class Store(Protocol):
    """Who may call what: `commit` from one thread only; `load`, `look_up` and `used_bytes` from any one other
    thread.
    """

    recovery: Recovery

    def commit(self, writes: Sequence[Write]) -> None:
        """All of the writes are on the disk, synced, when this returns; if it raises DiskFailed, all or none of
        them are.

        Bugs, answered with an AssertionError and nothing of the batch kept: a Put over a stored message; a Put, Delay
        or Books of a queue that is not there before the batch, nor declared by it (one that the batch retires may have
        them); a Remove of a message that is not there; a Doubt of one that is not there or is in doubt already, or
        under a sequence that is, a Settle of what is not in doubt; and a batch after which a message is gone, or its
        queue retired, that is still in doubt: the Settle comes in the same batch or earlier. After each batch the
        KeepPeer of a doubt's node has it between out_taken and out_offered: here a start, or `radiator check`, finds
        it otherwise.

        Also: a Delay over a delayed message, with due_ms 0, or of one that is at its place after the batch; a Wake of
        what is not there under that time; KeepSettings of a queue, or a Bind to one, that is not there; a Bind of what
        is bound, an Unbind of what is not, a DropDeclared of what is not declared; and a Retire of a queue, or a
        DropLog, that is still bound after the batch.

        Of logs: an Append or Tell to a log that is not there before the batch, nor declared by it; one where a record
        is already, or with a gap behind the one before it in the batch; a DropSegment, DropPosition or DropLog of what
        is not there, a KeepPosition of a log that is not. Segments of a partition follow each other; a batch that
        appends to a new one has its books: what is otherwise here a start, or `radiator check`, finds. Of prepared
        transactions: an Unstage of a SEND, a DropStage, or a DropApp, of what is not there.

        After a DiskFailed nothing more may be asked of the store.
        """

    def load(self, load: ReadQueue) -> Loaded:
        """Messages of the last committed state, each checked; a damaged one comes with `message` None.

        They come as the disk has them: whoever asks sees to it that they are in order, and as many as the ledger says.
        """

    def load_delayed(self, load: ReadDelayed) -> LoadedDelayed:
        """Answers it from the last committed state, and says when the next one is due.

        A damaged one comes with `message` None, in every answer, since it stays where it is: delayed in the ledger and
        never woken; whoever asks tells of it once. Its time means nothing: one that stands first is in the answer,
        due or not. It counts for neither limit, so none keeps others from coming. In a queue that is deleted it is
        swept with the others.
        """

    def load_log(self, load: ReadLog) -> LoadedLog:
        """Answers it from the last committed state. An offset that a segment has, and no sound block, comes with
        `message` None: one flipped bit takes at most a block with it.
        """

    def load_stage(self, load: ReadPrepared) -> LoadedPrepared:
        """Answers it from the last committed state; damaged ones are counted, for the limits too."""

    def look_up(self, look_up: DedupLookup) -> bool:
        """Whether the dedup-id is remembered."""

    def used_bytes(self) -> int:
        """Bytes of pages in use, free pages inside the file not counted."""

    def close(self) -> None:
        """Give the data directory free."""
