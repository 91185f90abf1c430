"""No command makes a queue that nobody has asked for: `--create` does, as a refusal says, with a name that is near."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.ports import free_port
from tests.tools.cli.conftest import Run

CONFIG = (
    EVERYTHING_MAY_BE_CREATED
    + """
[queue.orders]
[queue."orders.dead"]
dead_letter = "orders"
[queue."orders.parked"]
[queue.memory]
persistent = false
[exchange.events]
[fanout.news]
children = ["orders"]
[log.clicks]
"""
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        with Client(running.address) as client:
            client.send("/queue/orders", b"1")
        yield running


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "send ordrs body",
            "There is no /queue/ordrs, and the message is mandatory. Did you mean /queue/orders? "
            "--create makes /queue/ordrs.",
        ),
        ("receive xyz", "There is no /queue/xyz, and this address creates none. --create makes /queue/xyz."),
        (
            "move orders order",
            "There is no /queue/order. Did you mean /queue/orders.dead? --create makes /queue/order.",
        ),
        ("move ordrs new", "There is no /queue/ordrs. Did you mean /queue/orders? --create makes /queue/new."),
        (
            "bind events k ordrs",
            "There is no /queue/ordrs: declare it first. Did you mean /queue/orders? --create makes /queue/ordrs.",
        ),
        (
            "bind event k orders",
            "/exchange/event is not declared: config.toml or a request to /admin declares an exchange. "
            "Did you mean /exchange/events?",
        ),
        ("unbind events k ordrs", "There is no /queue/ordrs: declare it first. Did you mean /queue/orders?"),
        (
            "declare queue new --dead-letter ordrs",
            "There is no /queue/ordrs. Did you mean /queue/orders? --create makes /queue/ordrs.",
        ),
        ("declare queue new --dead-letter orders.ded", "no /queue/orders.ded. --create makes /queue/orders.ded."),
        ("declare queue new --dead-letter memry", "There is no /queue/memry. --create makes /queue/memry."),
        ("declare queue ordrs --dead-letter orders --passive", "There is no /queue/ordrs. Did you mean /queue/orders?"),
        ("declare fanout f orders ordrs", "Did you mean /queue/orders.dead? --create makes /queue/ordrs."),
        ("send exchange event/k body", "Did you mean /exchange/events/k?"),
        ("send /log/click body", "Did you mean /log/clicks?"),
        ("send fanout nws body", "Did you mean /fanout/news?"),
        ("peek ordrs", "There is no /queue/ordrs. Did you mean /queue/orders?"),
        ("why log click", "Did you mean /log/clicks?"),
        ("position click g", "Did you mean /log/clicks?"),
        ("receive clicks", "There is no /queue/clicks, and this address creates none. There is a /log/clicks."),
        ("send clicks body", "There is a /log/clicks."),
        ("peek clicks", "There is no /queue/clicks. There is a /log/clicks."),
        ("send --create /log/xyz body", "declares a log. `radiator declare log xyz` makes it."),
        ("send exchange xyz/k body", "declares an exchange. `radiator declare exchange xyz` makes it."),
        ("receive '$durable/topic/x/y'", "There is no /queue/$durable/topic/x/y, and this address creates none."),
        ("move orders 'a.*'", "There is no /queue/a.*."),
    ],
)
def test_what_is_not_there_is_not_made(run: Run, client: Client, line: str, sentence: str) -> None:
    before = client.admin({"do": "stats", "section": "queues"})["queues"].keys()
    status, out, err = run(*shlex.split(line))
    assert (status, out) == (1, "") and err.endswith(f"{sentence}\n"), err
    assert client.admin({"do": "stats", "section": "queues"})["queues"].keys() == before


@pytest.mark.parametrize(
    "line", ["send \udcff x", "send q x --header a:\udcff", "receive \udcff", "peek \udcff", "bench \udcff"]
)
def test_a_name_that_is_no_utf_8_is_one_sentence(run: Run, line: str) -> None:
    status, out, err = run(*line.split())
    assert (status, out) == (1, "") and "Traceback" not in err and err.count("\n") == 1 and "xdcff" not in err


def test_a_queue_is_not_moved_into_itself(run: Run) -> None:
    printed = (2, "", "radiator: /queue/a cannot be moved into itself.\n")
    assert run("move", "a", "/queue/a") == run("move", "a", "a", "--create") == printed


@pytest.mark.parametrize(
    "line",
    [
        "send made body --create",
        "receive made --create --timeout 0.01",
        "move orders.parked made --create",
        "bind events k made --create",
        "declare queue new --dead-letter made --create",
        "declare fanout f orders made --create",
    ],
)
def test_create_makes_it(run: Run, client: Client, line: str) -> None:
    assert run(*line.split())[0] == 0
    assert "made" in client.admin({"do": "stats", "section": "queues"})["queues"]
    for thing in ("fanout f", "queue new", "made"):
        run("delete", *thing.split())
    assert "made" not in client.admin({"do": "stats", "section": "queues"})["queues"]


def test_what_is_there_is_used(run: Run, client: Client) -> None:
    for name in ("orders.parked", "memory"):
        assert run("send", name, "body") == run("send", name, "body", "--create") == (0, "", "")
        answer = json.loads(run("receive", "queue", name, "--count", "1", "--json")[1])
        assert (answer["destination"], answer["body"], answer["redelivered"]) == (f"/queue/{name}", "body", False)
        out = run("peek", f"/queue/{name}")[1]
        assert f"destination:/queue/{name}\n" in out and "amq" not in out
        assert run("purge", name)[0] == 0


def test_the_configuration_says_where_the_broker_listens(
    tmp_path: Path, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    any_port = tmp_path / "config.toml"
    any_port.write_text(SERVER + "unix = false\n")
    assert main(["queues", "--config", str(any_port)]) == 2
    assert "any free port" in capsys.readouterr().err
    assert main(["queues", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err
    for host in ("127.0.0.1", "0.0.0.0"):
        config = (
            SERVER.replace("127.0.0.1:0", f"{host}:{(port := free_port())}")
            + f'plain = ["stomp://{host}:{port}"]\nunix = false\n[user.anonymous]\nrole = "operator"\n[queue.there]\n'
        )
        (tmp_path / host).mkdir()
        with BrokerProcess(tmp_path / host, config) as other:
            capsys.readouterr()
            assert main(["queues", "--config", str(other.config_file)]) == 0
            assert "there" in capsys.readouterr().out
            assert main(["check", "--config", str(other.config_file)]) == 0
            assert main(["check", "--data", str(other.data_dir)]) == main(["check", str(other.data_dir)]) == 0
