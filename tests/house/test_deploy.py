"""What the package brings for a service: units as systemd itself reads them, a configuration, and alert rules."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from radiator.auth import scrypt
from radiator.client import Client
from radiator.model.errors import EXIT_BUG, EXIT_DISK_FAILED, EXIT_USAGE
from radiator.model.limits import STOP_MAX_S
from radiator.storage.backup import restore
from radiator.tools.cli import main
from radiator.tools.cli.service import FILES
from radiator.tools.config import load
from tests.broker_process import CHECKOUT, SERVER, BrokerProcess, environment
from tests.certificates import Authority
from tests.storage.scribe import DELAYED, filled
from tests.tls_broker import ENCRYPTED, TlsBroker

DEPLOY = CHECKOUT / "radiator/deploy"
UNITS = sorted(path.name for path in DEPLOY.iterdir() if path.suffix in (".service", ".timer"))


def section(name: str, of: str) -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / name).read_text())
    return unit[of]


def service() -> configparser.SectionProxy:
    return section("radiator.service", "Service")


def test_every_file_has_a_place() -> None:
    assert {*FILES.values(), "config.toml", "dashboard.json"} == {path.name for path in DEPLOY.iterdir()}


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed; on Debian or Ubuntu: apt install systemd")
    for name in UNITS:
        # the program is not installed where the unit has it, and the user need not exist here
        text = (DEPLOY / name).read_text().replace("/opt/radiator/bin/radiator", sys.executable)
        (tmp_path / name).write_text(text.replace("User=radiator", "").replace("Group=radiator", ""))
    done = subprocess.run(
        [verify, "verify", "--man=no", *(tmp_path / name for name in UNITS)], capture_output=True, text=True, timeout=60
    )
    printed = [line for line in done.stderr.splitlines() if "radiator" in line]
    assert (done.returncode, printed) == (0, [])


def test_credentials_that_are_commented_out_are_understood_and_named_as_the_documents_have_them(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    text = (DEPLOY / "radiator.service").read_text()
    named = re.findall(r"^# LoadCredential=([a-z.]+):/etc/radiator/\1$", text, re.MULTILINE)
    assert named == ["server.key", "users.toml", "cluster.secret"]
    page = (CHECKOUT / "docs/OPERATING.md").read_text()
    assert all(f"\nLoadCredential={one}:/etc/radiator/{one}\n" in page for one in named)
    if verify is None:
        pytest.skip("systemd-analyze is not installed; on Debian or Ubuntu: apt install systemd")
    text = text.replace("# LoadCredential", "LoadCredential").replace("/opt/radiator/bin/radiator", sys.executable)
    (tmp_path / "radiator.service").write_text(text.replace("User=radiator", "").replace("Group=radiator", ""))
    done = subprocess.run(
        [verify, "verify", "--man=no", tmp_path / "radiator.service"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "radiator" in line]) == (0, [])


@pytest.mark.parametrize("mode", [0o400, 0o440])
def test_a_broker_takes_its_secrets_from_files_as_systemd_hands_them_over(tmp_path: Path, mode: int) -> None:
    """With an ACL for the service's user the group's bits of the mode are its mask: 0440, though no group may read."""
    there = tmp_path / "credentials"
    there.mkdir()
    authority = Authority(tmp_path / "ca")
    made = authority.pair("server")
    users = f'[user.ops]\npassword = "{scrypt.made(b"x", bytes(16), scrypt.Cost(ln=10))}"\nrole = "operator"\n'
    files = {"server.key": made.key.read_text(), "users.toml": users, "cluster.secret": "x" * 32}
    for name, text in files.items():
        (there / name).write_text(text)
        (there / name).chmod(mode)
    config = SERVER.replace('"stomp://127.0.0.1:0"]', f'"stomps://127.0.0.1:0"]\nusers_file = "{there}/users.toml"')
    config += f'[tls]\ncertificate = "{made.certificate}"\nkey = "{there}/server.key"\n'
    config += f'[node]\nname = "a"\nsecret_file = "{there}/cluster.secret"\n[peer.b]\naddress = "peer://127.0.0.1:1"\n'
    with BrokerProcess(tmp_path, config) as broker:
        assert main(["queues", "--config", str(broker.config_file)]) == 0
        assert broker.stop() == 0


def test_the_unit_restarts_a_crash_but_no_wrong_configuration_and_no_failed_disk() -> None:
    unit = service()
    assert unit["Restart"] == "on-failure"
    never = {int(status) for status in unit["RestartPreventExitStatus"].split()}
    assert never == {EXIT_USAGE, EXIT_DISK_FAILED}
    assert EXIT_BUG not in never


def test_the_unit_gives_the_broker_time_to_stop() -> None:
    assert int(service()["TimeoutStopSec"]) > STOP_MAX_S


@pytest.mark.parametrize("name", ["radiator.service", "radiator-backup.service"])
def test_the_units_keep_the_data_private(name: str) -> None:
    unit = section(name, "Service")
    assert (unit["StateDirectoryMode"], unit["UMask"]) == ("0700", "0077")
    assert (unit["User"], unit["Group"]) == ("radiator", "radiator")


def test_the_backup_that_the_timer_makes_can_be_restored(tmp_path: Path) -> None:
    """Its command line, with paths of here, as systemd hands it to the shell."""
    filled(tmp_path / "radiator")
    (tmp_path / "radiator-backup").mkdir()
    shell, script = section("radiator-backup.service", "Service")["ExecStart"].split(" -c ")
    script = script.strip("'").replace("$$", "$").replace("%%", "%")
    script = script.replace("/var/lib/", f"{tmp_path}/").replace(
        "/opt/radiator/bin/radiator", f"{sys.executable} -m radiator"
    )
    subprocess.run([shell, "-c", script], env=environment(), check=True, timeout=60)
    (made,) = (tmp_path / "radiator-backup").iterdir()
    assert re.fullmatch(r"radiator-[1-7]\.mdb", made.name)
    assert restore(made, tmp_path / "restored").messages == 128 + DELAYED


def test_the_configuration_is_right_and_so_is_each_line_that_is_commented_out(tmp_path: Path) -> None:
    text = (DEPLOY / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(text)
    config = load(tmp_path / "config.toml")
    assert config.data_dir == Path("/var/lib/radiator")
    assert "StateDirectory=radiator\n" in (DEPLOY / "radiator.service").read_text()
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# (\[|\w+ = )|[^#]", line)]
    # the second `listen` is in the place of the first
    lines.remove('listen = ["stomp://127.0.0.1:61613"]    # this machine only')
    (tmp_path / "cluster.secret").write_text("x" * 32)
    (tmp_path / "cluster.secret").chmod(0o600)
    (tmp_path / "config.toml").write_text("\n".join(lines))
    (tmp_path / "config.toml").chmod(0o640)
    whole = load(tmp_path / "config.toml")
    assert whole.plain and whole.users and whole.node is not None and whole.declarations.has_journal


ALL_SET = """
[create]
queues = true
[log."l"]
[fanout."f"]
children = ["q"]
scope = "cluster"
[node]
name = "a"
secret_file = "secret"
[peer."b"]
address = "peer://127.0.0.1:1"
"""


@pytest.mark.slow
def test_every_metric_of_the_alert_rules_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = (DEPLOY / "alerts.yml").read_text()
    wanted = {name for line in re.findall(r"expr: (.*)", rules) for name in re.findall(r"\bradiator_\w+", line)}
    (tmp_path / "secret").write_text("x" * 32)
    (tmp_path / "secret").chmod(0o600)
    with TlsBroker(tmp_path, ENCRYPTED + ALL_SET) as broker, Client(broker.address) as client:
        client.send("/fanout/f", "x")
        client.subscribe("/log/l", ack="client", headers={"group": "g"})
        assert main(["stats", "--prometheus", "--broker", broker.address]) == 0
    printed = set(re.findall(r"^(radiator_\w+)", capsys.readouterr().out, re.MULTILINE))
    assert len(wanted) > 12 and wanted <= printed, wanted - printed


def test_alert_rules_have_a_name_each_and_a_summary() -> None:
    rules = (DEPLOY / "alerts.yml").read_text().split("      - alert: ")[1:]
    assert len({rule.split()[0] for rule in rules}) == len(rules)
    for rule in rules:
        assert re.search(r"^        labels: \{severity: (critical|warning)\}$", rule, re.MULTILINE), rule
        assert re.search(r'^        annotations: \{summary: "[^"]+"\}$', rule, re.MULTILINE), rule
