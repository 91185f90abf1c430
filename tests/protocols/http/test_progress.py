"""How much of a request was read, and how large it is."""

from radiator.protocols.http.body import Body
from radiator.protocols.http.progress import Arrival
from radiator.protocols.http.routes import found_route
from tests.protocols.http.asking import head_of


def arrival(**headers: str) -> Arrival:
    head = head_of("POST", "/v1/queues/a/messages", **headers)
    route, names = found_route(head)
    return Arrival(head, 100, route, names, Body(head, 50), is_continue_due=False)


def test_a_body_of_known_length_counts_as_far_as_it_has_come() -> None:
    one = arrival(Content_Length="10")
    assert (one.read_bytes, one.size) == (100, 110)
    one.body.take(b"abc")
    assert (one.read_bytes, one.size) == (103, 110)


def test_of_chunks_their_sizes_count_as_read() -> None:
    one = arrival(Transfer_Encoding="chunked")
    one.body.take(b"3\r\nabc\r\n5\r\nd")
    assert (one.read_bytes, one.size) == (112, 108)
