"""The request to read config.toml again: the file that the broker was started with, and no other."""

from radiator.core.admin.request import Request
from radiator.model.errors import Refusal


def reload(request: Request) -> None:
    """What has changed in it takes effect, or with dry_run is only told."""
    request.has_only("dry_run")
    parts = request.parts
    is_trial = request.flag("dry_run", False)
    if parts.reload.is_under_way:
        raise Refusal("in-use", "The configuration is being read again already: ask when that has ended.")
    parts.reload.begin(request, is_trial)
