"""The queues for which policies of RabbitMQ hold, as tables of config.toml.

A queue that is declared there may be declared over AMQP without the settings that its table has: so programs that have
relied on policies go on unchanged.
"""

from dataclasses import fields
from typing import Any

from radiator.model.settings import QueueSettings
from radiator.protocols.amqp.arguments import queue_settings, settings_if_new
from radiator.tools.migrate.definitions import DefinedQueue
from radiator.tools.migrate.plan import MigrationPlan

_DEFAULTS = {one.name: one.default for one in fields(QueueSettings)}


def tables_of(plan: MigrationPlan) -> dict[str, dict[str, Any]]:
    """Returns all settings of each queue of the plan to which a policy gives arguments, by the queue's name."""
    return {queue.name: _settings(queue) for queue in plan.by_policy}


def _settings(queue: DefinedQueue) -> dict[str, Any]:
    given = queue_settings(queue.arguments, queue.durable, queue.auto_delete)
    settings = settings_if_new(given) | given
    return {key: value for key, value in settings.items() if value != _DEFAULTS[key]}
