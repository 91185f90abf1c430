"""What a broker tells of itself over HTTP: its settings, its bounds, its disk, the last lines of its log; and that no
secret is in anything that it answers.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.core.bounds import BOUNDS
from radiator.model.limits import LOG_KEPT_LINES, LOG_VALUE_CHARACTERS
from radiator.protocols.administration.requests import REQUESTS
from radiator.protocols.http.administration import ASKINGS
from tests import issuer
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess, environment
from tests.server.web import OPEN, WebBroker, WebClient, basic, port_of


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = OPEN + "[limits]\nmax_connections = 77\n[logging]\nlevel = 'debug'\n[journal]\nenabled = true\n"
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        running.wait_for_log("listening address=http://")
        yield running
        assert running.is_running and "Traceback" not in running.log, running.log


@pytest.fixture
def web(broker: BrokerProcess) -> Iterator[WebClient]:
    with WebClient(port_of(broker.log, "http")) as client:
        yield client


def get(web: WebClient, path: str, status: int = 200, **headers: str) -> dict[str, Any]:
    answer = web.ask("GET", f"/v1/{path}", **headers)
    assert answer.status == status, answer
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_the_settings_in_force(broker: BrokerProcess, web: WebClient) -> None:
    answer = get(web, "configuration")
    assert answer["ok"] is True and answer["path"] == str(broker.config_file)
    rows = {f"{row['section']}.{row['name']}": row for row in answer["configuration"]}
    assert rows["limits.max_connections"] == {
        "section": "limits",
        "of": None,
        "name": "max_connections",
        "value": 77,
        "default": 20_000,
        "is_default": False,
    }
    assert rows["server.data_dir"]["value"] == str(broker.data_dir) and rows["server.data_dir"]["is_default"]
    changed = {name for name, row in rows.items() if not row["is_default"]}
    assert changed == {
        "server.listen", "server.map_size", "server.disk_free_min", "limits.max_connections", "logging.level",
        "create.queues", "create.topics", "journal.enabled",
    }  # fmt: skip


def test_a_reload_shows_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, OPEN) as broker:
        broker.wait_for_log("listening address=http://")
        with WebClient(port_of(broker.log, "http")) as web:
            more = "[limits]\nmax_connections = 78\nmax_headers = 99\n"
            broker.config_file.write_text(broker.config_file.read_text() + more)
            assert web.ask("POST", "/v1/reload", b"{}", content_type="application/json").status == 200
            rows = {row["name"]: row["value"] for row in get(web, "configuration")["configuration"]}
            assert (rows["max_connections"], rows["max_headers"]) == (78, 256), "the second one waits for a restart"
            assert get(web, "bounds")["bounds"][0]["limit"] == 78


def test_the_bounds_of_a_real_broker(broker: BrokerProcess, web: WebClient) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        rows = {row["name"]: row for row in get(web, "bounds")["bounds"]}
    assert [*rows] == [one.name for one in BOUNDS]
    assert rows["max_connections"]["limit"] == 77 and rows["max_connections"]["used"] == 2
    assert rows["unapplied_bytes"]["limit"] and rows["disk_free_min"]["used"] > rows["disk_free_min"]["limit"]
    unknown = {name for name, row in rows.items() if row["used"] is None}
    assert unknown == {"link_sockets", "keys_held_bytes", "nodes", "peer_outbox_max_bytes"}


def test_the_disk_of_a_real_broker(broker: BrokerProcess, web: WebClient) -> None:
    web.ask("POST", "/v1/queues/q/messages", b"x", content_type="text/plain")
    answer, store = get(web, "disk"), get(web, "stats")["store"]
    assert answer["data_dir"] == str(broker.data_dir)
    assert answer["disk_total_bytes"] >= answer["disk_free_bytes"] > 0
    assert answer["wal_segments"] == len([*(broker.data_dir / "wal").iterdir()])
    assert answer["wal_spare_segments"] < answer["wal_segments"]
    assert answer["journal_bytes"] > 0 and answer["audit_bytes"] == 0
    assert answer["disk_for_messages_bytes"] > 0 and answer["map_size"] == store["map_size"]
    same = set(store) - {"disk_room_bytes"}
    assert same <= set(answer), "all that stats has of the store"


def test_the_last_lines_of_the_log(broker: BrokerProcess, web: WebClient) -> None:
    answer = get(web, f"log?after=0&limit={LOG_KEPT_LINES}")
    listed = [[line["level"], line["event"]] for line in answer["lines"]]
    broker.wait_for_log(" ".join(listed[-1]), since=len(listed) - 1)
    logged = [line.split(" ")[:3] for line in broker.log.splitlines()]
    assert listed == [line[1:] for line in logged][: len(listed)] and listed[0] == ["info", "start"]
    assert answer["first"] == 1 and answer["next"] == len(listed)
    web.ask("GET", "/v1/queues")
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        more = get(web, f"log?after={answer['next']}&level=debug")["lines"]
    assert [line["number"] for line in more] == [*range(answer["next"] + 1, more[-1]["number"] + 1)]
    assert "connected" in [line["event"] for line in more]
    assert get(web, "log?limit=1&level=error")["lines"] == []


def test_what_a_client_says_stays_within_its_line(broker: BrokerProcess, web: WebClient) -> None:
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/\xe2\x80\xae\x1b[31m" + b"x" * 10_000 + b"\n\n\0")
        assert wire.read_frame().command == "ERROR"
    lines = get(web, "log?limit=5")["lines"]
    refused = next(line for line in lines if line["event"] == "refused")
    assert all(len(str(value)) <= LOG_VALUE_CHARACTERS + 3 for value in refused["fields"].values())
    shown = radiator(broker, "broker-log", "--lines", "5")
    assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", f"limit={10**12}", "limit=x", "after=-1", f"after={10**18}",
                                   "after=", "level=loud", "level=", "match=a", "limit=1&limit=2"])  # fmt: skip
def test_a_wrong_question_is_answered_with_what_would_be_right(web: WebClient, query: str) -> None:
    problem = get(web, f"log?{query}", status=400)
    assert problem["detail"].endswith(".")


def radiator(broker: BrokerProcess, *arguments: str) -> str:
    command = [sys.executable, "-m", "radiator", *arguments, "--broker", broker.address]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


# ---- secrets --------------------------------------------------------------------------------------------------------

PASSWORD, OF_CLUSTER = "a-password-nobody-may-see", "the-secret-of-all-the-nodes-0123456789"
TOKEN, OTHER_TOKEN = text_of(b"a" * 32), text_of(b"b" * 32)
HASH = str(made(PASSWORD.encode(), b"s" * 16, Cost(ln=10)))
OTHER_HASH = str(made(b"another-password", b"t" * 16, Cost(ln=10)))


def with_every_secret(directory: Path) -> tuple[str, list[bytes]]:
    """A configuration, and every part of a secret in it or in the files that it names."""
    signer = issuer.Issuer()
    (directory / "keys.json").write_bytes(issuer.jwks(signer))
    (directory / "keys.json").chmod(0o600)
    (directory / "cluster.secret").write_text(OF_CLUSTER + "\n")
    (directory / "cluster.secret").chmod(0o600)
    (directory / "users.toml").write_text(
        f'[user.eve]\npassword = "{OTHER_HASH}"\ntokens = [{{ sha256 = "{sha256_of(OTHER_TOKEN.encode())}" }}]\n'
        'role = "viewer"\n'
    )
    (directory / "users.toml").chmod(0o600)
    config = (
        OPEN.replace('"http://127.0.0.1:0"', '"http://127.0.0.1:0", "stomps://127.0.0.1:0", "https://127.0.0.1:0"')
        .replace("[server]\n", '[server]\nusers_file = "users.toml"\n')
        + '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
        + '[jwt]\nkeys = "keys.json"\nalgorithms = ["ES256"]\nissuer = "i"\naudience = "a"\n'
        + '[node]\nname = "a"\nlisten = "peer://127.0.0.1:0"\nsecret_file = "cluster.secret"\n[peer.b]\n'
        + "[journal]\nenabled = true\n[logging]\nlevel = 'debug'\n"
        + f'[user.ann]\npassword = "{HASH}"\njwt = true\nrole = "operator"\n'
        + f'tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]\n'
        + f'[user.bob]\npassword = "{made(b"bob", b"u" * 16, Cost(ln=10))}"\nsee = ["/queue/of-bob"]\n'
        + '[user.root]\nunix = "root"\nrole = "operator"\n'
    )  # fmt: skip
    secrets = [PASSWORD, OF_CLUSTER, TOKEN, OTHER_TOKEN, sha256_of(TOKEN.encode()), sha256_of(OTHER_TOKEN.encode())]
    secrets += [part for one in (HASH, OTHER_HASH) for part in one.split("$")[-2:]]
    return config, [secret.encode() for secret in secrets]


def everything(web: WebClient, login: dict[str, str]) -> Iterator[bytes]:
    """The bytes of every answer that changes nothing, and of refusals of all others."""
    for asking in ASKINGS:
        path = "/".join(part or "q" for part in asking.path)
        if asking.method == "GET":
            yield web.ask("GET", f"/{path}", **login).body
    for path in ("metrics", "openapi.json", "v1/openapi.json", "readyz", "v1/log?limit=500", "v1/stats?section=users"):
        yield web.ask("GET", f"/{path}", **login).body
    for do in REQUESTS:
        for body in ({"do": do}, {"do": do, "queue": "q", "password": "x"}, {"do": do, "dry_run": True}):
            asked = json.dumps(body).encode()
            yield web.ask("POST", "/v1/admin", asked, content_type="application/json", **login).body


def test_no_secret_is_in_the_bytes_of_any_answer(tmp_path: Path) -> None:
    """Nor in the log, with wrong logins, and a reload that changes all of them."""
    config, secrets = with_every_secret(tmp_path)
    with WebBroker(tmp_path, config) as broker:
        secrets += [line for line in (tmp_path / "server.key").read_bytes().splitlines() if b"PRIVATE" not in line]
        ann = {"authorization": basic("ann", PASSWORD)}
        with broker.client() as web:
            web.ask("PUT", "/v1/queues/q", b"{}", content_type="application/json", **ann)
            assert web.ask("GET", "/v1/stats", authorization=f"Bearer {OTHER_TOKEN}").status == 200
        for name in ("eve", "\u202e\0\x1b[31m" + "x" * 8000):
            with broker.client() as web:
                assert web.ask("GET", "/v1/stats", authorization=basic(name, PASSWORD)).status == 401
        text = broker.config_file.read_text()
        broker.config_file.write_text(text.replace(HASH, OTHER_HASH).replace(sha256_of(TOKEN.encode()), "0" * 64))
        (tmp_path / "cluster.secret").write_text("another-secret-of-all-the-nodes\n")
        secrets += [b"another-secret-of-all-the-nodes", b"0" * 64]
        with broker.client() as web:
            answers = [*everything(web, ann)]
            rows = {
                (row["of"], row["name"]): row["value"]
                for row in json.loads(web.ask("GET", "/v1/configuration", **ann).body)["configuration"]
            }
        assert rows["ann", "password"] == rows["eve", "password"] == "[hidden]"
        assert rows["ann", "tokens"] == rows["eve", "tokens"] == ["[hidden]"]
        assert rows[None, "secret_file"] == str(tmp_path / "cluster.secret") and rows[None, "keys"]
        assert len(answers) > 140 and sum(map(len, answers)) > 50_000
        shown = [*answers, broker.log.encode()]
        for secret in secrets:
            assert not any(secret in answer for answer in shown), secret
        assert any(b"another secret" in answer for answer in answers), "a reload was told"
        ann = {"authorization": basic("ann", "another-password")}
        with broker.client() as web:
            logins = [
                line["fields"]["login"]
                for line in json.loads(web.ask("GET", "/v1/log?level=warning&limit=500", **ann).body)["lines"]
                if line["event"] == "login_failed"
            ]
        assert logins[0] == "eve" and logins[1].startswith("\u202e\0\x1b[31mxxx")
        assert len(logins[1]) == LOG_VALUE_CHARACTERS + 3


def test_who_has_rights_on_a_queue_alone_learns_nothing_of_the_broker(tmp_path: Path) -> None:
    config, _ = with_every_secret(tmp_path)
    with WebBroker(tmp_path, config) as broker:
        for name, secret, seen in (
            ("bob", "bob", ()),
            ("eve", "another-password", ("bounds", "disk")),
            ("ann", PASSWORD, ("configuration", "bounds", "disk", "log")),
        ):
            with broker.client() as web:
                for path in ("configuration", "bounds", "disk", "log"):
                    answer = web.ask("GET", f"/v1/{path}", authorization=basic(name, secret))
                    assert answer.status == (200 if path in seen else 403), (name, path, answer)
