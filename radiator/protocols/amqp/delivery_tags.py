"""The delivery tags of a channel: which messages its client has yet to ack (AMQP 0-9-1, section 1.8.3.13)."""


class DeliveryTags:
    """Tags ascend from 1. What a transaction acks stays here until it commits: a rollback leaves it unacked."""

    __slots__ = ("_ids", "_in_transaction", "_last")

    def __init__(self) -> None:
        self._last = 0
        self._ids: dict[int, bytes] = {}  # ascending
        self._in_transaction: dict[int, bytes] = {}

    def next(self) -> int:
        """Returns the tag of one more delivery."""
        self._last += 1
        return self._last

    def add(self, tag: int, message_id: bytes) -> None:
        """Notes that this delivery must be acked."""
        self._ids[tag] = message_id

    def settle(self, tag: int) -> bytes | None:
        """Settles one delivery outside a transaction, and returns its message id. None: there is no such delivery."""
        return self._ids.pop(tag, None)

    def named_by(self, tag: int, multiple: bool) -> list[tuple[int, bytes]] | None:
        """Returns the tag and the message id of each delivery that an ack names. multiple: earlier ones too, or all if
        the tag is 0. None: there is no such delivery.
        """
        ids = self._ids
        if not multiple:
            message_id = ids.get(tag)
            return None if message_id is None else [(tag, message_id)]
        if tag == 0:
            return list(ids.items())
        if not 0 < tag <= self._last:
            return None
        named = []
        for one, message_id in ids.items():
            if one > tag:
                break
            named.append((one, message_id))
        return named or None

    def settled(self, named: list[tuple[int, bytes]], in_transaction: bool) -> None:
        """Removes deliveries that were acked or given back; a rollback of their transaction restores them."""
        for tag, message_id in named:
            del self._ids[tag]
            if in_transaction:
                self._in_transaction[tag] = message_id

    def committed(self) -> None:
        self._in_transaction.clear()

    def rolled_back(self) -> None:
        """Makes what the transaction acked unacked again, under the same tags."""
        self._ids = dict(sorted([*self._ids.items(), *self._in_transaction.items()]))
        self._in_transaction.clear()

    def take_all(self) -> list[bytes]:
        """Removes all that is unacked outside the transaction, to be given back, and returns the message ids."""
        ids, self._ids = list(self._ids.values()), {}
        return ids
