"""Each example of examples/README.md runs to its end as a person would run it."""

import ast
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import CHECKOUT, SERVER, BrokerProcess, environment
from tests.certificates import openssl
from tests.ports import free_ports

PRINTED = {
    "chat_topic.py": "Host hears Ben in chat.garden: Nobody here.",
    "events_fanout.py": "audit writes down order 2",
    "request_reply.py": "question 159: 318",
    "transaction.py": "/queue/example.parcels: parcel with one book",
    "worker_pool.py": "All 12 jobs are done.",
}
EXAMPLES = [CHECKOUT / "examples" / name for name in PRINTED]  # the four topologies: tests/examples/


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """On examples/config.toml, but for its [server]: another port, and data of its own."""
    config = (CHECKOUT / "examples" / "config.toml").read_text()
    tables = re.sub(r"(?ms)^\[server\].*?(?=^\[)", SERVER + "\n", config)
    with BrokerProcess(tmp_path_factory.mktemp("examples"), tables) as running:
        yield running


def run(command: list[str]) -> str:
    """What the program says; it must end well."""
    ended = subprocess.run([sys.executable, *command], env=environment(), capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_to_its_end(broker: BrokerProcess, example: Path) -> None:
    assert PRINTED[example.name] in run([str(example), f"{broker.host}:{broker.port}"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs_twice(broker: BrokerProcess, example: Path) -> None:
    """It leaves nothing behind that would disturb the next run."""
    assert PRINTED[example.name] in run([str(example), f"{broker.host}:{broker.port}"])


def cluster_in(directory: Path) -> list[str]:
    """A copy of the example on ports of its own, which are returned: of clients and of links of a, b, c in turns."""
    own = shutil.ignore_patterns("data", "secret")
    shutil.copytree(CHECKOUT / "examples" / "cluster", directory / "cluster", ignore=own)
    ports = [str(port) for port in free_ports(6)]
    numbers = dict(zip(("61713", "61714", "61723", "61724", "61733", "61734"), ports, strict=True))
    for config in (directory / "cluster").glob("*.toml"):
        config.write_text(re.sub("617[123][34]", lambda found: numbers[found[0]], config.read_text()))
    return ports


@pytest.mark.parametrize("which", [0, 5])
def test_cluster_example_asks_no_stranger(tmp_path: Path, which: int) -> None:
    """A port of clients, or of links, is taken: it says so, and has removed and started nothing."""
    port = cluster_in(tmp_path)[which]
    (tmp_path / "cluster" / "data").mkdir()
    with socket.create_server(("127.0.0.1", int(port))):
        command = [sys.executable, str(tmp_path / "cluster" / "run.py")]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1 and ended.stdout == ""
    assert f"127.0.0.1:{port} is taken" in ended.stderr and "Traceback" not in ended.stderr
    assert (tmp_path / "cluster" / "data").is_dir()


def test_each_user_may_do_what_its_rules_say_and_a_broker_without_a_known_ca_is_told_nothing() -> None:
    openssl("version")
    lines = run([str(CHECKOUT / "examples" / "tls_and_users.py")]).splitlines()
    assert lines[0] == "shop has sent an order" and lines[2:4] == [
        "billing has got one book",
        "ops, by its certificate, sees 0 messages in orders",
    ]
    assert "The user shop may not read /queue/orders" in lines[1]
    assert lines[4].replace("shop", "nobody") == lines[5] and "CONNECT needs" in lines[4]
    assert "does not come from any CA" in lines[6] and lines[7:] == ["done"]


@pytest.mark.slow
def test_cluster_example_runs_to_its_end_twice(tmp_path: Path) -> None:
    """The second run finds the secret that the first has made."""
    cluster_in(tmp_path)
    for _ in range(2):
        assert run([str(tmp_path / "cluster" / "run.py")]).endswith("Nothing was lost.\n")
    assert not (tmp_path / "cluster" / "data").exists()
    assert (tmp_path / "cluster" / "secret").stat().st_mode & 0o777 == 0o600


def test_every_example_is_in_their_readme() -> None:
    readme = (CHECKOUT / "examples" / "README.md").read_text()
    assert all(f"`{example.name}`" in readme for example in (CHECKOUT / "examples").glob("*.py"))


def test_reading_guide_names_files_that_are_there() -> None:
    text = (CHECKOUT / "docs" / "READING.md").read_text()
    named = re.findall(r"`(?:radiator/)?((?:auth|client|core|model|protocols|server|storage|tools)/[\w/]+\.py)`", text)
    assert named
    assert [name for name in named if not (CHECKOUT / "radiator" / name).exists()] == []


def test_procedures_of_cluster_name_functions_that_are_there() -> None:
    """`Class.method`, and `file.py: name`, as docs/CLUSTER.md has them."""
    text = (CHECKOUT / "docs" / "CLUSTER.md").read_text()
    sources = [
        *(CHECKOUT / "radiator/core/cluster").glob("*.py"), CHECKOUT / "radiator/core/routing/router.py",
        CHECKOUT / "radiator/server/dialer.py"
    ]  # fmt: skip
    there = set()
    for source in sources:
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                there.add(node.name)
            elif isinstance(node, ast.ClassDef):
                there |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    named = set(re.findall(r"\b([A-Z][a-z]+\.[a-z_]+)\b", text)) | set(re.findall(r"\.py: ([a-z_]+)`", text))
    assert len(named) > 30
    assert sorted(named - there) == []
    files = re.findall(r"`((?:radiator/)?(?:broker|server)/[\w/]+\.py)", text)
    assert [name for name in files if not (CHECKOUT / "radiator" / name.removeprefix("radiator/")).exists()] == []
