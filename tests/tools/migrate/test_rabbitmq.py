"""From a real RabbitMQ, where one is installed."""

import json
import time
from pathlib import Path

import amqp
import pytest

from tests.acceptance.amqp_clients import CONFIG
from tests.broker_process import BrokerProcess
from tests.rabbitmq import RabbitMq, needs_rabbitmq
from tests.tools.migrate.conftest import WAIT_MAX_S, Side, command, definitions, migrate, side_of

MANY = 5000


@pytest.fixture
def old(rabbitmq: RabbitMq) -> Side:
    return Side(rabbitmq.address)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_what_rabbitmq_writes_down_is_moved(rabbitmq: RabbitMq, old: Side, new: Side, tmp_path: Path) -> None:
    """Queues of each kind, a policy, bindings, dead letters, by its own export."""
    rabbitmq.control("set_policy", "late", "^work$", '{"message-ttl":200,"dead-letter-exchange":"dead"}')
    rabbitmq.control("set_policy", "kept", "^quorum$", '{"max-length":2000,"ha-mode":"all"}')
    channel = old.channel
    channel.exchange_declare("dead", "fanout", durable=True, auto_delete=False)
    channel.exchange_declare("events", "topic", durable=True, auto_delete=False)
    channel.exchange_bind("dead", "events", "x.*")
    for name in ("work", "graves", "memory", "quorum", "passing"):
        kind = {"x_queue_type": "quorum"} if name == "quorum" else {}
        old.declare(name, durable=name != "memory", auto_delete=name == "passing", **kind)
    channel.queue_bind("graves", "dead")
    old.declare("urgent", x_max_priority=10)
    old.declare("streamed", x_queue_type="stream")
    old.fill("urgent", *numbers(9), priority=1)
    old.fill("urgent", *numbers(9), priority=9)
    for name in ("memory", "quorum", "passing"):
        old.fill(name, *numbers(1200))
    channel.basic_publish(amqp.Message("died", application_headers={"n": 1}), routing_key="work")
    old.wait_for("graves", 1)
    file = tmp_path / "definitions.json"
    rabbitmq.control("export_definitions", str(file))
    found = migrate(old, new, "--definitions", str(file), status=1)
    assert [row["what"] for row in found["not_taken"]] == ['queue "streamed"']
    assert found["lost"] == []
    assert {row["what"] for row in found["applied"]} == {'queue "work"', 'queue "quorum"'}
    assert any(sentence.startswith("1 user: ") for sentence in found["others"])
    rows = {row["queue"]: row for row in found["queues"]}
    assert all(row["left"] == 0 and not row["why"] and not row["twice_at_most"] for row in rows.values()), rows
    for name in ("memory", "quorum", "passing"):
        assert new.bodies(name) == numbers(1200), name
        assert old.count(name) == 0
    assert new.bodies("urgent") == [*numbers(9), *numbers(9)]
    (died,) = new.messages("graves")
    (death,) = died.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("work", "expired", 1) and died.headers["n"] == 1
    new.channel.basic_publish(amqp.Message("later"), routing_key="work")  # the policy holds here
    new.channel.basic_publish(amqp.Message("bound"), exchange="events", routing_key="x.y")
    new.wait_for("graves", 2)
    assert sorted(new.bodies("graves")) == ["bound", "later"]


def test_copies_senders_and_deliveries_are_no_orders(rabbitmq: RabbitMq, old: Side, new: Side) -> None:
    for side in (old, new):
        side.declare("first")
        side.declare("copy")
    old.declare("counted", x_queue_type="quorum")
    new.declare("counted")
    old.fill("first", "1", application_headers={"CC": ["copy"], "BCC": ["copy"]}, user_id="guest", expiration="60000")
    rabbitmq.control("add_user", "ann", "secret")
    rabbitmq.control("set_permissions", "ann", ".*", ".*", ".*")
    Side(old.address, userid="ann", password="secret").fill("first", "2", user_id="ann")
    old.fill("counted", "1", "2")
    (one, _) = (old.channel.basic_get("counted"), old.channel.basic_get("counted"))
    old.channel.basic_reject(one.delivery_tag, requeue=True)
    old.channel.close()
    found = migrate(Side(old.address), new, "--queue", "first", "--queue", "copy", "--queue", "counted")
    assert [row["moved"] for row in found["queues"]] == [2, 1, 2]
    assert found["queues"][0]["notes"] == {"expiration": 1, "user-id": 1, "CC": 1}
    (copy,) = new.messages("copy")
    first, second = new.messages("first")
    for message in (copy, first):
        assert message.headers == {"x-migrated-cc": ["copy"]} and message.properties["user_id"] == "guest"
    assert second.headers == {"x-migrated-user-id": "ann"} and "user_id" not in second.properties
    for message in new.messages("counted"):
        assert not message.properties.get("application_headers") and not message.delivery_info["redelivered"]


def test_a_kill_loses_nothing_and_doubles_no_more_than_the_window(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("killed")
    old.fill("killed", *numbers(MANY), delivery_mode=2)
    file = definitions(tmp_path, queues=[{"name": "killed"}])
    new.declare("killed")
    for least in (1, MANY // 3):
        process = command(old.address, new.address, "--definitions", file, "--window", "100")
        new.wait_for("killed", least)
        process.kill()
        process.communicate()
    (row,) = migrate(old, new, "--definitions", file)["queues"]
    found = new.bodies("killed")
    assert set(found) == set(numbers(MANY))
    assert len(found) - MANY <= 2 * 100 and row["redelivered"] <= 100


def test_a_single_active_consumer_that_is_another_is_told(old: Side, new: Side, tmp_path: Path) -> None:
    arguments = {"x-single-active-consumer": True}
    old.declare("single", x_single_active_consumer=True)
    other = Side(old.address)
    other.channel.basic_qos(0, 1, False)
    other.channel.basic_consume("single", callback=lambda message: None)
    old.channel.basic_publish(amqp.Message("1"), routing_key="single")
    old.channel.basic_publish(amqp.Message("2"), routing_key="single")
    old.wait_for("single", 1)
    file = definitions(tmp_path, queues=[{"name": "single", "arguments": arguments}])
    found = migrate(old, new, "--definitions", file, status=1)
    (row,) = found["queues"]
    assert row["left"] == 1 and "may be the single active one" in row["why"] and "has 1 consumer in" in found["stderr"]


def test_an_exclusive_consumer_is_told_and_others_go_on(old: Side, new: Side, tmp_path: Path) -> None:
    for name in ("held", "free"):
        old.declare(name)
    other = Side(old.address)
    other.channel.basic_qos(0, 1, False)
    other.channel.basic_consume("held", callback=lambda message: None, exclusive=True)
    old.channel.basic_publish(amqp.Message("1"), routing_key="held")
    old.fill("held", "2")
    old.fill("free", "1")
    file = definitions(tmp_path, queues=[{"name": "held"}, {"name": "free"}])
    held, free = migrate(old, new, "--definitions", file, status=1)["queues"]
    assert "403" in held["why"] and free["moved"] == 1


def test_back_again(old: Side, new: Side) -> None:
    """The undo: RabbitMQ as the new one."""
    for side in (old, new):
        side.declare("back")
    new.fill("back", *numbers(1200), user_id="guest", application_headers={"n": 1})
    (row,) = migrate(new, old, "--queue", "back")["queues"]
    assert (row["moved"], row["left"]) == (1200, 0)
    assert old.bodies("back") == numbers(1200)


def test_a_rabbitmq_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    needs_rabbitmq()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with RabbitMq(tmp_path / "old") as rabbitmq, BrokerProcess(tmp_path / "new", CONFIG) as broker:
        old, new = Side(rabbitmq.address), side_of(broker)
        for side in (old, new):
            side.declare("q")
        old.fill("q", *numbers(MANY), delivery_mode=2)
        time.sleep(1)  # without confirms it may not have written the last ones yet
        process = command(old.address, new.address, "--queue", "q", "--json")
        new.wait_for("q", 500)
        rabbitmq.kill()
        out, err = process.communicate(timeout=WAIT_MAX_S)
        assert process.returncode == 1 and "The connection to the old broker" in err
        (row,) = json.loads(out)["queues"]
        assert row["twice_at_most"] <= 500
        rabbitmq.start()
        migrate(Side(rabbitmq.address), new, "--queue", "q")
        assert set(new.bodies("q")) == set(numbers(MANY))
