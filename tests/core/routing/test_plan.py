"""What a SEND is about to do: copies with the time to live of their queue, and ids that all fanouts can share."""

import pytest

from radiator.core.routing.plan import Plan, dedup_id_of_copies, no_consumer, with_ttl
from radiator.model.limits import DEDUP_ID_MAX_BYTES
from tests.core.bare import NOW_MS, message


@pytest.mark.parametrize(
    ("expires_ms", "ttl_ms", "wanted_ms"),
    [(0, None, 0), (NOW_MS + 5, None, NOW_MS + 5), (0, 10, NOW_MS + 10), (NOW_MS + 5, 10, NOW_MS + 5)],
)
def test_a_copy_ends_with_its_message_or_its_queue_s_time(expires_ms: int, ttl_ms: int | None, wanted_ms: int) -> None:
    given = message(expires_ms=expires_ms)
    copy = with_ttl(given, ttl_ms, NOW_MS)
    assert copy.expires_ms == wanted_ms and given.expires_ms == expires_ms
    assert (copy is given) is (ttl_ms is None)


def test_the_ids_of_two_fanouts_never_meet() -> None:
    ids = {dedup_id_of_copies(address, i) for address in ("f", "f1", "f\0") for i in (b"", b"1", b"1" * 255)}
    assert len(ids) == 9 and all(one is not None and len(one) <= DEDUP_ID_MAX_BYTES for one in ids)
    assert dedup_id_of_copies("f", b"1") == dedup_id_of_copies("f", b"1")
    assert dedup_id_of_copies("f", None) is None


def test_a_new_one_does_nothing() -> None:
    plan = Plan()
    assert not any(getattr(plan, name) for name in Plan.__slots__)


def test_who_wanted_a_consumer_is_told_where_there_is_none() -> None:
    refused = no_consumer("/queue/q", "none has room")
    assert refused.code == "no-consumer" and "/queue/q" in str(refused) and "none has room" in str(refused)
