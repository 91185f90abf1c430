"""One browser for all tests of the console."""

from collections.abc import Iterator

import pytest

from tests.console.page import Page, a_tab


@pytest.fixture(scope="session")
def tab() -> Iterator[Page]:
    with a_tab() as page:
        yield page
