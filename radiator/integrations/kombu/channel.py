"""What AMQP calls a channel: consumers and their unacked messages, over a connection that it shares.

Delivery tags, prefetch counts and consumer tags are AMQP's. All state that matters is the broker's: what is unacked
there goes back to its queue when the connection ends, whatever becomes of this object.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from kombu.transport.base import StdChannel, to_rabbitmq_queue_arguments

from radiator.client import Message as Received
from radiator.integrations.kombu.arguments import binding_key, consumer_headers, exchange_settings, queue_settings
from radiator.integrations.kombu.connection import DeclaredQueue, SharedConnection
from radiator.integrations.kombu.failures import ConnectionLost, Missing, OperationRefused, refused
from radiator.integrations.kombu.message import Message, PreparedMessage
from radiator.model.commands import AUTO, CLIENT_INDIVIDUAL
from radiator.model.limits import PREFETCH_COUNT_MAX

EXCHANGE = "/exchange/"
QUEUE = "/amq/queue/"  # the address of a declared queue; its use makes none
GET_MAX_S = 2.0  # how long a ready message may take to come; it may have to be read from the disk
GET_AGAIN_S = 0.02
_RETURNED = frozenset(["no-subscriber", "no-consumer"])  # what `mandatory` and `immediate` are refused with


def _answered(queue: str, answer: dict[str, Any]) -> DeclaredQueue:
    return DeclaredQueue(queue, int(answer["messages"]), int(answer["consumers"]))


@dataclass(slots=True)
class _Consumer:
    queue: str
    no_ack: bool
    callback: Callable[[Any], None]
    subscription: str
    is_shared: bool  # it has the connection's window, and none of its own
    headers: list[tuple[str, str]]  # of its SUBSCRIBE


class Channel(StdChannel):
    """connection: None once it is closed or its connection is lost."""

    def __init__(self, connection: SharedConnection) -> None:
        self.connection: SharedConnection | None = connection
        self.channel_id = connection.add(self)
        self.no_ack_consumers: set[str] = set()
        self.events: dict[str, set[Callable[..., None]]] = {"basic_return": set()}
        self.prefetch_count = 0  # of its consumers together; 0: without limit
        self._consumers: dict[str, _Consumer] = {}
        self._unacked: dict[int, Received] = {}
        self._tagged = 0

    @property
    def is_open(self) -> bool:
        return self.connection is not None

    @property
    def _open(self) -> SharedConnection:
        if self.connection is None:
            raise ConnectionLost("This channel is closed, or its connection lost.")
        return self.connection

    # ---- declaring

    def exchange_declare(
        self,
        exchange: str,
        type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        nowait: bool = False,
        arguments: Any = None,
        **_: Any,
    ) -> None:
        """Declares an exchange of type direct, topic, fanout or headers. Refused if it exists and differs."""
        if not exchange:
            return
        if passive:
            self._open.admin("declare", exchange=exchange, passive=True)
            return
        settings = exchange_settings(exchange, type, arguments)
        self._open.admin("declare", exchange=exchange, **{"durable": durable, "auto_delete": auto_delete, **settings})
        self._open.note_exchange(exchange, type)

    def exchange_delete(self, exchange: str, if_unused: bool = False, nowait: bool = False) -> None:
        connection = self._open
        if if_unused and connection.admin("describe", exchange=exchange)["bindings_count"]:
            raise refused(f"The exchange {exchange!r} has bindings.", "in-use")
        connection.forget_exchange(exchange)
        self._forgiving("delete", exchange=exchange)

    def exchange_bind(
        self, destination: str, source: str = "", routing_key: str = "", nowait: bool = False, arguments: Any = None
    ) -> None:
        """Binds: messages to source that match the binding go on to destination with the same key."""
        self._bind("bind", f"{EXCHANGE}{destination}", source, routing_key, arguments)

    def exchange_unbind(
        self, destination: str, source: str = "", routing_key: str = "", nowait: bool = False, arguments: Any = None
    ) -> None:
        with suppress(Missing):
            self._bind("unbind", f"{EXCHANGE}{destination}", source, routing_key, arguments)

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = True,
        nowait: bool = False,
        arguments: Any = None,
        **_: Any,
    ) -> DeclaredQueue:
        """Declares a queue; without a name it gets one. Refused if it exists with other settings."""
        connection = self._open
        name = queue or f"kombu.gen-{uuid4()}"
        if passive:
            return _answered(name, connection.admin("declare", queue=name, passive=True))
        settings = queue_settings(
            arguments or {},
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            keeps_replies=connection.keeps_replies,
        )
        declared = connection.just_declared(name, settings)
        if declared is None:
            declared = _answered(name, connection.admin("declare", queue=name, **settings))
            if durable and not exclusive:
                connection.note_declared(name, settings, declared)
        return declared

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **kwargs)

    def queue_bind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, nowait: bool = False
    ) -> None:
        if exchange:
            self._bind("bind", queue, exchange, routing_key, arguments)

    def queue_unbind(
        self, queue: str, exchange: str = "", routing_key: str = "", arguments: Any = None, nowait: bool = False
    ) -> None:
        if exchange:
            with suppress(Missing):
                self._bind("unbind", queue, exchange, routing_key, arguments)

    def _bind(self, do: str, target: str, exchange: str, routing_key: str, arguments: Any) -> None:
        """do: `bind` or `unbind`."""
        key = routing_key or ""
        if arguments:
            key = binding_key(target, self._open.type_of(exchange), arguments)
        self._open.admin(do, exchange=exchange, key=key, queue=target)

    def queue_purge(self, queue: str, nowait: bool = False) -> int:
        """Purges; returns how many messages it removed. Those that consumers have unacked stay."""
        return int(self._open.admin("purge", queue=queue)["purged"])

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, nowait: bool = False) -> int:
        """Deletes the queue; returns how many messages went with it, unacked or not."""
        self._open.forget_declared(queue)
        return int(self._forgiving("delete", queue=queue, if_unused=if_unused, if_empty=if_empty).get("deleted", 0))

    def _forgiving(self, do: str, **request: Any) -> dict[str, Any]:
        """Makes a request, for which a destination that does not exist is not an error."""
        try:
            return self._open.admin(do, **request)
        except OperationRefused as no:
            if no.radiator_code != "no-such-destination":
                raise
            return {}

    # ---- publishing

    def prepare_message(
        self,
        body: bytes | str,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> PreparedMessage:
        octets = body.encode(content_encoding or "utf-8") if isinstance(body, str) else bytes(body)
        properties = {} if properties is None else properties
        # kombu gives the same properties for each try of one publish
        properties.setdefault("message_id", str(uuid4()))
        if priority:
            properties["priority"] = priority
        return PreparedMessage(octets, content_type, content_encoding, headers or {}, properties)

    def basic_publish(
        self,
        message: PreparedMessage | bytes | str,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
        timeout: float | None = None,
        confirm_timeout: float | None = None,
        **_: Any,
    ) -> None:
        """Returns once the broker has it: on the disk, where its queues are persistent. A transient one (delivery_mode
        1) is sent without waiting, unless mandatory or immediate. The wait is bounded by the option answer_timeout_s.
        """
        connection = self._open
        if not isinstance(message, PreparedMessage):
            message = self.prepare_message(message)
        headers, body = message.frame(is_routed=bool(exchange))
        if mandatory:
            headers.append(("mandatory", "true"))
        if immediate:
            headers.append(("immediate", "true"))
        is_awaited = connection.confirms and (message.is_persistent or mandatory or immediate)
        if is_awaited:
            # a refusal concerns this message only, and need not end the connection
            headers.append(("on-refusal", "receipt"))
        if not is_awaited:
            connection.look()
        # the default exchange reaches every queue by its name; a message to one that is gone is dropped
        destination = f"{EXCHANGE}{exchange}/{routing_key or ''}" if exchange else f"{QUEUE}{routing_key}"
        try:
            connection.ask(connection.broker.send, destination, body, headers, confirm=True if is_awaited else None)
        except OperationRefused as no:
            if no.radiator_code not in _RETURNED or not self.events["basic_return"]:
                raise
            for on_return in self.events["basic_return"]:
                on_return(no, exchange, routing_key, message)

    # ---- consuming

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, a_global: bool = False) -> None:
        """Sets how many messages the consumers of this channel may have unacked together, over all their queues.

        The window is the connection's: the sum of what its channels have set.
        """
        self.prefetch_count = prefetch_count
        for consumer in self._consumers.values():
            if not consumer.is_shared and not consumer.no_ack:
                self._open.admin("prefetch", subscription=consumer.subscription, count=self.window)
        if self.is_sharing:
            self._open.widen_window()

    @property
    def has_consumers(self) -> bool:
        return bool(self._consumers)

    @property
    def window(self) -> int:
        return min(self.prefetch_count or PREFETCH_COUNT_MAX, PREFETCH_COUNT_MAX)

    @property
    def is_sharing(self) -> bool:
        """Whether a consumer of this channel uses the connection's window."""
        return any(consumer.is_shared for consumer in self._consumers.values())

    def basic_consume(
        self,
        queue: str,
        no_ack: bool = False,
        consumer_tag: str = "",
        callback: Callable[[Any], None] | None = None,
        nowait: bool = False,
        arguments: Any = None,
        on_cancel: Any = None,
        **_: Any,
    ) -> str:
        """Messages of the queue go to the callback, from drain_events or the event loop. Returns the consumer tag."""
        assert callback is not None, "a consumer without a callback would lose its messages"
        tag = consumer_tag or f"kombu.tag-{uuid4()}"
        headers = consumer_headers(arguments)
        if tag in self._consumers:
            raise OperationRefused(
                f"The consumer tag {tag!r} is in use on this channel: each must have one of its own."
            )
        # those that share a window take turns, whatever their priorities are
        is_shared = self.prefetch_count > 0 and not no_ack and not headers
        consumer = _Consumer(queue, no_ack, callback, f"{self.channel_id}/{tag}", is_shared, headers)
        self._consumers[tag] = consumer
        if no_ack:
            self.no_ack_consumers.add(tag)
        try:
            self._subscribe(tag, consumer)
        except Exception:
            self._consumers.pop(tag, None)
            self.no_ack_consumers.discard(tag)
            raise
        return tag

    def _subscribe(self, tag: str, consumer: _Consumer) -> None:
        connection = self._open
        if consumer.is_shared:
            connection.widen_window()
        connection.ask(
            connection.broker.subscribe,
            f"{QUEUE}{consumer.queue}",
            subscription=consumer.subscription,
            ack=AUTO if consumer.no_ack else CLIENT_INDIVIDUAL,
            prefetch=None if consumer.no_ack or consumer.is_shared else self.window,
            headers=consumer.headers,
            callback=partial(connection.arrived, partial(self._hand_on, tag)),
        )

    def _hand_on(self, tag: str, received: Received) -> None:
        consumer = self._consumers.get(tag)
        if consumer is not None:
            consumer.callback(self._tag(received, tag, consumer.no_ack))
        elif "ack" in received.headers and self.connection is not None:
            # it came while its consumer was being cancelled: it is for another
            self.connection.ask(self.connection.broker.nack, received, confirm=None)

    def _tag(self, received: Received, consumer_tag: str, no_ack: bool) -> Message:
        self._tagged += 1
        if not no_ack:
            self._unacked[self._tagged] = received
        return Message(received, self, self._tagged, consumer_tag)

    def message_to_python(self, message: Message) -> Message:
        return message

    def basic_cancel(self, consumer_tag: str, nowait: bool = False, **_: Any) -> None:
        """Cancels the consumer. What it has unacked can still be acked."""
        consumer = self._consumers.pop(consumer_tag, None)
        self.no_ack_consumers.discard(consumer_tag)
        if consumer is not None and self.connection is not None:
            self.connection.forget_declared(consumer.queue)
            self.connection.ask(self.connection.broker.unsubscribe, consumer.subscription)

    def basic_get(self, queue: str, no_ack: bool = False, **_: Any) -> Message | None:
        """The queue's next message; None if none is ready."""
        connection = self._open
        got: list[Received] = []
        if not connection.admin("describe", queue=queue)["ready"]:
            return None
        # `auto-delete:false`: the end of this subscription must not delete the queue
        subscription = connection.ask(
            connection.broker.subscribe,
            f"{QUEUE}{queue}",
            ack=CLIENT_INDIVIDUAL,
            prefetch=1,
            headers=[("auto-delete", "false")],
            callback=got.append,
        )
        end_s = time.monotonic() + GET_MAX_S
        connection.pump_now()
        while not got and time.monotonic() < end_s and connection.admin("describe", queue=queue)["ready"]:
            time.sleep(GET_AGAIN_S)
            connection.pump_now()
        connection.ask(connection.broker.unsubscribe, subscription)
        connection.pump_now()
        if not got:
            return None
        message = self._tag(got[0], "", no_ack=False)
        if no_ack:
            self.basic_ack(message.delivery_tag)
        return message

    # ---- settling

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Acks: nobody gets it again. The ACK is sent, not awaited."""
        for received in self._settled(delivery_tag, multiple):
            self._open.ask(self._open.broker.ack, received, confirm=None)

    def basic_reject(self, delivery_tag: int, requeue: bool = False, multiple: bool = False) -> None:
        """Puts it back in its place in its queue or, without requeue, among the dead letters."""
        for received in self._settled(delivery_tag, multiple):
            self._open.ask(self._open.broker.nack, received, requeue=requeue, confirm=None)

    def basic_nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self.basic_reject(delivery_tag, requeue, multiple)

    def basic_recover(self, requeue: bool = True) -> None:
        """Has everything that this channel has unacked delivered again."""
        if self._unacked:
            self.basic_reject(max(self._unacked), requeue=True, multiple=True)

    def _settled(self, delivery_tag: int, multiple: bool) -> list[Received]:
        self._open  # noqa: B018 - what came on a lost connection cannot be settled
        if multiple:
            tags = [tag for tag in self._unacked if tag <= delivery_tag] if delivery_tag else list(self._unacked)
        else:
            tags = [delivery_tag]
        if not all(tag in self._unacked for tag in tags):
            raise OperationRefused(
                f"Nothing with the delivery tag {delivery_tag} is unacked on this channel.", "not-unacked"
            )
        return [self._unacked.pop(tag) for tag in tags]

    def flow(self, active: bool = True) -> None:
        """Pauses the consumers of this channel (active False), or resumes them (True)."""
        for tag, consumer in self._consumers.items():
            if active:
                self._subscribe(tag, consumer)
            else:
                self._open.ask(self._open.broker.unsubscribe, consumer.subscription)

    # ---- the end

    def close(self) -> None:
        """Cancels its consumers, and puts back what they have unacked. A second call does no harm."""
        connection = self.connection
        if connection is None:
            return
        try:
            for tag in list(self._consumers):
                self.basic_cancel(tag)
            self.basic_recover()
        finally:
            connection.channels.pop(self.channel_id, None)
            self.end()

    def end(self) -> None:
        """Called when the channel has ended: forgets its consumers, and what they had unacked."""
        self.connection = None
        self._consumers.clear()
        self._unacked.clear()
        self.no_ack_consumers.clear()
