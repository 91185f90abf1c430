"""The broker's refusals in the words of AMQP: a queue is a name in a vhost, and no address of Radiator.

Each begins as RabbitMQ's does, since clients and their users look for that; what follows is what helps here.
"""

import re
from collections.abc import Callable

from radiator.model.errors import FORBIDDEN
from radiator.protocols.amqp.arguments import argument_of

_VHOST = "in vhost '/'"

Words = Callable[[re.Match[str]], str]


def _none(kind: str) -> Words:
    return lambda found: f"no {kind} '{found[1]}' {_VHOST}"


def _locked(found: re.Match[str]) -> str:
    return (
        f"cannot obtain exclusive access to locked queue '{found[1]}' {_VHOST}: connection {found[2]} has declared it, "
        "and it ends with that one. Others may publish to it"
    )


def _in_use(found: re.Match[str]) -> str:
    return f"queue '{found[1]}' {_VHOST} in exclusive use"


def _other_queue(found: re.Match[str]) -> str:
    name, key, here, wanted = found.groups()
    return _other_setting(name, key, here, wanted)


def _given_otherwise(found: re.Match[str]) -> str:
    name, here, key, wanted = found.groups()
    return _other_setting(name, key, here, wanted)


def _other_setting(name: str, key: str, here: str, wanted: str) -> str:
    unit = " s" if key.endswith("_s") else ""
    current, received = ("none" if one in ("None", "nothing") else f"'{one}{unit}'" for one in (here, wanted))
    return _inequivalent("queue", name, argument_of(key)) + f"received {received} but current is {current}"


def _owned_otherwise(found: re.Match[str]) -> str:
    is_owned = found[2] == "owned"
    received, current = str(not is_owned).lower(), str(is_owned).lower()
    return _inequivalent("queue", found[1], "exclusive") + f"received '{received}' but current is '{current}'"


def _other_exchange(found: re.Match[str]) -> str:
    return _inequivalent("exchange", found[1], "type") + f"it is there with {found[2]}"


def _inequivalent(kind: str, name: str, argument: str) -> str:
    return f"inequivalent arg '{argument}' for {kind} '{name}' {_VHOST}: "


def _forbidden(found: re.Match[str]) -> str:
    user, right, kind, name, rule = found.groups()
    exchange, slash, key = name.partition("/")
    is_key = kind == "exchange" and bool(slash)
    what = f"topic '{key}' in exchange '{exchange}'" if is_key else f"{kind} '{name}'"
    why = f"there is no {rule.removesuffix('it')}/{kind}/{name}"
    return f"{right} access to {what} {_VHOST} refused for user '{user}': {why}"


_WORDS: tuple[tuple[str, re.Pattern[str], Words], ...] = tuple(
    (code, re.compile(pattern, re.DOTALL), words)
    for code, pattern, words in (
        (
            "no-such-destination",
            r"There is no /queue/(.*?)(?:\.(?: There is a /log/.*)?|[:,] [a-z ]+\.)",
            _none("queue"),
        ),
        ("no-such-destination", r"/queue/(.*) is not declared, and .*", _none("queue")),
        ("no-such-destination", r"/exchange/(.*) is not declared: .*", _none("exchange")),
        ("no-such-destination", r"There is no /exchange/(.*)\.", _none("exchange")),
        ("locked", r"/queue/(.*) is owned by connection (\d+): .*", _locked),
        ("exclusive", r"/queue/(.*) already has its one exclusive consumer\.", _in_use),
        ("declared-otherwise", r"/queue/(.*) is there already: its (\w+) is (.*), not (.*)\.", _other_queue),
        ("declared-otherwise", r"/queue/(.*) is there already: it is (owned|not owned), not .*", _owned_otherwise),
        (
            "declared-otherwise",
            r"/queue/(.*) is there already: it was declared with (.*) as its (\w+), and not (.*)\.",
            _given_otherwise,
        ),
        ("declared-otherwise", r"/exchange/(.*) is there already, with (.*)\.", _other_exchange),
        (FORBIDDEN, r"The user (\S+) may not (\w+) /(queue|exchange)/(.*): there is no (.*)\.", _forbidden),
    )
)


def in_words(code: str, sentence: str) -> str:
    """What a client of AMQP is told in its place; the same where AMQP has no other words for it."""
    for of_code, pattern, words in _WORDS:
        if of_code == code and (found := pattern.fullmatch(sentence)) is not None:
            return words(found)
    return sentence


def login_refused(sentence: str, mechanism: str) -> str:
    """Of a login. sentence: what a client of STOMP is told."""
    why = sentence.rstrip(".")
    if sentence.startswith("CONNECT needs"):
        why = "it takes the name of a user of this broker with his password, or with one of his tokens in its place"
        if mechanism == "EXTERNAL":
            why = "no user of this broker is recognised by what this connection proves"
    return f"Login was refused using authentication mechanism {mechanism}: {why}"


def secret_refused(user: str) -> str:
    """Of connection.update-secret."""
    return f"New secret was refused: it must be a password or a token of the user '{user}', who has logged in"
