"""A session that asks who its client is, and a check that takes as long as a test wants.

`python -m tests.server.checked serve ...` is the command `radiator` with such sessions, and with rights: a principal
may send to `/queue/NAME.` and what follows, where NAME is its own, and nowhere else.

A frame with the header `passcode` waits for its check, CONNECT or any other. The passcode is the path of a FIFO: the
check ends when somebody has written there what comes of it.
"""

import re
import sys
from functools import partial
from pathlib import Path

from radiator.model.administration import AdminCommand
from radiator.model.commands import Command, Fail, Open, Send
from radiator.model.errors import Refusal
from radiator.model.limits import Limits
from radiator.model.principal import ANYONE, Login, Principal, Verdict
from radiator.model.settings import TCP, UNIX
from radiator.protocols.http.context import DEFAULT_CONTEXT, WebContext
from radiator.protocols.schemes import SCHEMES, Scheme
from radiator.protocols.stomp.frame import encode_error
from radiator.protocols.stomp.session import StompSession
from radiator.server import serve
from radiator.tools.cli import main

ASKS = re.compile(rb"^login:(.*)\npasscode:(.*)$", re.MULTILINE)


def found_out(name: str, path: str) -> Principal:
    """What the FIFO says of that name."""
    word = Path(path).read_text()
    if word == "yes":
        return Principal(name)
    if word == "no":
        raise Refusal("login", f"{name} is not recognised.")
    if word == "none":
        return None  # type: ignore[return-value]  # a check that is wrong
    if word == "exit":
        sys.exit(1)
    raise ValueError(f"the passcode {path} is a secret, and no log may have it")


class CheckedSession(StompSession):
    """No frame has a NUL in it: what is behind one is not looked at before it is carried out."""

    def __init__(
        self,
        connection: int,
        session_name: str,
        limits: Limits,
        principal: Principal = ANYONE,
        login: Login | None = None,
        context: WebContext = DEFAULT_CONTEXT,
    ) -> None:
        super().__init__(connection, session_name, limits, principal, login)
        self.unread = b""
        self.asking = b""

    def receive(self, data: bytes) -> list[Open | Command]:
        assert self.pending is None, "a session that waits for a check is not read from"
        self.unread += data
        return self.go_on()

    def answered(self, verdict: Verdict) -> list[Open | Command]:
        self.pending = None
        if isinstance(verdict, Principal):
            self._principal = verdict
            assert verdict.name != "bug", "a bug"
            frame, self.asking = self.asking, b""
            return [*super().receive(frame), *self.go_on()]
        self.unread = self.asking = b""
        if self.is_open:
            return [Fail(self._connection, str(verdict), code=verdict.code)]
        self._outgoing = encode_error(verdict.code, str(verdict), None, None)
        self.is_closing = True
        self.closing_cause = f"refused: {verdict.code}"
        return []

    def go_on(self) -> list[Open | Command]:
        commands: list[Open | Command] = []
        while self.pending is None and b"\0" in self.unread:
            frame, _, self.unread = self.unread.partition(b"\0")
            asks = ASKS.search(frame)
            if asks:
                self.asking = frame + b"\0"
                self.pending = partial(found_out, asks[1].decode(), asks[2].decode())
            else:
                commands += super().receive(frame + b"\0")
        self.buffered_bytes = len(self.asking) + len(self.unread)
        return commands


class OwnQueues:
    """The rights."""

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        if isinstance(command, Send) and not command.destination.startswith(f"/queue/{principal.name}."):
            raise Refusal("forbidden", f"{principal.name} may not send to {command.destination}.")


if __name__ == "__main__":
    SCHEMES["stomp"] = Scheme(TCP, CheckedSession)
    SCHEMES["stomp+unix"] = Scheme(UNIX, CheckedSession)
    serve.rights_of = lambda users, own_uid: OwnQueues()  # type: ignore[assignment, return-value]
    sys.exit(main())
