"""`scripts/setup`, where it must not do what it is for."""

import shutil
import subprocess
from pathlib import Path

from tests.broker_process import CHECKOUT

READ = "setup.cfg", "pyproject.toml", "requirements.lock"


def test_what_a_link_leads_to_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(CHECKOUT / "scripts" / "setup", tmp_path / "scripts")
    for name in READ:
        shutil.copy(CHECKOUT / name, tmp_path)
    of_another = tmp_path / "another"
    of_another.mkdir()
    (of_another / "kept").touch()
    (tmp_path / ".venv").symlink_to(of_another)
    ran = subprocess.run([tmp_path / "scripts" / "setup"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    venv = tmp_path / ".venv"
    assert ran.stderr == (
        f"radiator: {venv} is a link to {of_another}, which would be emptied to make it anew; remove the link first\n"
    )
    assert (of_another / "kept").exists()
