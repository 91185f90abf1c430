"""The rights of users, on a whole broker without sockets: each row of the table, addresses that have more than one
form, what leads on, prepared transactions, what waits, and a reload.
"""

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import radiator
from radiator.core.rights import COMMANDS, EVERY_RIGHT, LEADS_BY, ROWS, Rights, needs_of, rights_of
from radiator.model import administration as asked
from radiator.model import commands, overview
from radiator.model.addresses import ADDRESS_MAX_BYTES, KINDS
from radiator.model.commands import Closed, Command, Commit, Open, Reread, Unsubscribe
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.getting import FindAsker, Get, SetWindow
from radiator.model.limits import ENDED_AT_ONCE, VERDICTS_KEPT, Limits
from radiator.model.peer import Taken
from radiator.model.principal import ANYONE, Principal, RecognisedBy, node_principal, unix_principal
from radiator.model.replies import Refuse, RefusedReceipt, Scope
from radiator.model.rights import ADMIN, DECLARE, EVERYTHING, OPERATOR, READ, RIGHTS, SEE, VIEWER, WRITE, Rules
from radiator.model.settings import Config, Declarations, LogSettings, QueueSettings
from radiator.model.users import Token, User
from tests.core.node import Node
from tests.core.words import begin, commit, send, subscribe, unsubscribe
from tests.house.sources import PACKAGE, nodes_of

OWN_UID = 1000
DECLARED = Declarations(
    create_queues=True,
    create_topics=True,
    queues={"small": QueueSettings(max_messages=1), "there": QueueSettings()},
    logs={"news": LogSettings()},
)
Given = tuple[tuple[str, str], ...]  # rights, each with a rule


def rules(*given: tuple[str, str], role: str = "") -> Rules:
    by_right = {right: tuple(rule for one, rule in given if one == right) for right in RIGHTS}
    return Rules(**by_right, role=role)


def users(**given: Rules) -> dict[str, User]:
    return {name: User(name=name, rules=one) for name, one in given.items()}


def known(name: str) -> Principal:
    return Principal(name, RecognisedBy.PASSWORD)


def rights(*given: tuple[str, str], role: str = "") -> Rights:
    """Those of the user ann."""
    return Rights(users(ann=rules(*given, role=role)), OWN_UID)


def is_allowed(judge: Rights, command: Any, principal: Principal | None = None) -> bool:
    try:
        judge.check(principal or known("ann"), command)
    except Refusal as refusal:
        assert refusal.code == FORBIDDEN
        return False
    return True


# ---- the table ------------------------------------------------------------------------------------------------------

Q, R = "/queue/q", "/queue/r"
SEND = send(1, "q")
CASES: list[tuple[Any, Given]] = [
    (SEND, ((WRITE, Q),)),
    (send(1, "q", transaction=b"t"), ((WRITE, Q),)),
    (send(1, "q", reply_to="mine"), ((WRITE, Q),)),
    (send(1, "/amq/queue/q"), ((WRITE, Q),)),
    (send(1, "/topic/a.b"), ((WRITE, "/topic/a.*"),)),
    (send(1, "/fanout/f"), ((WRITE, "/fanout/f"),)),
    (send(1, "/exchange/x/k"), ((WRITE, "/exchange/x/k"),)),
    (send(1, "/exchange/x"), ((WRITE, "/exchange/x/"),)),
    (send(1, "/exchange/x/k.#"), ((WRITE, "/exchange/x/k.*"),)),  # a SEND means that very word
    (send(1, "/exchange/x/#"), ((WRITE, "/exchange/x/*"),)),
    (send(1, "/log/news"), ((WRITE, "/log/news"),)),
    (send(1, "/temp-queue/mine"), ()),
    (send(1, "/reply-queue/x"), ()),
    (commands.PublishAll(1, b"r", [send(1, "q"), send(1, "/topic/a")]), ((WRITE, Q), (WRITE, "/topic/a"))),
    (subscribe(1, "q"), ((READ, Q),)),
    (subscribe(1, "/amq/queue/q"), ((READ, Q),)),
    (subscribe(1, "/topic/a.*"), ((READ, "/topic/a.#"),)),
    (subscribe(1, "/topic/a", durable=True), ((READ, "/topic/a"),)),
    (subscribe(1, "/exchange/x/a.#"), ((READ, "/exchange/x/a.#"),)),
    (subscribe(1, "/exchange/x"), ((READ, "/exchange/x/"),)),
    (subscribe(1, "/log/news", group="g"), ((READ, "/log/news"),)),
    (subscribe(1, "/log/$checkout/q/g"), ((READ, Q),)),
    (subscribe(1, "/temp-queue/mine"), ()),
    (unsubscribe(1, "q"), ()),
    (commands.Ack(1, b"1"), ()),
    (commands.Nack(1, b"1"), ()),
    (begin(1), ()),
    (commit(1), ()),
    (Commit(1, b"t", None, "prepared"), ()),
    (Commit(1, b"t", None, None, "etl.nightly", 1), ((WRITE, "/app/etl.*"),)),
    (commands.Abort(1, b"t"), ()),
    (commands.Identify(1, Principal("bob")), ()),
    (commands.Renew(1, Principal("bob")), ()),
    (commands.Disconnect(1), ()),
    (commands.Administer(1, b"{}", None, 2), ()),  # type: ignore[arg-type]
    (commands.Fail(1, "It is broken."), ()),
    (Get(1, "/queue/q", b"r"), ((READ, Q),)),
    (SetWindow(1, 5), ()),
    (FindAsker(1, "id", b"r"), ()),
    (commands.InvalidSend(1, "It is wrong.", b"r"), ()),
    (commands.Unheeded(1, "q", "priority", "It says nothing."), ()),
    (commands.Receive(1, b"r", "/amq/queue/q", 1, 0, 1000), ((READ, Q),)),
    (commands.Settle(1, b"r", []), ()),
    (Get(1, "/amq/queue/q", b"r"), ((READ, Q),)),
    (SetWindow(1, 9), ()),
    (commands.PeerMessage(1, Taken(1)), ((ADMIN, EVERYTHING),)),
    (asked.ReadStats(), ((SEE, EVERYTHING),)),
    (asked.ReadSection("queues"), ((SEE, "/queue/#"),)),
    (asked.ReadSection("exchanges"), ((SEE, "/exchange/#"),)),
    (asked.ReadSection("peers"), ((SEE, EVERYTHING),)),
    (asked.ReadSection("users"), ((SEE, EVERYTHING),)),
    (asked.ReadReadiness(), ()),
    (asked.ReadConfiguration(), ((ADMIN, EVERYTHING),)),
    (asked.ReadBounds(), ((SEE, EVERYTHING),)),
    (asked.ReadDisk(), ((SEE, EVERYTHING),)),
    (asked.ReadLogLines(None, 1, "debug"), ((ADMIN, EVERYTHING),)),
    (asked.ListQueues(), ((SEE, "/queue/#"),)),
    (overview.ReadQueueTable(None, "", "ready", True, 0, 50, False), ((SEE, R),)),
    (overview.ReadHistory(), ((SEE, EVERYTHING),)),
    (overview.ReadQueueHistory("q"), ((SEE, Q),)),
    (overview.ReadAttention(), ((SEE, R),)),
    (asked.ExplainQueue("q"), ((SEE, Q),)),
    (asked.ExplainLog("news"), ((SEE, "/log/news"),)),
    (asked.ExplainMessage("s-1-1", -1, 9), ((READ, "/log/journal"),)),
    (asked.ExplainTrace("1" * 32, -1, 9), ((READ, "/log/journal"),)),
    (asked.ExplainCorrelation("c", -1, 9), ((READ, "/log/journal"),)),
    (asked.DeclareDestination("queue", "q", {}), ((DECLARE, Q),)),
    (asked.DeclareDestination("queue", "q", {"dead_letter": "r"}), ((DECLARE, Q), (WRITE, R))),
    (asked.DeclareDestination("queue", "q", {"dead_letter": "/amq/queue/r"}), ((DECLARE, Q), (WRITE, R))),
    (asked.DeclareDestination("queue", "q", {}, passive=True), ((SEE, Q),)),
    (asked.DeclareDestination("queue", "q", {"dead_letter": "r"}, passive=True), ((SEE, Q), (WRITE, R))),
    (
        asked.DeclareDestination("queue", "q", {"dead_letter_exchange": "x", "dead_letter_key": "k"}),
        ((DECLARE, Q), (WRITE, "/exchange/x/k")),
    ),
    (
        asked.DeclareDestination("queue", "q", {"dead_letter_exchange": "/exchange/x"}),
        ((DECLARE, Q), (WRITE, "/exchange/x/#")),
    ),
    (
        asked.DeclareDestination("queue", "q", {"dead_letter_exchange": "", "dead_letter_key": "r"}),
        ((DECLARE, Q), (WRITE, R)),
    ),
    (asked.DeclareDestination("queue", "q", {"dead_letter_exchange": ""}), ((DECLARE, Q), (WRITE, "/queue/#"))),
    (asked.DeclareDestination("exchange", "x", {"type": "topic"}), ((DECLARE, "/exchange/x"),)),
    (asked.DeclareDestination("exchange", "x", {}), ((DECLARE, "/exchange/x/#"),)),
    (
        asked.DeclareDestination("fanout", "f", {"children": ["q", "/queue/r", "/log/news"]}),
        ((DECLARE, "/fanout/f"), (WRITE, Q), (WRITE, R), (WRITE, "/log/news")),
    ),
    (asked.DeclareDestination("log", "news", {"partitions": 3}), ((DECLARE, "/log/news"),)),
    (asked.DescribeDestination("queue", "q"), ((SEE, Q),)),
    (asked.DescribeDestination("exchange", "x"), ((SEE, "/exchange/x"),)),
    (asked.DescribeDestination("log", "$checkout/q/g"), ((SEE, Q),)),
    (asked.DeleteDestination("queue", "q"), ((DECLARE, Q),)),
    (asked.DeleteDestination("fanout", "f"), ((DECLARE, "/fanout/f"),)),
    (asked.PurgeQueue("q"), ((DECLARE, Q),)),
    (asked.PeekQueue("q", 1), ((SEE, Q), (READ, Q))),
    (asked.MoveMessages("q", "r"), ((READ, Q), (WRITE, R))),
    (asked.ReturnMessages("q"), ((READ, Q),)),
    (asked.FindRoute("x", "k"), ((SEE, "/exchange/x"),)),
    (asked.AskRight("ann", READ, Q), ((SEE, EVERYTHING),)),
    (asked.AwaitQueue("q", 0), ((READ, Q),)),
    (asked.TakeCheckout("q", "g", 1), ((READ, Q),)),
    (asked.AckCheckout("q", "g", 1), ((READ, Q),)),
    (asked.ReleaseCheckout("q", "g"), ((READ, Q),)),
    (asked.ListConsumers("q"), ((SEE, Q),)),
    (asked.RegisterConsumer("q", "p", True, 1000), ((READ, Q),)),
    (asked.DrainConsumer("q", "p", 0), ((READ, Q),)),
    (asked.ReadScale("q"), ((SEE, Q),)),
    (asked.ListConnections(), ((SEE, "/#"),)),
    (asked.DescribeConnection(7), ((SEE, "/#"),)),
    (asked.CloseConnection(7), ((ADMIN, "/#"),)),
    (asked.ListUnacked("q", None, 1), ((SEE, Q),)),
    (asked.ExtendUnacked("q", "s-1-1", 1.0), ((ADMIN, "/#"),)),
    (asked.AddBinding("x", "k", "q"), ((READ, "/exchange/x/k"), (WRITE, Q))),
    (asked.AddBinding("x", "k.*", "/log/news"), ((READ, "/exchange/x/k.#"), (WRITE, "/log/news"))),
    (asked.AddBinding("x", "k", "/exchange/y"), ((READ, "/exchange/x/k"), (WRITE, "/exchange/y"))),
    (asked.AddBinding("x", '{"a":"1"}', "q"), ((READ, "/exchange/x/#"), (WRITE, Q))),
    (asked.RemoveBinding("x", "", "q"), ((READ, "/exchange/x/"), (WRITE, Q))),
    (asked.FindOffsets("news", 0), ((READ, "/log/news"),)),
    (asked.AwaitLog("news", (0,), 0), ((READ, "/log/news"),)),
    (asked.AwaitLogs(("news", "$checkout/q/g"), (0, 0), 0), ((READ, "/log/news"), (READ, Q))),
    (asked.ReadPosition("news", "g"), ((READ, "/log/news"),)),
    (asked.SetPosition("news", "g", (0,)), ((READ, "/log/news"),)),
    (asked.ForgetPosition("news", "g"), ((READ, "/log/news"),)),
    (asked.SetPrefetch(None, 1), ()),
    (asked.ExtendAckTimeout(b"1"), ()),
    (asked.CommitPrepared(("p",), "app", 1), ((WRITE, "/app/app"),)),
    (asked.AbortPrepared(("p",)), ((WRITE, R),)),
    (asked.AbortPrefix("p" * 16), ((WRITE, R),)),
    (asked.AbortPrefix("p" * 15), ((ADMIN, EVERYTHING),)),
    (asked.ListPrepared(), ((SEE, EVERYTHING),)),
    (asked.ReadAppVersion("app"), ((WRITE, "/app/#"),)),
    (asked.ReadAppVersion("app", forget=True), ((ADMIN, EVERYTHING),)),
    (asked.ListPeers(), ((SEE, EVERYTHING),)),
    (asked.ReleasePeer("b"), ((ADMIN, EVERYTHING),)),
    (asked.DropCopies("b"), ((ADMIN, EVERYTHING),)),
    (asked.KeepCopies("b"), ((ADMIN, EVERYTHING),)),
    (asked.DrainNode(), ((ADMIN, EVERYTHING),)),
    (asked.ReloadConfiguration(), ((ADMIN, EVERYTHING),)),
]
NAMED = [f"{number}-{type(command).__name__}" for number, (command, _) in enumerate(CASES)]


def test_each_type_of_command_has_a_row_and_a_case() -> None:
    assert {row.command for row in ROWS} == {*COMMANDS} == {type(command) for command, _ in CASES}


def test_without_a_row_for_each_type_nobody_is_judged() -> None:
    with pytest.raises(AssertionError, match="need: PeekQueue"):
        needs_of(tuple(row for row in ROWS if row.command is not asked.PeekQueue))
    with pytest.raises(AssertionError, match="two rows"):
        needs_of((*ROWS, ROWS[0]))


def test_each_setting_that_leads_on_can_be_read() -> None:
    assert {*LEADS_BY} == {kind.leads_by for kind in KINDS.values() if kind.leads_by}


@pytest.mark.parametrize(("command", "given"), CASES, ids=NAMED)
def test_a_row_asks_for_all_of_its_rights_and_no_more(command: Any, given: Given) -> None:
    assert is_allowed(rights(*given), command)
    for one in given:
        less = [*given]
        less.remove(one)
        assert not is_allowed(rights(*less), command)
    assert is_allowed(rights(), command) is (not given)
    assert is_allowed(rights(role=OPERATOR), command)


@pytest.mark.parametrize(("command", "given"), CASES, ids=NAMED)
def test_another_right_on_the_same_does_not_do(command: Any, given: Given) -> None:
    for one, rule in given:
        others = [(right, rule) for right in RIGHTS if right not in {needed for needed, _ in given}]
        assert not is_allowed(rights(*others, *(pair for pair in given if pair[0] != one)), command)


@pytest.mark.parametrize(("command", "given"), CASES, ids=NAMED)
def test_the_same_right_elsewhere_does_not_do(command: Any, given: Given) -> None:
    elsewhere = [(right, "/queue/elsewhere") for right, _ in given]
    is_anywhere = given in (((WRITE, R),), ((SEE, R),))  # of these any will do
    assert is_allowed(rights(*elsewhere), command) is (is_anywhere or not given)


@pytest.mark.parametrize(("command", "given"), CASES, ids=NAMED)
def test_a_viewer_sees_and_does_nothing_else(command: Any, given: Given) -> None:
    assert is_allowed(rights(role=VIEWER), command) is all(right == SEE for right, _ in given)


@pytest.mark.parametrize(("command", "given"), CASES, ids=NAMED)
def test_who_is_no_user_may_do_nothing(command: Any, given: Given) -> None:
    judge = rights(role=OPERATOR)
    assert not is_allowed(judge, command, known("bob"))
    assert not is_allowed(judge, command, ANYONE)


def test_the_sentence_names_the_user_the_right_and_the_address() -> None:
    for command, words in [
        (send(1, "/amq/queue/q"), ("ann", "write /queue/q", "matches")),
        (subscribe(1, "/topic/a.*"), ("ann", "read /topic/a.*", "contains")),
        (asked.DrainNode(), ("ann", "`admin`")),
        (asked.AbortPrefix("p" * 16), ("ann", "`write`")),
    ]:
        with pytest.raises(Refusal) as refused:
            rights().check(known("ann"), command)
        assert all(word in str(refused.value) for word in words)


def test_an_address_of_no_kind_is_told_as_that() -> None:
    with pytest.raises(Refusal) as refused:
        rights().check(known("ann"), send(1, "/qeue/q"))
    assert refused.value.code == "unknown-destination"


@pytest.mark.parametrize(
    "settings",
    [{"dead_letter": 7}, {"dead_letter": "/topic/x"}, {"dead_letter": "a.*"}, {"dead_letter_exchange": "a/b"}],
)
def test_settings_that_lead_nowhere_are_told_as_that(settings: Mapping[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        rights((DECLARE, Q)).check(known("ann"), asked.DeclareDestination("queue", "q", settings))
    assert refused.value.code == "bad-request"


# ---- wildcards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "given", "is_right"),
    [
        ("/topic/a.#", ["/topic/a.#"], True),
        ("/topic/a.#", ["/topic/a.*", "/topic/a"], False),  # one rule, not several together
        ("/topic/#", ["/topic/*"], False),
        ("/topic/*", ["/topic/a", "/topic/b"], False),
        ("/topic/*.b", ["/topic/a.*"], False),  # they meet
        ("/exchange/x/#", ["/exchange/x/a.#"], False),
        ("/exchange/x/a.*", ["/exchange/x/a.#"], True),
    ],
)
def test_a_pattern_takes_one_rule_that_contains_it(pattern: str, given: list[str], is_right: bool) -> None:
    judge = rights(*((READ, rule) for rule in given), (WRITE, Q))
    assert is_allowed(judge, subscribe(1, pattern)) is is_right
    assert is_allowed(judge, subscribe(1, pattern, durable=True)) is is_right
    if pattern.startswith("/exchange/x/"):
        assert is_allowed(judge, asked.AddBinding("x", pattern.removeprefix("/exchange/x/"), "q")) is is_right


def test_each_key_of_a_send_is_judged_also_behind_one_that_was_allowed() -> None:
    judge = rights((WRITE, "/exchange/x/a"), (WRITE, "/exchange/x/b"), (WRITE, Q))
    for address, more_keys, is_right in (
        ("/exchange/x/a", (), True),
        ("/exchange/x/a", ("b",), True),
        ("/exchange/x/a", ("b", "c"), False),
        (Q, (), True),
        (Q, ("other",), False),
    ):
        assert is_allowed(judge, send(1, address, more_keys=more_keys)) is is_right


def test_an_alternate_takes_write_there_and_read_here() -> None:
    declare = asked.DeclareDestination("exchange", "x", {"alternate": "y"})
    whole = ((DECLARE, "/exchange/x/#"), (READ, "/exchange/x/#"), (WRITE, "/exchange/y/#"))
    assert is_allowed(rights(*whole), declare)
    for lacking in whole:
        assert not is_allowed(rights(*(one for one in whole if one != lacking)), declare)


def test_a_word_that_looks_like_a_wildcard_is_one_word_in_a_send() -> None:
    assert is_allowed(rights((WRITE, "/exchange/x/*")), send(1, "/exchange/x/#"))
    assert not is_allowed(rights((WRITE, "/exchange/x/*.*")), send(1, "/exchange/x/#"))
    assert not is_allowed(rights((WRITE, "/exchange/x/a")), send(1, "/exchange/x/*"))


def test_an_exchange_is_declared_by_who_has_all_its_keys() -> None:
    declare = asked.DeclareDestination("exchange", "x", {})
    assert not is_allowed(rights((DECLARE, "/exchange/x/a.#")), declare)
    assert not is_allowed(rights((DECLARE, "/exchange/x/")), declare)


# ---- who ------------------------------------------------------------------------------------------------------------


def test_root_the_brokers_own_user_and_linked_nodes_may_do_everything() -> None:
    judge = rights()
    for principal in (unix_principal(0, 0), unix_principal(OWN_UID, 5), node_principal("b")):
        assert judge.granted_to_other(principal) is EVERY_RIGHT
        assert all(is_allowed(judge, command, principal) for command, _ in CASES)


def test_a_name_is_only_what_it_was_recognised_by() -> None:
    judge = Rights(users(ann=rules((WRITE, Q)), b=Rules()), OWN_UID)
    for by in (RecognisedBy.PASSWORD, RecognisedBy.TOKEN, RecognisedBy.CERTIFICATE):
        assert is_allowed(judge, SEND, Principal("ann", by))
        assert not is_allowed(judge, SEND, Principal(f"uid:{OWN_UID}", by))
        assert not is_allowed(judge, SEND, Principal("uid:0", by))
        assert not is_allowed(judge, SEND, Principal("b", by))
    assert not is_allowed(judge, SEND, Principal("ann"))  # somebody who only says so
    assert not is_allowed(judge, SEND, unix_principal(OWN_UID + 1, 0))


def test_a_user_of_this_system_is_the_one_whose_table_names_him() -> None:
    peer = Principal("ann", RecognisedBy.PEER_CREDENTIALS, 1001, 1001)
    named = {"ann": User(name="ann", unix="ann", rules=rules((WRITE, Q)))}
    assert is_allowed(Rights(named, OWN_UID), SEND, peer)
    assert not is_allowed(Rights({"ann": replace(named["ann"], unix=None)}, OWN_UID), SEND, peer)


def test_a_user_of_this_system_is_known_by_his_number() -> None:
    """`unix` may name somebody else by now, whose number is another one."""
    ann = User(name="ann", unix="ann", uid=1001, rules=rules((WRITE, Q)))
    for uid, is_he in ((1001, True), (1002, False)):
        peer = Principal("ann", RecognisedBy.PEER_CREDENTIALS, uid, 1)
        assert is_allowed(Rights({"ann": ann}, OWN_UID), SEND, peer) == is_he


@pytest.mark.parametrize("rule", ["/log/#", "/log/*", "/#/journal", "/log/audit", "/log/journals"])
def test_a_story_is_for_who_may_read_the_journal(rule: str) -> None:
    """Which tells of everything: a rule with wildcards is not for it, unless it is /#."""
    of = (asked.ExplainMessage("s-1-1", -1, 9), asked.ExplainTrace("1" * 32, -1, 9))
    for command in (*of, asked.ExplainCorrelation("c", -1, 9)):
        assert not is_allowed(
            rights((READ, rule), *((right, "/log/journal") for right in RIGHTS if right != READ)), command
        )
        assert is_allowed(rights((READ, "/log/journal")), command) and is_allowed(rights((READ, EVERYTHING)), command)


def test_copies_for_another_node_are_no_queue_of_a_rule() -> None:
    all_queues = rights(*((right, "/queue/#") for right in RIGHTS if right != ADMIN))
    outbox = "$outbox/b"
    for command in (
        asked.PeekQueue(outbox, 1),
        asked.PurgeQueue(outbox),
        asked.MoveMessages(outbox, "q"),
        asked.MoveMessages("q", outbox),
        asked.ExplainQueue(outbox),
        asked.DescribeDestination("queue", outbox),
        asked.DeleteDestination("queue", outbox),
    ):
        assert not is_allowed(all_queues, command), command
        assert is_allowed(rights(role=OPERATOR), command), command
    assert is_allowed(rights(role=VIEWER), asked.ExplainQueue(outbox))
    assert not is_allowed(rights(role=VIEWER), asked.PeekQueue(outbox, 1))


def test_one_word_is_not_for_the_queues_of_durable_subscriptions() -> None:
    stored = asked.PurgeQueue("$durable/topic/prices/7/ann")
    assert not is_allowed(rights((DECLARE, "/queue/*")), stored)
    assert is_allowed(rights((DECLARE, "/queue/#")), stored)
    assert is_allowed(rights((DECLARE, "/queue/$durable/topic/prices/7/ann")), stored)
    assert not is_allowed(rights((DECLARE, "/queue/$durable/topic/prices/7/bob")), stored)


def test_a_verdict_on_what_can_be_no_address_is_not_kept() -> None:
    judge = rights((READ, "/exchange/x"), (WRITE, Q))
    for key in ("k" * 255, "k" * 10_000):
        assert is_allowed(judge, asked.AddBinding("x", key, "q"))
    assert max(len(need.address) for _, need in judge.verdicts) <= ADDRESS_MAX_BYTES


def test_anyone_is_the_user_anonymous() -> None:
    judge = Rights(users(anonymous=rules((WRITE, Q))), OWN_UID)
    assert is_allowed(judge, SEND, ANYONE) and not is_allowed(judge, subscribe(1, "q"), ANYONE)


def test_without_users_there_are_no_rights() -> None:
    assert rights_of({}, OWN_UID) is None and isinstance(rights_of(users(ann=Rules()), OWN_UID), Rights)


def test_verdicts_are_kept_up_to_a_bound() -> None:
    judge = rights((WRITE, "/queue/#"))
    for number in range(VERDICTS_KEPT + 10):
        assert is_allowed(judge, send(1, f"q{number}"))
        assert not is_allowed(judge, send(1, f"/topic/{number}"))
    assert 0 < len(judge.verdicts) <= VERDICTS_KEPT
    assert is_allowed(judge, send(1, "q0")) and not is_allowed(judge, send(1, "/topic/0"))


# ---- on a broker ----------------------------------------------------------------------------------------------------


def broker(declared: Declarations = DECLARED, limits: Limits | None = None, **given: Rules) -> Node:
    made = Node(replace(declared), limits, authorizer=Rights(users(**given), OWN_UID))
    for number, name in enumerate(given, 1):
        join(made, number, known(name))
    return made


def join(node: Node, number: int, principal: Principal, closes_at: Scope = Scope.COMMAND) -> None:
    node.inbox[number], node.delivers[number] = [], 0
    node.turn([Open(number, closes_at=closes_at, principal=principal)])


def codes(node: Node, connection: int) -> list[str]:
    return [reply.code for reply in node.inbox[connection] if isinstance(reply, Refuse | RefusedReceipt)]


def test_a_forbidden_send_is_an_error_or_its_receipt_and_leaves_nothing() -> None:
    node = broker(ann=rules((WRITE, "/queue/other")), bob=Rules())
    node.say(send(1, "q", b"x", b"r", survives_refusal=True), send(1, "other", b"y", b"s"))
    assert codes(node, 1) == [FORBIDDEN] and node.receipts(1) == [b"r", b"s"]
    assert not node.has("q") and node.stored("other") == [b"y"]
    node.say(send(2, "q"), send(2, "q"))
    assert codes(node, 2) == [FORBIDDEN]  # then it is closed


def test_a_first_use_needs_no_right_to_declare() -> None:
    node = broker(ann=rules((WRITE, Q), (READ, Q)))
    node.say(subscribe(1, "q"), send(1, "q", b"x"))
    assert node.bodies(1) == [b"x"]


def test_request_and_reply_need_a_right_on_the_request_alone() -> None:
    node = broker(ann=rules((WRITE, Q)), bob=rules((READ, Q)))
    node.say(subscribe(2, "q"), send(1, "q", b"ask", reply_to="mine"))
    (request,) = node.messages(2)
    (reply_to,) = [line for line in request.message.headers.split(b"\n") if line.startswith(b"reply-to:")]
    node.say(send(2, reply_to.decode().removeprefix("reply-to:"), b"answer"))
    assert node.bodies(1) == [b"answer"] and codes(node, 1) == codes(node, 2) == []


def test_a_forbidden_request_is_answered_and_without_a_reply_to_refused() -> None:
    node = broker(ann=rules((READ, Q), (SEE, Q)))
    node.say(subscribe(1, "q"))
    answer = node.admin(1, do="purge", queue="/amq/queue/q")
    assert (answer["ok"], answer["code"]) == (False, FORBIDDEN)
    assert answer["error"] == "The user ann may not declare /queue/q: there is no rule of `declare` that matches it."
    assert node.admin(1, do="describe", queue="q")["ok"] and codes(node, 1) == []
    node.say(send(1, "/admin", b'{"do": "purge", "queue": "q"}'))
    assert codes(node, 1) == [FORBIDDEN]


def test_what_leads_on_is_judged_when_it_is_declared_and_not_when_it_is_used() -> None:
    """Ann may fill her queue, whose dead letters go where she may not send."""
    node = broker(
        ann=rules((WRITE, Q), (DECLARE, Q)), ops=rules((DECLARE, Q), (WRITE, R), (READ, "/exchange/#"), (WRITE, Q))
    )
    asks = {"do": "declare", "queue": "q", "dead_letter": "r", "max_messages": 1, "overflow": "dead-letter"}
    assert node.admin(1, **asks)["code"] == FORBIDDEN
    assert not node.has("q") and not node.has("r")
    assert node.admin(2, **asks)["ok"]
    node.say(send(1, "q", b"1"), send(1, "q", b"2"))
    assert node.stored("r") == [b"1"] and codes(node, 1) == []


def test_a_commit_is_judged_by_its_sends() -> None:
    node = broker(ann=rules((WRITE, Q)))
    join(node, 2, known("ann"), Scope.CONNECTION)
    node.say(begin(2), send(2, "q", b"1", transaction=b"t"), send(2, "r", b"2", transaction=b"t"), commit(2))
    assert codes(node, 2) == [FORBIDDEN]  # of the second SEND alone, which is not in it
    assert node.stored("q") == [b"1"] and not node.has("r")


# ---- durable subscriptions ------------------------------------------------------------------------------------------


def test_who_may_not_read_a_topic_cannot_end_a_durable_subscription_to_it() -> None:
    node = broker(ann=rules((READ, "/topic/a.#"), (WRITE, "/topic/#")), eve=rules((READ, "/topic/b")))
    node.say(subscribe(1, "/topic/a.*", name=b"d", durable=True, durable_name=b"client/sub"))
    node.close(1)
    for end in (
        Unsubscribe(2, b"client/sub", b"r", True, "/topic/a.*"),
        Unsubscribe(2, b"x", b"r", True, None, b"client/sub"),
    ):
        join(node, 2, known("eve"))
        node.say(end)
        assert codes(node, 2) == [FORBIDDEN]
    assert len(node.broker.destinations.queues.durables) == 1
    join(node, 3, known("ann"))
    node.say(Unsubscribe(3, b"x", b"r", True, None, b"client/sub"))
    assert node.receipts(3) == [b"r"] and not node.broker.destinations.queues.durables


# ---- prepared transactions, and what waits --------------------------------------------------------------------------


def reload(node: Node, **given: Rules) -> list[str]:
    """These are the users from now on: what the log says of it, by its events."""
    return reload_users(node, users(**given))


def reload_users(node: Node, given: dict[str, User]) -> list[str]:
    declared = replace(node.broker.destinations.declarations)
    config = Config(
        data_dir=Path("/d"), disk_free_min=0, declarations=declared, limits=replace(node.limits), users=given
    )
    before = len(node.notes)
    node.turn([Reread(config)])
    assert node.broker.reloading.current is None
    return [note.event for note in node.notes[before:]]


def test_what_is_prepared_is_judged_when_it_is_prepared_and_when_it_goes_on() -> None:
    ann = rules((WRITE, Q))
    bob = rules((WRITE, "/app/app"))
    node = broker(ann=ann, bob=bob)
    node.say(begin(1), send(1, "q", b"1", transaction=b"t"), Commit(1, b"t", b"p", "p"))
    reload(node, ann=rules((WRITE, R)), bob=bob)
    node.say(Commit(2, b"p", b"r", None, "app", 1))
    assert node.receipts(2) == [b"r"] and node.stored("q") == []
    (waiting,) = node.broker.parts.prepared.described(10)
    assert waiting.waits is not None and "ann may not write /queue/q" in waiting.waits
    reload(node, ann=ann, bob=rules())
    node.wait(1)
    assert node.stored("q") == [b"1"]


def test_what_was_prepared_before_the_start_is_judged_as_who_commits_it() -> None:
    node = broker(ann=rules((WRITE, Q)))
    node.say(begin(1), send(1, "q", b"1", transaction=b"t"), Commit(1, b"t", b"p", "p"))
    for name, there in (("eve", []), ("ann", [b"1"])):
        judge = Rights(users(ann=rules((WRITE, Q), (WRITE, "/app/app")), eve=rules((WRITE, "/app/app"))), OWN_UID)
        again = Node(replace(DECLARED), platter=node.crashed().disk.platter, authorizer=judge)
        join(again, 1, known(name))
        again.say(Commit(1, b"p", b"r", None, "app", 1))
        again.wait(1)
        assert again.receipts(1) == [b"r"] and again.stored("q") == there


def test_who_may_write_nowhere_can_neither_commit_nor_abort_what_others_have_prepared() -> None:
    node = broker(ann=rules((WRITE, Q)), eve=rules((READ, "/#"), (SEE, "/#")))
    node.say(begin(1), send(1, "q", b"1", transaction=b"t"), Commit(1, b"t", b"p", "p"))
    assert node.admin(2, do="abort", prefix="p")["code"] == FORBIDDEN
    assert node.admin(2, do="commit", prepared=["p"], app="a", version=1)["code"] == FORBIDDEN
    node.say(Commit(2, b"p", b"r", None, "a", 1))
    assert codes(node, 2) == [FORBIDDEN] and node.broker.parts.prepared.count == 1


def test_the_versions_of_an_app_are_those_of_who_may_write_to_it() -> None:
    """A high version by another user would make those of the app vanish, since a version is carried out once."""
    node = broker(ann=rules((WRITE, Q), (WRITE, "/app/etl.#")), eve=rules((WRITE, "/queue/#"), (WRITE, "/app/eve")))
    node.say(begin(2), Commit(2, b"t", b"r", None, "etl.nightly", 999))
    assert codes(node, 2) == [FORBIDDEN] and "may not write /app/etl.nightly" in node.inbox[2][-1].sentence
    node.say(begin(1), send(1, "q", b"1", transaction=b"t"), Commit(1, b"t", b"r", None, "etl.nightly", 1))
    assert node.stored("q") == [b"1"]


@pytest.mark.parametrize("log", ("journal", "audit"))
def test_what_the_broker_writes_about_everything_needs_a_rule_of_its_own(log: str) -> None:
    for rule, may in (("/log/#", False), ("/log/*", False), (f"/log/{log}", True), (EVERYTHING, True)):
        judge = Rights(users(ann=rules((READ, rule))), OWN_UID)
        assert granted(judge, "ann", subscribe(1, f"/log/{log}")) is may
    judge = Rights(users(ann=rules((READ, "/log/#"))), OWN_UID)
    assert granted(judge, "ann", subscribe(1, "/log/journals"))


def granted(judge: Rights, name: str, command: Command) -> bool:
    try:
        judge.check(known(name), command)
    except Refusal as refused:
        assert refused.code == FORBIDDEN
        return False
    return True


def test_what_waits_for_room_is_judged_by_the_rights_of_the_moment() -> None:
    node = broker(ann=rules((WRITE, "/queue/#")), bob=rules((READ, "/queue/#")))
    node.say(subscribe(2, "small"), send(1, "small", b"1"), send(1, "small", b"2"))
    assert node.paused == {1}
    reload(node, ann=rules((WRITE, Q)), bob=rules((READ, "/queue/#")))
    (first,) = node.messages(2)
    node.say(commands.Ack(2, first.message_id))
    assert codes(node, 1) == [FORBIDDEN] and node.stored("small") == []


# ---- reload ---------------------------------------------------------------------------------------------------------

KINDS_OF_SUBSCRIPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("/queue/q", {}, "/queue/q"),
    ("/amq/queue/there", {}, "/queue/there"),
    ("/topic/a.*", {}, "/topic/a.#"),
    ("/topic/a.*", {"durable": True}, "/topic/a.#"),
    ("/exchange/amq.topic/a.#", {}, "/exchange/amq.topic"),
    ("/exchange/amq.topic/a.#", {"durable": True}, "/exchange/amq.topic"),
    ("/log/news", {}, "/log/#"),
]
SOURCES = {"/topic/a.*": "/topic/a.x", "/exchange/amq.topic/a.#": "/exchange/amq.topic/a.x"}


@pytest.mark.parametrize(("destination", "more", "rule"), KINDS_OF_SUBSCRIPTIONS)
@pytest.mark.parametrize("closes_at", [Scope.COMMAND, Scope.CONNECTION])
def test_a_right_that_is_gone_ends_its_subscriptions(
    destination: str, more: dict[str, Any], rule: str, closes_at: Scope
) -> None:
    operator = rules(role=OPERATOR)
    node = broker(ops=operator)
    join(node, 2, known("ann"), closes_at)
    join(node, 3, known("ann"), closes_at)
    source = SOURCES.get(destination, destination)
    reload(node, ops=operator, ann=rules((READ, rule), (READ, "/topic/other")))
    for number in (2, 3):
        node.close(number)
        join(node, number, known("ann"), closes_at)
    node.say(subscribe(2, destination, name=b"1", **more), subscribe(3, "/topic/other", name=b"2"))
    node.say(send(1, source, b"before"))
    assert node.bodies(2) == [b"before"]
    assert reload(node, ops=operator, ann=rules((READ, "/topic/other"))) == ["refused", "reloaded"]
    assert codes(node, 2) == [FORBIDDEN]
    connection = node.broker.connections[2]
    assert connection.is_closing is (closes_at is Scope.COMMAND)
    assert not connection.queue_subscriptions and not connection.topic_subscriptions
    node.say(send(1, source, b"behind"), send(1, "/topic/other", b"other"))
    assert node.bodies(2) == [] and node.bodies(3) == [b"other"] and codes(node, 3) == []
    node.turn([Closed(2)])


def test_a_right_that_stays_keeps_its_subscriptions_and_what_is_unacked() -> None:
    node = broker(ann=rules((READ, Q), (WRITE, Q)))
    node.say(subscribe(1, "q"), subscribe(1, "/temp-queue/mine"), send(1, "q", b"1"))
    (deliver,) = node.messages(1)
    reload(node, ann=rules((READ, "/queue/*"), (WRITE, Q)))
    assert codes(node, 1) == []
    node.say(commands.Ack(1, deliver.message_id), send(1, "q", b"2"))
    assert node.bodies(1) == [b"2"]


def test_a_user_that_is_gone_loses_his_connections() -> None:
    node = broker(ann=rules((READ, Q)), bob=Rules())
    node.say(subscribe(1, "q"))
    assert reload(node, bob=Rules()) == ["refused", "reloaded"]
    (refuse,) = (reply for reply in node.inbox[1] if isinstance(reply, Refuse))
    assert (refuse.code, refuse.scope) == (FORBIDDEN, Scope.CONNECTION)
    assert refuse.sentence == "This broker has no user ann."
    assert node.broker.connections[1].is_closing and not node.broker.connections[2].is_closing


def test_the_first_user_takes_effect_at_once() -> None:
    node = Node(replace(DECLARED))
    join(node, 1, ANYONE)
    join(node, 2, unix_principal(0, 0))
    node.say(send(1, "q", b"1"))
    reload(node, ann=rules((WRITE, Q)))
    assert codes(node, 1) == [FORBIDDEN] and node.broker.connections[1].is_closing
    node.say(send(2, "q", b"2"))
    assert codes(node, 2) == []
    join(node, 3, known("ann"))
    node.say(send(3, "q", b"3"))
    assert node.stored("q") == [b"1", b"2", b"3"]


def test_the_last_user_is_not_taken_away_by_a_reload() -> None:
    """Everybody could do everything then, by a file that was emptied by mistake."""
    node = broker(ann=rules((WRITE, Q)))
    assert reload(node) == ["reload_refused"]
    assert "no user" in str(node.notes[-1].fields["sentence"])
    assert isinstance(node.broker.parts.authorization.authorizer, Rights) and not node.broker.connections[1].is_closing


def test_who_has_logged_in_with_a_token_is_closed_when_it_runs_out() -> None:
    node = broker(ann=rules((READ, Q), (WRITE, Q)))
    token = Principal("ann", RecognisedBy.TOKEN, until_ms=node.now_ms + 5000)
    join(node, 2, token)
    join(node, 3, replace(token, until_ms=node.now_ms + 9000))
    join(node, 4, replace(token, until_ms=None))
    node.say(subscribe(2, "q"), send(1, "q", b"x"))
    node.wait(4)
    assert [codes(node, number) for number in (2, 3, 4)] == [[], [], []]
    node.wait(2)
    assert [codes(node, number) for number in (2, 3, 4)] == [[FORBIDDEN], [], []]
    assert "has expired" in node.inbox[2][-1].sentence
    node.close(2)
    assert node.numbers("q")["ready"] == 1, "what was unacked is there again"
    node.close(3)
    node.wait(10)
    assert codes(node, 4) == [] and node.broker.parts.clients.until_ms == {}


TOKENS = ("a" * 64, "b" * 64)
ANN = User(name="ann", rules=rules((READ, Q), (WRITE, Q)), tokens=tuple(map(Token, TOKENS)), certificate="CN=ann")


def with_logins() -> Node:
    """Of ann: 2 and 3 with her tokens, 4 with a password, 5 with a certificate."""
    node = broker(ann=ANN.rules)
    reload_users(node, {"ann": ANN})
    for number, token in zip((2, 3), TOKENS, strict=True):
        join(node, number, Principal("ann", RecognisedBy.TOKEN, proof=token))
    join(node, 4, known("ann"))
    join(node, 5, Principal("ann", RecognisedBy.CERTIFICATE, until_ms=node.now_ms + 5000, proof="CN=ann"))
    return node


def test_a_token_that_is_taken_out_ends_its_connections() -> None:
    node = with_logins()
    node.say(subscribe(2, "q"), send(2, "q", b"1"))
    reload_users(node, {"ann": replace(ANN, tokens=(Token(TOKENS[1]),))})
    assert [codes(node, number) for number in (2, 3, 4, 5)] == [[FORBIDDEN], [], [], []]
    assert node.inbox[2][-1].sentence == "The credential that user ann logged in with was removed: log in with another."
    join(node, 6, Principal("ann", RecognisedBy.TOKEN, proof=TOKENS[0]))  # it was logged in just before the reload
    assert codes(node, 6) == [FORBIDDEN]


def test_the_end_of_a_token_is_that_of_the_file_whenever_somebody_has_logged_in_with_it() -> None:
    node = with_logins()
    sooner, later = (replace(ANN, tokens=(Token(TOKENS[0], node.now_ms + ms), Token(TOKENS[1]))) for ms in (3000, 9000))
    reload_users(node, {"ann": sooner})
    reload_users(node, {"ann": later})
    node.wait(6)
    assert codes(node, 2) == [] and codes(node, 5) == [FORBIDDEN], "the certificate is over, and no reload changes that"
    node.wait(4)
    assert codes(node, 2) == [FORBIDDEN] and codes(node, 3) == []
    reload_users(node, {"ann": replace(ANN, tokens=(Token(TOKENS[1], node.now_ms - 1),))})
    node.wait(1)
    assert codes(node, 3) == [FORBIDDEN] and codes(node, 4) == []


def test_a_certificate_that_is_taken_out_ends_its_connections() -> None:
    node = with_logins()
    reload_users(node, {"ann": replace(ANN, certificate="CN=other")})
    assert [codes(node, number) for number in (2, 3, 4, 5)] == [[], [], [], [FORBIDDEN]]


def test_many_tokens_that_run_out_at_once_are_ended_so_many_at_a_time() -> None:
    node = broker(ann=Rules())
    token = Principal("ann", RecognisedBy.TOKEN, until_ms=node.now_ms + 1000)
    numbers = range(10, 10 + ENDED_AT_ONCE + 1)
    for number in numbers:
        join(node, number, token)
    node.wait(1)
    ended = [number for number in numbers if codes(node, number)]
    assert len(ended) == ENDED_AT_ONCE
    node.wait(1)
    assert all(codes(node, number) == [FORBIDDEN] for number in numbers)


def test_a_reload_that_changes_no_user_judges_nobody() -> None:
    node = broker(ann=rules((WRITE, Q)))
    before = node.broker.parts.authorization.authorizer
    reload(node, ann=rules((WRITE, Q)))
    assert node.broker.parts.authorization.authorizer is before


def test_many_connections_are_judged_in_slices() -> None:
    node = broker(ann=rules((READ, Q)))
    for number in range(2, 1500):
        join(node, number, known("ann"))
    node.auto = False
    config = Config(data_dir=Path("/d"), disk_free_min=0, declarations=replace(DECLARED), users=users(bob=Rules()))
    turns, ended = 0, [0]
    node.turn([Reread(config)])
    while node.broker.reloading.current is not None:
        node.turn([])
        turns += 1
        ended.append(sum(connection.is_closing for connection in node.broker.connections.values()))
    assert ended[-1] == 1499 and turns > 4
    assert max(after - before for before, after in zip(ended, ended[1:], strict=False)) <= 300


# ---- one place ------------------------------------------------------------------------------------------------------


def test_nobody_else_knows_rights_or_refuses_for_them() -> None:
    """Front ends say who somebody is; what he may do is decided in the core, in one place."""
    knows = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in nodes_of(path)
        if (isinstance(node, ast.ImportFrom) and node.module == "radiator.core.rights")
        or (isinstance(node, ast.ImportFrom) and any(one.name == "FORBIDDEN" for one in node.names))
        or (isinstance(node, ast.Constant) and node.value == FORBIDDEN)
    }
    refuses_logins = {"auth/authenticator.py", "server/tunnels.py"}  # with the same code
    names_it = {"model/errors.py", "model/grounds.py", "model/audit.py", "model/limits.py"}
    writes_it_down = {"core/connections.py", "core/admin/__init__.py", "core/audit_writer.py"}
    judges = {"core/rights.py", "core/authorization.py", "server/serve.py"}
    explains = {"core/admin/questions.py"}  # `may`
    is_told = {"integrations/kombu/failures.py"}  # by the broker
    has_its_status = {
        "protocols/amqp/refusals.py", "protocols/http/head.py", "protocols/http/responses.py",
        "protocols/http/access.py",
    }  # fmt: skip
    assert knows == judges | refuses_logins | names_it | writes_it_down | explains | is_told | has_its_status
    assert radiator.__file__ is not None and Path(radiator.__file__).parent == PACKAGE
