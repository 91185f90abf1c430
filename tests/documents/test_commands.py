"""What pages name in backticks is there: commands with their options, scripts, and files of the checkout."""

import argparse
import ast
import re
from pathlib import Path

import pytest

from radiator.tools.cli import COMMANDS, command_called, parser
from radiator.tools.config import load
from tests.broker_process import CHECKOUT
from tests.documents.blocks import exists, inline, pages, text_of
from tests.documents.commands import complaint

FOLDERS = ("radiator", "pyspark_radiator", "docs", "examples", "tests", "scripts", "benchmarks")
BY_OTHERS = {
    *("--config-settings", "--no-binary", "--no-deps"),  # pip
    *("--exit", "--random", "--recursive"),  # mocha
    *("--statedb", "--tool"),  # celery, valgrind
}
MADE = ("tests/campaigns/results",)  # by a run


@pytest.mark.parametrize("page", pages())
def test_commands_that_a_page_names_are_understood(page: str) -> None:
    radiator = parser()
    assert [found for one in inline(text_of(page)) if (found := complaint(one, radiator, True)) is not None] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_example_of_a_command_is_understood(name: str) -> None:
    radiator = parser()
    lines = command_called(name).example.splitlines()
    assert [commands for line in lines if (commands := complaint(line, radiator)) is not None] == []


@pytest.fixture(scope="module")
def options() -> set[str]:
    """Of every command line that is ours: of `radiator` by its parser, of the others as their sources write them."""
    found = {*BY_OTHERS, "--quick", "--nightly", "--release"}  # these are made of the names of scripts/prove's scales
    for folder in ("radiator/integrations/spark", "benchmarks", "tests", "examples"):
        for source in (CHECKOUT / folder).rglob("*.py"):
            found |= set(re.findall(r"""["'](--[a-z][a-z-]+)["' =]""", source.read_text(encoding="utf-8")))
    waiting: list[argparse.ArgumentParser] = [parser()]
    while waiting:
        for action in waiting.pop()._actions:
            found |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    return found


@pytest.mark.parametrize("page", pages())
def test_options_that_a_page_names_are_of_some_command(page: str, options: set[str]) -> None:
    named = {option for one in inline(text_of(page)) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", one)}
    assert named - options == set()


@pytest.mark.parametrize("example", sorted((CHECKOUT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_commands_in_an_example_are_understood(example: Path) -> None:
    """In what it says of itself, with more spaces where a column begins."""
    reported = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    radiator = parser()
    lines = [*reported.splitlines(), *inline(reported)]
    assert [found for line in lines if (found := complaint(line.strip(), radiator, True)) is not None] == []


@pytest.mark.parametrize("file", [CHECKOUT / "config.toml", *sorted((CHECKOUT / "examples").rglob("*.toml"))], ids=str)
def test_configuration_that_comes_along_is_one(file: Path, tmp_path: Path) -> None:
    """As it stands, and with all that it shows behind a `#`."""
    text = file.read_text(encoding="utf-8")
    for name in ("secret", "cluster.secret"):
        (tmp_path / name).write_text("c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA==\n")
        (tmp_path / name).chmod(0o600)
    shown = re.sub(r"(?m)^# (?=\[|[a-z_]+ = )", "", text)
    for number, one in enumerate((text, shown)):
        (tmp_path / f"{number}.toml").write_text(one, encoding="utf-8")
        load(tmp_path / f"{number}.toml")


@pytest.mark.parametrize("page", pages())
def test_files_that_a_page_names_are_there(page: str) -> None:
    path = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*-]*")
    named = [one.rstrip("/") for one in inline(text_of(page)) if path.fullmatch(one)]
    named = [re.sub(r"\b[A-Z]+\b(?!\.md$)", "*", one) for one in named]
    assert [one for one in named if not exists(one) and not one.startswith(MADE)] == []


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    """To a file that is there, and a heading that it has."""
    wrong = []
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", text_of(page)):
        file = (CHECKOUT / page).parent / target if target else CHECKOUT / page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def anchors(file: Path) -> set[str]:
    """As GitHub makes them of headings; a second one of the same words gets a number."""
    found: dict[str, int] = {}
    names = set()
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", file.read_text(encoding="utf-8"))
    for heading in re.findall(r"(?m)^#+ +(.*?) *$", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w -]", "", plain).lower().replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(name if count == 0 else f"{name}-{count}")
    return names


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("radiator stats --json  # all of it", None),
        ("radiator move", None),
        ("cd /tmp && .venv/bin/radiator queues", None),
        ("radiator stast", "stats"),
        ("radiator stats --jsn", "jsn"),
        ("radiator move a b c d", "nrecognized"),
        ("radiator peek q --limit many", "many"),
        ("scripts/sevre", "there is no scripts/sevre"),
        ("python -m benchmarks.nothing", "no module"),
        ('pip install ".[sellery]"', "no extra sellery"),
        ("python examples/nothing.py", "there is no"),
        ("kill -9", None),
    ],
)
def test_what_cannot_be_run_is_noticed(line: str, wrong: str | None) -> None:
    found = complaint(line, parser(), is_named=True)
    assert (found is None) == (wrong is None), found
    assert wrong is None or wrong in str(found)
