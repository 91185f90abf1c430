"""A request as a resource gets it: its parameters."""

import pytest

from radiator.model.limits import HTTP_QUERY_FIELDS
from radiator.protocols.http.exchange import no_body
from radiator.protocols.http.head import BadRequest
from tests.protocols.http.asking import LIMITS, a_request, head_of


@pytest.mark.parametrize(("query", "found"), [
    ("", {}), ("?", {}), ("?a=1", {"a": "1"}), ("?a=1&b=2", {"a": "1", "b": "2"}), ("?a=", {"a": ""}),
    ("?a=%20+x%2b", {"a": "  x+"}), ("?a=%C3%A4", {"a": "ä"}), ("?a=b=c", {"a": "b=c"}), ("?%61=1", {"a": "1"}),
])  # fmt: skip
def test_parameters_are_read(query: str, found: dict[str, str]) -> None:
    assert a_request("GET", f"/x{query}").query("a", "b") == found


@pytest.mark.parametrize(("query", "sentence"), [
    ("?c=1", "'c' is not a parameter of '/x'; it has a, b."),
    ("?a=1&a=2", "has a parameter twice"),
    ("?a=1&%61=2", "has a parameter twice"),
    ("?a", "is not NAME=VALUE"),
    ("?a=%FF", "is not NAME=VALUE"),
    ("?" + "&".join(f"x{n}=1" for n in range(HTTP_QUERY_FIELDS + 1)), "is not NAME=VALUE"),
    ("?" + "x" * 500 + "=1", "is not a parameter"),
])  # fmt: skip
def test_what_is_none_is_refused(query: str, sentence: str) -> None:
    with pytest.raises(BadRequest) as refused:
        a_request("GET", f"/x{query}").query("a", "b")
    assert refused.value.status == 400 and sentence in str(refused.value) and len(str(refused.value)) < 600


def test_most_resources_take_no_body() -> None:
    assert no_body(head_of("GET"), LIMITS) == 0
