"""Keeps what is shown to those who look at the broker: its history, orders of queues, and what needs somebody."""

from radiator.core.overview.attention import Seen
from radiator.core.overview.last_hour import LastHour, SampledPort
from radiator.core.overview.looks import Looks, SharedLook
from radiator.core.overview.orders import Orders


class Overview:
    """attention: what was seen last that needs attention. standing: by log and group, where a group that is behind was
    at the last look, and since when.
    """

    __slots__ = ("attention", "history", "looks", "orders", "standing")

    def __init__(self, port: SampledPort) -> None:
        self.looks = Looks(port.context)
        self.history = LastHour(port, self.looks)
        self.orders = Orders(self.looks, self.history.counters)
        self.attention: SharedLook[Seen] = SharedLook(self.looks)
        self.standing: dict[tuple[str, str], tuple[int, float]] = {}

    def ticked(self) -> None:
        """Called as time passes."""
        self.history.ticked()
        self.orders.ticked()
        if self.attention.found is not None and self.attention.is_forgotten():
            self.attention.forget()
