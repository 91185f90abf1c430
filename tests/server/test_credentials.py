"""The files of a configuration that are checked before they are used, and a broker that takes JSON Web Tokens."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("jwt", reason="JSON Web Tokens need PyJWT: scripts/setup test")

from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_KEYS_MAX_BYTES
from radiator.model.settings import OPTIONAL, Config, JwtSettings, TlsSettings
from radiator.server.credentials import Credentials, differences, load_credentials
from tests.acceptance.test_login import answer, login, reloaded
from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess, environment
from tests.certificates import Authority
from tests.issuer import AUDIENCE, ISSUER, TABLE, Issuer, jwks, written

ONE, OTHER = Issuer(), Issuer(kid="two")
USERS = '[user."shop"]\njwt = true\nrole = "operator"\n[user."other"]\njwt = true\n'
CONFIG = SERVER + EVERYTHING_MAY_BE_CREATED + TABLE + USERS


def config(path: Path, *algorithms: str, tls: TlsSettings | None = None) -> Config:
    jwt = JwtSettings(keys=path, algorithms=algorithms or ("ES256",), issuer=ISSUER, audience=AUDIENCE)
    return Config(data_dir=Path("/d"), jwt=jwt, tls=tls)


def refused(given: Config) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_credentials(given)
    return caught.value.mistakes


# ---- the file


def test_nothing_is_read_where_nothing_is_named() -> None:
    assert load_credentials(Config(data_dir=Path("/d"))) == Credentials()


@pytest.mark.parametrize(("mode", "is_right"), [(0o644, True), (0o600, True), (0o646, False), (0o602, False)])
def test_public_keys_may_be_read_and_not_be_changed_by_everybody(tmp_path: Path, mode: int, is_right: bool) -> None:
    keys = written(tmp_path / "keys.json", ONE)
    keys.chmod(mode)
    if is_right:
        assert load_credentials(config(keys)).jwt is not None
    else:
        right = "so others may change it; chmod 600 keys.json, or 640 for a group that may read it."
        assert refused(config(keys)) == [f"jwt.keys is {keys}, of mode {mode:04o}, {right}"]


@pytest.mark.parametrize(
    ("mode", "is_right"), [(0o400, True), (0o440, True), (0o600, True), (0o644, False), (0o660, False)]
)
def test_a_secret_is_its_owners_and_perhaps_a_groups_to_read(tmp_path: Path, mode: int, is_right: bool) -> None:
    keys = written(tmp_path / "keys.json", Issuer("HS256"))
    keys.chmod(mode)
    if is_right:
        assert load_credentials(config(keys, "HS256")).jwt is not None
    else:
        assert "so others may read or change it" in refused(config(keys, "HS256"))[0]


def test_a_file_that_is_none_empty_or_too_long(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    assert refused(config(keys)) == [
        f"jwt.keys is {keys}, which cannot be read (No such file or directory); name a JWKS, or public keys in PEM."
    ]
    assert "which is not a file" in refused(config(tmp_path))[0]
    keys.touch(0o600)
    assert f"jwt.keys is {keys}, which is neither public keys in PEM nor a JWKS" in refused(config(keys))[0]
    keys.write_bytes(jwks(ONE).ljust(JWT_KEYS_MAX_BYTES))
    assert load_credentials(config(keys)).jwt is not None
    keys.write_bytes(jwks(ONE).ljust(JWT_KEYS_MAX_BYTES + 1))
    assert f"which has more than {JWT_KEYS_MAX_BYTES} bytes" in refused(config(keys))[0]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    tls = TlsSettings(certificate=tmp_path / "c", key=tmp_path / "k")
    found = refused(config(tmp_path / "keys.json", tls=tls))
    assert len(found) == 2 and "tls.certificate" in found[0] and "jwt.keys" in found[1]


def test_other_keys_are_a_difference_that_shows_nothing_of_them(tmp_path: Path) -> None:
    old = load_credentials(config(written(tmp_path / "keys.json", ONE)))
    new = load_credentials(config(written(tmp_path / "keys.json", ONE, OTHER)))
    assert differences(old, old) == [] == differences(Credentials(), new) == differences(old, Credentials())
    (found,) = differences(old, new)
    assert found == {"setting": "jwt.keys", "old": "keys", "new": "other keys", "takes_effect": "now"}


def test_other_cas_in_a_file_of_the_same_name_are_a_difference(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path / "other", "new")
    made, ca = authority.pair("server"), tmp_path / "trusted.pem"
    right = TlsSettings(certificate=made.certificate, key=made.key, client_certificates=OPTIONAL)
    for key in ("client_ca", "peer_ca"):
        given = Config(data_dir=Path("/d"), tls=replace(right, **{key: ca}), tls_of_listeners={"stomps://a:1": right})
        ca.write_bytes(authority.certificate.read_bytes())
        old = load_credentials(given)
        assert differences(old, load_credentials(given)) == []
        assert differences(load_credentials(replace(given, tls=right)), old) == []  # the name of the file tells it
        ca.write_bytes(other.certificate.read_bytes())
        (found,) = differences(old, load_credentials(given))
        assert found["setting"] == f"tls.{key}" and found["takes_effect"] == "now"
        assert found["old"].startswith("CN=Trial ca; SHA-256") and found["new"].startswith("CN=Trial new; SHA-256")


# ---- a broker


def soon(seconds: float = 60) -> int:
    return int(time.time() + seconds)


def test_who_has_a_token_is_in_and_works_until_it_runs_out(tmp_path: Path) -> None:
    written(tmp_path / "keys.json", ONE)
    with BrokerProcess(tmp_path, CONFIG) as broker:
        for name in ("shop", None, ""):
            assert answer(broker, name, ONE.token(exp=soon()).decode()).command == "CONNECTED"
        refusals = [
            answer(broker, name, token.decode()).body
            for name, token in (
                ("other", ONE.token(exp=soon())),
                (None, ONE.token(exp=soon(-1))),
                (None, OTHER.token(exp=soon())),
                (None, ONE.token(exp=soon(), sub="nobody")),
            )
        ]
        assert len(set(refusals)) == 1, refusals
        with Wire((broker.host, broker.port)) as wire:
            end_s = soon(3)
            wire.connect(login(None, ONE.token(exp=end_s).decode()))
            wire.send("/queue/a", "x")
            error = wire.read("ERROR", timeout_s=10)
            assert error["code"] == "forbidden" and "has expired" in error["message"]
            assert end_s - 1 <= time.time() < end_s + 3
        assert "eyJ" not in broker.log and "Traceback" not in broker.log
        assert broker.stop() == 0


def test_a_reload_reads_the_keys_again_and_wrong_ones_leave_the_old_in_force(tmp_path: Path) -> None:
    keys = written(tmp_path / "keys.json", ONE)
    with BrokerProcess(tmp_path, CONFIG) as broker:
        assert answer(broker, None, ONE.token(exp=soon()).decode()).command == "CONNECTED"
        written(keys, OTHER)
        assert "jwt.keys" in reloaded(broker, CONFIG)
        assert answer(broker, None, ONE.token(exp=soon()).decode()).command == "ERROR"
        assert answer(broker, None, OTHER.token(exp=soon()).decode()).command == "CONNECTED"
        keys.write_text("{}")
        since = broker.log.count("\n")
        assert broker.process is not None
        broker.process.send_signal(1)
        assert "neither public keys" in broker.wait_for_log("reload_refused", since=since)
        assert answer(broker, None, OTHER.token(exp=soon()).decode()).command == "CONNECTED"
        written(keys, OTHER)
        assert "user.shop.jwt" in reloaded(broker, CONFIG.replace("jwt = true\nrole", 'unix = "root"\nrole'))
        assert answer(broker, None, OTHER.token(exp=soon()).decode()).command == "ERROR"
        reloaded(broker, SERVER + '[user."shop"]\nunix = "root"\n')
        assert answer(broker, None, OTHER.token(exp=soon(), sub="other").decode()).command == "ERROR"
        reloaded(broker, CONFIG)
        assert answer(broker, None, OTHER.token(exp=soon()).decode()).command == "CONNECTED"


def test_wrong_keys_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": []}))
    broker = BrokerProcess(tmp_path, CONFIG)
    assert broker.start_and_fail() == 2
    assert "neither public keys in PEM nor a JWKS" in broker.log and not (tmp_path / "data").exists()


def test_what_is_not_installed_stops_the_start_with_what_installs_it(tmp_path: Path) -> None:
    written(tmp_path / "keys.json", ONE)
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    program = "import sys; sys.modules['jwt'] = None\nfrom radiator.tools.cli import main\nsys.exit(main(sys.argv[1:]))"
    for line in (["serve", "--config", str(file)], ["config", str(file)]):
        ended = subprocess.run(
            [sys.executable, "-c", program, *line], env=environment(), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 2 and 'pip install "PyJWT[crypto]>=2.10,<3"' in ended.stderr, ended.stderr
