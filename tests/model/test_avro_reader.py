"""Numbers, texts and blocks of Avro's binary encoding, at their limits and one past them."""

import pytest

from radiator.model.avro_reader import AvroReader, Wrong, shown_value
from radiator.model.limits import BODY_PLACE_CHARACTERS, BODY_VALUES_MAX
from tests.avro_bodies import long


@pytest.mark.parametrize("value", [0, -1, 63, 64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)])
def test_a_number_is_read_whole(value: int) -> None:
    reader = AvroReader(long(value) + b"x")
    assert reader.long("a long") == value and reader.at == len(long(value))


def test_a_reader_passes_over_what_is_there_and_no_more() -> None:
    reader = AvroReader(b"abc")
    assert (reader.take(3, "bytes"), reader.at) == (0, 3)
    with pytest.raises(Wrong, match="is cut off by the end of the body; it must be bytes"):
        reader.take(1, "bytes")
    with pytest.raises(Wrong, match="has a length of -1"):
        reader.take(-1, "bytes")


def test_values_are_spent_to_the_last() -> None:
    reader = AvroReader(b"")
    reader.spend(BODY_VALUES_MAX)
    with pytest.raises(Wrong, match="the most that a body may have"):
        reader.spend(1)


def test_a_block_ends_where_it_says() -> None:
    reader = AvroReader(long(-2) + long(2) + b"ab" + long(1) + b"c" + long(0))
    counts = []
    for count in reader.blocks("an array"):
        counts.append(count)
        reader.take(count, "an item")
    assert counts == [2, 1]
    with pytest.raises(Wrong, match="has a block of 2 bytes whose items take 0"):
        for _ in AvroReader(long(-2) + long(2) + b"ab").blocks("an array"):
            pass


def test_a_long_place_is_cut_in_its_middle() -> None:
    wrong = Wrong("is wrong")
    wrong.place = [".last", *[".inner"] * 100, ".first"]
    clause = wrong.clause("order")
    assert clause.startswith("order.first.inner") and clause.endswith(".inner.last is wrong")
    assert len(clause) == BODY_PLACE_CHARACTERS + len("... is wrong")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\n", '"a\\n"'),
        ([1] * 9, "an array of 9"),
        ({str(one): 1 for one in range(9)}, "an object of 9"),
        (1.5, "1.5"),
    ],
)
def test_a_value_is_shown_on_one_line(value: object, shown: str) -> None:
    assert shown_value(value) == shown
    assert len(shown_value("x" * 1000)) == 80
