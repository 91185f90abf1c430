"""The books find each kind of fault, and nothing in a history that is right."""

import pytest

from tests.crash.books import body_of
from tests.nodes.books import Books

JOB, COPIES = ("work",), ("a", "b")


@pytest.fixture
def books() -> Books:
    """job 1 and event 1 are receipted; nothing is taken yet."""
    one = Books()
    for name, places in (("j.1", JOB), ("e.1", COPIES)):
        one.sending(name, places)
        one.sent(name)
    return one


def take(books: Books, place: str, name: str, holder: str = "c1") -> None:
    books.delivered(place, body_of(name), holder)
    books.acking(place, name)
    books.is_acked(place, name)


def take_all(books: Books) -> None:
    take(books, "work", "j.1")
    take(books, "a", "e.1")
    take(books, "b", "e.1")


def test_all_is_well(books: Books) -> None:
    assert len(books.waiting()) == 3
    take_all(books)
    books.heard("s", b"p 0")
    books.heard("s", b"p 2")
    assert books.waiting() == []
    assert books.faults() == []


def test_what_was_not_receipted_may_be_gone(books: Books) -> None:
    take_all(books)
    books.sending("j.2", JOB)
    assert books.faults() == []
    take(books, "work", "j.2")
    assert books.faults() == []


def test_lost(books: Books) -> None:
    take(books, "a", "e.1")
    take(books, "b", "e.1")
    assert "lost: 1 of 2" in " ".join(books.faults())


def test_a_copy_is_lost(books: Books) -> None:
    take(books, "work", "j.1")
    take(books, "a", "e.1")
    found = " ".join(books.faults())
    assert "('b', 'e.1')" in found
    assert "torn: 1 " in found


def test_lost_with_who_had_it_and_not_given_again(books: Books) -> None:
    take_all(books)
    books.sending("j.2", JOB)
    books.delivered("work", body_of("j.2"), "c1")
    books.lost("c1")
    assert "gone: 1 " in " ".join(books.faults())
    take(books, "work", "j.2", "c2")
    assert books.faults() == []


def test_doubled_after_its_ack(books: Books) -> None:
    take_all(books)
    take(books, "work", "j.1", "c2")
    assert books.faults() == ["doubled: j.1 was acked, and came again to c2"]


def test_doubled_while_another_has_it(books: Books) -> None:
    take_all(books)
    books.sending("j.2", JOB)
    books.delivered("work", body_of("j.2"), "c1")
    books.delivered("work", body_of("j.2"), "c2")
    books.is_acked("work", "j.2")
    assert books.faults() == ["doubled: j.2 is with c1, and came to c2 too"]


def test_after_an_ack_without_receipt_it_may_come_again_or_not(books: Books) -> None:
    take_all(books)
    books.sending("j.2", JOB)
    books.sent("j.2")
    books.delivered("work", body_of("j.2"), "c1")
    books.acking("work", "j.2")
    books.lost("c1")
    assert books.waiting() == []
    assert books.faults() == []
    take(books, "work", "j.2", "c2")
    assert books.faults() == []


def test_altered_and_unexpected(books: Books) -> None:
    take_all(books)
    books.delivered("work", body_of("j.1") + b"x", "c1")
    books.delivered("work", body_of("j.9"), "c1")
    books.delivered("a", body_of("j.1"), "c1")
    assert len(books.faults()) == 3


def test_news_twice_and_out_of_order(books: Books) -> None:
    take_all(books)
    for body in (b"p 1", b"p 1", b"p 0"):
        books.heard("s", body)
    books.heard("other", b"p 1")
    assert len(books.faults()) == 2
