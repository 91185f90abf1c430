"""From one broker to another, both real: what is moved, what stays, and what an end in the middle leaves."""

import json
import signal
import subprocess
import time
from pathlib import Path

import amqp
import pytest

from radiator.auth.scrypt import Cost, made
from tests.acceptance.amqp_clients import CONFIG, LISTENING, port_of
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, BrokerProcess
from tests.certificates import Authority
from tests.tools.migrate.conftest import WAIT_MAX_S, Side, command, definitions, migrate, side_of

MANY = 3000


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_order_and_properties_are_those_that_were_sent(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("plain")
    headers = {"n": 5, "f": 1.5, "deep": {"list": [1, "two", None, True]}, "big": 2**40}
    sent = {"content_type": "text/plain", "application_headers": headers, "correlation_id": "c", "delivery_mode": 2}
    old.fill("plain", *numbers(1200), **sent)
    found = migrate(old, new, "--definitions", definitions(tmp_path, queues=[{"name": "plain"}]))
    (row,) = found["queues"]
    assert (row["moved"], row["left"], row["why"], row["twice_at_most"]) == (1200, 0, "", 0) and found["is_whole"]
    messages = new.messages("plain")
    assert [message.body for message in messages] == numbers(1200) and old.count("plain") == 0
    assert messages[7].properties == {**sent, "content_encoding": "utf-8"}
    assert messages[7].delivery_info["redelivered"] is False


@pytest.mark.parametrize("window", ["1", "2", "7"])
def test_any_window_will_do(old: Side, new: Side, window: str) -> None:
    for side in (old, new):
        side.declare(f"window{window}")
    old.fill(f"window{window}", *numbers(20))
    migrate(old, new, "--queue", f"window{window}", "--window", window)
    assert new.bodies(f"window{window}") == numbers(20)


def test_exchanges_bindings_and_policies_are_there(old: Side, new: Side, tmp_path: Path) -> None:
    file = definitions(
        tmp_path,
        queues=[{"name": "bound"}, {"name": "dead"}],
        exchanges=[{"name": "events", "type": "topic"}, {"name": "amq.topic", "type": "topic"}],
        bindings=[{"source": "events", "destination": "bound", "routing_key": "a.#"}],
        policies=[{"name": "ttl", "pattern": "^bound$", "definition": {"message-ttl": 100, "dead-letter-exchange": "",
                                                                     "dead-letter-routing-key": "dead"}}],
    )  # fmt: skip
    for name in ("bound", "dead"):
        old.declare(name)
    old.fill("bound", "1")
    found = migrate(old, new, "--definitions", file)
    assert found["exchanges"] == 1 and found["bindings"] == 1
    assert {row["why"].partition(" =")[0] for row in found["applied"]} == {
        "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
    }  # fmt: skip
    new.channel.basic_publish(amqp.Message("2"), exchange="events", routing_key="a.b")
    new.wait_for("dead", 2)
    assert sorted(new.bodies("dead")) == ["1", "2"]
    assert migrate(old, new, "--definitions", file)["is_whole"]  # again: all is there already


def test_a_dry_run_changes_nothing(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("dry")
    old.fill("dry", "1")
    found = migrate(old, new, "--definitions", definitions(tmp_path, queues=[{"name": "dry"}]), "--dry-run")
    assert found["queues"] == {"dry": 1} and old.count("dry") == 1
    with pytest.raises(amqp.NotFound):
        new.count("dry")


def test_what_is_refused_is_left_and_the_rest_moved(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("taken")
    old.fill("taken", "1")
    refused = {"x-queue-type": "stream"}, {"x-max-priority": 11}, {"x-nonsense": 1}, {"x-message-ttl": -1}
    queues = [{"name": f"left{number}", "arguments": arguments} for number, arguments in enumerate(refused)]
    found = migrate(
        old,
        new,
        "--definitions",
        definitions(tmp_path, queues=[*queues, {"name": "taken"}], exchanges=[{"name": "late", "type": "x-delayed"}]),
        status=1,
    )
    assert len(found["not_taken"]) == 5 and not found["is_whole"]
    assert "streams are not spoken" in found["not_taken"][1]["why"]
    assert new.bodies("taken") == ["1"]


def test_a_queue_that_is_there_otherwise_is_left(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("otherwise")
    old.fill("otherwise", "1")
    new.declare("otherwise", x_message_ttl=60000)
    found = migrate(old, new, "--definitions", definitions(tmp_path, queues=[{"name": "otherwise"}]), status=1)
    assert "x-message-ttl" in found["not_taken"][0]["why"] and old.count("otherwise") == 1


def test_a_name_alone_needs_the_queue(old: Side, new: Side) -> None:
    old.declare("alone")
    found = migrate(old, new, "--queue", "alone", status=1)
    assert "404" in found["not_taken"][0]["why"]
    new.declare("nothing-old")
    (row,) = migrate(old, new, "--queue", "nothing-old", status=1)["queues"]
    assert "404" in row["why"]


def test_copies_are_not_made_again_and_a_sender_is_no_order(old: Side, new: Side) -> None:
    for side in (old, new):
        side.declare("first")
        side.declare("copy")
    old.fill("first", "1", application_headers={"CC": ["copy"], "n": 1}, expiration="60000", priority=3)
    found = migrate(old, new, "--queue", "first", "--queue", "copy")
    assert [row["moved"] for row in found["queues"]] == [1, 1]
    assert found["queues"][0]["notes"] == {"expiration": 1, "CC": 1}
    for queue in ("first", "copy"):
        (message,) = new.messages(queue)
        assert message.properties["application_headers"] == {"n": 1, "x-migrated-cc": ["copy"]}
        assert message.properties["expiration"] == "60000"


def test_a_full_queue_is_left_where_it_is_full_and_others_go_on(old: Side, new: Side) -> None:
    for name in ("full", "after"):
        old.declare(name)
        old.fill(name, *numbers(20))
    new.declare("full", x_max_length=8, x_overflow="reject-publish")
    new.declare("after")
    found = migrate(old, new, "--queue", "full", "--queue", "after", status=1)
    full, after = found["queues"]
    assert (full["moved"], full["left"]) == (8, 12) and "it is full" in full["why"] and full["twice_at_most"] == 0
    assert after["moved"] == 20
    assert new.bodies("full") + old.bodies("full") == numbers(20)


def test_what_the_new_broker_cannot_take_stays_alone(old: Side, new: Side) -> None:
    for side in (old, new):
        side.declare("odd")
    old.fill("odd", "1")
    old.fill("odd", "2", application_headers={"h": "x" * 60000})  # as much as may come
    old.fill("odd", "3")
    (row,) = migrate(old, new, "--queue", "odd")["queues"]
    assert row["moved"] == 3 and new.bodies("odd") == ["1", "2", "3"]


def test_a_message_above_the_bound_stays_and_the_others_go(old: Side, tmp_path: Path) -> None:
    config = CONFIG + "[limits]\nmax_frame_bytes = 1048576\n"
    with BrokerProcess(tmp_path, config) as broker:
        new = side_of(broker)
        for side in (old, new):
            side.declare("large")
        big = "x" * 2_000_000
        old.fill("large", "1", big, "2", big, "3", "y" * 500_000)
        (row,) = migrate(old, new, "--queue", "large", status=1)["queues"]
        assert (row["moved"], row["left"], len(row["refused"])) == (4, 2, 2) and row["twice_at_most"] == 0
        assert "max_frame_bytes" in row["refused"][0]
        assert [len(body) for body in new.bodies("large")] == [1, 1, 1, 500_000]
    assert old.bodies("large") == [big, big]


def test_an_auto_delete_queue_is_not_deleted(old: Side, new: Side, tmp_path: Path) -> None:
    old.declare("passing", auto_delete=True)
    old.fill("passing", *numbers(10))
    file = definitions(tmp_path, queues=[{"name": "passing", "auto_delete": True}])
    migrate(old, new, "--definitions", file)
    assert new.bodies("passing") == numbers(10) and old.count("passing") == 0


def test_one_broker_is_not_moved_into_itself(old: Side) -> None:
    found = migrate(old, old, "--queue", "q", status=2)
    assert "the old broker and the new one" in found["stderr"]
    other = Side(old.address.replace("127.0.0.1", "localhost"))
    assert "are the same broker" in migrate(old, other, "--queue", "q", status=1)["stderr"]


# ---- an end in the middle -------------------------------------------------------------------------------------------


def test_a_kill_loses_nothing_and_doubles_no_more_than_the_window(old: Side, new: Side) -> None:
    for side in (old, new):
        side.declare("killed")
    old.fill("killed", *numbers(MANY))
    for least in (1, MANY // 3, MANY // 2):
        process = command(old.address, new.address, "--queue", "killed", "--window", "50")
        new.wait_for("killed", least)
        process.kill()
        process.communicate()
    (row,) = migrate(old, new, "--queue", "killed")["queues"]
    found = new.bodies("killed")
    assert set(found) == set(numbers(MANY))
    doubled = len(found) - MANY
    assert doubled <= 3 * 50 and row["redelivered"] <= 50, (doubled, row)


def test_an_interrupt_doubles_nothing(old: Side, new: Side, tmp_path: Path) -> None:
    for side in (old, new):
        side.declare("interrupted")
    old.fill("interrupted", *numbers(MANY))
    ways = "--definitions", definitions(tmp_path, queues=[{"name": "interrupted"}])
    process = command(old.address, new.address, *ways, "--follow", "--json", "--window", "50")
    new.wait_for("interrupted", 1)
    process.terminate()
    out, err = process.communicate(timeout=WAIT_MAX_S)
    assert process.returncode == 0
    assert err == (
        "\nradiator: Interrupted. What is on its way comes to its end; "
        "a second interrupt ends it at once, and at most 50 messages can be doubled then.\n"
    )
    (row,) = json.loads(out)["queues"]
    assert row["moved"] + row["left"] == MANY and row["left"] and row["twice_at_most"] == 0
    migrate(old, new, *ways)
    assert new.bodies("interrupted") == numbers(MANY)


@pytest.mark.slow
def test_where_the_new_broker_has_no_room_a_second_interrupt_ends_it(old: Side, tmp_path: Path) -> None:
    old.declare("no-room")
    bodies = [b"%d" % number + bytes(100_000) for number in range(400)]
    old.fill("no-room", *bodies)
    small = CONFIG.replace('"8GiB"', '"48MiB"').replace('"16MiB"', '"1MiB"')
    with BrokerProcess(tmp_path, small) as broker:
        new = side_of(broker)
        ways = "--definitions", definitions(tmp_path, queues=[{"name": "no-room"}])
        process = command(old.address, new.address, *ways, "--window", "20")
        broker.wait_for_log("disk_tight", 30)
        count = -1
        while (now := new.count("no-room")) != count:  # what the log in front of the tables gives back is filled again
            count = now
            time.sleep(2)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        began_s = time.monotonic()
        _, err = process.communicate(timeout=WAIT_MAX_S)
        assert process.returncode == 130 and "a second interrupt ends it" in err
        assert time.monotonic() - began_s < 4
        found = new.bodies("no-room")
        left = old.bodies("no-room")
    assert len(set(found)) == len(found) < len(bodies) and set(found) | set(left) == set(bodies)
    assert len(found) + len(left) <= len(bodies) + 20


def test_following_moves_what_still_comes(old: Side, new: Side) -> None:
    for name in ("followed", "other"):
        for side in (old, new):
            side.declare(name)
    process = command(old.address, new.address, "--queue", "followed", "--queue", "other", "--follow")
    for number in range(3):
        old.publish("followed", str(number))
        old.publish("other", str(number))
        new.wait_for("followed", number + 1)
        new.wait_for("other", number + 1)
    process.terminate()
    process.communicate(timeout=WAIT_MAX_S)
    assert process.returncode == 0
    assert new.bodies("followed") == new.bodies("other") == numbers(3)


@pytest.mark.parametrize("which", ["old", "new"])
def test_a_broker_that_is_killed_is_told_and_nothing_is_lost(tmp_path: Path, which: str) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with BrokerProcess(tmp_path / "old", CONFIG) as one, BrokerProcess(tmp_path / "new", CONFIG) as other:
        killed = one if which == "old" else other
        for broker in (one, other):
            side_of(broker).declare("q")
        side_of(one).fill("q", *numbers(MANY), delivery_mode=2)
        addresses = [f"amqp://127.0.0.1:{port_of(broker)}" for broker in (one, other)]
        process = command(*addresses, "--queue", "q", "--window", "100", "--json")
        side_of(other).wait_for("q", 200)
        killed.kill()
        out, err = process.communicate(timeout=WAIT_MAX_S)
        assert process.returncode == 1 and f"The connection to the {which} broker" in err, (out, err)
        (row,) = json.loads(out)["queues"]
        assert (row["left"], row["why"]) == (None, "A connection was lost.") and row["moved"] < MANY
        killed.start()
        time.sleep(0.1)
        old, new = side_of(one), side_of(other)
        migrate(old, new, "--queue", "q")
        found = new.bodies("q")
    assert set(found) == set(numbers(MANY))
    # a broker that is killed may have forgotten acks that it had taken: how many is its own
    assert len(found) - MANY <= (MANY if which == "old" else 100)


def test_a_queue_that_is_deleted_here_meanwhile_takes_nothing_with_it_that_is_there(old: Side, new: Side) -> None:
    for side in (old, new):
        side.declare("deleted")
    old.fill("deleted", *numbers(MANY))
    process = command(old.address, new.address, "--queue", "deleted", "--window", "20", "--json")
    new.wait_for("deleted", 100)
    gone = new.channel.queue_delete("deleted")
    out, _ = process.communicate(timeout=WAIT_MAX_S)
    (row,) = json.loads(out)["queues"]
    assert process.returncode == 1 and "has no queue" in row["why"] and row["twice_at_most"] <= 20
    assert 100 <= row["moved"] <= gone <= row["moved"] + row["twice_at_most"] < MANY
    assert old.bodies("deleted") == numbers(MANY)[row["moved"] :]
    assert row["left"] == MANY - row["moved"]


# ---- ways to a broker -----------------------------------------------------------------------------------------------


SECRET = "cor:rect horse"
USERS = f"""
[user."shop"]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
role = "operator"
"""
TLS = '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'


def test_under_tls_as_a_user_and_by_a_unix_socket(old: Side, tmp_path: Path) -> None:
    old.declare("guarded")
    old.fill("guarded", *numbers(1200))
    old.fill("guarded", "x" * 3_000_000, user_id="guest")
    authority = Authority(tmp_path)
    authority.pair("server")
    password = tmp_path / "password"
    password.write_text(SECRET + "\n")
    password.chmod(0o600)
    listen = LISTENING.replace('"amqp:', '"amqps://127.0.0.1:0", "amqp+unix:amqp.sock", "amqp:')
    with BrokerProcess(tmp_path, listen + TLS + EVERYTHING_MAY_BE_CREATED + USERS) as broker:
        ways = ["--queue", "guarded", "--ca", str(authority.certificate), "--to-password-file", str(password)]
        tls = f"amqps://shop@localhost:{port_of(broker, 'amqps')}"
        new = Side(f"amqp://127.0.0.1:{port_of(broker)}", userid="shop", password=SECRET)
        new.declare("guarded")
        (row,) = migrate(old, tls, *ways)["queues"]
        assert (row["moved"], row["left"]) == (1201, 0)
        assert "cannot be spoken to under TLS" in migrate(old, tls, *ways[:2], *ways[4:], status=1)["stderr"]
        wrong = migrate(old, tls.replace("shop@", "eve@"), *ways, status=1)["stderr"]
        assert "403 ACCESS_REFUSED" in wrong and SECRET not in wrong
        bodies = new.bodies("guarded")
        assert bodies[:-1] == numbers(1200) and len(bodies[-1]) == 3_000_000
        Side(old.address, login_method="PLAIN").fill("guarded", "1", user_id="guest")  # whom the new one does not know
        unix = migrate(old, "", "--queue", "guarded", "--config", str(broker.config_file))
        assert unix["to"].startswith("amqp+unix:") and unix["queues"][0]["notes"] == {"user-id": 1}
        assert new.bodies("guarded") == ["1"]


def test_a_death_is_kept_until_the_next_one(old: Side, new: Side) -> None:
    old.declare("dying")
    new.declare("dying", x_dead_letter_exchange="", x_dead_letter_routing_key="dead-here")
    new.declare("dead-here")
    death = {"count": 3, "reason": "rejected", "queue": "dying", "time": 5, "exchange": "", "routing-keys": ["dying"]}
    old.fill("dying", "1", application_headers={"x-death": [death], "x-first-death-queue": "dying", "n": 1})
    migrate(old, new, "--queue", "dying")
    message = new.channel.basic_get("dying")
    assert message.headers["x-death"] == [death]
    new.channel.basic_reject(message.delivery_tag, requeue=False)
    new.wait_for("dead-here", 1)
    (dead,) = new.messages("dead-here")
    (here,) = dead.headers["x-death"]
    assert (here["reason"], here["count"], dead.headers["n"]) == ("rejected", 1, 1)
