"""`radiator peek` of one message on a real broker, and the same over HTTP: the whole body, part after part."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.client import Client
from radiator.model.limits import PEEK_PART_BYTES
from radiator.tools.cli import main
from tests.broker_process import SERVER, BrokerProcess
from tests.ports import free_port
from tests.tools.cli.conftest import Run

PORT = free_port()
LISTEN = SERVER.replace('"stomp://127.0.0.1:0"', f'"stomp://127.0.0.1:0", "http://127.0.0.1:{PORT}"')
CONFIG = f"""{LISTEN}
[queue.kept]
[queue.keyed]
partition_key = "header:key"
[queue.held]
persistent = false
"""
QUEUES = ("kept", "keyed", "held")
BODY = bytes(range(256)) * 4000 + b"end"  # in four parts


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def empty(client: Client) -> None:
    for queue in QUEUES:
        client.admin({"do": "purge", "queue": queue})


def put(client: Client, queue: str, body: bytes | str) -> str:
    """Its message-id; another message stands before it."""
    client.send(f"/queue/{queue}", "before it", {"key": "a"})
    client.send(f"/queue/{queue}", body, {"key": "b"})
    return str(client.admin({"do": "peek", "queue": queue})["messages"][1]["message_id"])


@pytest.mark.parametrize("queue", QUEUES)
def test_the_whole_body_is_written_to_a_file(run: Run, client: Client, queue: str, tmp_path: Path) -> None:
    one = put(client, queue, BODY)
    file = tmp_path / "body"
    sentence = f"The body of {one}, {len(BODY)} bytes, is in {file}.\n"
    assert run("peek", queue, "--message", one, "--output", str(file)) == (0, sentence, "")
    assert file.read_bytes() == BODY
    assert client.admin({"do": "stats"})["queues"][queue]["ready"] == 2, "it is there still"


def test_standard_output_gets_the_bytes_alone(broker: BrokerProcess, client: Client, capfdbinary: Any) -> None:
    one = put(client, "kept", BODY)
    assert main(["peek", "kept", "--message", one, "--output", "-", "--broker", broker.address]) == 0
    assert capfdbinary.readouterr().out == BODY


def test_it_is_shown_with_its_whole_body(run: Run, client: Client) -> None:
    text = "ä" * (PEEK_PART_BYTES // 2) + " and the end"
    one = put(client, "kept", text)
    status, out, _ = run("peek", "kept", "--message", one)
    assert status == 0 and out.startswith(one) and out.endswith(f"  {text}\n") and "before it" not in out
    (message,) = json.loads(run("peek", "kept", "--message", one, "--json")[1])["messages"]
    assert message["body"] == text and message["body_bytes"] == len(text.encode())
    client.admin({"do": "purge", "queue": "kept"})
    other = put(client, "kept", BODY)
    (message,) = json.loads(run("peek", "kept", "--message", other, "--json")[1])["messages"]
    assert message["body"] is None and base64.b64decode(message["body_base64"]) == BODY


def test_an_empty_body_is_an_empty_file(run: Run, client: Client, tmp_path: Path) -> None:
    one = put(client, "kept", b"")
    file = tmp_path / "body"
    assert run("peek", "kept", "--message", one, "--output", str(file))[0] == 0
    assert file.read_bytes() == b""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--message", "4f0c2a91b7d3e865-3-17"), "/queue/kept does not have 4f0c2a91b7d3e865-3-17"),
        (("--output", "x"), "--output is for one body: say which by --message ID."),
        (("--message", "a-1-1", "--output", "x", "--json"), "leave --json and --watch out"),
        (("--message", "a-1-1", "--output", "x", "--watch"), "leave --json and --watch out"),
        (("--message", "none"), "'none' is not a message-id"),
        (("--message", "a-1-1", "--count", "3"), "not allowed with argument"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    status, out, err = run("peek", "kept", *words)
    assert status != 0 and out == "" and sentence in err


def test_nothing_is_written_of_what_is_not_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "body"
    assert run("peek", "kept", "--message", "a-1-1", "--output", str(file))[0] == 1
    assert not file.exists()


def get(path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}") as answer:
        return json.load(answer)


@pytest.mark.parametrize("queue", QUEUES)
def test_it_comes_over_http_part_after_part(client: Client, queue: str) -> None:
    one = put(client, queue, BODY)
    body = b""
    while len(body) < len(BODY):
        (message,) = get(f"/v1/queues/{queue}/peek?message={one}&from={len(body)}")["messages"]
        assert (message["message_id"], message["body_from"], message["body_bytes"]) == (one, len(body), len(BODY))
        part = base64.b64decode(message["body_base64"])
        assert 0 < len(part) <= PEEK_PART_BYTES
        body += part
    assert body == BODY


@pytest.mark.parametrize(("query", "status"), [("message=a-1-1", 404), ("message=none", 400), ("from=1", 400)])
def test_a_refusal_over_http_has_its_status(query: str, status: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(f"/v1/queues/kept/peek?{query}")
    assert refused.value.code == status
    refused.value.close()
