"""Files of TOML, as people save them: of bounded length, in UTF-8, with a byte order mark or without."""

import tomllib
from pathlib import Path
from typing import Any

from radiator.model.errors import ConfigError
from radiator.model.file_text import text_of
from radiator.model.limits import CONFIG_MAX_BYTES


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns the text of that file, and its tables. A pipe is waited for, as it is by every program, and no more is
    read than may be there. OSError: it cannot be read. ConfigError: it is too long, or not TOML.
    """
    with path.open("rb") as file:
        data = file.read(CONFIG_MAX_BYTES + 1)
    if len(data) > CONFIG_MAX_BYTES:
        raise ConfigError([f"{path} has more than the {CONFIG_MAX_BYTES} bytes that it may have at most."])
    try:
        text = text_of(data)
    except ValueError as wrong:
        raise ConfigError([f"{path} {wrong}, which TOML must be."]) from None
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of a number of thousands of digits, and of deep nesting
        raise ConfigError([f"{path} is not TOML: {str(error).rstrip('.')}."]) from error
