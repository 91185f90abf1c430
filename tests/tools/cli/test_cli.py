"""The command line as a shell sees it: exit statuses, one sentence on stderr, never a traceback."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from radiator import __version__
from radiator.tools.cli import COMMANDS, command_called, main
from tests.broker_process import environment

CONTRACT = {
    "serve", "config", "check", "backup", "restore", "stats", "queues", "peek", "purge", "delete", "move", "send",
    "receive", "bench", "peers", "peer", "drain", "declare", "bind", "unbind", "describe", "top", "release", "prepared",
    "archive", "audit", "explain", "why", "position", "reload", "history", "attention", "rename", "compact", "ready",
    "settings", "bounds", "disk", "broker-log",
    "connections", "disconnect", "unacked", "extend",
    "return", "route", "may",
    "certificates", "install-service", "uninstall-service", "completion", "password", "token", "context",
    "migrate",
}  # fmt: skip
NOBODY = "stomp://127.0.0.1:1"


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "radiator", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=20, check=False)


def test_command_line_has_what_the_contract_lists() -> None:
    assert {*COMMANDS} == CONTRACT
    assert [command_called(name).name for name in COMMANDS] == [*COMMANDS]


def test_a_command_imports_no_other() -> None:
    program = "import sys; from radiator.tools.cli import main; main(['stats', '--help']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    imported = {name for name in done.stdout.split() if name.startswith("radiator.tools.cli.")}
    assert "radiator.tools.cli.stats" in imported and not imported & {
        "radiator.tools.cli.serve",
        "radiator.tools.cli.top",
    }


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_help_of_each_command_has_an_example_of_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"radiator {name}" in text.partition("example:")[2]


def test_examples_are_command_lines_that_parse() -> None:
    from radiator.tools.cli import parser

    for name in COMMANDS:
        for line in command_called(name).example.splitlines():
            words = shlex.split(line.rpartition("| ")[2].partition(" > ")[0])
            assert words[0] == "radiator"
            parser().parse_args(words[1:])


def test_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"radiator {__version__}\n"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "unheard-of",
        "serve --unheard-of",
        "peek",
        "peek q --count 0",
        "peek q --count ten",
        "receive /queue/a --timeout -1",
        "receive /queue/a --timeout nan",
        "send /queue/a --header nocolon",
        "send /queue/a --header :value",
        "send /queue/a hello --file order.json",
        "stats --json --prometheus",
        "queues --broker http://127.0.0.1:1",
        "queues --brok stomp://127.0.0.1:1",
        "move only-one",
        "declare",
        "declare topic t",
        "declare queue",
        "declare queue q --colour red",
        "declare queue q --max-messages -1",
        "declare queue q --persistent none",
        "declare queue /topic/t",
        "declare exchange x --type header",
        "declare fanout f q.*",
        "describe topic t",
        "describe queue",
        "bind x k",
        "unbind x k",
        "bind /queue/x k q",
        "delete",
        "delete topic t",
        "delete queue a b",
        "delete queue /topic/t",
        "top --interval 0.09",
        "top --count 0",
    ],
)
def test_usage_error_is_one_sentence_and_status_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("radiator")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        "stats",
        "queues",
        "peek q",
        "purge q",
        "delete q",
        "delete exchange x",
        "declare queue q --max-messages none",
        "declare exchange x",
        "declare fanout f q",
        "bind x k q",
        "unbind x k q",
        "describe fanout f",
        "top",
        "move a b",
        "receive /queue/a",
        "bench",
    ],
)
def test_nobody_at_the_address_is_one_sentence_and_status_1(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*line.split(), "--broker", NOBODY]) == 1
    printed = capsys.readouterr()
    assert printed.err == f"radiator: Cannot connect to {NOBODY}: Connection refused. Is the broker running?\n"


def test_broker_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RADIATOR_BROKER", NOBODY)
    assert main(["queues"]) == 1
    assert NOBODY in capsys.readouterr().err
    monkeypatch.setenv("RADIATOR_BROKER", "nonsense")
    for words in (["queues"], ["send", "/queue/a", "x"]):
        assert main(words) == 2
        assert capsys.readouterr().err == (
            "radiator: $RADIATOR_BROKER: The broker's address 'nonsense' cannot be used: it must be stomp://HOST:PORT, "
            "such as stomp://127.0.0.1:61613, stomps://HOST:PORT, or stomp+unix:PATH.\n"
        )
    assert main(["queues", "--broker", NOBODY]) == 1


def test_sentence_shows_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", "/queue/a", "--file", "no\x1b[31mfile"]) == 1
    assert capsys.readouterr().err == "radiator: no\\x1b[31mfile: No such file or directory.\n"


def test_wrong_configuration_lists_every_mistake_and_is_status_2(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[server]\nlisten = 5\n[limits]\nmax_conections = 7\n")
    for command in (["config", wrong], ["serve", "--config", wrong], ["config", tmp_path / "absent.toml"]):
        ended = run(*map(str, command))
        assert ended.returncode == 2
        assert "Traceback" not in ended.stderr
    ended = run("config", str(wrong))
    assert len(ended.stderr.splitlines()) == 2
    assert "max_connections" in ended.stderr


def test_config_prints_a_file_that_says_the_same(tmp_path: Path) -> None:
    printed = run("config", cwd=tmp_path)
    assert printed.returncode == 0
    file = tmp_path / "config.toml"
    file.write_text(printed.stdout)
    again = run("config", str(file), cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, printed.stdout)


def test_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m radiator config | head -c 1"
    ended = subprocess.run(command, shell=True, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert (ended.stdout, ended.stderr) == (b"[", b"")


def test_full_disk_is_status_74(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here to write to")
    command = [sys.executable, "-m", "radiator", "config"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 74
    assert ended.stderr == "radiator: No space left on device.\n"


def test_no_data_directory_is_status_1_and_2_of_check(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    for command, status in (
        (["check", tmp_path], 2),
        (["check", absent], 2),
        (["backup", tmp_path, absent], 1),
        (["restore", absent, tmp_path / "data"], 1),
    ):
        ended = run(*map(str, command))
        assert ended.returncode == status
        assert ended.stderr.startswith("radiator: ")
        assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["statz"], "There is no command 'statz'; did you mean \"stats\"? Try `radiator --help`."),
        (["xyzzy"], "There is no command 'xyzzy'; it is one of serve, config, "),
        (["declare", "que", "q"], "There is no kind 'que'; did you mean \"queue\"? Try `radiator declare --help`."),
        (
            ["position", "l", "g", "--to", "bogus"],
            "'bogus' must be one of earliest, latest, time:MS and offset:N, with N,N",
        ),
    ],
)
def test_slip_is_told_with_what_was_meant(line: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line) == 2
    out, err = capsys.readouterr()
    assert sentence in err and err.count("\n") == 1 and ".." not in err and out == ""
