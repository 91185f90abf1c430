"""`return`, `route` and `may` over HTTP, on a real broker with a real store."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from radiator.storage.check import check
from tests.broker_process import BrokerProcess
from tests.protocols.http.asking import request
from tests.server.web import OPEN, WebClient, port_of

CONFIG = (
    OPEN
    + """
[queue.orders]
dead_letter = "dead"
[queue.bills]
dead_letter = "dead"
[queue.dead]
[exchange.events]
type = "topic"
bindings = [{ key = "orders.#", queue = "orders" }, { key = "#", queue = "bills" }]
"""
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def web(broker: BrokerProcess) -> Iterator[WebClient]:
    with WebClient(port_of(broker.log, "http")) as client:
        yield client


def give_back(web: WebClient, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = web.ask("POST", "/v1/queues/dead/return", json.dumps(body).encode(), content_type="application/json")
    return answer.status, json.loads(answer.body)


def get(web: WebClient, path: str) -> tuple[int, dict[str, Any]]:
    answer = web.ask("GET", path)
    return answer.status, json.loads(answer.body)


def dies(broker: BrokerProcess, queue: str, *bodies: str) -> None:
    with Client(broker.address) as client:
        client.send_many(f"/queue/{queue}", bodies)
        client.subscribe(f"/queue/{queue}", ack="client-individual", prefetch=len(bodies))
        for _ in bodies:
            message = client.receive(5)
            assert message is not None
            client.nack(message, requeue=False)


def test_dead_letters_go_back_and_are_there_behind_a_kill(broker: BrokerProcess, web: WebClient) -> None:
    dies(broker, "orders", "1", "2", "3")
    dies(broker, "bills", "4")
    ids = [one["message_id"] for one in get(web, "/v1/queues/dead/peek")[1]["messages"]]
    status, answer = give_back(web, message_ids=[ids[0], ids[3]])
    assert (status, answer["returned"], answer["to"]) == (200, 2, {"orders": 1, "bills": 1})
    status, answer = give_back(web, message_ids=[ids[0]])
    assert (status, answer["not_returned"]) == (200, [{"message_id": ids[0], "why": "not-there"}])
    assert give_back(web, count=1)[1]["returned"] == 1 and give_back(web)[1]["returned"] == 1
    broker.kill()
    broker.start()
    with Client(broker.address) as client:
        for queue, bodies in (("orders", [b"1", b"2", b"3"]), ("bills", [b"4"])):
            client.subscribe(f"/queue/{queue}", subscription=queue)
            found = [client.receive(5) for _ in bodies]
            assert [one and one.body for one in found] == bodies
            assert {one and one.headers.get("dead-letter-reason") for one in found} == {None}
            client.unsubscribe(queue)
        assert client.admin({"do": "describe", "queue": "dead"})["messages"] == 0


def test_an_empty_body_means_all_and_wrong_ones_are_problems(broker: BrokerProcess, web: WebClient) -> None:
    dies(broker, "orders", "1")
    answer = web.ask("POST", "/v1/queues/dead/return")
    assert answer.status == 200 and json.loads(answer.body)["returned"] == 1
    status, problem = give_back(web, count=1, message_ids=["s-1-1"])
    assert (status, problem["code"]) == (400, "bad-request")
    assert give_back(web, message_ids=["s-1-1"] * 101)[0] == 400
    assert give_back(web, to="orders")[0] == 400
    assert web.ask("POST", "/v1/queues/nowhere/return").status == 404


def test_where_a_key_goes(web: WebClient) -> None:
    status, answer = get(web, "/v1/exchanges/events/route?key=orders.new")
    assert (status, answer["count"]) == (200, 2)
    assert sorted(answer["targets"], key=str) == [
        {"destination": "/queue/bills", "key": "#", "through": []},
        {"destination": "/queue/orders", "key": "orders.#", "through": []},
    ]
    assert get(web, "/v1/exchanges/amq.direct/route?key=a%2Fb")[1]["sentence"].startswith(
        "No binding matches /exchange/amq.direct/a/b: a SEND to it is dropped"
    )
    assert get(web, "/v1/exchanges/nothing/route")[0] == 404
    assert get(web, f"/v1/exchanges/events/route?key={'k' * 256}")[0] == 400
    assert get(web, "/v1/exchanges/events/route?keys=a")[0] == 400


def test_whether_a_user_may(web: WebClient) -> None:
    status, answer = get(web, "/v1/users/ann/may?right=write&destination=/queue/orders")
    assert (status, answer["allowed"], answer["rule"]) == (200, True, None)
    assert get(web, "/v1/users/ann/may?right=eat&destination=/queue/orders")[0] == 400
    assert get(web, "/v1/users/ann/may?right=write")[0] == 400


def test_ten_thousand_of_a_thousand_origins(tmp_path: Path) -> None:
    names = [f"o{number}" for number in range(1000)]
    tables = "".join(f'[queue.{name}]\ndead_letter = "dead"\nmax_messages = 10\n' for name in names)
    with BrokerProcess(tmp_path, OPEN + tables + "[queue.dead]\n") as broker:
        broker.wait_for_log("listening address=http://")
        with Client(broker.address) as client:
            for name in names:
                client.send_many(f"/queue/{name}", [b"x"] * 10)
                client.subscribe(f"/queue/{name}", ack="client-individual", prefetch=10, subscription=name)
                messages = [client.receive(5) for _ in range(10)]
                for message in messages:
                    assert message is not None
                    client.nack(message, requeue=False, confirm=False)
                client.unsubscribe(name)
            assert client.admin({"do": "describe", "queue": "dead"})["ready"] == 10_000
        with WebClient(port_of(broker.log, "http")) as web:
            status, answer = give_back(web)
            assert (status, answer["returned"], answer["stayed"], len(answer["to"])) == (200, 10_000, 0, 100)
            assert get(web, "/v1/queues/dead")[1]["messages"] == 0
            assert get(web, "/v1/queues/o999")[1]["ready"] == 10


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.06])
def test_killed_in_the_midst_of_it_each_is_in_exactly_one_queue(
    broker: BrokerProcess, web: WebClient, after_s: float
) -> None:
    """What stays stands before the others, and fills the window: those that go are behind it on the disk."""
    count = 1500
    with Client(broker.address) as client:
        client.send_many("/queue/dead", [f"stays {number}" for number in range(1200)])
    dies(broker, "orders", *map(str, range(count)))
    body = b"{}"
    web.send(request("POST", "/v1/queues/dead/return", body, Content_Type="application/json"))
    time.sleep(after_s)
    broker.kill()
    assert check(broker.data_dir).findings == []
    broker.start()
    found: list[bytes] = []
    with Client(broker.address) as client:
        for queue in ("orders", "dead"):
            messages = int(client.admin({"do": "describe", "queue": queue})["messages"])
            client.subscribe(f"/queue/{queue}", subscription=queue, prefetch=1000)
            for _ in range(messages):
                message = client.receive(5)
                assert message is not None
                found.append(message.body)
            client.unsubscribe(queue)
    assert sorted(found) == sorted([*(b"%d" % n for n in range(count)), *(b"stays %d" % n for n in range(1200))])
