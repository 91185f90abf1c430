"""kombu at a broker that has users, with and without TLS: the login of its URL, and what it hears where it is wrong."""

from collections.abc import Iterator
from urllib.parse import quote

import kombu
import pytest
from amqp.exceptions import AccessRefused
from kombu.exceptions import OperationalError

from radiator.auth.scrypt import Cost, made
from radiator.integrations.kombu.failures import Forbidden, OperationRefused
from tests.certificates import Authority
from tests.tls_broker import ENCRYPTED, TlsBroker

SECRET = "p@ss:w/rd"
QUOTED = quote(SECRET, safe="")
CONFIG = "[create]\nqueues = false\ntopics = false\n"  # what kombu declares needs no leave of [create]
USERS = f"""
[user.shop]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
role = "operator"
[user.narrow]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
declare = ["/queue/narrow", "/exchange/e"]
write = ["/queue/narrow"]
[user.binder]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
declare = ["/queue/bound", "/exchange/by-headers"]
read = ["/exchange/by-headers/#"]
write = ["/queue/bound"]
[user.cert]
certificate = "CN=cert"
role = "operator"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    config = ENCRYPTED + 'client_ca = "ca.pem"\nclient_certificates = "optional"\n' + CONFIG + USERS
    with TlsBroker(tmp_path_factory.mktemp("broker"), config) as running:
        yield running
        assert "Traceback" not in running.log and SECRET not in running.log


def plain(broker: TlsBroker, login: str) -> str:
    return f"radiator://{login}{broker.host}:{broker.port}//"


def encrypted(broker: TlsBroker, login: str = "", more: str = "") -> str:
    return f"radiators://{login}localhost:{broker.tls_port}//?ssl_ca_certs={broker.ca_file}{more}"


def hello(url: str, **given: object) -> str:
    with kombu.Connection(url, **given) as connection:
        simple = connection.SimpleQueue("a")
        simple.put("hello")
        assert simple.get(timeout=10).payload == "hello"
        assert SECRET not in repr(connection) and QUOTED not in repr(connection)
        return connection.as_uri()


def refused(url: str, **given: object) -> str:
    """At once, and not as what another try may mend."""
    tries: list[object] = []
    with kombu.Connection(url, **given) as connection, pytest.raises(OperationRefused) as caught:
        connection.ensure_connection(errback=lambda *_: tries.append(1), max_retries=3, interval_start=0)
    assert not tries
    assert SECRET not in str(caught.value) and "hunter2" not in f"{caught.value}{caught.value!r}"
    return str(caught.value)


def lost(url: str, **given: object) -> str:
    """As what another try may mend."""
    with kombu.Connection(url, connect_timeout=0.2, **given) as connection, pytest.raises(OperationalError) as caught:
        connection.ensure_connection(max_retries=1, interval_start=0)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_login_in_the_url_gets_in(broker: TlsBroker) -> None:
    hello(plain(broker, f"shop:{QUOTED}@"))
    assert hello(encrypted(broker, f"shop:{QUOTED}@")) == f"radiators://shop:**@localhost:{broker.tls_port}//"
    url = f"radiators://shop:{QUOTED}@localhost:{broker.tls_port}"
    hello(url, ssl={"ca_certs": broker.ca_file})


def test_a_certificate_is_a_login_too(broker: TlsBroker) -> None:
    pair = broker.authority.pair("client", "/CN=cert", "")
    hello(encrypted(broker, more=f"&ssl_certfile={pair.certificate}&ssl_keyfile={pair.key}"))
    url, files = f"radiators://localhost:{broker.tls_port}", {"certfile": pair.certificate, "keyfile": pair.key}
    hello(url, ssl={"ca_certs": broker.ca_file, **files})
    assert "given without a certificate" in refused(url, ssl={"keyfile": str(pair.key)})


@pytest.mark.parametrize("login", ["", "shop:hunter2@", "nobody:hunter2@"])
def test_another_is_refused_without_a_secret_in_the_sentence(broker: TlsBroker, login: str) -> None:
    user = login.partition(":")[0]
    of_the_user = f" of the user {user!r}" * bool(user)
    ends = f" has refused the connection{of_the_user}: CONNECT needs the login and the passcode of a user of this "
    for url in (plain(broker, login), encrypted(broker, login)):
        assert f"{ends}broker." in refused(url)
        with kombu.Connection(url) as connection, pytest.raises(AccessRefused):
            connection.connect()


def test_of_a_list_the_one_that_refuses_is_named(broker: TlsBroker) -> None:
    nobody, wrong = "radiators://localhost:1", encrypted(broker, "shop:hunter2@")
    with kombu.Connection(f"{nobody};{wrong}") as connection, pytest.raises(Forbidden) as caught:
        connection.ensure_connection(max_retries=3, interval_start=0)
    assert str(caught.value).startswith(f"stomps://localhost:{broker.tls_port} has refused the connection of the user")


def test_a_list_with_tls_and_without(broker: TlsBroker) -> None:
    """Each with its own scheme, port and login."""
    for first, second in (("radiators://localhost:1", plain(broker, f"shop:{QUOTED}@")), (
        "radiator://localhost:1", encrypted(broker, f"shop:{QUOTED}@"),
    )):  # fmt: skip
        with kombu.Connection(f"{first};{second}") as connection:
            connection.ensure_connection(max_retries=3, interval_start=0)
            assert connection.connected and SECRET not in repr(connection)


def test_a_right_that_is_missing_is_named_and_the_connection_stays(broker: TlsBroker) -> None:
    with kombu.Connection(encrypted(broker, f"narrow:{QUOTED}@")) as connection:
        channel = connection.channel()
        with pytest.raises(Forbidden, match="The user narrow may not declare /queue/other: there is no rule of"):
            channel.queue_declare("other")
        channel.queue_declare("narrow", durable=True, auto_delete=False)
        with pytest.raises(Forbidden, match="The user narrow may not write /exchange/e/k"):
            channel.exchange_declare("e")
            connection.Producer(channel).publish("x", exchange="e", routing_key="k")
        connection.Producer(channel).publish("x", routing_key="narrow")
        with pytest.raises(Forbidden, match="The user narrow may not read /queue/narrow") as caught:
            channel.basic_consume("narrow", callback=print)
        assert isinstance(caught.value, AccessRefused) and caught.value.radiator_code == "forbidden"


def test_a_binding_with_arguments_takes_no_right_to_see_what_its_program_has_declared(broker: TlsBroker) -> None:
    url = encrypted(broker, f"binder:{QUOTED}@")
    exchange = kombu.Exchange("by-headers", "headers")
    with kombu.Connection(url) as connection:
        kombu.Queue("bound", exchange, binding_arguments={"format": "pdf"})(connection.default_channel).declare()
    with kombu.Connection(url) as other, pytest.raises(Forbidden, match="may not see /exchange/by-headers"):
        other.default_channel.queue_bind("bound", "by-headers", "", {"format": "txt"})


def test_what_nobody_awaits_is_told_to_who_comes_next(broker: TlsBroker) -> None:
    with kombu.Connection(encrypted(broker, f"narrow:{QUOTED}@")) as connection:
        connection.Producer().publish("x", exchange="e", routing_key="k", delivery_mode=1)
        with pytest.raises(Forbidden, match="The user narrow may not write /exchange/e/k"):
            connection.drain_events(timeout=5)


def test_who_is_no_user_any_more_is_told(broker: TlsBroker) -> None:
    text = broker.config_file.read_text()
    with kombu.Connection(encrypted(broker, f"narrow:{QUOTED}@")) as connection:
        connection.connect()
        try:
            broker.config_file.write_text(text.replace("[user.narrow]", "[user.renamed]"))
            broker.hang_up("reload")
            with pytest.raises(Forbidden, match="narrow"):
                connection.drain_events(timeout=5)
        finally:
            broker.config_file.write_text(text)
            broker.hang_up("reload")


def test_what_is_not_verified_is_not_connected(broker: TlsBroker) -> None:
    url = f"radiators://shop:{QUOTED}@localhost:{broker.tls_port}"
    right = "name the file of its CA (ca_certs in broker_use_ssl, or ?ssl_ca_certs=FILE in the URL)."
    assert lost(url).endswith(f"does not come from any CA that this system trusts: {right}")
    other = str(Authority(broker.directory / "other").certificate)
    assert lost(url, ssl={"ca_certs": other}).endswith(f"does not come from the CA of {other!r}: {right}")
    sentence = f"ca_file '{broker.directory}/none' cannot be used: No such file or directory."
    assert refused(url, ssl={"ca_certs": f"{broker.directory}/none"}) == sentence
    assert "always verified" in refused(f"{url}?ssl_cert_reqs=none")


def test_ports_that_were_taken_for_each_other(broker: TlsBroker) -> None:
    hint = "is that port one of stomps://?"
    tls_at_plain = encrypted(broker, f"shop:{QUOTED}@").replace(str(broker.tls_port), str(broker.port))
    assert lost(tls_at_plain).endswith(
        f"Cannot connect to stomps://localhost:{broker.port}: it does not answer in TLS: {hint}"
    )
    plain_at_tls = plain(broker, f"shop:{QUOTED}@").replace(str(broker.port), str(broker.tls_port))
    assert lost(plain_at_tls).endswith(f"is lost: the broker closed it. {hint.capitalize()}")
