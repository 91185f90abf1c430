"""docs/CLIENT-REFERENCE.md is what the docstrings say, and says all of them."""

from radiator.client.aio import AsyncClient
from radiator.client.client import Client
from tests.documents.reference import PAGE, members, page


def test_the_page_is_in_step_with_the_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.documents.reference writes it anew"


def test_both_clients_can_be_asked_the_same() -> None:
    """But for what only threads, callbacks and loops of one's own need."""
    only_of_threads = {"fileno", "pump", "heart_beat_s"}
    assert {name for name, _ in members(Client)} - only_of_threads == {name for name, _ in members(AsyncClient)} - {
        "open"
    }
