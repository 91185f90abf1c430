"""Contexts: the file, which one counts, and what a command then speaks to."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.client import Address
from radiator.model.errors import ConfigError
from radiator.model.limits import CONFIG_MAX_BYTES
from radiator.tools.cli import main
from radiator.tools.cli.contexts import Context, Contexts, chosen, path_of_contexts, read_contexts, with_current
from tests.broker_process import EVERYTHING_MAY_BE_CREATED
from tests.documents.blocks import blocks_of, text_of
from tests.tls_broker import ENCRYPTED, TlsBroker

SECRET, OTHER = "correct horse", "battery staple"
NOBODY = "stomp://127.0.0.1:1"
USERS = "".join(
    f'[user.{name}]\npassword = "{made(word.encode(), bytes(16), Cost(ln=10))}"\nrole = "operator"\n'
    for name, word in (("shop", SECRET), ("ops", OTHER))
)
WHOLE = """
# mine
[context.prod]
broker = "stomps://broker.example"
user = "ops"
password_file = "ops.token"
ca = "/etc/ca.pem"
certificate = "~/ops.pem"
key = "keys/ops.key"
[context."dev-1"]
broker = "stomp+unix:/run/r.sock"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where radiator.toml is."""
    for name in ("RADIATOR_BROKER", "RADIATOR_CONTEXT", "RADIATOR_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/me")
    return tmp_path


def written(home: Path, text: str, mode: int = 0o600) -> Path:
    file = home / "radiator.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def mistakes() -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_contexts()
    return caught.value.mistakes


# ---- the file


def test_a_context_is_what_the_file_says(home: Path) -> None:
    written(home, "current = 'prod'\n" + WHOLE)
    broker = Address("broker.example", 61612, "ops", is_tls=True)
    broker.ca_file, broker.certificate, broker.key = "/etc/ca.pem", "/home/me/ops.pem", f"{home}/keys/ops.key"
    prod = Context("prod", broker, home / "ops.token")
    found = read_contexts()
    assert found.named == {"prod": prod, "dev-1": Context("dev-1", Address.unix("/run/r.sock"))}
    assert (found.current, found.path) == ("prod", home / "radiator.toml")
    assert prod.table() == {
        "broker": "stomps://broker.example:61612", "user": "ops", "password_file": f"{home}/ops.token",
        "ca": "/etc/ca.pem", "certificate": "/home/me/ops.pem", "key": f"{home}/keys/ops.key",
    }  # fmt: skip


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", given)
        assert path_of_contexts() == Path("/home/me/.config/radiator.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert path_of_contexts() == Path("/xdg/radiator.toml")


def test_without_a_file_there_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_contexts() == Contexts(home / "radiator.toml") and chosen() is None
    (home / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "file"))
    assert chosen() is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x", "is not TOML"),
        ("curent = 'a'", 'line 1: curent is nothing that this file has; did you mean "current"?'),
        ("[zzz]", "zzz is nothing that this file has; it has current and context."),
        ("current = 3", "current is 3, which is not a context; write [context"),
        ("current = ''", 'current is "", which is not a context'),
        ("current = 'a'", 'current is "a", which is not a context; write [context."prod"]'),
        ("current = 'prud'\n" + WHOLE, 'line 1: current is "prud", which is not a context; did you mean "prod"?'),
        ("current = 'x'\n" + WHOLE, 'which is not a context; there is "prod", "dev-1".'),
        ("context = 3", "context is 3; it must be tables, such as [context"),
        ("context.a = 3", "it must be tables, such as [context"),
        ("[context.a]", "context.a has no broker; name its address"),
        (WHOLE + "brokr = 'x'", 'context.dev-1.brokr is not a setting of this table; did you mean "broker"?'),
        ("[context.a]\nbroker = 3", "line 2: context.a.broker is 3; it must be an address"),
        ("[context.a]\nbroker = 'amqp://x'", "context.a.broker cannot be used: The broker's address 'amqp://x'"),
        ("[context.a]\nbroker = 'stomp://me@x'", "context.a.broker is stomp://x:61613 with a login in it; say user"),
        ("[context.'a b']\nbroker = 'stomp://x'", 'context."a b" has a name that is not 1 to 64'),
        (WHOLE + "user = 'a b'", 'context.dev-1.user is "a b"; it must be the name of a user'),
        (WHOLE + "password_file = 'x'", "context.dev-1.password_file is given without a user; name one"),
        (WHOLE + "password_file = 3\nuser = 'a'", "password_file is 3; it must be the path of a file"),
        (WHOLE + "ca = 'x'", "context.dev-1.ca is for TLS, and the broker is stomp+unix:/run/r.sock; write"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_what_would_be_right(home: Path, text: str, sentence: str) -> None:
    file = written(home, text)
    (found,) = mistakes()
    assert found.startswith(str(file)) and sentence in found


@pytest.mark.parametrize("key", ["password", "passcode", "token", "secret"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(home: Path, key: str) -> None:
    written(home, f"[context.a]\nbroker = 'stomp://x'\nuser = 'ops'\n{key} = 'hunter2'")
    (found,) = mistakes()
    assert f"line 4: context.a.{key} does not belong into this file" in found and "password_file" in found
    written(home, "[context.a]\nbroker = 'stomp://ops:hunter2@x'")
    assert "hunter2" not in found + mistakes()[0]


@pytest.mark.parametrize(("mode", "is_right"), [(0o600, True), (0o644, True), (0o664, True), (0o646, False)])
def test_whoever_may_write_it_chooses_who_gets_the_password(home: Path, mode: int, is_right: bool) -> None:
    written(home, WHOLE, mode)
    if is_right:
        assert len(read_contexts().named) == 2
    else:
        assert "can be changed by everybody on this machine: chmod 600" in mistakes()[0]


def test_a_file_that_is_none_or_too_long_or_no_text(home: Path) -> None:
    file = written(home, "#" * CONFIG_MAX_BYTES)
    assert read_contexts().named == {}
    file.write_bytes(b"#" * (CONFIG_MAX_BYTES + 1))
    assert f"has more than the {CONFIG_MAX_BYTES} bytes" in mistakes()[0]
    file.write_bytes(b"\xff")
    assert "not UTF-8 at byte 0" in mistakes()[0]
    file.write_bytes(WHOLE.encode("utf-16"))
    assert "is UTF-16; save it as UTF-8" in mistakes()[0]
    file.write_bytes(WHOLE.encode("utf-8-sig"))
    assert len(read_contexts().named) == 2
    file.unlink()
    os.mkfifo(file)
    assert "is not a regular file" in mistakes()[0]


def test_the_file_of_the_documents_is_read(home: Path) -> None:
    (block,) = [one for one in blocks_of("docs/OPERATING.md", text_of("docs/OPERATING.md")) if "[context." in one.text]
    written(home, block.text)
    assert set(read_contexts().named) == {"prod", "trial"} and chosen("prod") == chosen()


# ---- which one counts


def test_the_argument_goes_before_the_environment_and_that_before_the_current_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(home, WHOLE)
    assert chosen() is None and chosen("prod").name == "prod"  # type: ignore[union-attr]
    written(home, "current = 'prod'\n" + WHOLE)
    assert chosen().name == "prod"  # type: ignore[union-attr]
    monkeypatch.setenv("RADIATOR_CONTEXT", "dev-1")
    assert chosen().name == "dev-1" and chosen("prod").name == "prod"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["", "prud", "none"])
def test_one_that_is_not_there_is_a_sentence(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ConfigError, match=f'There is no context "{name}", since .*radiator.toml is not there: write'):
        chosen(name)
    written(home, WHOLE)
    with pytest.raises(ConfigError, match=f'has no context "{name}"; (did you mean "prod"|it has "prod", "dev-1")'):
        chosen(name)
    if name:
        monkeypatch.setenv("RADIATOR_CONTEXT", name)
        with pytest.raises(ConfigError, match=r"^\$RADIATOR_CONTEXT: .* has no context"):
            chosen()


# ---- the current one


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        (WHOLE, "prod", 'current = "prod"\n\n' + WHOLE),
        ("current='dev-1'  # now\n" + WHOLE, "prod", 'current="prod"  # now\n' + WHOLE),
        ('# a\r\n"current" = "dev-1"\r\n' + WHOLE, "prod", '# a\r\n"current" = "prod"\r\n' + WHOLE),
        ("current = 'prod'\n" + WHOLE, "", WHOLE),
        (WHOLE, "", WHOLE),
        (
            f"# \u2028 current = 'x'\ncurrent = 'dev-1'{WHOLE}",
            "prod",
            f"# \u2028 current = 'x'\ncurrent = \"prod\"{WHOLE}",
        ),
    ],
)
def test_only_the_current_one_changes(home: Path, before: str, name: str, after: str) -> None:
    (home / "radiator.toml").write_bytes(before.encode())
    assert with_current(read_contexts(), name) == after


def test_what_a_program_cannot_change_stays(home: Path) -> None:
    written(home, "current = '''\nprod'''\n" + WHOLE)
    with pytest.raises(ConfigError, match="cannot be changed by a program as it is: write current yourself"):
        with_current(read_contexts(), "dev-1")


# ---- a broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("broker"), ENCRYPTED + EVERYTHING_MAY_BE_CREATED + USERS) as running:
        yield running


@pytest.fixture
def contexts(home: Path, broker: TlsBroker) -> Path:
    for name, word in (("shop", SECRET), ("ops", OTHER)):
        (home / name).write_text(word + "\n")
        (home / name).chmod(0o600)
    where = f'broker = "{broker.tls_address}"\nca = "{broker.ca_file}"\n'
    return written(
        home,
        f'[context.shop]\n{where}user = "shop"\npassword_file = "shop"\n'
        f'[context.open]\n{where}\n[context.gone]\nbroker = "{NOBODY}"\n',
    )


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main([*words])
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err and OTHER not in printed.out + printed.err
    return status, printed.err


@pytest.mark.usefixtures("contexts")
def test_a_command_speaks_to_the_broker_of_a_context_as_its_user(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["queues", "--context", "shop"], ["--context", "shop", "queues"], ["--context=shop", "queues"]):
        assert run(capsys, *words) == (0, "")
    assert run(capsys, "send", "orders", "x", "--create", "--context", "shop") == (0, "")
    status, err = run(capsys, "queues", "--context", "open")
    assert status == 1 and "CONNECT needs the login" in err
    status, err = run(capsys, "queues", "--context", "nothing")
    assert status == 2 and 'has no context "nothing"; it has "shop", "open", "gone".' in err
    status, err = run(capsys, "--context", "shop", "password")
    assert status == 2 and "Unrecognized arguments: --context" in err
    status, err = run(capsys, "queues", "--context", "shop", "--broker", NOBODY)
    assert status == 2 and "not allowed with argument --context" in err


def test_what_is_said_goes_before_the_environment_before_the_context(
    contexts: Path, broker: TlsBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts.write_text("current = 'shop'\n" + contexts.read_text())
    assert run(capsys, "queues") == (0, "")
    monkeypatch.setenv("RADIATOR_CONTEXT", "gone")
    assert f"Cannot connect to {NOBODY}" in run(capsys, "queues")[1]
    assert run(capsys, "queues", "--context", "shop") == (0, "")
    monkeypatch.setenv("RADIATOR_CONTEXT", "shop")
    monkeypatch.setenv("RADIATOR_BROKER", NOBODY)
    assert f"Cannot connect to {NOBODY}" in run(capsys, "queues")[1]
    assert run(capsys, "queues", "--context", "shop") == (0, "")
    monkeypatch.delenv("RADIATOR_BROKER")
    # no part of a context goes with another broker
    assert "CONNECT needs the login" in run(capsys, "queues", "--broker", broker.address)[1]
    assert run(capsys, "queues", "--config", str(broker.config_file)) == (0, "")


def test_a_password_comes_from_the_argument_the_environment_and_then_the_context(
    contexts: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("queues", "--context", "shop")
    assert run(capsys, *at, "--password-file", str(home / "ops"))[0] == 1
    assert run(capsys, *at, "--user", "ops", "--password-file", str(home / "ops")) == (0, "")
    monkeypatch.setenv("RADIATOR_PASSWORD", "wrong")
    assert run(capsys, *at)[0] == 1
    assert run(capsys, *at, "--password-file", str(home / "shop")) == (0, "")
    monkeypatch.delenv("RADIATOR_PASSWORD")
    # the password of a context is that of its user alone
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115
    assert "There is no password for the user ops" in run(capsys, *at, "--user", "ops")[1]
    (home / "shop").chmod(0o644)
    assert "everybody on this machine may read it: chmod 600" in run(capsys, *at)[1]


@pytest.mark.usefixtures("contexts")
def test_a_line_for_later_names_the_context(
    broker: TlsBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["declare", "log", "clicks", "--context", "shop"]) == 0
    with broker_reader(broker):
        pass
    capsys.readouterr()
    at = ["position", "clicks", "g", "--to", "earliest"]
    assert main([*at, "--context", "shop"]) == 0
    assert "--context shop" in capsys.readouterr().out
    monkeypatch.setenv("RADIATOR_CONTEXT", "shop")
    assert main(at) == 0
    assert "--context" not in capsys.readouterr().out


def broker_reader(broker: TlsBroker):  # type: ignore[no-untyped-def]
    from tests.acceptance.wire import Wire

    wire = Wire((broker.host, broker.port))
    wire.connect({"login": "shop", "passcode": SECRET})
    wire.subscribe("/log/clicks", headers={"group": "g"})
    wire.fence()
    return wire
