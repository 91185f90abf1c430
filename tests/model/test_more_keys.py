"""Which addresses the keys of a SEND make."""

import pytest

from radiator.model.errors import Refusal
from radiator.model.more_keys import MORE_KEYS_MAX, addresses_of
from tests.core.words import send


@pytest.mark.parametrize(
    ("address", "keys", "addresses"),
    [
        ("/exchange/x/a", (), ("/exchange/x/a",)),
        ("/exchange/x/a", ("b", "c/d"), ("/exchange/x/a", "/exchange/x/b", "/exchange/x/c/d")),
        ("/exchange/x", ("b",), ("/exchange/x", "/exchange/x/b")),
        ("/queue/a", ("b",), ("/queue/a", "/queue/b")),
        ("/amq/queue/a", ("b",), ("/amq/queue/a", "/amq/queue/b")),
        ("/topic/a", (), ("/topic/a",)),
    ],
)
def test_each_key_makes_an_address(address: str, keys: tuple[str, ...], addresses: tuple[str, ...]) -> None:
    assert addresses_of(send(1, address, more_keys=keys)) == addresses


def test_other_addresses_take_no_more_keys_and_no_address_too_many() -> None:
    for address in ("/topic/a", "/fanout/a", "/log/a"):
        with pytest.raises(Refusal):
            addresses_of(send(1, address, more_keys=("b",)))
    assert len(addresses_of(send(1, "/queue/a", more_keys=("b",) * MORE_KEYS_MAX))) == MORE_KEYS_MAX + 1
    with pytest.raises(Refusal):
        addresses_of(send(1, "/queue/a", more_keys=("b",) * (MORE_KEYS_MAX + 1)))
