"""One channel: methods and contents in, commands out; replies in, frames out. Pure: no clock, no socket.

    OPEN --channel.close: Disconnect--> ENDING --its RECEIPT--> GONE
      |--a broken rule: Fail----------> ENDING --its Refuse---> CLOSED --close-ok--> GONE
      `--Refuse-----------------------------------------------> CLOSED

While a method of its client is unanswered, or one of its messages waits for room, a channel processes nothing more:
frames that arrive meanwhile are held, in order. So what a client sends takes effect in the order it was sent, whether
or not the client waits for answers.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from radiator.model.administration import AdminCommand
from radiator.model.amqp_limits import AMQP_NAMES_KEPT
from radiator.model.amqp_properties import properties_of, stored_block
from radiator.model.answers import AdminAnswer
from radiator.model.commands import Abort, Administer, Begin, Commit, Disconnect, Fail, Heard, Send
from radiator.model.errors import Violation
from radiator.model.headers import ESCAPING_ALL
from radiator.model.replies import Answered, Deliver, Empty, Ended, Receipt, Refuse, RefusedReceipt, Reply, Returned
from radiator.protocols.amqp import refusals, spec
from radiator.protocols.amqp.addresses import REPLY_TO, destination, names_of
from radiator.protocols.amqp.codec import decode_method, encode_method
from radiator.protocols.amqp.common import CommonToChannels
from radiator.protocols.amqp.copies import with_copies
from radiator.protocols.amqp.delivery_tags import DeliveryTags
from radiator.protocols.amqp.frame import (
    AmqpFrame,
    AmqpMessage,
    BrokenAmqp,
    deliver_pieces,
    encode_ack,
    encode_deliver,
    encode_get_ok,
    encode_nack,
    encode_return,
)
from radiator.protocols.amqp.method_request import MethodRequest
from radiator.protocols.amqp.methods import (
    NAMES,
    NUMBERS,
    BasicCancel,
    BasicGetEmpty,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    Method,
    TxCommitOk,
    TxRollbackOk,
)
from radiator.protocols.amqp.publishing import Publishing, begun, expiration_ms
from radiator.protocols.amqp.sentences import in_words

RPC = b"rpc"  # the receipt of a method whose client waits for the answer: at most one at a time
TRANSACTION = b"tx"
OPEN, ENDING, CLOSED, GONE = range(4)
NACKED = frozenset(("queue-full", "too-large", "blocked", "memory", "disk"))
"""Codes of refusals that concern a single message: it gets a basic.nack, and the channel stays open."""


class Channel:
    """number: of its connection in the broker. wire: the channel number in its frames. takes: what each method does."""

    __slots__ = (
        "_behind_answer", "_confirm_due", "_confirmed", "_connection", "_done", "_failure", "_if_missing",
        "_method", "_publishing", "_sent", "_takes", "confirms", "has_published", "has_transactions", "held",
        "held_bytes", "is_answered", "is_close_asked", "is_in_transaction", "is_last", "is_over", "is_paused",
        "last_queue", "number", "prefetch", "state", "tags", "unacked", "wire",
    )  # fmt: skip

    def __init__(
        self, number: int, wire: int, connection: CommonToChannels, takes: "Mapping[type[Method], Take]"
    ) -> None:
        self.number = number
        self.wire = wire
        self._connection = connection
        self._takes = takes
        self.state = OPEN
        self.is_over = False  # it was closed here, and the broker must be told
        self.is_close_asked = False  # its client has closed it
        self.is_last = False  # its client is closing the connection: it ends once what it holds is done
        self.is_answered = True  # no method is waiting for the broker
        self._done: Callable[[], bytes] = _nothing  # makes the frames of the pending answer
        self._behind_answer = b""  # frames sent after that answer
        self._if_missing: bytes | None = None  # the answer if what it names does not exist; None: the channel closes
        self._method: type[Method] = BasicPublish
        self._failure: BrokenAmqp | None = None
        self.is_paused = False
        self.held: deque[AmqpFrame] | None = None  # None: it has never held one
        self.held_bytes = 0
        self._publishing: Publishing | None = None
        self.has_published = False
        self.confirms = False
        self._sent = 0  # messages published since confirm.select
        self._confirmed = self._confirm_due = 0  # those confirmed on the wire; those that can be
        self.has_transactions = self.is_in_transaction = False
        self.unacked = DeliveryTags()
        self.tags: dict[bytes, bool] = {}  # consumer tags; whether each gets the channel's direct replies
        self.prefetch = 0  # of new consumers; 0: no bound
        self.last_queue = ""  # the queue declared last, which "" stands for

    @property
    def own_queues(self) -> Collection[str]:
        """The latest queue names that the broker generated on this connection."""
        return self._connection.own_queues

    def new_queue_name(self) -> str:
        """Generates a queue name, and remembers it."""
        names, name = self._connection.own_queues, f"amq.gen-{self._connection.new_name()}"
        names[name] = None
        if len(names) > AMQP_NAMES_KEPT:
            del names[next(iter(names))]
        return name

    def new_tag(self) -> str:
        """Generates a consumer tag."""
        return f"amq.ctag-{self._connection.new_name()}"

    def say(self, frames: bytes) -> None:
        """Queues an answer that needs nothing from the broker."""
        self._connection.out.append(frames)

    # ---- frames -----------------------------------------------------------------------------------------------------

    @property
    def content_bytes(self) -> int:
        """The bytes held of a message that is not complete yet."""
        publishing = self._publishing
        return 0 if publishing is None else len(publishing.body) + len(publishing.properties)

    @property
    def must_hold(self) -> bool:
        """Whether a frame that arrives now must be held."""
        return self.is_paused or not self.is_answered or bool(self.held) or self.state == ENDING

    @property
    def can_go_on(self) -> bool:
        """Whether a held frame can be processed or, after the last one, the channel be ended."""
        is_free = self.is_answered and not self.is_paused and self.state != ENDING
        return is_free and (bool(self.held) or self.is_last)

    def hold(self, frame: AmqpFrame) -> None:
        if self.held is None:
            self.held = deque()
        self.held.append(frame)
        self.held_bytes += len(frame.payload) + spec.FRAME_OVERHEAD_BYTES

    def release(self) -> AmqpFrame:
        """Removes the first held frame, and returns it."""
        assert self.held is not None
        frame = self.held.popleft()
        self.held_bytes -= len(frame.payload) + spec.FRAME_OVERHEAD_BYTES
        return frame

    def take(self, frame: AmqpFrame, commands: list[Heard]) -> None:
        """Processes a frame whose turn it is, on an open channel. Raises BrokenAmqp for what ends the connection."""
        assert self.state == OPEN
        try:
            if frame.type == spec.FRAME_METHOD:
                self._take_method(frame.payload, commands)
            elif frame.type == spec.FRAME_HEADER:
                self._take_header(frame.payload, commands)
            else:
                self._take_body(frame.payload, commands)
        except BrokenAmqp as failure:
            if failure.code not in spec.CHANNEL_CODES:
                if frame.type == spec.FRAME_METHOD and failure.method == (0, 0) and self._publishing is None:
                    failure.method = NUMBERS[self._method]
                raise
            self.fail(failure, commands)

    def take_message(self, message: AmqpMessage, commands: list[Heard]) -> bool:
        """Processes a complete message. Returns False, having done nothing, if its frames must be taken one by one: it
        is not its turn, or something is wrong with it, which one of its frames will show.
        """
        if self.state != OPEN or self.must_hold or self._publishing is not None:
            return False
        try:
            publishing = begun(decode_method(message.method))
            self._announce(publishing, message.header)
            self._published(publishing, message.body, commands)
        except BrokenAmqp:
            return False
        self._method = BasicPublish
        return True

    def fail(self, failure: BrokenAmqp, commands: list[Heard]) -> None:
        """Ends the channel because the client broke a rule; it is told so after what is due to it."""
        self._failure = failure.without_trace()
        self.state = ENDING
        self._give_up()
        commands.append(Fail(self.number, str(failure)))

    def _give_up(self) -> None:
        """Forgets the message that is being received."""
        self._connection.forget(self._publishing)
        self._publishing = None

    def _take_method(self, payload: bytes, commands: list[Heard]) -> None:
        if self._publishing is not None:
            raise BrokenAmqp(spec.UNEXPECTED_FRAME, "a method came within the content of a message")
        method = decode_method(payload)
        kind = type(method)
        self._method = kind
        take = self._takes.get(kind)
        if take is None:
            raise BrokenAmqp(spec.COMMAND_INVALID, f"clients do not send {NAMES[kind]} on a channel")
        take(self, method, commands)

    # ---- messages that come -----------------------------------------------------------------------------------------

    def publish(self, arguments: Any, commands: list[Heard]) -> None:
        """Handles basic.publish: the content follows."""
        self._publishing = begun(arguments)

    def _take_header(self, payload: bytes, commands: list[Heard]) -> None:
        publishing = self._publishing
        if publishing is None or publishing.body_bytes >= 0:
            raise BrokenAmqp(spec.UNEXPECTED_FRAME, "a content header came where no method has announced it")
        self._announce(publishing, payload)
        if not publishing.body_bytes:
            self._give_up()
            self._published(publishing, b"", commands)
        else:
            self._connection.count(publishing, len(publishing.properties))

    def _announce(self, publishing: Publishing, header: bytes) -> None:
        publishing.announce(header, self._connection.header_max_bytes, self._connection.body_max_bytes)

    def _take_body(self, payload: bytes, commands: list[Heard]) -> None:
        publishing = self._publishing
        if publishing is None or publishing.body_bytes < 0:
            raise BrokenAmqp(spec.UNEXPECTED_FRAME, "a content body came without its header")
        body = publishing.body
        size = len(body) + len(payload)
        if size < publishing.body_bytes:
            self._connection.count(publishing, len(payload))
            body += payload
        elif size == publishing.body_bytes:
            self._give_up()
            self._published(publishing, bytes(body) + payload if body else payload, commands)
        else:
            sentence = f"a body of {size} bytes came where the header says {publishing.body_bytes}"
            raise BrokenAmqp(spec.FRAME_ERROR, sentence)

    def _published(self, publishing: Publishing, body: bytes, commands: list[Heard]) -> None:
        more_keys: tuple[str, ...] = ()
        try:
            block, properties = stored_block(publishing.properties)
            if properties.table is not None and b"CC" in properties.table:
                more_keys, data = with_copies(properties)
                block, properties = stored_block(data)
        except BrokenAmqp:
            raise
        except Violation as broken:
            raise BrokenAmqp(spec.SYNTAX_ERROR, str(broken)) from None
        user = self._connection.user
        if properties.user_id is not None and properties.user_id != user:
            sentence = f"user_id is {properties.user_id!r:.80}, but the user of this connection is {user!r:.80}"
            raise BrokenAmqp(spec.PRECONDITION_FAILED, sentence)
        is_asking = properties.reply_to == REPLY_TO
        if is_asking and True not in self.tags.values():
            raise BrokenAmqp(spec.PRECONDITION_FAILED, "fast reply consumer does not exist")
        expires_in_ms = expiration_ms(properties)  # after this nothing can be wrong with the message
        receipt = None
        self.has_published = True
        if self.confirms:
            self._sent += 1
            receipt = b"%d" % self._sent
        commands.append(
            Send(
                self.number,
                destination(publishing.exchange, publishing.key),
                block,
                ESCAPING_ALL,
                body,
                receipt,
                self.transaction(commands),
                expiration_ms=expires_in_ms,
                reply_to=REPLY_TO if is_asking else None,
                mandatory=publishing.mandatory,
                survives_refusal=self.confirms,
                returns=publishing.mandatory,
                more_keys=more_keys,
            )
        )

    # ---- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, commands: list[Heard]) -> bytes | None:
        """Returns the next command's transaction, or None. The first command begins it: an empty one has no age."""
        if not self.has_transactions:
            return None
        if not self.is_in_transaction:
            self.is_in_transaction = True
            commands.append(Begin(self.number, TRANSACTION))
        return TRANSACTION

    def end_transaction(self, is_commit: bool, commands: list[Heard]) -> None:
        """Handles tx.commit or tx.rollback."""
        if not self.has_transactions:
            raise BrokenAmqp(spec.PRECONDITION_FAILED, "channel is not transactional: tx.select comes first")
        self.transaction(commands)
        self.is_in_transaction = False
        commands.append((Commit if is_commit else Abort)(self.number, TRANSACTION, RPC))
        ends = self.unacked.committed if is_commit else self.unacked.rolled_back
        ok = encode_method(self.wire, TxCommitOk() if is_commit else TxRollbackOk())

        def done() -> bytes:
            ends()
            return ok

        self.wait_for(done)

    # ---- requests ---------------------------------------------------------------------------------------------------

    def wait_for(self, done: Callable[[], bytes]) -> None:
        """Holds further frames until the broker has answered this method; `done` then makes the answer's frames."""
        self.is_answered = False
        self._done = done

    def wait_for_receipt(self, ok: bytes) -> None:
        """Like `wait_for`, but the answer is always these frames."""
        self.wait_for(lambda: ok)

    def ask(
        self,
        command: AdminCommand,
        done: Callable[[AdminAnswer], bytes],
        commands: list[Heard],
        if_missing: bytes | None = None,
    ) -> None:
        """Makes a request of the administration. if_missing: the frames of the answer if what it names does not exist;
        None: the request is then refused.
        """
        self._if_missing = if_missing
        self.wait_for(_nothing)
        commands.append(Administer(self.number, b"", MethodRequest(command, done), ESCAPING_ALL, RPC, is_answered=True))

    def end(self, commands: list[Heard], is_asked: bool = True) -> None:
        """Ends the channel once what was sent before has been carried out and answered. is_asked: by channel.close, so
        that the client waits for close-ok.
        """
        self.state = ENDING
        self.is_close_asked, self.is_last = is_asked, False
        self._give_up()
        commands.append(Disconnect(self.number, RPC))

        def done() -> bytes:
            confirms = self.confirmed()
            self.state = GONE
            return confirms + (encode_method(self.wire, ChannelCloseOk()) if is_asked else b"")

        self.wait_for(done)

    # ---- replies ----------------------------------------------------------------------------------------------------

    def encode(self, reply: Reply) -> bytes:
        """Returns the frames of a reply. Replies after the client was told that the channel is closed have none."""
        if type(reply) is Receipt:
            return self._received(reply.receipt)
        if self.state >= CLOSED:
            return b""
        encode = _REPLIES.get(type(reply))
        return b"" if encode is None else encode(self, reply)

    def _received(self, receipt: bytes) -> bytes:
        if receipt == RPC:
            return self._answer()
        self._confirm_due = int(receipt)
        return b""

    def _answer(self) -> bytes:
        done, self._done = self._done, _nothing
        self.is_answered = True
        behind, self._behind_answer = self._behind_answer, b""
        return done() + behind

    @property
    def has_confirms(self) -> bool:
        """Whether `confirmed` has something to send."""
        return self._confirm_due > self._confirmed

    def confirmed(self) -> bytes:
        """Returns one basic.ack for all messages stored but not yet confirmed (RabbitMQ, "Publisher Confirms")."""
        due, before = self._confirm_due, self._confirmed
        if due <= before or self.state >= CLOSED:
            return b""
        self._confirmed = due
        return encode_ack(self.wire, due, due - before > 1)

    def _deliver_head(self, reply: Deliver) -> tuple[int, bytes, bytes, bytes]:
        """Returns the delivery's new tag, its exchange and routing key, and its properties."""
        tag = self.unacked.next()
        if reply.ack_due:
            self.unacked.add(tag, reply.message_id)
        exchange, key = names_of(reply.message.destination)
        return tag, exchange, key, properties_of(reply.message.headers, reply.message.escaping)

    def _deliver(self, reply: Deliver) -> bytes:
        tag, exchange, key, properties = self._deliver_head(reply)
        body, frame_max = reply.message.body, self._connection.frame_max
        if reply.left is not None:
            self._answer()
            left, redelivered = reply.left, reply.redelivered
            return encode_get_ok(self.wire, tag, redelivered, exchange, key, left, properties, body, frame_max)
        consumer = reply.subscription or b""
        return encode_deliver(self.wire, consumer, tag, reply.redelivered, exchange, key, properties, body, frame_max)

    def deliver_pieces(self, reply: Deliver) -> Sequence[bytes | memoryview]:
        """Returns the frames of a delivery in pieces, so that a large body is not copied."""
        if self.state >= CLOSED:
            return (b"",)
        if reply.left is not None:
            return (self._deliver(reply),)
        tag, exchange, key, properties = self._deliver_head(reply)
        consumer, body = reply.subscription or b"", reply.message.body
        frame_max = self._connection.frame_max
        return deliver_pieces(self.wire, consumer, tag, reply.redelivered, exchange, key, properties, body, frame_max)

    def _empty(self, reply: Empty) -> bytes:
        self._answer()
        return encode_method(self.wire, BasicGetEmpty(""))

    def _returned(self, reply: Returned) -> bytes:
        exchange, key = names_of(reply.destination)
        properties = properties_of(reply.headers, reply.escaping)
        return encode_return(
            self.wire, spec.NO_ROUTE, b"NO_ROUTE", exchange, key, properties, reply.body, self._connection.frame_max
        )

    def _ended(self, reply: Ended) -> bytes:
        self.tags.pop(reply.subscription, None)
        if not self._connection.can_cancel:
            return b""
        cancel = encode_method(self.wire, BasicCancel(reply.subscription.decode(), True))
        if self.is_answered:
            return cancel
        self._behind_answer += cancel  # usually this channel itself is deleting the queue
        return b""

    def _answered(self, reply: Answered) -> bytes:
        if not reply.code or (reply.code == "no-such-destination" and self._if_missing is not None):
            behind = self._answer()
            frames = b"".join([reply.body, *reply.more]) if not reply.code else self._if_missing or b""
            return frames + behind
        return self._close(reply.code, reply.body.decode("utf-8", "replace"), self._method)

    def _refused_receipt(self, reply: RefusedReceipt) -> bytes:
        """Answers a refused message that was published with a confirm: by basic.nack, or by closing the channel."""
        if reply.code not in NACKED:
            return self._close(reply.code, in_words(reply.sentence, reply.grounds), BasicPublish)
        acks = self.confirmed()
        self._confirmed = self._confirm_due = int(reply.receipt)
        return acks + encode_nack(self.wire, self._confirmed, False)

    def _close(self, code: str, sentence: str, method: type[Method]) -> bytes:
        """Tells the client that the channel is closed. The refusal left the channel's connection in the broker open: a
        Closed must end it. sentence: in the words of AMQP. method: what was refused.
        """
        self.is_over = True
        return self.confirmed() + self._close_frame(refusals.reply_code(code), sentence, NUMBERS[method])

    def _refused(self, reply: Refuse) -> bytes:
        failure = self._failure
        if failure is not None:
            return self.confirmed() + self._close_frame(failure.code, str(failure), NUMBERS[self._method])
        code, sentence = refusals.reply_code(reply.code), in_words(reply.sentence, reply.grounds)
        # a method that waits for its answer may have come after the refused message, which has no receipt
        method = NUMBERS[self._method] if reply.receipt == RPC else refusals.number_of(reply.command)
        return self.confirmed() + self._close_frame(code, sentence, method)

    def _close_frame(self, code: int, sentence: str, method: tuple[int, int]) -> bytes:
        self.state = CLOSED
        self.is_answered, self.is_last = True, False
        self._done = _nothing
        self._give_up()
        close = encode_method(self.wire, ChannelClose(code, refusals.reply_text(code, sentence), *method))
        # a client that has closed the channel meanwhile waits for close-ok, whatever else arrives
        return close + encode_method(self.wire, ChannelCloseOk()) if self.is_close_asked else close


def _nothing() -> bytes:
    return b""


Take = Callable[[Channel, Any, list[Heard]], None]

_REPLIES: dict[type, Callable[[Channel, Any], bytes]] = {
    Deliver: Channel._deliver,
    Empty: Channel._empty,
    Returned: Channel._returned,
    Ended: Channel._ended,
    Answered: Channel._answered,
    RefusedReceipt: Channel._refused_receipt,
    Refuse: Channel._refused,
}
