"""The audit log, on a whole broker without sockets: who came, who was refused, what was done; and floods of these."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.core.rights import Rights
from radiator.model.audit import ACTS, EVENTS
from radiator.model.commands import Administer, LoginRefused, Open, Reread
from radiator.model.headers import ESCAPING_ALL
from radiator.model.limits import AUDIT_EVERY_S, AUDIT_LISTED, AUDIT_NAMES_MAX, AUDIT_OF_ONE, AUDIT_RECORDS
from radiator.model.principal import Principal, RecognisedBy, node_principal, unix_principal
from radiator.model.replies import Refuse, RefusedReceipt
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import AUDIT, JOURNAL, Config, Declarations, LogSettings, QueueSettings
from radiator.model.users import User
from radiator.model.writes import Append
from radiator.protocols.administration import JSON
from tests.core.node import Node
from tests.core.words import send, subscribe

LOGS = {JOURNAL: LogSettings(), AUDIT: LogSettings(), "l": LogSettings()}
DECLARED = Declarations(
    create_queues=True, create_topics=True, has_journal=True, logs=LOGS, queues={"q": QueueSettings()}
)
USERS = {
    "ann": User(name="ann", rules=Rules(role=OPERATOR)),
    "bob": User(name="bob", rules=Rules(write=("/queue/q",))),
}
Record = dict[str, Any]


class Watched(Node):
    """Keeps the records of the audit log, as they are committed."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self.records: list[Record] = []
        super().__init__(*given, **more)

    def commit(self) -> None:
        assert self.being_committed is not None
        audit = self.broker.destinations.logs.all.get(AUDIT)
        for write in self.being_committed.writes:
            if isinstance(write, Append) and audit is not None and write.log == audit.number:
                self.records.append(json.loads(write.message.body))
        super().commit()

    def new(self, event: str = "") -> list[Record]:
        """Those since the last look, without what all have."""
        found, self.records = self.records, []
        assert all(one.pop("ms") and one["event"] in EVENTS for one in found)
        return [one for one in found if event in ("", one["event"])]

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Those of the process's log since the last look."""
        found, self.notes = [note for note in self.notes if note.event == event], []
        return [dict(note.fields) for note in found]


def node_of(declared: Declarations = DECLARED, users: Any = USERS, platter: Any = None) -> Watched:
    logs = dict(declared.logs)
    authorizer = Rights(users, 1000) if users else None
    return Watched(replace(declared, logs=logs), platter=platter, authorizer=authorizer)


def join(node: Watched, number: int, name: str, by: RecognisedBy = RecognisedBy.TOKEN) -> None:
    node.inbox[number], node.delivers[number] = [], 0
    node.turn([Open(number, principal=Principal(name, by), address=f"192.0.2.{number}:7")])


def ask(number: int, **request: Any) -> Administer:
    return Administer(number, json.dumps(request).encode(), JSON, ESCAPING_ALL)


# ---- logins ---------------------------------------------------------------------------------------------------------


def test_who_logs_in_from_where_by_what() -> None:
    node = node_of()
    join(node, 1, "ann")
    join(node, 2, "bob", RecognisedBy.CERTIFICATE)
    node.turn([Open(3, principal=unix_principal(0, 0), address="unix/pid:4/uid:0")])
    node.turn([Open(4, principal=node_principal("b"))])
    assert node.new() == [
        {"event": "login", "user": "ann", "by": "token", "peer": "192.0.2.1:7", "connection": 1},
        {"event": "login", "user": "bob", "by": "certificate", "peer": "192.0.2.2:7", "connection": 2},
        {"event": "login", "user": "uid:0", "by": "peer-credentials", "peer": "unix/pid:4/uid:0", "connection": 3},
        {"event": "login", "user": "b", "by": "link-proof", "connection": 4},
    ]
    assert node.lines("logged_in")[0] == {"connection": 1, "user": "ann", "by": "token"}


def test_who_is_not_let_in() -> None:
    node = node_of()
    node.turn([LoginRefused('eve"\n', "192.0.2.1:7", "192.0.2.1")])
    assert node.new() == [{"event": "login-refused", "user": 'eve"\n', "peer": "192.0.2.1:7"}]


def test_without_users_nobody_logs_in() -> None:
    node = node_of(users=None)
    node.open(1)
    assert node.new() == [] and node.lines("logged_in") == []


# ---- refusals -------------------------------------------------------------------------------------------------------

SENTENCE = "The user bob may not read /queue/q: there is no rule of `read` that matches it."


def who(number: int, name: str) -> Record:
    return {"user": name, "by": "token", "peer": f"192.0.2.{number}:7", "connection": number}


@pytest.mark.parametrize(
    "command",
    [
        subscribe(1, "q"),
        ask(1, do="position", log="l", group="g"),
        send(1, "elsewhere"),
        send(1, "elsewhere", receipt=b"r", survives_refusal=True),
    ],
)
def test_a_missing_right_is_written_down(command: Any) -> None:
    node = node_of()
    join(node, 1, "bob")
    node.new()
    node.say(command)
    (record,) = node.new()
    sentence = record.pop("sentence")
    assert record == {"event": "forbidden", **who(1, "bob")} and sentence.startswith("The user bob may not ")
    (line,) = node.lines("refused")
    assert line["sentence"] == sentence and line["code"] == "forbidden"
    assert any(isinstance(reply, Refuse | RefusedReceipt) for reply in node.take(1))


def test_a_request_that_is_forbidden_and_answered_is_written_down() -> None:
    node = node_of()
    join(node, 1, "bob")
    node.new()
    assert node.admin(1, do="purge", queue="q")["code"] == "forbidden"
    (record,) = node.new()
    assert record["event"] == "forbidden" and "declare /queue/q" in record["sentence"]
    assert len(node.lines("refused")) == 1


def test_what_a_reload_takes_away_is_written_down() -> None:
    node = node_of()
    users = {"bob": User(name="bob", rules=Rules(read=("/queue/q",)))}
    node = node_of(users=users | {"ann": USERS["ann"]})
    join(node, 1, "bob")
    node.say(subscribe(1, "q"))
    node.new()
    declared = replace(node.declarations)
    node.turn([Reread(Config(data_dir=Path("/d"), declarations=declared, users=USERS, disk_free_min=0))])
    assert [(one["event"], one.get("act")) for one in node.new()] == [("forbidden", None), ("act", "reload")]


def test_another_refusal_is_not_of_the_audit_log() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    node.say(send(1, "a.*"))
    assert node.new() == []


# ---- acts -----------------------------------------------------------------------------------------------------------

DONE: list[tuple[dict[str, Any], Record]] = [
    ({"do": "declare", "queue": "n"}, {"act": "declare", "on": "/queue/n"}),
    ({"do": "declare", "exchange": "x", "type": "direct"}, {"act": "declare", "on": "/exchange/x"}),
    ({"do": "bind", "exchange": "x", "key": "k", "queue": "n"}, {"act": "bind", "on": "/exchange/x/k n"}),
    ({"do": "unbind", "exchange": "x", "key": "k", "queue": "n"}, {"act": "unbind", "on": "/exchange/x/k n"}),
    ({"do": "peek", "queue": "q", "count": 1}, {"act": "peek", "on": "/queue/q"}),
    ({"do": "position", "log": "l", "group": "g", "offsets": [0]}, {"act": "position", "on": "/log/l g"}),
    ({"do": "position", "log": "l", "group": "g", "forget": True}, {"act": "position-forget", "on": "/log/l g"}),
    ({"do": "abort", "prefix": "p" * 16}, {"act": "abort-prefix", "on": "p" * 16}),
    ({"do": "version", "app": "a", "forget": True}, {"act": "version-forget", "on": "a"}),
    ({"do": "consumer-drain", "queue": "q", "name": "p1"}, {"act": "consumer-drain", "on": "/queue/q p1"}),
    ({"do": "delete", "queue": "n"}, {"act": "delete", "on": "/queue/n"}),
]
LONG: list[tuple[dict[str, Any], Record]] = [
    ({"do": "purge", "queue": "q"}, {"act": "purge", "on": "/queue/q"}),
    ({"do": "move", "from": "q", "to": "l2", "create": True}, {"act": "move", "on": "/queue/q /queue/l2"}),
    ({"do": "return", "queue": "q"}, {"act": "return", "on": "/queue/q"}),
    ({"do": "reload"}, {"act": "reload"}),
]
REFUSED: list[tuple[dict[str, Any], Record]] = [
    ({"do": "peer-release", "peer": "b", "force": True}, {"act": "peer-release", "on": "b", "code": "no-node"}),
    ({"do": "peer-drop", "peer": "b", "force": True}, {"act": "peer-drop", "on": "b", "code": "no-node"}),
    ({"do": "peer-keep", "peer": "b"}, {"act": "peer-keep", "on": "b", "code": "no-node"}),
    ({"do": "drain"}, {"act": "drain", "code": "no-node"}),
    (
        {"do": "disconnect", "number": 77},
        {"act": "disconnect", "on": "connection 77", "code": "no-such-connection"},
    ),
    (
        {"do": "extend-unacked", "queue": "q", "message_id": "s-1-1", "seconds": 5},
        {"act": "extend-unacked", "on": "/queue/q s-1-1", "code": "not-unacked"},
    ),
    ({"do": "delete", "queue": "q"}, {"act": "delete", "on": "/queue/q", "code": "declared"}),
    ({"do": "purge", "queue": "none"}, {"act": "purge", "on": "/queue/none", "code": "no-such-destination"}),
    (
        {"do": "checkout-release", "queue": "q", "group": "g"},
        {"act": "checkout-release", "on": "/queue/q g", "code": "no-such-destination"},
    ),
]


def test_each_act_has_a_case_here() -> None:
    assert {record["act"] for _, record in (*DONE, *LONG, *REFUSED)} == {act.what for act in ACTS}


def test_acts_are_written_down_with_who_and_what_came_of_them() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    for request, record in DONE:
        node.admin(1, **request)
        assert node.new() == [{"event": "act", **who(1, "ann"), **record, "outcome": "done"}], request
        assert [line["act"] for line in node.lines("administered")] == [record["act"]]


def test_the_parts_of_one_look_are_one_act() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.say(send(1, "q", b"abc"))
    one = node.admin(1, do="peek", queue="q")["messages"][0]["message_id"]
    node.new()
    for begin in range(3):
        node.admin(1, do="peek", queue="q", message=one, **{"from": begin})
    (record,) = node.new()
    assert (record["act"], record["on"], record["outcome"]) == ("peek", f"/queue/q {one}", "done")
    node.admin(1, do="peek", queue="q", message="a-1-1")
    (record,) = node.new()
    assert (record["outcome"], record["code"]) == ("refused", "no-such-message")


def test_long_acts_are_written_down_as_they_begin_and_end() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    node.say(*(send(1, "q") for _ in range(5000)))
    node.reread = lambda: same(node)
    for request, record in LONG:
        node.admin(1, **request)
        outcomes = [one["outcome"] for one in node.new("act") if one["act"] == record["act"]]
        assert outcomes[-1] == "done" and outcomes[:-1] in ([], ["begun"]), (request, outcomes)
    node.reread = lambda: Reread(None, mistakes=["It is wrong."])
    node.admin(1, do="reload")
    assert [(one["outcome"], one.get("code")) for one in node.new("act")] == [
        ("begun", None), ("refused", "configuration"),
    ]  # fmt: skip


def test_acts_that_are_refused_are_written_down() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    for request, record in REFUSED:
        assert not node.admin(1, **request)["ok"], request
        assert node.new() == [{"event": "act", **who(1, "ann"), **record, "outcome": "refused"}], request


def test_an_act_without_a_reply_to_is_written_down_all_the_same() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    node.say(ask(1, do="purge", queue="q"))
    assert node.new()[-1]["outcome"] == "done"
    node.say(ask(1, do="purge", queue="none"))
    assert [one["outcome"] for one in node.new()] == ["refused"]


def test_declaring_what_is_there_is_no_act() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.new()
    node.admin(1, do="declare", queue="q")
    node.admin(1, do="stats", section="queues")
    assert node.new() == [] and node.lines("administered") == []


def test_a_reload_by_a_signal_is_written_down() -> None:
    node = node_of()
    node.turn([Reread(None, mistakes=["It is wrong."])])
    node.turn([same(node)])
    outcomes = [(one["act"], one["by"], one["outcome"]) for one in node.new()]
    assert outcomes == [("reload", "signal", "refused"), ("reload", "signal", "done")]


def test_an_act_is_in_the_batch_of_its_change() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.auto = False
    before = node.broker.context.open.number
    node.say(ask(1, do="declare", queue="n"))
    batch = node.broker.seal()
    assert batch is not None and batch.number == before
    assert {"Append", "Declare"} <= {type(write).__name__ for write in batch.writes}


# ---- the log --------------------------------------------------------------------------------------------------------


def test_nobody_but_the_broker_writes_it() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.say(send(1, "/log/audit"))
    assert isinstance(node.take(1)[-1], Refuse)
    join(node, 2, "ann")
    for request in (
        {"do": "bind", "exchange": "amq.topic", "key": "k", "queue": "/log/audit"},
        {"do": "declare", "fanout": "f", "children": ["/log/audit"]},
        {"do": "delete", "log": "audit"},
    ):
        assert not node.admin(2, **request)["ok"]


def test_it_is_read_by_who_may_read_it() -> None:
    node = node_of()
    join(node, 1, "ann")
    node.say(subscribe(1, "/log/audit", ack="auto"))
    join(node, 2, "bob")
    assert [json.loads(one.message.body)["user"] for one in node.messages(1)] == ["bob"]
    node.say(subscribe(2, "/log/audit"))
    assert isinstance(node.take(2)[-1], Refuse)


def test_it_goes_on_after_a_restart_and_is_the_brokers_with_the_journal_off_too() -> None:
    node = node_of()
    join(node, 1, "ann")
    again = node_of(platter=node.disk.platter)
    assert again.broker.destinations.logs.all[AUDIT].records == 1
    off = node_of(replace(DECLARED, has_journal=False, logs={}), platter=node.disk.platter)
    join(off, 1, "ann")
    assert off.new() == []
    off.say(send(1, "/log/audit"))
    assert isinstance(off.take(1)[-1], Refuse)


def test_a_log_of_clients_with_its_name_stops_the_start() -> None:
    node = Node(Declarations(logs={"audit": LogSettings()}))
    with pytest.raises(Exception, match="is a log of clients, and with the journal it is kept for the audit log"):
        node_of(platter=node.disk.platter)


def test_without_the_journal_there_are_lines_alone() -> None:
    node = node_of(replace(DECLARED, has_journal=False, logs={"l": LogSettings()}))
    join(node, 1, "ann")
    node.admin(1, do="purge", queue="q")
    assert node.new() == []
    assert len(node.lines("administered")) >= 1


# ---- floods ---------------------------------------------------------------------------------------------------------


def refuse_logins(node: Watched, count: int, network: str) -> None:
    node.turn([LoginRefused("eve", f"{network}:{number}", network) for number in range(count)])


def same(node: Watched) -> Reread:
    """The file says what is in force."""
    declared = replace(node.declarations)
    return Reread(Config(data_dir=Path("/d"), declarations=declared, users=USERS, disk_free_min=0))


def periods_end(node: Watched) -> None:
    node.wait(AUDIT_EVERY_S)


@pytest.mark.parametrize(("more", "left_out"), [(0, []), (1, [1]), (500, [500])])
def test_so_many_of_one_and_then_their_number(more: int, left_out: list[int]) -> None:
    node = node_of()
    periods_end(node)
    most = AUDIT_OF_ONE["login-refused"]
    refuse_logins(node, most + more, "192.0.2.1")
    assert len(node.new()) == most
    periods_end(node)
    wanted = [{"event": "left-out", "of": "login-refused", "network": "192.0.2.1", "records": n} for n in left_out]
    assert node.new() == wanted
    refuse_logins(node, 1, "192.0.2.1")
    periods_end(node)
    assert [one["event"] for one in node.new()] == ["login-refused"]


def test_one_that_floods_leaves_out_nobody_else() -> None:
    node = node_of()
    join(node, 1, "bob")
    join(node, 2, "ann")
    node.new()
    node.say(*(send(1, "other", receipt=b"r", survives_refusal=True) for _ in range(100)))
    refuse_logins(node, 1, "192.0.2.7")
    node.admin(2, do="purge", queue="none")
    found = [one["event"] for one in node.new()]
    assert found.count("forbidden") == AUDIT_OF_ONE["forbidden"] and found[-2:] == ["login-refused", "act"]


@pytest.mark.parametrize("networks", [AUDIT_LISTED + 5, AUDIT_NAMES_MAX + 500])
def test_many_that_flood_are_bounded_together(networks: int) -> None:
    node = node_of()
    periods_end(node)
    for number in range(networks):
        refuse_logins(node, 12, f"network {number}")
    written = len(node.new())
    assert written == min(AUDIT_RECORDS, networks * AUDIT_OF_ONE["login-refused"])
    periods_end(node)
    counts = node.new()
    assert len(counts) <= AUDIT_LISTED + 1 and sum(one["records"] for one in counts) == networks * 12 - written
    assert len(node.broker.parts.audit.counts) <= AUDIT_NAMES_MAX


def test_while_the_disk_is_tight_it_grows_no_more() -> None:
    declared = replace(DECLARED, logs=LOGS | {AUDIT: LogSettings(retention_bytes=200_000)})
    node = node_of(declared)
    join(node, 1, "ann")
    log = node.broker.destinations.logs.all[AUDIT]
    for _ in range(300):
        node.say(ask(1, do="purge", queue="q"))
    node.wait(1)
    node.broker.admission.disk_wait_list.is_tight = True
    log_size = log.size
    audit, retention = node.broker.parts.audit, node.broker.destinations.logs.retention
    for _ in range(10):
        audit.ticked(lambda size: retention.keep_within(log, size), True)
        for _ in range(60):
            node.say(ask(1, do="purge", queue="q"))
    audit.ticked(lambda size: retention.keep_within(log, size), True)
    assert log.size <= log_size + log.segment_bytes
