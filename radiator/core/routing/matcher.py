"""Finds which of the things that are bound to an exchange a message goes to: by its key, or by its headers."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from radiator.core.routing.trie import Trie
from radiator.model.header_bindings import HeaderMatch, match_of, words_of
from radiator.model.headers import ESCAPING_NONE
from radiator.model.limits import KEY_WORDS_MAX
from radiator.model.settings import DIRECT, FANOUT, HEADERS

T = TypeVar("T")


class Headers:
    """The headers of one message, read once, when a binding asks for them."""

    __slots__ = ("block", "escaping", "read")

    def __init__(self, block: bytes = b"", escaping: int = ESCAPING_NONE) -> None:
        self.block = block
        self.escaping = escaping
        self.read: frozenset[str] | None = None

    @property
    def words(self) -> frozenset[str]:
        if self.read is None:
            self.read = words_of(self.block, self.escaping)
        return self.read


NO_HEADERS = Headers()


class Matcher(Generic[T]):
    """bindings: by key and thing, in the order of binding, whether config.toml declares it. every: how often each thing
    is bound, where keys do not matter. things: the things by key. arguments: what each key of type headers asks for.
    """

    __slots__ = ("arguments", "bindings", "every", "things", "type")

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.bindings: dict[tuple[str, T], bool] = {}
        self.every: dict[T, int] = {}
        self.things: Trie[T] = Trie(type_ in (DIRECT, HEADERS), KEY_WORDS_MAX)
        self.arguments: dict[str, HeaderMatch] = {}

    def matching(self, key: str, headers: Headers) -> Iterable[T]:
        """Returns what gets a message with this key and these headers, each once."""
        if self.type == FANOUT:
            return self.every
        return self.things.matching(key) if self.type != HEADERS else self.by_headers(headers)

    def by_headers(self, headers: Headers) -> Iterable[T]:
        """Returns the same for type headers. Costs a fraction of a microsecond for each binding with different
        arguments.
        """
        if not self.arguments:
            return ()
        words = headers.words
        self.things.steps += len(self.arguments)
        found: dict[T, None] = {}
        for key, match in self.arguments.items():
            if match.matches(words):
                found.update(self.things.exact[key])
        return found

    def would_match(self, bound: str, thing: T, key: str, headers: Headers = NO_HEADERS) -> bool:
        """Whether a message with this key and these headers would come by a binding of that key alone."""
        alone: Matcher[T] = Matcher(self.type)
        alone.add(bound, thing, is_declared=False)
        return thing in alone.matching(key, headers)

    def add(self, key: str, thing: T, is_declared: bool) -> None:
        """Adds one binding."""
        self.bindings[key, thing] = is_declared
        if self.type == FANOUT:
            self.every[thing] = self.every.get(thing, 0) + 1
            return
        if self.type == HEADERS and key not in self.arguments:
            self.arguments[key] = match_of(key)
        self.things.add(key, thing)

    def remove(self, key: str, thing: T) -> None:
        """Removes one binding."""
        del self.bindings[key, thing]
        if self.type != FANOUT:
            self.things.remove(key, thing)
            if self.type == HEADERS and key not in self.things.exact:
                del self.arguments[key]
        elif self.every[thing] > 1:
            self.every[thing] -= 1
        else:
            del self.every[thing]
