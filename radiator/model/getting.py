"""Commands of protocols in which a client takes messages one by one, sets a window for all of its subscriptions, or
asks whether somebody waits for an answer.
"""

from dataclasses import dataclass

from radiator.model.ack_modes import CLIENT_INDIVIDUAL


@dataclass(slots=True)
class Get:
    """Takes the next ready message of a queue: a Deliver, with the receipt as its subscription and with `left`; or, if
    none is ready, Empty. ack: CLIENT_INDIVIDUAL, or AUTO: it is acked as it is written. No window counts it.
    """

    connection: int
    destination: str
    receipt: bytes
    ack: str = CLIENT_INDIVIDUAL


@dataclass(slots=True)
class SetWindow:
    """How many messages the connection's subscriptions that share its window may have unacked together; 0: no bound.
    Answered by the RECEIPT. properties_max_bytes: of a message that can be sent to its client, as properties of AMQP;
    None: as it was.
    """

    connection: int
    messages: int
    receipt: bytes | None = None
    properties_max_bytes: int | None = None


@dataclass(slots=True)
class FindAsker:
    """Whether somebody gets what is sent to `/reply-queue/ID`: the RECEIPT, or Refuse `no-such-destination`."""

    connection: int
    reply_id: str
    receipt: bytes


TakingCommand = Get | SetWindow | FindAsker
