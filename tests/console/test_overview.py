"""The overview: a broker without queues, what goes through, what needs somebody, and a broker that dies under it."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from tests.broker_process import BrokerProcess, environment
from tests.console.by_hand import HOSTILE, ask, is_right_everywhere, lines, looked_at
from tests.console.page import Page, a_broker, config_of
from tests.ports import free_port, free_ports

NEEDS = """
[queue.orders]
dead_letter = "orders.dead"
max_redeliveries = 1
[queue."orders.dead"]
[queue.small]
max_messages = 2
overflow = "reject"
[node]
name = "here"
listen = "peer://127.0.0.1:0"
secret_file = "secret"
[peer.away]
"""

WATCHED_PLOTS = """
Object.defineProperty(window, "uPlot", {
  configurable: true,
  get() { return this.watched; },
  set(made) {
    const construct = (target, given) => ((window.plots ??= []).push(new target(...given)), window.plots.at(-1));
    this.watched = new Proxy(made, { construct });
  },
});
"""
TOTAL = "return window.plots.find((one) => one.series[1].label === 'messages').data"
WORDS = "return [...document.querySelectorAll('.plot [role=img]')].map((one) => one.getAttribute('aria-label'))"
PAINTED = """
const styles = getComputedStyle(document.documentElement);
return [...document.querySelectorAll(".plot")].map((plot) => {
  const canvas = plot.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const isThere = (swatch) => {
    const hex = styles.getPropertyValue(`--${swatch.className.split(" ")[1]}`).trim();
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const off = (at) => Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b);
    for (let at = 0; at < data.length; at += 4) if (off(at) < 30 && data[at + 3] > 99) return true;
    return false;
  };
  return [...plot.querySelectorAll(".swatch")].every(isThere);
});
"""
"""Of each plot, whether each of its colours is to be seen."""


def in_words(page: Page) -> str:
    """What the plots show, in words."""
    return "\n".join(page.run(WORDS))


@pytest.fixture
def watched(tab: Page) -> Iterator[Page]:
    """A tab that gives away its plots."""
    made = tab.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED_PLOTS})
    yield tab
    tab.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def with_ports(folder: Path) -> BrokerProcess:
    """A broker at ports that are known before."""
    stomp, web = free_ports(2)
    return BrokerProcess(folder, config_of(web).replace("stomp://127.0.0.1:0", f"stomp://127.0.0.1:{stomp}"))


def test_the_first_message_is_sent_as_the_page_says_and_appears(tab: Page, tmp_path: Path) -> None:
    with with_ports(tmp_path) as broker:
        (web,) = re.findall(r"http://127.0.0.1:\d+", broker.config_file.read_text())
        with looked_at(tab, web):
            tab.open()
            tab.sees("No queue yet: send the first message", broker.address)
            tab.run("window.here = true")
            tab.press("Browser")
            tab.sees(f'import("{web}/client.js")', f'connect({{ url: "{web}" }})')
            tab.press("curl")
            tab.sees(f"{web}/v1/queues/greetings/messages", f"{web}/v1/queues/greetings/receive")
            tab.press("Python")
            tab.sees("from radiator.client import Client", broker.address)
            is_right_everywhere(tab)
            (python,) = lines(tab, "main")
            printed = subprocess.run(
                [sys.executable, "-c", python], env=environment(), capture_output=True, text=True, timeout=30
            )
            assert (printed.returncode, printed.stdout) == (0, "hello\n"), printed
            tab.does_not_see("No queue yet")
            tab.wait(lambda: re.search(r"acked/s .*, at most [1-9]", tab.run(WORDS)[1]), "the message in the plot")
            assert tab.run("return window.here"), "the page was loaded anew"
            tab.is_well()


@pytest.mark.parametrize("kind", ["curl", "Browser"])
def test_the_other_ways_to_begin_work_too(tab: Page, tmp_path: Path, kind: str) -> None:
    with a_broker(tmp_path) as (_, url), looked_at(tab, url):
        tab.open()
        tab.press(kind)
        tab.sees("greetings/receive" if kind == "curl" else "client.js")
        (text,) = lines(tab, "main")
        if kind == "curl":
            printed = subprocess.run(["bash", "-ec", text], capture_output=True, text=True, timeout=30)
            assert printed.returncode == 0 and '"hello"' in printed.stdout, printed
        else:
            body = text.replace("import { connect } from", "const { connect } = await import(").replace('js";', 'js");')
            script = (
                f"const done = arguments[0]; (async () => {{ {body}\n }})().then(() => done(''), (e) => done(`${{e}}`))"
            )
            assert tab.driver.execute_async_script(script) == ""
            assert ask(url, "GET", "/v1/queues/greetings")["messages"] == 0
        tab.does_not_see("No queue yet")
        tab.is_well()


def test_who_closes_it_is_left_alone(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path) as (_, url), looked_at(tab, url):
        tab.open()
        tab.press("Close", "main")
        tab.does_not_see("No queue yet")
        tab.is_well()


def test_what_needs_somebody_leads_to_its_place(tab: Page, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a secret of two nodes, long enough for both\n")
    with a_broker(tmp_path, NEEDS) as (broker, url), looked_at(tab, url):
        with Client(broker.address) as client:
            client.send_many("/queue/small", [b"x"] * 2)
            client.send(f"/queue/{HOSTILE.replace('$', '%').replace(' ', '.')}", b"x")
            client.subscribe("/queue/orders", ack="client-individual")
            client.send("/queue/orders", b"x")
            for message in client.messages(timeout_s=1):
                client.nack(message)
        ask(url, "POST", "/v1/drain", {})
        tab.open()
        tab.sees("full", "dead-letters", "not-linked", "no-consumer", "draining")
        found = dict(
            tab.run("return [...document.querySelectorAll('.needs .place')].map((one) => [one.textContent, one.hash])")
        )
        assert found["small"] == "#/queues/small" and found["orders.dead"] == "#/queues/orders.dead"
        assert found["away"] == "#/nodes" and "#/broker" in found.values()
        assert tab.run("return document.querySelectorAll('main img, main script').length") == 0
        is_right_everywhere(tab)
        for place, heading in (("small", "small"), ("orders.dead", "orders.dead"), ("away", "Nodes")):
            tab.go("#/")
            tab.press(place, ".needs")
            tab.wait(lambda heading=heading: heading in tab.one("h1").text, heading)
        tab.is_well()


def test_what_was_before_the_page_was_opened_is_there_and_said_in_words(tab: Page, tmp_path: Path) -> None:
    with a_broker(tmp_path) as (broker, url), looked_at(tab, url), Client(broker.address) as client:
        client.send_many("/queue/early", [b"x"] * 500)
        client.subscribe("/queue/early", ack="client-individual", prefetch=10)
        for _ in range(3):
            assert client.receive(5)
        time.sleep(2.2)  # so that they lie in seconds which are over
        tab.open()
        tab.wait(lambda: len(tab.all(".plot canvas")) == 4, "four plots")
        into, out, stored, receipts = tab.run(WORDS)
        assert re.fullmatch(r"In: messages/s 0 now, at most [1-9]\d*", into), into
        assert out == "Out: acked/s 0 now, at most 0"
        assert stored.startswith("Stored: messages 500 now, at most 500; unacked "), stored
        assert re.fullmatch(r"Receipts: p50 .+ now, at most .+s; p99 .+ now, at most .+s", receipts), receipts
        tab.wait(lambda: all(tab.run(PAINTED)), "a line in each plot")
        tile = "return [...document.querySelectorAll('.tile')].map((one) => one.innerText.replace('\\n', ' '))"
        assert "Unacked 10" in tab.run(tile) and "Ready 490" in tab.run(tile)
        is_right_everywhere(tab)


def test_a_broker_that_is_killed_and_comes_back_goes_on_behind_a_gap(watched: Page, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, config_of(free_port())) as broker:
        (url,) = re.findall(r"http://127.0.0.1:\d+", broker.config_file.read_text())
        with looked_at(watched, url):
            watched.open()
            with Client(broker.address) as client:
                client.send_many("/queue/kept", [b"x"] * 7)
            watched.wait(lambda: "Stored: messages 7 now" in in_words(watched), "seven messages")
            broker.kill()
            watched.sees("The broker has not answered for")
            assert "Stored: messages 7 now" in in_words(watched), "what was known is gone"
            time.sleep(2)
            broker.start()
            watched.does_not_see("The broker does not answer")
            with Client(broker.address) as client:
                client.send_many("/queue/kept", [b"x"] * 4)
            watched.wait(lambda: "Stored: messages 11 now" in in_words(watched), "eleven messages")
            times, messages, _ = watched.run(TOTAL)
            gap = messages.index(None)
            assert messages[gap - 1] == 7 and messages[-1] == 11 and messages.count(None) == 1
            assert times == sorted(times) and times[gap + 1] - times[gap - 1] >= 2
            assert watched.run("return window.wrongs") == []
