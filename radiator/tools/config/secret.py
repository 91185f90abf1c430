"""The secret that the nodes of a cluster share, read from a file of its own: it is in no configuration, no log and no
answer.
"""

import stat
from codecs import BOM_UTF8
from pathlib import Path

from radiator.model.limits import SECRET_MAX_BYTES, SECRET_MIN_BYTES
from radiator.tools.config.values import quoted

_OF_OTHERS = 0o037  # a group may read it, as that of systemd's credentials does


def read_secret(path: Path) -> bytes:
    """Returns the file's bytes without the newline at their end, LF or CR LF, and without a byte order mark before
    them, which an editor may have put there on one node alone. ValueError as a check.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"is {quoted(str(path))}, which is not a file; {how_to_make(path)}")
        if found.st_mode & _OF_OTHERS:
            wrong = (
                f"is {quoted(str(path))}, of mode {stat.S_IMODE(found.st_mode):04o}, so others may read or change it"
            )
            raise ValueError(f"{wrong}; chmod 600 {path.name}, or 640 for a group that may read it")
        with path.open("rb") as file:
            data = file.read(SECRET_MAX_BYTES + 1 + len(BOM_UTF8) + len("\r\n")).removeprefix(BOM_UTF8)
            secret = data.removesuffix(b"\r\n" if data.endswith(b"\r\n") else b"\n")
    except OSError as error:
        wrong = f"is {quoted(str(path))}, which cannot be read ({error.strerror})"
        raise ValueError(f"{wrong}; {how_to_make(path)}, and copy it to every node") from error
    if not SECRET_MIN_BYTES <= len(secret) <= SECRET_MAX_BYTES:
        size = len(secret) if len(secret) <= SECRET_MAX_BYTES else f"more than {SECRET_MAX_BYTES}"
        wrong = f"is {quoted(str(path))}, which holds {size} bytes"
        raise ValueError(f"{wrong}; a secret has {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES}: {how_to_make(path)}")
    return secret


def how_to_make(path: Path) -> str:
    """Returns a command that makes such a file."""
    return f"make one: head -c 32 /dev/urandom | base64 > {path.name}; chmod 600 {path.name}"
