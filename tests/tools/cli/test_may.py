"""`radiator may` on real brokers, with users and without."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.tools.cli import main
from tests.broker_process import SERVER, BrokerProcess
from tests.tools.cli.conftest import Run

PASSWORD = f'password = "{made(b"secret", bytes(16), Cost(ln=10))}"\n'
USERS = f"""
[user.ops]
{PASSWORD}role = "operator"
[user.ann]
{PASSWORD}write = ["/queue/orders.#"]
read = ["/topic/news.#"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SERVER + USERS) as running:
        yield running


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RADIATOR_PASSWORD", "secret")


OPS, ANN = ("--user", "ops"), ("--user", "ann")


def test_it_says_by_which_rule_and_exits_with_1_where_there_is_none(run: Run, secret: None) -> None:
    assert run("may", "ann", "write", "orders.new", *OPS) == (
        0,
        "The user ann may write /queue/orders.new: the rule /queue/orders.# of `write` matches it.\n",
        "",
    )
    sentence = "The user ann may not write /queue/bills: there is no rule of `write` that matches it.\n"
    assert run("may", "ann", "write", "/queue/bills", *OPS) == (1, sentence, "")
    assert run("may", "ann", "read", "/topic/news.*", *OPS)[0] == 0
    assert run("may", "ann", "admin", *OPS)[0] == 1
    assert run("may", "ops", "admin", *OPS)[1].endswith("the role `operator` gives `admin` on everything.\n")
    assert json.loads(run("may", "ops", "see", "/#", "--json", *OPS)[1])["rule"] == "/#"


def test_about_himself_anybody_may_ask(run: Run, secret: None) -> None:
    assert run("may", "ann", "write", "orders", *ANN)[0] == 0
    status, out, err = run("may", "ops", "admin", *ANN)
    assert (status, out) == (1, "") and "The user ann may not do that: it needs the right `see` on /#." in err
    assert "There is no user 'nobody'" in run("may", "nobody", "write", "orders", *OPS)[2]


def test_without_users_all_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerProcess(tmp_path) as other:
        for words in (("write", "orders"), ("admin",)):
            assert main(["may", "ann", *words, "--broker", other.address]) == 0
            assert capsys.readouterr().out == "There are no users: whoever gets in may do everything.\n"


def test_what_is_wrong_is_said(run: Run, secret: None) -> None:
    assert run("may", "ann", "write", *OPS) == (
        2,
        "",
        "radiator: Where? Say DESTINATION, such as orders or /topic/news, or /# for everything.\n",
    )
    status, _, err = run("may", "ann", "wriet", "orders", *OPS)
    assert status == 2 and "cannot be 'wriet'" in err and "write" in err
    assert "must be the name of a user" in run("may", "a b", "write", "orders", *OPS)[2]
    assert "leave it out" in run("may", "ann", "admin", "orders", *OPS)[2]
