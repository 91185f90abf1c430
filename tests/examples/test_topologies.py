"""The four topologies run to their end: on a broker of their own, and on one that has nothing but its defaults.

They leave nothing behind: what they have declared is gone, so that each runs again at once.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from radiator.client import Client
from radiator.model.settings import STANDARD_EXCHANGES
from tests.broker_process import CHECKOUT, DEFAULT_CONFIG, SERVER, BrokerProcess, environment
from tests.ports import free_port

DRAWINGS = CHECKOUT / "docs" / "topologies"

# what each must have said, in this order; other lines may stand between them
PRINTED = {
    "rpc": [
        "1 to 30 are squared, by server 1, server 2, server 3; the sum is 9455",
        "a timeout: no reply to 'square 31' within 0.2 s",
        "nobody offers cubes, and mandatory says so at once: no-subscriber",
        "its queue has gone with it (no-such-destination); late replies that were dropped: 1",
        "with a temp queue, in one line: 12 x 12 = 144",
    ],
    "map_reduce": [
        "the job is stored for 4 shards, with one receipt",
        "the worker of shard 3 has died in the middle of it, and another one takes over",
        "all 4 shards have answered: the 7, and 4, net 4, is 3",
        "the total is on the disk: 48 words",
        "3 of 4 shards have answered within 1 s: the 7, and 4, is 3, net 3",
    ],
    "task_distribution": [
        "150 jobs are on the disk",
        " dies of job 20",
        "149 jobs are done, by up to ",
        "set aside: job 40, for redeliveries",
        "when the cause is mended, it can be tried again: 1 moved back",
    ],
    "pub_sub": [
        "the archive has subscribed to #, durably, and gone home",
        "weather.rome and 3 of sports.turin are published and confirmed",
        "  the reader hears weather.rome: sun",
        "  the reader hears traffic.oslo: the bridge is closed",
        "  the archive, back again, finds weather.rome: sun",
        "  the archive, back again, finds sports.turin: goal 3",
        "  the archive, back again, finds traffic.oslo.ferry: the ferry takes cars",
        "the archive is closed down, and for sports there is nobody any more: no-subscriber",
    ],
}
EACH = pytest.mark.parametrize("topology", PRINTED)
slow = pytest.mark.slow


@pytest.fixture(scope="module", params=["nothing may be created", "everything may be created"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = SERVER if request.param.startswith("nothing") else DEFAULT_CONFIG
    with BrokerProcess(tmp_path_factory.mktemp("topologies"), config) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def run(topology: str, *options: str) -> list[str]:
    """What it says; it must end well."""
    command = [sys.executable, str(CHECKOUT / "examples" / f"{topology}.py"), *options]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=40)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def check_printed(topology: str, lines: list[str]) -> None:
    rest = iter(lines)
    for wanted in [*PRINTED[topology], "done"]:
        assert any(wanted in line for line in rest), f"no {wanted!r}, or not in its place, in {lines}"


@slow
@EACH
def test_it_runs_on_a_broker_of_its_own(topology: str) -> None:
    check_printed(topology, run(topology))


@slow
@EACH
def test_it_runs_twice_on_a_given_broker_and_leaves_nothing(topology: str, broker: BrokerProcess) -> None:
    with Client(broker.address) as client:
        for _ in range(2):
            check_printed(topology, run(topology, "--broker", broker.address))
            stats = client.admin({"do": "stats"})
            assert [name for name in stats["queues"] if "example" in name] == []
            for name in STANDARD_EXCHANGES:
                assert client.admin({"do": "describe", "exchange": name})["bindings_count"] == 0
            assert "example." not in str(stats), "an exchange is left"


@slow
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_task_distribution_goes_on_when_the_broker_is_restarted(tmp_path: Path, how: str) -> None:
    with BrokerProcess(tmp_path, SERVER.replace("127.0.0.1:0", f"127.0.0.1:{free_port()}")) as broker:
        command = [sys.executable, "-u", str(CHECKOUT / "examples/task_distribution.py"), "--broker", broker.address]
        running = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        lines = []
        try:
            for line in running.stdout:
                lines.append(line.rstrip("\n"))
                if len(lines) in (2, 3):  # while jobs are being done
                    broker.kill() if how == "kill" else broker.stop()
                    broker.start()
            assert running.wait(20) == 0, lines
        finally:
            running.kill()
            running.wait()
        check_printed("task_distribution", lines)


def test_the_check_of_what_was_said_notices_a_missing_line() -> None:
    lines = [*PRINTED["rpc"], "done"]
    check_printed("rpc", lines)
    for wrong in (lines[1:], lines[:-1], [*lines[1:], lines[0]]):
        with pytest.raises(AssertionError, match="not in its place"):
            check_printed("rpc", wrong)


@EACH
def test_it_has_a_drawing_with_a_title_and_colours_for_both_lights(topology: str) -> None:
    drawing = DRAWINGS / f"{topology}.svg"
    root = ElementTree.parse(drawing).getroot()
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert {"title", "desc", "style"} <= set(tags)
    text = drawing.read_text()
    assert "prefers-color-scheme: dark" in text
    assert drawing.stat().st_size < 8 * 1024
    page = (CHECKOUT / "docs" / "TOPOLOGIES.md").read_text()
    assert f"(topologies/{topology}.svg)" in page
    assert f"`examples/{topology}.py`" in page or f"(../examples/{topology}.py)" in page


def test_links_of_the_page_lead_somewhere() -> None:
    place = CHECKOUT / "docs" / "TOPOLOGIES.md"
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", place.read_text())
    assert [link for link in links if not (place.parent / link).exists()] == []


def test_settings_that_they_use_are_those_of_the_page() -> None:
    """A setting in an example has its reason on the page, too."""
    page = (CHECKOUT / "docs" / "TOPOLOGIES.md").read_text()
    used = set()
    for topology in PRINTED:
        source = Path(CHECKOUT / "examples" / f"{topology}.py").read_text()
        settings = r"persistent|exclusive|auto_delete|expires_ms|max_messages|overflow|dead_letter|max_redeliveries"
        used |= set(re.findall(rf'"?\b({settings}|redelivery_delay_ms|ack_timeout_s|dedup_window_s)\b"?[:=]', source))
    assert len(used) > 8
    assert sorted(setting for setting in used if f"`{setting}" not in page) == []
