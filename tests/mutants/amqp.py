"""AMQP: what a channel holds, what its end leaves due, and what ends a connection."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "close-beside-a-refusal-unanswered",
        "A channel.close that meets a refusal of the broker gets no close-ok.",
        function="Channel._close_frame",
        old="return close + encode_method(self.wire, ChannelCloseOk()) if self.is_close_asked else close",
        new="return close",
    ),
    Mutant(
        "close-overtakes",
        "A connection.close ends channels before what they hold is carried out.",
        function="AmqpSession._close",
        old="if channel.must_hold:",
        new="if False:",
    ),
    Mutant(
        "confirms-lost-at-close",
        "A message that is stored is not confirmed once its channel is to end.",
        function="Channel.confirmed",
        old="if due <= before or self.state >= CLOSED:",
        new="if due <= before or self.state != OPEN:",
    ),
    Mutant(
        "full-for-ever",
        "A session that holds much is full though it can go on.",
        function="AmqpSession.is_full",
        old="""
            if self.has_unread:
                return False
        """,
        new="",
    ),
    Mutant(
        "unanswered-methods-overtaken",
        "A channel takes frames while a method of its client is not answered.",
        function="Channel.must_hold",
        old="return self.is_paused or not self.is_answered or bool(self.held) or self.state == ENDING",
        new="return self.is_paused or bool(self.held) or self.state == ENDING",
    ),
)
