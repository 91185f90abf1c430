"""The place of a message among all that are out: it is read as it is written, and nothing else is one."""

import pytest

from radiator.model.unacked import OutPlace, place_in, place_text


@pytest.mark.parametrize("place", [OutPlace(0, 0), OutPlace(10**18, (2**32 - 1) << 64 | (2**64 - 1))])
def test_a_place_is_read_as_it_is_written(place: OutPlace) -> None:
    assert place_in(place_text(place)) == place


@pytest.mark.parametrize("text", ["", "-", "1", "1-", "-1", "1-2-3", "a-1", "1-٣", "1- 2", "+1-2", "1" * 31 + "-1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be the `next` of the page before"):
        place_in(text)
