"""What a user may do: rights on patterns of addresses (docs/SECURITY.md)."""

from dataclasses import dataclass

READ, WRITE, DECLARE, SEE, ADMIN = "read", "write", "declare", "see", "admin"
RIGHTS = (READ, WRITE, DECLARE, SEE, ADMIN)
VIEWER, OPERATOR = "viewer", "operator"
ROLES = (VIEWER, OPERATOR)


@dataclass(slots=True, frozen=True, kw_only=True)
class Rules:
    """By right, the patterns of full addresses that it is given on, as in config.toml (`/queue/orders.#`); and a role,
    or "".
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    declare: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    role: str = ""


def rule_mistake(rule: str) -> str:
    """What is wrong with a pattern, as text after its name; "" where nothing is."""
    return ""
