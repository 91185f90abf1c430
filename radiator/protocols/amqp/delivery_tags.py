"""The delivery tags of a channel: which messages its client has still to ack (AMQP 0-9-1, section 1.8.3.13)."""


class DeliveryTags:
    """Tags ascend from 1. What is acked in a transaction stays here until its commit: a rollback leaves it unacked."""

    __slots__ = ("_ids", "_in_transaction", "_last")

    def __init__(self) -> None:
        self._last = 0
        self._ids: dict[int, bytes] = {}  # ascending
        self._in_transaction: dict[int, bytes] = {}

    def next(self) -> int:
        """The tag of one more delivery."""
        self._last += 1
        return self._last

    def add(self, tag: int, message_id: bytes) -> None:
        """That delivery must be acked."""
        self._ids[tag] = message_id

    def settle(self, tag: int) -> bytes | None:
        """The id of that delivery, which is acked, or given back, in no transaction. None: there is none."""
        return self._ids.pop(tag, None)

    def named_by(self, tag: int, multiple: bool) -> list[tuple[int, bytes]] | None:
        """The tag and the message's id of each delivery that an ack settles. multiple: those before it too; all, where
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
        """They are acked, or given back."""
        for tag, message_id in named:
            del self._ids[tag]
            if in_transaction:
                self._in_transaction[tag] = message_id

    def committed(self) -> None:
        self._in_transaction.clear()

    def rolled_back(self) -> None:
        """What was acked in the transaction is unacked, under the tags that it had."""
        self._ids = dict(sorted([*self._ids.items(), *self._in_transaction.items()]))
        self._in_transaction.clear()

    def take_all(self) -> list[bytes]:
        """The ids of all that is unacked and waits in no transaction, which are given back."""
        ids, self._ids = list(self._ids.values()), {}
        return ids
