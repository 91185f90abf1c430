"""The JSON object of a request to /admin, and the checks of its values."""

import json
from typing import Any

from radiator.model.addresses import KINDS, name_in
from radiator.model.administration import Settings
from radiator.model.checks import shown
from radiator.model.errors import Refusal
from radiator.model.limits import (
    NAME_MAX_BYTES,
    PATTERN_WILDCARDS_MAX,
    SIZE_MAX,
    TOPIC_WORDS_MAX,
)
from radiator.model.patterns import consumer_name_mistake, name_mistake
from radiator.model.validation import mistake


class Asked:
    """The JSON object of a request without its `do`. Each getter raises Refusal `bad-request` for a wrong value."""

    __slots__ = ("do", "given")

    def __init__(self, do: str, given: dict[str, Any]) -> None:
        self.do = do
        self.given = given

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def has_only(self, *keys: str) -> None:
        """Refuses any other key: the request would silently do without one that is misspelt."""
        for key in self.given:
            if key not in keys:
                has = f"its keys are {', '.join(keys)}" if keys else "it has no key besides `do`"
                raise Refusal("bad-request", f"`{self.do}` has no key {shown(key)}; {has}.")

    def declaration(self, kind: str) -> tuple[str, Settings, bool]:
        """Returns the name, the given settings and `passive` (only ask whether it exists) of a `declare`."""
        given = {key: value for key, value in self.given.items() if key not in (kind, "passive", "create")}
        return self.name(kind), given, self.flag("passive", False)

    def name(self, kind: str, key: str | None = None) -> str:
        """Returns the NAME of a queue, exchange, fanout or log, given as NAME or as /KIND/NAME."""
        key = key or kind
        return _name(kind, key, self.text(key, _what(kind)))

    def names(self, kind: str, key: str, most: int) -> tuple[str, ...]:
        """Returns the names of 1 to `most` things of that kind, none of them twice."""
        given = self.given.get(key)
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise mistake(key, f"must be a list of names; it is {shown(given)}")
        if not 1 <= len(given) <= most:
            raise mistake(key, f"must be 1 to {most} names, each once; it has {len(given)}")
        names = tuple(_name(kind, key, name) for name in given)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise mistake(key, f"must be 1 to {most} names, each once; it has {shown(twice)} more than once")
        return names

    def text(self, key: str, what: str, default: str | None = None) -> str:
        """Returns a text. what: what it must be, as the refusal says."""
        text = self.given.get(key, default)
        if not isinstance(text, str):
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {shown(text)}.")
        return text

    def flag(self, key: str, default: bool) -> bool:
        """Returns true or false."""
        flag = self.given.get(key, default)
        if not isinstance(flag, bool):
            raise Refusal("bad-request", f"`{key}` must be true or false; it is {shown(flag)}.")
        return flag

    def page(self, kind: str) -> tuple[str | None, int | None, str | None]:
        """Returns the bounds of a page of names: `after` (the name it begins behind), `limit` (the most names) and
        `match` (their pattern), each None if the request does not give it. kind: that of the things named; "": they
        have no address.
        """
        after = self.text("after", "the last name of the page before") if "after" in self else None
        limit = self.whole("limit", None, SIZE_MAX) if "limit" in self else None
        return after, limit, self.pattern("match", kind) if "match" in self else None

    def pattern(self, key: str, kind: str) -> str:
        """Returns a pattern of names, given alone or as /KIND/PATTERN. Its size is bounded, since every name is
        compared with it.
        """
        text = self.text(key, "a pattern of names, such as orders.*")
        try:
            pattern = name_in(kind, text) if kind else text
        except ValueError as error:
            raise mistake(key, str(error)) from error
        words = pattern.split(".")
        wildcards = words.count("*") + words.count("#")
        if name_mistake(pattern) or len(words) > TOPIC_WORDS_MAX or wildcards > PATTERN_WILDCARDS_MAX:
            right = f"at most {TOPIC_WORDS_MAX} words between dots, of which at most {PATTERN_WILDCARDS_MAX} are * or #"
            raise mistake(key, f"must be a pattern of names with {right}; it is {shown(text)}")
        return pattern

    def whole(self, key: str, default: int | None, most: int | None = None, least: int = 1) -> int:
        """Returns a whole number from `least` to `most`; None: no upper bound."""
        count = self.given.get(key, default)
        if not isinstance(count, int) or isinstance(count, bool) or count < least or (most and count > most):
            bound = f"from {least} to {most}" if most else f"from {least}"
            raise Refusal("bad-request", f"`{key}` must be a whole number {bound}; it is {shown(count)}.")
        return count

    def number(self, key: str, most: int, default: int | None = None) -> int:
        """Returns a whole number from 0 to `most`; without a default the key is required."""
        number = self.given.get(key, default)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
            raise Refusal("bad-request", f"`{key}` must be a whole number from 0 to {most}; it is {shown(number)}.")
        return number

    def label(self, key: str) -> str:
        """Returns the name of a prepared transaction, an app, or the group of a checkout: text of 1 to NAME_MAX_BYTES
        bytes.
        """
        return _label(key, self.given.get(key))

    def labels(self) -> tuple[str, ...]:
        """Returns the names of prepared transactions, with `prefix` put before each."""
        given = self.given.get("prepared")
        if not isinstance(given, list) or not given:
            raise Refusal("bad-request", f"`prepared` must be a list of names; it is {shown(given)}.")
        prefix = self.label("prefix") if "prefix" in self else ""
        return tuple(_label("prepared", prefix + name if isinstance(name, str) else name) for name in given)

    def group(self) -> str:
        """Returns the name of a log's group: any UTF-8 that a SUBSCRIBE can give, control characters included."""
        group = self.text("group", "the name of a group")
        if not 1 <= _utf8_size(group) <= NAME_MAX_BYTES:
            raise mistake("group", f"must be a name of 1 to {NAME_MAX_BYTES} bytes of UTF-8; it is {shown(group)}")
        return group

    def consumer(self) -> str:
        """Returns the name of a consumer, by the rules for the `consumer-name` of a SUBSCRIBE."""
        name = self.text("name", "the name of a consumer")
        wrong = consumer_name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"`name` {shown(name)} {wrong}.")
        return name

    def offsets(self, key: str) -> Any:
        """Returns the value unchecked: only the core knows how many partitions there are."""
        return self.given.get(key)

    def may_create(self, kind: str, settings: Settings) -> bool:
        """Returns whether a `declare` may create the queues that its settings lead to. Refuses `create` if they lead to
        none.
        """
        if "create" not in self:
            return True
        create, leads_by = self.flag("create", True), KINDS[kind].leads_by
        if not leads_by or settings.get(leads_by) is None:
            why = f"there is no `{leads_by}` with it" if leads_by else f"{_a(kind)} leads to no queue by its settings"
            raise mistake("create", f"is {json.dumps(create)}, and {why}: leave it out")
        return create

    def forced(self, why: str) -> str:
        """Returns the name of a peer, if `force` confirms that the consequences are known. why: these, for the
        refusal.
        """
        self.has_only("peer", "force")
        name, force = self.text("peer", "the name of a node"), self.given.get("force")
        if force is not True:
            raise mistake("force", f"must be true, because {why}; it is {shown(force)}")
        return name


def _a(kind: str) -> str:
    return f"{'an' if kind == 'exchange' else 'a'} {kind}"


def _what(kind: str) -> str:
    return f"the name of {_a(kind)}"


def _name(kind: str, key: str, text: str) -> str:
    """Returns the NAME in a text that is NAME or /KIND/NAME."""
    try:
        name = name_in(kind, text)
    except ValueError as error:
        raise mistake(key, str(error)) from error
    wrong = name_mistake(name)
    if wrong:
        raise mistake(key, f"must be {_what(kind)}; it is {shown(name)}, which {wrong}")
    return name


def _utf8_size(text: str) -> int:
    """Returns the size in bytes of UTF-8; 0 for half of a surrogate pair, which JSON can contain."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _label(key: str, value: Any) -> str:
    if isinstance(value, str) and 1 <= _utf8_size(value) <= NAME_MAX_BYTES:
        return value
    raise Refusal("bad-request", f"`{key}` must be a name of 1 to {NAME_MAX_BYTES} bytes; it is {shown(value)}.")
