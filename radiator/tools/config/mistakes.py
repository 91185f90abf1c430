"""Collects what is wrong with a configuration file, and on which line."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from radiator.tools.config.values import quoted

Keys = tuple[str, ...]  # from the top of the file down to a table or a setting


class Mistakes:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self.found: list[tuple[Keys, str]] = []

    def add(self, keys: Keys, wrong: str) -> None:
        """wrong: what follows the key's name: what is wrong, and what would be right."""
        self.found.append((keys, wrong))

    def are_in(self, *table: str) -> set[str]:
        """Returns the keys of that table which are wrong, or have something wrong below them."""
        return {keys[len(table)] for keys, _ in self.found if keys[: len(table)] == table and len(keys) > len(table)}

    def sentences(self, path: Path, text: str) -> list[str]:
        """Returns one sentence for each mistake, in the order of the file's lines. A place without a line of its own
        has that of the table around it; one that has none either names no line and comes last.
        """
        lines = dict(reversed(list(lines_of_keys(text))))  # the first line that names a table
        sentences = []
        for keys, wrong in self.found:
            line = next((lines[keys[:depth]] for depth in range(len(keys), 0, -1) if keys[:depth] in lines), None)
            where = f"{path}, line {line}" if line else f"{path}"
            end = "" if wrong.endswith("?") else "."
            sentences.append((line or len(text), f"{where}: {dotted(keys)} {wrong}{end}"))
        return [sentence for _, sentence in sorted(sentences, key=lambda one: one[0])]


def dotted(keys: Keys) -> str:
    """Returns the keys as TOML writes them with dots between them."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key) for key in keys)


def lines_of_keys(text: str) -> Iterator[tuple[Keys, int]]:
    """Yields the tables and keys of a valid TOML text, each with the number of the line on which its statement begins.

    A statement is as many lines as it takes to be valid TOML by itself, so no second grammar of TOML is needed here.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    table: Keys = ()
    begin = 0
    for end in range(1, len(lines) + 1):
        try:
            statement = tomllib.loads("\n".join(lines[begin:end]))
        except tomllib.TOMLDecodeError:
            continue  # its value goes on in the next line
        is_header = lines[begin].lstrip().startswith("[")
        found = list(_keys_in(statement, () if is_header else table))
        yield from ((keys, begin + 1) for keys in found)
        if is_header:
            table = found[-1]
        begin = end


def _keys_in(value: object, above: Keys) -> Iterator[Keys]:
    if isinstance(value, list) and value:
        value = value[0]  # [[a table in an array]]
    if isinstance(value, dict):
        for key, below in value.items():
            yield (*above, key)
            yield from _keys_in(below, (*above, key))
