"""AMQP 0-9-1 in constants: frames, reply codes, and the types of arguments. methods.py has the methods."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from radiator.model.amqp_tables import Value

PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
PROTOCOL_OPENING = 0  # not a type of AMQP's: the parser gives it to the protocol header
FRAME_END = b"\xce"
FRAME_MIN_BYTES = 4096  # what each side accepts before a size is negotiated, and the smallest that can be
FRAME_OVERHEAD_BYTES = 8  # head and end
CONTENT_HEAD_BYTES = 12  # of a content header, before the properties
CLASS_BASIC = 60
CLASSES_NOT_IMPLEMENTED = {70: "file", 80: "stream", 100: "dtx", 110: "tunnel", 120: "test"}  # of older versions

# ---- reply codes ----------------------------------------------------------------------------------------------------

REPLY_SUCCESS = 200
CONTENT_TOO_LARGE = 311
NO_ROUTE = 312
NO_CONSUMERS = 313
CONNECTION_FORCED = 320
INVALID_PATH = 402
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NOT_IMPLEMENTED = 540
INTERNAL_ERROR = 541

CODE_NAMES = {
    code: name
    for name, code in globals().copy().items()
    if isinstance(code, int) and REPLY_SUCCESS <= code <= INTERNAL_ERROR
}
"""The names of codes, with which reply texts begin: 404 is NOT_FOUND."""
CHANNEL_CODES = frozenset(
    (CONTENT_TOO_LARGE, NO_ROUTE, NO_CONSUMERS, ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED)
)
"""Codes that close only a channel; all others of 320 and more close the connection."""

# ---- how arguments are written --------------------------------------------------------------------------------------

BIT, OCTET, SHORT, LONG, LONG_LONG, SHORT_STRING, LONG_STRING, TABLE = range(8)

Bit = Annotated[bool, BIT]
Octet = Annotated[int, OCTET]
Short = Annotated[int, SHORT]
Long = Annotated[int, LONG]
LongLong = Annotated[int, LONG_LONG]
ShortString = Annotated[str, SHORT_STRING]
LongString = Annotated[bytes, LONG_STRING]
Table = Annotated[Mapping[str, Value], TABLE]

NO_ARGUMENTS: Mapping[str, Value] = MappingProxyType({})
