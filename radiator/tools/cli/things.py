"""The things that commands name: a queue, an exchange, a fanout, a log or a topic, as KIND NAME or as its address.

A command lists its arguments as Words. A bare NAME is of the first kind of its Word, which is `queue` wherever a queue
is possible, as on the wire. An impossible combination is refused before the broker is asked.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from radiator.model.addresses import EXCHANGE, EXISTING, KINDS, QUEUE, name_in
from radiator.model.checks import meant
from radiator.model.errors import ConfigError
from radiator.tools.config import Config, load

DESTINATIONS = (QUEUE, *(kind for kind in KINDS if kind != QUEUE))
TAKERS = tuple(name for name, kind in KINDS.items() if kind.is_target)  # what a fanout or a binding may lead to


class Thing(NamedTuple):
    """A destination. Of an exchange that is sent to, or subscribed, the name is followed by the key."""

    kind: str
    name: str

    @property
    def address(self) -> str:
        return f"/{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class ArgumentWord:
    """One argument of a command. kinds: the argument names a thing of one of these, and is two words where it is given
    as KIND NAME; without kinds it is one word, which `read` converts, and may refuse by ValueError. check: judges the
    address of a thing; the text that it raises follows `metavar` in the sentence.

    is_needed: False where it may be left out. is_many: it takes all words that follow. is_made: `--create` makes this
    queue.
    """

    dest: str
    metavar: str
    help: str = ""
    kinds: tuple[str, ...] = ()
    read: Callable[[str], Any] = str
    check: Callable[[str], object] | None = None
    is_needed: bool = True
    is_many: bool = False
    is_made: bool = False


def add_words(parser: argparse.ArgumentParser, *words: ArgumentWord) -> None:
    """Adds the arguments of a command, in order. Each is an attribute of what is parsed; `things` is the list of all
    things, `made` of those that `--create` makes.
    """
    shown = [word.metavar + " ..." * word.is_many for word in words]
    parser.set_defaults(things=[], made=[], **{word.dest: [] if word.is_many else None for word in words})
    parser.add_argument(
        "words",
        metavar=" ".join(text if word.is_needed else f"[{text}]" for word, text in zip(words, shown, strict=True)),
        nargs="+" if any(word.is_needed for word in words) else "*",
        action=_Words,
        words=words,
        help="; ".join(f"{word.metavar}: {_help(word)}" if len(words) > 1 else _help(word) for word in words),
    )
    if any(word.is_made for word in words):
        parser.add_argument("--create", action="store_true", help="make the queue if it is not there")


def _help(word: ArgumentWord) -> str:
    if not word.kinds:
        return word.help
    usual = word.kinds[0]
    text = f"NAME of a {usual}" if usual != EXCHANGE else "NAME of an exchange"
    kinds = "|".join(word.kinds)
    return f"{text}, {kinds} NAME, or its address{', ' * bool(word.help)}{word.help}"


def config_for(take: Callable[[Config], Any]) -> Callable[[str], Any]:
    """Returns the type of `--config`, where it stands for what `take` finds there. `read_config` reads the file."""
    return lambda text: lambda: take(load(Path(text)))


def read_config(arguments: argparse.Namespace) -> None:
    """Gives every option that a configuration file is to answer what the file says; context: the one of the broker, or
    None. Raises ConfigError.
    """
    for dest in ("broker", "data"):
        if callable(read := getattr(arguments, dest, None)):
            setattr(arguments, dest, read())
    arguments.context = None
    if hasattr(arguments, "broker"):
        from radiator.tools.cli.contexts import Context  # with the client, which `serve` does not need

        if isinstance(found := arguments.broker, Context):
            arguments.context, arguments.broker = found, found.broker
    files = {name: getattr(arguments, f"tls_{name}", None) for name in ("ca_file", "certificate", "key")}
    given = {name: file for name, file in files.items() if file}
    if given and not arguments.broker.is_tls:
        option = next(iter(given)).removesuffix("_file")
        raise ConfigError([f"--{option} is for TLS, and the broker is {arguments.broker}: say --broker stomps://..."])
    if given:
        arguments.broker = replace(arguments.broker, **given)


def name_of(kind: str) -> Callable[[str], str]:
    """Returns the type of an option: the name of one of that kind, which may be given as its address."""

    def name(text: str) -> str:
        try:
            return thing(text, (kind,)).name
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return name


def thing(text: str, kinds: Sequence[str]) -> Thing:
    """Returns what one word names: an address of one of these kinds, or a bare NAME of the first. Raises ValueError."""
    if text.startswith("/"):
        kind = next((kind for kind in (*KINDS, EXISTING) if text.startswith(f"/{kind}/")), None)
        if kind is None:
            near = meant(text[1:].partition("/")[0], kinds)
            raise ValueError(f"{text!r} is not an address{near or f'; write {_ways(kinds)}'}")
        kind = QUEUE if kind == EXISTING else kind
        if kind not in kinds:
            raise ValueError(
                f"{text!r} is not {_article(kinds[0])}{' or '.join(('', *kinds[1:]))}; write {_ways(kinds)}"
            )
        return _named(kind, text)
    usual = kinds[0]
    if text != text.strip():
        raise ValueError(
            f"{text!r} has a space at its {'beginning' if text[0].isspace() else 'end'}; without it, it is "
            f"{text.strip()!r}, and {_article(usual)} that is called so is {f'/{usual}/{text}'!r}"
        )
    if any(text.startswith(f"{kind}/") for kind in (*KINDS, EXISTING)):
        raise ValueError(
            f"{text!r} has no / before it; did you mean '/{text}'? {_article(usual).capitalize()} that is called so is "
            f"'/{usual}/{text}'"
        )
    return _named(usual, text)


def _named(kind: str, text: str) -> Thing:
    try:
        name = name_in(kind, text)
    except ValueError:
        raise ValueError(f"{text!r} is not {_article(kind)}; write {_ways((kind,))}") from None
    if not name:
        raise ValueError(f"{text!r} names nothing; write {_ways((kind,))}")
    return Thing(kind, name)


def _ways(kinds: Sequence[str]) -> str:
    return f"NAME or {', '.join(f'/{kind}/NAME' for kind in kinds)}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind == EXCHANGE else f"a {kind}"


class ByKind(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Commands by kind, as `declare queue NAME`: the address of such a thing says the kind too."""

    def kind_of(self, word: str) -> str:
        """Returns the kind that a word says: itself, or an address of one that may be said here; "" for any other."""
        kind = word[1:].partition("/")[0] if word.startswith("/") else word
        return kind if kind in self.choices else ""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        kind = self.kind_of(values[0])
        super().__call__(parser, namespace, values if values[0] == kind else [kind, *values], option_string)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Shows Words as they are said."""

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        return str(action.metavar) if isinstance(action, _Words) else super()._format_args(action, default_metavar)


class _Words(argparse.Action):
    def __init__(self, *, words: tuple[ArgumentWord, ...], **given: Any) -> None:
        super().__init__(**given)
        self.words = words

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        try:
            for word, value in _read(self.words, list(values or ())):
                if not word.is_many and getattr(namespace, word.dest, None) is not None:
                    raise ValueError(f"{word.metavar} is given twice")
                setattr(namespace, word.dest, value)
                if word.kinds:
                    things = value if word.is_many else [value]
                    namespace.things = [*namespace.things, *things]
                    namespace.made = [*namespace.made, *(things if word.is_made else ())]
        except ValueError as wrong:
            parser.error(str(wrong))


def _read(words: Sequence[ArgumentWord], texts: list[str]) -> Iterator[tuple[ArgumentWord, Any]]:
    """Yields what each word is. Raises ValueError."""
    for at, word in enumerate(words):
        needed = [one.metavar for one in words[at:] if one.is_needed]
        if word.is_many:
            taken = []
            while texts:
                taken.append(_taken(word, texts))
            yield word, taken
        elif word.is_needed or len(texts) > len(needed):
            if not texts:
                raise ValueError(f"the following arguments are required: {', '.join(needed)}")
            yield word, _taken(word, texts)
    if texts:
        kinds = [kind for word in words for kind in word.kinds]
        raise ValueError(
            f"unrecognized arguments: {' '.join(texts)}" + f"; a KIND is one of {', '.join(kinds)}" * bool(kinds)
        )


def _taken(word: ArgumentWord, texts: list[str]) -> Any:
    text = texts.pop(0)
    if not word.kinds:
        return word.read(text)
    if text not in word.kinds:
        found = thing(text, word.kinds)
    elif not texts:
        raise ValueError(f"{text!r} must be followed by a NAME; something called that is '/{text}/{text}'")
    else:
        found = _named(text, texts.pop(0))
    try:
        if word.check is not None:
            word.check(found.address)
    except ValueError as wrong:
        raise ValueError(f"{word.metavar} {wrong}") from None
    return found
