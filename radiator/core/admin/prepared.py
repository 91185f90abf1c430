"""Requests about prepared transactions: commit, abort, what there is, and the last version of an app."""

from typing import Protocol

from radiator.core.ports import AnsweringPort
from radiator.core.request import Request
from radiator.core.transactions.prepared import PreparedTransactions
from radiator.model.administration import AbortPrefix, AbortPrepared, CommitPrepared, ListPrepared, ReadAppVersion
from radiator.model.answers import AppVersion, Prepared, PreparedAborted, PreparedCommitted
from radiator.model.limits import DESCRIBED_PREPARED
from radiator.model.numbers import Rows


class PreparedPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def prepared(self) -> PreparedTransactions: ...


def commit(request: Request[PreparedPort], command: CommitPrepared) -> None:
    """Commits several at once, as one version of an app."""
    count = request.parts.prepared.commit(request.connection, [*command.names], command.app, command.version)
    request.answer_synced(lambda: PreparedCommitted(count is not None, count or 0))


def abort(request: Request[PreparedPort], command: AbortPrepared) -> None:
    """Drops what is prepared under these names, where there is anything."""
    request.parts.prepared.abort([*command.names], lambda count: _answer_aborted(request, count))


def abort_prefix(request: Request[PreparedPort], command: AbortPrefix) -> None:
    """Drops what is prepared under names that begin so."""
    request.parts.prepared.abort_all(command.prefix, command.refuse_s, lambda count: _answer_aborted(request, count))


def _answer_aborted(request: Request[PreparedPort], count: int) -> None:
    request.answer_synced(lambda: PreparedAborted(count))


def listed(request: Request[PreparedPort], command: ListPrepared) -> None:
    """Answers with all that are not finished."""
    prepared = request.parts.prepared
    request.answer_in_slices(lambda: Prepared(Rows(iter(prepared.described(DESCRIBED_PREPARED))), prepared.count))


def version(request: Request[PreparedPort], command: ReadAppVersion) -> None:
    """Answers with the last version that was committed for the app, once that is on the disk."""
    prepared = request.parts.prepared
    if command.forget:
        prepared.forget_app(command.app)
    last = prepared.apps.get(command.app)
    request.answer_synced(lambda: AppVersion(None if last is None else last.version))
