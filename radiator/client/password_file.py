"""A password, or token, in a file of its own."""

import stat
from codecs import BOM_UTF8
from pathlib import Path
from typing import BinaryIO

from radiator.auth.jwt import is_jwt
from radiator.model.errors import ConfigError
from radiator.model.file_text import unmarked
from radiator.model.limits import JWT_MAX_BYTES, SECRET_GIVEN_MAX_BYTES

_AROUND_BYTES = len(BOM_UTF8) + len("\r\n")  # what a first line may have that is not part of the password


def from_file(path: Path) -> str:
    """Returns the first line of a file that nobody else may read. A pipe, such as that of `<(...)`, is waited for, as
    by every program. Raises ConfigError.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):  # before the check of its mode, which a directory may pass
            raise ConfigError([f"{path} is a directory: name a file that has the password as its first line."])
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            raise ConfigError(
                [f"{path} holds a password, and everybody on this machine may read it: chmod 600 {path}."]
            )
        with path.open("rb") as file:
            return first_line(file, f"The password in {path}")
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}."]) from None


def first_line(file: BinaryIO, what: str) -> str:
    """Returns a password on a line of its own, without its end, LF or CR LF, and without a byte order mark before it;
    of a longer one no more is read than may be there. Raises ConfigError, OSError.
    """
    line = file.readline(JWT_MAX_BYTES + 1 + _AROUND_BYTES).removesuffix(b"\n").removesuffix(b"\r")
    try:
        line = unmarked(line)
    except ValueError as wrong:
        raise ConfigError([f"{what} {wrong}."]) from None
    return checked(line.decode("utf-8", "surrogateescape"), what)


def checked(password: str, what: str) -> str:
    """Returns the password, if it can be a STOMP passcode. Raises ConfigError, which does not repeat it."""
    given = password.encode("utf-8", "surrogateescape")
    most = JWT_MAX_BYTES if is_jwt(given) else SECRET_GIVEN_MAX_BYTES
    if not password:
        raise ConfigError([f"{what} is empty: it must have 1 to {most} bytes."])
    if len(given) > most:
        raise ConfigError([f"{what} is too long: it must have 1 to {most} bytes."])
    if any(character in password for character in "\0\r\n") or not password.isascii() and not _is_text(password):
        raise ConfigError([f"{what} contains a NUL, a line end or invalid UTF-8, which STOMP cannot carry."])
    return password


def _is_text(password: str) -> bool:
    try:
        password.encode()
    except UnicodeEncodeError:
        return False
    return True
