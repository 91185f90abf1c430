"""What a message costs the node that takes it from another one."""

from radiator.model.limits import LINK_COST_BYTES
from radiator.model.peer import cost_bytes


def test_each_child_costs_its_bytes_and_what_is_kept_beside_them() -> None:
    assert cost_bytes(0) == LINK_COST_BYTES > 0
    assert cost_bytes(100) == 100 + LINK_COST_BYTES
    assert cost_bytes(100, 3) == 3 * cost_bytes(100)
