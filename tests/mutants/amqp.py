"""AMQP: what a channel holds, what its end leaves due, what an ack names, and what ends a connection."""

from tests.mutants import Edit, Mutant

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
        "confirmed-before-commit",
        "A message is confirmed as soon as it has come.",
        function="Channel._published",
        old="""
            receipt = b"%d" % self._sent
        """,
        new="""
            receipt = b"%d" % self._sent
            self._confirmed = self._confirm_due = self._sent
            self._connection.out.append(encode_ack(self.wire, self._sent, False))
        """,
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
        "multiple-ack-past-the-tag",
        "An ack of many acks the delivery behind its tag too.",
        function="DeliveryTags.named_by",
        old="if one > tag:",
        new="if one > tag + 1:",
    ),
    Mutant(
        "return-after-the-confirm",
        "What no queue takes is confirmed before it comes back.",
        function="AmqpSession.encode",
        old='frames = b"" if kind is Bye else channel.encode(reply)',
        new="""
            frames = b"" if kind is Bye else channel.encode(reply)
            if kind.__name__ == "Returned":
                self._shared.out.append(frames)
                return b""
        """,
        also=(
            Edit(
                function="AmqpSession.take_outgoing",
                old="""
                    if self._shared.out:
                        self._outgoing += self._shared.out
                        self._shared.out.clear()
                    for channel in self._confirming.values():
                        self._outgoing.append(channel.confirmed())
                    self._confirming.clear()
                """,
                new="""
                    for channel in self._confirming.values():
                        self._outgoing.append(channel.confirmed())
                    self._confirming.clear()
                    self._outgoing += self._shared.out
                    self._shared.out.clear()
                """,
            ),
        ),
    ),
    Mutant(
        "unanswered-methods-overtaken",
        "A channel takes frames while a method of its client is not answered.",
        function="Channel.must_hold",
        old="return self.is_paused or not self.is_answered or bool(self.held) or self.state == ENDING",
        new="return self.is_paused or bool(self.held) or self.state == ENDING",
    ),
)
