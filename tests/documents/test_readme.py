"""README.md is a landing page: its first screen has what one must know, and its figures are measured ones."""

import re

from tests.documents.blocks import blocks_of, text_of

README = text_of("README.md")
FIRST_SCREEN_LINES = 40


def test_first_screen_has_what_one_must_know() -> None:
    first = README.partition("\n## ")[0]
    assert len(first.splitlines()) <= FIRST_SCREEN_LINES
    for word in (
        "durable message broker",
        "RECEIPT means",
        "not yet",
        "console",
        "from radiator.client import",
    ):
        assert word in first
    commands, program = list(blocks_of("README.md", first))
    assert (commands.language, len(commands.text.splitlines()), program.language) == ("sh", 2, "python")


def test_celery_spark_and_several_nodes_have_three_lines_and_a_link() -> None:
    for heading, page in (("Celery", "CELERY"), ("Spark", "SPARK"), ("Several nodes", "CLUSTER")):
        section = re.split(r"\n##+ ", README.partition(f"\n### {heading}\n")[2])[0].strip()
        assert 0 < len(section.splitlines()) <= 3
        assert f"(docs/{page}.md)" in section


def test_figures_are_those_of_the_benchmarks() -> None:
    """Of its rows of persistent messages of 1 KiB, in the order of its columns."""
    table = text_of("docs/BENCHMARKS.md").partition("| 1.0 KiB | radiator |")[2].partition("\n\n")[0]
    measured = {tuple(re.findall(r"(?<=\| )[\d,]+\*?(?= [|(])", row)) for row in table.splitlines()}
    rows = re.findall(r"(?m)^\| [^|]+ \|((?: [\d,]+ \|){3,5})$", README)
    assert len(rows) >= 3
    for row in rows:
        figures = re.findall(r"[\d,]+", row)
        assert any(set(figures) <= set(one) for one in measured), row
