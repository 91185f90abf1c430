"""Finds which kind of address a SEND is to, and what it would do there."""

from radiator.core.connections import Connection
from radiator.core.kinds.table import Kinds
from radiator.core.producer import Producer
from radiator.core.routing.incoming import Incoming
from radiator.core.routing.plan import Plan
from radiator.model.addresses import split
from radiator.model.commands import Send
from radiator.model.errors import Refusal
from radiator.model.more_keys import addresses_of


class Router:
    """kinds: all of the table, by name."""

    __slots__ = ("incoming", "kinds")

    def __init__(self, incoming: Incoming, kinds: Kinds) -> None:
        self.incoming = incoming
        self.kinds = kinds

    def plan(self, producer: Producer, command: Send, plan: Plan) -> Plan:
        """Adds to the plan what this SEND would do. Those of a transaction make one plan. Raises Refusal for a
        destination that does not exist, or cannot take it.
        """
        kind_name, name = split(command.destination)
        kind, due_ms = self.kinds[kind_name], 0
        if command.delay_ms is not None or command.deliver_at_ms is not None:
            if not kind.can_delay(name):
                raise Refusal(
                    "no-delay",
                    f"{command.destination} keeps nothing back: `delay` and `deliver-at` are for queues, exchanges, "
                    "and fanouts of one node.",
                )
            due_ms = self.incoming.due_ms(command)
        if command.more_keys:
            addresses_of(command)  # raises Refusal where they would have no meaning, or are too many
        headers = command.headers
        if command.reply_to is not None:
            assert isinstance(producer, Connection), "what asks for a reply is not prepared"
            headers = self.incoming.with_reply_to(producer, command, command.reply_to)
        kind.plan(plan, producer, command, name, headers, due_ms)
        return plan
