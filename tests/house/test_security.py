"""docs/SECURITY.md says of rights what the broker's tables say."""

import re

from radiator.core.rights import ANONYMOUS, FORBIDDEN, ROWS
from radiator.model.rights import RIGHTS, ROLES
from tests.broker_process import CHECKOUT

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
