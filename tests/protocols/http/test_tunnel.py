"""What a session over HTTP asks of its carrier, with which receipt, and in whose name."""

from radiator.model.principal import ANYONE, Principal
from radiator.model.replies import Answered, RefusedReceipt
from radiator.protocols.http.tunnel import CloseTunnel, OpenTunnel, PollBytes, SendBytes, TunnelRequest
from tests.protocols.http.asking import Asking, Users, request
from tests.server.web import basic


class Carrier:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bytes, Principal, TunnelRequest]] = []

    def ask(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        self.asked.append((connection, receipt, principal, request))


def test_each_request_is_asked_for_and_answered_later() -> None:
    carrier = Carrier()
    asking = Asking(tunnels=carrier)
    asking.send(request("POST", "/v1/stomp"))
    assert carrier.asked == [(7, b"1", ANYONE, OpenTunnel())] and not asking.sent
    asking.reply(Answered(7, b"1", b"NAME"))
    asking.send(request("POST", "/v1/stomp/NAME/send?at=5", b"\n"))
    asking.reply(Answered(7, b"2", b"6"))
    asking.send(request("POST", "/v1/stomp/NAME/poll?from=3&wait_ms=60000"))
    asking.reply(Answered(7, b"3", b"\n"))
    asking.send(request("DELETE", "/v1/stomp/NAME"))
    asking.reply(Answered(7, b"4", b""))
    assert [one for *_, one in carrier.asked[1:]] == [
        SendBytes("NAME", 5, b"\n"),
        PollBytes("NAME", 3, 60_000),
        CloseTunnel("NAME"),
    ]
    assert asking.statuses == [201, 200, 200, 204]
    assert [one.body for one in asking.answers()] == [b'{"session":"NAME"}\n', b'{"at":6}\n', b"\n", b""]


def test_what_the_carrier_refuses_is_a_problem() -> None:
    asking = Asking(tunnels=Carrier())
    asking.send(request("POST", "/v1/stomp/NAME/poll?from=3"))
    asking.reply(RefusedReceipt(7, b"1", "session-over", "It is over."))
    (answer,) = asking.answers()
    assert answer.status == 410 and b'"code": "session-over", "detail": "It is over."' in answer.body


def test_a_poll_is_alone_on_its_connection() -> None:
    carrier = Carrier()
    asking = Asking(tunnels=carrier)
    asking.send(request("POST", "/v1/stomp/NAME/poll?from=0"), request("GET", "/healthz"))
    assert asking.session.is_full and not asking.sent
    asking.reply(Answered(7, b"1", b""))
    assert asking.statuses == [204, 200]


def test_it_is_asked_in_the_name_of_who_has_made_the_request() -> None:
    carrier = Carrier()
    asking = Asking(Users(), tunnels=carrier)
    asking.send(request("POST", "/v1/stomp"))
    assert asking.statuses == [401] and not carrier.asked
    asking = Asking(Users(), tunnels=carrier)
    asking.send(request("POST", "/v1/stomp", Authorization=basic("ann", "ann")))
    assert [who for _, _, who, _ in carrier.asked] == [Principal("ann")]
