"""A queue on the disk is deleted: its row at once, what it stored in slices, one in each batch."""

from typing import Any

import pytest

from radiator.core.queues.sweeping import Sweeping, retire
from radiator.core.turn import BackgroundTask
from radiator.model.limits import STEP_MESSAGES
from radiator.model.writes import Ledger, Retire, SaveLedger, Sweep
from tests.core import bare


def test_its_books_and_its_row_are_written_and_nothing_else_of_it() -> None:
    queue = bare.durable()
    turns, scheduled = queue.context, []
    turns.schedule = scheduled.append
    queue.put(bare.message())
    assert queue in turns.open.parts
    saved = SaveLedger(1, Ledger(stored=1, stored_bytes=1))
    before = len(turns.open.writes)
    retire(turns, queue, "q", saved)
    assert turns.open.writes[before:] == [saved, Retire(1, "q", 1)] and queue not in turns.open.parts
    (task,) = scheduled
    assert isinstance(task, Sweeping) and task.left == 1


def test_one_that_stored_nothing_needs_no_sweeping() -> None:
    turns, scheduled = bare.context(), []
    turns.schedule = scheduled.append
    retire(turns, bare.durable(turns), "q", SaveLedger(1, Ledger()))
    assert scheduled == []


@pytest.mark.parametrize("count", [1, STEP_MESSAGES, STEP_MESSAGES + 1, 3 * STEP_MESSAGES])
def test_one_slice_goes_in_each_batch_until_none_is_left(count: int) -> None:
    turns = bare.context()
    task: BackgroundTask = Sweeping(turns, 7, count)
    swept: list[Sweep] = []
    while not task.is_done:
        assert task.can_go_on
        task.step()
        task.step()  # within the same batch
        assert task.is_done or not task.can_go_on
        swept += [write for write in turns.open.writes if isinstance(write, Sweep)]
        bare.commit(turns)
    assert sum(one.count for one in swept) == count and len(swept) == -(-count // STEP_MESSAGES)
    assert swept[-1].left == 0 and {one.queue for one in swept} == {7}


def test_parts_forget_a_deleted_queue_and_can_still_name_it() -> None:
    queue = bare.durable()
    queue.delete()
    for part in (queue.in_doubt, queue.purge, queue.delayed, queue.read_back, queue.due):
        stands_for: Any = part.queue
        assert stands_for is not queue and stands_for.is_gone
        assert (stands_for.number, stands_for.name) == (queue.number, queue.name)


def test_parts_of_one_whose_messages_are_being_read_back_keep_it() -> None:
    queue = bare.durable()
    queue.window.is_loading = True
    queue.delete()
    assert queue.read_back.queue is queue
