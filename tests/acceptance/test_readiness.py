"""Whether a real broker is ready, by HTTP and by the command line."""

import json
from pathlib import Path

import pytest

from radiator.tools.cli import main
from tests.acceptance.test_metrics import USERS, WEB, get
from tests.broker_process import BrokerProcess

NODE = '[node]\nname = "a"\nsecret_file = "secret"\n[peer.b]\naddress = "peer://127.0.0.1:1"\n'


def test_one_that_serves_is_ready_and_says_so_to_any_user(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, WEB + USERS) as broker:
        assert get(broker, "/healthz")[1] == b"ok\n"
        response, body = get(broker, "/readyz", "shop")
        assert (response.status, body) == (200, b"ready\n")
        assert get(broker, "/readyz", "nobody")[0].status == 401


def test_a_probe_needs_no_login_and_is_no_failed_one(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, WEB + USERS) as broker:
        for _ in range(50):
            response, body = get(broker, "/readyz")
            assert (response.status, body) == (200, b"ready\n")
            assert get(broker, "/healthz")[0].status == 200
        assert "login_failed" not in broker.log
        assert get(broker, "/readyz", "shop")[0].status == 200


def test_one_whose_neighbour_is_away_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    with BrokerProcess(tmp_path, WEB + NODE) as broker:
        response, body = get(broker, "/readyz")
        assert response.status == 503 and response.getheader("Retry-After") == "1"
        assert [one["reason"] for one in json.loads(body)["reasons"]] == ["links"]
        assert get(broker, "/readyz?exclude=links")[0].status == 200
        assert main(["ready", "--broker", broker.address]) == 1
        assert capsys.readouterr().out.startswith("not ready (links): The node b is not linked (")
        assert main(["ready", "--broker", broker.address, "--exclude", "links"]) == 0
        assert capsys.readouterr().out == "ready\n"


def test_reasons_are_for_who_may_see(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    with BrokerProcess(tmp_path, WEB + USERS + NODE) as broker:
        for user in ("", "shop"):
            response, body = get(broker, "/readyz", user)
            assert response.status == 503 and json.loads(body)["reasons"] == [] and b"node b" not in body
        assert get(broker, "/readyz?exclude=links")[0].status == 200
        assert b"The node b is not linked" in get(broker, "/readyz", "ops")[1]
