"""Which version each node of a test is, and what its links are."""

from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT
from tests.nodes.cluster import OVER_TLS, TREE_BEFORE, Nodes, mesh


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


@pytest.mark.parametrize(
    ("given", "over_tls", "scheme"),
    [("", None, "peer"), ("1", None, "peers"), ("", True, "peers"), ("1", False, "peer")],
)
def test_links_are_over_tls_where_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, over_tls: bool | None, scheme: str
) -> None:
    monkeypatch.setenv(OVER_TLS, given)
    with Nodes(tmp_path, mesh("ab"), "", over_tls=over_tls) as nodes:
        for node in nodes.all:
            assert f"listening address={scheme}://127.0.0.1:" in node.log
