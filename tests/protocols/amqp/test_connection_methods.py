"""The methods of a connection are those of class 10, each under its number."""

from typing import get_type_hints

from radiator.protocols.amqp import connection_methods
from radiator.protocols.amqp.methods import METHODS


def test_they_are_those_of_class_10() -> None:
    there = {one for one in vars(connection_methods).values() if isinstance(one, type) and issubclass(one, tuple)}
    assert there - {connection_methods.NamedTuple} == {kind for (number, _), kind in METHODS.items() if number == 10}


def test_each_argument_says_how_it_is_written() -> None:
    for (number, _), kind in METHODS.items():
        if number == 10:
            hints = get_type_hints(kind, include_extras=True)
            assert all(hasattr(hint, "__metadata__") for hint in hints.values()), kind
