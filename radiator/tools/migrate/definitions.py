"""Reads what a RabbitMQ broker has, as it writes it down: `rabbitmqctl export_definitions FILE`, or GET
/api/definitions.

The file comes from elsewhere: each field is looked at, and a mistake is a sentence that names it.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from radiator.model.checks import shown
from radiator.model.errors import ConfigError, count_text

FILE_MAX_BYTES = 256 * 1024 * 1024
_NOT_TAKEN = {
    "users": ("user", "Radiator's users are in config.toml: docs/SECURITY.md, AMQP"),
    "permissions": ("permission", "Radiator's rights are in config.toml: docs/SECURITY.md, AMQP"),
    "topic_permissions": ("topic permission", "Radiator's rights are in config.toml: docs/SECURITY.md, AMQP"),
}


class DefinedQueue(NamedTuple):
    """A queue of the old broker."""

    name: str
    durable: bool
    auto_delete: bool
    arguments: Mapping[str, Any]


class DefinedExchange(NamedTuple):
    """An exchange of it."""

    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, Any]


class DefinedBinding(NamedTuple):
    """A binding of it. is_queue: it leads to a queue, and not to an exchange."""

    source: str
    destination: str
    is_queue: bool
    routing_key: str
    arguments: Mapping[str, Any]


class DefinedPolicy(NamedTuple):
    """Settings of all queues, or exchanges, with such a name. Only one counts for each: that of the highest priority.
    is_operator: one of the operator policies, which apply besides. pattern: of what `as_rabbitmq_matches` makes of one.
    """

    name: str
    pattern: re.Pattern[str]
    applies_to: str
    priority: int
    definition: Mapping[str, Any]
    is_operator: bool


@dataclass(slots=True)
class Definitions:
    """The definitions of one virtual host. others: a sentence for each kind of thing that is not migrated at all."""

    queues: list[DefinedQueue] = field(default_factory=list)
    exchanges: list[DefinedExchange] = field(default_factory=list)
    bindings: list[DefinedBinding] = field(default_factory=list)
    policies: list[DefinedPolicy] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def read_definitions(path: Path, vhost: str) -> Definitions:
    """Raises ConfigError."""
    try:
        with path.open("rb") as file:
            text = file.read(FILE_MAX_BYTES + 1)
    except OSError as wrong:
        raise ConfigError([f"{path} cannot be read: {wrong.strerror}. Name a file that is there."]) from None
    if len(text) > FILE_MAX_BYTES:
        raise ConfigError([f"{path} has more than {FILE_MAX_BYTES} bytes: no definitions are so long."])
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        why = "it is nested too deeply" if isinstance(wrong, RecursionError) else str(wrong)
        raise ConfigError([f"{path} is not JSON: {why}."]) from None
    if not isinstance(found, dict) or not isinstance(found.get("queues"), list):
        ways = "rabbitmqctl export_definitions FILE, or GET /api/definitions of its management plug-in, makes it"
        raise ConfigError([f"{path} has no definitions of RabbitMQ: an object with `queues` is needed; {ways}."])
    return _definitions(found, path, vhost)


def _definitions(found: Mapping[str, Any], path: Path, vhost: str) -> Definitions:
    made = Definitions()
    rows = _Rows(found, path, vhost)
    for one in rows.of("queues"):
        made.queues.append(
            DefinedQueue(
                one.text("name"), one.flag("durable"), one.flag("auto_delete"), _with_type(one.table("arguments"), one)
            )
        )
    for one in rows.of("exchanges"):
        flags = one.flag("durable"), one.flag("auto_delete"), one.flag("internal")
        made.exchanges.append(DefinedExchange(one.text("name"), one.text("type"), *flags, one.table("arguments")))
    for one in rows.of("bindings"):
        is_queue = one.text("destination_type") == "queue"
        names = one.text("source"), one.text("destination")
        made.bindings.append(DefinedBinding(*names, is_queue, one.text("routing_key"), one.table("arguments")))
    made.policies += [_policy(one, is_operator=False) for one in rows.of("policies")]
    kinds: dict[str, int] = {}
    for one in rows.of("parameters"):
        component = one.text("component")
        if component == "operator_policy":
            name = one.text("name")
            value = _Row({"vhost": vhost, "name": name, **one.table("value")}, one.where)
            made.policies.append(_policy(value, is_operator=True))
        else:
            kinds[component] = kinds.get(component, 0) + 1
    made.others = [*rows.others(), *(_parameters(component, count) for component, count in kinds.items())]
    return made


def _with_type(arguments: Mapping[str, Any], row: "_Row") -> Mapping[str, Any]:
    """RabbitMQ 4 has the type beside the arguments too."""
    kind = row.values.get("type")
    return {"x-queue-type": kind, **arguments} if isinstance(kind, str) and kind != "classic" else arguments


def as_rabbitmq_matches(text: str) -> str:
    """A name or a pattern as RabbitMQ compares the two: each byte of UTF-8 is a character of Latin-1."""
    return text.encode(errors="surrogatepass").decode("latin-1")


def _policy(row: "_Row", is_operator: bool) -> DefinedPolicy:
    pattern = row.text("pattern")
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):  # as of [[:alpha:]]: it means other names
            compiled = re.compile(as_rabbitmq_matches(pattern))
    except (re.error, RecursionError, OverflowError, FutureWarning):
        ways = "a regular expression that Python reads is needed: write it so in the file"
        raise ConfigError([f"{row.where}: the pattern {shown(pattern)} cannot be read; {ways}."]) from None
    priority = row.values.get("priority", 0)
    if not isinstance(priority, int):
        raise ConfigError([f"{row.where}: priority is {shown(priority)}: it is a whole number."])
    applies_to = row.values.get("apply-to", "all")
    return DefinedPolicy(row.text("name"), compiled, str(applies_to), priority, row.table("definition"), is_operator)


def _parameters(component: str, count: int) -> str:
    return f"{count_text(count, 'parameter')} of {shown(component)}: there is no such part here."


class _Row:
    """An object of the file. where: how a sentence names it."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def text(self, name: str) -> str:
        return str(self._checked(name, str, "text"))

    def flag(self, name: str) -> bool:
        return bool(self._checked(name, bool, "true or false")) if name in self.values else False

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.values.get(name, {})
        if isinstance(value, list) and all(isinstance(one, list) and len(one) == 2 for one in value):
            return {str(key): item for key, item in value}  # rabbitmqctl writes those of operator policies so
        return dict(self._checked(name, dict, "an object")) if name in self.values else {}

    def _checked(self, name: str, kind: type, what: str) -> Any:
        value = self.values.get(name)
        if not isinstance(value, kind):
            raise ConfigError([f"{self.where}: {name} is {shown(value)}: it must be {what}."])
        return value


class _Rows:
    """The lists of the file, of one virtual host; a file of one alone does not say which."""

    def __init__(self, found: Mapping[str, Any], path: Path, vhost: str) -> None:
        self._found = found
        self._path = path
        self._vhost = vhost
        self._elsewhere: dict[str, dict[str, int]] = {}

    def of(self, kind: str) -> Iterator[_Row]:
        for number, values in enumerate(self._list(kind)):
            where = f"{self._path}: {kind}[{number}]"
            if not isinstance(values, dict):
                raise ConfigError([f"{where} is {shown(values)}: it must be an object."])
            vhost = values.get("vhost", self._vhost)
            if vhost == self._vhost:
                yield _Row(values, where)
            else:
                counts = self._elsewhere.setdefault(str(vhost), {})
                counts[kind] = counts.get(kind, 0) + 1

    def others(self) -> list[str]:
        """Returns what is not migrated: of other virtual hosts, and of kinds that this broker does not have."""
        found = []
        for vhost, counts in self._elsewhere.items():
            what = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            found.append(f"virtual host {shown(vhost)}: {what}. One is moved in each run: --vhost names it.")
        for kind, (one, why) in _NOT_TAKEN.items():
            if count := len(self._list(kind)):
                found.append(f"{count_text(count, one)}: {why}.")
        return found

    def _list(self, kind: str) -> list[Any]:
        value = self._found.get(kind, [])
        if not isinstance(value, list):
            raise ConfigError([f"{self._path}: {kind} is {shown(value)}: it must be a list."])
        return value
