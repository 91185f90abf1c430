"""The audit log: who has logged in, who was refused, and what operators have done (docs/JOURNAL.md, The audit log)."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from radiator.model import administration as asked
from radiator.model.limits import AUDIT_VALUE_CHARACTERS

LOGIN, LOGIN_REFUSED, FORBIDDEN, ACT, LEFT_OUT = "login", "login-refused", "forbidden", "act", "left-out"
EVENTS = (LOGIN, LOGIN_REFUSED, FORBIDDEN, ACT, LEFT_OUT)
BEGUN, DONE, REFUSED = "begun", "done", "refused"
OUTCOMES = (BEGUN, DONE, REFUSED)
BROKER = "$broker"
"""Who has made the audit log: no user has such a name."""

Value = str | int


@dataclass(frozen=True, slots=True)
class Act:
    """What one type of request to /admin is in the audit log. what: its name. on: what one command is done to; "": the
    broker as a whole. is_act: whether one command is an act at all.
    """

    command: type
    what: str
    on: Callable[[Any], str] = lambda command: ""
    is_act: Callable[[Any], bool] = lambda command: True


def _queue(name: str) -> str:
    return f"/queue/{name}"


def _peeked(command: asked.PeekQueue) -> str:
    one = "" if command.message_id is None else f" {command.message_id}"
    return f"{_queue(command.queue)}{one}"


def _of_group(command: asked.SetPosition | asked.ForgetPosition) -> str:
    return f"/log/{command.log} {command.group}"


ACTS: tuple[Act, ...] = (
    Act(asked.DeclareDestination, "declare", lambda c: f"/{c.kind}/{c.name}", lambda c: not c.passive),
    Act(asked.DeleteDestination, "delete", lambda c: f"/{c.kind}/{c.name}"),
    Act(asked.PurgeQueue, "purge", lambda c: _queue(c.queue)),
    Act(asked.PeekQueue, "peek", _peeked, lambda c: c.body_from == 0),
    Act(asked.MoveMessages, "move", lambda c: f"{_queue(c.source)} {_queue(c.target)}"),
    Act(asked.ReturnMessages, "return", lambda c: _queue(c.queue)),
    Act(asked.ReleaseCheckout, "checkout-release", lambda c: f"{_queue(c.queue)} {c.group}"),
    Act(asked.DrainConsumer, "consumer-drain", lambda c: f"{_queue(c.queue)} {c.name}"),
    Act(asked.CloseConnection, "disconnect", lambda c: f"connection {c.number}"),
    Act(asked.ExtendUnacked, "extend-unacked", lambda c: f"{_queue(c.queue)} {c.message_id}"),
    Act(asked.AddBinding, "bind", lambda c: f"/exchange/{c.exchange}/{c.key} {c.target}"),
    Act(asked.RemoveBinding, "unbind", lambda c: f"/exchange/{c.exchange}/{c.key} {c.target}"),
    Act(asked.SetPosition, "position", _of_group),
    Act(asked.ForgetPosition, "position-forget", _of_group),
    Act(asked.AbortPrefix, "abort-prefix", lambda c: str(c.prefix)),
    Act(asked.ReadAppVersion, "version-forget", lambda c: str(c.app), lambda c: bool(c.forget)),
    Act(asked.ReleasePeer, "peer-release", lambda c: str(c.peer)),
    Act(asked.DropCopies, "peer-drop", lambda c: str(c.peer)),
    Act(asked.KeepCopies, "peer-keep", lambda c: str(c.peer)),
    Act(asked.DrainNode, "drain", lambda c: "stop" if c.stop else ""),
    Act(asked.ReloadConfiguration, "reload", is_act=lambda c: not c.is_trial),
)
NO_ACTS: tuple[type, ...] = (
    asked.ReadStats, asked.ReadSection, asked.ReadReadiness, asked.ListQueues, asked.ExplainQueue, asked.ExplainLog,
    asked.ExplainMessage, asked.ExplainTrace, asked.ExplainCorrelation,
    asked.DescribeDestination, asked.AwaitQueue, asked.TakeCheckout,
    asked.AckCheckout, asked.FindOffsets, asked.AwaitLog, asked.AwaitLogs, asked.ReadPosition, asked.SetPrefetch,
    asked.ExtendAckTimeout, asked.CommitPrepared, asked.AbortPrepared, asked.ListPrepared, asked.ListPeers,
    asked.ListConsumers, asked.RegisterConsumer, asked.ReadScale, asked.ListConnections, asked.DescribeConnection,
    asked.ListUnacked,
    asked.ReadConfiguration, asked.ReadBounds,
    asked.ReadDisk, asked.ReadLogLines,
    *get_args(asked.OverviewCommand),
    asked.FindRoute, asked.AskRight,
)  # fmt: skip
"""Requests that only look, and those of programs about their own messages and transactions."""
_BY_COMMAND = {act.command: act for act in ACTS}


def act_of(command: asked.AdminCommand) -> Act | None:
    """The act that a command is; None: it is none."""
    act = _BY_COMMAND.get(type(command))
    return act if act is not None and act.is_act(command) else None


def as_json(event: str, ms: int, fields: dict[str, Value]) -> bytes:
    """The body of a record. What is empty is absent; long values are cut."""
    row = {name: _cut(value) for name, value in fields.items() if value != ""}
    return json.dumps({"event": event, "ms": ms, **row}, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )


def _cut(value: Value) -> Value:
    if isinstance(value, str) and len(value) > AUDIT_VALUE_CHARACTERS:
        return f"{value[:AUDIT_VALUE_CHARACTERS]}..."
    return value
