"""What `return` says of what has come of it."""

import pytest

from radiator.model import returning
from radiator.model.returning import WHY_THEY_STAY, sentence_of


@pytest.mark.parametrize(
    "returned, queues, why, expected",
    [
        (0, 0, {}, "Nothing is ready in /queue/q, so nothing went back."),
        (1, 1, {}, "1 message is back where it came from, in 1 queue."),
        (3, 2, {}, "3 messages are back where they came from, in 2 queues."),
        (0, 0, {"origin-full": 1}, "0 messages are back. 1 message stays: 1 of a queue that is full."),
        (
            2,
            1,
            {"origin-gone": 2, "not-allowed": 1},
            "2 messages are back where they came from, in 1 queue. 3 messages stay: 2 of a queue that no longer "
            "exists, 1 of a queue that you may not write to.",
        ),
    ],
)
def test_the_sentence_has_what_went_and_why_others_stay(
    returned: int, queues: int, why: dict[str, int], expected: str
) -> None:
    assert sentence_of("q", returned, queues, why) == expected


def test_every_reason_has_words() -> None:
    named = {value for name, value in vars(returning).items() if name.isupper() and isinstance(value, str)}
    assert named == set(WHY_THEY_STAY)
