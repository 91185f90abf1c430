"""What is measured: the rows of the table."""

from dataclasses import dataclass, field, replace
from typing import Literal

from radiator.model.limits import KIB
from radiator.tools.cli.load import Shape

Kind = Literal["queue", "topic", "request"]

BODIES = (100, KIB, 64 * KIB)
TOPIC_SUBSCRIBERS = 100


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row. is_persistent: an answer to a SEND means that it is synced; otherwise nothing is stored at all.
    targets: the ratio to a peer that is to be reached with bodies of 1 KiB. subscribers: of a topic's."""

    kind: Kind
    shape: Shape
    is_persistent: bool
    body_bytes: int = KIB
    targets: dict[str, float] = field(default_factory=dict)
    subscribers: int = 0

    @property
    def name(self) -> str:
        return ("persistent " if self.is_persistent else "memory ") + self.shape.name

    def target(self, peer: str) -> float | None:
        return self.targets.get(peer) if self.body_bytes == KIB else None


WINDOW_16 = Shape(name="16 producers, window 100", producers=16, window=100)
END_TO_END = Shape(name="end to end, 8 + 8", producers=8, window=1, consumers=8)
END_TO_END_CONFIRMED = Shape(name="end to end, 8 + 8, confirmed", producers=8, window=1, consumers=8, ack_receipts=True)


def _queue(shape: Shape, is_persistent: bool, target: float | None = None) -> Case:
    targets = {} if target is None else {"beanstalkd": target}
    return Case(kind="queue", shape=shape, is_persistent=is_persistent, targets=targets)


TOPIC = Case(
    kind="topic",
    shape=Shape(name=f"topic to {TOPIC_SUBSCRIBERS}", producers=1, window=10),
    is_persistent=False,
    subscribers=TOPIC_SUBSCRIBERS,
    targets={"rabbitmq": 4},
)

CASES = (
    _queue(WINDOW_16, True, 12),
    _queue(Shape(name="1 producer, window 100", producers=1, window=100), True, 7),
    _queue(Shape(name="16 producers, one outstanding", producers=16, window=1), True, 2),
    _queue(Shape(name="1 producer, one outstanding", producers=1, window=1), True, 0.6),
    _queue(END_TO_END, True, 6),
    _queue(END_TO_END_CONFIRMED, True),
    _queue(END_TO_END, False, 1),
    _queue(END_TO_END_CONFIRMED, False),
    TOPIC,
    Case(
        kind="request",
        shape=Shape(name="request and reply, 8 + 8", producers=8, window=1, consumers=8, are_requests=True),
        is_persistent=False,
    ),
)


def rows(numbers: list[int], bodies: list[int]) -> list[Case]:
    """The cases of these numbers, from 1, with each of these bodies."""
    return [replace(CASES[number - 1], body_bytes=body) for number in numbers for body in bodies]
