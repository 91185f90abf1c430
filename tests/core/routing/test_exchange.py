"""One exchange and its bindings to others."""

import pytest

from radiator.core.routing.exchange import Exchange, ties_of
from radiator.model.errors import Refusal
from radiator.model.settings import HEADERS, TOPIC, ExchangeSettings


def exchange(name: str, **settings: object) -> Exchange:
    return Exchange(name, ExchangeSettings(**settings), is_declared=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "is_plain"),
    [({}, True), ({"alternate": "y"}, False), ({"internal": True}, False), ({"type": HEADERS}, False)],
)
def test_only_a_plain_one_is_routed_the_short_way(settings: dict[str, object], is_plain: bool) -> None:
    assert exchange("x", **settings).is_plain is is_plain


def test_it_is_plain_again_when_it_leads_on_no_more() -> None:
    one, other = exchange("x"), exchange("y")
    one.lead_to("k", other, is_declared=False, is_stored=True)
    assert not one.is_plain and other.is_plain and one.leads("k", other) and one.bindings_count == 1
    assert [*ties_of(one)] == [*ties_of(other)] == [(one, "k", other)]
    assert one.lead_no_more("k", other) and one.is_plain and not one.leads("k", other) and not [*ties_of(other)]


def test_the_key_of_a_binding_is_that_of_its_type() -> None:
    assert exchange("x").bound_key('{"b": 1, "a": 2}') == '{"b": 1, "a": 2}'
    assert exchange("x", type=HEADERS).bound_key('{"b": 1, "a": 2}') == '{"a":"2","b":"1"}'
    for type_, key in ((HEADERS, "k"), (TOPIC, "a." * 50), ("direct", "k" * 256)):
        with pytest.raises(Refusal):
            exchange("x", type=type_).bound_key(key)
