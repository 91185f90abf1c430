"""One HTTP connection: requests and answers in order, who makes them, and how it ends."""

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from radiator.model.commands import Administer, Identify, Open, PublishAll
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.limits import (
    HTTP_BATCH_AT_ONCE_BYTES,
    HTTP_BODY_AT_ONCE_BYTES,
    HTTP_HEAD_BYTES,
    HTTP_IDLE_S,
    HTTP_PIPELINED,
    HTTP_REQUESTS_AT_ONCE,
    Limits,
)
from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Answered, Bye, Published, Receipt, Refuse, RefusedReceipt, Scope
from radiator.model.settings import WebSettings
from tests.protocols.http.asking import Asking, Users, answers, cuts, request

PUBLISH = "/v1/queues/a/messages"
TEXT = {"Content_Type": "text/plain"}


def publish(body: bytes = b"x", path: str = PUBLISH, **headers: str | None) -> bytes:
    return request("POST", path, body, **{**TEXT, **headers})


def basic(name: str, secret: str | None = None) -> str:
    return "Basic " + b64encode(f"{name}:{name if secret is None else secret}".encode()).decode()


def published(command: object) -> Published:
    """The broker's reply to it."""
    assert isinstance(command, PublishAll)
    return Published(command.connection, command.receipt, [b"1-%b" % command.receipt], 0)


def ids(asking: Asking) -> list[str]:
    return [one for answer in asking.answers() for one in json.loads(answer.body)["ids"]]


# ---- one request


@pytest.mark.parametrize(("agent", "client"), [("curl/8", "curl/8"), (None, ""), ("a\u00ff", "a\u00ff")])
def test_it_says_that_it_is_http_and_what_the_client_says_that_it_is(agent: str | None, client: str) -> None:
    (opened, _) = Asking().send(publish(User_Agent=agent))
    assert isinstance(opened, Open) and (opened.protocol, opened.client) == ("HTTP", client)


def test_a_request_becomes_a_command_and_its_reply_the_answer() -> None:
    asking = Asking()
    (opened, command) = asking.send(publish())
    assert opened == Open(7, closes_at=Scope.CONNECTION, principal=ANYONE)
    assert asking.sent == b"" and asking.session.is_open
    asking.reply(published(command))
    (answer,) = asking.answers()
    assert answer.status == 201 and json.loads(answer.body) == {"ids": ["1-1"], "duplicates": 0}
    assert "Connection" not in answer.headers and not asking.session.is_closing
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"


def test_however_a_request_is_cut_it_is_one() -> None:
    for pieces in cuts(publish(b"hello")):
        asking = Asking()
        asking.send(*pieces)
        (command,) = asking.of_broker
        assert isinstance(command, PublishAll) and command.sends[0].body == b"hello"
        assert asking.session.buffered_bytes == 0


def test_what_is_held_of_a_request_is_counted() -> None:
    asking = Asking()
    data = publish(b"x" * 1000)
    head_size = len(data) - 1000
    asking.send(data[: head_size - 1])
    assert asking.session.buffered_bytes == asking.session.frame_bytes == head_size - 1
    asking.send(data[head_size - 1 : head_size + 10])
    assert (asking.session.buffered_bytes, asking.session.frame_bytes) == (head_size + 10, head_size + 1000)
    assert asking.commands == [Open(7, closes_at=Scope.CONNECTION, principal=ANYONE)], "a body may take a while"


def test_a_head_that_comes_again_is_let_in_again_and_another_one_is_looked_at() -> None:
    asking = Asking(Users())
    right = {"Authorization": basic("ann")}
    for body in (b"one", b"two"):
        (*_, command) = asking.send(publish(body, **right))
        assert isinstance(command, PublishAll) and command.sends[0].body == body
        asking.reply(published(command))
    asking.send(publish(b"one", Host="evil.example", **right))
    assert asking.statuses == [201, 201, 421] and asking.session.is_closing


@pytest.mark.parametrize("refused", [
    request("GET", "/v1/nothing"), request("PATCH", PUBLISH), request("GET", "/healthz", Host="evil.example"),
])  # fmt: skip
def test_a_head_that_was_refused_is_refused_again_and_one_that_was_let_in_before_it_is_let_in(refused: bytes) -> None:
    asking = Asking()
    asking.send(request(), refused, refused, request(), request())
    first, one, other, *more = asking.statuses
    assert [first, *more] == [200, 200, 200] and one == other >= 400


def test_a_body_in_chunks_is_one_frame_for_the_clocks_of_the_connection() -> None:
    asking = Asking()
    head = request("POST", PUBLISH, Transfer_Encoding="chunked", **TEXT)
    asking.send(head)
    for count in range(5):
        held = (asking.session.buffered_bytes, asking.session.frame_bytes)
        assert held == (len(head) + 6 * count, len(head) + count)
        asking.send(b"1\r\nx\r\n")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("GET", "/nowhere"), 404),
        (request("GET", PUBLISH), 405),
        (request("GET", "/healthz?a=b"), 400),
        (publish(b"{", Content_Type="application/json"), 400),
        (request("POST", PUBLISH, Content_Type="text/plain", message_delay="soon"), 400),
    ],
)
def test_what_is_refused_whole_leaves_the_connection(data: bytes, status: int) -> None:
    asking = Asking()
    asking.send(data + request())
    assert asking.statuses == [status, 200] and not asking.session.is_closing
    problem = asking.answers()[0]
    assert problem.headers["Content-Type"] == "application/problem+json"
    found = json.loads(problem.body)
    assert found["status"] == status and found["detail"].endswith(".") and found["code"] and found["title"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("POST", "/nowhere", b"x"), 404),
        (request("GET", "/healthz", b"x"), 413),
        (request("POST", PUBLISH, Content_Length=str(Limits().max_frame_bytes + 1), **TEXT), 413),
        (publish(Content_Encoding="gzip"), 415),
        (publish(Origin="https://evil.example"), 403),
        (publish(Host="evil.example"), 421),
        (publish(Transfer_Encoding="chunked"), 400),
        (request("POST", PUBLISH, Content_Length=None, Transfer_Encoding="chunked", **TEXT) + b"x", 400),
        (b"nonsense\r\n\r\n", 501),
        (b"NOPE / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (request(Expect="200-ok"), 417),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HTTP_HEAD_BYTES, 431),
    ],
)
def test_nothing_is_read_behind_a_body_or_a_head_that_is_refused(data: bytes, status: int) -> None:
    asking = Asking()
    asking.send(data + request("DELETE", "/v1/queues/smuggled"), request())
    if data.endswith(b"\r\n\r\nx"):
        asking.send(b"yyyyyyyyy\r\n")
    assert asking.statuses == [status] and asking.answers()[0].headers["Connection"] == "close"
    assert asking.session.is_closing and asking.of_broker == [] and asking.session.buffered_bytes == 0


def test_one_empty_line_before_a_request_is_let_pass() -> None:
    asking = Asking()
    asking.send(b"\r\n" + request())
    asking.send(b"\r\n", request())
    assert asking.statuses == [200, 200]
    asking.send(b"\r\n\r\n" + request())
    assert asking.statuses == [200, 200, 400] and asking.session.is_closing


def test_two_empty_lines_are_refused_however_they_are_cut() -> None:
    for pieces in cuts(b"\r\n\r\n" + request()):
        asking = Asking()
        asking.send(*pieces)
        assert asking.statuses == [400], pieces


# ---- several


def test_answers_come_in_the_order_of_their_requests() -> None:
    asking = Asking()
    commands = asking.send(b"".join(publish(b"%d" % number) for number in range(5)))[1:]
    assert [command.sends[0].body for command in commands if isinstance(command, PublishAll)] == [
        b"0", b"1", b"2", b"3", b"4"
    ]  # fmt: skip
    for number in (2, 1, 4):
        asking.reply(published(commands[number]))
    assert asking.sent == b""
    asking.reply(published(commands[0]))
    assert ids(asking) == ["1-1", "1-2", "1-3"]
    asking.reply(published(commands[3]))
    assert ids(asking) == ["1-1", "1-2", "1-3", "1-4", "1-5"]


@given(st.lists(st.sampled_from("pbhl"), min_size=1, max_size=12), st.randoms())
def test_whatever_is_asked_and_whenever_it_is_answered_the_order_stays(kinds: list[str], chance: object) -> None:
    asking = Asking()
    kind_of = {
        "p": (publish(), 201),
        "b": (request("GET", "/nowhere"), 404),
        "h": (request(), 200),
        "l": (request("GET", "/v1/queues"), 200),
    }
    unanswered = asking.send(b"".join(kind_of[kind][0] for kind in kinds))
    while unanswered:
        unanswered = [one for one in unanswered if not isinstance(one, Open)]
        if not unanswered:
            break
        one = unanswered.pop(chance.randrange(len(unanswered)))  # type: ignore[attr-defined]
        before = len(asking.commands)
        reply = published(one) if isinstance(one, PublishAll) else Answered(7, one.receipt, b"{}")  # type: ignore[attr-defined]
        asking.reply(reply)
        unanswered += asking.commands[before:]
    assert asking.statuses == [kind_of[kind][1] for kind in kinds]


def test_an_answer_without_the_broker_waits_for_those_before_it() -> None:
    asking = Asking()
    (_, command) = asking.send(publish() + request() + request("GET", "/nowhere"))
    assert asking.sent == b""
    asking.reply(published(command))
    assert asking.statuses == [201, 200, 404]


def test_a_broken_request_behind_others_leaves_them_their_answers() -> None:
    asking = Asking()
    (_, first, second) = asking.send(publish() + publish() + b"nonsense\r\n\r\n" + publish())
    assert asking.sent == b"" and not asking.session.is_closing
    asking.reply(published(second), published(first))
    assert asking.statuses == [201, 201, 501] and asking.session.is_closing
    assert [answer.headers.get("Connection") for answer in asking.answers()] == [None, None, "close"]


def test_so_many_are_on_their_way_and_no_more() -> None:
    asking = Asking()
    commands = asking.send(publish() * (HTTP_PIPELINED - 1))[1:]
    assert not asking.session.is_full
    commands += asking.send(publish() * 3)
    assert len(commands) == HTTP_PIPELINED and asking.session.is_full
    assert asking.session.buffered_bytes == 2 * len(publish())
    asking.reply(*map(published, commands))
    assert not asking.session.is_full and len(asking.of_broker) == HTTP_PIPELINED + 2


def test_answers_without_the_broker_count_among_them() -> None:
    asking = Asking()
    (_, command) = asking.send(publish() + request() * (HTTP_PIPELINED + 5))
    assert asking.session.is_full and asking.session.buffered_bytes == 6 * len(request())
    asking.reply(published(command))
    assert asking.statuses == [201] + [200] * (HTTP_PIPELINED + 5)


def test_nothing_is_read_behind_what_is_alone() -> None:
    asking = Asking()
    (_, listed) = asking.send(request("GET", "/v1/queues") + publish())
    assert isinstance(listed, Administer) and asking.session.is_full
    asking.reply(Answered(7, listed.receipt, b"{}"))
    assert isinstance(asking.of_broker[1], PublishAll)


def test_a_refusal_is_the_answer_of_its_request_alone() -> None:
    asking = Asking()
    (_, first, second) = asking.send(publish() + publish())
    assert isinstance(first, PublishAll) and isinstance(second, PublishAll)
    asking.reply(RefusedReceipt(7, first.receipt, "queue-full", "The queue is full."), published(second))
    assert asking.statuses == [429, 201] and asking.answers()[0].headers["Retry-After"] == "1"
    (third,) = asking.send(publish())
    assert isinstance(third, PublishAll)
    asking.reply(Refuse(7, "blocked", "There is no room.", receipt=third.receipt, scope=Scope.COMMAND))
    assert asking.statuses[2:] == [503] and not asking.session.is_closing


def test_a_reply_that_nobody_waits_for_is_nothing() -> None:
    asking = Asking()
    (_, command) = asking.send(publish())
    asking.reply(Receipt(7, b"99"), published(command), published(command), Receipt(7, b"1"))
    assert asking.statuses == [201]


# ---- keeping and closing


@pytest.mark.parametrize(
    ("data", "keeps"),
    [
        (request(), True),
        (request(Connection="keep-alive"), True),
        (request(Connection="close"), False),
        (request(Connection="keep-alive, Close"), False),
        (request(version="1.0"), False),
        (request(version="1.0", Connection="keep-alive"), False),
        (request(version="1.0", Host=None), False),
    ],
)
def test_which_connection_is_kept(data: bytes, keeps: bool) -> None:
    asking = Asking()
    asking.send(data + request())
    assert asking.statuses == [200, 200][: 1 + keeps]
    assert asking.session.is_closing is not keeps
    assert (asking.answers()[0].headers.get("Connection") == "close") is not keeps


def test_the_last_request_is_answered_before_the_end() -> None:
    asking = Asking()
    (_, first, last) = asking.send(publish() + publish(Connection="close") + publish())
    asking.reply(published(last))
    assert not asking.session.is_closing
    asking.reply(published(first))
    assert asking.statuses == [201, 201] and asking.session.is_closing


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_long_answer_comes_in_its_parts(method: str) -> None:
    asking = Asking()
    asking.send(request(method, "/v1/stats"))
    head, *body = asking.session.pieces(Answered(7, b"1", b'{"a":', more=(b"1,", b'"b":2}')))
    assert b"\r\nContent-Length: 13\r\n" in head
    assert body == ([b'{"a":', b"1,", b'"b":2}'] if method == "GET" else [])


def test_head_is_answered_as_get_without_the_body() -> None:
    asking = Asking()
    (_, command) = asking.send(request("HEAD") + request("HEAD", "/nowhere") + request("HEAD", "/v1/queues"))
    assert isinstance(command, Administer)
    asking.reply(Answered(7, command.receipt, b"[]"))
    one, two, three = asking.answers(heads=(0, 1, 2))
    assert (one.status, one.headers["Content-Length"]) == (200, "3")
    assert two.status == 404 and int(two.headers["Content-Length"]) > 50
    assert (three.status, three.headers["Content-Length"]) == (200, "2")


def test_how_long_a_silent_client_is_kept() -> None:
    asking = Asking()
    assert asking.session.silence_max_s == HTTP_IDLE_S
    (_, command) = asking.send(publish())
    assert asking.session.silence_max_s == float("inf"), "it is the broker's turn"
    asking.reply(published(command))
    assert asking.session.silence_max_s == HTTP_IDLE_S


def test_a_connection_that_the_broker_ends_answers_the_first_that_waits() -> None:
    asking = Asking()
    asking.send(publish() + publish())
    asking.reply(Refuse(7, "memory", "It holds too much."))
    assert asking.statuses == [503] and asking.session.is_closing
    assert asking.send(publish()) == []


def test_a_connection_that_the_broker_ends_in_a_body_answers_that() -> None:
    asking = Asking()
    asking.send(publish(b"x" * 10)[:-5])
    asking.reply(Refuse(7, "memory", "There is no memory."))
    assert asking.statuses == [503] and asking.session.is_closing


def test_a_connection_that_the_broker_ends_between_requests_says_nothing() -> None:
    asking = Asking()
    (_, command) = asking.send(publish())
    asking.reply(published(command), Refuse(7, "forbidden", "The user is gone."))
    assert asking.statuses == [201] and asking.session.is_closing


def test_a_connection_that_has_no_place_gets_that_for_an_answer() -> None:
    asking = Asking()
    asking.reply(Refuse(7, "connections", "All 3 connections are taken."))
    assert asking.statuses == [503] and b"All 3 connections are taken." in asking.sent
    assert asking.session.encode(Bye(7)) == b""


def test_nothing_is_kept_of_a_connection_that_is_over() -> None:
    asking = Asking()
    asking.send(publish() + publish(b"x" * 100)[:-1])
    asking.session.forget()
    assert asking.session.buffered_bytes == 0 and asking.session.is_closing
    assert asking.send(publish()) == []


# ---- 100-continue


def test_who_waits_with_a_body_is_told_to_send_it() -> None:
    data = publish(b"hello", Expect="100-continue")
    asking = Asking()
    asking.send(data[:-5])
    assert asking.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    asking.send(data[-5:])
    assert len(asking.of_broker) == 1 and asking.statuses == [100]


@pytest.mark.parametrize(
    "data",
    [
        publish(b"hello", Expect="100-continue"),
        publish(b"hello", Expect="100-continue")[:-1],
        request("POST", PUBLISH, Expect="100-continue", **TEXT),
        request("POST", PUBLISH, b"hello", "1.0", Expect="100-continue", **TEXT)[:-5],
    ],
)
def test_who_does_not_wait_is_not(data: bytes) -> None:
    asking = Asking()
    asking.send(data)
    assert asking.sent == b""


def test_who_waits_with_a_body_that_is_refused_gets_the_refusal_instead() -> None:
    asking = Asking()
    asking.send(publish(b"hello", Expect="100-continue", Content_Encoding="br")[:-5])
    assert asking.statuses == [415]


def test_who_waits_behind_another_request_is_told_behind_its_answer() -> None:
    asking = Asking()
    (_, command) = asking.send(publish() + publish(b"hello", Expect="100-continue")[:-5])
    assert asking.sent == b"" and asking.session.is_full
    asking.reply(published(command))
    assert asking.statuses == [201, 100]


# ---- who asks


def test_without_a_login_nothing_is_read_behind_the_head() -> None:
    asking = Asking(Users())
    assert asking.send(publish() + request("DELETE", "/v1/queues/a")) == []
    (answer,) = asking.answers()
    assert answer.status == 401 and answer.headers["WWW-Authenticate"].startswith("Basic ")
    assert asking.session.is_closing and not asking.session.is_open


@pytest.mark.parametrize("authorization", ["-", "", "Basic", "Basic !", "Basic YQ==", "Bearer", "Bearer ", "Digest a"])
def test_nobody_is_let_in_by_what_is_no_login(authorization: str) -> None:
    asking = Asking(Users())
    assert asking.send(publish(Authorization=authorization)) == []
    assert asking.statuses == [401]


def test_a_right_login_is_asked_for_once() -> None:
    users = Users()
    asking = Asking(users)
    commands = asking.send(publish(Authorization=basic("ann")) * 3)
    assert commands[0] == Open(7, closes_at=Scope.CONNECTION, principal=Principal("ann")) and len(commands) == 4
    assert users.begun == [(b"ann", b"ann")]


def test_a_request_without_a_login_is_not_that_of_the_one_before_it() -> None:
    asking = Asking(Users())
    (_, command) = asking.send(publish(Authorization=basic("ann")) + publish())
    asking.reply(published(command))
    assert asking.statuses == [201, 401] and len(asking.of_broker) == 1


def test_another_user_on_the_same_connection_waits_for_the_answers_to_the_first() -> None:
    asking = Asking(Users())
    ann, bob = publish(Authorization=basic("ann")), publish(b"of bob", Authorization=basic("bob"))
    (_, first) = asking.send(ann + bob + ann)
    assert asking.session.is_full
    asking.reply(published(first))
    identify, second = asking.of_broker[1:]
    assert identify == Identify(7, Principal("bob")) and isinstance(second, PublishAll)
    assert second.sends[0].body == b"of bob" and asking.session.is_full
    asking.reply(published(second))
    assert asking.of_broker[3] == Identify(7, Principal("ann")) and asking.statuses == [201, 201]


def test_what_is_free_of_logins_is_in_nobodys_name() -> None:
    asking = Asking(Users())
    assert asking.send(request() + request("GET", "/nowhere")) == []
    assert asking.statuses == [200, 404] and not asking.session.is_open


def test_nothing_is_carried_out_before_the_login_is_judged() -> None:
    asking = Asking(Users())
    slow = publish(Authorization=basic("slow"))
    assert asking.send(slow + slow) == [] and asking.sent == b""
    assert asking.send(slow) == [] and asking.session.buffered_bytes > 2 * len(slow) - len(basic("slow"))
    commands = asking.verdict()
    assert [type(one) for one in commands] == [Open, PublishAll, PublishAll, PublishAll]
    assert asking.session.pending is None


def test_nothing_behind_a_login_that_was_wrong_is_carried_out() -> None:
    asking = Asking(Users())
    asking.send(publish(Authorization=basic("slow")) + request("DELETE", "/v1/queues/a"))
    assert asking.verdict(Refusal(FORBIDDEN, "The login is wrong.")) == []
    assert asking.statuses == [401] and asking.session.is_closing


def test_who_waits_with_a_body_is_told_when_the_login_is_judged() -> None:
    asking = Asking(Users())
    asking.send(publish(b"hello", Expect="100-continue", Authorization=basic("slow"))[:-5])
    assert asking.sent == b""
    asking.verdict()
    assert asking.statuses == [100]


def test_an_unanswered_request_comes_before_a_login_that_is_wrong() -> None:
    asking = Asking(Users())
    (_, command) = asking.send(publish(Authorization=basic("ann")) + publish(Authorization=basic("ann", "bob")))
    assert asking.sent == b""
    asking.reply(published(command))
    assert asking.statuses == [201, 401] and asking.session.is_closing


def test_no_more_than_a_head_is_held_of_a_stranger() -> None:
    asking = Asking(Users())
    for _ in range(HTTP_HEAD_BYTES // 1024 - 1):
        asking.send(b"GET / HTTP/1.1\r\nX: ".ljust(1024, b"x"))
    assert asking.session.buffered_bytes == HTTP_HEAD_BYTES - 1024
    asking.send(b"x" * 1024)
    assert asking.statuses == [431] and asking.session.is_closing and not asking.session.buffered_bytes
    for authorization in (None, "Basic eDp5"):
        asking = Asking(Users())
        asking.send(
            request("POST", PUBLISH, Content_Length="1000000", Authorization=authorization, **TEXT) + b"x" * 9000
        )
        assert asking.statuses == [401] and asking.session.is_closing and not asking.session.buffered_bytes


def test_a_verdict_that_comes_too_late_is_nothing() -> None:
    asking = Asking(Users())
    asking.send(publish(Authorization=basic("slow")))
    asking.reply(Refuse(7, "connections", "Others want its place."))
    assert asking.statuses == [503]
    assert asking.session.answered(Principal("slow")) == [] and asking.session.is_closing


# ---- the way to a WebSocket

UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec_WebSocket_Version": "13",
}


def test_the_client_of_websockets_takes_its_answer_and_stomp_follows_at_once() -> None:
    client = ClientProtocol(parse_uri("ws://localhost:61680/ws"), subprotocols=["v12.stomp"])  # type: ignore[list-item]
    client.send_request(client.connect())
    asking = Asking(principal=Principal("ops"))
    assert asking.send(b"".join(client.data_to_send())) == []
    client.receive_data(asking.sent)
    assert client.handshake_exc is None and client.subprotocol == "v12.stomp"
    client.send_binary(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    assert asking.send(b"".join(client.data_to_send())) == [Open(7, principal=Principal("ops"))]
    assert asking.session.is_open and b"CONNECTED\n" in asking.sent


def test_stomp_over_a_websocket_says_so() -> None:
    client = ClientProtocol(parse_uri("ws://localhost:61680/ws"))
    client.send_request(client.connect())
    asking = Asking()
    asking.send(b"".join(client.data_to_send()))
    client.receive_data(asking.sent)
    client.send_binary(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:page\n\n\0")
    (opened,) = asking.send(b"".join(client.data_to_send()))
    assert isinstance(opened, Open) and (opened.protocol, opened.client) == ("STOMP 1.2 over WebSocket", "page")


def test_frames_right_behind_the_request_are_read() -> None:
    client = ClientProtocol(parse_uri("ws://localhost:61680/ws"))
    client.send_request(client.connect())
    opening = b"".join(client.data_to_send())
    other = Asking()
    other.send(opening)
    client.receive_data(other.sent)
    client.send_binary(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    asking = Asking()
    assert asking.send(opening + b"".join(client.data_to_send())) == [Open(7)]


def test_a_websocket_needs_a_connection_of_its_own() -> None:
    asking = Asking()
    (_, command) = asking.send(publish() + request("GET", "/ws", **UPGRADE))
    assert asking.session.is_full
    asking.reply(published(command))
    assert asking.statuses == [201, 400] and asking.session.is_closing


def test_an_upgrade_that_nobody_understands_is_no_matter() -> None:
    asking = Asking()
    asking.send(request(Upgrade="h2c", Connection="Upgrade, HTTP2-Settings") + request())
    assert asking.statuses == [200, 200]


# ---- pages of other sites

SHOP = WebSettings(origins=frozenset({"https://shop.example"}))


def test_the_page_of_a_listed_site_may_read_the_answer_and_no_other() -> None:
    asking = Asking(web=SHOP)
    (_, command) = asking.send(publish(Origin="https://shop.example") + request())
    asking.reply(published(command))
    one, two = asking.answers()
    assert one.headers["Access-Control-Allow-Origin"] == "https://shop.example" and one.headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Origin" not in two.headers and two.headers["Vary"] == "Origin"
    assert "Access-Control-Allow-Credentials" not in one.headers


def test_a_browser_that_asks_first_is_answered_without_a_login() -> None:
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type"}
    asking = Asking(Users(), web=SHOP)
    asking.send(request("OPTIONS", PUBLISH, Origin="https://shop.example", **asked))
    (answer,) = asking.answers()
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"
    asking = Asking(Users(), web=SHOP)
    asking.send(request("OPTIONS", PUBLISH, Origin="https://evil.example", **asked))
    assert asking.statuses == [403] and "Access-Control-Allow-Origin" not in asking.answers()[0].headers


def test_no_answer_has_more_lines_than_it_should() -> None:
    asking = Asking(web=SHOP)
    asking.send(request("GET", "/%0d%0aX-Evil:%201"))
    assert len(answers(asking.sent)) == 1 and b"\r\nX-Evil" not in asking.sent


# ---- what takes long -----------------------------------------------------------------------------------------------


def test_so_many_requests_are_begun_before_others_have_their_turn() -> None:
    session = Asking().session
    session.receive(request() * HTTP_REQUESTS_AT_ONCE)
    assert not session.is_costly and len(answers(session.take_outgoing())) == HTTP_REQUESTS_AT_ONCE
    session.receive(request() * (2 * HTTP_REQUESTS_AT_ONCE + 1))
    found = []
    while session.is_costly:
        assert session.has_unread
        found.append(len(answers(session.take_outgoing())))
        session.receive(b"")
    assert [*found, len(answers(session.take_outgoing()))] == [HTTP_REQUESTS_AT_ONCE, HTTP_REQUESTS_AT_ONCE, 1]


@pytest.mark.parametrize("more", [0, 1])
def test_a_long_body_is_read_when_it_is_its_turn(more: int) -> None:
    session = Asking().session
    body = b"x" * (HTTP_BODY_AT_ONCE_BYTES + more)
    wire = request("POST", "/v1/queues/a/messages", body, Content_Type="text/plain")
    commands = session.receive(wire[:-1]) + session.receive(wire[-1:])
    assert session.is_costly == bool(more)
    assert [type(one) for one in commands] == [Open, *([] if more else [PublishAll])]
    if more:
        assert [type(one) for one in session.receive(b"")] == [PublishAll] and not session.is_costly


@pytest.mark.parametrize("more", [0, 1])
def test_so_is_a_batch_which_may_hold_very_many_messages(more: int) -> None:
    session = Asking().session
    body = b'{"messages":[%b]}' % (b'{"body":"x"},' * 30)[:-1]
    body += b" " * (HTTP_BATCH_AT_ONCE_BYTES + more - len(body))
    commands = session.receive(request("POST", "/v1/queues/a/messages", body, Content_Type="application/json"))
    assert session.is_costly == bool(more)
    commands += session.receive(b"")
    (batch,) = (one for one in commands if isinstance(one, PublishAll))
    assert len(batch.sends) == 30 and not session.is_costly


def test_each_long_body_has_a_turn_of_its_own() -> None:
    session = Asking().session
    wire = request("POST", "/v1/queues/a/messages", b"x" * (HTTP_BODY_AT_ONCE_BYTES + 1), Content_Type="text/plain")
    commands = session.receive(wire * 2)
    turns = 0
    while session.is_costly:
        turns += 1
        commands += session.receive(b"")
    assert turns == 2 and len(commands) == 3


def test_behind_the_last_request_nothing_is_costly() -> None:
    session = Asking().session
    session.receive(request(Connection="close") + request() * 99)
    assert not session.is_costly and not session.has_unread and session.is_closing
