"""What every test has: hypothesis runs the same examples each time, and prints how to get a failing one again.

Tests against a whole broker in a process of its own are slow ones: `make check` leaves them out.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import skipped

settings.register_profile("radiator", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("radiator")

HERE = Path(__file__).parent
WHOLE_BROKER = (
    "acceptance",
    "integrations/celery",
    "integrations/kombu",
    "crash/test_sceptic.py",
    "interop",
    "server/test_serve.py",
    "test_examples.py",
)
SPARK = "tests/integrations/spark/"
SPARK_CRASHES = "tests/integrations/spark/test_crashes.py"  # in processes of its own


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadscope the tests of one session of Spark go to one process, and each other test to who is free."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return SPARK if nodeid.startswith(SPARK) and not nodeid.startswith(SPARK_CRASHES) else nodeid

    return OneSession(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(HERE).as_posix().startswith(WHOLE_BROKER):
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("alone"):
            assert mark.args, f"{item.nodeid}: alone takes a sentence that says why"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note_skip("test", report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    note_skip("module", report)


def note_skip(kind: str, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        assert isinstance(report.longrepr, tuple)
        skipped.note(kind, report.nodeid, report.longrepr[2].removeprefix("Skipped: "))
