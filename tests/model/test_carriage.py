"""What a link can carry of a message: the same rules on both sides."""

from dataclasses import replace

import pytest

from radiator.model.carriage import block_bytes, carriage_mistake, carried_address, check_sizes
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import TIME_MAX_MS, Limits
from radiator.model.message import Message

LIMITS = Limits(max_frame_bytes=1000, max_header_bytes=100)
MESSAGE = Message("/queue/q", b"a:b\n", ESCAPING_ALL, b"body", 1, 0)


def test_a_message_that_a_client_may_send_can_be_carried() -> None:
    assert carriage_mistake(MESSAGE, LIMITS) == ""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"destination": "/nothing/q"}, "is not a destination"),
        ({"destination": "/admin"}, "is not an address of a message"),
        ({"destination": "/queue/" + "x" * 256}, "has a name of 256 bytes"),
        ({"headers": b"no colon\n"}, ""),
        ({"body": b"x" * 1001}, "max_frame_bytes"),
    ],
)
def test_what_cannot_be_carried_says_why(change: dict[str, object], sentence: str) -> None:
    mistake = carriage_mistake(replace(MESSAGE, **change), LIMITS)  # type: ignore[arg-type]
    assert mistake and sentence in mistake


def test_sizes_and_times_at_their_bounds_are_taken_and_one_past_them_refused() -> None:
    most = (block_bytes(LIMITS), LIMITS.max_frame_bytes, TIME_MAX_MS, 2 * TIME_MAX_MS)
    check_sizes(*most, LIMITS)
    for place in range(4):
        with pytest.raises(Violation):
            check_sizes(*[one + (nth == place) for nth, one in enumerate(most)], LIMITS)


def test_bytes_that_are_no_text_are_no_address() -> None:
    assert carried_address(b"/topic/a.b") == "/topic/a.b"
    with pytest.raises(Violation, match="is not an address"):
        carried_address(b"/queue/\xff")
