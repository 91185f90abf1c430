"""The broken builds fit this tree: each applies, says what it breaks, and is hunted by some campaign."""

import re
from pathlib import Path

import pytest

from tests.campaigns import mutants
from tests.campaigns.plan import campaigns
from tests.mutants import Edit, Mutant

LEAST = 20
CODE = {
    "queue.py": """\
LIMIT = 4  # messages


def helper():
    return 1


class Queue:
    def take(self, entry):
        for one in self.waiting:
            if one is entry:
                return LIMIT  # at most

        return None

    def give(self, entry):
        self.count += 1
        self.count += 1
""",
    "log.py": """\
def helper():
    return 1


def other():
    return 2


class Log:
    def take(self, entry):
        return entry
""",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in CODE.items():
        (tmp_path / "radiator" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "radiator" / "deep" / name).write_text(text)
    return tmp_path


def broken(tree: Path, function: str, old: str, new: str, *also: Edit) -> dict[str, str]:
    mutant = Mutant("broken", "It is broken.", function, old, new, also)
    return {path.name: text for path, text in mutants.broken_texts(mutant, tree).items()}


@pytest.mark.parametrize("mutant", mutants.mutants(), ids=mutants.names())
def test_mutant_applies_and_says_what_it_breaks(mutant: Mutant) -> None:
    assert mutant.breaks.endswith("."), f"{mutant.breaks!r} is no sentence"
    assert all(re.fullmatch(r"(\w+:)?[\w.]*", edit.function) for edit in mutant.edits)
    for path, text in mutants.broken_texts(mutant, mutants.CHECKOUT).items():
        assert text != path.read_text(), "it changes nothing"
        compile(text, str(path), "exec")


def test_every_mutant_is_hunted_and_every_campaign_hunts() -> None:
    hunted = {mutant for campaign in campaigns() for mutant in campaign.mutants}
    assert sorted(hunted) == mutants.names(), "a name that is there twice, or is not hunted, or is no mutant's"
    assert len(hunted) >= LEAST
    for campaign in campaigns():
        hunts_at_once = campaign.controls or (campaign.mutants and campaign.quick_mutants >= 1)
        assert hunts_at_once, f"{campaign.name} hunts nothing"


def test_names_and_numbers_of_campaigns_are_unique() -> None:
    named = [name for campaign in campaigns() for name in (campaign.name, campaign.number)]
    assert len(named) == len(set(named))


def test_an_edit_takes_the_depth_and_the_comment_of_what_it_replaces(tree: Path) -> None:
    lines = """
        if one is entry:
            return LIMIT  # at most

        return 0
    """
    assert broken(tree, "Queue.take", "return LIMIT", "pass\nreturn LIMIT") == {
        "queue.py": CODE["queue.py"].replace(
            "                return LIM", "                pass\n                return LIM"
        )
    }
    assert broken(tree, "LIMIT", "LIMIT = 4", "LIMIT = 5") == {"queue.py": CODE["queue.py"].replace("4", "5")}
    assert broken(tree, "Queue", "return None", "") == {
        "queue.py": CODE["queue.py"].replace("        return None\n", "")
    }
    assert broken(tree, "log:", "def helper():", lines)["log.py"].startswith(
        "if one is entry:\n    return LIMIT  # at most\n\nreturn 0\n    return 1\n"
    )


def test_further_edits_are_made_behind_the_first(tree: Path) -> None:
    also = Edit(function="helper", old="return 3", new="return 4")
    assert broken(tree, "queue:helper", "return 1", "return 3", also) == {
        "queue.py": CODE["queue.py"].replace("return 1", "return 4")
    }


def test_of_several_of_one_name_it_is_the_one_that_the_text_stands_in(tree: Path) -> None:
    (tree / "radiator" / "file.py").write_text("class Log:\n    def take(self):\n        return 7\n")
    assert broken(tree, "Log.take", "return 7", "return 8") == {
        "file.py": "class Log:\n    def take(self):\n        return 8\n"
    }


@pytest.mark.parametrize(
    ("function", "old", "sentence"),
    [
        ("Queue.take", "return 3", "must stand once in Queue.take (queue.py:9); it stands there 0 times:\nreturn 3"),
        ("Queue.take", "return entry", "0 times"),  # in another function
        ("Queue.take", "LIMIT", "0 times"),  # not the whole line
        ("Queue.take", "if one is entry:\nreturn LIMIT", "0 times"),  # not so deep among each other
        ("Queue.give", "self.count += 1", "2 times, in queue.py:17, in queue.py:18"),
        ("helper", "return 1", "helper (log.py:1, queue.py:4); it stands there 2 times, in log.py:2, in queue.py:5"),
        ("Queue.leave", "return 1", "there is no Queue.leave in the package"),
        ("log:Queue.take", "return LIMIT", "there is no log:Queue.take in the package"),
        ("take", "return entry", "there is no take in the package"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(tree: Path, function: str, old: str, sentence: str) -> None:
    with pytest.raises(mutants.DoesNotApply, match=re.escape(sentence)) as raised:
        broken(tree, function, old, "pass")
    assert str(raised.value).startswith("The mutant broken does not apply: ")


def test_a_broken_tree_differs_in_what_the_mutant_changes(tmp_path: Path) -> None:
    mutant = mutants.mutants()[0]
    tree = mutants.broken_tree(mutant.name, tmp_path)
    changed = mutants.broken_texts(mutant, mutants.CHECKOUT)
    for path in (mutants.CHECKOUT / "radiator").rglob("*.py"):
        text = (tree / path.relative_to(mutants.CHECKOUT)).read_text()
        assert text == changed.get(path, path.read_text())
