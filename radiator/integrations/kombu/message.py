"""A message of kombu as a frame of STOMP, and back.

What STOMP has a header for has that header: content-type, correlation-id, reply-to, expiration, priority, and the key
of a partitioned queue or a log. The rest, above all the `headers` that Celery describes a task with, is one JSON
object: in the header `kombu` where it is short, else in front of the body, with its length in the header
`kombu-length`. A message without either was not published by kombu: its headers are those of the frame or, if it is a
task, what Celery means by them (tasks.py).
"""

import logging
import re
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from kombu.message import Message as KombuMessage
from kombu.utils import json

from radiator.client import Message as Received
from radiator.integrations.kombu import plain
from radiator.integrations.kombu.deaths import death_headers
from radiator.integrations.kombu.failures import OperationRefused
from radiator.integrations.kombu.tasks import queue_of, task_headers

_log = logging.getLogger(__name__)

HEADER_MAX_BYTES = 8 * 1024  # of the JSON in a header; escaped it may be twice as long, and a broker takes 64 KiB
PRIORITY_MAX = 255  # AMQP has an octet for it; a queue takes a higher one for its own highest
PRIORITY_DIGITS_MAX = 3
LENGTH_DIGITS_MAX = 9  # of an envelope's length: more than any frame has
KEY = "radiator_key"  # a property, or a header, as programs of kombu and Celery give it
KEY_HEADER = "partition-key"  # of STOMP, as logs have it

_MIME_TYPE = re.compile(r"[\w.+!#$&^-]+/[\w.+!#$&^-]+(;[ -~]*)?", re.ASCII)
_NATIVE = {"correlation_id": "correlation-id", "reply_to": "reply-to", "expiration": "expiration"}
_PROPERTIES = frozenset(["cluster_id", "app_id", "timestamp", "type", "user_id", *_NATIVE])
_HAVE_HEADERS = frozenset(["message_id", KEY])  # they have headers of their own, whatever the value is
_NATIVE_NAMES = {name: key for key, name in _NATIVE.items()}
_TEXT = re.compile(r"[ -~]{1,1024}")  # what any version of STOMP carries unchanged
_KEY_TEXT = re.compile(r"[^\0\ud800-\udfff]{0,1024}")
_PERSISTENT, _TRANSIENT = 2, 1  # AMQP's delivery modes


@dataclass(slots=True)
class PreparedMessage:
    """A message that a program wants to publish."""

    body: bytes
    content_type: str | None
    content_encoding: str | None
    headers: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def is_persistent(self) -> bool:
        """Whether the program wants it to survive a restart."""
        return bool(self.properties.get("delivery_mode", _PERSISTENT) == _PERSISTENT)

    def frame(self, is_routed: bool = False) -> tuple[list[tuple[str, str]], bytes]:
        """Headers and body of its SEND. Raises OperationRefused if its key or priority is invalid. is_routed: to an
        exchange, which may look at its headers.
        """
        lines: list[tuple[str, str]] = []
        left: dict[str, Any] = {}
        due_ms = self._due_ms()
        key = self._key()
        if self.content_type and _MIME_TYPE.fullmatch(self.content_type):
            lines.append(("content-type", self.content_type))
        else:
            left["content_type"] = self.content_type
        if self.content_encoding:
            lines.append(("content-encoding", self.content_encoding))
        if key is not None:
            lines.append((KEY_HEADER, key))
        for name, value in self.properties.items():
            if name == "expiration" and due_ms is not None:
                # a task that expires before it is due must come all the same: its worker reports it as revoked
                left[name] = value
            elif name in _NATIVE and isinstance(value, str) and _TEXT.fullmatch(value):
                lines.append((_NATIVE[name], value))
            elif name == "priority":
                lines += self._priority(value)
            elif name == "delivery_mode":
                lines.append(("persistent", "true" if value == _PERSISTENT else "false"))
            elif name not in _HAVE_HEADERS and value is not None and (name in _PROPERTIES or _is_json(value)):
                left[name] = value
        # the same for each try of one publish, so that a queue with a dedup_window_s keeps it once
        lines.append(("dedup-id", str(self.properties.get("message_id") or uuid4())[:255]))
        if due_ms is not None:
            lines.append(("deliver-at", str(due_ms)))
        headers = {name: value for name, value in self.headers.items() if name != KEY}
        if is_routed:
            lines += plain.lines(headers)
        text = json.dumps({"headers": headers, "properties": left}).encode()
        if len(text) <= HEADER_MAX_BYTES:
            lines.append(("kombu", text.decode()))
            return lines, self.body
        lines.append(("kombu-length", str(len(text))))
        return lines, text + self.body

    @staticmethod
    def _priority(value: Any) -> list[tuple[str, str]]:
        if value is None:
            return []
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= PRIORITY_MAX:
            raise OperationRefused(
                f"The priority of the message is {value!r}: it must be a whole number from 0 to {PRIORITY_MAX}."
            )
        return [("priority", str(value))] if value else []  # 0 is the default

    def _key(self) -> str | None:
        """The key that the program has given; a task that Celery tries again has it in its headers."""
        key = self.properties.get(KEY)
        if key is None:
            key = self.headers.get(KEY)
        if key is None:
            return None
        if isinstance(key, int) and not isinstance(key, bool):
            return str(key)
        if not isinstance(key, str):
            raise OperationRefused(f"{KEY} is of type {type(key).__name__}: it must be a text or a whole number.")
        if not _KEY_TEXT.fullmatch(key):
            raise OperationRefused(f"{KEY} is {key!r:.100}: it may have at most 1024 characters, and no NUL.")
        return key

    def _due_ms(self) -> int | None:
        """When a task with an ETA of Celery's is due: until then the broker holds it, not a worker."""
        eta = self.headers.get("eta")
        if not isinstance(eta, str) or "task" not in self.headers:
            return None
        try:
            due = datetime.fromisoformat(eta)
        except ValueError:
            return None
        due_ms = int(due.timestamp() * 1000) if due.tzinfo is not None else 0
        return due_ms if due_ms > time.time() * 1000 else None


class Message(KombuMessage):
    """A message as programs of kombu see it. If it cannot be read, the reason is in `errors`, as kombu expects."""

    def __init__(self, received: Received, channel: Any, delivery_tag: int, consumer_tag: str) -> None:
        exchange, routing_key = _way(received.destination)
        delivery_info = {
            "consumer_tag": consumer_tag,
            "delivery_tag": delivery_tag,
            "exchange": exchange,
            "priority": _priority_in(received),
            "redelivered": received.headers.get("redelivered") == "true",
            "routing_key": routing_key,
        }
        mistakes = []
        try:
            described, body = _opened(received)
        except ValueError:
            mistakes.append(sys.exc_info())
            described, body = {"headers": {}, "properties": {}}, received.body
        # Celery's request.delivery_info has it from here
        properties: dict[str, Any] = {"priority": delivery_info["priority"]}
        for name, key in _NATIVE_NAMES.items():
            if name in received.headers:
                properties[key] = received.headers[name]
        properties["delivery_mode"] = _TRANSIENT if received.headers.get("persistent") == "false" else _PERSISTENT
        properties["message_id"] = received.headers.get("dedup-id", received.message_id)
        properties.update(described["properties"])
        if KEY_HEADER in received.headers:
            # among the headers, which Celery passes to the next try of a task
            described["headers"][KEY] = received.headers[KEY_HEADER]
        described["headers"].update(death_headers(received.headers))
        content_type = properties.pop("content_type", None) or received.headers.get("content-type")
        super().__init__(
            body=body,
            channel=channel,
            delivery_tag=delivery_tag,
            content_type=content_type,
            content_encoding=received.headers.get("content-encoding") or _encoding(content_type),
            delivery_info=delivery_info,
            properties=properties,
            headers=described["headers"],
        )
        self.errors += mistakes


def _priority_in(received: Received) -> int:
    """The priority; 0, as with other brokers, if none was given."""
    text = received.headers.get("priority", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= PRIORITY_DIGITS_MAX else 0
    return number if number <= PRIORITY_MAX else 0


def _is_json(value: Any) -> bool:
    """Whether JSON can express it. AMQP omits a property that it does not know; here one is omitted that JSON cannot
    express.
    """
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        _log.warning("A property of the message is left out: %.100r cannot be written as JSON.", value)
        return False
    return True


def _opened(received: Received) -> tuple[dict[str, Any], bytes]:
    """`headers` and `properties` of kombu, and the body. Raises ValueError for anything that `frame` does not make."""
    body = received.body
    length = received.headers.get("kombu-length")
    text = received.headers.get("kombu")
    if length is not None:
        if not length.isdecimal() or len(length) > LENGTH_DIGITS_MAX or int(length) > len(body):
            raise ValueError(f"kombu-length {length[:20]!r} is not how many of the {len(body)} bytes are the envelope.")
        text, body = body[: int(length)].decode(), body[int(length) :]
    elif text is None:
        reply_to = received.headers.get("reply-to")
        properties = {} if reply_to is None else {"reply_to": queue_of(reply_to)}
        return {"headers": task_headers(received.headers, received.message_id), "properties": properties}, body
    try:
        described = json.loads(text)
    except RecursionError:
        raise ValueError("The JSON of the message's headers is nested too deeply.") from None
    if not isinstance(described, dict) or not all(
        isinstance(described.get(key), dict) for key in ("headers", "properties")
    ):
        raise ValueError("The JSON of the message's headers must have the objects `headers` and `properties`.")
    return described, body


def _way(destination: str) -> tuple[str, str]:
    """The exchange and the routing key with which it was published."""
    if destination.startswith("/exchange/"):
        exchange, _, routing_key = destination.removeprefix("/exchange/").partition("/")
        return exchange, routing_key
    return "", destination.removeprefix("/amq").removeprefix("/queue/")


def _encoding(content_type: str | None) -> str:
    """The encoding of a message that does not name one: text is UTF-8, as JSON is."""
    is_text = content_type is not None and (content_type.startswith("text/") or content_type == "application/json")
    return "utf-8" if is_text else "binary"
