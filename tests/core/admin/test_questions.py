"""`route` and `may`: what is said before it is done is what happens when it is done."""

from random import Random
from typing import Any

import pytest

from radiator.core.admin.questions import JUDGED_AT_ONCE
from radiator.core.rights import Rights, needs_for, rights_of
from radiator.model.errors import Refusal
from radiator.model.limits import ROUTED_TARGETS
from radiator.model.principal import ANYONE, Principal, RecognisedBy
from radiator.model.rights import EVERYTHING, Rules
from radiator.model.settings import Binding, Declarations, ExchangeSettings, QueueSettings
from radiator.model.users import ANONYMOUS, User
from tests.core.admin.asking import code
from tests.core.node import Node
from tests.core.words import send, subscribe

# ---- route ----------------------------------------------------------------------------------------------------------


def exchange(type_: str, *bindings: tuple[str, str], settings: QueueSettings | None = None) -> Node:
    """A node with the exchange `x` and these bindings of a key to a queue."""
    names = {queue for _, queue in bindings}
    declared = Declarations(
        queues={name: settings or QueueSettings() for name in names},
        exchanges={"x": ExchangeSettings(type=type_)},
        bindings=[Binding("x", key, queue) for key, queue in bindings],
    )
    node = Node(declared)
    node.open(1, 2, 9)
    return node


def route(node: Node, key: str = "", name: str = "x") -> dict[str, Any]:
    answer = node.admin(9, do="route", exchange=name, key=key)
    assert answer.pop("ok"), answer
    return answer


def rows(*given: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"destination": destination, "key": key, "through": []} for destination, key in given]


def test_one_row_for_each_queue_with_a_key_that_matches() -> None:
    node = exchange("topic", ("orders.#", "a"), ("orders.*", "a"), ("orders.new", "b"), ("bills.#", "c"))
    answer = route(node, "orders.new")
    assert sorted(answer["targets"], key=str) == rows(("/queue/a", "orders.#"), ("/queue/b", "orders.new"))
    assert answer["count"] == 2
    assert answer["sentence"] == (
        "A SEND to /exchange/x/orders.new goes into 2 destinations: one copy each, however many bindings of it match."
    )
    node.say(send(1, "/exchange/x/orders.new"))
    assert [len(node.stored(name)) for name in "abc"] == [1, 1, 0]


def test_what_matches_nothing_is_said_and_is_what_happens() -> None:
    node = exchange("topic", ("orders.#", "a"))
    answer = route(node, "bills")
    assert (answer["targets"], answer["count"]) == ([], 0)
    assert "dropped, counted as unrouted, and receipted" in answer["sentence"] and "no-subscriber" in answer["sentence"]
    node.say(send(1, "/exchange/x/bills", receipt=b"r"))
    assert node.receipts(1) == [b"r"] and node.stats()["exchanges"]["x"]["unrouted"] == 1
    node.say(send(1, "/exchange/x/bills", mandatory=True))
    assert node.refusal(1).code == "no-subscriber"


@pytest.mark.parametrize(
    "type_, key, expected",
    [
        ("direct", "a.*", rows(("/queue/q", "a.*"))),
        ("direct", "a.b", []),
        ("topic", "a.*", rows(("/queue/q", "a.*"))),
        ("topic", "a.b", rows(("/queue/q", "a.*"))),
        ("topic", "", []),
        ("fanout", "whatever", rows(("/queue/q", "a.*"))),
        ("fanout", "", rows(("/queue/q", "a.*"))),
    ],
)
def test_each_type_matches_as_its_sends_do(type_: str, key: str, expected: list[dict[str, Any]]) -> None:
    node = exchange(type_, ("a.*", "q"))
    assert route(node, key)["targets"] == expected
    node.say(send(1, f"/exchange/x/{key}"))
    assert len(node.stored("q")) == len(expected)


def test_subscribers_and_logs_are_told_of_too() -> None:
    node = exchange("topic", ("k", "q"))
    node.say(subscribe(2, "/exchange/x/k"))
    assert {one["destination"] for one in route(node, "k")["targets"]} == {"/queue/q", "/queue/$own/exchange/x/k"}


def test_it_says_what_a_send_does_whatever_is_bound() -> None:
    random = Random(5)

    def words(least: int) -> str:
        return ".".join(random.choice(["a", "b", "*", "#"]) for _ in range(random.randrange(least, 4)))

    for _ in range(30):
        bindings = {(words(1), f"q{random.randrange(6)}") for _ in range(random.randrange(1, 12))}
        node = exchange("topic", *bindings)
        for key in {words(1) for _ in range(5)}:
            before = {name: len(node.stored(name)) for _, name in bindings}
            answer = route(node, key)
            node.say(send(1, f"/exchange/x/{key}"))
            got = {f"/queue/{name}" for name, count in before.items() if len(node.stored(name)) > count}
            assert {one["destination"] for one in answer["targets"]} == got and answer["count"] == len(got)
            for one in answer["targets"]:
                assert (one["key"], one["destination"].removeprefix("/queue/")) in bindings


def test_a_table_of_ten_thousand_bindings_is_answered_in_slices() -> None:
    node = exchange("topic", *((f"*.k{number}", "busy") for number in range(10_000)), ("#", "busy"))
    turns = 0
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"route","exchange":"x","key":"no.match"}', reply_to="t"))
    while not (found := node.messages(9)):
        assert node.step()
        turns += 1
    assert b'"key": "#"' in found[0].message.body and turns >= 10_000 // JUDGED_AT_ONCE


@pytest.mark.parametrize("count", [ROUTED_TARGETS, ROUTED_TARGETS + 1])
def test_only_the_first_are_listed(count: int) -> None:
    node = exchange(
        "fanout", *(("", f"q{number}") for number in range(count)), settings=QueueSettings(persistent=False)
    )
    answer = route(node)
    assert (len(answer["targets"]), answer["count"]) == (ROUTED_TARGETS, count)


def test_what_is_unbound_before_its_row_is_left_out() -> None:
    node = exchange("topic", ("a.#", "q"))
    node.admin(9, do="declare", queue="late")
    for key in (*(f"*.{number}" for number in range(3 * JUDGED_AT_ONCE)), "*"):
        assert node.admin(9, do="bind", exchange="x", key=key, queue="late")["created"]
    node.auto = False
    node.say(send(9, "/admin", b'{"do":"route","exchange":"x","key":"k"}', reply_to="t"))
    assert node.step() and not node.messages(9)
    node.broker.destinations.unbind("x", "*", "late")
    node.auto = True
    node.turn([])
    assert b'"targets": [], "count": 1' in node.message(9).message.body


def test_routes_that_cannot_be_asked_for() -> None:
    node = exchange("topic", ("a", "q"))
    assert code(node, do="route", exchange="nothing", key="a") == "no-such-destination"
    assert code(node, do="route", exchange="x", key=".".join("a" * 49)) == "too-many-words"
    assert code(node, do="route", exchange="x", key="k" * 256) == "bad-request"
    assert code(node, do="route", exchange="x", key="a\nb") == "bad-request"
    assert code(node, do="route", exchange="x", key="\ud800") == "bad-request"
    assert code(node, do="route", exchange="x", keys="a") == "bad-request"


# ---- may ------------------------------------------------------------------------------------------------------------

USERS = {
    "ann": User(name="ann", rules=Rules(write=("/queue/#", "/queue/orders.#", "/app/a.*"), read=("/topic/a.#",))),
    "root": User(name="root", rules=Rules(role="operator")),
    "eye": User(name="eye", rules=Rules(role="viewer", declare=("/queue/own.*",))),
    "none": User(name="none"),
}


def guarded(name: str = "root", by: RecognisedBy = RecognisedBy.PASSWORD, users: Any = None) -> Node:
    node = Node(authorizer=rights_of(USERS if users is None else users, 0))
    node.open(9)
    node.broker.connections[9].principal = Principal(name, by)
    return node


def may(node: Node, user: str, right: str, destination: str | None = None) -> dict[str, Any]:
    more = {} if destination is None else {"destination": destination}
    answer = node.admin(9, do="may", user=user, right=right, **more)
    assert answer.pop("ok"), answer
    return answer


@pytest.mark.parametrize(
    "user, right, destination, rule, sentence",
    [
        (
            "ann",
            "write",
            "/queue/orders.new",
            "/queue/#",
            "The user ann may write /queue/orders.new: the rule /queue/#",
        ),
        ("ann", "write", "/amq/queue/x", "/queue/#", "matches it"),
        ("ann", "write", "/app/a.b", "/app/a.*", "matches it"),
        ("ann", "write", "/app/b", None, "The user ann may not write /app/b: there is no rule"),
        ("ann", "read", "/topic/a.*", "/topic/a.#", "contains it"),
        ("ann", "read", "/topic/#", None, "contains it"),
        ("ann", "read", "/queue/q", None, "The user ann may not read /queue/q"),
        ("ann", "write", "/#", None, "it needs the right `write` on /#"),
        ("root", "write", "/queue/q", "/#", "the role `operator` gives `write` on everything"),
        ("root", "admin", None, "/#", "The user root may administer the broker: the role `operator`"),
        ("root", "admin", "/#", "/#", "operator"),
        ("eye", "see", "/#", "/#", "the role `viewer` gives `see`"),
        ("eye", "see", "/queue/#", "/#", "viewer"),
        ("eye", "see", "/log/journal", "/#", "viewer"),
        ("eye", "declare", "/queue/own.a", "/queue/own.*", "the rule /queue/own.* of `declare` matches it"),
        ("eye", "declare", "/exchange/x/key", None, "may not declare /exchange/x"),
        ("eye", "admin", None, None, "it needs the right `admin`"),
        ("none", "see", "/queue/q", None, "The user none may not see /queue/q"),
    ],
)
def test_a_right_is_judged_with_its_rule(
    user: str, right: str, destination: str | None, rule: str | None, sentence: str
) -> None:
    answer = may(guarded(), user, right, destination)
    assert (answer["allowed"], answer["rule"]) == (rule is not None, rule)
    assert sentence in answer["sentence"], answer["sentence"]


@pytest.mark.parametrize("address", ["/temp-queue/x", "/reply-queue/x", "/admin"])
def test_what_takes_no_right(address: str) -> None:
    for right in ("read", "write", "see", "declare"):
        answer = may(guarded(), "none", right, address)
        assert (answer["allowed"], answer["rule"]) == (True, None) and "needs no right" in answer["sentence"]


def test_it_is_the_verdict_of_the_command_itself() -> None:
    """A SEND, a SUBSCRIBE, and requests about it, by the same user."""
    judge = Rights(USERS, 0)
    node = guarded()
    for user in USERS:
        for name in ("orders.new", "own.a", "#", "a.*", "$durable/topic/a/b"):
            principal = Principal(user, RecognisedBy.PASSWORD)
            for right, command in (
                ("write", send(1, name)),
                ("read", subscribe(1, name)),
                ("read", subscribe(1, f"/topic/{name}")),
            ):
                try:
                    judge.check(principal, command)
                    allowed = True
                except Refusal:
                    allowed = False
                assert may(node, user, right, command.destination)["allowed"] == allowed, (user, right, command)


def test_where_there_are_no_users_everybody_may_everything() -> None:
    node = Node()
    node.open(9)
    answer = may(node, "anybody", "admin")
    assert answer == {
        "allowed": True,
        "rule": None,
        "sentence": "There are no users: whoever gets in may do everything.",
    }


def test_who_may_ask() -> None:
    assert may(guarded("eye"), "ann", "read", "/queue/q")["allowed"] is False
    assert may(guarded("ann"), "ann", "write", "/queue/q")["rule"] == "/queue/#", "about himself"
    assert code(guarded("ann"), do="may", user="root", right="admin") == "forbidden"
    assert code(guarded("ann"), do="may", user="nobody", right="admin") == "forbidden", "who is there is not told"
    assert code(guarded(), do="may", user="nobody", right="admin") == "no-such-user"


def test_who_has_not_logged_in_may_ask_about_anonymous_if_that_is_a_user() -> None:
    users = {**USERS, ANONYMOUS: User(name=ANONYMOUS, rules=Rules(write=("/queue/in",)))}
    node = guarded(ANYONE.name, RecognisedBy.NOTHING, users)
    assert may(node, ANONYMOUS, "write", "/queue/in")["allowed"] is True
    assert code(node, do="may", user="ann", right="write", destination="/queue/in") == "forbidden"


def test_thousands_of_rules_are_judged_in_slices() -> None:
    rules = Rules(write=(*(f"/queue/q{number}" for number in range(3000)), "/queue/last"))
    node = guarded(users={**USERS, "many": User(name="many", rules=rules)})
    node.auto, turns = False, 0
    request = b'{"do":"may","user":"many","right":"write","destination":"/queue/last"}'
    node.say(send(9, "/admin", request, reply_to="t"))
    while not (found := node.messages(9)):
        assert node.step()
        turns += 1
    assert b'"rule": "/queue/last"' in found[0].message.body and turns >= 3000 // JUDGED_AT_ONCE


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "", "right": "read", "destination": "/queue/q"},
        {"user": "a b", "right": "read", "destination": "/queue/q"},
        {"user": "ann", "right": "eat", "destination": "/queue/q"},
        {"user": "ann", "right": "read"},
        {"user": "ann", "right": "read", "destination": "queue"},
        {"user": "ann", "right": "read", "destination": "/queue/"},
        {"user": "ann", "right": "read", "destination": "/queue/\ud800"},
        {"user": "ann", "right": "read", "destination": "/app/x"},
        {"user": "ann", "right": "admin", "destination": "/queue/q"},
        {"user": "ann", "right": "read", "destination": "/queue/q", "more": 1},
    ],
)
def test_questions_that_are_none(wrong: dict[str, Any]) -> None:
    assert code(guarded(), do="may", **wrong) == "bad-request"


def test_an_address_of_no_kind() -> None:
    assert code(guarded(), do="may", user="ann", right="see", destination="/nothing/q") == "unknown-destination"
    assert needs_for("admin", EVERYTHING)[0].is_pattern
