"""One table of a file: its settings that are right, and a mistake for each other one."""

from collections.abc import Mapping
from typing import Any

from radiator.model.checks import Check, meant, shown
from radiator.tools.config.mistakes import Keys, Mistakes

_GONE = {
    ("server", "allow_anonymous"): "is no longer a setting, since there are users: remove it, and write what clients "
    'without a login may do as [user."anonymous"] with read = ["/queue/#"] and write = ["/queue/#"], say; and to be '
    'reached by other machines without TLS, plain = ["stomp://HOST:PORT"] in [server]'
}


def settings(keys: Keys, table: object, checks: Mapping[str, Check], mistakes: Mistakes) -> dict[str, Any]:
    """Returns the table's settings that are right; all others are mistakes."""
    if not isinstance(table, dict):
        mistakes.add(keys, f"is {shown(table)}; it must be a table")
        return {}
    right = {}
    for key, value in table.items():
        check = checks.get(key)
        if check is None:
            mistakes.add((*keys, key), _GONE.get((*keys, key)) or _unknown(keys, key, value, checks))
            continue
        try:
            right[key] = check(value)
        except ExceptionGroup as several:
            for error in several.exceptions:
                mistakes.add((*keys, key), str(error))
        except ValueError as error:
            mistakes.add((*keys, key), str(error))
    return right


def _unknown(keys: Keys, key: str, value: object, checks: Mapping[str, Check]) -> str:
    if isinstance(value, dict) and len(keys) > 1:
        return f'is not a setting; put a name with dots in quotes: [{keys[0]}."{".".join((*keys[1:], key))}"]'
    offer = meant(key, checks) or (f"; it has {', '.join(checks)}" if checks else "; it has none")
    return f"is not a setting of this table{offer}"
