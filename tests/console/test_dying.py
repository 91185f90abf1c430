"""A broker that dies and comes back under an open page."""

from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.console.page import Page, config_of
from tests.ports import free_port


def test_a_page_says_that_the_broker_is_away_and_goes_on_by_itself(tab: Page, tmp_path: Path) -> None:
    port = free_port()
    with BrokerProcess(tmp_path, config_of(port)) as broker:
        tab.url = f"http://127.0.0.1:{port}"
        tab.open("#/queues")
        tab.sees("Queues")
        broker.kill()
        tab.sees("The broker has not answered for")
        broker.start()
        tab.does_not_see("The broker has not answered for")
