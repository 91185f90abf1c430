"""[user] tables, and a file of their own: what is taken, what is refused, and what is never shown."""

import json
import os
import pwd
from pathlib import Path

import pytest

from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of
from radiator.model.errors import ConfigError
from radiator.model.limits import CONFIG_MAX_BYTES, GIB, TOKENS_MAX
from radiator.model.reloading import differences, merged
from radiator.model.rights import Rules
from radiator.model.settings import Config
from radiator.model.users import BOUNDS, Token, User, UserBounds
from radiator.tools.config import load, render, reread
from radiator.tools.config.mistakes import dotted
from radiator.tools.config.values import LIST_MISTAKES_MAX

PASSWORD = str(made(b"x", bytes(16), Cost(ln=10)))
SHA256 = sha256_of(b"x")
ME = pwd.getpwuid(os.getuid()).pw_name


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def loaded(tmp_path: Path, text: str, mode: int = 0o600) -> Config:
    return load(written(tmp_path / "config.toml", text, mode))


def mistakes(tmp_path: Path, text: str, mode: int = 0o600) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, mode)
    for secret in (PASSWORD, SHA256):
        assert secret not in str(caught.value)
    return caught.value.mistakes


def test_a_user_has_what_its_table_says(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        f"""
        [user."shop.eu"]
        password = "{PASSWORD}"
        tokens = [
            {{ sha256 = "{SHA256}" }},
            {{ sha256 = "{"0" * 64}", until = 1970-01-02 }},
            {{ sha256 = "{"1" * 64}", until = 1970-01-01T01:00:00+01:00 }},
        ]
        certificate = "CN=shop,O=Example"
        unix = "{ME}"
        role = "viewer"
        read = ["/queue/a.#"]
        write = []
        max_connections = 3
        max_stored_bytes = "1GiB"
        [user.anonymous]
        """,
    )
    tokens = (Token(SHA256), Token("0" * 64, 86_400_000), Token("1" * 64, 0))
    assert config.users == {
        "shop.eu": User(
            name="shop.eu",
            password=PASSWORD,
            tokens=tokens,
            certificate="CN=shop,O=Example",
            unix=ME,
            uid=os.getuid(),
            rules=Rules(read=("/queue/a.#",), role="viewer"),
            bounds=UserBounds(max_connections=3, max_stored_bytes=GIB),
        ),
        "anonymous": User(name="anonymous"),
    }


A = f'[user.a]\npassword = "{PASSWORD}"\n'
TOKEN = f'{{ sha256 = "{SHA256}" }}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("user = 3", "user is 3; it must be tables"),
        ("[user]", 'add one, such as [user."shop"]'),
        ("[user]\na = 3", "user.a is not a table"),
        ("[user.a]", "user.a can never log in; give it one of password, tokens, jwt, certificate, unix"),
        ("[user.a]\nrole = 'viewer'", "user.a can never log in"),
        (A.replace(".a", '."a b"'), "has a name that is not 1 to 64"),
        (A.replace(".a", f".{'x' * 65}"), "has a name that is not 1 to 64"),
        ("[user.a]\npassword = 'hunter2'", "user.a.password is not a PHC text of scrypt"),
        ("[user.a]\npassword = 3", "user.a.password is not text"),
        ("[user.a]\npassword = '$scrypt$ln=20,r=8,p=1$YWFhYWFhYWFhYWFhYWFhYQ$YWFhYWFhYWFhYWFhYWFhYQ'", "ln must be"),
        ("[user.a]\ntokens = []", "user.a.tokens is not a list of tokens"),
        (f"[user.a]\ntokens = ['{SHA256}']", "user.a.tokens is not a list of tokens"),
        ("[user.a]\ntokens = [{ sha256 = 'x' }]", "not 64 digits"),
        (f"[user.a]\ntokens = [{{ sha256 = '{SHA256.upper()}' }}]", "not 64 digits"),
        (f"[user.a]\ntokens = [{{ sha256 = '{SHA256}', unti = 2027-01-01 }}]", "other settings than"),
        (f"[user.a]\ntokens = [{{ sha256 = '{SHA256}', until = '2027-01-01' }}]", "without quotes"),
        (f"[user.a]\ntokens = [{{ sha256 = '{SHA256}', until = 2027-01-01T00:00:00 }}]", "a time with its zone"),
        (f"[user.a]\ntokens = [{{ sha256 = '{SHA256}', until = 1e9 }}]", "a time with its zone"),
        (f"[user.a]\ntokens = [{TOKEN}, {TOKEN}]", "one sha256 twice"),
        ("[user.a]\ncertificate = ''", "user.a.certificate is"),
        ("[user.a]\nunix = 'no-such-user-here'", "this system has no user of that name; make it"),
        (f"[user.a]\nunix = '{ME}'\n[user.b]\nunix = '{ME}'", "as is that of a; name it once"),
        ("[user.a]\ncertificate = 'CN=a'\n[user.b]\ncertificate = 'CN=a'", "as is that of a; name it once"),
        (
            f"[user.a]\ntokens = [{TOKEN}]\n[user.b]\ntokens = [{TOKEN}]",
            "b.tokens has a token that a has, too; make one",
        ),
        (A + "role = 'root'", "it must be one of"),
        (A + "read = '/queue/a'", "user.a.read is"),
        (A + "max_connections = 0", "it must be a whole number from 1 to 1000000"),
        (A + "max_connections = 1000001", "it must be a whole number from 1 to 1000000"),
        (A + "max_memory_bytes = 16383", "it must be a size from 16KiB to 64TiB"),
        (A + "max_unacked_bytes = 0", "it must be a size from 1 to 64TiB"),
        (A + "max_messages_per_s = 0.5", "it must be a whole number from 1"),
        (A + "max_queues = 5", "is not a setting"),
        (A + "pasword = 'x'", 'did you mean "password"?'),
        (f"[user.anonymous]\npassword = '{PASSWORD}'", "anonymous is whoever gives no login"),
        ("server.allow_anonymous = true", '[user."anonymous"] with read'),
        ("server.allow_anonymous = false", '[user."anonymous"] with read'),
        (A + "[server]\nlisten = ['stomp://0.0.0.0:7']", '(or plain = ["stomp://0.0.0.0:7"], where nobody'),
        (
            A + "[server]\nlisten = ['stomp://0.0.0.0:7']",
            'listen = ["stomps://0.0.0.0:7"] in its place, with certificate',
        ),
        ("[server]\nlisten = ['stomp://0.0.0.0:7']", '[user."NAME"] with password = "..." of `radiator password`'),
        ("[server]\nlisten = ['stomp://0.0.0.0:7']\nplain = ['stomp://0.0.0.0:7']", "there are no users"),
        (A + "[server]\nplain = ['stomp://0.0.0.0:7']", "server.plain has stomp://0.0.0.0:7, which is not in listen"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (found,) = mistakes(tmp_path, text)
    assert sentence in found


def test_so_many_tokens_and_one_more(tmp_path: Path) -> None:
    many = ", ".join(f'{{ sha256 = "{n:064x}" }}' for n in range(TOKENS_MAX))
    assert len(loaded(tmp_path, f"[user.a]\ntokens = [{many}]").users["a"].tokens) == TOKENS_MAX
    (found,) = mistakes(tmp_path, f"[user.a]\ntokens = [{many}, {TOKEN}]")
    assert f"a user has at most {TOKENS_MAX}" in found


def test_rules_are_judged_each_by_its_right(tmp_path: Path) -> None:
    found = mistakes(tmp_path, A + 'write = ["/queue/a", "b"]\nadmin = ["/queue/a"]\nread = ["/#"]')
    assert len(found) == 2
    assert 'user.a.write has "b", which begins with no `/`: a rule is a whole address' in found[0]
    assert 'user.a.admin has "/queue/a", which is not a rule of `admin`' in found[1]
    assert loaded(tmp_path, A + 'admin = ["/#"]').users["a"].rules.admin == ("/#",)


def test_each_wrong_rule_of_a_list_is_told_up_to_a_bound(tmp_path: Path) -> None:
    for count in (2, LIST_MISTAKES_MAX, LIST_MISTAKES_MAX + 1):
        found = mistakes(tmp_path, A + f"read = {[f'q{number}' for number in range(count)] + ['/queue/a']}")
        shown = min(count, LIST_MISTAKES_MAX)
        assert all(f'user.a.read has "q{number}", which' in found[number] for number in range(shown))
        assert found[shown:] == [one for one in found if "user.a.read has 1 more that are wrong" in one]
        assert len(found) - shown == (count > LIST_MISTAKES_MAX)


def test_each_wrong_address_of_listen_is_told(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "[server]\nlisten = ['stomp://a', 'stomp://127.0.0.1:1', 'htp://b:1']")
    assert len(found) == 2 and "stomp://a" in found[0] and '"htp"' in found[1]


# ---- who may read it


@pytest.mark.parametrize(("mode", "is_right"), [(0o600, True), (0o640, True), (0o644, False), (0o602, False)])
def test_who_may_read_a_file_with_secrets(tmp_path: Path, mode: int, is_right: bool) -> None:
    for text in (A, f"[user.a]\ntokens = [{TOKEN}]"):
        if is_right:
            loaded(tmp_path, text, mode)
        else:
            (found,) = mistakes(tmp_path, text, mode)
            assert "chmod 600 config.toml" in found
    # no secret; but whoever may write the file can make himself a user
    for text in ("[user.anonymous]\n", "[user.a]\ncertificate = 'CN=a'\n"):
        if mode & 0o002:
            assert "may read or write it" in mistakes(tmp_path, text, mode)[0]
        else:
            loaded(tmp_path, text, mode)
    loaded(tmp_path, "", mode)  # no users


# ---- a file of their own

FILE = 'server.users_file = "users.toml"\n'


def test_users_stand_in_both_files_and_each_in_one(tmp_path: Path) -> None:
    written(tmp_path / "users.toml", A)
    config = loaded(tmp_path, FILE + "[user.anonymous]\n")
    assert set(config.users) == {"a", "anonymous"} and config.users_file == tmp_path / "users.toml"
    assert loaded(tmp_path, FILE, 0o644).users == {"a": config.users["a"]}
    assert "may read or write it" in mistakes(tmp_path, FILE, 0o646)[0]
    (found,) = mistakes(tmp_path, FILE + A)
    assert "user.a is in" in found and "keep one of them" in found
    written(tmp_path / "users.toml", A + 'certificate = "CN=a"')
    (found,) = mistakes(tmp_path, FILE + '[user.b]\ncertificate = "CN=a"')
    assert "name it once" in found


def test_what_has_no_effect_in_that_file_is_told_by_its_name(tmp_path: Path) -> None:
    file = written(tmp_path / "users.toml", A)
    text = FILE + "[user.anonymous]\n"
    found = loaded(tmp_path, text).useless
    assert [one.partition(" has neither")[0] for one in found] == [
        f"{tmp_path / 'config.toml'}, line 2: user.anonymous",
        f"{file}: user.a",
    ]
    written(file, f'[user.a]\ntokens = [{TOKEN}]\nrole = "viewer"\n')
    (sentence,) = mistakes(tmp_path, FILE + f'[user.b]\ntokens = [{TOKEN}]\nrole = "viewer"\n')
    assert "has a token that" in sentence


@pytest.mark.parametrize(
    ("text", "mode", "sentence"),
    [
        (None, 0o600, "cannot be read: No such file"),
        ("", 0o600, "has no users: add one"),
        ("[user]", 0o600, "it must be tables"),
        ("[users.a]", 0o600, "users is not a table of this file"),
        (A + "[server]", 0o600, "server is not a table of this file"),
        ("x", 0o600, "is not TOML"),
        (A + "role = 'root'", 0o600, "line 3: user.a.role"),
        (A, 0o644, "chmod 600 users.toml"),
        ("#" * (CONFIG_MAX_BYTES + 1), 0o600, "may have at most"),
    ],
)
def test_a_wrong_file_stops_the_start(tmp_path: Path, text: str | None, mode: int, sentence: str) -> None:
    if text is not None:
        written(tmp_path / "users.toml", text, mode)
    (found,) = mistakes(tmp_path, FILE)
    assert sentence in found and "users.toml" in found


def test_a_file_that_is_none_or_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_bytes(b"\xff")
    (tmp_path / "users.toml").chmod(0o600)
    assert "not UTF-8 at byte 0" in mistakes(tmp_path, FILE)[0]
    (tmp_path / "users.toml").write_bytes(A.encode("utf-16"))
    assert "users.toml is UTF-16; save it as UTF-8" in mistakes(tmp_path, FILE)[0]
    (tmp_path / "users.toml").write_bytes(A.encode("utf-8-sig"))
    assert set(loaded(tmp_path, FILE).users) == {"a"}
    (tmp_path / "users.toml").unlink()
    os.mkfifo(tmp_path / "users.toml", 0o600)
    assert "not a regular file" in mistakes(tmp_path, FILE)[0]
    (tmp_path / "users.toml").unlink()
    (tmp_path / "users.toml").mkdir()
    assert "not a regular file" in mistakes(tmp_path, FILE)[0]


# ---- what is shown


def test_what_is_kept_of_a_secret_is_never_shown_and_what_is_shown_never_taken(tmp_path: Path) -> None:
    config = loaded(tmp_path, A + f'tokens = [{TOKEN}]\nrole = "viewer"\nread = ["/queue/b"]\n')
    text = render(config)
    for shown in (text, repr(config), repr(config.users)):
        assert PASSWORD not in shown and SHA256 not in shown
    assert '[user.a]\npassword = "not shown"\n' in text and 'role = "viewer"\nread = [ "/queue/b",]' in text
    assert len(mistakes(tmp_path, text)) == 2


def test_what_a_reload_would_change_is_told_without_secrets(tmp_path: Path) -> None:
    running = loaded(tmp_path, A + 'read = ["/queue/a"]\n[user.gone]\ncertificate = "CN=gone"\n')
    other = str(made(b"y", bytes(16), Cost(ln=10)))
    text = f'[user.a]\npassword = "{other}"\nrole = "viewer"\nread = ["/queue/b"]\n[user.new]\ntokens = [{TOKEN}]\n'
    written(tmp_path / "config.toml", text)
    found = reread(tmp_path / "config.toml", lambda address: "", running)
    changes = {one["setting"]: (one["old"], one["new"], one["takes_effect"]) for one in found.changes}
    assert changes == {
        "user.a.password": ("a secret", "another secret", "now"),
        "user.a.role": (None, "viewer", "now"),
        "user.a.read": (["/queue/a"], ["/queue/b"], "now"),
        "user.gone": ({"certificate": "CN=gone"}, None, "now"),
        "user.new": (None, {"tokens": "a secret"}, "now"),
    }
    assert found.config is not None and found.config.users == load(tmp_path / "config.toml").users
    assert other not in json.dumps(found.changes) and SHA256 not in json.dumps(found.changes)


@pytest.mark.parametrize("texts", [("", A), (A, "")])
def test_the_first_user_and_the_end_of_the_last_one_wait_for_a_restart(tmp_path: Path, texts: tuple[str, str]) -> None:
    running, read = (loaded(tmp_path, text) for text in texts)
    (found,) = differences(running, read, dotted)
    assert (found.setting, found.takes_effect) == ("user.a", "restart")
    assert merged(running, read).users == running.users


def test_bounds_at_their_least_are_taken_and_rendered(tmp_path: Path) -> None:
    least = {"max_destinations": 0, "max_memory_bytes": 16_384}
    given = "".join(f"{name} = {least.get(name, 1)}\n" for name in BOUNDS)
    config = loaded(tmp_path, A + given)
    assert config.users["a"].bounds == UserBounds(**{name: least.get(name, 1) for name in BOUNDS})
    shown = render(config)
    assert 'max_memory_bytes = "16KiB"' in shown and "max_destinations = 0" in shown
