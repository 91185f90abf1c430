"""`/topic/NAME`: whoever is subscribed gets it; patterns are bounded, and a topic to send to is none."""

import pytest

from radiator.core.kinds.topic import check_words
from radiator.model.errors import Refusal
from radiator.model.limits import PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX
from radiator.model.settings import Declarations
from tests.core.node import Node
from tests.core.words import send, subscribe


def test_words_and_wildcards_at_their_bounds_are_taken_and_one_more_refused() -> None:
    most = ["#"] * PATTERN_WILDCARDS_MAX + ["a"] * (TOPIC_WORDS_MAX - PATTERN_WILDCARDS_MAX)
    check_words(".".join(most))
    for wrong, what in ((most + ["a"], "words"), (["*", *most[:-1]], "wildcards")):
        with pytest.raises(Refusal, match=what) as refused:
            check_words(".".join(wrong))
        assert refused.value.code == "too-many-words"


def test_all_who_are_subscribed_get_it_and_a_mandatory_one_needs_somebody() -> None:
    node = Node()
    node.open(1, 2, 3)
    node.say(subscribe(2, "/topic/a.*"), subscribe(3, "/topic/#"), send(1, "/topic/a.b", b"1", mandatory=True))
    assert node.bodies(2) == node.bodies(3) == [b"1"]
    node.say(send(1, "/topic/b", b"2"))
    assert node.bodies(2) == [] and node.bodies(3) == [b"2"]
    node.close(3)
    node.say(send(1, "/topic/b", mandatory=True))
    assert node.refusal(1).code == "no-subscriber"


@pytest.mark.parametrize("name", ["a.*", "#"])
def test_nothing_is_sent_to_a_pattern(name: str) -> None:
    node = Node()
    node.open(1)
    node.say(send(1, f"/topic/{name}"))
    assert node.refusal(1).code == "wildcard"


def test_where_first_use_may_make_none_it_is_refused() -> None:
    node = Node(Declarations())
    node.open(1)
    node.say(send(1, "/topic/t"))
    assert node.refusal(1).code == "no-such-destination"
