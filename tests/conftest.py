"""What every test has: hypothesis runs the same examples each time, and prints how to get a failing one again.

Tests against a whole broker in a process of its own are slow ones: `make check` leaves them out, and the thorough ones.
"""

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import skipped

settings.register_profile("radiator", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("radiator")

os.environ["XDG_CONFIG_HOME"] = "/nonexistent"  # no test speaks to a broker of who runs it

HERE = Path(__file__).parent
WHOLE_BROKER = (
    "acceptance",
    "console",
    "integrations/celery",
    "integrations/kombu",
    "crash/test_sceptic.py",
    "interop",
    "server/test_serve.py",
    "test_examples.py",
)
THOROUGH = (  # nine tenths of the time of the tests that are not slow
    "benchmarks",
    "client",
    "contracts",
    "core/admin",
    "core/cluster",
    "core/logs/test_log_histories.py",
    "core/queues/test_delayed.py",
    "core/routing/test_cycles_of_destinations.py",
    "core/routing/test_trie.py",
    "core/test_answers.py",
    "core/test_journal_writer.py",
    "core/test_model.py",
    "core/test_reload.py",
    "core/test_rounds.py",
    "crash",
    "documents",
    "house/test_durability_map.py",
    "house/test_mutants.py",
    "house/test_skipped.py",
    "integrations",
    "nodes/test_proxy.py",
    "protocols/peer/test_frame.py",
    "protocols/peer/test_growth.py",
    "protocols/stomp/test_frame.py",
    "protocols/stomp/test_parser.py",
    "protocols/stomp/test_session.py",
    "server/test_checks.py",
    "server/test_connection.py",
    "server/test_log.py",
    "server/test_outbox.py",
    "server/test_reload.py",
    "server/test_timetable.py",
    "server/test_transport.py",
    "sim",
    "storage",
    "tools/archive",
    "tools/cli",
    "tools/config",
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


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """With FAST=1 what is left out is not even read."""
    left_out = (*WHOLE_BROKER, *THOROUGH) if os.environ.get("FAST") else ()
    path = collection_path.resolve()
    return (path.is_relative_to(HERE) and path.relative_to(HERE).as_posix().startswith(left_out)) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # one behind the other, so that few processes of xdist parse the package
    items.sort(key=lambda item: not hasattr(getattr(item, "module", None), "nodes_of"))
    for item in items:
        if item.path.relative_to(HERE).as_posix().startswith(WHOLE_BROKER):
            item.add_marker(pytest.mark.slow)
        for mark in item.iter_markers("alone"):
            assert mark.args, f"{item.nodeid}: alone takes a sentence that says why"


def pytest_collection_finish() -> None:
    """Python looks no more for cycles among all that is there now. Else it takes most of a second, in the middle of
    whatever a test measures.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    note_skip("test", report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    note_skip("module", report)


def note_skip(kind: str, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        assert isinstance(report.longrepr, tuple)
        skipped.note(kind, report.nodeid, report.longrepr[2].removeprefix("Skipped: "))
