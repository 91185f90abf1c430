"""`radiator certificates`: a CA of one's own, and certificates that it has signed, to try TLS with.

The system's `openssl` makes them. Nothing that exists is changed, so more clients can be added to a CA later; only
`--renew` puts new pairs in the place of old ones.
"""

import argparse
import fcntl
import ipaddress
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.server.certificate import Certificate, day_text, read_certificate
from radiator.tools.cli.command import Command
from radiator.tools.cli.text import printable
from radiator.tools.cli.things import ArgumentWord, add_words

CA, SERVER = "ca", "server"
NAMES = ("localhost", "127.0.0.1", "::1")  # where none is given
CA_DAYS, PAIR_DAYS = 3650, 365
OPENSSL_MAX_S = 60
COMMON_NAME_MAX = 64  # RFC 5280, appendix A.1: ub-common-name
_BESIDE = ".new-"  # there new files are made, within one file system, before they are renamed
_CONFIG_FILE = "openssl.cnf"

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
    """Reads a name by which clients connect, or an IP address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        pass
    else:
        if getattr(address, "scope_id", None) is not None:
            raise argparse.ArgumentTypeError(f"{text!r} has a zone, which no certificate can have: leave the % out")
        return str(address)
    if re.fullmatch(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", text) is None or len(text) > 253:
        raise argparse.ArgumentTypeError(f"{text!r} is neither the name of a host nor an IP address")
    return text


def _client(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,62}", text) is None or text in (CA, SERVER):
        right = f"1 to 63 of A-Z a-z 0-9 . _ @ -, not begin with a dot, and be none of {CA} and {SERVER}"
        raise argparse.ArgumentTypeError(f"{text!r} is not a name for a client's files; it must have {right}")
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
    parser.add_argument(
        "--renew",
        action="store_true",
        help="renew the broker's pair, and those of --client, by the CA that is there, for the same names",
    )


def _run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    is_renewal: bool = arguments.renew
    pairs = [SERVER, *dict.fromkeys(arguments.client)]
    if is_renewal:
        for name in (CA, *pairs):
            _check_is_there(directory, name)
    names = arguments.name or (_names_of(directory / f"{SERVER}.pem") if is_renewal else NAMES)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone_in(directory), tempfile.TemporaryDirectory(prefix=_BESIDE, dir=directory) as beside:
        config = Path(beside, _CONFIG_FILE)
        config.write_text(_CONFIG.format(names=",".join(map(_alternative, names))))
        if not _is_kept(directory, CA):
            _make(directory, CA, "Radiator trial CA", config, CA_DAYS)
        for name in pairs:
            if is_renewal or not _is_kept(directory, name):
                _make(directory, name, names[0] if name == SERVER else name, config, _days_left(directory))
    if is_renewal:
        print("\nHave the running broker take it: radiator reload")
        return 0
    where = printable(str(directory.absolute()))
    print(f'\nFor config.toml:\n\n[tls]\ncertificate = "{where}/{SERVER}.pem"\nkey = "{where}/{SERVER}.key"')
    print(f'client_ca = "{where}/{CA}.pem"\nclient_certificates = "optional"' * bool(arguments.client))
    print(f"Clients trust it by --ca {where}/{CA}.pem, or ca_file in Python. It is for a trial: whoever has")
    print(f"{CA}.key can make a certificate for any name that these clients trust.")
    print(f"The CA is for ten years, each pair for one: before that, radiator certificates {where} --renew")
    return 0


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Waits for another run in that directory, and removes what a killed one has left beside."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directory.glob(f"{_BESIDE}????????"):
            if _is_left(left):
                shutil.rmtree(left)
        yield
    finally:
        os.close(lock)


def _is_left(path: Path) -> bool:
    """Whether a run has made that directory, and it holds nothing else."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    return all(
        stat.S_ISREG(one.lstat().st_mode) and (one.name == _CONFIG_FILE or one.suffix in (".key", ".pem"))
        for one in path.iterdir()
    )


def _alternative(name: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _check_is_there(directory: Path, name: str) -> None:
    if not _is_kept(directory, name, is_shown=False):
        right = "put the CA back, or name its directory" if name == CA else "make the pair without --renew"
        raise RadiatorError(f"{directory / name}.pem and {name}.key, which --renew needs, are not there: {right}.")


def _is_kept(directory: Path, name: str, is_shown: bool = True) -> bool:
    """Whether that pair exists. RadiatorError: only half of it does."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    there = [one for one in (certificate, key) if one.exists()]
    if there == [certificate] and name == CA:
        right = "put it back for as long as this takes, or name another directory for a new CA"
        raise RadiatorError(f"{key} is not there, and the CA in {certificate.name} cannot sign without it: {right}.")
    if len(there) == 1:
        raise RadiatorError(f"{there[0]} is there without the other half of its pair. Remove it, or name a directory.")
    if there and is_shown:
        print(f"{certificate} and {key.name} are there, and stay")
    return bool(there)


def _read(path: Path) -> Certificate:
    try:
        return read_certificate(path.read_text(errors="replace"))
    except ValueError as wrong:
        raise RadiatorError(f"{path} {wrong}: it must be a certificate in PEM.") from None


def _names_of(path: Path) -> list[str]:
    names = [*_read(path).names]
    try:
        if names:
            return [_host(name) for name in names]
        wrong = "has no names"
    except argparse.ArgumentTypeError as error:
        wrong = f"has a name that cannot be renewed: {error}"
    raise RadiatorError(f"{path} {wrong}. Give the names of the new one by --name.")


def _days_left(directory: Path) -> int:
    """Returns for how many days a pair is made: it does not outlive its CA."""
    ca = _read(directory / f"{CA}.pem")
    days = ca.days_left(time.time())
    if days < 1:
        right = "name another directory for a new CA"
        raise RadiatorError(f"The CA {directory / CA}.pem is valid until {day_text(ca.valid_to_s)} only: {right}.")
    return min(PAIR_DAYS, days)


def _make(directory: Path, name: str, subject: str, config: Path, days: int) -> None:
    """Makes a key and a certificate, each under its name only once both are whole. The owner, group and mode of a
    replaced file stay. Between the two renames they are not a pair, which a reload refuses.
    """
    signed = ["-CA", str(directory / f"{CA}.pem"), "-CAkey", str(directory / f"{CA}.key")] if name != CA else []
    kind = name if name in (CA, SERVER) else "client"
    if len(subject) > COMMON_NAME_MAX:
        subject = kind  # clients look at the names beside it
    ends = ("key", "pem")
    _openssl(
        "req", "-x509", *signed, "-config", str(config), "-extensions", kind, "-subj", f"/CN={subject}", "-days",
        str(days), "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", str(config.with_name(f"{name}.key")), "-out", str(config.with_name(f"{name}.pem")),
    )  # fmt: skip
    config.with_name(f"{name}.key").chmod(0o600)
    for end in ends:
        _own_as(config.with_name(f"{name}.{end}"), directory / f"{name}.{end}")
        with config.with_name(f"{name}.{end}").open("rb") as new:
            os.fsync(new.fileno())
    for end in ends:
        os.replace(config.with_name(f"{name}.{end}"), directory / f"{name}.{end}")
    until = day_text(_read(directory / f"{name}.pem").valid_to_s)
    print(f"{directory / name}.pem and {name}.key were made: {subject}, valid until {until}")


def _own_as(new: Path, old: Path) -> None:
    """Lets whoever may read the old file, if there is one, read the new one."""
    if not old.exists():
        return
    found = old.stat()
    try:
        os.chown(new, found.st_uid, found.st_gid)
    except PermissionError:
        right = f"run this as root, or as that user with its group {found.st_gid}"
        raise RadiatorError(f"{old} belongs to another user, {found.st_uid}: {right}.") from None
    new.chmod(stat.S_IMODE(found.st_mode))


def _openssl(*arguments: str) -> None:
    """Raises RadiatorError."""
    program = shutil.which("openssl")
    if program is None:
        raise RadiatorError(
            "openssl, which makes the files, is not installed; on Debian or Ubuntu: apt install openssl."
        )
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=OPENSSL_MAX_S)
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise RadiatorError(f"openssl has failed: {printable(why[0])}.")


CERTIFICATES = Command(
    name="certificates",
    summary="make a CA and certificates to try TLS with",
    description=(
        "Makes a CA of your own in DIRECTORY, valid for ten years, and a certificate with its key for the broker, "
        "valid for one, and prints the lines for config.toml. With --client, pairs for clients too, which may be "
        "added later. Existing files stay; --renew renews the broker's pair, and those of --client, for the names "
        "that the old ones have. The system's openssl (3.0 or later) is needed."
    ),
    example=(
        "radiator certificates /etc/radiator/tls --name broker.example --client ops\n"
        "radiator certificates /etc/radiator/tls --renew"
    ),
    add_arguments=_arguments,
    run=_run,
)
