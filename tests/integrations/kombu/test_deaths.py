"""Dead letters by an exchange, as programs of kombu declare them and get them."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import kombu
import pytest

from radiator.integrations.kombu.deaths import death_headers
from tests.integrations.kombu.test_channel import Collected, declared, publish

ROW = {"count": 2, "reason": "rejected", "queue": "q", "time": 1, "exchange": "", "routing-keys": ["q"]}


def test_what_a_broker_writes() -> None:
    older = {**ROW, "queue": "first", "reason": "expired", "exchange": "e"}
    found = death_headers({"x-death": json.dumps([ROW, older])})
    assert found["x-death"][0] == {**ROW, "time": datetime(1970, 1, 1, 0, 0, 1)}
    assert {name: value for name, value in found.items() if name != "x-death"} == {
        "x-first-death-reason": "expired",
        "x-first-death-queue": "first",
        "x-first-death-exchange": "e",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "",
    }


LATE, KEYLESS = json.dumps([{**ROW, "time": 10**30}]), json.dumps([{**ROW, "routing-keys": 5}])


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", "[7]", "[{}]", "[" * 100_000, LATE, KEYLESS], ids=range(9))
def test_what_no_broker_writes_says_nothing(text: str) -> None:
    assert death_headers({"x-death": text}) == {}


def test_without_a_death() -> None:
    assert death_headers({}) == {}


def test_what_is_rejected_goes_to_the_exchange(channel: Any, name: str) -> None:
    dead = kombu.Queue(f"{name}-dead", kombu.Exchange(f"{name}-dlx", "topic"), routing_key="#")(channel)
    dead.declare()
    arguments = {"x-dead-letter-exchange": f"{name}-dlx", "x-dead-letter-routing-key": "was.rejected"}
    queue = kombu.Queue(name, kombu.Exchange(name), routing_key="k", queue_arguments=arguments)(channel)
    queue.declare()
    publish(channel, b"x", "k", name, headers={"mine": [1]})
    Collected(channel, name).wait_for(1).messages[0].reject()
    message = Collected(channel, dead.name).wait_for(1).messages[0]
    assert (message.body, message.headers["mine"]) == (b"x", [1])
    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == (f"{name}-dlx", "was.rejected")
    (death,) = message.headers["x-death"]
    age_s = datetime.now(UTC).replace(tzinfo=None) - death.pop("time")
    assert -2 < age_s.total_seconds() < 30
    assert death == {"count": 1, "reason": "rejected", "queue": name, "exchange": name, "routing-keys": ["k"]}
    assert message.headers["x-first-death-reason"] == "rejected"


def test_the_cycle_of_retries(channel: Any, name: str) -> None:
    retry = f"{name}-retry"
    declared(channel, name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": retry})
    to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name, "x-message-ttl": 100}
    declared(channel, retry, arguments=to_work)
    begun_s = time.monotonic()
    publish(channel, b"x", name)
    work = Collected(channel, name)
    for count in (1, 2):
        work.wait_for(count).messages[-1].reject()
    message = work.wait_for(3).messages[-1]
    assert time.monotonic() - begun_s >= 0.2
    assert [(death["queue"], death["reason"], death["count"]) for death in message.headers["x-death"]] == [
        (retry, "expired", 2),
        (name, "rejected", 2),
    ]
    message.ack()


def test_what_is_pushed_out_of_a_full_queue_goes_there_too(channel: Any, name: str) -> None:
    declared(channel, f"{name}-dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    declared(channel, name, arguments={**to_dead, "x-max-length": 1})
    for number in range(2):
        publish(channel, b"%d" % number, name)
    message = Collected(channel, f"{name}-dead").wait_for(1).messages[0]
    assert (message.body, message.headers["x-last-death-reason"]) == (b"0", "maxlen")


def test_what_comes_back_too_often_goes_there_too(channel: Any, name: str) -> None:
    declared(channel, f"{name}-dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    declared(channel, name, arguments={**to_dead, "x-delivery-limit": 1})
    publish(channel, b"x", name)
    work = Collected(channel, name)
    for count in (1, 2):
        work.wait_for(count).messages[-1].requeue()
    message = Collected(channel, f"{name}-dead").wait_for(1).messages[0]
    assert message.headers["x-last-death-reason"] == "delivery_limit"
