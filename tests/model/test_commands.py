"""Commands: what counts of them against bounds."""

from radiator.model.commands import Administer, Send
from radiator.protocols.administration import JSON


def test_the_size_of_a_send_is_that_of_its_header_block_and_body() -> None:
    assert Send(1, "/queue/a", b"", 0, b"").size == 0
    assert Send(1, "/queue/a", b"a:b\n", 0, b"12345").size == 9


def test_the_size_of_a_request_is_that_of_its_body() -> None:
    assert Administer(1, b"{}", JSON, 0, receipt=b"not counted").size == 2
