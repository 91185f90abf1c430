"""docs/SECURITY.md says of rights what the broker's tables say, and the tests that it names are there."""

import re

from radiator.core.rights import ANONYMOUS, FORBIDDEN, ROWS
from radiator.model.rights import RIGHTS, ROLES
from tests.broker_process import CHECKOUT
from tests.campaigns.plan import campaigns

PAGE = (CHECKOUT / "docs/SECURITY.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[tuple[str, str]]:
    """First and second column of the first table behind that heading."""
    table = PAGE.split(f"\n## {heading}\n")[1].split("\n|---|---|\n")[1].split("\n\n")[0]
    return [(first.strip(), second.strip()) for _, first, second, _ in (row.split("|") for row in table.splitlines())]


def test_each_command_stands_there_with_what_it_needs() -> None:
    assert rows("What needs which right") == [(row.named, row.says) for row in ROWS]


def test_each_right_and_role_stands_there() -> None:
    assert tuple(name.strip("`") for name, _ in rows("Rights")) == RIGHTS
    assert all(f"`{role}` gives" in PAGE or f"`{role}` all" in PAGE for role in ROLES)
    assert f"`{FORBIDDEN}`" in PAGE and f"the user `{ANONYMOUS}`" in PAGE


def test_a_row_that_says_nothing_of_rights_needs_none() -> None:
    for row in ROWS:
        names_a_right = bool(re.search("`(" + "|".join(RIGHTS) + ")`", row.says))
        assert names_a_right or row.needs is None or "SEND" in row.says or "`bind`" in row.says or "linked" in row.says


THREATS = [
    row.split("|")[1:-1]
    for row in PAGE.split("\n## Threats, ")[1].split("\n|---|---|---|---|\n")[1].split("\n\n")[0].split("\n")
]
TESTS = {
    name
    for file in (CHECKOUT / "tests").rglob("test_*.py")
    for name in re.findall(r"\bdef (test_\w+)", file.read_text())
}


def test_each_threat_has_an_answer_and_a_test_or_campaign_that_is_there() -> None:
    numbers = {one.number for one in campaigns()}
    for threat, answer, shown, _ in THREATS:
        assert threat.strip() and answer.strip()
        found = [name.strip(" `") for name in shown.split(",")]
        assert found and all(name in TESTS or name in numbers for name in found), f"{threat}: {found}"


def test_each_broken_build_is_one_that_a_campaign_of_that_row_catches() -> None:
    caught = {one.number: {*one.mutants, *one.controls} for one in campaigns()}
    for threat, _, shown, builds in THREATS:
        by_these = set().union(*(caught.get(name.strip(), set()) for name in shown.split(",")))
        for build in re.findall("`([^`]+)`", builds):
            assert build in by_these, f"{threat}: {build} is caught by none of {shown}"
