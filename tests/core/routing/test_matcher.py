"""What is bound to an exchange, and which of it a message gets to."""

import pytest

from radiator.core.routing.matcher import NO_HEADERS, Headers, Matcher
from radiator.model.headers import ESCAPING_ALL
from radiator.model.settings import DIRECT, FANOUT, HEADERS, TOPIC

PDF = Headers(b"format:pdf\n", ESCAPING_ALL)


@pytest.mark.parametrize("type_", [DIRECT, TOPIC, FANOUT, HEADERS])
def test_what_is_removed_is_gone(type_: str) -> None:
    matcher: Matcher[str] = Matcher(type_)
    keys = ['{"format":"pdf"}', "{}"]
    for key in keys:
        for thing in "ab":
            matcher.add(key, thing, is_declared=False)
    for key in keys:
        matcher.remove(key, "a")
    assert {*matcher.matching(keys[0], PDF)} == {"b"}
    for key in keys:
        matcher.remove(key, "b")
    assert not [*matcher.matching(keys[0], PDF)]
    assert not (matcher.bindings or matcher.every or matcher.things or matcher.arguments)


def test_each_thing_comes_once_and_each_binding_is_a_step() -> None:
    matcher: Matcher[str] = Matcher(HEADERS)
    matcher.add("{}", "a", is_declared=False)
    matcher.add('{"format":"pdf"}', "a", is_declared=False)
    matcher.add('{"format":"txt"}', "b", is_declared=False)
    assert [*matcher.matching("any", PDF)] == ["a"] and matcher.things.steps == 3
    assert [*matcher.matching("", NO_HEADERS)] == ["a"]
    assert matcher.would_match('{"format":"pdf"}', "x", "", PDF)
    assert not matcher.would_match('{"format":"pdf"}', "x", "", NO_HEADERS)
