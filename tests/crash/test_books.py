"""The books find every kind of fault: a checker that passes everything proves nothing."""

import pytest

from tests.crash.books import Books, body_of, name_in

BOTH = ("/queue/a", "/queue/b")


def deliver(books: Books, queue: str, name: str, message_id: str = "", redelivered: bool = False) -> None:
    copy = books.delivered(queue, body_of(name), message_id or f"{queue}{name}", redelivered, in_order=True)
    books.giving_up(copy)


@pytest.fixture
def books() -> Books:
    """Two messages, each receipted and delivered once to both queues: no fault."""
    books = Books()
    for name in ("p.0", "p.1"):
        books.sending(name, BOTH)
        books.sent(name)
        for queue in BOTH:
            deliver(books, queue, name)
    assert books.faults() == []
    return books


def test_lost_message_is_found(books: Books) -> None:
    books.sending("p.2", BOTH)
    books.sent("p.2")
    assert "lost" in books.faults()[0]


def test_unreceipted_message_may_be_lost_whole(books: Books) -> None:
    books.sending("p.2", BOTH)
    assert books.faults() == []


def test_torn_fanout_is_found(books: Books) -> None:
    books.sending("p.2", BOTH)
    deliver(books, "/queue/a", "p.2")
    assert "torn" in books.faults()[0]


def test_altered_body_is_found(books: Books) -> None:
    for body in (body_of("p.1")[:-1] + b"X", body_of("p.1") + b"X", b"", b"p.1"):
        books.delivered("/queue/a", body, "1", redelivered=True, in_order=False)
    assert len(books.faults()) == 4


def test_message_that_was_never_sent_is_found(books: Books) -> None:
    deliver(books, "/queue/a", "q.9")
    assert "unexpected" in books.faults()[0]


def test_acked_message_that_is_delivered_again_is_found(books: Books) -> None:
    books.acked(("/queue/a", "p.1"))
    books.broker_ended()
    deliver(books, "/queue/a", "p.1", redelivered=True)
    assert "acked" in books.faults()[0]


def test_redelivery_without_its_mark_is_found(books: Books) -> None:
    books.broker_ended()
    deliver(books, "/queue/a", "p.1")
    assert "redelivered:true" in books.faults()[0]


def test_wrong_order_is_found(books: Books) -> None:
    deliver(books, "/queue/a", "p.0", redelivered=True)
    assert "out of order" in books.faults()[0]


def test_message_with_two_consumers_is_found(books: Books) -> None:
    books.delivered("/queue/a", body_of("p.1"), "/queue/ap.1", redelivered=True, in_order=False)
    books.delivered("/queue/a", body_of("p.1"), "/queue/ap.1", redelivered=True, in_order=False)
    assert "two consumers" in books.faults()[0]


def test_message_that_was_seen_and_is_gone_is_found(books: Books) -> None:
    books.sending("p.2", ("/queue/a",))
    books.delivered("/queue/a", body_of("p.2"), "1", redelivered=False, in_order=True)
    books.broker_ended()
    assert "seen" in books.faults()[0]
    deliver(books, "/queue/a", "p.2", "1", redelivered=True)
    assert books.faults() == []


def test_message_stored_twice_is_found(books: Books) -> None:
    books.broker_ended()
    deliver(books, "/queue/a", "p.1", message_id="another", redelivered=True)
    assert "stored twice" in books.faults()[0]


def test_ack_without_an_answer_holds_for_the_life_of_the_broker(books: Books) -> None:
    books.acking(("/queue/a", "p.1"))
    deliver(books, "/queue/a", "p.1", redelivered=True)
    assert "by the same broker" in books.faults()[0]


def test_ack_without_an_answer_may_be_lost_with_the_broker(books: Books) -> None:
    books.acking(("/queue/a", "p.1"))
    books.broker_ended()
    deliver(books, "/queue/a", "p.1", redelivered=True)
    assert books.faults() == []


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("comes_again", [False, True])
def test_trade_counts_whole_or_not_at_all(books: Books, is_sent: bool, comes_again: bool) -> None:
    books.sending("t.0", BOTH)
    books.trading("t.0", [("/queue/a", "p.1")])
    books.broker_ended()
    if is_sent:
        for queue in BOTH:
            deliver(books, queue, "t.0")
    if comes_again:
        deliver(books, "/queue/a", "p.1", redelivered=True)
    found = books.faults()
    assert [one.partition(":")[0] for one in found] == (["half applied"] if is_sent == comes_again else [])


def test_what_a_client_notes_is_a_fault(books: Books) -> None:
    books.note("confirmed before it has come back: p.1")
    assert books.faults() == ["confirmed before it has come back: p.1"]


def test_contents_belong_to_their_name() -> None:
    assert name_in(body_of("p.7")) == "p.7"
    assert len({body_of(f"p.{number}") for number in range(1000)}) == 1000
