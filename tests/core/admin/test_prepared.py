"""Requests about prepared transactions: each answer comes when what it tells is on the disk."""

import json

import pytest

from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import begin, commit, send


def prepared(*names: str, auto: bool = True) -> Node:
    """A transaction of one message to q under each name."""
    node = Node()
    node.open(1, 9)
    for name in names:
        word = commit(1)
        word.prepare = name
        node.say(begin(1), send(1, "q", name.encode(), transaction=b"t"), word)
    node.auto = auto
    return node


def test_what_there_is_is_listed() -> None:
    node = prepared("a", "b")
    answer = node.admin(9, do="prepared")
    assert answer["ok"] and [one["name"] for one in answer["prepared"]] == ["a", "b"]


def test_several_are_committed_as_one_version_and_a_version_that_is_not_higher_lets_go_of_its_own() -> None:
    node = prepared("a", "b", "c")
    asked = {"do": "commit", "app": "app", "version": 7}
    assert node.admin(9, prepared=["a", "b"], **asked) == {"ok": True, "committed": True, "messages": 2}
    assert sorted(node.stored("q")) == [b"a", b"b"]
    assert node.admin(9, prepared=["c"], **asked)["committed"] is False
    assert node.admin(9, do="version", app="app") == {"ok": True, "version": 7}
    assert sorted(node.stored("q")) == [b"a", b"b"] and node.admin(9, do="prepared")["prepared"] == []


def test_one_name_that_is_not_prepared_commits_none() -> None:
    node = prepared("a")
    assert code(node, do="commit", prepared=["a", "none"], app="app", version=1)
    assert node.stored("q") == [] and node.admin(9, do="version", app="app")["version"] is None


@pytest.mark.parametrize(
    ("more", "left"), [({"prepared": ["a", "a", "none"]}, ["b"]), ({"prefix": "b", "refuse_s": 10}, ["a"])]
)
def test_what_is_aborted_is_counted_once(more: dict[str, object], left: list[str]) -> None:
    node = prepared("a", "b")
    assert node.admin(9, do="abort", **more) == {"ok": True, "aborted": 1}
    assert [one["name"] for one in node.admin(9, do="prepared")["prepared"]] == left


def test_a_version_is_forgotten_by_request() -> None:
    node = prepared("a")
    node.admin(9, do="commit", prepared=["a"], app="app", version=7)
    assert node.admin(9, do="version", app="app", forget=True)["version"] is None
    assert node.admin(9, do="version", app="app")["version"] is None


def test_a_commit_is_answered_when_it_is_on_the_disk() -> None:
    node = prepared("a", auto=False)
    asked = {"do": "commit", "prepared": ["a"], "app": "app", "version": 1}
    node.say(send(9, "/admin", json.dumps(asked).encode(), reply_to="admin"))
    assert node.messages(9) == []
    node.auto = True
    node.turn([])
    assert json.loads(node.message(9).message.body)["committed"] is True
