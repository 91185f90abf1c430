"""TLS, a login and rights together, beyond loopback: what gets in, and how far."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client, Refusal
from radiator.client.errors import ConnectionLost
from tests.acceptance.test_login import hashed
from tests.broker_process import BrokerProcess
from tests.certificates import Authority

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[BrokerProcess]:
    server = authority.pair("server")
    authority.pair("ops", "/O=Shop/CN=ops", names="")
    authority.pair("nobody", "/CN=nobody", names="")
    config = f"""
[server]
listen = ["stomps://0.0.0.0:0"]
data_dir = "data"
disk_free_min = "16MiB"
map_size = "1GiB"
[tls]
certificate = "{server.certificate}"
key = "{server.key}"
client_ca = "{authority.certificate}"
client_certificates = "optional"
[queue.orders]
[queue.secret]
[user."shop"]
password = "{hashed(PASSWORD)}"
write = ["/queue/orders"]
[user."ops"]
certificate = "CN=ops,O=Shop"
role = "operator"
"""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        yield running
        assert "Traceback" not in running.log and PASSWORD not in running.log
        assert running.stop() == 0


def address(broker: BrokerProcess) -> str:
    return broker.address.replace("0.0.0.0", "localhost")


def test_a_password_over_tls_lets_its_user_do_what_his_rules_say(broker: BrokerProcess, authority: Authority) -> None:
    with Client(address(broker), user="shop", password=PASSWORD, ca_file=str(authority.certificate)) as shop:
        shop.send("/queue/orders", "an order")
        with pytest.raises(Refusal, match="shop.*write.*/queue/secret"):
            shop.send("/queue/secret", "no order")


def test_a_certificate_is_its_user_without_a_password(broker: BrokerProcess, authority: Authority) -> None:
    files = authority.certificate.parent
    own = {"certificate": str(files / "ops.pem"), "key": str(files / "ops.key")}
    with Client(address(broker), ca_file=str(authority.certificate), **own) as ops:
        ops.send("/queue/secret", "of the operator")
        assert ops.admin({"do": "stats"})["ok"]
    with pytest.raises((Refusal, ConnectionLost)):
        Client(address(broker), user="shop", password=PASSWORD, ca_file=str(authority.certificate), **own)


def test_nobody_else_gets_in(broker: BrokerProcess, authority: Authority) -> None:
    files = authority.certificate.parent
    ca_file = str(authority.certificate)
    unknown = {"certificate": str(files / "nobody.pem"), "key": str(files / "nobody.key")}
    for login in (
        {},
        unknown,
        {"user": "shop", "password": "wrong"},
        {"user": "ops", "password": PASSWORD},
        {"user": "anonymous", "password": ""},
    ):
        with pytest.raises(Refusal, match="login"):
            Client(address(broker), ca_file=ca_file, **login)


def test_without_tls_or_without_users_it_does_not_listen(tmp_path: Path) -> None:
    user = f'[user."shop"]\npassword = "{hashed(PASSWORD)}"\nwrite = ["/queue/orders"]\n'
    for listen, users, sentence in (
        ("stomp://0.0.0.0:0", user, 'write listen = ["stomps://0.0.0.0:0"] in its place'),
        ("stomp://0.0.0.0:0", "", '[user."NAME"] with password'),
        ("stomps://0.0.0.0:0", "", "there are no users"),
        ("amqp://0.0.0.0:0", user, 'write listen = ["amqps://0.0.0.0:0"] in its place'),
        ("amqp://0.0.0.0:0", "", '[user."NAME"] with password'),
        ("amqps://0.0.0.0:0", "", "there are no users"),
    ):
        directory = tmp_path / f"{listen[:5]}{len(listen + users)}"
        directory.mkdir()
        tls = '[tls]\ncertificate = "c.pem"\nkey = "k.pem"\n' if "s://" in listen else ""
        broker = BrokerProcess(directory, f'[server]\nlisten = ["{listen}"]\n{tls}{users}')
        assert broker.start_and_fail() != 0
        assert sentence in broker.log
