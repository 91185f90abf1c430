"""GET /metrics of a real broker: what Prometheus reads, by its own checker too, and who may read it."""

import base64
import http.client
import shutil
import subprocess
from pathlib import Path

import pytest

from radiator.auth import scrypt
from radiator.client import Client
from radiator.tools.cli import main
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.protocols.prometheus.reading import Families, read

WEB = SERVER.replace('["stomp://127.0.0.1:0"]', '["stomp://127.0.0.1:0", "http://127.0.0.1:0"]')
CONFIG = WEB + '[log."l"]\n[fanout."f"]\nchildren = ["a"]\n' + EVERYTHING_MAY_BE_CREATED
STORED = scrypt.made(b"pw", bytes(16), scrypt.Cost(ln=10))
USERS = f"""
[user.ops]
password = "{STORED}"
role = "viewer"
[user.shop]
password = "{STORED}"
see = ["/queue/#"]
write = ["/#"]
"""


def web_port(broker: BrokerProcess) -> int:
    return int(broker.wait_for_log("listening address=http://").split(":")[-1].split()[0])


def get(broker: BrokerProcess, path: str, user: str = "") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", web_port(broker), timeout=20)
    login = {"Authorization": "Basic " + base64.b64encode(f"{user}:pw".encode()).decode()} if user else {}
    connection.request("GET", path, headers=login)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def scraped(broker: BrokerProcess, path: str = "/metrics", user: str = "") -> Families:
    response, body = get(broker, path, user)
    assert response.status == 200, body
    assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    return read(body.decode())


def filled(broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        for name in ("a", 'we"ird\\na%20me', "sch\u00f6n.\u732b"):
            client.send(f"/queue/{name}", "x")
        client.send("/fanout/f", "x")
        client.subscribe("/log/l", ack="client", headers={"group": "g"})
        client.send("/log/l", "x")


def test_what_is_scraped_is_what_the_command_line_prints(
    broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(broker)
    families = scraped(broker)
    assert main(["stats", "--prometheus", "--broker", broker.address]) == 0
    printed = read(capsys.readouterr().out)
    assert families.keys() == printed.keys()
    for name in ("radiator_queue_accepted_total", "radiator_fanout_accepted_total", "radiator_log_unread"):
        assert families[name] == printed[name]
    assert families["radiator_queue_messages"][2]["", r'queue="we\"ird\\na%20me"'] == 1
    assert families["radiator_log_unread"][2]["", 'log="l",group="g"'] == 1


def test_the_query_leaves_out_what_is_not_wanted(broker: BrokerProcess) -> None:
    filled(broker)
    assert not any("_queue_" in name for name in scraped(broker, "/metrics?section=broker&section=logs"))
    some = scraped(broker, "/metrics?name=sch%C3%B6n.*")
    assert {*some["radiator_queue_messages"][2]} == {("", 'queue="sch\u00f6n.\u732b"')} and "radiator_boot" in some
    response, body = get(broker, "/metrics?section=nothing")
    assert response.status == 400 and b"it must be one of broker, queues" in body


def test_promtool_finds_nothing_wrong(broker: BrokerProcess) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; on Debian or Ubuntu: apt install prometheus")
    filled(broker)
    _, body = get(broker, "/metrics")
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    broken = body.replace(b"# TYPE radiator_boot gauge", b"# TYPE radiator_boot number")
    assert subprocess.run([promtool, "check", "metrics"], input=broken, capture_output=True, timeout=60).returncode != 0


def test_metrics_need_the_right_to_see_everything(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, WEB + USERS + EVERYTHING_MAY_BE_CREATED) as broker:
        response, body = get(broker, "/metrics")
        assert response.status == 401 and b"radiator_" not in body
        response, body = get(broker, "/metrics", "shop")
        assert response.status == 403 and b"needs the right `see` on /#" in body
        assert scraped(broker, user="ops")["radiator_user_connections"][2]["", 'user="ops"'] == 1
