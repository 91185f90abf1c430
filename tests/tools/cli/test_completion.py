"""What TAB gives, in the shells themselves: each reads the script that is printed for it."""

import argparse
import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from radiator.tools.cli import COMMANDS, main, parser
from radiator.tools.cli.completion import SHELLS, script, tree

# what is typed, what must be offered, what must not
CASES = [
    ("", ["serve", "queues", "completion"], ["--json"]),
    ("st", ["stats"], ["serve"]),
    ("stats --", ["--json", "--prometheus", "--watch", "--broker"], ["--compact"]),
    ("declare ", ["queue", "exchange", "fanout", "log"], ["serve"]),
    ("declare queue --max-", ["--max-messages", "--max-bytes", "--max-redeliveries"], ["--partitions"]),
    ("describe q", ["queue"], ["exchange"]),
    ("completion ", ["bash", "zsh", "fish"], ["serve"]),
    ("check --d", ["--data"], ["--json"]),
    ("serve --config ", ["here.toml"], ["--config"]),
    ("check ", ["here.toml"], ["stats"]),
    ("stats --broker ", [], ["--json", "here.toml"]),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "here.toml").touch()
    return tmp_path


def printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def bash_offers(text: str, typed: str, place: Path) -> set[str]:
    """As bash calls it."""
    words = ["radiator", *typed.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    ask = f'COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _radiator; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ended = subprocess.run(
        ["bash", "--norc", "-u", "-c", f"{text}\n{ask}"], cwd=place, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    return set(ended.stdout.split())


@pytest.mark.parametrize(("typed", "offered", "not_offered"), CASES)
def test_bash_offers(
    typed: str, offered: list[str], not_offered: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bash_offers(printed("bash", capsys), typed, place)
    assert found >= set(offered) and not found & set(not_offered)


def test_bash_offers_every_command_with_every_option(capsys: pytest.CaptureFixture[str], place: Path) -> None:
    text = printed("bash", capsys)
    assert bash_offers(text, "", place) >= {*COMMANDS}
    for at in (("declare", "log"), ("archive",)):
        node = next(node for node in tree(parser()) if node.at == at)
        assert bash_offers(text, f"{' '.join(at)} -", place) == {option.name for option in node.options}


def test_bash_completes_what_is_typed_at_a_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "script").write_text(printed("bash", capsys))
    child, ours = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "PS1": "$ ", "TERM": "dumb"})
    output = b""

    def wait_for(wanted: bytes) -> None:
        nonlocal output
        end_s = time.monotonic() + 20
        while wanted not in output:
            assert time.monotonic() < end_s and select.select([ours], [], [], 20)[0], output
            output += os.read(ours, 65_536)
        output = output[output.index(wanted) + len(wanted) :]

    try:
        os.write(ours, b". ./script; echo rea''dy\n")
        wait_for(b"\nready")
        os.write(ours, b"radiator comp\t")
        wait_for(b"radiator comp")
        os.write(ours, b"li\t\n")  # completion and compact begin alike
        os.write(ours, b"radiator serve --conf\ther\t # typed\n")
        wait_for(b"radiator serve --config here.toml")
    finally:
        os.write(ours, b"\x03\nexit\n")
        os.close(ours)
        os.waitpid(child, 0)


def test_scripts_have_what_the_parser_has() -> None:
    made = argparse.ArgumentParser(prog="radiator", add_help=False)
    made.add_argument("--mode", choices=["a", "b"], help='it\'s (a) "mode": $x `y`')
    made.add_argument("file", metavar="FILE")
    (node,) = tree(made)
    assert node.has_files and [(one.name, one.words, one.help) for one in node.options] == [
        ("--mode", ["a", "b"], "its")
    ]
    for shell in SHELLS:
        assert "--mode" in script(shell, made) or "-l mode" in script(shell, made)


def test_help_in_scripts_means_nothing_to_a_shell() -> None:
    for node in tree(parser()):
        for text in [*node.words.values(), *(option.help for option in node.options)]:
            assert text in node.words.values() or re.fullmatch(r"[\w ,./-]*", text)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed; on Debian or Ubuntu: apt install {shell}")
    ended = subprocess.run([found, "-n"], input=printed(shell, capsys), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(("typed", "offered", "not_offered"), CASES)
def test_fish_offers(
    typed: str, offered: list[str], not_offered: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed; on Debian or Ubuntu: apt install fish")
    (place / "script").write_text(printed("fish", capsys))
    ended = subprocess.run(
        [fish, "--no-config", "-c", f"source script; complete -C 'radiator {typed}'"],
        cwd=place, env={**os.environ, "HOME": str(place)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {line.split("\t")[0] for line in ended.stdout.splitlines()}
    assert found >= set(offered) and not found & set(not_offered), ended.stdout


_ZSH_STUBS = """
compdef() { }
compadd() { shift; print -l -- "$@" }
_files() { print -l -- *(N) }
_describe() { print -l -- "${(@)${(@P)2}%%:*}" }
"""


@pytest.mark.parametrize(("typed", "offered", "not_offered"), CASES)
def test_zsh_offers(
    typed: str, offered: list[str], not_offered: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As zsh calls it; what fits what is typed, zsh chooses itself."""
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed; on Debian or Ubuntu: apt install zsh")
    words = ["radiator", *typed.split(" ")]
    listed = " ".join(f"'{word}'" for word in words)
    ask = f"words=({listed}); CURRENT={len(words)}; _radiator"
    ended = subprocess.run(
        [zsh, "-f", "-c", f"{_ZSH_STUBS}\n{printed('zsh', capsys)}\n{ask}"],
        cwd=place, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stderr == ""
    found = {word for word in ended.stdout.split() if word.startswith(words[-1])}
    assert found >= set(offered) and not found & set(not_offered), ended.stdout
