"""STOMP over HTTP: the requests to its sessions, and the contract of what carries them out.

A session has two streams of bytes: what its client sends, and what it is sent. Each request names the byte that it
begins at, so a request whose answer was lost is made again, and nothing is missed or read twice.
"""

from dataclasses import dataclass
from typing import Protocol

from radiator.model.principal import Principal


@dataclass(slots=True, frozen=True)
class OpenTunnel:
    """Opens a session. The answer is its unguessable name."""


@dataclass(slots=True, frozen=True)
class SendBytes:
    """Sends the client's stream from byte `start` on. The answer is how many bytes of that stream the session has taken
    in all.
    """

    name: str
    start: int
    data: bytes


@dataclass(slots=True, frozen=True)
class PollBytes:
    """Asks for the session's stream from byte `start` on; the bytes before it are dropped. The answer comes once there
    are bytes, or is b"" after wait_ms.
    """

    name: str
    start: int
    wait_ms: int


@dataclass(slots=True, frozen=True)
class CloseTunnel:
    """Closes the session, as a client that hangs up does."""

    name: str


TunnelRequest = OpenTunnel | SendBytes | PollBytes | CloseTunnel


class Tunnels(Protocol):
    """Carries out requests to sessions of STOMP over HTTP."""

    def ask(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        """Makes a request in the name of that principal: nobody else may use the session. Later the connection gets an
        Answered, or a RefusedReceipt, with that receipt.
        """
