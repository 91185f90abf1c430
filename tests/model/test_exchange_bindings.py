"""The row of a binding between exchanges."""

import json

import pytest

from radiator.model.errors import Refusal
from radiator.model.exchange_bindings import binding_name, binding_of, binding_text


def test_what_is_written_is_read() -> None:
    assert binding_of(binding_text("a", "k\0é", "b")) == ("a", "k\0é", "b")


def test_no_two_have_one_name() -> None:
    names = {binding_name(*one) for one in (("a", "b", "c"), ("c", "b", "a"), ("a", "c", "b"), ("ab", "", "c"))}
    assert len(names) == 4 and all(len(name) == 64 for name in names)


@pytest.mark.parametrize("row", [{}, 7, [], {"source": "a", "key": "k"}, {"source": "a", "key": 1, "destination": "b"}])
def test_any_other_row_is_refused(row: object) -> None:
    with pytest.raises(Refusal):
        binding_of(json.dumps(row))
