"""Settings that are valid, and have no effect beside the others of a queue or a log."""

from radiator.model.checks import shown, size_text
from radiator.model.settings import BLOCK, READY, LogSettings, QueueSettings


def without_effect(settings: QueueSettings, store_bytes: int, memory_bytes: int) -> list[tuple[str, str]]:
    """Settings of one queue, other than the defaults, that have no effect beside the others: the key, and the text that
    follows it. store_bytes: what the store takes before SENDs wait; memory_bytes: max_memory_bytes.
    """
    found, defaults = [], QueueSettings()
    if settings.overflow != BLOCK and settings.max_messages is None and settings.max_bytes is None:
        wrong = f"is {shown(settings.overflow)}, but the queue has no bound"
        found.append(("overflow", f"{wrong}; give max_messages or max_bytes"))
    if settings.bounds_count == READY and settings.max_messages is None and settings.max_bytes is None:
        wrong = f"is {shown(settings.bounds_count)}, but the queue has no bound"
        found.append(("bounds_count", f"{wrong}; give max_messages or max_bytes"))
    if not settings.has_dead_letters and settings.max_redeliveries != defaults.max_redeliveries:
        wrong = f"is {settings.max_redeliveries}, but without dead_letter a message comes back without limit"
        found.append(("max_redeliveries", f"{wrong}; name a dead_letter, or give drop_after_redeliveries"))
    for key in ("redelivery_delay_factor", "redelivery_delay_max_ms"):
        value = getattr(settings, key)
        if value == getattr(defaults, key):
            continue
        if not settings.redelivery_delay_ms:
            found.append((key, f"is {value}, but redelivery_delay_ms is 0; set that"))
        elif key == "redelivery_delay_max_ms" and settings.redelivery_delay_factor == 1:
            found.append((key, f"is {value}, but with redelivery_delay_factor = 1 no delay grows; leave it out"))
    most, what = (store_bytes, "the store") if settings.persistent else (memory_bytes, "max_memory_bytes")
    if settings.max_bytes is not None and settings.max_bytes > most:
        wrong = f"is {size_text(settings.max_bytes)}, more than {what} holds ({size_text(most)})"
        found.append(("max_bytes", f"{wrong}, so that is the bound; lower this, or raise {_raised(settings)}"))
    return found


def _raised(settings: QueueSettings) -> str:
    return "map_size" if settings.persistent else "max_memory_bytes"


def log_without_effect(settings: LogSettings, store_bytes: int) -> list[tuple[str, str]]:
    """Returns the settings of a log that have no effect, and why."""
    found = []
    if settings.partition_key is not None and settings.partitions == 1:
        wrong = f"is {shown(settings.partition_key)}, but the log has one partition, which takes every key"
        found.append(("partition_key", f"{wrong}; leave it out"))
    if settings.retention_bytes is not None and settings.retention_bytes > store_bytes:
        wrong = f"is {size_text(settings.retention_bytes)}, more than the store holds ({size_text(store_bytes)})"
        found.append(("retention_bytes", f"{wrong}: SENDs wait before anything goes; lower this, or raise map_size"))
    return found
