"""`radiator install-service` and `uninstall-service`: install and remove the files for systemd.

A file that somebody has changed is never overwritten or removed: its last line has the checksum of the others.
"""

import argparse
import hashlib
import os
import pwd
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.tools.cli.command import Command
from radiator.tools.cli.text import printable

_DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = Path("/etc/systemd/system")
CONFIG = Path("/etc/radiator/config.toml")
SYSUSERS = Path("/etc/sysusers.d/radiator.conf")
FILES = {
    UNITS / "radiator.service": "radiator.service",
    UNITS / "radiator-backup.service": "radiator-backup.service",
    UNITS / "radiator-backup.timer": "radiator-backup.timer",
    SYSUSERS: "radiator.sysusers",
    CONFIG.parent / "alerts.yml": "alerts.yml",
}
_DASHBOARD = _DEPLOY / "dashboard.json"
_USER = "radiator"
_PROGRAM = "/opt/radiator/bin/radiator"  # as the units of the package have it
_RUNS = Path("/run/systemd/system")  # as sd_booted(3) looks
_HIDDEN = ("/home", "/root", "/run/user")  # from services with ProtectHome=yes
_MARK = "# as installed: "


def _packaged(name: str) -> str:
    return (_DEPLOY / name).read_text(encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")  # somebody else's may be anything


def _marked(text: str) -> str:
    return f"{text}{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def _is_unchanged(text: str) -> bool:
    """Whether a file is as this or another version has put it there."""
    body, mark, _ = text.rpartition(_MARK)
    return bool(mark) and _marked(body) == text


@dataclass(frozen=True, slots=True)
class _Place:
    """The place where things are installed. root: what is / there. is_dry: nothing is done."""

    root: Path
    is_dry: bool

    def of(self, path: Path) -> Path:
        return self.root / path.relative_to("/")

    def within(self, path: Path) -> Path:
        """Returns the path as the system that is installed into has it."""
        return Path("/") / path.relative_to(self.root) if path.is_relative_to(self.root) else path

    def say(self, what: object, done: str) -> None:
        print(f"{printable(str(what))}: {'would be ' if self.is_dry else ''}{done}")

    def write(self, path: Path, text: str, done: str) -> None:
        """Writes a file whole, under its name, or not at all."""
        if not self.is_dry:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            beside = path.with_name(f".{path.name}.part")
            beside.write_text(text, encoding="utf-8")
            beside.chmod(0o644)
            beside.replace(path)
        self.say(path, done)

    def remove(self, path: Path) -> None:
        if not self.is_dry:
            path.unlink()
        self.say(path, "removed")

    def run(self, *command: str) -> None:
        """Runs a command of the running system; does nothing for another root. RadiatorError where it fails."""
        if self.root != Path("/"):
            return
        if not self.is_dry:
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except FileNotFoundError:
                raise RadiatorError(
                    f"{command[0]} is not installed: this command is for machines with systemd."
                ) from None
            if done.returncode != 0:
                why = " ".join(done.stderr.split()) or f"status {done.returncode}"
                raise RadiatorError(f"`{' '.join(command)}` failed: {why}")
        self.say(f"`{' '.join(command)}`", "done")

    def systemctl(self, *words: str) -> None:
        """Runs systemctl, if systemd runs: it does not where an image is made."""
        if _RUNS.is_dir():
            self.run("systemctl", *words)


def _place(arguments: argparse.Namespace) -> _Place:
    root = arguments.root.absolute()
    if root == Path("/") and os.geteuid() != 0 and not arguments.dry_run:
        raise RadiatorError("This changes /etc: run it as root, or with --dry-run to see what it would do.")
    return _Place(root, arguments.dry_run)


def _program(arguments: argparse.Namespace, place: _Place) -> str:
    """Returns the path that the units have: within the root where this program lies there."""
    found: Path = arguments.program or Path(sysconfig.get_path("scripts")) / "radiator"
    if arguments.program is None and not found.exists():
        raise RadiatorError(f"There is no {found}: say with --program what the service is to run.")
    found = place.within(found)
    if hidden := [directory for directory in _HIDDEN if found.is_relative_to(directory)]:
        raise RadiatorError(
            f"{found} is below {hidden[0]}, which the service may not see (ProtectHome=yes): "
            "install Radiator elsewhere, such as in /opt/radiator."
        )
    return str(found)


def _install(arguments: argparse.Namespace) -> int:
    place = _place(arguments)
    program = _program(arguments, place)
    for path, name in FILES.items():
        _put(place, place.of(path), _marked(_packaged(name).replace(_PROGRAM, program)))
    config = place.of(CONFIG)
    if config.exists():
        print(f"{config}: is there, and stays")
    else:
        place.write(config, _packaged("config.toml"), "made")
    if place.root == Path("/"):
        if not _has_user():
            place.run("systemd-sysusers", str(SYSUSERS))
        place.systemctl("daemon-reload")
    print(
        f"Next: look at {CONFIG}; then `systemctl enable --now radiator`, and `systemctl enable --now "
        "radiator-backup.timer` for a backup each night."
    )
    print(
        f"To watch it: {CONFIG.parent / 'alerts.yml'} is for `rule_files` of Prometheus, and "
        f"{printable(str(place.within(_DASHBOARD)))} for Grafana: Dashboards, New, Import."
    )
    return 0


def _has_user() -> bool:
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return False
    return True


def _put(place: _Place, path: Path, text: str) -> None:
    there = _text(path) if path.exists() else None
    if there is None:
        place.write(path, text, "made")
    elif there == text:
        print(f"{path}: is as it should be")
    elif _is_unchanged(there):
        place.write(path, text, "replaced: another version had made it")
    else:
        print(f"{path}: was changed here, and stays; compare it with the .new file next to it")
        place.write(path.with_name(f"{path.name}.new"), text, "made")


def _uninstall(arguments: argparse.Namespace) -> int:
    place = _place(arguments)
    enabled = [name for name in ("radiator-backup.timer", "radiator.service") if place.of(UNITS / name).exists()]
    if enabled:
        place.systemctl("disable", "--now", *enabled)
    for path in FILES:
        for file in (place.of(path), place.of(path.with_name(f"{path.name}.new"))):
            if file.exists() and _is_unchanged(_text(file)):
                place.remove(file)
            elif file.exists():
                print(f"{file}: was changed here, and stays")
    place.systemctl("daemon-reload")
    print(
        f"The data, the backups, {CONFIG} and the user {_USER} stay. They go with: "
        f"rm -r /var/lib/radiator /var/lib/radiator-backup {CONFIG.parent}; userdel {_USER}"
    )
    return 0


def _common_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=Path,
        default=Path("/"),
        help="the root of a system that does not run, such as an image: only files are written, below DIR",
    )


def _install_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("--program", metavar="FILE", type=Path, help="what the service runs; without it this program")


INSTALL_SERVICE = Command(
    name="install-service",
    summary="make this a service of systemd",
    description=(
        "Installs the units of the broker and of a nightly backup, a configuration, alert rules for Prometheus and the "
        "user radiator, and prints each step. It starts nothing. Run again, it changes nothing; a file that somebody "
        "has changed stays, and what this version has for it is written next to it as FILE.new."
    ),
    example="radiator install-service --dry-run",
    add_arguments=_install_arguments,
    run=_install,
)

UNINSTALL_SERVICE = Command(
    name="uninstall-service",
    summary="undo install-service; data and configuration stay",
    description=(
        "Stops the broker and its backups, and removes what install-service has made, except files that somebody "
        "has changed. Data, backups, the configuration and the user stay."
    ),
    example="radiator uninstall-service",
    add_arguments=_common_arguments,
    run=_uninstall,
)
