"""Says what is wrong with an unknown option: which one may be meant, or what to use instead."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

_KAFKAS = {  # what to use instead of the options of Kafka's source and sink
    "kafka.bootstrap.servers": 'Say where the broker is with url ("stomp://HOST:61613").',
    "topic": 'Say where rows are sent with destination ("/log/NAME", "/queue/NAME", ...).',
    "startingoffsetsbytimestamp": "There is startingTimestamp, one time for all partitions.",
    "endingoffsetsbytimestamp": "There is endingTimestamp, one time for all partitions.",
}
_SECRETS = frozenset(["password", "passcode", "token", "secret"])  # whatever its name, others could read it


def why_unknown(name: str, allowed: Collection[str], by_name: Mapping[str, str], what: str) -> str:
    """Returns a sentence that says why the option is not allowed for `what`. name: in lower case, as in by_name, which
    has all options.
    """
    known = by_name.get(name)
    if known is not None:
        return f"The option {known} has no meaning for {what}."
    if name in _SECRETS:
        return (
            f"There is no option {name!r}: it would be in the query's plan for others to read. Write the password, "
            "or token, into a file, and give that as the option passwordFile."
        )
    if name == "path":
        return "Nothing is read or written at a path: give the option subscribe, or destination."
    if name in _KAFKAS:
        return f"There is no option {name!r}. {_KAFKAS[name]}"
    # an option that is not allowed here may be meant, too: the nearest allowed one would mislead
    close = get_close_matches(name, [*by_name, *_KAFKAS], 1)
    if not close:
        hint = f"There are: {', '.join(sorted(allowed))}."
    elif close[0] in _KAFKAS:
        hint = _KAFKAS[close[0]]
    else:
        meant = by_name[close[0]]
        hint = f"Is {meant} meant?" + ("" if meant in allowed else f" That has no meaning for {what}.")
    return f"There is no option {name!r} for {what}. {hint}"
