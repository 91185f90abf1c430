"""Every code block of README, docs and examples is run as it stands, or says why it is not.

What a block needs that its page has told before it, and what it must print, stand in NEEDS: by page and how it begins.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from radiator.model.limits import Limits
from radiator.protocols.stomp.parser import Parser
from radiator.protocols.stomp.spec import CLIENT_COMMANDS, SERVER_COMMANDS, V1_2
from radiator.tools.cli import parser
from radiator.tools.config import load
from tests.broker_process import CHECKOUT, SERVER, BrokerProcess, environment
from tests.documents.blocks import LANGUAGES, Block, all_blocks, blocks_of, exists, text_of
from tests.documents.commands import complaint

CONFIG = (
    SERVER.replace("127.0.0.1:0", '127.0.0.1:0", "http://127.0.0.1:0", "amqp://127.0.0.1:0')
    + """\
[create]
queues = true
topics = true
[log."clicks"]
partitions = 2
[log."orders"]
[journal]
enabled = true
"""
)
IMPORT = "from radiator.client import Client"
CLIENT = f"{IMPORT}; client = Client('stomp://127.0.0.1:61613'); "


@dataclass(slots=True)
class Need:
    """before: what runs ahead of it, of the same language. prints: a part of what it prints."""

    before: str = ""
    prints: str = ""


NEEDS: dict[tuple[str, str], Need] = {
    ("README.md", IMPORT): Need(prints="hello\n"),
    ("docs/AMQP.md", "import pika"): Need(prints="two coffees\n"),
    ("docs/AMQP.md", "from kombu import"): Need(prints="order.paid {'number': 17}\n"),
    ("docs/AMQP.md", "import time"): Need(prints="[('retry', 'expired', 1), ('work', 'rejected', 1)]\n"),
    ("docs/CLIENT.md", 'client.subscribe("/log/clicks"'): Need(CLIENT + "client.send('/log/clicks', 'one')", "b'one'"),
    ("docs/PARTITIONS.md", f"{IMPORT}\n\nwith"): Need(prints="ann ordered\nben ordered\nann paid\n"),
    ("docs/PARTITIONS.md", f"{IMPORT}\n\nNAME"): Need(
        prints="not ready: None\nready: ann's books\n1 to be done\ndrained: True\n"
    ),
    ("docs/CELERY.md", "app.conf."): Need("import celery; from kombu import Queue; app = celery.Celery()"),
    ("docs/CELERY.md", "Queue("): Need("from kombu import Queue"),
}

BLOCKS = all_blocks()
RUN = [block for block in BLOCKS if not block.marker]


def of(*languages: str) -> list[Block]:
    return [block for block in RUN if block.language in languages]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block}: ```{block.language} is none of {', '.join(LANGUAGES)}"
    if block.marker == "not run":
        assert len(block.why.split()) >= 3, f"{block}: a reason is a few words, not {block.why!r}"
    if block.marker == "run by":
        assert exists(block.why), f"{block}: there is no {block.why}"
        source = (CHECKOUT / block.why).read_text(encoding="utf-8")
        wanted = [block.page, *re.findall(r"examples/(\w+)\.py", block.text), *re.findall(r"-m ([\w.]+)", block.text)]
        assert any(one in source for one in wanted), f"{block}: {block.why} has nothing of it: {', '.join(wanted)}"


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "text"], ids=str)
def test_text_is_no_program_under_another_name(block: Block) -> None:
    command = re.compile(
        r"\s*(\$ |(\.venv/bin/)?(radiator|pip|python3?|celery|systemctl) |scripts/\w|(import|from) \w+)"
    )
    assert [line for line in block.text.splitlines() if command.match(line)] == []


def test_what_a_block_needs_is_of_a_block_that_there_is() -> None:
    for page, beginning in NEEDS:
        assert any(block.page == page and block.text.startswith(beginning) for block in RUN), f"{page}: {beginning}"


# ---- checked


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "toml" and one.marker != "run by"], ids=str)
def test_configuration_is_one(block: Block, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(block.text, encoding="utf-8")
    (tmp_path / "config.toml").chmod(0o600)
    for name in re.findall(r'schema *= *"([^"]+)"', block.text):
        (tmp_path / name).write_text('"bytes"')
    for name in re.findall(r'secret_file *= *"([^"]+)"', block.text):
        (tmp_path / name).write_text("c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IHNlY3JldA==\n")
        (tmp_path / name).chmod(0o600)
    load(tmp_path / "config.toml")


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_is_some(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line)


@pytest.mark.parametrize("block", of("stomp"), ids=str)
def test_frame_is_one(block: Block) -> None:
    data = block.text.encode().replace(b"\n^@\n", b"\0\n").replace(b"^@\n", b"\0\n")
    reader = Parser(Limits(), CLIENT_COMMANDS[V1_2] | SERVER_COMMANDS[V1_2])
    assert list(reader.frames(data)), "no frame is whole"
    assert reader.held_bytes == 0, "something is left behind the last frame"


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "sh"], ids=str)
def test_commands_of_a_block_are_understood(block: Block) -> None:
    """Also of one that is not run."""
    lines = re.sub(r"\\\n", " ", block.text).splitlines()
    assert [found for line in lines if (found := complaint(line, parser())) is not None] == []


# ---- run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, broker: BrokerProcess) -> Path:
    """What a reader has around: the broker's configuration and data, the examples, and the commands."""
    for name, target in (
        ("config.toml", broker.config_file),
        ("data", broker.data_dir),
        ("examples", CHECKOUT / "examples"),
    ):
        (tmp_path / name).symlink_to(target)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name, program in (("radiator", f"{sys.executable} -m radiator"), ("python", sys.executable)):
        (tmp_path / ".venv/bin" / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (tmp_path / ".venv/bin" / name).chmod(0o755)
    return tmp_path


def moved(text: str, broker: BrokerProcess, place: Path) -> str:
    """On this broker's port, and with this place instead of the reader's."""
    web = re.findall(r"http://127\.0\.0\.1:(\d+)", broker.log)
    amqp = re.findall(r"amqp://127\.0\.0\.1:(\d+)", broker.log)
    text = (
        text.replace("61613", str(broker.port))
        .replace("61680", web[0])
        .replace("127.0.0.1:5672", f"127.0.0.1:{amqp[0]}")
        .replace("/var/lib/radiator-new", str(place / "restored"))
    )
    text = text.replace("/var/lib/radiator", str(broker.data_dir)).replace("/backup/", f"{place}/")
    return text.replace("/archive", str(place / "archive"))


def run(block: Block, command: list[str], broker: BrokerProcess, place: Path) -> None:
    needs = [need for (page, begins), need in NEEDS.items() if block.page == page and block.text.startswith(begins)]
    need = needs[0] if needs else Need()
    own = environment()
    own["PATH"] = f"{place}/.venv/bin{os.pathsep}{own['PATH']}"
    own["RADIATOR_BROKER"] = broker.address  # the port where a reader's would be
    program = moved(f"{need.before}\n{block.text}", broker, place)
    done = subprocess.run([*command, program], cwd=place, env=own, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{block}:\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, f"{block}:\n{done.stderr}"
    assert need.prints in done.stdout, f"{block} printed {done.stdout!r}"


@pytest.mark.slow
@pytest.mark.parametrize("block", of("python"), ids=str)
def test_program_works_when_pasted(block: Block, broker: BrokerProcess, place: Path) -> None:
    run(block, [sys.executable, "-c"], broker, place)


@pytest.mark.slow
@pytest.mark.parametrize("block", of("sh"), ids=str)
def test_commands_work_when_pasted(block: Block, broker: BrokerProcess, place: Path) -> None:
    run(block, ["sh", "-euc"], broker, place)


# ---- the finder


def test_blocks_are_found_with_what_is_said_of_them() -> None:
    text = "a\n\n<!-- not run: it takes an hour -->\n\n```sh\nmake\n```\n\n  ```toml\n  a = 1\n  ```\n"
    one, other = blocks_of("a.md", text)
    assert (one.language, one.text, one.marker, one.why, one.line) == ("sh", "make\n", "not run", "it takes an hour", 6)
    assert (other.language, other.text.strip(), other.marker) == ("toml", "a = 1", "")
    with pytest.raises(AssertionError, match="has no end"):
        list(blocks_of("a.md", "```sh\nmake\n"))
    assert len(BLOCKS) > 60
    assert "```" in text_of("README.md")
