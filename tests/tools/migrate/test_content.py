"""Properties on their way: the same bytes, but for what would be an order to the new broker."""

import pytest

from radiator.model.amqp_properties import Properties, encode, parse
from radiator.model.amqp_tables import LetteredInt, encode_table
from radiator.model.limits import ID_MAX_BYTES
from radiator.tools.migrate.content import BIG_PROPERTIES_BYTES, adapted


def block(**properties: object) -> bytes:
    headers = properties.pop("headers", None)
    table = encode_table(headers) if isinstance(headers, dict) else None
    return encode(Properties(table=table, **properties))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        block(),
        block(content_type="a", delivery_mode=2, priority=9, timestamp=5, reply_to="r", message_id="m", app_id="CC"),
        block(headers={"n": LetteredInt(5, "s"), "x-death": [{"count": LetteredInt(1, "l"), "queue": "q"}]}),
        block(headers={"note": "CC and BCC and x-delivery-count"}),
    ],
)
def test_bytes_stay(data: bytes) -> None:
    assert adapted(data, None) == (data, False, ())


def test_a_sender_stays_where_the_new_broker_knows_him() -> None:
    data = block(user_id="ann")
    assert adapted(data, "ann") == (data, False, ())
    for user in ("bob", None):
        changed, is_odd, notes = adapted(data, user)
        found = parse(changed)
        assert (found.user_id, found.headers) == (None, {"x-migrated-user-id": "ann"})
        assert (is_odd, notes) == (False, ("user-id",))


def test_copies_and_counts_are_taken_away() -> None:
    data = block(headers={"CC": ["a"], "BCC": ["b"], "x-delivery-count": 3, "n": 1}, expiration="5")
    changed, _, notes = adapted(data, None)
    assert parse(changed).headers == {"n": 1, "x-migrated-cc": ["a"], "x-migrated-bcc": ["b"]}
    assert notes == ("expiration", "CC", "BCC", "x-delivery-count")
    assert parse(adapted(block(headers={"x-delivery-count": 3}), None)[0]).table is None


@pytest.mark.parametrize(("size", "is_odd"), [(ID_MAX_BYTES, False), (ID_MAX_BYTES + 1, True)])
def test_what_may_be_refused_goes_alone(size: int, is_odd: bool) -> None:
    assert adapted(block(headers={"traceparent": "x" * size}), None)[1] is is_odd


def test_large_properties_go_alone_and_so_do_broken_ones() -> None:
    size = BIG_PROPERTIES_BYTES - len(block(headers={"h": ""}))
    assert adapted(block(headers={"h": "x" * size}), None)[1] is False
    assert adapted(block(headers={"h": "x" * (size + 1)}), None)[1] is True
    data = block(headers={"h": "x"})
    assert adapted(data[:-1], None) == (data[:-1], True, ())
