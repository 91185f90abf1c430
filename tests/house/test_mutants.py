"""The broken builds are patches of this tree: each applies, says what it breaks, and is hunted by some campaign."""

from pathlib import Path

import pytest

from tests.campaigns import mutants
from tests.campaigns.plan import campaigns

LEAST = 20


@pytest.mark.parametrize("name", mutants.names())
def test_patch_applies_and_says_what_it_breaks(name: str, tmp_path: Path) -> None:
    said = (mutants.PATCHES / f"{name}.patch").read_text().splitlines()[0]
    assert said.endswith("."), f"{said!r} is no sentence"
    tree = mutants.broken_files(name, tmp_path)
    texts = {path: (mutants.CHECKOUT / path.relative_to(tree)).read_text() for path in tree.rglob("*.py")}
    changed = [path for path, text in texts.items() if path.read_text() != text]
    assert all(path.is_relative_to(tree / "radiator") for path in changed), "it changes more than the package"
    assert changed, "it changes nothing"
    for path in changed:
        compile(path.read_text(), str(path), "exec")


def test_every_patch_is_hunted_and_every_campaign_hunts() -> None:
    hunted = {mutant for campaign in campaigns() for mutant in campaign.mutants}
    assert hunted == set(mutants.names())
    assert len(hunted) >= LEAST
    for campaign in campaigns():
        hunts_at_once = campaign.controls or (campaign.mutants and campaign.quick_mutants >= 1)
        assert hunts_at_once, f"{campaign.name} hunts nothing"


def test_names_and_numbers_of_campaigns_are_unique() -> None:
    named = [name for campaign in campaigns() for name in (campaign.name, campaign.number)]
    assert len(named) == len(set(named))
