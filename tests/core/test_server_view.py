"""What the server tells of itself: where there is none, a broker has answers all the same."""

from radiator.core.server_view import ServerView
from radiator.model.log_lines import KeptLines, ReadLogLines


def test_a_broker_without_a_server_has_the_defaults_and_no_lines() -> None:
    view = ServerView()
    config, path = view.configuration()
    assert path is None and config.data_dir.is_absolute() and not config.users
    assert view.lines(ReadLogLines(None, 1, "debug")) == KeptLines([], 0, 0)
    assert view.uses() == {}
