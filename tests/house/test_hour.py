"""An hour is enough: the way of a receipted message over a kill -9 is short, and docs/READING.md lists all of it."""

from pathlib import Path

import pytest

from tests.house import hour
from tests.house.hour import CONFIG, DECLARED, PAGE, Entered, connect_and_stop, send_and_kill, traced

LINES_MAX = 1500
FILES_MAX = 15  # with functions that are entered
RECORDS_MAX = 3  # whose classes of plain fields are made, and nothing else

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bare() -> set[Entered]:
    return traced(DECLARED, connect_and_stop)


@pytest.fixture(scope="module")
def way(bare: set[Entered]) -> set[Entered]:
    return traced(DECLARED, send_and_kill) - bare


def test_every_thread_and_greenlet_is_traced(bare: set[Entered]) -> None:
    names = {one.name for one in bare}
    hub = {"Broker.turn", "Broker.seal", "Dispatcher._turn", "ServerConnection._readable"}
    committer, loader, log = {"LmdbStore.commit", "TreeWriter.apply"}, {"LmdbStore.go_on_checking"}, {"EventLog._write"}
    assert (hub | committer | loader | log) - names == set()


def test_the_way_is_short(way: set[Entered]) -> None:
    functions = {one.path for one in way if one.line}
    assert len(functions) <= FILES_MAX, sorted(functions)
    assert len({one.path for one in way} - functions) <= RECORDS_MAX
    assert sum(hour.lines_by_file(way).values()) <= LINES_MAX


def test_all_of_the_way_is_listed_and_nothing_else(way: set[Entered]) -> None:
    listed, lines = hour.rows(PAGE.read_text(encoding="utf-8")), hour.lines_by_file(way)
    assert {path for path, _ in listed} == set(lines), sorted(map(str, way))
    assert dict(listed) == lines, "`python -m tests.house.hour` counts the lines anew"


def test_what_a_first_use_enters_beside_is_listed(bare: set[Entered], way: set[Entered]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    beside = {one.path for one in traced(CONFIG, send_and_kill) - bare - way} - {path for path, _ in hour.rows(page)}
    assert set(hour.of_first_use(page)) == beside


def test_a_file_without_a_row_keeps_none_and_a_row_is_counted() -> None:
    page = "<!-- hour -->\n| 1 | `core/turn.py` | 7 | why |\n| 2 | `core/old.py` | 7 | why |\n<!-- end -->\n"
    counted = hour.counted(page, {"core/turn.py": 12, "core/new.py": 3})
    assert hour.rows(counted) == [("core/turn.py", 12), ("core/old.py", 0)]


def test_a_line_that_is_half_written_does_not_count(tmp_path: Path) -> None:
    listed = tmp_path / "entered"
    listed.write_text("core/turn.py\t7\tTurn.a\ncore/turn.py\t1")
    assert hour.entered_in(listed) == {Entered("core/turn.py", 7, "Turn.a")}
