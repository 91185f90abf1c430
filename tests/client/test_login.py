"""Both clients at a broker that has users."""

import asyncio
from collections.abc import Iterator

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.client import Client, Refusal, Violation
from radiator.client.aio import AsyncClient
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess

SECRET = "p@ss:w/rd %"
ENCODED = "p%40ss%3Aw%2Frd%20%25"
TOKEN = text_of(bytes(32))
USERS = f"""
[user."shop.eu@x"]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
tokens = [{{ sha256 = "{sha256_of(TOKEN.encode())}" }}]
role = "operator"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = SERVER + EVERYTHING_MAY_BE_CREATED + USERS
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        yield running
        assert SECRET not in running.log and TOKEN not in running.log


async def sent(client: AsyncClient) -> None:
    async with client:
        await client.send("/queue/a", b"x")


@pytest.mark.parametrize("secret", [SECRET, TOKEN])
def test_a_user_gets_in(broker: BrokerProcess, secret: str) -> None:
    with Client(broker.address, user="shop.eu@x", password=secret) as client:
        client.send("/queue/a", b"x")
    asyncio.run(sent(AsyncClient(broker.address, user="shop.eu@x", password=secret)))


def test_a_url_has_both_and_arguments_go_before_it(broker: BrokerProcess) -> None:
    url = broker.address.replace("//", f"//shop.eu%40x:{ENCODED}@")
    with Client(url) as client:
        client.send("/queue/a", b"x")
    asyncio.run(sent(AsyncClient(url)))
    with pytest.raises(Refusal):
        Client(url, user="shop.eu@x", password="other")
    with Client(url.replace(ENCODED, "other"), user="shop.eu@x", password=SECRET) as client:
        client.send("/queue/a", b"x")


@pytest.mark.parametrize(("user", "password"), [(None, None), ("shop.eu@x", "hunter2"), ("nobody", "hunter2")])
def test_everybody_else_is_refused_without_a_secret_in_the_sentence(
    broker: BrokerProcess, user: str | None, password: str | None
) -> None:
    for reconnect in (False, True):  # a login that is wrong is not tried for ever
        with pytest.raises(Refusal) as caught:
            Client(broker.address, user=user, password=password, reconnect=reconnect)
        assert caught.value.code == "forbidden" and "hunter2" not in str(caught.value)
    with pytest.raises(Refusal, match="CONNECT needs the login"):
        asyncio.run(sent(AsyncClient(broker.address, user=user, password=password)))


@pytest.mark.parametrize("reconnect", [False, True])
def test_a_refusal_names_the_broker_and_the_user_whatever_the_other_addresses_are(
    broker: BrokerProcess, reconnect: bool
) -> None:
    nobody = "stomp://127.0.0.1:1"
    sentence = (
        f"{broker.address} has refused the connection of the user 'nobody': "
        "CONNECT needs the login and the passcode of a user of this broker."
    )
    for addresses in ([broker.address, nobody], [nobody, broker.address]):
        with pytest.raises(Refusal) as caught:
            Client(addresses, user="nobody", password="hunter2", reconnect=reconnect)
        assert str(caught.value) == sentence
        with pytest.raises(Refusal) as awaited:
            asyncio.run(sent(AsyncClient(addresses, user="nobody", password="hunter2", reconnect=reconnect)))
        assert str(awaited.value) == sentence


def test_what_is_no_login_is_refused_and_not_repeated() -> None:
    for make in (Client, AsyncClient):
        with pytest.raises(Violation, match="A password without a user"):
            make("stomp://127.0.0.1:1", password="hunter2")
        with pytest.raises(TypeError, match="password is of type bytes") as caught:
            make("stomp://127.0.0.1:1", user="a", password=b"hunter2")  # type: ignore[arg-type]
        assert "hunter2" not in str(caught.value)
