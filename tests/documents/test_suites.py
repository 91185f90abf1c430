"""docs/AMQP.md says of the suites of clients what tests/suites/suites.toml says."""

from tests.documents.blocks import text_of
from tests.suites.table import in_markdown, suites


def test_the_table_of_suites_is_in_step() -> None:
    _, _, behind = text_of("docs/AMQP.md").partition("<!-- suites -->\n\n")
    assert behind.startswith(in_markdown(suites()) + "\n\n"), "scripts/suites --markdown prints it"
