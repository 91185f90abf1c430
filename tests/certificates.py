"""Certificates for tests, made by the system's openssl: a CA of one's own, and what it has signed."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

LOCALHOST = "DNS:localhost,IP:127.0.0.1"
P_256 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True)
class MadePair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


def openssl(*arguments: object) -> str:
    """What it prints. A test that needs it is skipped where it is not installed."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed; on Debian or Ubuntu: apt install openssl")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """A CA with its certificate at `certificate`, and all its files in that directory."""

    def __init__(self, directory: Path, name: str = "ca", days: int = 365) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate, self.key = directory / f"{name}.pem", directory / f"{name}.key"
        openssl(
            "req", "-x509", *P_256, "-nodes", "-days", days, "-subj", f"/CN=Trial {name}",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", self.key, "-out", self.certificate,
        )  # fmt: skip

    def pair(
        self,
        name: str,
        subject: str = "/CN=localhost",
        names: str = LOCALHOST,
        days: int = 90,
        key: tuple[str, ...] = P_256,
        serial: int | None = None,
    ) -> MadePair:
        """Signed by it. names: as openssl has subjectAltName; "": none. days: until its end; below 0: it has expired.
        serial: its number; None: by chance.
        """
        made = MadePair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request, extensions = self._directory / f"{name}.csr", self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        openssl("req", *key, "-nodes", "-utf8", "-subj", subject, "-keyout", made.key, "-out", request)
        number = ("-CAcreateserial",) if serial is None else ("-set_serial", serial)
        openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, *number,
            "-days", days, "-extfile", extensions, "-out", made.certificate,
        )  # fmt: skip
        made.key.chmod(0o600)
        return made
