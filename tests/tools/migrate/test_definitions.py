"""What RabbitMQ writes down, and what somebody may have made of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from radiator.model.errors import ConfigError
from radiator.tools.migrate import definitions
from radiator.tools.migrate.definitions import read_definitions
from radiator.tools.migrate.plan import MigrationPlan, plan_of


def read(directory: Path, found: Any, vhost: str = "/") -> definitions.Definitions:
    path = directory / "d.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return read_definitions(path, vhost)


def queue(name: str, vhost: str = "/", **arguments: Any) -> dict[str, Any]:
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": table}


def policy(name: str, pattern: str, definition: Any, **more: Any) -> dict[str, Any]:
    return {"vhost": "/", "name": name, "pattern": pattern, "definition": definition, "priority": 0, **more}


def planned(directory: Path, **found: Any) -> MigrationPlan:
    return plan_of(read(directory, {"queues": [], **found}), [])


def test_one_virtual_host_is_taken_and_the_others_named(tmp_path: Path) -> None:
    found = {"queues": [queue("a"), queue("b", "shop"), queue("c", "shop")], "users": [{}, {}]}
    made = read(tmp_path, found)
    assert [one.name for one in made.queues] == ["a"]
    assert made.others == [
        'virtual host "shop": 2 queues. One is moved in each run: --vhost names it.',
        "2 users: Radiator's users are in config.toml: docs/SECURITY.md, AMQP.",
    ]
    assert [one.name for one in read(tmp_path, found, "shop").queues] == ["b", "c"]


def test_a_file_of_one_virtual_host_says_none(tmp_path: Path) -> None:
    one = queue("a")
    del one["vhost"]
    assert [one.name for one in read(tmp_path, {"queues": [one]}, "shop").queues] == ["a"]


def test_parts_that_are_not_here_are_named(tmp_path: Path) -> None:
    parameters = [{"vhost": "/", "component": "shovel", "name": str(number), "value": {}} for number in range(2)]
    assert read(tmp_path, {"queues": [], "parameters": parameters}).others == [
        '2 parameters of "shovel": there is no such part here.'
    ]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "an object with `queues` is needed"),
        ({"queues": {}}, "an object with `queues` is needed"),
        ({"queues": [1]}, "queues[0] is 1: it must be an object."),
        ({"queues": [{"name": "q", "durable": 1}]}, "queues[0]: durable is 1: it must be true or false."),
        ({"queues": [{"name": "q", "arguments": [1]}]}, "queues[0]: arguments is [1]: it must be an object."),
        ({"queues": [], "bindings": 5}, "bindings is 5: it must be a list."),
        ({"queues": [], "policies": [policy("p", "(", {})]}, 'the pattern "(" cannot be read; a regular expression'),
        ({"queues": [], "policies": [policy("p", "[[:alpha:]]", {})]}, 'the pattern "[[:alpha:]]" cannot be read;'),
        ({"queues": [], "policies": [policy("p", "", [1])]}, "definition is [1]: it must be an object."),
        ({"queues": [], "policies": [policy("p", "", {}, priority="x")]}, 'priority is "x": it is a whole number.'),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, found: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, found)
    assert sentence in str(raised.value)


def test_a_file_may_have_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"queues": []})
    monkeypatch.setattr(definitions, "FILE_MAX_BYTES", len(text))
    read(tmp_path, text)
    monkeypatch.setattr(definitions, "FILE_MAX_BYTES", len(text) - 1)
    with pytest.raises(ConfigError, match="no definitions are so long"):
        read(tmp_path, text)


# ---- policies -------------------------------------------------------------------------------------------------------


def test_the_policy_of_the_highest_priority_counts_alone(tmp_path: Path) -> None:
    low, high = {"message-ttl": 5, "max-length": 1}, {"expires": 7}
    plan = planned(
        tmp_path, queues=[queue("a"), queue("b")], policies=[policy("l", "", low), policy("h", "^a", high, priority=9)]
    )
    assert [dict(one.arguments) for one in plan.queues] == [{"x-expires": 7}, {"x-message-ttl": 5, "x-max-length": 1}]
    assert ('queue "a"', 'x-expires = 7, from the policy "h"') in plan.applied and plan.lost == []


def test_the_lower_bound_counts_and_the_queue_s_own_dead_letters(tmp_path: Path) -> None:
    own = {"x_message_ttl": 10, "x_max_length": 10, "x_dead_letter_exchange": "own"}
    definition = {"message-ttl": 9, "max-length": 11, "dead-letter-exchange": "theirs"}
    one = planned(tmp_path, queues=[queue("a", **own)], policies=[policy("p", "a", definition)]).queues[0]
    assert dict(one.arguments) == {"x-message-ttl": 9, "x-max-length": 10, "x-dead-letter-exchange": "own"}


def test_an_operator_policy_holds_beside(tmp_path: Path) -> None:
    value = {"pattern": ".*", "apply-to": "queues", "priority": 0, "definition": {"max-length": 3}}
    parameters = [{"vhost": "/", "component": "operator_policy", "name": "op", "value": value}]
    plan = planned(tmp_path, queues=[queue("a")], policies=[policy("p", "a", {"max-length": 4})], parameters=parameters)
    assert dict(plan.queues[0].arguments) == {"x-max-length": 3} and plan.others == []
    value["definition"] = [["max-length", 3], ["expires", 5]]  # as rabbitmqctl of 3.10 writes it
    plan = planned(tmp_path, queues=[queue("a")], parameters=parameters)
    assert dict(plan.queues[0].arguments) == {"x-max-length": 3, "x-expires": 5}


@pytest.mark.parametrize(
    ("pattern", "holds_for"),
    [("^.$", ["a"]), ("^..$", ["é"]), ("^[é]$", []), ("^é$", ["é"]), ("^\\w+$", ["a"])],
)
def test_a_pattern_holds_for_the_names_that_it_holds_for_in_rabbitmq(
    tmp_path: Path, pattern: str, holds_for: list[str]
) -> None:
    """It was tried with RabbitMQ 3.10.8, which compares bytes."""
    plan = planned(tmp_path, queues=[queue("a"), queue("é")], policies=[policy("p", pattern, {"expires": 5})])
    assert [one.name for one in plan.by_policy] == holds_for


@pytest.mark.parametrize(("arguments", "is_limited"), [({}, False), ({"x_queue_type": "quorum"}, True)])
def test_a_delivery_limit_of_a_policy_is_of_quorum_queues(
    tmp_path: Path, arguments: dict[str, Any], is_limited: bool
) -> None:
    """RabbitMQ knows none of a classic queue, which would lose messages here that it keeps there."""
    plan = planned(tmp_path, queues=[queue("a", **arguments)], policies=[policy("p", "a", {"delivery-limit": 5})])
    assert (plan.queues[0].arguments.get("x-delivery-limit") == 5) is is_limited
    assert bool(plan.applied) is is_limited and plan.lost == []


@pytest.mark.parametrize(
    ("applies_to", "is_applied"),
    [("all", True), ("queues", True), ("classic_queues", True), ("quorum_queues", False), ("exchanges", False)],
)
def test_a_policy_is_of_what_it_says(tmp_path: Path, applies_to: str, is_applied: bool) -> None:
    one = policy("p", "a", {"max-length": 4}, **{"apply-to": applies_to})
    assert bool(planned(tmp_path, queues=[queue("a")], policies=[one]).applied) is is_applied


def test_what_a_policy_cannot_be_here_is_told_and_the_rest_of_it_holds(tmp_path: Path) -> None:
    definition = {
        "federation-upstream-set": "all",
        "delivery-limit": 5,
        "message-ttl": -1,
        "max-length": 4,
        "ha-mode": "all",
    }
    quorum = queue("a", x_queue_type="quorum")
    plan = planned(tmp_path, queues=[quorum], policies=[policy("p", "a", definition)])
    assert dict(plan.queues[0].arguments) == {"x-queue-type": "quorum", "x-max-length": 4, "x-delivery-limit": 5}
    assert [why.partition(" =")[0] for _, why in plan.lost] == [
        "message-ttl", "federation-upstream-set",
    ]  # fmt: skip
    with_dead_letters = {"delivery-limit": 5, "dead-letter-routing-key": "k", "dead-letter-exchange": "x"}
    plan = planned(tmp_path, queues=[quorum], policies=[policy("p", "a", with_dead_letters)])
    assert len(plan.applied) == 3 and plan.lost == []


def test_an_alternate_exchange_of_a_policy_is_the_exchange_s(tmp_path: Path) -> None:
    exchange = {"name": "e", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False}
    plan = planned(
        tmp_path, queues=[queue("q")], exchanges=[exchange], policies=[policy("p", "", {"alternate-exchange": "other"})]
    )
    assert dict(plan.exchanges[0].arguments) == {"alternate-exchange": "other"} and dict(plan.queues[0].arguments) == {}
    assert plan.lost == []


@pytest.mark.parametrize(
    ("definition", "is_left"),
    [
        ({"dead-letter-exchange": "a/b"}, True),
        ({"dead-letter-exchange": "x", "dead-letter-routing-key": "k" * 256}, True),
        ({"dead-letter-exchange": "x", "dead-letter-routing-key": "k" * 255}, False),
        ({"dead-letter-routing-key": "k"}, False),  # which has no effect in RabbitMQ
        ({"consumer-timeout": 99}, False),
    ],
)
def test_a_queue_whose_dead_letters_would_go_elsewhere_is_left(
    tmp_path: Path, definition: dict[str, Any], is_left: bool
) -> None:
    plan = planned(tmp_path, queues=[queue("q")], policies=[policy("p", "q", definition)])
    assert [what for what, _ in plan.left] == ['queue "q"'] * is_left
    assert all('of the policy "p": `dead_letter_' in why for _, why in plan.left)
    assert len(plan.queues) == (not is_left)


def test_what_the_new_broker_would_refuse_of_a_policy_is_told_before_it_is_declared(tmp_path: Path) -> None:
    definition = {"consumer-timeout": 99, "message-ttl": 5}
    plan = planned(tmp_path, queues=[queue("q")], policies=[policy("p", "q", definition)])
    assert dict(plan.queues[0].arguments) == {"x-message-ttl": 5}
    assert [why for _, why in plan.lost] == [
        'consumer-timeout = 99 of the policy "p": `ack_timeout_s` is 0.099; it must be a number of seconds from 0.1 to '
        "31536000."
    ]


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_what_leads_to_what_is_left_is_left(tmp_path: Path) -> None:
    exchange = {"vhost": "/", "durable": True, "auto_delete": False, "internal": False}
    binding = {"vhost": "/", "routing_key": "k", "arguments": {}, "destination_type": "queue"}
    plan = planned(
        tmp_path,
        queues=[queue("a"), queue("amq.gen-1"), queue("s", x_queue_type="stream")],
        exchanges=[{**exchange, "name": "e", "type": "direct"}, {**exchange, "name": "d", "type": "x-delayed-message"}],
        bindings=[
            {**binding, "source": "e", "destination": "a"},
            {**binding, "source": "amq.direct", "destination": "a"},
            {**binding, "source": "", "destination": "a"},
            {**binding, "source": "d", "destination": "a"},
            {**binding, "source": "e", "destination": "s"},
            {**binding, "source": "e", "destination": "d", "destination_type": "exchange"},
        ],
    )
    assert [one.source for one in plan.bindings] == ["e", "amq.direct"]
    assert [what.split()[0] for what, _ in plan.left] == ["exchange", "queue", "queue", "binding", "binding", "binding"]


def test_an_exchange_is_judged_as_it_would_be_declared(tmp_path: Path) -> None:
    one = {"vhost": "/", "durable": True, "auto_delete": False, "internal": False, "type": "direct"}
    found = [{**one, "name": name, "arguments": {"alternate-exchange": name}} for name in ("a.b", "a")]
    found[1]["arguments"] = {"alternate-exchange": "a/b"}
    plan = planned(tmp_path, exchanges=found)
    assert [exchange.name for exchange in plan.exchanges] == ["a.b"] and 'exchange "a"' in dict(plan.left)


def test_the_queues_that_are_wanted_are_taken_alone(tmp_path: Path) -> None:
    plan = plan_of(read(tmp_path, {"queues": [queue("a"), queue("b")]}), ["b", "c", "b"])
    assert plan.to_move == [("b", True), ("c", False)] and plan.left == []


@pytest.mark.parametrize(
    ("arguments", "is_taken"),
    [
        ({"x_max_priority": 10}, True),
        ({"x_max_priority": 11}, False),
        ({"x_dead_letter_exchange": "a.b"}, True),
        ({"x_dead_letter_exchange": "a/b"}, False),
    ],
)
def test_a_queue_is_judged_as_it_would_be_declared(tmp_path: Path, arguments: dict[str, Any], is_taken: bool) -> None:
    assert bool(planned(tmp_path, queues=[queue("a", **arguments)]).queues) is is_taken
