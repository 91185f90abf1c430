"""The bodies of what is sent to queues and logs that have a schema: each is judged before anything of its SEND or
COMMIT happens. What was accepted before, and moves on, is not judged again: dead letters, moved messages, what another
node hands over or copies, and prepared transactions, which are judged as they are prepared.
"""

from collections.abc import Iterable

from radiator.core.queues.target import Target
from radiator.model.avro import body_schema
from radiator.model.errors import Refusal
from radiator.model.headers import CONTENT_TYPE
from radiator.model.limits import JUDGED_VALUES_MAX
from radiator.model.message import Message


def check_body(target: Target, body: bytes, content_type: bytes | None) -> int:
    """Judges one body. Returns how many values it has; 0 if the target has no schema. Raises Refusal `bad-body`."""
    schema = target.settings.schema
    if schema is None:
        return 0
    try:
        return body_schema(schema).check(body, content_type)
    except ValueError as wrong:
        raise Refusal("bad-body", f"{target.address} has a schema: {wrong}.") from None


def check_bodies(messages: Iterable[tuple[Target, Message]]) -> None:
    """Judges all that goes in at once, each body once by each schema. Raises Refusal `bad-body`, or `too-large` where
    their values take too long.
    """
    judged: set[tuple[str, int, bytes | None]] = set()
    values = 0
    for target, message in messages:
        schema = target.settings.schema
        if schema is None:
            continue
        content_type = message.field(CONTENT_TYPE)
        if (schema, id(message.body), content_type) in judged:
            continue
        judged.add((schema, id(message.body), content_type))
        values += check_body(target, message.body, content_type)
        if values > JUDGED_VALUES_MAX:
            raise Refusal(
                "too-large",
                f"The bodies for {target.address} and others with a schema have more than {JUDGED_VALUES_MAX} values "
                "in all: send them in several transactions.",
            )
