"""The rest that can be judged without a peer: processes, the machine, the arguments, the load of a topic."""

import configparser
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.command import _arguments
from benchmarks.flushes import count_flushes, flushes_in
from benchmarks.growth import SpreadWire, disk_bytes
from benchmarks.host import cpu_model, file_system, flush_ms
from benchmarks.install import requirements_of
from benchmarks.instructions import COUNTED, count_instructions, instructions_in
from benchmarks.loads import TopicLoad
from benchmarks.peers import CHECKOUT, PEERS, Radiator
from benchmarks.pictures import amount
from benchmarks.processes import Launch, running, tree
from benchmarks.wires import StompRequestWire, StompTopicWire
from radiator.client import Client
from radiator.tools.cli.load import Load, LoadFailed, Shape
from tests.broker_process import BrokerProcess
from tests.ports import free_port

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
35 22 0:30 / /run/a\\040b rw,nosuid - tmpfs tmpfs rw,size=1k
"""

LISTENER = """\
import socket, subprocess, sys, time
while time.process_time() < 0.05:
    pass  # the clock of a process's CPU has ticks of 10 ms
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(child.pid, flush=True)
while True:
    server.accept()
"""


def state(pid: int) -> str:
    """As proc_pid_stat(5) has it; X where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def test_a_peer_runs_in_its_directory_and_leaves_neither_files_nor_children(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "DIR/listener.py", str(port)]
    with running(Launch(commands=[command], port=port, files={"listener.py": LISTENER}), tmp_path / "p") as broker:
        pids = tree(broker.pids)
        assert len(pids) == 2 and broker.cpu_s() > 0
        broker.pause()
        end_s = time.monotonic() + 10
        while {state(pid) for pid in pids} != {"T"}:
            assert time.monotonic() < end_s, "they were told to stop"
        broker.resume()
    assert not (tmp_path / "p").exists()
    for pid in pids:
        assert state(pid) in "ZX", "gone, or to be reaped by init, whose child it is now"


def test_a_peer_that_does_not_come_up_is_quoted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such option')"]
    with (
        pytest.raises(LoadFailed, match="no such option"),
        running(Launch(commands=[command], port=free_port()), tmp_path / "p"),
    ):
        pass


def test_the_machine_is_described(tmp_path: Path) -> None:
    assert cpu_model("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert file_system(MOUNTS, Path("/home/x")) == "ext4 (rw,relatime; rw)"
    assert file_system(MOUNTS, Path("/run/a b/c")) == "tmpfs (rw,nosuid; rw,size=1k)"
    found = flush_ms(tmp_path)
    assert 0 < found["median"] <= found["p99"]
    assert os.listdir(tmp_path) == []


def test_arguments() -> None:
    usual = _arguments([])
    assert (usual.rounds, usual.bodies, usual.shapes) == (5, [100, 1024, 65536], list(range(1, 11)))
    assert usual.peers == [peer.name for peer in PEERS]
    assert _arguments(["--only", "radiator"]).peers == ["radiator"]
    assert _arguments(["--bodies", "100,1KiB"]).bodies == [100, 1024]
    assert _arguments(["--pictures"]).pictures == CHECKOUT / "docs" / "bench"


@pytest.mark.parametrize("words", [["--peers", "nobody"], ["--shapes", "11"], ["--shapes", "0"], ["--bodies", "8"],
                                   ["--bodies", "1KB"], ["--series", "age"]])  # fmt: skip
def test_wrong_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _arguments(words)
    assert words[0] in capsys.readouterr().err


def test_the_extra_of_the_pictures_is_known() -> None:
    assert any(one.startswith("matplotlib") for one in requirements_of("bench", (CHECKOUT / "setup.cfg").read_text()))


def test_the_package_ships_without_the_benchmarks() -> None:
    settings = configparser.ConfigParser()
    settings.read_string((CHECKOUT / "setup.cfg").read_text())
    assert settings["options.packages.find"]["include"].split() == [
        "pyspark_radiator",  # what Spark looks for by its name
        "radiator",
        "radiator.*",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123, "0.12"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (123.4, "123"),
        (999.7, "1.00k"),
        (123456, "123k"),
        (2e6, "2.00M"),
    ],
)
def test_amounts_have_three_digits(value: float, text: str) -> None:
    assert amount(value) == text


def test_the_load_of_a_topic_counts_each_delivery(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        load = TopicLoad((broker.host, broker.port), StompTopicWire("/topic/t"), 5)
        found = load.measure(2.0)
        deliveries = load.settle()
        load.close()
    assert found.messages > 0 and 0 < found.p50_ms <= found.p999_ms
    assert deliveries >= found.messages and deliveries % 5 == 0, "each of the five got all"


def test_flushes_are_those_of_the_summary() -> None:
    report = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 68.74    0.101740          48      2095           fdatasync
 30.84    0.045641          10      4194           writev
  0.28    0.000412          37        11         2 fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.148009          23      6331           total
"""
    assert flushes_in(report) == 2106
    assert flushes_in("") == 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed; on Debian: apt install strace")
def test_each_answer_to_one_producer_is_a_flush_and_eight_producers_share_theirs(tmp_path: Path) -> None:
    lines = count_flushes([Radiator()], [100], tmp_path, 0.5).splitlines()[1:]
    alone, end_to_end = (float(line.split()[-1]) for line in lines)
    assert alone > 0.95, "all but what strace missed while it attached"
    assert 1 / 16 < end_to_end < alone


def test_instructions_are_the_totals_of_a_dump() -> None:
    assert instructions_in("summary: 12\n\nfn=(1)\n0 12\n\ntotals: 13\n") == 13
    with pytest.raises(LoadFailed, match="no totals: 'empty'"):
        instructions_in("empty")


@pytest.mark.slow
@pytest.mark.alone("the clock of the broker causes instructions too: more of them where each message takes longer")
def test_instructions_are_much_the_same_on_each_run(tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed; on Debian or Ubuntu: apt install valgrind")
    (memory,) = (row for row in COUNTED if row.name == "memory end to end, 1 + 1, window 100")
    rows = [replace(memory, name=name, steps=10) for name in ("once", "again")]
    once, again = count_instructions(None, tmp_path, rows)
    assert (once["name"], again["name"]) == ("once", "again")
    assert 20_000 < once["radiator"] < 1_000_000
    # five runs beside a load of 8 were within 0.003 of each other; what a change costs is told from 0.03 on
    assert once["radiator"] == pytest.approx(again["radiator"], rel=0.02)


def test_the_load_of_requests_counts_replies(tmp_path: Path) -> None:
    shape = Shape(name="x", producers=3, window=1, consumers=2, are_requests=True)
    with BrokerProcess(tmp_path) as broker:
        load = Load((broker.host, broker.port), StompRequestWire("/queue/q"), shape)
        found = load.measure(2.0)
        left = load.settle()
        load.close()
    assert found.messages > 0 and 0 < found.p50_ms <= found.p999_ms
    assert left == 0, "every request was taken and answered"


def test_the_queues_of_growth_all_get_their_share(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        load = Load((broker.host, broker.port), SpreadWire(7), Shape(name="x", producers=3, window=1))
        load.fill(21)
        load.close()
        with Client(broker.address) as client:
            stored = {name: queue["stored"] for name, queue in client.admin({"do": "stats"})["queues"].items()}
    assert {name: count for name, count in stored.items() if name.startswith("q")} == {f"q{n}": 3 for n in range(7)}


def test_the_space_on_the_disk_is_counted_in_blocks(tmp_path: Path) -> None:
    (tmp_path / "sparse").open("wb").truncate(1 << 30)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").write_bytes(b"x" * 100_000)
    os.sync()
    assert 100_000 <= disk_bytes(tmp_path) < 1 << 20
