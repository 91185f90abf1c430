"""Makes the calls that a program may ask of a broker, as steps of a channel: for threads and for tasks alike.

`client.py` and `aio.py` document what each call promises; this file implements them.
"""

import json
import os
from contextlib import suppress
from typing import Any

from radiator.client import arguments
from radiator.client.channel import POLL, REPLIES, Channel, Reply, Steps, Wait
from radiator.client.errors import NoAnswer, TransactionLost
from radiator.client.inbox import Callback
from radiator.client.outstanding import Loss, Say, Subscription
from radiator.model.errors import RadiatorError, Refusal, Violation
from radiator.protocols.stomp.client import ClientSession, Headers, Message

CLOSED = "it was closed by this program"


class Calls:
    """channel: on which the frames are sent. dedup: whether each SEND gets a `dedup-id` of its own."""

    def __init__(self, channel: Channel, dedup: bool) -> None:
        self._channel = channel
        self._dedup_prefix = f"{os.urandom(9).hex()}-" if dedup else ""
        self._transactions: dict[str, int] = {}  # the number of the connection that each was begun on

    # ---- sending

    def send(
        self, destination: str, body: bytes | str, headers: Headers, transaction: str | None, confirm: bool | None
    ) -> Steps[bool]:
        """SEND."""
        arguments.text("destination", destination)
        arguments.confirming(confirm)
        octets = arguments.octets(body)
        kept = arguments.pairs(headers)
        channel = self._channel
        dedup_id: str | None = None
        if self._dedup_prefix and not any(name == "dedup-id" for name, _ in kept):
            dedup_id = channel.next_name(self._dedup_prefix)

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.send(
                destination, octets, receipt=receipt, transaction=transaction, dedup_id=dedup_id, headers=kept
            )

        if transaction is None:
            return channel.ask(say, Loss.AGAIN, confirm, None, dedup_id is not None)
        return self._ask_within(transaction, say, Loss.DROPPED, confirm)

    # ---- receiving

    def subscribe(
        self,
        destination: str,
        subscription: str | None,
        ack: str,
        headers: Headers,
        prefetch: int | None,
        durable: bool,
        callback: Callback | None = None,
        consumer_name: str | None = None,
    ) -> Steps[str]:
        """SUBSCRIBE; the subscription's id."""
        arguments.text("destination", destination)
        arguments.text_or_none("subscription", subscription)
        if prefetch is not None:
            arguments.whole("prefetch", prefetch, 1)
        arguments.text_or_none("consumer_name", consumer_name)
        if callback is not None and not callable(callback):
            raise TypeError(f"callback {callback!r:.80} cannot be called.")
        if durable and subscription is None:
            raise Violation("A durable subscription needs an id that is the same each time: `subscription`.")
        kept = arguments.pairs(headers)
        kept += [("prefetch-count", str(prefetch))] if prefetch is not None else []
        kept += [("durable", "true"), ("auto-delete", "false")] if durable else []
        kept += [("consumer-name", consumer_name)] if consumer_name is not None else []
        channel = self._channel
        name = channel.next_name("s") if subscription is None else subscription
        if name in channel.subscriptions:
            raise Violation(f"The subscription {name!r} exists already: each must have an id of its own.")
        wanted = channel.subscriptions[name] = Subscription(name, destination, ack, kept)
        if callback is not None:
            channel.inbox.callbacks[name] = callback
        try:
            yield from channel.ask(wanted.say, Loss.REPLAYED, True)
            wanted.is_known = True
        except NoAnswer:
            wanted.is_known = True
            raise
        except RadiatorError:
            channel.subscriptions.pop(name, None)
            channel.inbox.callbacks.pop(name, None)
            raise
        return name

    def unsubscribe(self, subscription: str, forget: bool, destination: str | None) -> Steps[None]:
        """UNSUBSCRIBE."""
        arguments.text("subscription", subscription)
        arguments.text_or_none("destination", destination)
        channel = self._channel
        known = channel.subscriptions.get(subscription)
        where = known.destination if known is not None and destination is None else destination
        if known is None and not (forget and where is not None):
            raise Violation(f"There is no subscription {subscription!r} to end.")

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.unsubscribe(subscription, receipt=receipt, forget=where if forget else None)

        number = (yield from channel.up()).number
        channel.subscriptions.pop(subscription, None)
        if forget:
            yield from channel.ask(say, Loss.AGAIN, True)
        else:
            yield from channel.ask(say, Loss.DROPPED, True, number)
        channel.inbox.callbacks.pop(subscription, None)

    def coming(self, subscription: str | None, timeout_s: float | None) -> Steps[bool]:
        """Waits until there is something to receive, or the inbox is full. Raises NoAnswer if it is full already."""
        inbox = self._channel.inbox
        if inbox.has(subscription):
            return True
        if inbox.is_full:
            raise NoAnswer(
                f"No message of subscription {subscription!r} can arrive: unreceived messages of other subscriptions "
                "fill received_max_bytes. Receive those first, or give each subscription a Client of its own."
            )
        return (yield Wait(lambda: inbox.has(subscription) or inbox.is_full, timeout_s))

    def ack(self, message: Message, transaction: str | None, confirm: bool | None) -> Steps[bool]:
        """ACK."""

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.ack(message, receipt=receipt, transaction=transaction)

        return self._settle(message, say, transaction, confirm)

    def nack(
        self, message: Message, transaction: str | None, requeue: bool, delay_ms: int | None, confirm: bool | None
    ) -> Steps[bool]:
        """NACK."""
        if delay_ms is not None:
            arguments.whole("delay_ms", delay_ms, 0)

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.nack(message, receipt=receipt, transaction=transaction, requeue=requeue, delay_ms=delay_ms)

        return self._settle(message, say, transaction, confirm)

    def _settle(self, message: Message, say: Say, transaction: str | None, confirm: bool | None) -> Steps[bool]:
        arguments.message(message)
        arguments.confirming(confirm)
        if transaction is None:
            return self._channel.ask(say, Loss.DROPPED, confirm, message.connection)
        return self._settle_within(transaction, message, say, confirm)

    def _settle_within(self, transaction: str, message: Message, say: Say, confirm: bool | None) -> Steps[bool]:
        if (yield from self._channel.up()).number != message.connection:
            raise TransactionLost(
                f"The message {message.message_id} came on a connection that is lost, and comes again: the "
                f"transaction {transaction} cannot have it."
            )
        return (yield from self._ask_within(transaction, say, Loss.DROPPED, confirm))

    # ---- transactions

    def begin(self, name: str) -> Steps[str]:
        """BEGIN."""
        channel = self._channel
        yield POLL
        connection = yield from channel.up()
        frame = connection.session.begin(name)
        self._transactions[name] = connection.number
        yield from channel.say(connection, frame)
        return name

    def name_of(self, transaction: str | None) -> str:
        """Returns the given name, or a new one."""
        arguments.text_or_none("transaction", transaction)
        return self._channel.next_name("t") if transaction is None else transaction

    def has(self, transaction: str) -> bool:
        """Whether it was begun by this client and has not ended."""
        return transaction in self._transactions

    def commit(self, transaction: str, prepare: str | None) -> Steps[None]:
        """COMMIT."""
        arguments.text("transaction", transaction)
        arguments.text_or_none("prepare", prepare)

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.commit(transaction, receipt=receipt, prepare=prepare)

        try:
            yield POLL
            yield from self._ask_within(transaction, say, Loss.UNKNOWN, True)
        finally:
            self._transactions.pop(transaction, None)

    def abort(self, transaction: str) -> Steps[None]:
        """ABORT."""
        arguments.text("transaction", transaction)

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.abort(transaction, receipt=receipt)

        with suppress(TransactionLost):
            try:
                yield from self._ask_within(transaction, say, Loss.DROPPED, True)
            finally:
                self._transactions.pop(transaction, None)

    def _ask_within(self, transaction: str, say: Say, loss: Loss, confirm: bool | None) -> Steps[bool]:
        """Asks within a transaction. If it was never begun, the session raises that."""
        if not (yield from self._channel.ask(say, loss, confirm, self._transactions.get(transaction))):
            raise TransactionLost(
                f"The transaction {transaction} was open on a connection that is lost: nothing of it has happened."
            )
        return True

    # ---- request and reply

    def request(self, destination: str, body: bytes | str, timeout_s: float, headers: Headers) -> Steps[Message]:
        """Sends a SEND with `reply-to`, and returns its reply."""
        arguments.text("destination", destination)
        arguments.seconds("timeout_s", timeout_s)
        octets = arguments.octets(body)
        channel, reply = self._channel, Reply()
        correlation = channel.next_name("q")
        more = [("reply-to", REPLIES), ("correlation-id", correlation), *arguments.pairs(headers)]

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.send(destination, octets, receipt=receipt, headers=more)

        yield POLL
        yield from channel.up()
        channel.replies[correlation] = reply
        try:
            asked = yield from channel.put(say)
            try:
                is_there = yield Wait(lambda: bool(reply.message or reply.error or asked.error), timeout_s, "reply")
            finally:
                asked.is_awaited = False
        finally:
            del channel.replies[correlation]
        if reply.message is not None:
            return reply.message
        if not is_there:
            raise NoAnswer(f"No reply to a request to {destination} came within {timeout_s:g} s.")
        raise asked.error or reply.error or AssertionError("what is done has an answer or an error")

    def admin(self, request: dict[str, Any], timeout_s: float) -> Steps[dict[str, Any]]:
        """Sends a request to `/admin`, and returns its answer."""
        headers = [("content-type", "application/json")]
        reply = yield from self.request("/admin", json.dumps(request), timeout_s, headers)
        try:
            answer = json.loads(reply.body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or "ok" not in answer:
            raise Refusal(
                "version", "The broker's answer cannot be read: is the broker of another version, or not Radiator?"
            )
        if answer["ok"] is not True:
            raise Refusal(str(answer.get("code", "")), str(answer.get("error", "The broker refused without a reason.")))
        return answer

    # ---- the end

    def close(self, timeout_s: float | None) -> Steps[None]:
        """DISCONNECT; with reconnection, once every outstanding RECEIPT has come."""
        arguments.seconds_or_none("timeout_s", timeout_s)

        def say(session: ClientSession, receipt: str | None) -> bytes:
            return session.disconnect(receipt=receipt)

        channel = self._channel
        if channel.lost is not None:
            return
        channel.answer_timeout_s = channel.answer_timeout_s if timeout_s is None else timeout_s
        try:
            if channel.restores:
                yield from self._settle_all()
            if channel.connection is not None:
                yield from channel.ask(say, Loss.DROPPED, True, channel.connection.number)
        finally:
            channel.let_go(CLOSED)

    def _settle_all(self) -> Steps[None]:
        """Awaits the RECEIPTs still outstanding, over another connection if need be."""
        channel = self._channel
        if not (yield Wait(lambda: not channel.outstanding, channel.answer_timeout_s)):
            count = len(channel.outstanding)
            raise NoAnswer(f"{count} receipts did not come within {channel.answer_timeout_s:g} s: they are given up.")
        channel.check_refused()
