"""Whether a line of a shell could be run: its command and its options exist, and the files that it names."""

import argparse
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from tests.broker_process import CHECKOUT
from tests.documents.blocks import exists

_OURS = re.compile(r"(?:\S*/bin/)?(radiator|python3?|pip)|(scripts/[\w-]+)")
_SAMPLES = {
    "COMMAND": "--help",
    "N": "1",
    **dict.fromkeys(("MESSAGE-ID", "ID"), "4f0c2a91b7d3e865-3-17"),
    "TRACE-ID": "4bf92f3577b34da6a3ce929d0e0e4736",
}  # for what stands for any of a kind
_EXTRA = re.compile(r"\[(\w+(?:,\w+)*)\]$")


def complaint(line: str, radiator: argparse.ArgumentParser, is_named: bool = False) -> str | None:
    """What is wrong with it; None: nothing, or it is no command of ours. is_named: in a sentence, so it may leave out
    what the command requires."""
    for part in re.split(r"&&|;|\|(?![^\[]*\])", _without_comment(line)):
        try:
            words = shlex.split(part.strip())
        except ValueError:
            continue  # a quote of prose
        words = words[: words.index(">")] if ">" in words else words
        if not words or (found := _OURS.fullmatch(words[0])) is None:
            continue
        if found[2] is not None:
            wrong = None if exists(found[2]) else f"there is no {found[2]}"
        elif found[1] == "radiator":
            wrong = _of_radiator(words[1:], radiator, is_named)
        elif found[1] == "pip":
            wrong = _of_pip(words[1:])
        else:
            wrong = _of_python(words[1:])
        if wrong is not None:
            return f"{part.strip()}: {wrong}"
    return None


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#\s.*$", "", line)


def _of_radiator(words: list[str], radiator: argparse.ArgumentParser, is_named: bool) -> str | None:
    words = [word.strip("[]") for word in words if word not in ("|", "...", "[...]")]
    words = [_SAMPLES.get(word, word) for word in words]
    found = StringIO()
    try:
        with redirect_stderr(found), redirect_stdout(StringIO()):
            radiator.parse_args(words)
    except SystemExit as ended:
        if not ended.code:
            return None
        is_short = re.search(r" (is|are) required", found.getvalue())
        return None if is_named and is_short else found.getvalue().strip()
    return None


def _of_pip(words: list[str]) -> str | None:
    known = {"install", "uninstall", "download", "wheel", "hash"}
    if words and words[0] not in known:
        return f"pip {words[0]}"
    for word in words:
        extras = _EXTRA.search(word)
        for extra in extras[1].split(",") if extras is not None else ():
            if f"\n{extra} =\n" not in (CHECKOUT / "setup.cfg").read_text():
                return f"there is no extra {extra}"
    return None


def _of_python(words: list[str]) -> str | None:
    if len(words) >= 2 and words[0] == "-m":
        path = words[1].replace(".", "/").replace("radiator/spark/", "radiator/integrations/spark/")  # its public name
        is_ours = words[1].partition(".")[0] in ("radiator", "benchmarks", "tests")
        return None if not is_ours or exists(f"{path}.py") or exists(f"{path}/__main__.py") else f"no module {words[1]}"
    if words and words[0].endswith(".py"):
        return None if exists(words[0]) or exists(f"examples/{words[0]}") else f"there is no {words[0]}"
    return None
