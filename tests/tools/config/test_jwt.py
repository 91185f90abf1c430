"""[jwt] tables, and the users who take such tokens."""

from pathlib import Path

import pytest

from radiator.model.errors import ConfigError
from radiator.model.reloading import NOW, RELOAD, differences, merged
from radiator.model.settings import Config, JwtSettings
from radiator.tools.config import load, render
from radiator.tools.config.jwt import JWT
from radiator.tools.config.mistakes import dotted

TABLE = """\
[jwt]
keys = "keys.json"
algorithms = ["ES256", "EdDSA"]
issuer = "https://login.example"
audience = "radiator"
"""
SHOP = "[user.shop]\njwt = true\nrole = 'viewer'\n"


def loaded(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return load(path)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return caught.value.mistakes


def test_a_table_is_read_and_written_again(tmp_path: Path) -> None:
    config = loaded(tmp_path, TABLE + 'user_claim = "email"\n' + SHOP)
    assert config.jwt == JwtSettings(
        keys=tmp_path / "keys.json",
        algorithms=("ES256", "EdDSA"),
        issuer="https://login.example",
        audience="radiator",
        user_claim="email",
    )
    assert config.users["shop"].jwt and config.useless == []
    assert loaded(tmp_path, render(config)) == config
    assert loaded(tmp_path, TABLE + SHOP).jwt.user_claim == "sub"  # type: ignore[union-attr]
    assert loaded(tmp_path, "").jwt is None


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('keys = "keys.json"', "", "jwt has no keys; name the file"),
        ('algorithms = ["ES256", "EdDSA"]', "", "jwt has no algorithms; name those"),
        ('issuer = "https://login.example"', "", "jwt has no issuer; name whose"),
        ('audience = "radiator"', "", "jwt has no audience; name for whom"),
        ('"keys.json"', '"keys.json"\nkeyz = 1', 'jwt.keyz is not a setting of this table; did you mean "keys"?'),
        ('"keys.json"', "3", "jwt.keys is 3; it must be the path of a file"),
        ('["ES256", "EdDSA"]', '"ES256"', 'jwt.algorithms is "ES256"; it must be a list'),
        ('["ES256", "EdDSA"]', "[]", "jwt.algorithms is []; it must be a list"),
        ('["ES256", "EdDSA"]', '["none"]', 'jwt.algorithms has "none"; it must be one of "ES256"'),
        ('["ES256", "EdDSA"]', '["ES256", "none"]', 'jwt.algorithms has "none"'),
        ('["ES256", "EdDSA"]', '["es256"]', 'jwt.algorithms has "es256"'),
        ('["ES256", "EdDSA"]', '["ES256", "ES256"]', 'jwt.algorithms has "ES256" twice'),
        ('["ES256", "EdDSA"]', '["ES256", "HS256"]', "a shared secret (HS...) and some with public keys; keep one"),
        ('["ES256", "EdDSA"]', '["HS256", "RS256"]', "a shared secret (HS...) and some with public keys; keep one"),
        ('"radiator"', '""', 'jwt.audience is ""; it must be the audience (aud) as tokens have it'),
        ('"radiator"', '["radiator"]', 'jwt.audience is ["radiator"]'),
        ('"https://login.example"', "3", "jwt.issuer is 3; it must be the issuer (iss)"),
        ('audience = "radiator"', 'audience = "radiator"\nuser_claim = 3', "jwt.user_claim is 3; it must be the name"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in TABLE
    (found,) = mistakes(tmp_path, TABLE.replace(old, new) + SHOP)
    assert sentence in found


def test_a_claim_as_long_as_may_be_and_one_longer(tmp_path: Path) -> None:
    assert loaded(tmp_path, TABLE.replace("radiator", "x" * 1024)).jwt is not None
    assert "jwt.audience is" in mistakes(tmp_path, TABLE.replace("radiator", "x" * 1025))[0]


def test_no_user_takes_tokens_that_nobody_verifies(tmp_path: Path) -> None:
    right = "add [jwt] with keys, algorithms, issuer and audience to config.toml, or remove it."
    (found,) = mistakes(tmp_path, SHOP)
    assert found == f"{tmp_path}/config.toml, line 2: user.shop.jwt is true, and there is no [jwt]; {right}"
    users = tmp_path / "users.toml"
    users.write_text(SHOP)
    users.chmod(0o600)
    named = 'server.users_file = "users.toml"\n'
    assert mistakes(tmp_path, named) == [found.replace("config.toml, line", "users.toml, line")]
    assert loaded(tmp_path, named + TABLE).users["shop"].jwt


def test_keys_that_no_user_needs_are_told(tmp_path: Path) -> None:
    (sentence,) = loaded(tmp_path, TABLE + "[user.shop]\ncertificate = 'CN=a'\nrole = 'viewer'\n").useless
    assert sentence.endswith("jwt has no effect: no user takes such a token; set jwt = true for those who do.")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[user.shop]\njwt = false\n", "user.shop can never log in; give it one of"),
        ("[user.shop]\njwt = 1\n", "user.shop.jwt is 1; it must be true or false"),
        ("[user.anonymous]\njwt = true\n", "user.anonymous.jwt is given, but anonymous is whoever gives no login"),
    ],
)
def test_a_user_says_it_plainly(tmp_path: Path, text: str, sentence: str) -> None:
    (found,) = mistakes(tmp_path, TABLE + text)
    assert sentence in found


def test_all_of_it_takes_effect_with_a_reload(tmp_path: Path) -> None:
    assert set(RELOAD["jwt"]) == set(JWT) and set(RELOAD["jwt"].values()) == {NOW}
    old, new = loaded(tmp_path, TABLE + SHOP), loaded(tmp_path, TABLE.replace('"radiator"', '"other"') + SHOP)
    (found,) = differences(old, new, dotted)
    assert (found.setting, found.old, found.new, found.takes_effect) == ("jwt.audience", "radiator", "other", NOW)
    assert merged(old, new).jwt == new.jwt
    none = loaded(tmp_path, "[user.shop]\ncertificate = 'CN=a'\n")
    assert merged(old, none).jwt is None and merged(none, old).jwt == old.jwt
    assert ("jwt", NOW) in [(one.setting, one.takes_effect) for one in differences(none, old, dotted)]
