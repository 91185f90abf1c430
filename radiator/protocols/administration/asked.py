"""The JSON object that a request to /admin is, and what its keys may have."""

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
    """The JSON object of a request without its `do`. What a getter refuses is a `bad-request`."""

    __slots__ = ("do", "given")

    def __init__(self, do: str, given: dict[str, Any]) -> None:
        self.do = do
        self.given = given

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def has_only(self, *keys: str) -> None:
        """Refuses any other key: a misspelt one would silently mean something else."""
        for key in self.given:
            if key not in keys:
                has = f"it has {', '.join(keys)}" if keys else "it has nothing more"
                raise Refusal("bad-request", f"`{self.do}` has no {shown(key)} here; {has}.")

    def declaration(self, kind: str) -> tuple[str, Settings, bool]:
        """Of a `declare`: the name, the given settings, and whether it only asks whether it exists (`passive`)."""
        given = {key: value for key, value in self.given.items() if key not in (kind, "passive", "create")}
        return self.name(kind), given, self.flag("passive", False)

    def name(self, kind: str, key: str | None = None) -> str:
        """The NAME of a queue, exchange, fanout or log, also where it comes with the kind before it."""
        key = key or kind
        return _name(kind, key, self.text(key, _what(kind)))

    def names(self, kind: str, key: str, most: int) -> tuple[str, ...]:
        """Those of 1 to `most` things of that kind, each once."""
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
        """what: what the text must be, for the refusal."""
        text = self.given.get(key, default)
        if not isinstance(text, str):
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {shown(text)}.")
        return text

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        flag = self.given.get(key, default)
        if not isinstance(flag, bool):
            raise Refusal("bad-request", f"`{key}` must be true or false; it is {shown(flag)}.")
        return flag

    def page(self, kind: str) -> tuple[str | None, int | None, str | None]:
        """Names after which one, at most how many, and of which pattern: None where the request does not give it. kind:
        of what has the names; "": of nothing that has an address.
        """
        after = self.text("after", "the last name of the page before") if "after" in self else None
        limit = self.whole("limit", None, SIZE_MAX) if "limit" in self else None
        return after, limit, self.pattern("match", kind) if "match" in self else None

    def pattern(self, key: str, kind: str) -> str:
        """A pattern of names, which may stand after the kind: bounded, since each name is compared with it."""
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
        """A whole number from `least` up."""
        count = self.given.get(key, default)
        if not isinstance(count, int) or isinstance(count, bool) or count < least or (most and count > most):
            bound = f"from {least} to {most}" if most else f"from {least}"
            raise Refusal("bad-request", f"`{key}` must be a whole number {bound}; it is {shown(count)}.")
        return count

    def number(self, key: str, most: int, default: int | None = None) -> int:
        """A whole number from 0 to `most`; without a default the key is required."""
        number = self.given.get(key, default)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
            raise Refusal("bad-request", f"`{key}` must be a whole number from 0 to {most}; it is {shown(number)}.")
        return number

    def label(self, key: str) -> str:
        """The name of a prepared transaction, an app, or a group of a checkout: text of 1 to NAME_MAX_BYTES."""
        return _label(key, self.given.get(key))

    def labels(self) -> tuple[str, ...]:
        """Those of prepared transactions, each after `prefix`."""
        given = self.given.get("prepared")
        if not isinstance(given, list) or not given:
            raise Refusal("bad-request", f"`prepared` must be a list of names; it is {shown(given)}.")
        prefix = self.label("prefix") if "prefix" in self else ""
        return tuple(_label("prepared", prefix + name if isinstance(name, str) else name) for name in given)

    def group(self) -> str:
        """Of a log: what SUBSCRIBE may name, so control characters too, but only UTF-8."""
        group = self.text("group", "the name of a group")
        if not 1 <= _utf8_size(group) <= NAME_MAX_BYTES:
            raise mistake("group", f"must be a name of 1 to {NAME_MAX_BYTES} bytes of UTF-8; it is {shown(group)}")
        return group

    def consumer(self) -> str:
        """The `name` of a consumer, as a SUBSCRIBE has it."""
        name = self.text("name", "the name of a consumer")
        wrong = consumer_name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"`name` {shown(name)} {wrong}.")
        return name

    def offsets(self, key: str) -> Any:
        """Unchanged: the core refuses any that are not one for each partition."""
        return self.given.get(key)

    def may_create(self, kind: str, settings: Settings) -> bool:
        """Of a `declare`: whether the queues that the settings lead to may be made. Refused where they lead to none."""
        if "create" not in self:
            return True
        create, leads_by = self.flag("create", True), KINDS[kind].leads_by
        if not leads_by or settings.get(leads_by) is None:
            why = f"there is no `{leads_by}` with it" if leads_by else f"{_a(kind)} leads to no queue by its settings"
            raise mistake("create", f"is {json.dumps(create)}, and {why}: leave it out")
        return create

    def forced(self, why: str) -> str:
        """The name of a peer, where `force` confirms that the consequences are known."""
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
    """The NAME that the text is, or has after the kind."""
    try:
        name = name_in(kind, text)
    except ValueError as error:
        raise mistake(key, str(error)) from error
    wrong = name_mistake(name)
    if wrong:
        raise mistake(key, f"must be {_what(kind)}; it is {shown(name)}, which {wrong}")
    return name


def _utf8_size(text: str) -> int:
    """In bytes; 0 for half of a surrogate pair, which JSON can contain."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _label(key: str, value: Any) -> str:
    if isinstance(value, str) and 1 <= _utf8_size(value) <= NAME_MAX_BYTES:
        return value
    raise Refusal("bad-request", f"`{key}` must be a name of 1 to {NAME_MAX_BYTES} bytes; it is {shown(value)}.")
