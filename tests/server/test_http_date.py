"""Date is that of now, to the second."""

from radiator.server.http_date import HttpDate


def test_the_date_is_that_of_now() -> None:
    now_s = 784111777.0
    date = HttpDate(lambda: now_s)
    assert date() == b"Sun, 06 Nov 1994 08:49:37 GMT"
    now_s = 784111777.99
    assert date() == b"Sun, 06 Nov 1994 08:49:37 GMT"
    now_s = 784111778.0
    assert date() == b"Sun, 06 Nov 1994 08:49:38 GMT"
    now_s = 784111700.0
    assert date() == b"Sun, 06 Nov 1994 08:48:20 GMT", "the clock was set back"
