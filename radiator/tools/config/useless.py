"""Settings of a file that are valid but have no effect beside the others. They are reported, and do not stop a start.

A setting that is written with its default value has no effect either, but is not reported: a file may list everything.
"""

from collections.abc import Mapping
from typing import Any

from radiator.model.checks import shown
from radiator.model.limits import Limits, high_water_bytes
from radiator.model.patterns import is_pattern
from radiator.model.rights import RIGHTS, Rules
from radiator.model.settings import FANOUT, MAP_SIZE, NONE, PEERS, LogSettings, QueueSettings
from radiator.model.users import User
from radiator.model.validation import with_bounds
from radiator.model.without_effect import log_without_effect, without_effect
from radiator.protocols.schemes import SCHEMES
from radiator.tools.config.mistakes import Mistakes
from radiator.tools.config.rules import File, exchange_type

_OF_DURABLE = "$durable."  # what a pattern begins with that is for the queues of durable subscriptions
_NOT_OF_DURABLE = {
    "persistent": True,
    "auto_delete": False,
    "exclusive": False,
    "scope": "node",
    "partition_key": (),
    "max_priority": None,
    "single_active_consumer": False,
}


def find_useless(file: File, limits: Limits, found: Mistakes) -> None:
    """Adds each setting that has no effect. limits: those in force."""
    store_bytes = high_water_bytes(file.server.get("map_size", MAP_SIZE), limits)
    for kind, names in (("queue", file.queues), ("topic", file.topics)):
        for name in names:
            _find_in_name(kind, name, found)
    for name, table in file.queues.items():
        for key, wrong in without_effect(with_bounds(QueueSettings(**table)), store_bytes, limits.max_memory_bytes):
            _add(found, ("queue", name, key), wrong)
        if is_pattern(name) and name.startswith(_OF_DURABLE):
            for key, default in _NOT_OF_DURABLE.items():
                if table.get(key, default) != default:
                    never = "is" if key in ("persistent", "auto_delete", "exclusive", "scope") else "has"
                    wrong = f"is {shown(table[key])}, which the queue of a durable subscription never {never}"
                    _add(found, ("queue", name, key), f"{wrong}; leave it out")
    for name, table in file.logs.items():
        for key, wrong in log_without_effect(LogSettings(**table), store_bytes):
            _add(found, ("log", name, key), wrong)
    _find_in_journal(file, store_bytes, found)
    for name, table in file.exchanges.items():
        keys = [key for key, _ in table.get("bindings", ()) if key]
        if keys and exchange_type(name, table) == FANOUT:
            wrong = f"has the key {shown(keys[0])}, which an exchange of type fanout does not look at; leave it out"
            found.add(("exchange", name, "bindings"), wrong)
    _find_in_tls(file, found)
    each = limits.max_half_open_per_address
    if each > limits.max_half_open and each != Limits().max_half_open_per_address:
        wrong = f"is {each}, more than max_half_open ({limits.max_half_open}); lower this, or raise that"
        _add(found, ("limits", "max_half_open_per_address"), wrong)


def find_in_users(users: Mapping[str, User], now_s: float, found: Mistakes) -> None:
    """Adds what lets nobody in, or allows nothing. now_s: since the epoch."""
    for name, user in users.items():
        if any(token.until_ms is not None and token.until_ms <= now_s * 1000 for token in user.tokens):
            found.add(("user", name, "tokens"), "has an expired token; remove it")
        if user.rules == Rules():
            right = 'give it one, such as read = ["/queue/orders"]'
            found.add(("user", name), f"has neither a rule nor a role, and may do nothing; {right}")
        for right in RIGHTS:
            for rule in user.rules.of(right):
                if ">" in rule.replace("/", ".").split("."):
                    wrong = f"has {shown(rule)}, where `>` is a name like any other"
                    found.add(("user", name, right), f"{wrong}; for any number of words write #")


def _find_in_name(kind: str, name: str, found: Mistakes) -> None:
    """Adds a word that looks like a wildcard and is none."""
    for word in name.split("."):
        if len(word) > 1 and ("*" in word or "#" in word):
            wrong = f"is no pattern, as {shown(word)} is a word like any other"
            found.add((kind, name), f"{wrong}; a wildcard is a whole word between dots, as in orders.*")


def _find_in_tls(file: File, found: Mistakes) -> None:
    if file.tls is None:
        return
    node = file.node or {}
    dialled = [table["address"] for table in file.peers.values() if "address" in table]
    listen = [*file.listen(), *([node["listen"]] if "listen" in node else [])]
    if not any(SCHEMES[one.scheme].is_encrypted for one in (*listen, *dialled)):
        _add(found, ("tls",), "is given, but no listener is encrypted; add stomps://HOST:PORT to server.listen")
    elif "peer_ca" in file.tls and not node.get("discover") and PEERS not in {one.scheme for one in dialled}:
        wrong = "is given, but no node is dialled over TLS"
        _add(found, ("tls", "peer_ca"), f'{wrong}; write address = "peers://HOST:PORT" in [peer.NAME]')
    asked = {table.get("client_certificates", NONE) for table in (file.tls, *file.tls_of_listeners.values())}
    if "client_ca" in file.tls and asked == {NONE}:
        wrong = "is given, but clients are asked for no certificate"
        _add(found, ("tls", "client_ca"), f'{wrong}; set client_certificates = "optional" or "required"')


def _find_in_journal(file: File, store_bytes: int, found: Mistakes) -> None:
    given: dict[str, Any] = {key: value for key, value in file.journal.items() if key != "enabled"}
    if file.journal.get("enabled"):
        for prefix in ("", "audit_"):
            keys = [key for key in given if key.startswith(f"{prefix}retention")]
            own = {key.removeprefix(prefix): given[key] for key in keys}
            for key, wrong in log_without_effect(LogSettings(**own), store_bytes):
                _add(found, ("journal", prefix + key), wrong)
        return
    for key in given:
        _add(found, ("journal", key), "is given, but the journal is not written; set enabled = true")


def _add(found: Mistakes, keys: tuple[str, ...], wrong: str) -> None:
    """wrong: what is so, and after a `;` what would help."""
    found.add(keys, f"has no effect: it {wrong}")
