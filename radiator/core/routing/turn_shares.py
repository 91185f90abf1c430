"""Shares turns between large COMMITs and batches of HTTP: a COMMIT of 16,000 messages takes some 30 ms, and others are
answered before the next.
"""

from radiator.core.connections import Connection
from radiator.core.routing.waiting import WaitList
from radiator.core.turn import TurnContext
from radiator.model.limits import COMMANDS_PER_TURN, COMMITTED_PER_TURN


class TurnShares:
    """wait_list: of connections whose COMMIT or batch no turn has had time for; its first is tried again in each turn.
    turn, messages: the last turn with one of these, and how many messages they have sent and settled in it.
    """

    __slots__ = ("context", "messages", "turn", "wait_list")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.wait_list = WaitList("turn", is_timed=False, is_brief=True)
        self.turn = self.messages = 0

    def wait_for(self, connection: Connection, messages: int) -> WaitList | None:
        """Returns what a COMMIT or batch that sends and settles that many messages must wait for; None: it is counted.
        One that has waited for room goes in any case, since it would lose its place in the line for that room. So does
        a small one: as many of them as a turn may have commands fit into it.
        """
        if self.turn != self.context.turn_number:
            self.turn, self.messages = self.context.turn_number, 0
        waiters = self.wait_list.waiters
        is_small = messages * COMMANDS_PER_TURN <= COMMITTED_PER_TURN
        if not is_small and (connection.waits_for is None or connection.waits_for is self.wait_list):
            is_behind_others = bool(waiters) and waiters[0] is not connection
            if is_behind_others or (self.messages and self.messages + messages > COMMITTED_PER_TURN):
                return self.wait_list
        self.messages += messages
        return None

    @property
    def is_turn_full(self) -> bool:
        """Whether COMMITs and batches have taken all the time of this turn."""
        return self.turn == self.context.turn_number and self.messages >= COMMITTED_PER_TURN
