"""Requests about prepared transactions: commit, abort, what there is, and the last version of an app."""

from dataclasses import asdict
from typing import Any

from radiator.core.admin.request import Request
from radiator.core.answers import Part
from radiator.model.errors import Refusal
from radiator.model.limits import DESCRIBED_PREPARED, NAME_MAX_BYTES, REFUSE_MAX_S, TIME_MAX_MS


def commit(request: Request) -> None:
    """Several at once, as one version of an app. `prefix` stands before each name."""
    request.has_only("prepared", "prefix", "app", "version")
    names, app, version = _names(request), name_in(request, "app"), request.number("version", TIME_MAX_MS)
    count = request.parts.prepared.commit(names, app, version)
    request.answer_synced(lambda: {"committed": count is not None, "messages": count or 0})


def abort(request: Request) -> None:
    """What is prepared under these names, or names that begin so, is let go of, where it is."""
    staging = request.parts.prepared

    def done(count: int) -> None:
        request.answer_synced(lambda: {"aborted": count})

    if "prepared" not in request.asked:
        request.has_only("prefix", "refuse_s")
        prefix = name_in(request, "prefix")
        staging.abort_all(prefix, request.number("refuse_s", REFUSE_MAX_S, 0), done)
    else:
        request.has_only("prepared", "prefix")
        staging.abort(_names(request), done)


def prepared(request: Request) -> None:
    """All that is not over."""
    request.has_only()
    staging = request.parts.prepared
    request.answer_in_slices(
        lambda: {"prepared": Part(map(asdict, staging.described(DESCRIBED_PREPARED))), "count": staging.count}
    )


def version(request: Request) -> None:
    """The last that was committed for the app, once that is on the disk. `forget`: the app is over."""
    request.has_only("app", "forget")
    app, staging = name_in(request, "app"), request.parts.prepared
    if request.flag("forget", False):
        staging.forget_app(app)
    last = staging.apps.get(app)
    request.answer_synced(lambda: {"version": None if last is None else last.version})


def name_in(request: Request, key: str) -> str:
    """A name of a prepared transaction, an app or a group."""
    return _name(key, request.asked.get(key))


def _names(request: Request) -> list[str]:
    given = request.asked.get("prepared")
    if not isinstance(given, list) or not given:
        raise Refusal("bad-request", f"`prepared` must be a list of names; it is {given!r:.80}.")
    prefix = name_in(request, "prefix") if "prefix" in request.asked else ""
    return [_name("prepared", prefix + name if isinstance(name, str) else name) for name in given]


def _name(key: str, value: Any) -> str:
    try:
        if isinstance(value, str) and 1 <= len(value.encode()) <= NAME_MAX_BYTES:
            return value
    except UnicodeEncodeError:
        pass  # half of a pair, as JSON can write it
    raise Refusal("bad-request", f"`{key}` must be a name of 1 to {NAME_MAX_BYTES} bytes; it is {value!r:.80}.")
