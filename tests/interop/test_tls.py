"""Clients of other makers over TLS, each with its own verification on: they log in, and are refused, and refuse.

Each is a program in tls/, which says "done" once its message has come back. What a machine lacks for one is a skip that
says what to install.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from tests.broker_process import CHECKOUT, EVERYTHING_MAY_BE_CREATED
from tests.certificates import Authority
from tests.interop.npm import node_modules
from tests.tls_broker import ENCRYPTED, TlsBroker

PROGRAMS = Path(__file__).with_name("tls")
BUILD = CHECKOUT / "build" / "interop"
SECRET = "correct horse"  # without a colon: go-stomp escapes it in CONNECT, where nothing is escaped
TOKEN = text_of(bytes(32))
CONFIG = f"""{ENCRYPTED}{EVERYTHING_MAY_BE_CREATED}
[user.shop]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]
role = "operator"
"""
INSTALL_MAX_S = 100

Started = tuple[list[str], dict[str, str]]
"""A command, and what is added to its environment."""


def needs(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not here; on Debian or Ubuntu: apt install {package}")
    return found


def installed(directory: Path, command: list[str]) -> None:
    """Runs it there. Skips where it fails: not every machine reaches the registry that it asks."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_MAX_S, check=False)
    if done.returncode:
        why = " ".join(done.stderr.split())[:200]
        pytest.skip(f"{Path(command[0]).name} {command[1]} could not install the client: {why}")


def python(package: str, script: str) -> Started:
    pytest.importorskip(package)
    return [sys.executable, str(PROGRAMS / script)], {}


def stompjs() -> Started:
    packages = node_modules("@stomp/stompjs", "@stomp/tcp-wrapper")
    return [needs("node", "nodejs npm"), str(PROGRAMS / "stompjs_client.js")], {"NODE_PATH": str(packages)}


def gem() -> Started:
    ruby = needs("ruby", "ruby-stomp")
    if subprocess.run([ruby, "-e", "require 'stomp'"], capture_output=True, check=False).returncode:
        pytest.skip("the stomp gem is not here; on Debian or Ubuntu: apt install ruby-stomp")
    return [ruby, str(PROGRAMS / "stomp_gem.rb")], {}


def go() -> Started:
    compiler, directory = needs("go", "golang-go"), BUILD / "go"
    shutil.copytree(PROGRAMS / "go", directory, dirs_exist_ok=True)
    installed(directory, [compiler, "build", "-mod=mod", "-o", "client", "."])
    return [str(directory / "client")], {}


def php() -> Started:
    interpreter, composer, directory = needs("php", "php-cli"), needs("composer", "composer"), BUILD / "php"
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / "vendor" / "stomp-php").is_dir():
        installed(directory, [composer, "require", "--no-interaction", "--quiet", "stomp-php/stomp-php:^5"])
    return [interpreter, str(PROGRAMS / "stomp_php.php")], {"VENDOR": str(directory / "vendor")}


CLIENTS: dict[str, Callable[[], Started]] = {
    "stomp.py": lambda: python("stomp", "stomp_py.py"),
    "stompman": lambda: python("stompman", "stompman_client.py"),
    "stompjs": stompjs,
    "stomp-gem": gem,
    "go-stomp": go,
    "stomp-php": php,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running
        assert "Traceback" not in running.log and SECRET not in running.log and TOKEN not in running.log


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """One whose certificate has another name than that by which clients come."""
    made = TlsBroker(tmp_path_factory.mktemp("renamed"), CONFIG)
    made.replaced(made.authority.pair("other", "/CN=other.example", "DNS:other.example"))
    with made as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Started:
    return CLIENTS[request.param]()


def result(started: Started, broker: TlsBroker, passcode: str = SECRET, ca_file: str = "") -> tuple[bool, str]:
    """Whether the client was done; and what it printed."""
    command, more = started
    ended = subprocess.run(
        [*command, "localhost", str(broker.tls_port), ca_file or broker.ca_file, "shop", passcode],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    printed = ended.stdout + ended.stderr
    is_done = ended.stdout.strip() == "done"
    assert is_done is (ended.returncode == 0), printed
    return is_done, printed


@pytest.mark.parametrize("secret", [SECRET, TOKEN], ids=["password", "token"])
def test_it_logs_in_and_gets_its_message(broker: TlsBroker, client: Started, secret: str) -> None:
    is_done, printed = result(client, broker, secret)
    assert is_done, printed


def test_with_a_wrong_password_it_is_refused(broker: TlsBroker, client: Started) -> None:
    since = len(broker.log.splitlines())
    is_done, printed = result(client, broker, "wrong")
    assert not is_done, printed
    broker.wait_for_log("login_failed", since=since)


def test_it_refuses_the_certificate_of_another_ca(broker: TlsBroker, client: Started, tmp_path: Path) -> None:
    is_done, printed = result(client, broker, ca_file=str(Authority(tmp_path).certificate))
    assert not is_done, printed


def test_it_refuses_a_certificate_with_another_name(renamed: TlsBroker, client: Started) -> None:
    is_done, printed = result(client, renamed)
    assert not is_done, printed
