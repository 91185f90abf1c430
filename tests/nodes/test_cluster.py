"""Which version each node of a test is."""

from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT
from tests.nodes.cluster import TREE_BEFORE, Nodes, mesh


@pytest.mark.parametrize("before", ["", "/elsewhere"])
def test_every_second_node_is_of_the_tree_before_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setenv(TREE_BEFORE, before)
    nodes = Nodes(tmp_path, mesh("abc"), "")
    try:
        other = Path(before) if before else CHECKOUT
        assert [node.tree for node in nodes.all] == [CHECKOUT, other, CHECKOUT]
    finally:
        nodes.close()
