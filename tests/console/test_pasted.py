"""What a dialog shows to be pasted does what the dialog does, whatever names and bodies are made of, in bash and in sh.

They are shown to operators, and who names things or sends messages may mean harm: what breaks out of its quotes is
carried out in the operator's name.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.broker_process import BrokerProcess, environment
from tests.console.by_hand import ask
from tests.console.page import Page, a_broker

SHELLS = ["sh", "bash"]
WORDS = [
    "", "-", "-x", "--help", "~", "~root", "=ls", "a b", "it's", 'a"b', "$(id)", "`id`", "${x}", "$'x'", "!!", "a!b",
    "a\\", "\\n", "%s%n%%", "@/etc/passwd", "{a,b}", "[1-3]", "a&b;c|d>e", "a?b#c", "*", "a\nb", "a\n", "\n\n", "\t",
    "\n';touch broken;'", "\n\\';touch broken;\\'", "\r", "\x1b[2J", "\x7f\x85", "\x0141", "\u202ea'b", "\u200b\n",
    "é日😀\x01", "__proto__", "n" * 3000,
]  # fmt: skip
NAMES = [
    "-x",
    "--help",
    "queue",
    "queue x",
    "log",
    "..",
    ".",
    "%0a",
    "it's",
    "$(id)",
    "a\\",
    "!!",
    "\u202ea b",
    "__proto__",
]
BODIES = ["", "-x", "--help", "@/etc/passwd", "\n';touch broken;'\t", "two\nlines\n", "\u202e\x7f'", "a\\"]

QUOTED = """
const [words, done] = arguments;
const [, digest] = /console\\/([^/]+)\\//.exec(document.querySelector("script[type=module]").src);
import(`/console/${digest}/format.js`).then(({ quoted }) => done(words.map(quoted)), (error) => done(String(error)));
"""
LINES = """
const [act, all, done] = arguments;
const [, digest] = /console\\/([^/]+)\\//.exec(document.querySelector("script[type=module]").src);
const own = (name) => import(`/console/${digest}/${name}`);
Promise.all([own("pages/queue-acts.js"), own("actions.js")]).then(([acts, { commandLine, curlLine }]) =>
  all.map(([given, values]) => {
    const { cli, call } = acts[act](...given, () => {}).make(values);
    return [commandLine(cli), curlLine(call)];
  })).then(done, (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    with a_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def page(tab: Page, broker: tuple[BrokerProcess, str]) -> Page:
    tab.url = broker[1]
    tab.open()
    tab.sees("Overview")
    return tab


def run(shell: str, line: str, broker: BrokerProcess, directory: Path) -> subprocess.CompletedProcess[bytes]:
    """As an operator does who has `radiator` in his path. It must succeed, and make no file."""
    command = f'radiator() {{ "{sys.executable}" -m radiator "$@"; }}\n{line}'
    variables = {**environment(), "RADIATOR_BROKER": broker.address, "HOME": os.fspath(broker.directory)}
    done = subprocess.run([shell, "-c", command], env=variables, cwd=directory, capture_output=True, timeout=60)
    assert done.returncode == 0, (shell, line, done.stderr)
    assert list(directory.iterdir()) == [], (shell, line)
    return done


@pytest.mark.parametrize("shell", SHELLS)
def test_a_word_comes_out_of_the_shell_as_it_was(
    page: Page, broker: tuple[BrokerProcess, str], shell: str, tmp_path: Path
) -> None:
    quoted = page.driver.execute_async_script(QUOTED, WORDS)
    printed = run(shell, f"printf '%s\\0' {' '.join(quoted)}", broker[0], tmp_path).stdout
    assert printed.decode().split("\0")[:-1] == WORDS
    shown = "".join(quoted).replace("\n", "")
    assert not [one for one in shown if not one.isprintable()]  # what is read off does the same as what is copied


def lines(page: Page, act: str, all_of: list[list[Any]]) -> list[list[str]]:
    found = page.driver.execute_async_script(LINES, act, all_of)
    assert isinstance(found, list), found
    return found


def test_a_queue_of_any_name_is_purged_by_what_is_shown(
    page: Page, broker: tuple[BrokerProcess, str], tmp_path: Path
) -> None:
    url = broker[1]
    for name, shown in zip(NAMES, lines(page, "purge", [[[one], {}] for one in NAMES]), strict=True):
        path = f"/v1/queues/{quote(name, safe='')}"
        for line in shown:
            assert ask(url, "PUT", path, {})["ok"], name
            assert ask(url, "POST", f"{path}/messages", {"messages": [{"body": "x"}]})["ids"]
            run("sh", line, broker[0], tmp_path)
            assert ask(url, "GET", path)["messages"] == 0, line


def test_a_message_of_any_body_is_sent_by_what_is_shown(
    page: Page, broker: tuple[BrokerProcess, str], tmp_path: Path
) -> None:
    url = broker[1]
    given = [[["bodies"], {"body": one, "type": "text/plain", "headers": "__proto__: it's"}] for one in BODIES]
    for body, shown in zip(BODIES, lines(page, "publish", given), strict=True):
        for line in shown:
            assert ask(url, "PUT", "/v1/queues/bodies", {})["ok"]
            run("sh", line, broker[0], tmp_path)
            (message,) = ask(url, "GET", "/v1/queues/bodies/peek")["messages"]
            assert (message["body"], ["__proto__", "it's"] in message["headers"]) == (body, True), line
            ask(url, "POST", "/v1/queues/bodies/purge", {})


def test_where_prototypes_have_members_there_is_no_page(page: Page) -> None:
    for place in ("#/constructor", "#/__proto__"):
        page.go(place)
        page.sees("There is no such page")
    page.go("#/broker?tab=constructor")
    page.sees("What happens there")
    page.is_well()


def test_what_a_browser_cannot_ask_for_is_not_asked_for_elsewhere(
    page: Page, broker: tuple[BrokerProcess, str]
) -> None:
    assert ask(broker[1], "PUT", "/v1/queues/..", {})["ok"]
    page.go("#/queues/..")
    page.sees("A browser cannot request anything with the name . or ..")
    page.go("#/logs/x?group=..")
    page.sees("x is not declared")
    page.expected = 4  # the log is not there: it, and why, are asked for now and again
    page.is_well()
