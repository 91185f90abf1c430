"""Decides which settings are in force for a queue: those of config.toml, and beside them what it was declared with."""

import json
from collections.abc import Mapping
from dataclasses import replace

from radiator.core.routing.fanouts import Fanout
from radiator.model.checks import shown
from radiator.model.errors import Refusal, StoreError, count_text
from radiator.model.keys import as_written
from radiator.model.priorities import max_priority_of
from radiator.model.settings import NODE, Declarations, QueueSettings
from radiator.model.validation import queue_settings

OUTBOX_PREFIX = "$outbox/"  # queues of copies that wait for another node, by its name
DURABLE_PREFIX = "$durable/"  # queues of durable subscriptions, by destination and id


def in_force(name: str, text: str, declarations: Declarations, all_fanouts: Mapping[str, Fanout]) -> QueueSettings:
    """Returns the settings in force for a queue of that name. text: what it was declared with at run time, which counts
    if config.toml has no table for this very name.
    """
    if name.startswith(OUTBOX_PREFIX):
        # an outbox remembers dedup-ids as long as any child of a fanout may
        fanouts = declarations.cluster_fanouts
        children = {child for fanout in fanouts for child in all_fanouts[fanout].children}
        windows_s = [declarations.queue_settings(child).dedup_window_s for child in children]
        return QueueSettings(dedup_window_s=max(windows_s, default=0))
    if name.startswith(DURABLE_PREFIX):
        # patterns have words between dots: so `$durable.topic.#` is for all of topics
        settings = declarations.queue_settings(name.replace("/", "."))
        settings = settings if settings.persistent else QueueSettings()
        return replace(
            settings,
            auto_delete=False,
            exclusive=False,
            scope=NODE,
            schema=None,
            partition_key=(),
            partition_window=1,
            max_priority=None,
            single_active_consumer=False,
        )
    settings = declarations.queue_settings(name)
    if not text or name in declarations.queues:
        return settings
    try:
        return queue_settings(json.loads(text), settings)
    except Refusal as refusal:
        raise unfit(name, text, refusal) from refusal


def unfit(name: str, text: str, refusal: Refusal) -> StoreError:
    """Returns why these settings stop a start, or a reload."""
    return StoreError(
        f"/queue/{name} was declared at run time with {text}, which does not go with config.toml: {refusal} "
        "Change the pattern that it comes from there, or give the queue a table of its own."
    )


def keyed_otherwise(name: str, sources: tuple[str, ...], keyed_by: tuple[str, ...], count: int) -> StoreError:
    """Returns why another partition_key or max_priority of a queue stops a start. sources, keyed_by: what its messages
    are declared to be found by, and what they are stored by.
    """
    stored = count_text(count, "message of it is", "messages of it are")
    return StoreError(
        f"/queue/{name} is declared {_with(sources, keyed_by)}, but {stored} stored {_with(keyed_by, sources)}: "
        f"start {_with(keyed_by, sources)} "
        "and consume, move or purge what it holds first."
    )


def _with(sources: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Returns what its messages are found by, in words. other: the other way, which it is contrasted with."""
    highest = max_priority_of(sources)
    if highest is not None:
        return f"with max_priority = {highest}"
    if not sources and max_priority_of(other) is not None:
        return "without max_priority"
    return f"with partition_key = {shown(as_written(sources))}" if sources else "without partition_key"
