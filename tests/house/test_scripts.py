"""The scripts, as a stranger meets them: from any directory, with what is missing said in a sentence."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent.parent
READ = ("setup.cfg", "pyproject.toml", "requirements.lock")


def bare_checkout(tmp_path: Path) -> Path:
    """The scripts and what they read, with nothing set up, in a path with a space in it."""
    checkout = tmp_path / "a checkout"
    (checkout / "scripts").mkdir(parents=True)
    for name in ("scripts/setup", "scripts/serve", "scripts/test", *READ):
        shutil.copy(CHECKOUT / name, checkout / name)
    return checkout


def programs(tmp_path: Path, **scripts: str) -> dict[str, str]:
    """An environment whose path has the programs that the scripts need from the system, and these; no Python else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "cksum", "dirname"):
        found = shutil.which(name)
        assert found is not None, f"{name} is part of every system"
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        (folder / name.replace("_", ".")).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name.replace("_", ".")).chmod(0o755)
    # the names alone: /usr/bin/python3 is there on most machines
    return {"PATH": str(folder), "PYTHON": "python3.14 python3.13 python3.12 python3.11 python3"}


def run(script: Path, *arguments: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(script), *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("script", ["serve", "test", "setup"])
def test_a_missing_python_is_said_in_a_sentence(tmp_path: Path, script: str) -> None:
    checkout = bare_checkout(tmp_path)
    done = run(checkout / "scripts" / script, env=programs(tmp_path, python3="exit 1"), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "radiator: Python 3.11 to 3.14 is needed, and none is on the path; "
        "on Debian or Ubuntu: apt install python3 python3-venv\n"
    )


def test_a_missing_venv_module_is_said_in_a_sentence(tmp_path: Path) -> None:
    checkout = bare_checkout(tmp_path)
    python = 'case "$2" in *ensurepip*) exit 1 ;; esac'
    done = run(checkout / "scripts/serve", env=programs(tmp_path, python3_12=python), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "radiator: python3.12 is here, but its venv module is not; on Debian or Ubuntu: apt install python3-venv\n"
    )


def ready(tmp_path: Path) -> Path:
    """A checkout that is set up, with a program in place of the broker that tells its arguments."""
    checkout = bare_checkout(tmp_path)
    (checkout / ".venv/bin").mkdir(parents=True)
    for name, text in (("python", "exit 1"), ("radiator", 'printf "[%s]" "$@"')):
        (checkout / ".venv/bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (checkout / ".venv/bin" / name).chmod(0o755)
    sum_of_both = subprocess.run(
        ["cksum"],
        input=b"".join((checkout / name).read_bytes() for name in READ),
        capture_output=True,
    ).stdout.decode()
    (checkout / ".venv/stamp-serve").write_text(f"{checkout.resolve()} {sum_of_both}")
    return checkout


def test_serve_starts_at_once_where_all_is_set_up(tmp_path: Path) -> None:
    checkout = ready(tmp_path)
    env = programs(tmp_path)  # no python: a second set-up would fail
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(checkout / "scripts/serve", env=env, cwd=elsewhere)
    assert done.stdout == f"[serve][--config][{checkout}/config.toml]"
    assert done.stderr == ""


def test_serve_takes_a_configuration_of_its_own(tmp_path: Path) -> None:
    checkout = ready(tmp_path)
    env = programs(tmp_path)
    assert run(checkout / "scripts/serve", "--config", "my own.toml", env=env, cwd=tmp_path).stdout == (
        "[serve][--config][my own.toml]"
    )


@pytest.mark.parametrize("name", READ)
def test_serve_sets_up_again_when_what_it_reads_has_changed(tmp_path: Path, name: str) -> None:
    checkout = ready(tmp_path)
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    done = run(checkout / "scripts/serve", env=programs(tmp_path), cwd=tmp_path)
    assert "Python 3.11 to 3.14 is needed" in done.stderr


def test_a_setup_that_fails_is_not_taken_for_done(tmp_path: Path) -> None:
    checkout = bare_checkout(tmp_path)
    # a python whose venv gets a python whose pip fails
    python = """
case "$2" in
venv) /bin/mkdir -p "$4/bin"; /bin/cp "$0" "$4/bin/python" ;;
pip) echo "no network" >&2; exit 1 ;;
esac
"""
    env = programs(tmp_path, python3_11=python)
    for _ in range(2):
        done = run(checkout / "scripts/serve", env=env, cwd=tmp_path)
        assert done.returncode == 1
        assert "no network\nradiator: pip could not install what is needed; the lines above say why\n" in done.stderr


def test_what_is_installed_is_what_was_locked_and_nothing_else_is_fetched(tmp_path: Path) -> None:
    checkout = bare_checkout(tmp_path)
    python = f"""
case "$2" in
venv) /bin/mkdir -p "$4/bin"; /bin/cp "$0" "$4/bin/python" ;;
pip) echo "$@" >>"{tmp_path}/asked" ;;
esac
"""
    run(checkout / "scripts/setup", env=programs(tmp_path, python3_14=python), cwd=tmp_path)
    locked, package = (tmp_path / "asked").read_text().splitlines()
    assert locked.endswith(f"--require-hashes --requirement {checkout}/requirements.lock")
    assert package.endswith(f"--editable {checkout} --no-deps --no-build-isolation")


def test_an_extra_is_installed_beside_the_checkout_that_stays_in_its_place(tmp_path: Path) -> None:
    checkout = ready(tmp_path)
    (checkout / ".venv/bin/python").write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/asked"\n')
    env = programs(tmp_path)
    for _ in range(2):
        run(checkout / "scripts/setup", "celery", env=env, cwd=tmp_path)
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert asked.endswith(f"--config-settings editable_mode=compat --editable {checkout}[celery]")


def test_what_is_no_extra_is_not_set_up(tmp_path: Path) -> None:
    checkout = ready(tmp_path)
    done = run(checkout / "scripts/setup", "celry", env=programs(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "radiator: celry is nothing to set up: test, archive, avro, celery, jwt and spark are\n"


@pytest.mark.parametrize(
    "name",
    [
        "scripts/setup",
        "scripts/serve",
        "scripts/test",
        "scripts/test-fresh",
        "scripts/test-service",
        "scripts/lock",
        ".ci/run",
    ],
)
def test_a_script_may_be_run(name: str) -> None:
    assert os.access(CHECKOUT / name, os.X_OK)


def test_ci_runs_exactly_what_everybody_runs() -> None:
    lines = (CHECKOUT / ".ci/run").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ['exec "$(dirname -- "$0")/../scripts/test"']
