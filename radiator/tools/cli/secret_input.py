"""Passwords that a command is given: at a terminal, from a pipe, or in a file (radiator/client/password_file.py). Never
as an argument, which everybody on the machine can see.
"""

import getpass
import sys

from radiator.auth.jwt import is_jwt
from radiator.auth.tokens import is_token
from radiator.client.password_file import checked, first_line
from radiator.model.errors import ConfigError


def asked(prompt: str) -> str:
    """Returns what somebody writes at the terminal, unseen."""
    return checked(getpass.getpass(prompt), "The password")


def from_stdin() -> str:
    """Returns the first line of standard input."""
    return first_line(sys.stdin.buffer, "The password")


def no_token(password: str) -> str:
    """Returns the password. Raises ConfigError if it would be taken for a token."""
    if is_jwt(password.encode()):
        raise ConfigError(["The password has the form of a JSON Web Token: choose another."])
    if is_token(password.encode()):
        raise ConfigError(["The password has the form of a token: choose another, or put its token into tokens."])
    return password
