"""scripts/radiator.service, as systemd itself reads it, and against the program's own exit statuses."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from radiator.errors import EXIT_BUG, EXIT_DISK_FAILED, EXIT_USAGE
from radiator.limits import STOP_MAX_S

UNIT = Path(__file__).resolve().parent.parent.parent / "scripts/radiator.service"


def service() -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text())
    return unit["Service"]


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed; on Debian or Ubuntu: apt install systemd")
    # the program is not installed where the unit has it, and the user need not exist here
    text = UNIT.read_text().replace("/opt/radiator/bin/radiator", sys.executable)
    (tmp_path / "radiator.service").write_text(text.replace("User=radiator", "").replace("Group=radiator", ""))
    done = subprocess.run(
        [verify, "verify", "--man=no", str(tmp_path / "radiator.service")], capture_output=True, text=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if "radiator.service" in line]
    assert (done.returncode, said) == (0, [])


def test_the_unit_restarts_a_crash_but_no_wrong_configuration_and_no_failed_disk() -> None:
    unit = service()
    assert unit["Restart"] == "on-failure"
    never = {int(status) for status in unit["RestartPreventExitStatus"].split()}
    assert never == {EXIT_USAGE, EXIT_DISK_FAILED}
    assert EXIT_BUG not in never


def test_the_unit_gives_the_broker_time_to_stop() -> None:
    assert int(service()["TimeoutStopSec"]) > STOP_MAX_S


def test_the_unit_keeps_the_data_private() -> None:
    unit = service()
    assert (unit["StateDirectoryMode"], unit["UMask"]) == ("0700", "0077")
