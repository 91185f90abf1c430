"""What is an act: each type of request to /admin is one, or is said to be none."""

import json
from typing import get_args

import pytest

from radiator.model import administration as asked
from radiator.model.administration import AdminCommand
from radiator.model.audit import ACT, ACTS, BROKER, EVENTS, LEFT_OUT, NO_ACTS, act_of, as_json
from radiator.model.limits import AUDIT_OF_ONE, AUDIT_VALUE_CHARACTERS
from radiator.model.users import user_name_mistake


def test_each_type_of_request_is_an_act_or_none() -> None:
    acts = [act.command for act in ACTS]
    assert {*acts, *NO_ACTS} == {*get_args(AdminCommand)}
    assert len(acts) + len(NO_ACTS) == len(get_args(AdminCommand))


def test_each_act_has_a_name_of_its_own() -> None:
    assert len({act.what for act in ACTS}) == len(ACTS)


def test_each_event_but_the_count_has_a_bound() -> None:
    assert {*AUDIT_OF_ONE} == {*EVENTS} - {LEFT_OUT}


@pytest.mark.parametrize(
    ("command", "on"),
    [
        (asked.DeclareDestination("log", "l", {}), "/log/l"),
        (asked.DeleteDestination("queue", "q"), "/queue/q"),
        (asked.PurgeQueue("q"), "/queue/q"),
        (asked.PeekQueue("q", 1), "/queue/q"),
        (asked.PeekQueue("q", 1, "a-1-2"), "/queue/q a-1-2"),
        (asked.MoveMessages("q", "r"), "/queue/q /queue/r"),
        (asked.ReturnMessages("q"), "/queue/q"),
        (asked.ReleaseCheckout("q", "g"), "/queue/q g"),
        (asked.DrainConsumer("q", "pod-3", 0), "/queue/q pod-3"),
        (asked.AddBinding("x", "k", "q"), "/exchange/x/k q"),
        (asked.RemoveBinding("x", "k", "/log/l"), "/exchange/x/k /log/l"),
        (asked.SetPosition("l", "g", [1]), "/log/l g"),
        (asked.ForgetPosition("l", "g"), "/log/l g"),
        (asked.AbortPrefix("p"), "p"),
        (asked.ReadAppVersion("app", forget=True), "app"),
        (asked.ReleasePeer("b"), "b"),
        (asked.DropCopies("b"), "b"),
        (asked.KeepCopies("b"), "b"),
        (asked.DrainNode(), ""),
        (asked.DrainNode(stop=True), "stop"),
        (asked.ReloadConfiguration(), ""),
    ],
)
def test_an_act_says_what_it_is_done_to(command: AdminCommand, on: str) -> None:
    act = act_of(command)
    assert act is not None and act.on(command) == on


@pytest.mark.parametrize(
    "command",
    [
        asked.ReadStats(),
        asked.DeclareDestination("queue", "q", {}, passive=True),
        asked.ReadAppVersion("app"),
        asked.ReloadConfiguration(is_trial=True),
        asked.DescribeDestination("queue", "q"),
        asked.PeekQueue("q", 1, "a-1-2", 1),
    ],
)
def test_what_only_looks_is_none(command: AdminCommand) -> None:
    assert act_of(command) is None


def test_a_record_is_one_line_of_json_whatever_is_in_it() -> None:
    body = as_json(ACT, 7, {"user": 'a"\n\x00', "on": "\udcff", "code": "", "connection": 0})
    assert b"\n" not in body and json.loads(body) == {
        "event": ACT, "ms": 7, "user": 'a"\n\x00', "on": "\udcff", "connection": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("more", "is_cut"), [(0, False), (1, True)])
def test_long_values_are_cut(more: int, is_cut: bool) -> None:
    value = "x" * (AUDIT_VALUE_CHARACTERS + more)
    found = json.loads(as_json(ACT, 7, {"on": value}))["on"]
    assert found == (f"{value[:-1]}..." if is_cut else value)


def test_no_user_has_the_name_of_who_makes_the_log() -> None:
    assert user_name_mistake(BROKER)
