"""`radiator certificates`: a CA of one's own, and certificates that it has signed, to try TLS with.

The system's `openssl` makes them. Nothing that is there is changed, so more clients can be added to a CA later.
"""

import argparse
import ipaddress
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.tools.cli.command import Command
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words

CA, SERVER = "ca", "server"
NAMES = ("localhost", "127.0.0.1", "::1")  # where none is given
DAYS = 365
OPENSSL_MAX_S = 60

_CONFIG = """\
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


def _host(text: str) -> str:
    """A name by which clients connect, or an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    if re.fullmatch(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", text) is None or len(text) > 253:
        raise argparse.ArgumentTypeError(f"{text!r} is neither the name of a host nor an IP address")
    return text


def _client(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,62}", text) is None or text in (CA, SERVER):
        right = f"1 to 63 of A-Z a-z 0-9 . _ @ -, not begin with a dot, and be none of {CA} and {SERVER}"
        raise argparse.ArgumentTypeError(f"{text!r} is no name for a client's files; it must have {right}")
    return text


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser, ArgumentWord("directory", "DIRECTORY", "where the files are, or will be", read=Path))
    parser.add_argument(
        "--name",
        metavar="HOST",
        type=_host,
        action="append",
        help=f"a name or IP address by which clients connect to the broker; may be repeated (default: "
        f"{', '.join(NAMES)})",
    )
    parser.add_argument(
        "--client",
        metavar="NAME",
        type=_client,
        action="append",
        default=[],
        help="a client's pair too; repeatable",
    )


def _run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = arguments.name or NAMES
    with tempfile.TemporaryDirectory() as beside:
        config = Path(beside, "openssl.cnf")
        config.write_text(_CONFIG.format(names=",".join(map(_alternative, names))))
        _make(directory, CA, "Radiator trial CA", config)
        _make(directory, SERVER, names[0], config)
        for client in arguments.client:
            _make(directory, client, client, config)
    where = printable(str(directory.absolute()))
    print(f'\nFor config.toml:\n\n[tls]\ncertificate = "{where}/{SERVER}.pem"\nkey = "{where}/{SERVER}.key"')
    print(f'client_ca = "{where}/{CA}.pem"\nclient_certificates = "optional"' * bool(arguments.client))
    print(f"Clients trust it by --ca {where}/{CA}.pem, or ca_file in Python. It is for a trial: whoever has")
    print(f"{CA}.key can make a certificate for any name that these clients trust.")
    return 0


def _alternative(name: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _make(directory: Path, name: str, subject: str, config: Path) -> None:
    """A key, and a certificate with it, under their names only once both are whole. What is there stays."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    there = [one for one in (certificate, key) if one.exists()]
    if len(there) == 1:
        raise RadiatorError(f"{there[0]} is there without the other half of its pair. Remove it, or name a directory.")
    if there:
        print(f"{certificate} and {key.name} are there, and stay")
        return
    signed = ["-CA", str(directory / f"{CA}.pem"), "-CAkey", str(directory / f"{CA}.key")] if name != CA else []
    kind = name if name in (CA, SERVER) else "client"
    new = [config.with_name(f"{name}.pem"), config.with_name(f"{name}.key")]
    _openssl(
        "req", "-x509", *signed, "-config", str(config), "-extensions", kind, "-subj", f"/CN={subject}", "-days",
        str(DAYS), "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(new[1]),
        "-out", str(new[0]),
    )  # fmt: skip
    os.chmod(new[1], 0o600)
    for made, wanted in zip(reversed(new), (key, certificate), strict=True):
        shutil.move(made, wanted)
    print(f"{certificate} and {key.name} were made: {subject}, for {DAYS} days")


def _openssl(*arguments: str) -> None:
    """Raises RadiatorError."""
    program = shutil.which("openssl")
    if program is None:
        raise RadiatorError("openssl is not installed, which makes them; on Debian or Ubuntu: apt install openssl.")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=OPENSSL_MAX_S)
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise RadiatorError(f"openssl has failed: {printable(why[0])}.")


CERTIFICATES = Command(
    name="certificates",
    summary="make a CA and certificates to try TLS with",
    description=(
        "Makes a CA of your own in DIRECTORY, and a certificate with its key for the broker, for a year, and prints "
        "the lines for config.toml. With --client, pairs for clients too, which may be added later. What is there "
        "stays as it is. The system's openssl (3.0 or later) is needed."
    ),
    example="radiator certificates /etc/radiator/tls --name broker.example --client ops",
    add_arguments=_arguments,
    run=_run,
)
