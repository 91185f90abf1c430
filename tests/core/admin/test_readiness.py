"""Whether clients should be sent to a broker: each reason, at its bound and one past it, and who is told it."""

from typing import Any

import pytest

from radiator.core.rights import ANONYMOUS, Rights
from radiator.model.administration import REASONS
from radiator.model.commands import NotLinked, Open, Tick
from radiator.model.limits import CERTIFICATE_READY_S, STORE_BEHIND_S
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import Rules
from radiator.model.settings import Node as NodeSettings
from radiator.model.users import User
from tests.core.node import Node

GIB = 1 << 30


def alone(**more: Any) -> Node:
    node = Node(**more)
    node.open(9)
    return node


def reasons(node: Node, *exclude: str, connection: int = 9) -> list[tuple[str, str]]:
    answer = node.admin(connection, do="ready", exclude=[*exclude])
    assert answer["ready"] is not bool(answer["reasons"])
    return [(one["reason"], one["sentence"]) for one in answer["reasons"]]


def test_a_broker_that_has_just_started_is_ready() -> None:
    node = alone()
    assert node.admin(9, do="ready") == {"ok": True, "ready": True, "reasons": []}


@pytest.mark.parametrize("missing, expected", [(0, []), (1, ["disk"])])
def test_not_while_the_disk_has_no_room(missing: int, expected: list[str]) -> None:
    node = alone()
    node.turn([Tick(node.broker.parts.disk.free_min - missing, 0)])
    assert [reason for reason, _ in reasons(node)] == expected
    node.turn([Tick(GIB, 0)])
    assert reasons(node) == []


def test_not_while_memory_is_short() -> None:
    node = alone()
    node.broker.parts.admission.memory_wait_list.is_tight = True
    assert reasons(node) == [("memory", "Memory is short: SENDs of connections that hold much wait.")]
    assert reasons(node, "memory") == []


@pytest.mark.parametrize("short_s, expected", [(0.1, []), (0.0, ["store"])])
def test_not_while_the_tables_have_long_been_far_behind(short_s: float, expected: list[str]) -> None:
    node = alone()
    node.turn([Tick(GIB, 0, is_store_behind=True)])
    node.now_s += STORE_BEHIND_S - short_s
    node.turn([Tick(GIB, 0, is_store_behind=True)])
    assert [reason for reason, _ in reasons(node)] == expected
    node.turn([Tick(GIB, 0)])
    node.turn([Tick(GIB, 0, is_store_behind=True)])
    assert reasons(node) == [], "it has caught up in between"


@pytest.mark.parametrize(
    "left_s, says",
    [
        (CERTIFICATE_READY_S, None),
        (CERTIFICATE_READY_S - 1, "The certificate of stomps://a:1 expires in 1439 minutes: renew it before then."),
        (0, "The certificate of stomps://a:1 expires in 0 minutes: renew it before then."),
        (-1, "The certificate of stomps://a:1 has expired: clients refuse it. Renew it."),
    ],
)
def test_not_with_a_certificate_that_is_over_or_soon_will_be(left_s: int, says: str | None) -> None:
    node = alone()
    node.turn([Tick(GIB, 0, certificates_left_s={"": CERTIFICATE_READY_S, "stomps://a:1": left_s})])
    assert reasons(node) == ([] if says is None else [("certificate", says)])


def test_not_while_it_is_drained_or_a_node_of_its_list_is_not_linked() -> None:
    node = alone(node=NodeSettings(name="a", secret=b"s" * 16, peers={"b": None, "c": None}))
    node.turn([NotLinked("b", "it has another secret.", is_refused=True)])
    assert reasons(node) == [
        ("links", "The node b is not linked (refused): it has another secret."),
        ("links", "The node c is not linked (down)."),
    ]
    assert reasons(node, "links") == []
    node.admin(9, do="drain")
    assert [reason for reason, _ in reasons(node, "links")] == ["draining"]
    node.admin(9, do="drain", stop=True)
    assert reasons(node, "links") == []


@pytest.mark.parametrize(
    "name, see, is_told", [("sees", "/#", True), ("other", "/queue/#", False), (ANONYMOUS, None, False)]
)
def test_reasons_are_for_who_may_see_everything(name: str, see: str | None, is_told: bool) -> None:
    rules = Rules() if see is None else Rules(see=(see,))
    node = Node(authorizer=Rights({name: User(name=name, rules=rules)}, own_uid=1))
    node.inbox[9], node.delivers[9] = [], 0
    node.turn([Open(9, principal=Principal(name, RecognisedBy.NOTHING if see is None else RecognisedBy.TOKEN))])
    node.turn([Tick(-1, 0)])
    answer = node.admin(9, do="ready")
    assert (answer["ready"], bool(answer["reasons"])) == (False, is_told)


@pytest.mark.parametrize("exclude", ["disk", ["disks"], [1]])
def test_what_is_no_reason_is_not_left_out(exclude: object) -> None:
    answer = alone().admin(9, do="ready", exclude=exclude)
    assert answer["code"] == "bad-request" and ", ".join(REASONS) in answer["error"]


def test_the_server_is_told_the_reasons_at_each_tick_and_no_names() -> None:
    node = alone()
    free_min = node.broker.parts.disk.free_min
    for free_bytes, expected in ((free_min - 1, {"disk"}), (GIB, set())):
        turn = node.broker.turn([Tick(free_bytes, 0)], node.now_s, node.now_ms)
        assert turn.not_ready == expected
    assert node.broker.turn([], node.now_s, node.now_ms).not_ready is None, "what was said before holds"
