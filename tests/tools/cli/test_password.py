"""`radiator password`, from a pipe and at a terminal."""

import os
import pty
import subprocess
import sys
import tomllib

import pytest

from radiator.auth.scrypt import parse
from tests.broker_process import environment

COMMAND = [sys.executable, "-m", "radiator", "password"]


def piped(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        COMMAND, input=text, env=environment(), capture_output=True, text=True, timeout=20, check=False
    )


def at_a_terminal(*lines: str) -> tuple[int, str]:
    """The exit status, and all that the terminal shows."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(sys.executable, COMMAND, environment())
    shown = b""
    answers = list(lines)
    while True:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            break
        if not data:
            break
        shown += data
        if answers and shown.rstrip(b" ").endswith(b":"):
            os.write(terminal, answers.pop(0).encode() + b"\n")
            shown += b"<asked>"
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()


def test_of_a_pipe_the_first_line_is_read() -> None:
    found = piped("cor:rect horse\nmore\n")
    assert found.returncode == 0 and found.stderr == "" and found.stdout.count("\n") == 1
    text = tomllib.loads(f'[user."shop"]\n{found.stdout}')["user"]["shop"]["password"]  # as `>> users.toml` has it
    assert text.startswith("$scrypt$ln=15,r=8,p=1$")
    assert parse(text).fits(b"cor:rect horse") and not parse(text).fits(b"cor:rect horse\n")
    assert piped("cor:rect horse\n").stdout != found.stdout  # another salt


@pytest.mark.parametrize("text", ["", "\n", "x" * 2000 + "\n"])
def test_what_is_no_password_is_status_2(text: str) -> None:
    found = piped(text)
    assert (found.returncode, found.stdout) == (2, "") and found.stderr.count("\n") == 1


def test_a_terminal_is_asked_twice_and_shows_nothing_of_it() -> None:
    status, shown = at_a_terminal("sesame", "sesame")
    assert status == 0 and "sesame" not in shown and shown.count("<asked>") == 2
    text = tomllib.loads(shown.split("\r\n")[-2])["password"]
    assert parse(text).fits(b"sesame")


def test_two_that_differ_make_nothing() -> None:
    status, shown = at_a_terminal("sesame", "sesam")
    assert status == 2 and "The two passwords differ" in shown and "scrypt" not in shown and "sesam" not in shown
