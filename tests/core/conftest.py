"""Small bounds, so that the edges of windows, loads, batches and slices are met with a handful of messages."""

import pytest

import radiator.core.admin.returning
import radiator.core.background
import radiator.core.clients
import radiator.core.lifetimes
import radiator.core.logs.log
import radiator.core.logs.log_consumer
import radiator.core.logs.log_consumers
import radiator.core.logs.read_ahead
import radiator.core.logs.retention
import radiator.core.queues.delayed
import radiator.core.queues.durable_queue
import radiator.core.queues.evicting
import radiator.core.queues.key_read_back
import radiator.core.queues.memory_queue
import radiator.core.queues.partition_window
import radiator.core.queues.partitioned_queues
import radiator.core.queues.partitions
import radiator.core.queues.picking
import radiator.core.queues.priority_due
import radiator.core.queues.priority_read_back
import radiator.core.queues.priority_window
import radiator.core.queues.purge
import radiator.core.queues.read_back
import radiator.core.queues.sweeping
import radiator.core.queues.window
import radiator.core.queues.windows
import radiator.core.rounds
import radiator.core.routing.admission
import radiator.core.routing.batch_lines
import radiator.core.routing.turn_shares
import radiator.core.routing.unbinding
import radiator.core.timers
import radiator.core.transactions.applying
import radiator.core.transactions.prepared

SMALL = {"WINDOW_MESSAGES": 6, "LOAD_MESSAGES": 4, "STEP_MESSAGES": 3}
_USERS = (
    radiator.core.admin.returning,
    radiator.core.transactions.applying,
    radiator.core.clients,
    radiator.core.lifetimes,
    radiator.core.rounds,
    radiator.core.routing.unbinding,
    radiator.core.background,
    radiator.core.routing.admission,
    radiator.core.queues.delayed,
    radiator.core.queues.durable_queue,
    radiator.core.queues.evicting,
    radiator.core.queues.key_read_back,
    radiator.core.logs.log,
    radiator.core.logs.log_consumer,
    radiator.core.logs.log_consumers,
    radiator.core.logs.read_ahead,
    radiator.core.queues.memory_queue,
    radiator.core.queues.partition_window,
    radiator.core.queues.partitioned_queues,
    radiator.core.queues.partitions,
    radiator.core.queues.picking,
    radiator.core.queues.priority_due,
    radiator.core.queues.priority_read_back,
    radiator.core.queues.priority_window,
    radiator.core.queues.purge,
    radiator.core.queues.read_back,
    radiator.core.queues.sweeping,
    radiator.core.queues.window,
    radiator.core.queues.windows,
    radiator.core.logs.retention,
    radiator.core.transactions.prepared,
    radiator.core.routing.batch_lines,
    radiator.core.routing.turn_shares,
    radiator.core.timers,
)


def shrink(monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]) -> None:
    """Set bounds of radiator/model/limits.py in every module of the core that uses them."""
    for module in _USERS:
        for name, value in bounds.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL)
