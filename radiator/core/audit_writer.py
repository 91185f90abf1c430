"""Writes the audit log: a line in the process's log, and a record in `/log/audit` where the journal is on.

A record goes into the open batch, beside the change that it is about. In AUDIT_EVERY_S an event has a bounded number of
records for one user or network, and in all; the others are counted, and a record at the end of that time says how many.
"""

from collections.abc import Callable, Mapping
from heapq import nlargest

from radiator.core.connections import Connection
from radiator.core.logs.log import Log
from radiator.core.turn import TurnContext
from radiator.model.addresses import LOG
from radiator.model.audit import ACT, BEGUN, FORBIDDEN, LEFT_OUT, LOGIN, LOGIN_REFUSED, Act, Value, as_json
from radiator.model.headers import CONTENT_TYPE, ESCAPING_ALL, block_of
from radiator.model.limits import AUDIT_EVERY_S, AUDIT_LISTED, AUDIT_NAMES_MAX, AUDIT_OF_ONE, AUDIT_RECORDS
from radiator.model.message import Message
from radiator.model.principal import Principal
from radiator.model.settings import AUDIT

_HEADERS = block_of(ESCAPING_ALL, (CONTENT_TYPE, b"application/json"))


class AuditWriter:
    """log: the log of the records; None: none are kept. counts: how often each event happened in this period, for each
    user or network; of_event: how many records each event has; left_out: how many it lacks because it has
    AUDIT_RECORDS; until_s: the period's end. size_max: as in journal_writer.py.
    """

    __slots__ = ("context", "counts", "left_out", "log", "of_event", "size_max", "until_s")

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.log: Log | None = None
        self.counts: dict[tuple[str, str], int] = {}
        self.of_event: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.until_s = 0.0
        self.size_max: int | None = None

    # ---- what is told -----------------------------------------------------------------------------------------------

    def logged_in(self, connection: Connection) -> None:
        """Called when a client has proved who it is."""
        principal = connection.principal
        by = str(principal.recognised_by)
        self.context.note("info", "logged_in", connection=connection.number, user=principal.name, by=by)
        self.record(LOGIN, principal.name, **_client(connection))

    def login_refused(self, name: str, peer: str, network: str) -> None:
        """Called when a login was refused. name: as it was given. The log line is the server's."""
        self.record(LOGIN_REFUSED, network, user=name, peer=peer)

    def forbidden(self, connection: Connection, sentence: str) -> None:
        """Called when a right is missing. The log line is that of any refusal."""
        self.record(FORBIDDEN, connection.principal.name, **_client(connection), sentence=sentence)

    def acted(self, connection: Connection, act: Act, on: str, outcome: str, code: str = "") -> None:
        """Called when an operator's act was begun, done, or refused with that code."""
        name = connection.principal.name
        fields = {"act": act.what, "on": on, "outcome": outcome, "code": code}
        given = {key: value for key, value in fields.items() if value}
        self.context.note("info", "administered", connection=connection.number, user=name, **given)
        self.record(ACT, name, **_client(connection), **fields)

    def reloaded(self, outcome: str) -> None:
        """Called when a signal had config.toml read again."""
        self.record(ACT, "", act="reload", outcome=outcome, by="signal")

    # ---- records ----------------------------------------------------------------------------------------------------

    def record(self, event: str, of: str, **fields: Value) -> None:
        """Writes one record, unless the event has too many, in all or for this user or network."""
        if self.log is None or self.context.is_stopping:
            return
        key = (event, of)
        count = self.counts.get(key, 0)
        if count or len(self.counts) < AUDIT_NAMES_MAX:
            self.counts[key] = count + 1
        if count >= AUDIT_OF_ONE[event]:
            return
        written = self.of_event.get(event, 0)
        if written >= AUDIT_RECORDS:
            self.left_out[event] = self.left_out.get(event, 0) + 1
            return
        self.of_event[event] = written + 1
        self._append(event, fields)

    def _append(self, event: str, fields: Mapping[str, Value]) -> None:
        assert self.log is not None
        now_ms = self.context.now_ms
        body = as_json(event, now_ms, dict(fields))
        self.log.put(Message(f"/{LOG}/{AUDIT}", _HEADERS, ESCAPING_ALL, body, now_ms))

    def ticked(self, keep_within: Callable[[int], bool], is_tight: bool) -> None:
        """Called as time passes: records what the last period left out. While the disk is tight the log does not grow:
        its oldest records make room.
        """
        log = self.log
        if log is None:
            return
        if self.context.now_s >= self.until_s:
            self._end_period()
        if not is_tight:
            self.size_max = None
        elif self.size_max is None:
            self.size_max = log.partitions[0].size
        else:
            keep_within(self.size_max)

    def _end_period(self) -> None:
        self.until_s = self.context.now_s + AUDIT_EVERY_S
        counts, self.counts, self.of_event = self.counts, {}, {}
        others, self.left_out = self.left_out, {}
        beyond = {key: count - AUDIT_OF_ONE[key[0]] for key, count in counts.items() if count > AUDIT_OF_ONE[key[0]]}
        for key in nlargest(AUDIT_LISTED, beyond, key=lambda key: beyond[key]):
            whose = "network" if key[0] == LOGIN_REFUSED else "user"
            self._append(LEFT_OUT, {"of": key[0], whose: key[1], "records": beyond.pop(key)})
        for (event, _), count in beyond.items():
            others[event] = others.get(event, 0) + count
        for event, count in others.items():
            self._append(LEFT_OUT, {"of": event, "records": count})


def _client(connection: Connection) -> dict[str, Value]:
    principal: Principal = connection.principal
    found: dict[str, Value] = {
        "user": principal.name,
        "by": str(principal.recognised_by),
        "peer": connection.peer,
        "connection": connection.number,
    }
    if connection.owner != connection.number:  # a channel: its connection is what has logged in
        found["channel_of"] = connection.owner
    return found


class PendingAct:
    """One act that is being carried out: `begun` where it takes longer than its turn, then one outcome."""

    __slots__ = ("act", "connection", "is_over", "on", "writer")

    def __init__(self, writer: AuditWriter, connection: Connection, act: Act, on: str) -> None:
        self.writer = writer
        self.connection = connection
        self.act = act
        self.on = on
        self.is_over = False

    def begun(self) -> None:
        """Records that the act continues in later turns, unless it is over."""
        if not self.is_over:
            self.writer.acted(self.connection, self.act, self.on, BEGUN)

    def ended(self, outcome: str, code: str = "") -> None:
        """Records the outcome, once."""
        if not self.is_over:
            self.is_over = True
            self.writer.acted(self.connection, self.act, self.on, outcome, code)
