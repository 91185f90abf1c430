"""Each command once with each kind of output, and failing in each way that it can, on a real broker.

A command that is added is added here: LINES says how it is run, and what has `--json` or `--watch` is run so too.
"""

import io
import json
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from radiator.client import Client
from radiator.model.errors import EXIT_REFUSED, EXIT_USAGE, Refusal
from radiator.tools.cli import COMMANDS, main
from tests.acceptance.wire import Wire
from tests.broker_process import CHECKOUT, EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.ports import free_ports
from tests.tools.cli.test_things import parsers

NOBODY = "stomp://127.0.0.1:1"
NO_AMQP = "amqp://127.0.0.1:1"
CONFIG = """
[queue.orders]
[queue."orders.dead"]
[queue.held]
ack_timeout_s = 3600
[exchange.events]
[fanout.news]
children = ["orders"]
scope = "cluster"
[log.clicks]
[journal]
enabled = true
[node]
name = "a"
secret_file = "secret"
[peer.b]
"""

# What each is run with. CONFIG, DATA, BODY, ID and DIR are filled in; DIR is a new one each time.
_CONTEXT = ("context list", "context show", "context use", "context unset")
_ALONE = ("completion", "password", "token", "certificates", *_CONTEXT)  # they need no broker and no data
LINES: dict[str, tuple[str, ...]] = {
    "serve": (),  # it is what all others are run on
    "config": ("", "CONFIG"),
    "check": ("DATA", "--config CONFIG"),
    "backup": ("DATA DIR/backup", "--config CONFIG DIR/backup --compact", "DATA DIR/backup --despite-damage"),
    "restore": ("BACKUP DIR/data",),
    "rename": ("DIR/data b",),
    "compact": ("DIR/data",),
    "ready": ("--exclude links", "--exclude links --exclude disk"),
    "stats": ("", "--config CONFIG"),
    "settings": ("", "--changed"),
    "bounds": ("",),
    "disk": ("",),
    "broker-log": ("", "--lines 5 --level warning"),
    "top": ("--count 1 --interval 0.1",),
    "history": ("", "orders --minutes 2"),
    "attention": ("",),
    "queues": ("", "--sort=-in --top 3", "--needs --text ord", "--sort name"),
    "describe": ("queue orders", "/exchange/events", "fanout news", "/log/clicks"),
    "peek": ("orders", "queue orders"),
    "why": ("orders", "log clicks", "/exchange/events"),
    "declare queue": ("made",),
    "declare exchange": ("made",),
    "declare fanout": ("made orders",),
    "declare log": ("made",),
    "bind": ("events k orders",),
    "unbind": ("events k orders",),
    "delete": ("made", "exchange made"),
    "purge": ("orders",),
    "move": ("orders orders.dead",),
    "return": ("orders.dead", "orders --message ID", "orders --count 1"),
    "route": ("events k", "events"),
    "may": ("ann write orders", "ann admin"),
    "position": ("clicks g", "log clicks g --to earliest"),
    "release": ("orders g",),
    "prepared": ("", "--abort p", "--abort-all p"),
    "connections": ("", "--of anyone --after 1 --limit 5", "NUMBER"),
    "disconnect": ("NUMBER",),
    "unacked": ("held", "queue held --limit 1 --after 0-0"),
    "extend": ("held OUT 60",),
    "peers": ("",),
    "peer": ("drop b --force", "keep b", "release b --force"),
    "drain": ("", "--stop"),
    "reload": ("--dry-run", "--yes"),
    "send": ("orders hello", "topic news --file BODY"),
    "receive": ("orders --count 1",),
    "archive": ("--config CONFIG --to DIR/archive", "--verify ARCHIVE"),
    "audit": ("--data DATA", "--archive ARCHIVE"),
    "explain": ("--data DATA ID", "--archive ARCHIVE ID"),
    "bench": ("--seconds 0.3", "--disk DIR"),
    "migrate": (),  # it needs two brokers of AMQP: tests/tools/migrate
    "certificates": ("DIR/tls", "DIR/tls --name broker.example --client ops"),
    "install-service": ("--root DIR --program /opt/radiator/bin/radiator",),
    "uninstall-service": ("--root DIR",),
    "completion": ("bash", "zsh", "fish"),
    "password": ("",),
    "token": ("", "--until 2099-01-31"),
    "context list": ("",),
    "context show": ("", "here"),
    "context use": ("here",),
    "context unset": ("",),
}
NOT_JSON = {"serve", "send", "certificates", "install-service", "uninstall-service", "completion"}
"""They show nothing: they do something, and may say each step."""
WATCHED = {
    "stats", "bounds", "disk", "queues", "history", "attention", "describe", "peek", "why", "position", "prepared",
    "peers", "connections", "unacked", "route",
}  # fmt: skip
"""What changes, and can be looked at again and again; `top` does so by itself, `receive` goes on."""

FOUND = {"attention": EXIT_REFUSED}  # something is wrong: the node b is not linked
# What a broker, or a store, says no to.
REFUSED: dict[str, str] = {
    "backup": "DIR DIR/backup",
    "restore": "BODY DIR/data",
    "rename": "DIR/data /",
    "compact": "DATA",
    "history": "nothing",
    "describe": "queue nothing",
    "peek": "nothing",
    "why": "/log/nothing",
    "declare queue": "made --dead-letter nothing",
    "declare exchange": "events --type topic",
    "declare fanout": "made nothing",
    "declare log": "$checkout/x",
    "bind": "nothing k orders",
    "unbind": "nothing k orders",
    "delete": "nothing",
    "purge": "nothing",
    "move": "orders nothing",
    "return": "nothing",
    "route": "nothing k",
    "position": "clicks nobody",
    "release": "orders nobody",
    "prepared": "--abort nothing",
    "connections": "999999",
    "disconnect": "999999",
    "unacked": "nothing",
    "extend": "held feedfacecafebeef-1-1 60",
    "peer": "drop nobody --force",
    "send": "nothing hello",
    "receive": "nothing",
    "bench": "'*'",
    "migrate": f"{NO_AMQP} --queue orders",
    "certificates": "BODY",
    "install-service": "--root DIR --program /home/radiator",
}
CANNOT_LOOK: dict[str, str] = {
    "check": "--data DIR",
    "archive": "--data DIR --to DIR/archive",
    "audit": "--data DIR",
    "explain": "--data DIR ID",
    "context show": "nothing",
    "context use": "nothing",
}
NOT_REFUSED = {
    "serve",
    "config",
    "ready",
    "stats",
    "settings",
    "bounds",
    "disk",
    "broker-log",
    "top",
    "attention",
    "queues",
    "peers",
    "drain",
    "may",
    "reload",
    "uninstall-service",
    "completion",
    "password",
    "token",
    "context list",
    "context unset",
}  # nobody refuses them

PARSERS = parsers()


class Place:
    """Where all is that the lines name."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.holder: Wire | None = None
        (directory / "body").write_bytes(b"sent")
        with Client(broker.address) as client:
            client.send("/queue/orders", b"1")
            (message,) = client.admin({"do": "peek", "queue": "orders"})["messages"]
        self.fixed = {
            "CONFIG": broker.config_file, "DATA": broker.data_dir, "BODY": directory / "body",
            "BACKUP": directory / "backup", "ARCHIVE": directory / "archive", "ID": message["message_id"],
        }  # fmt: skip
        assert main(["backup", str(broker.data_dir), str(directory / "backup")]) == 0
        assert main(["archive", "--config", str(broker.config_file), "--to", str(directory / "archive")]) == 0

    def words(self, name: str, line: str, *more: str) -> list[str]:
        """The command line, with a new directory where one is named."""
        new = self.directory / f"{len([*self.directory.iterdir()])}"
        if "DIR" in line:
            new.mkdir()
        held = self.hold() if "NUMBER" in line or "OUT" in line else {}
        for mark, is_what in {**self.fixed, **held, "DIR": new}.items():
            line = line.replace(mark, str(is_what))
        options = PARSERS[name].format_usage()
        broker = ["--broker", self.broker.address] if "--broker" in options and "--config" not in line else []
        return [*name.split(), *shlex.split(line), *more, *broker]

    def prepare(self, name: str, words: list[str]) -> None:
        """What the command needs is there, whatever was run before."""
        with Client(self.broker.address) as client:

            def ask(**request: object) -> None:
                with suppress(Refusal):  # it is not there, or it is
                    client.admin(request)

            if name in ("rename", "compact") and words and "data" in words[1]:
                main(["restore", str(self.fixed["BACKUP"]), words[1]])
            elif name.startswith("declare"):
                ask(**{"do": "delete", name.split()[1]: "made"})
            elif name == "delete":
                ask(do="declare", queue="made")
                ask(do="declare", exchange="made")
            elif name == "position":
                ask(do="position", log="clicks", group="g", offsets=[0])
            elif name in ("receive", "move", "release"):
                client.send("/queue/orders", b"2")
            if name == "release":
                ask(do="checkout-release", queue="orders", group="g")
                ask(do="checkout", queue="orders", group="g", max_messages=1)
        if name == "prepared":
            self.prepare_transaction()
        if name == "drain" and "--stop" not in words:
            main(["drain", "--stop", "--broker", self.broker.address])

    def hold(self) -> dict[str, str]:
        """A connection that has a message, and that message."""
        if self.holder is not None:
            self.holder.close()
        self.holder = Wire((self.broker.host, self.broker.port))
        session = self.holder.connect()["session"]
        self.holder.subscribe("/queue/held")
        self.holder.send("/queue/held", "1")
        return {"NUMBER": session.rpartition("-")[2], "OUT": self.holder.message()["message-id"]}

    def prepare_transaction(self) -> None:
        with Wire((self.broker.host, self.broker.port)) as wire:
            wire.connect()
            wire.ask("BEGIN", {"transaction": "t"})
            wire.send("/queue/orders", "1", {"transaction": "t"})
            with suppress(AssertionError):  # it is prepared already
                wire.ask("COMMIT", {"transaction": "t", "prepare": "p"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    pytest.importorskip("pyarrow", reason='the archive needs pyarrow: pip install ".[archive]"')
    directory = tmp_path_factory.mktemp("broker")
    (directory / "secret").write_bytes(b"x" * 32)
    (directory / "secret").chmod(0o600)
    clients, nodes = free_ports(2)
    server = SERVER.replace("127.0.0.1:0", f"127.0.0.1:{clients}") + EVERYTHING_MAY_BE_CREATED
    config = CONFIG.replace("[peer.b]", f'[peer.b]\naddress = "peer://127.0.0.1:{nodes}"')
    with BrokerProcess(directory, server + config) as broker:
        yield Place(broker, tmp_path_factory.mktemp("place"))


@pytest.fixture
def run(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a password\n")))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.directory))
    (place.directory / "radiator.toml").write_text(f'[context.here]\nbroker = "{place.broker.address}"\n')

    def command(name: str, line: str, *more: str) -> tuple[int, str, str]:
        words = place.words(name, line, *more)
        place.prepare(name, words)
        capsys.readouterr()
        status = main(words)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return command


Run = Callable[..., tuple[int, str, str]]


def has(name: str, option: str) -> bool:
    return f"{option}]" in PARSERS[name].format_usage() or f"{option} " in PARSERS[name].format_usage()


# ---- nothing is left out


def test_every_command_is_run_here() -> None:
    assert set(PARSERS) == set(LINES)
    assert {name.split()[0] for name in LINES} == {*COMMANDS}
    assert set(LINES) == {*REFUSED, *CANNOT_LOOK, *NOT_REFUSED}


def test_what_shows_something_shows_it_as_json_and_what_changes_can_be_watched() -> None:
    assert {name for name in LINES if not has(name, "--json")} == NOT_JSON
    assert {name for name in LINES if has(name, "--watch")} == WATCHED


def test_a_broker_and_a_data_directory_are_named_alike() -> None:
    for name in LINES:
        ways = {way for way in ("--broker", "--data", "--config") if has(name, way)}
        assert has(name, "--context") is has(name, "--broker"), name
        if name in ("serve", "config", "migrate"):  # the last one also has --to
            assert ways == {"--config"}
        elif not name.endswith("install-service") and name not in _ALONE:
            assert ways in ({"--broker", "--config"}, {"--data", "--config"}), name


# ---- what it shows


SLOW = {"bench": pytest.mark.slow}  # it measures, for a while
SHOWN = [pytest.param(name, line, marks=SLOW.get(name, ())) for name, lines in LINES.items() for line in lines]


@pytest.mark.parametrize(("name", "line"), SHOWN)
def test_text(run: Run, name: str, line: str) -> None:
    status, out, err = run(name, line)
    assert status == FOUND.get(name, 0), err
    assert bool(out) == (name != "send") and "Traceback" not in err


@pytest.mark.parametrize(("name", "line"), [one for one in SHOWN if has(str(one.values[0]), "--json")])
def test_json(run: Run, name: str, line: str) -> None:
    status, out, err = run(name, line, "--json")
    assert status == FOUND.get(name, 0), err
    documents = [json.loads(text) for text in out.splitlines()]
    assert documents and all(isinstance(one, dict) for one in documents)
    assert len(documents) == 1 or name in ("explain", "drain"), out


class Interrupting(io.StringIO):
    """A terminal at which somebody says Ctrl-C as soon as there is something to be seen."""

    is_done = False

    def flush(self) -> None:
        if self.getvalue() and not self.is_done:
            self.is_done = True
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("name", "line"),
    [one.values for one in SHOWN if has(str(one.values[0]), "--watch") and "--" not in str(one.values[1])],
)
def test_watch_ends_with_the_interrupt(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, line: str, form: str
) -> None:
    place.prepare(name, [])
    seen: TextIO = Interrupting()
    monkeypatch.setattr(sys, "stdout", seen)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a shell has us in the background
    try:
        assert main(place.words(name, line, "--watch", *(["--json"] if form == "json" else []))) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(seen, Interrupting)
    out = seen.getvalue()
    assert out.endswith("\n") and (form == "text" or isinstance(json.loads(out), dict))


# ---- how it fails


def forms(name: str) -> list[list[str]]:
    return [[], ["--json"]] if has(name, "--json") else [[]]


def fails(found: tuple[int, str, str], status: int, lines: int = 1) -> None:
    """With that status, one sentence on stderr and nothing on stdout."""
    ended, out, err = found
    assert (ended, out) == (status, "") and err.startswith("radiator") and err.count("\n") == lines, found


@pytest.mark.parametrize("name", sorted(LINES))
def test_wrong_words_are_status_2(run: Run, name: str) -> None:
    for form in forms(name):
        fails(run(name, "--no-such-option", *form), EXIT_USAGE)


@pytest.mark.parametrize("name", sorted(name for name in LINES if has(name, "--config")))
def test_a_wrong_configuration_is_status_2(run: Run, place: Place, name: str) -> None:
    config = place.directory / "wrong.toml"
    config.write_text("[limits]\nmax_conections = 7\n[nonsense]\n")
    lines = {"config": str(config), "migrate": f"{NO_AMQP} --queue orders --config {config}"}
    line = lines.get(name, f"{needed(name)} --config {config}")
    for form in forms(name):
        fails(run(name, line, *form), EXIT_USAGE, lines=2)


def needed(name: str) -> str:
    """The words without which it is not asked, beside where."""
    line = (LINES[name] or ("",))[0]
    data = ("DATA", "DIR/data", "--data", "CONFIG", "--config")
    return " ".join(word for word in line.split() if word not in data)


@pytest.mark.parametrize("name", sorted(name for name in LINES if has(name, "--broker")))
def test_nobody_at_the_address_is_status_1(place: Place, capsys: pytest.CaptureFixture[str], name: str) -> None:
    for form in forms(name):
        words = place.words(name, LINES[name][0], *form)[:-2]
        status = main([*words, "--broker", NOBODY])
        printed = capsys.readouterr()
        fails((status, printed.out, printed.err), EXIT_USAGE if name in FOUND else EXIT_REFUSED)
        assert "Is the broker running?" in printed.err


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refusal_is_status_1(run: Run, name: str) -> None:
    for form in forms(name):
        status, out, err = run(name, REFUSED[name], *form)
        assert status == EXIT_REFUSED and "Traceback" not in err
        # what is not prepared is no refusal of the broker's: it is what is shown
        assert name == "prepared" or (out == "" and err.count("\n") == 1), (out, err)


@pytest.mark.parametrize("name", sorted(CANNOT_LOOK))
def test_what_cannot_be_looked_at_is_status_2(run: Run, name: str) -> None:
    for form in forms(name):
        fails(run(name, CANNOT_LOOK[name], *form), EXIT_USAGE)


def test_an_interrupt_is_status_130(place: Place) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.get_ident()
    with Client(place.broker.address) as client:
        client.admin({"do": "declare", "queue": "quiet"})

        def interrupt() -> None:
            while not client.admin({"do": "describe", "queue": "quiet"})["consumers"]:
                pass
            signal.pthread_kill(waiting, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            assert main(["receive", "quiet", "--broker", place.broker.address]) == 130
        finally:
            thread.join()
            signal.signal(signal.SIGINT, before)


def test_operating_tells_how_each_command_ends() -> None:
    """The table of docs/OPERATING.md has each of them once."""
    text = (CHECKOUT / "docs/OPERATING.md").read_text(encoding="utf-8").split("\n| command | 1 | 2 |\n")[1]
    rows = text.split("\n\n")[0].splitlines()[1:]
    named = [name.strip("` ").split()[0] for row in rows for name in row.split("|")[1].split(",")]
    assert sorted(set(named)) == sorted(COMMANDS)
    assert len(named) == len(set(named))
