"""Users, their cookies, and browsers that have them, without a broker: the real parts, with a clock of the test."""

import json
from typing import Any

import gevent

from radiator.auth.authenticator import Authenticator
from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.replies import Refuse
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import DEFAULT_WEB, WebSettings
from radiator.model.users import Token, User
from radiator.protocols.http.server_state import ServerState
from radiator.protocols.http.tunnel import TunnelRequest
from radiator.server.checks import _run
from radiator.server.cookies import ServerCookies
from radiator.server.timetable import Timetable
from tests.protocols.http.asking import Answer, Asking, request

TOKEN = text_of(bytes(32))
ANN = User(name="ann", password=str(made(b"right", bytes(16), Cost(ln=10))), rules=Rules(role=OPERATOR))
CI = User(name="ci", tokens=(Token(sha256_of(TOKEN.encode()), 9_000),), rules=Rules(see=("/queue/a",)))
CERT = User(name="cert", certificate="CN=cert")
OF_ANN = Principal("ann", RecognisedBy.PASSWORD)
OF_CI = Principal("ci", RecognisedBy.TOKEN, until_ms=9_000, proof=CI.tokens[0].sha256)
PASSWORD = {"user": "ann", "password": "right"}
JSON = {"Content_Type": "application/json"}
PUBLISH = "/v1/queues/a/messages"


class NoTunnels:
    """Takes what is asked of sessions of STOMP over HTTP; nothing comes of it."""

    def ask(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        """As the contract has it."""


class Browsers:
    """One broker's users and cookies. failed: the logins that were refused; ended: connections that a cookie ended."""

    def __init__(self, *users: User) -> None:
        self.now_s, self.now_ms = 100.0, 1_000
        self.failed: list[tuple[str, str, str]] = []
        self.ended: list[Refuse] = []
        self.users = {one.name: one for one in users or (ANN, CI, CERT)}
        loop = gevent.get_hub().loop
        self.all = Authenticator(
            self.users, bytes(32), 4711, lambda: self.now_s, lambda: self.now_ms, lambda *one: self.failed.append(one)
        )
        self.cookies = ServerCookies(loop, Timetable(loop), self.all, self.ended.append)

    def connect(
        self, principal: Principal = ANYONE, is_encrypted: bool = False, web: WebSettings = DEFAULT_WEB
    ) -> Asking:
        login = self.all.login("10.0.0.1:5", "10.0.0.1")
        return Asking(
            login,
            web=web,
            principal=principal,
            tunnels=NoTunnels(),
            state=ServerState(node="n1"),
            cookies=self.cookies,
            is_encrypted=is_encrypted,
        )

    def log_in(self, asking: Asking | None = None, given: object = PASSWORD, **headers: str | None) -> Answer:
        """The answer to it, once it is judged."""
        asking = asking or self.connect()
        asking.send(logging_in(given, **headers))
        if asking.session.pending is not None:
            asking.verdict(verdict_of(asking))
        return asking.answers()[-1]

    def cookie(self, asking: Asking | None = None, given: object = PASSWORD, **headers: str | None) -> str:
        """NAME=VALUE of a login that is right."""
        answer = self.log_in(asking, given, **headers)
        assert answer.status == 200, answer
        return answer.headers["Set-Cookie"].partition(";")[0]

    def identity(self, cookie: str | None = None, **headers: str | None) -> dict[str, Any]:
        """Who a browser is that has it, on a connection of its own."""
        asking = self.connect()
        asking.send(request("GET", "/v1/session", Cookie=cookie, **headers))
        (answer,) = asking.answers()
        found: dict[str, Any] = json.loads(answer.body)
        return found


def logging_in(given: object = PASSWORD, **headers: str | None) -> bytes:
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    return request("POST", "/v1/session", body, **{**JSON, **headers})


def verdict_of(asking: Asking) -> Any:
    """As the thread of checks has it."""
    check = asking.session.pending
    assert check is not None
    return _run(check)[0]
