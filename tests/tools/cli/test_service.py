"""`radiator install-service`, into a directory that stands for the whole system."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from radiator.tools.cli import main
from radiator.tools.cli.service import FILES
from tests.broker_process import CHECKOUT, environment

PROGRAM = "/opt/radiator/bin/radiator"
CONFIG = "etc/radiator/config.toml"
UNIT = "etc/systemd/system/radiator.service"


def install(root: Path, *options: str) -> int:
    return main(["install-service", "--root", str(root), "--program", PROGRAM, *options])


def tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_everything_is_put_into_its_place_and_once_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(tmp_path) == 0
    printed = capsys.readouterr().out
    made = tree(tmp_path)
    assert set(made) == {str(path.relative_to("/")) for path in FILES} | {CONFIG}
    for name in made:
        assert f"{tmp_path / name}: made\n" in printed
    assert made[CONFIG] == (CHECKOUT / "radiator/deploy/config.toml").read_text()
    assert install(tmp_path) == 0
    assert tree(tmp_path) == made
    printed = capsys.readouterr().out
    assert "made" not in printed and printed.count("is as it should be") == len(FILES)


def test_units_run_the_program_that_is_installed(tmp_path: Path) -> None:
    assert main(["install-service", "--root", str(tmp_path), "--program", f"{tmp_path}/srv/radiator/bin/radiator"]) == 0
    units = "".join(text for name, text in tree(tmp_path).items() if name.endswith(".service"))
    assert units.count("/srv/radiator/bin/radiator ") == 2, "as it is called in there"
    assert str(tmp_path) not in units and PROGRAM not in units


def test_it_says_where_the_dashboard_and_the_alert_rules_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install(tmp_path) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("To watch it: ")]
    words = line.split()
    assert "/etc/radiator/alerts.yml" in words and (tmp_path / "etc/radiator/alerts.yml").is_file()
    (dashboard,) = [Path(word) for word in words if word.endswith("/dashboard.json")]
    assert json.loads(dashboard.read_text())["uid"] == "radiator"


def test_dry_run_says_all_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(tmp_path, "--dry-run") == 0
    assert capsys.readouterr().out.count(": would be made\n") == len(FILES) + 1
    assert tree(tmp_path) == {}


def test_a_changed_file_stays_and_the_new_one_is_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path)
    made = tree(tmp_path)
    for name in (UNIT, CONFIG):
        (tmp_path / name).write_text("mine\n" + made[name])
    capsys.readouterr()
    assert install(tmp_path) == 0
    printed = capsys.readouterr().out
    assert tree(tmp_path) == made | {
        UNIT: "mine\n" + made[UNIT], CONFIG: "mine\n" + made[CONFIG], f"{UNIT}.new": made[UNIT]
    }  # fmt: skip
    assert f"{tmp_path / UNIT}: was changed here, and stays" in printed
    assert f"{tmp_path / CONFIG}: is there, and stays" in printed


def test_what_another_version_made_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["install-service", "--root", str(tmp_path), "--program", "/opt/before/bin/radiator"])
    assert install(tmp_path) == 0
    assert f"{tmp_path / UNIT}: replaced: another version had made it" in capsys.readouterr().out
    assert PROGRAM in tree(tmp_path)[UNIT]


def test_uninstall_undoes_it_and_deletes_neither_data_nor_what_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path)
    data = tmp_path / "var/lib/radiator/data.mdb"
    data.parent.mkdir(parents=True)
    data.write_text("data")
    changed = "etc/radiator/alerts.yml"
    (tmp_path / changed).write_bytes(b"# caf\xe9\ngroups: []\n")
    before = tree(tmp_path)
    uninstall = ["uninstall-service", "--root", str(tmp_path)]
    assert main([*uninstall, "--dry-run"]) == 0 and tree(tmp_path) == before
    assert main(uninstall) == 0
    assert set(tree(tmp_path)) == {CONFIG, changed, "var/lib/radiator/data.mdb"}
    assert f"{tmp_path / changed}: was changed here, and stays" in capsys.readouterr().out
    assert main(uninstall) == 0


def test_units_run_nothing_that_a_minimal_system_lacks(tmp_path: Path) -> None:
    install(tmp_path)
    units = "".join(text for name, text in tree(tmp_path).items() if name.endswith(".service"))
    run = [line.partition("=")[2].split()[0] for line in units.splitlines() if line.startswith("Exec")]
    assert len(run) == 3 and set(run) == {PROGRAM, "/bin/sh"}, "/bin/kill is of procps"


@pytest.mark.parametrize("hidden", ["/home/me/radiator/.venv/bin/radiator", "/root/.venv/bin/radiator"])
def test_program_that_the_service_could_not_see_is_refused(
    tmp_path: Path, hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install-service", "--root", str(tmp_path), "--program", hidden]) == 1
    assert "which the service may not see (ProtectHome=yes)" in capsys.readouterr().err
    assert tree(tmp_path) == {}


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for command in ("install-service", "uninstall-service"):
        assert main([command]) == 1
        assert "run it as root, or with --dry-run" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(
    int(metadata.version("setuptools").partition(".")[0]) < 77,
    reason="setuptools here is older than pyproject.toml wants: scripts/setup brings the locked one",
)
def test_the_wheel_holds_it_all_and_installs_from_itself(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("radiator", "pyspark_radiator", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(CHECKOUT / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = ["wheel", "-qq", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    subprocess.run([*pip, *build, str(source)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("radiator_broker-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("radiator/deploy/")}
    assert held == {f"radiator/deploy/{path.name}" for path in (CHECKOUT / "radiator/deploy").iterdir()}

    fresh = tmp_path / "opt"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True, timeout=60)
    into = [*pip, "--python", str(fresh / "bin/python")]
    # With this checkout in PYTHONPATH, as Spark's tests set it, pip would say that it is installed already.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*into, "install", "-qq", "--no-deps", "--no-index", wheel], check=True, env=alone)
    # what it needs comes from here: there is no index to ask
    given = {**environment(), "PYTHONPATH": sysconfig.get_path("purelib")}
    root = tmp_path / "root"
    done = subprocess.run(
        [fresh / "bin/radiator", "install-service", "--root", root],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"ExecStart={fresh}/bin/radiator serve" in tree(root)[UNIT]
