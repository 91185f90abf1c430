"""AMQP: what a channel holds, what its end leaves due, what an ack names, and what ends a connection."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "amqp-acks-when-delivered",
        "What a consumer of AMQP gets counts as acked, whatever it has asked for.",
        function="_basic_consume",
        old="""
            AUTO if arguments.no_ack else CLIENT_INDIVIDUAL,
            None if arguments.no_ack else channel.prefetch or PREFETCH_COUNT_MAX,
        """,
        new="""
            AUTO,
            None,
        """,
        also=(
            Edit(function="_basic_consume", old="shares_window=not arguments.no_ack,", new="shares_window=False,"),
            Edit(
                function="_settled",
                old='raise BrokenAmqp(spec.PRECONDITION_FAILED, f"unknown delivery tag {tag}")',
                new="return ()",
            ),
        ),
    ),
    Mutant(
        "body-over-its-size-taken",
        "The body of a message may have more bytes than its header has said.",
        function="Channel._take_body",
        old="elif size == publishing.body_bytes:",
        new="elif size >= publishing.body_bytes:",
    ),
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
        "frame-end-not-awaited",
        "A frame that has come but for its last byte is taken for whole.",
        function="FrameParser.frames",
        old="if end >= size:",
        new="if end > size:",
    ),
    Mutant(
        "full-for-ever",
        "A session that holds much is full though it can go on.",
        function="AmqpSession.is_full",
        old="return self._busy.held_bytes > AMQP_HELD_BYTES and not self.has_unread",
        new="return self._busy.held_bytes > AMQP_HELD_BYTES",
    ),
    Mutant(
        "heard-behind-the-end",
        "What is broken behind the end of a connection is answered.",
        function="AmqpSession.receive",
        old="""
            if self._state != _ENDED:  # else it has come behind the end
                self._fail(failure, commands)
        """,
        new="self._fail(failure, commands)",
    ),
    Mutant(
        "last-words-overtaken",
        "What a connection says at its end overtakes what its channels have said.",
        function="AmqpSession._say",
        old="""
            self._outgoing += self._shared.out
            self._shared.out.clear()
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
        "owned-queue-of-everybody",
        "Other connections may use an exclusive queue.",
        function="OwnedQueues.check",
        old="if owner is not None and (user is None or user.owner != owner):",
        new="if owner is not None and user is None:",
    ),
    Mutant(
        "return-after-the-confirm",
        "What no queue takes is confirmed before it comes back.",
        function="AmqpSession._encode",
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
                    if self._confirming:
                        self._outgoing += [channel.confirmed() for channel in self._confirming.values()]
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
        "table-of-any-depth",
        "Tables and arrays may stand within each other as deep as a client likes.",
        function="_Walk._long",
        old="if depth == 1:",
        new="if depth == -10_000:",
    ),
    Mutant(
        "table-of-any-size",
        "A table may have as many fields as a client likes.",
        function="_Walk._count",
        old="if self._fields > TABLE_FIELDS_MAX:",
        new="if False:",
    ),
    Mutant(
        "tag-of-another-channel",
        "An ack takes a tag that this channel does not have for that of another.",
        function="DeliveryTags.add",
        old="self._ids[tag] = message_id",
        new="""
            self._ids[tag] = message_id
            globals().setdefault("_everybody", {})[tag] = message_id
        """,
        also=(
            Edit(
                function="DeliveryTags.named_by",
                old="message_id = ids.get(tag)",
                new='message_id = ids.get(tag) or globals().get("_everybody", {}).get(tag)',
            ),
            Edit(function="DeliveryTags.settled", old="del self._ids[tag]", new="self._ids.pop(tag, None)"),
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
