"""Small bounds, so that the edges of windows, loads, batches and slices are met with a handful of messages."""

import pytest

import radiator.broker.applying
import radiator.broker.broker
import radiator.broker.chores
import radiator.broker.intake
import radiator.broker.kinds.delayed
import radiator.broker.kinds.durable_queue
import radiator.broker.kinds.log
import radiator.broker.kinds.log_reader
import radiator.broker.kinds.memory_queue
import radiator.broker.retention
import radiator.broker.staging

SMALL = {"WINDOW_MESSAGES": 6, "LOAD_MESSAGES": 4, "CHORE_MESSAGES": 3}
_USERS = (
    radiator.broker.applying,
    radiator.broker.broker,
    radiator.broker.chores,
    radiator.broker.intake,
    radiator.broker.kinds.delayed,
    radiator.broker.kinds.durable_queue,
    radiator.broker.kinds.log,
    radiator.broker.kinds.log_reader,
    radiator.broker.kinds.memory_queue,
    radiator.broker.retention,
    radiator.broker.staging,
)


def shrink(monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]) -> None:
    """Set bounds of radiator/limits.py in every module of the core that uses them."""
    for module in _USERS:
        for name, value in bounds.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, SMALL)
