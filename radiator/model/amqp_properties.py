"""stub"""

import base64
import struct
from dataclasses import dataclass


@dataclass
class Properties:
    reply_to: str | None = None
    user_id: str | None = None
    expiration: str | None = None


def _parse(data):
    (flags,) = struct.unpack_from(">H", data)
    at = 2
    p = {}
    for bit, name, kind in (
        (15, "content_type", "s"),
        (14, "content_encoding", "s"),
        (13, "headers", "t"),
        (12, "delivery_mode", "o"),
        (11, "priority", "o"),
        (10, "correlation_id", "s"),
        (9, "reply_to", "s"),
        (8, "expiration", "s"),
        (7, "message_id", "s"),
        (6, "timestamp", "T"),
        (5, "type", "s"),
        (4, "user_id", "s"),
        (3, "app_id", "s"),
    ):
        if flags >> bit & 1:
            if kind == "s":
                n = data[at]
                p[name] = data[at + 1 : at + 1 + n].decode()
                at += 1 + n
            elif kind == "o":
                p[name] = data[at]
                at += 1
            elif kind == "T":
                at += 8
            else:
                (n,) = struct.unpack_from(">I", data, at)
                at += 4 + n
    return p


def stored_block(data: bytes) -> tuple[bytes, Properties]:
    p = _parse(data)
    return b"amqp-properties:" + base64.b64encode(data) + b"\n", Properties(
        p.get("reply_to"), p.get("user_id"), p.get("expiration")
    )


def properties_of(block: bytes, escaping: int) -> bytes:
    if block.startswith(b"amqp-properties:"):
        return base64.b64decode(block[16 : block.index(b"\n")])
    return b"\0\0"
