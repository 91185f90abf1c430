"""How long a message that is on its way may live."""

import pytest

from radiator.model.amqp_properties import Properties
from radiator.model.limits import TIME_MAX_MS
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.publishing import Publishing, expiration_ms
from radiator.protocols.amqp.spec import PRECONDITION_FAILED


@pytest.mark.parametrize(("text", "given_ms"), [
    (None, None), ("0", 0), ("007", 7), (str(TIME_MAX_MS), TIME_MAX_MS),
])  # fmt: skip
def test_an_expiration_is_milliseconds(text: str | None, given_ms: int | None) -> None:
    assert expiration_ms(Properties(expiration=text)) == given_ms


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "1e3", "٣", "²", " 1", str(TIME_MAX_MS + 1), "9" * 255])
def test_what_is_no_number_of_milliseconds_is_refused(text: str) -> None:
    with pytest.raises(BrokenAmqp, match="invalid expiration") as broken:
        expiration_ms(Properties(expiration=text))
    assert broken.value.code == PRECONDITION_FAILED


def test_a_message_that_is_announced_has_nothing_yet() -> None:
    publishing = Publishing("x", "k", True)
    assert (publishing.body_bytes, publishing.body, publishing.properties) == (-1, b"", b"")
