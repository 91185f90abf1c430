"""What a user may do: rights on patterns of addresses (docs/SECURITY.md)."""

from dataclasses import dataclass

from radiator.model.addresses import ADMIN as ADMIN_ADDRESS
from radiator.model.addresses import (
    CHECKOUT_LOGS,
    EXISTING_PREFIX,
    KINDS,
    LOG,
    address_mistake,
    queue_address,
)
from radiator.model.limits import PATTERN_WILDCARDS_MAX
from radiator.model.patterns import contains

READ, WRITE, DECLARE, SEE, ADMIN = "read", "write", "declare", "see", "admin"
RIGHTS = (READ, WRITE, DECLARE, SEE, ADMIN)
VIEWER, OPERATOR = "viewer", "operator"
ROLES = (VIEWER, OPERATOR)

APP = "app"
"""The kind of a rule for the versions of an app (`producer-id` of a COMMIT), which is not a destination."""
EVERYTHING = "/#"
"""The rule of all addresses."""
ROLE_RIGHTS = {"": (), VIEWER: (SEE,), OPERATOR: RIGHTS}
"""The rights that a role gives on everything."""
FREE = tuple(name for name, kind in KINDS.items() if kind.is_private)
"""The kinds of addresses that need no right: what one connection has for itself, and the answers to it."""

_CHECKOUT_PREFIX = f"/{LOG}/{CHECKOUT_LOGS}"
_KEY_BEGINS = "\n"  # a word between NAME and KEY that no address can have


@dataclass(slots=True, frozen=True, kw_only=True)
class Rules:
    """For each right, the patterns of full addresses on which it is given, as in config.toml (`/queue/orders.#`); and a
    role, or "".
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    declare: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    role: str = ""

    def of(self, right: str) -> tuple[str, ...]:
        """The patterns on which that right is given, those of the role included."""
        given: tuple[str, ...] = getattr(self, right)
        return (*given, EVERYTHING) if right in ROLE_RIGHTS[self.role] else given


def rule_mistake(rule: str, right: str = "") -> str:
    """What is wrong with a pattern, as text after its name; "" where nothing is. right: that it is written under."""
    if rule == EVERYTHING:
        return ""
    if right == ADMIN:
        return f"is not a rule of `{ADMIN}`, which is of the broker as a whole: write {EVERYTHING}"
    if not rule.startswith("/"):
        return f"begins with no `/`: a rule is a whole address, such as /queue/{rule or 'orders'}"
    if rule.startswith(EXISTING_PREFIX):
        return f"is the other address of a queue: write {queue_address(rule)}"
    kind, _, name = rule[1:].partition("/")
    if kind in FREE or rule == ADMIN_ADDRESS:
        return "needs no right: leave it out"
    if kind == APP and right not in ("", WRITE):
        return f"is for the versions of an app, which take `{WRITE}`: it does nothing under `{right}`"
    if (kind not in KINDS and kind != APP) or not name:
        kinds = ", ".join(f"/{kind}/" for kind in (*KINDS, APP) if kind not in FREE)
        return f"is not a rule: it must begin with {kinds} and a name after that, or be {EVERYTHING}"
    if rule.startswith(_CHECKOUT_PREFIX):
        return f"is what a group has taken out of a queue: write {canonical(rule)}"
    if kind == APP:
        return _wildcards_mistake(name.split("."))
    if wrong := address_mistake(rule):
        return wrong
    return _wildcards_mistake([*name.replace("/", ".").split(".")] if KINDS[kind].has_key else name.split("."))


def _wildcards_mistake(words: list[str]) -> str:
    count = 0
    for word in words:
        if word in ("*", "#"):
            count += 1
        elif "*" in word or "#" in word:
            return f"has {word!r} between dots: `*` and `#` stand for whole words, as in orders.*"
    if count > PATTERN_WILDCARDS_MAX:
        return f"has {count} wildcards: a rule has at most {PATTERN_WILDCARDS_MAX}"
    return ""


def canonical(address: str) -> str:
    """The address that is judged for this one, which a client may write otherwise: that of a queue for both of its
    addresses and for what a group has taken out of it; of an exchange with its key, which may be empty.
    """
    address = queue_address(address)
    if address.startswith(_CHECKOUT_PREFIX):
        return f"/queue/{address.removeprefix(_CHECKOUT_PREFIX).rpartition('/')[0]}"
    kind, _, name = address[1:].partition("/")
    return f"{address}/" if kind in KINDS and KINDS[kind].has_key and "/" not in name else address


def as_words(address: str) -> str:
    """An address as one name of words between dots, for model/patterns.py: its kind, its NAME, and its KEY where its
    kind has one.
    """
    return ".".join(_parts(address))


def pattern_words(pattern: str) -> str:
    """A rule, or a pattern of addresses, as such words; without a KEY it is for every key."""
    if pattern == EVERYTHING:
        return "#"
    # a NAME or KEY has a word at least, which may be empty
    return ".".join("*.#" if set(part.split(".")) == {"#"} else part for part in _parts(pattern, "#"))


def _parts(address: str, key_if_none: str = "") -> list[str]:
    if _KEY_BEGINS in address:
        return [_KEY_BEGINS]  # no rule but EVERYTHING is for it
    kind, _, name = address[1:].partition("/")
    if kind not in KINDS or not KINDS[kind].has_key:
        # of the broker's own queues ($durable/topic/NAME/ID) each part is words of its own: no `*` alone is for them
        return [kind, name.replace("/", ".") if name.startswith("$") else name]
    name, slash, key = name.partition("/")
    return [kind, name, _KEY_BEGINS, key if slash else key_if_none]


def rule_contains(rule: str, pattern: str) -> bool:
    """Whether the rule is for every address that the pattern of addresses matches."""
    return contains(pattern_words(rule), pattern_words(pattern))
