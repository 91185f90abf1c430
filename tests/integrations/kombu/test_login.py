"""kombu at a broker that has users: the login of its URL."""

from collections.abc import Iterator
from urllib.parse import quote

import kombu
import pytest
from kombu.exceptions import OperationalError

from radiator.auth.scrypt import Cost, made
from radiator.integrations.kombu.failures import OperationRefused
from tests.broker_process import BrokerProcess
from tests.integrations.kombu.conftest import CONFIG

SECRET = "p@ss:w/rd"
USERS = f'[user.shop]\npassword = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"\nrole = "operator"\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG + USERS) as running:
        yield running
        assert SECRET not in running.log


def url(broker: BrokerProcess, login: str) -> str:
    return f"radiator://{login}{broker.host}:{broker.port}//"


def test_a_login_in_the_url_gets_in(broker: BrokerProcess) -> None:
    with kombu.Connection(url(broker, f"shop:{quote(SECRET, safe='')}@")) as connection:
        simple = connection.SimpleQueue("a")
        simple.put("hello")
        assert simple.get(timeout=10).payload == "hello"
        assert SECRET not in repr(connection)


@pytest.mark.parametrize("login", ["", "shop:hunter2@", "nobody:hunter2@"])
def test_another_is_refused_without_a_secret_in_the_sentence(broker: BrokerProcess, login: str) -> None:
    with kombu.Connection(url(broker, login)) as connection:
        with pytest.raises((OperationRefused, OperationalError), match="CONNECT needs the login") as caught:
            connection.ensure_connection(max_retries=1)
        assert "hunter2" not in str(caught.value)
