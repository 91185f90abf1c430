"""`--install-peers`: installs what can be compared, and says what it does.

Debian's packages come by apt, and services that apt starts are stopped and disabled: every peer is run from here. What
Debian's release lacks (a NATS that can sync before it acknowledges) is unpacked beside the checkout, not installed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.peers import INSTALLED, Nats, program

PACKAGES = {
    "beanstalkd": "beanstalkd",
    "rabbitmq-server": "rabbitmq-server",
    "redis-server": "redis-server",
    "nats-server": "nats-server",
}
NEWER_RELEASE = "trixie"  # Debian 13: NATS 2.10
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
COILMQ = ("coilmq>=1.1,<2", "sqlalchemy<2")  # its SQL store is written for SQLAlchemy 1


def install_peers() -> None:
    _by_apt([package for name, package in PACKAGES.items() if not program(name)])
    _coilmq(INSTALLED / "coilmq")
    if not Nats().missing() and not Nats().can_sync():
        _newer_nats(INSTALLED / "nats")


def requirements_of(extra: str, setup_cfg: str) -> list[str]:
    """What an extra of the package asks for."""
    import configparser

    settings = configparser.ConfigParser()
    settings.read_string(setup_cfg)
    return settings["options.extras_require"][extra].split()


def _by_apt(packages: list[str]) -> None:
    if not packages:
        return _say("Debian's packages: all there.")
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return _say(f"Needs root and apt, so not installed: apt install {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], environment)
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], environment)
    for package in packages:
        if Path("/run/systemd/system").exists():
            _run(["systemctl", "disable", "--now", package], environment)


def _coilmq(venv: Path) -> None:
    if (venv / "bin" / "coilmq").exists():
        return _say("CoilMQ: there.")
    _run([sys.executable, "-m", "venv", "--clear", str(venv)])
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *COILMQ])


def _newer_nats(place: Path) -> None:
    """The package of the next Debian from the mirror that this system uses, with lists of its own."""
    asked = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(COMPONENT)", "Created-By: Packages"],
                           capture_output=True, text=True)  # fmt: skip
    sites = [line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" main") and "security" not in line]
    if not sites or not Path(KEYRING).exists():
        return _say("No Debian mirror is known here, so NATS stays too old for its persistent rows.")
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (place / "apt" / folder).mkdir(parents=True)
    (place / "apt" / "sources.list").write_text(f"deb [signed-by={KEYRING}] {sites[0]} {NEWER_RELEASE} main\n")
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={place}/apt/sources.list", "-o", "Dir::Etc::sourceparts=-",
           "-o", f"Dir::State::lists={place}/apt/lists", "-o", f"Dir::Cache={place}/apt/cache",
           "-o", "APT::Sandbox::User=root"]  # fmt: skip
    _run([*apt, "update"])
    _run([*apt, "download", "nats-server"], cwd=place)
    for package in place.glob("nats-server_*.deb"):
        _run(["dpkg-deb", "-x", str(package), str(place)])
        package.unlink()
    shutil.rmtree(place / "apt")
    _say(f"NATS {Nats().version()} of Debian {NEWER_RELEASE} is in {place}, for this comparison alone.")


def _run(command: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    _say("$ " + " ".join(command))
    subprocess.run(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)


def _say(text: str) -> None:
    sys.stderr.write(f"install-peers: {text}\n")
