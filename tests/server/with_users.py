"""`python -m tests.server.with_users serve ...` is the command `radiator` with users: what `users.json`, beside its
config.toml, says of their rules, by name and right. It is read again with that.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from radiator.model.rights import Rules
from radiator.model.settings import Config
from radiator.model.users import User
from radiator.tools import config
from radiator.tools.cli import main

read = config._read


def read_with_users(tables: Mapping[str, Any], directory: Path, *more: Any) -> Config:
    given = json.loads((directory / "users.json").read_text())
    users = {
        name: User(name=name, rules=Rules(**{right: tuple(rules) for right, rules in one.items()}))
        for name, one in given.items()
    }
    return replace(read(tables, directory, *more), users=users)


if __name__ == "__main__":
    config._read = read_with_users
    sys.exit(main())
