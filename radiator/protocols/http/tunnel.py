"""STOMP over HTTP: what is asked of its sessions, and of whom.

A session has two streams of bytes, what its client sends and what it is sent, and each request says from which byte on.
So one whose answer was lost is made again: nothing is missed, and nothing comes twice.
"""

from dataclasses import dataclass
from typing import Protocol

from radiator.model.principal import Principal


@dataclass(slots=True, frozen=True)
class OpenTunnel:
    """Opens a session. Answered with its name, which nobody can guess."""


@dataclass(slots=True, frozen=True)
class SendBytes:
    """The client's stream from byte `start` on. Answered with how many bytes of it the session has taken in all."""

    name: str
    start: int
    data: bytes


@dataclass(slots=True, frozen=True)
class PollBytes:
    """Asks for the session's stream from byte `start` on, and for nothing before it again. Answered once there is
    something, or with b"" after wait_ms.
    """

    name: str
    start: int
    wait_ms: int


@dataclass(slots=True, frozen=True)
class CloseTunnel:
    """The client hangs up."""

    name: str


TunnelRequest = OpenTunnel | SendBytes | PollBytes | CloseTunnel


class Tunnels(Protocol):
    """What carries sessions over HTTP."""

    def ask(self, connection: int, receipt: bytes, principal: Principal, request: TunnelRequest) -> None:
        """In the name of that principal, whose alone a session is. Later the connection gets an Answered, or a
        RefusedReceipt, with that receipt.
        """
