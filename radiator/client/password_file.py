"""A password, or token, in a file of its own."""

import stat
from pathlib import Path

from radiator.auth.jwt import is_jwt
from radiator.model.errors import ConfigError
from radiator.model.limits import JWT_MAX_BYTES, SECRET_GIVEN_MAX_BYTES


def from_file(path: Path) -> str:
    """The first line of a file that nobody else may read. Raises ConfigError."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):  # before its mode, which is right for a directory
            raise ConfigError([f"{path} is a directory: name a file that has the password as its first line."])
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            raise ConfigError(
                [f"{path} holds a password, and everybody on this machine may read it: chmod 600 {path}."]
            )
        with path.open("rb") as file:
            line = file.readline(JWT_MAX_BYTES + 2).removesuffix(b"\n")
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}."]) from None
    return checked(line.decode("utf-8", "surrogateescape"), f"The password in {path}")


def checked(password: str, what: str) -> str:
    """It can be a passcode of STOMP. Raises ConfigError, which does not repeat it."""
    given = password.encode("utf-8", "surrogateescape")
    most = JWT_MAX_BYTES if is_jwt(given) else SECRET_GIVEN_MAX_BYTES
    if not password:
        raise ConfigError([f"{what} is empty: it must have 1 to {most} bytes."])
    if len(given) > most:
        raise ConfigError([f"{what} is too long: it must have 1 to {most} bytes."])
    if any(character in password for character in "\0\r\n") or not password.isascii() and not _is_text(password):
        raise ConfigError([f"{what} has a NUL, a line end or what is no UTF-8 in it, which STOMP cannot say."])
    return password


def _is_text(password: str) -> bool:
    try:
        password.encode()
    except UnicodeEncodeError:
        return False
    return True
