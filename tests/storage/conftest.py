"""A store that is written to, and a log that is appended to."""

from pathlib import Path

import pytest

from tests.storage.journalist import Journalist
from tests.storage.scribe import Scribe


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    return Scribe(tmp_path / "data")


@pytest.fixture
def log(tmp_path: Path) -> Journalist:
    return Journalist(tmp_path / "data")
