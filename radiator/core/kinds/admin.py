"""`/admin`: a request to the broker itself (../admin), which only a SEND by itself can be."""

from radiator.core.kinds.kind import Kind
from radiator.core.producer import Producer
from radiator.core.routing.plan import Plan
from radiator.model.addresses import ADMIN
from radiator.model.commands import Send
from radiator.model.errors import Refusal


class AdminKind(Kind):
    """`/admin`. A request is carried out before its SEND is judged as one; no transaction takes it."""

    name = ADMIN.removeprefix("/")

    __slots__ = ()

    def plan(self, plan: Plan, producer: Producer, command: Send, name: str, headers: bytes, due_ms: int) -> None:
        raise Refusal("admin", "A request to /admin cannot be stored as a message.")
