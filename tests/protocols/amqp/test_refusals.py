"""Refusals of the broker as reply codes, and as texts that fit."""

import pytest

from radiator.model.commands import Abort, Ack, Begin, Nack, Send
from radiator.protocols.amqp.refusals import closing_code, number_of, reply_code, reply_text
from radiator.protocols.amqp.spec import CHANNEL_CODES, CODE_NAMES


@pytest.mark.parametrize(("code", "number"), [
    ("forbidden", 403), ("reserved", 403), ("exclusive", 403), ("internal", 403), ("no-such-destination", 404),
    ("locked", 405), ("declared-otherwise", 406), ("anything else", 406),
])  # fmt: skip
def test_a_refusal_closes_a_channel_with_a_code_of_channels(code: str, number: int) -> None:
    assert reply_code(code) == number and number in CHANNEL_CODES


@pytest.mark.parametrize(("code", "number"), [
    ("forbidden", 403), ("protocol", 501), ("connections", 506), ("memory", 320), ("stopping", 320),
])  # fmt: skip
def test_a_refusal_closes_a_connection(code: str, number: int) -> None:
    assert closing_code(code) == number and number in CODE_NAMES


@pytest.mark.parametrize(("command", "number"), [
    (Send(1, "/queue/q", b"", 0, b""), (60, 40)), (Ack(1, b"m"), (60, 80)), (Nack(1, b"m"), (60, 120)),
    (Nack(1, b"m", is_reject=True), (60, 90)), (Begin(1, b"tx"), (0, 0)), (Abort(1, b"tx"), (0, 0)), (None, (0, 0)),
])  # fmt: skip
def test_a_command_is_named_by_its_method(command: object, number: tuple[int, int]) -> None:
    assert number_of(command) == number


def test_a_text_begins_with_the_name_of_its_code() -> None:
    assert reply_text(404, "no queue 'q'") == "NOT_FOUND - no queue 'q'"
    assert all(reply_text(code, "x") == f"{name} - x" for code, name in CODE_NAMES.items())


@pytest.mark.parametrize("letter", ["a", "ä", "€", "😀"])
def test_a_text_is_cut_between_letters_at_255_bytes(letter: str) -> None:
    for more in range(4):
        text = reply_text(404, "x" * more + letter * 300)
        assert 252 <= len(text.encode()) <= 255 and text.endswith(letter)
    assert len(reply_text(404, "x" * 243).encode()) == len(reply_text(404, "x" * 244).encode()) == 255
    assert reply_text(404, "half a pair: \ud800") == "NOT_FOUND - half a pair: ?"
