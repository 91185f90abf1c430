"""A server is ready only where it has said so."""

import pytest

from radiator.protocols.http.server_state import ServerState


def test_a_server_that_has_said_nothing_is_not_ready() -> None:
    assert not ServerState().is_ready(frozenset())
    assert not ServerState().is_ready(frozenset(("links",)))


@pytest.mark.parametrize(
    ("not_ready", "exclude", "is_ready"),
    [
        ((), (), True),
        (("links",), (), False),
        (("links",), ("links",), True),
        (("links",), ("disk",), False),
        (("links", "disk"), ("links",), False),
        ((), ("links",), True),
    ],
)
def test_only_reasons_that_count_are_against_it(
    not_ready: tuple[str, ...], exclude: tuple[str, ...], is_ready: bool
) -> None:
    assert ServerState(frozenset(not_ready)).is_ready(frozenset(exclude)) is is_ready
