"""A store that is written to, and a log that is appended to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.journalist import Journalist
from tests.storage.opened import closing_what_is_left
from tests.storage.scribe import Scribe


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    with closing_what_is_left():
        yield


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / "data")


@pytest.fixture
def log(tmp_path: Path) -> Journalist:
    return Journalist(tmp_path / "data")
