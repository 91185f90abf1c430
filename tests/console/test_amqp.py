"""What the console shows of AMQP: channels of a connection, whose a queue is, and who is its active consumer."""

from collections.abc import Iterator

import amqp
import pytest

from tests.acceptance.amqp_clients import connected, declare
from tests.broker_process import BrokerProcess
from tests.console.by_hand import ask, is_right_everywhere, looked_at
from tests.console.page import Page, config_of
from tests.ports import free_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    port = free_port()
    config = config_of(port, "").replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "amqp://127.0.0.1:0"')
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config) as running:
        yield running, f"http://127.0.0.1:{port}"


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Iterator[Page]:
    with looked_at(tab, broker[1]):
        yield tab
        tab.is_well()


@pytest.fixture
def connection(broker: tuple[BrokerProcess, str]) -> Iterator[amqp.Connection]:
    with connected(broker[0]) as opened:
        yield opened


def numbers(page: Page) -> list[int]:
    """Of the newest connection, and of its channels."""
    rows = ask(page.url, "GET", "/v1/connections")["connections"]
    whole = [one["number"] for one in rows if one["protocol"] == "AMQP 0-9-1"][-1]
    return [whole, *(one["number"] for one in rows if one["channel_of"] == whole)]


def test_a_connection_leads_to_its_channels_and_each_of_them_back(page: Page, connection: amqp.Connection) -> None:
    channels = connection.channel(), connection.channel()
    whole, first, second = numbers(page)
    page.open("#/connections")
    page.sees("AMQP 0-9-1", f"AMQP 0-9-1 channel 1 of {whole}")
    page.go(f"#/connections/{whole}")
    page.sees("Channels", f"connection {first}", f"connection {second}")
    is_right_everywhere(page)
    page.press(f"connection {second}")
    page.wait(lambda: page.place == f"#/connections/{second}", "the channel")
    page.sees("AMQP 0-9-1 channel 2", "Channel of", f"connection {whole}")
    is_right_everywhere(page)
    page.press(f"connection {whole}")
    page.wait(lambda: page.place == f"#/connections/{whole}", "its connection")
    page.go("#/queues")
    page.does_not_see("Recognised by")
    for channel in channels:
        channel.close()


def test_a_queue_says_whose_it_is_and_who_is_active(page: Page, connection: amqp.Connection) -> None:
    channel = connection.channel()
    arguments = {"x-single-active-consumer": True, "x-max-priority": 5}
    declare(channel, "mine", durable=False, exclusive=True, auto_delete=True, arguments=arguments)
    whole, first = numbers(page)
    page.open("#/queues/mine")
    page.sees(
        "Exclusive to", f"connection {whole}", "Auto-delete", "0 to 5", "Single active consumer", "nobody for now"
    )
    channel.basic_consume("mine", consumer_tag="the-first")
    page.sees("the-first of connection")
    is_right_everywhere(page)
    page.press(f"connection {first}")
    page.wait(lambda: page.place == f"#/connections/{first}", "the consumer")
    page.go("#/queues")
    page.does_not_see("Recognised by")
