"""The headers CC and BCC of a message: further routing keys (RabbitMQ, "Sender-selected Distribution")."""

from radiator.model.amqp_properties import Properties, encode
from radiator.model.amqp_tables import Value, encode_table
from radiator.protocols.amqp.frame import BrokenAmqp
from radiator.protocols.amqp.spec import PRECONDITION_FAILED

_CC, _BCC = "CC", "BCC"


def with_copies(properties: Properties) -> tuple[tuple[str, ...], bytes]:
    """Returns the further keys, and the flags and list of the properties as receivers get them: without BCC. Raises
    BrokenAmqp.
    """
    headers = properties.headers
    keys = [*_keys(_CC, headers.get(_CC)), *_keys(_BCC, headers.get(_BCC))]
    if headers.pop(_BCC, None) is not None:
        properties.table = encode_table(headers)
    return tuple(dict.fromkeys(keys)), encode(properties)


def _keys(name: str, value: Value) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise BrokenAmqp(PRECONDITION_FAILED, f"invalid {name!r} header: it is a list of routing keys")
    return value
