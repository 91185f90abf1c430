"""Frames that are sent again: each connection's own words, and a new receipt each time."""

from radiator.client.outstanding import Loss, Outstanding, Subscription
from tests.client.pair import linked


def test_a_subscription_says_itself_by_each_session() -> None:
    subscription = Subscription("s1", "/queue/q", "client", [("prefetch-count", "5")])
    for receipt in ("r1", "r2", None):
        connection, _ = linked()
        frame = subscription.say(connection.session, receipt)
        assert frame.startswith(b"SUBSCRIBE\n") and b"\nid:s1\n" in frame and b"\nprefetch-count:5\n" in frame
        assert (b"receipt:" in frame) is (receipt is not None)
        if receipt is not None:
            assert b"\nreceipt:" + receipt.encode() + b"\n" in frame
        connection.close()


def test_one_that_was_just_said_is_not_done() -> None:
    asked = Outstanding(lambda session, receipt: b"", Loss.AGAIN, True)
    assert (asked.is_done, asked.is_dropped, asked.error, asked.store) == (False, False, None, None)
