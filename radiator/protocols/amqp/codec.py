"""Decodes and encodes methods by the annotations of their fields (methods.py).

basic.publish and basic.ack, which clients send for each message, have readers of their own.
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, get_type_hints

from radiator.model.amqp_limits import AMQP_PUBLISHES_KEPT
from radiator.model.amqp_tables import decode_table, encode_table
from radiator.model.errors import Violation, shown
from radiator.protocols.amqp.frame import BrokenAmqp, encode_frame
from radiator.protocols.amqp.methods import METHODS, NAMES, NUMBERS, BasicAck, BasicPublish, Method
from radiator.protocols.amqp.spec import (
    BIT,
    CLASSES_NOT_IMPLEMENTED,
    COMMAND_INVALID,
    FRAME_ERROR,
    FRAME_METHOD,
    LONG,
    LONG_LONG,
    LONG_STRING,
    NOT_IMPLEMENTED,
    OCTET,
    SHORT,
    SHORT_STRING,
    SYNTAX_ERROR,
    TABLE,
)

_NUMBER = struct.Struct(">HH")  # class and method
_ARGUMENTS_AT = _NUMBER.size
_INTS = {
    OCTET: struct.Struct(">B"),
    SHORT: struct.Struct(">H"),
    LONG: struct.Struct(">I"),
    LONG_LONG: struct.Struct(">Q"),
}
_ACK = struct.Struct(">4xQB")
_SIZE = _INTS[LONG]
_tuple = tuple.__new__  # costs a third of naming a NamedTuple's fields


def decode_method(payload: bytes) -> Method:
    """Returns the method in a frame. Raises BrokenAmqp for an unknown method, or for malformed arguments."""
    read = _READERS.get(payload[:_ARGUMENTS_AT])
    code = FRAME_ERROR
    try:
        if read is not None:
            return read(payload)
        return _method(payload)
    except BrokenAmqp:
        raise
    except (IndexError, struct.error):
        sentence = f"ends before its arguments do: {shown(payload[_ARGUMENTS_AT:])}"
    except UnicodeDecodeError as wrong:
        sentence = f"has a name that is not UTF-8: {shown(wrong.object)}"
    except Violation as wrong:
        sentence = f"is broken. {wrong}".removesuffix(".")
        code = SYNTAX_ERROR
    number = _NUMBER.unpack_from(payload)
    raise BrokenAmqp(code, f"{NAMES[METHODS[number]]} {sentence}.", number)


def encode_method(channel: int, method: Method) -> bytes:
    """Returns the frame of a method. Raises Violation for a text of more than 255 bytes, or what no table can hold."""
    kind = type(method)
    parts = [_NUMBER.pack(*NUMBERS[kind])]
    bits, count = 0, 0
    for type_, value in zip(_TYPES[kind], method):  # noqa: B905 - a NamedTuple has all its fields
        if type_ == BIT:
            bits |= value << count
            count += 1
            continue
        if count:  # no method has more than eight in a row
            parts.append(bytes((bits,)))
            bits, count = 0, 0
        parts.append(_WRITERS[type_](value))
    if count:
        parts.append(bytes((bits,)))
    return encode_frame(FRAME_METHOD, channel, b"".join(parts))


# ---- reading --------------------------------------------------------------------------------------------------------


def _method(payload: bytes) -> Method:
    if len(payload) < _ARGUMENTS_AT:
        raise BrokenAmqp(FRAME_ERROR, f"A method's frame has {len(payload)} bytes: it begins with {_ARGUMENTS_AT}.")
    number = _NUMBER.unpack_from(payload)
    kind = METHODS.get(number)
    if kind is None:
        class_id, method_id = number
        if class_id in CLASSES_NOT_IMPLEMENTED:
            name = CLASSES_NOT_IMPLEMENTED[class_id]
            raise BrokenAmqp(NOT_IMPLEMENTED, f"The class {name} ({class_id}) of AMQP is not supported.", number)
        raise BrokenAmqp(COMMAND_INVALID, f"AMQP 0-9-1 has no method {method_id} of a class {class_id}.", number)
    values: list[Any] = []
    at, bit, size = _ARGUMENTS_AT, 0, len(payload)
    for type_ in _TYPES[kind]:
        if type_ == BIT:
            if not bit:
                at += 1
            bit = bit << 1 or 1
            values.append(payload[at - 1] & bit != 0)
            continue
        bit = 0
        if type_ in _INTS:
            number_of = _INTS[type_]
            values.append(number_of.unpack_from(payload, at)[0])
            at += number_of.size
        elif type_ == SHORT_STRING:
            start = at + 1
            at = start + payload[at]
            values.append(payload[start:at].decode())
        else:
            start = at + 4
            at = start + _SIZE.unpack_from(payload, at)[0]
            if at > size:
                raise IndexError
            values.append(payload[start:at] if type_ == LONG_STRING else decode_table(payload, start, at))
    if at != size:
        raise _left_over(payload, at, kind) if at < size else IndexError
    return _tuple(kind, values)


@lru_cache(AMQP_PUBLISHES_KEPT)
def _publish(payload: bytes) -> BasicPublish:
    key_at = 7 + payload[6]
    bits_at = key_at + 1 + payload[key_at]
    bits = payload[bits_at]
    if len(payload) != bits_at + 1:
        raise _left_over(payload, bits_at + 1, BasicPublish)
    exchange, key = payload[7:key_at].decode(), payload[key_at + 1 : bits_at].decode()
    ticket = payload[4] << 8 | payload[5]
    return _tuple(BasicPublish, (ticket, exchange, key, bits & 1 != 0, bits & 2 != 0))


def _ack(payload: bytes) -> BasicAck:
    tag, bits = _ACK.unpack_from(payload)
    if len(payload) != _ACK.size:
        raise _left_over(payload, _ACK.size, BasicAck)
    return _tuple(BasicAck, (tag, bits & 1 != 0))


def _left_over(payload: bytes, at: int, kind: type[Method]) -> BrokenAmqp:
    return BrokenAmqp(
        FRAME_ERROR, f"{NAMES[kind]} has bytes after its last argument: {shown(payload[at:])}.", NUMBERS[kind]
    )


# ---- writing --------------------------------------------------------------------------------------------------------


def _short_string(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > 255:
        raise Violation(f"The text {shown(raw)} has {len(raw)} bytes: at most 255 fit an argument of its type.")
    return bytes((len(raw),)) + raw


def _long_string(value: bytes) -> bytes:
    return _SIZE.pack(len(value)) + value


# ---- the table ------------------------------------------------------------------------------------------------------

_WRITERS: dict[int, Callable[[Any], bytes]] = {
    **{type_: number.pack for type_, number in _INTS.items()},
    SHORT_STRING: _short_string,
    LONG_STRING: _long_string,
    TABLE: encode_table,
}
_TYPES: dict[type[Method], tuple[int, ...]] = {
    kind: tuple(hint.__metadata__[0] for hint in get_type_hints(kind, include_extras=True).values())
    for kind in METHODS.values()
}
"""The types of each method's arguments, in order."""
_READERS: dict[bytes, Callable[[bytes], Method]] = {
    _NUMBER.pack(*NUMBERS[BasicPublish]): _publish,
    _NUMBER.pack(*NUMBERS[BasicAck]): _ack,
}
