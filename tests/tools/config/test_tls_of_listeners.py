"""[tls."ADDRESS"]: what one listener has of its own."""

from pathlib import Path

import pytest

from radiator.model.errors import ConfigError
from radiator.model.reloading import NOW, RESTART, differences, merged
from radiator.model.settings import Config, TlsSettings
from radiator.tools.config import load, render
from radiator.tools.config.mistakes import dotted

LISTEN = 'server.listen = ["stomps://127.0.0.1:7", "stomps://[::1]:8", "stomp://127.0.0.1:9"]\n'
TLS = '[tls]\ncertificate = "c"\nkey = "k"\nclient_ca = "ca"\nclient_certificates = "optional"\n'
OWN = '[tls."stomps://[::1]:8"]\n'


def loaded(tmp_path: Path, text: str) -> Config:
    (tmp_path / "config.toml").write_text(text)
    return load(tmp_path / "config.toml")


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return caught.value.mistakes


def test_what_is_left_out_is_that_of_tls(tmp_path: Path) -> None:
    usual = {"certificate": tmp_path / "c", "key": tmp_path / "k", "client_ca": tmp_path / "ca"}
    config = loaded(tmp_path, LISTEN + TLS + OWN + 'certificate = "own/c"\nkey = "/own/k"\n')
    own = TlsSettings(
        certificate=tmp_path / "own/c", key=Path("/own/k"), client_ca=tmp_path / "ca", client_certificates="optional"
    )
    assert config.tls_of_listeners == {"stomps://[::1]:8": own} and config.useless == []
    assert config.tls == TlsSettings(**usual, client_certificates="optional")  # type: ignore[arg-type]
    assert loaded(tmp_path, render(config)) == config
    other = loaded(tmp_path, LISTEN + TLS + OWN + 'client_certificates = "none"\n').tls_of_listeners
    assert other == {"stomps://[::1]:8": TlsSettings(**usual, client_certificates="none")}  # type: ignore[arg-type]
    asked = TLS.replace('client_certificates = "optional"\n', "") + OWN + 'client_certificates = "required"\n'
    assert loaded(tmp_path, LISTEN + asked).useless == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TLS + '[tls."stomps://127.0.0.1:77"]', 'is not a listener; did you mean "stomps://127.0.0.1:7"?'),
        (TLS + '[tls."stomp://127.0.0.1:9"]', "is a listener without TLS; write stomps:// in both places"),
        (TLS + '[tls."stmps://127.0.0.1:7"]', 'is the table of a listener, whose address has the scheme "stmps"'),
        (TLS + "[tls.sertificate]", 'is the table of a listener, whose address is "sertificate"; write an address as'),
        (TLS + '[tls."peers://127.0.0.1:7"]', "is not a listener"),
        (TLS + OWN + '[tls."stomps://[::1]:08"]', "is there twice, as stomps://[::1]:8 too; keep one of them"),
        (TLS + OWN + 'certificate = "x"', "has a certificate of its own and no key; name both, or neither"),
        (TLS + OWN + 'key = "x"', "has a key of its own and no certificate; name both, or neither"),
        (TLS + OWN + "key = 3", "is 3; it must be the path of a file"),
        (TLS + OWN + 'peer_ca = "x"', "peer_ca is not a setting of this table"),
        (TLS + "[tls.key]", "tls.key is {}; it must be the path of a file"),
        (OWN + 'certificate = "x"\nkey = "y"', "tls has no certificate; name the file"),
        (
            TLS.replace('client_ca = "ca"\nclient_certificates = "optional"\n', "")
            + OWN
            + 'client_certificates = "required"',
            'client_certificates is "required", and there is no client_ca to judge them by',
        ),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, text: str, sentence: str) -> None:
    text = text.replace("[tls.key]", "[tls.key]").replace('key = "k"\n', "") if "[tls.key]" in text else text
    assert any(sentence in one for one in mistakes(tmp_path, LISTEN + text)), mistakes(tmp_path, LISTEN + text)


def test_a_node_may_have_its_own_too(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x" * 32)
    (tmp_path / "secret").chmod(0o600)
    node = '[node]\nname = "a"\nsecret_file = "secret"\nlisten = "peers://127.0.0.1:5"\n[peer.b]\n'
    text = LISTEN + TLS + '[tls."peers://127.0.0.1:5"]\ncertificate = "x"\nkey = "y"\n' + node
    assert set(loaded(tmp_path, text).tls_of_listeners) == {"peers://127.0.0.1:5"}


def test_a_reload_changes_it_at_once_and_takes_it_out_with_a_restart(tmp_path: Path) -> None:
    pair = 'certificate = "x"\nkey = "y"\n'
    none, own, other = (
        loaded(tmp_path, LISTEN + TLS + text) for text in ("", OWN + pair, OWN + pair.replace('"x"', '"z"'))
    )
    (found,) = differences(none, own, dotted)
    assert (found.setting, found.takes_effect) == ('tls."stomps://[::1]:8"', NOW)
    assert merged(none, own).tls_of_listeners == own.tls_of_listeners
    (found,) = differences(own, other, dotted)
    assert (found.setting, found.takes_effect) == ('tls."stomps://[::1]:8".certificate', NOW)
    assert merged(own, other).tls_of_listeners == other.tls_of_listeners
    (found,) = differences(own, none, dotted)
    assert (found.setting, found.takes_effect) == ('tls."stomps://[::1]:8"', RESTART)
    assert merged(own, none).tls_of_listeners == own.tls_of_listeners
