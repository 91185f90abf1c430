"""Whether the disk has room for more. While it does not, SENDs to persistent queues wait; nothing else does."""

from radiator.core.routing.admission import Admission
from radiator.core.routing.waiting import Waitable
from radiator.core.turn import Batch, TurnContext
from radiator.model.commands import Tick
from radiator.model.disk import NO_WAL
from radiator.model.limits import Limits, high_water_bytes


class DiskPressure:
    """store_used_bytes: used in the store's file; free_bytes: free on the disk for messages. Both are as of the last
    Tick, corrected for what was written since. map_size, high_water_bytes: how large the store may become, and the mark
    at which SENDs wait; free_min: what must stay free on the disk, in bytes.
    """

    __slots__ = (
        "admission", "checked_percent", "context", "file_system_free_bytes", "free_bytes", "free_min",
        "high_water_bytes", "map_size", "reusable_bytes", "store_used_bytes", "total_bytes", "unblocked", "wal",
        "wal_bytes", "wal_kept_bytes",
    )  # fmt: skip

    def __init__(
        self,
        context: TurnContext,
        limits: Limits,
        admission: Admission,
        unblocked: dict[Waitable, None],
        *,
        map_size: int,
        free_min: int,
    ) -> None:
        self.context = context
        self.admission = admission
        self.unblocked = unblocked
        self.map_size = map_size
        self.high_water_bytes = high_water_bytes(map_size, limits)
        self.free_min = free_min
        self.store_used_bytes = 0
        self.checked_percent = 0
        self.free_bytes = free_min + map_size  # until the first Tick
        self.file_system_free_bytes = self.reusable_bytes = self.wal_bytes = self.wal_kept_bytes = 0
        self.wal, self.total_bytes = NO_WAL, 0
        self.judge()

    def measured(self, event: Tick) -> None:
        """Takes the figures that a Tick has read."""
        self.free_bytes = event.disk_free_bytes
        self.file_system_free_bytes = event.file_system_free_bytes
        self.reusable_bytes = event.reusable_bytes
        self.wal_bytes, self.wal_kept_bytes = event.wal_bytes, event.wal_kept_bytes
        self.wal, self.total_bytes = event.wal, event.disk_total_bytes
        self.store_used_bytes = event.store_used_bytes
        self.checked_percent = event.checked_percent
        self.judge()

    def wrote(self, batch: Batch) -> None:
        """Called when a batch is about to be written: the marks must hold between two Ticks too."""
        self.store_used_bytes += batch.disk_bytes
        self.free_bytes -= min(batch.disk_bytes, max(0, self.free_bytes))
        self.judge()

    def judge(self) -> None:
        """Decides whether SENDs to persistent queues must wait, and logs a change."""
        wait_list = self.admission.disk_wait_list
        left_bytes = self.admission.disk_left_bytes = min(
            self.high_water_bytes - self.store_used_bytes, self.free_bytes - self.free_min
        )
        promised = self.admission.promised_bytes
        is_tight = left_bytes < promised + promised // 2
        if is_tight != wait_list.is_tight:
            wait_list.is_tight = self.admission.destinations.windows.is_disk_tight = is_tight
            if is_tight:
                self.context.note("warning", "disk_tight", **self.numbers())
            else:
                self.context.note("info", "disk_has_room", **self.numbers())
        if not is_tight and wait_list.waiters:
            self.unblocked[wait_list] = None

    def numbers(self) -> dict[str, int]:
        """Returns the figures as the log and `stats` have them."""
        return {
            "used_bytes": self.store_used_bytes,
            "map_size": self.map_size,
            "high_water_bytes": self.high_water_bytes,
            "reusable_bytes": self.reusable_bytes,
            "wal_bytes": self.wal_bytes,
            "wal_kept_bytes": self.wal_kept_bytes,
            "disk_free_bytes": self.file_system_free_bytes,
            "disk_room_bytes": self.free_bytes,
            "disk_free_min": self.free_min,
            "checked_percent": self.checked_percent,
        }
