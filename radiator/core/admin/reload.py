"""The request to read config.toml again: the file that the broker was started with, and no other."""

from radiator.core.admin.request import Request
from radiator.core.reload import Reload
from radiator.model.errors import Refusal


def reload(request: Request) -> None:
    """What has changed in it takes effect, or with dry_run is only told."""
    request.has_only("dry_run")
    broker = request.broker
    is_trial = request.flag("dry_run", False)
    if broker.reload is not None:
        raise Refusal("in-use", "The configuration is being read again already: ask when that has ended.")
    broker.reload = Reload(broker, request, is_trial)
    broker.context.turn.reread = True
