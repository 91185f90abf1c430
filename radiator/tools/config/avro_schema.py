"""The Avro schema of a queue or log, which a file beside config.toml has, or the setting itself."""

import stat
from pathlib import Path

from radiator.model.avro import schema_text
from radiator.model.checks import Check
from radiator.model.limits import SCHEMA_MAX_BYTES
from radiator.tools.config.values import quoted

_JSON = ("{", "[", '"')  # so a schema begins, and a path only with ./ before it


def schema_in(directory: Path) -> Check:
    """Returns a check that reads a schema's text, from a path that counts from that directory, or from the schema
    itself.
    """

    def check(value: object) -> str:
        if not isinstance(value, str) or value.lstrip().startswith(_JSON):
            return schema_text(value)
        path = directory / value
        text = _read(path)
        try:
            return schema_text(text)
        except ValueError as wrong:
            raise ValueError(f"is {quoted(str(path))}, and its content {wrong}") from None

    return check


def _read(path: Path) -> str:
    right = "name a file with an Avro schema, or write the schema itself here"
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"is {quoted(str(path))}, which is not a file; {right}")
        with path.open("rb") as file:
            return file.read(SCHEMA_MAX_BYTES + 1).decode()
    except OSError as error:
        raise ValueError(f"is {quoted(str(path))}, which cannot be read ({error.strerror}); {right}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"is {quoted(str(path))}, which is not UTF-8 at byte {error.start}; {right}") from error
