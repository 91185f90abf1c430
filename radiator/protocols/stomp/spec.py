"""The three STOMP specifications as tables: versions, commands and the headers each command must have.

A version is its minor number (1.2 is 2), which is also the number of its escaping rules (message.py). What tables
cannot express (how a frame is cut from bytes) is in parser.py.
"""

from dataclasses import dataclass

from radiator.model.headers import ADDED, AMQP_PROPERTIES, ESCAPING_ALL, ESCAPING_BUT_CR, ESCAPING_NONE

V1_0, V1_1, V1_2 = ESCAPING_NONE, ESCAPING_BUT_CR, ESCAPING_ALL

VERSIONS: dict[bytes, int] = {b"1.0": V1_0, b"1.1": V1_1, b"1.2": V1_2}
VERSION_NAMES: dict[int, str] = {number: name.decode() for name, number in VERSIONS.items()}
ALL_VERSIONS = b",".join(VERSIONS)

# Undefined escapes are fatal (1.1 and 1.2, "Value Encoding"); 1.0 has none, and takes a backslash literally.
UNESCAPED: dict[int, dict[bytes, bytes]] = {
    V1_1: {b"\\\\": b"\\", b"\\n": b"\n", b"\\c": b":"},
    V1_2: {b"\\\\": b"\\", b"\\n": b"\n", b"\\c": b":", b"\\r": b"\r"},
}


@dataclass(slots=True)
class CommandSpec:
    """The rules of one command. required: headers without which a frame is refused. body: whether it may have one."""

    required: tuple[bytes, ...] = ()
    body: bool = False


# `accept-version` is absent in 1.0; clients must send `host`, see docs/PROTOCOL.md. 1.0 allows a body: for the other
# versions the session refuses it once it knows the version.
_CONNECT = CommandSpec(body=True)
_SEND = CommandSpec((b"destination",), body=True)
_TRANSACTION = CommandSpec((b"transaction",))
_ID = CommandSpec((b"id",))
# clients must send `id` (1.1 and 1.2, "SUBSCRIBE id Header"); without it the destination replaces it
_SUBSCRIBE = CommandSpec((b"destination",))
_UNSUBSCRIBE = CommandSpec()  # `id` or `destination`: the session checks
_ACK_1_1 = CommandSpec((b"message-id",))  # clients must send `subscription` too, but it adds nothing

CONNECT_COMMANDS: dict[bytes, CommandSpec] = {b"CONNECT": _CONNECT, b"STOMP": _CONNECT}

# CONNECT and STOMP stay in the tables so that a second one gets its own sentence.
CLIENT_COMMANDS: dict[int, dict[bytes, CommandSpec]] = {
    V1_0: {
        **CONNECT_COMMANDS,
        b"SEND": _SEND,
        # 1.0, SUBSCRIBE: "The body of the SUBSCRIBE command is ignored." No other frame's body is forbidden either.
        b"SUBSCRIBE": CommandSpec((b"destination",), body=True),
        b"UNSUBSCRIBE": CommandSpec(body=True),
        b"BEGIN": CommandSpec((b"transaction",), body=True),
        b"COMMIT": CommandSpec((b"transaction",), body=True),
        b"ABORT": CommandSpec((b"transaction",), body=True),
        b"ACK": CommandSpec((b"message-id",), body=True),
        b"NACK": CommandSpec((b"message-id",), body=True),  # of 1.1: 1.0 has no NACK
        b"DISCONNECT": CommandSpec(body=True),
    },
    V1_1: {
        **CONNECT_COMMANDS,
        b"SEND": _SEND,
        b"SUBSCRIBE": _SUBSCRIBE,
        b"UNSUBSCRIBE": _UNSUBSCRIBE,
        b"BEGIN": _TRANSACTION,
        b"COMMIT": _TRANSACTION,
        b"ABORT": _TRANSACTION,
        b"ACK": _ACK_1_1,
        b"NACK": _ACK_1_1,
        b"DISCONNECT": CommandSpec(),
    },
    V1_2: {
        **CONNECT_COMMANDS,
        b"SEND": _SEND,
        b"SUBSCRIBE": _SUBSCRIBE,
        b"UNSUBSCRIBE": _UNSUBSCRIBE,
        b"BEGIN": _TRANSACTION,
        b"COMMIT": _TRANSACTION,
        b"ABORT": _TRANSACTION,
        b"ACK": _ID,
        b"NACK": _ID,
        b"DISCONNECT": CommandSpec(),
    },
}

_ERROR = CommandSpec(body=True)

# The answer to CONNECT. A 1.0 server sends no `version`. 1.0 forbids no body.
ANSWER_COMMANDS: dict[bytes, CommandSpec] = {b"CONNECTED": CommandSpec(), b"ERROR": _ERROR}

_SERVER_1_1 = {
    b"CONNECTED": CommandSpec(),
    b"MESSAGE": CommandSpec((b"destination", b"message-id", b"subscription"), body=True),
    b"RECEIPT": CommandSpec((b"receipt-id",)),
    b"ERROR": _ERROR,
}

SERVER_COMMANDS: dict[int, dict[bytes, CommandSpec]] = {
    V1_0: {
        b"CONNECTED": CommandSpec(body=True),
        b"MESSAGE": CommandSpec((b"destination", b"message-id"), body=True),
        b"RECEIPT": CommandSpec((b"receipt-id",), body=True),
        b"ERROR": _ERROR,
    },
    V1_1: _SERVER_1_1,
    V1_2: _SERVER_1_1,
}

# Headers of a SEND that belong to the hop, or that only the broker sets in a MESSAGE: they are not stored. Nor is a
# `reply-to` that names a temp queue.
HOP_HEADERS = frozenset(
    [
        b"receipt",
        b"on-refusal",
        b"transaction",
        b"destination",
        b"content-length",
        b"message-id",
        b"subscription",
        b"ack",
        b"timestamp",
        b"redelivered",
        AMQP_PROPERTIES.name,
        *(field.name for field in ADDED),
    ]
)

# Headers whose values a peer gets back and compares with its own: never trimmed, even in 1.0, where padding was common.
ECHOED_HEADERS = frozenset([b"receipt", b"id", b"transaction"])
