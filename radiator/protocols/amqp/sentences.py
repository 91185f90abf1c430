"""The broker's refusals in the words of AMQP: a queue is a name in a vhost, not an address of Radiator's.

Each begins as RabbitMQ's does, since clients and their users look for that; what follows it helps with this broker.
"""

from collections.abc import Callable, Mapping
from typing import Any

from radiator.model.errors import Grounds
from radiator.model.grounds import (
    ExchangeOtherwise,
    InExclusiveUse,
    Locked,
    NobodyAsks,
    NoRight,
    NoSuchExchange,
    NoSuchQueue,
    OwnedOtherwise,
    QueueGivenOtherwise,
    QueueNotDeclared,
    QueueOtherwise,
)
from radiator.protocols.amqp.addresses import REPLY_TO
from radiator.protocols.amqp.arguments import argument_of, value_of

_VHOST = "in vhost '/'"


def _no_queue(grounds: NoSuchQueue | QueueNotDeclared) -> str:
    return f"no queue '{grounds.name}' {_VHOST}"


def _no_asker(grounds: NobodyAsks) -> str:
    return f"no queue '{REPLY_TO}.{grounds.reply_id}' {_VHOST}"


def _no_exchange(grounds: NoSuchExchange) -> str:
    return f"no exchange '{grounds.name}' {_VHOST}"


def _locked(grounds: Locked) -> str:
    return (
        f"cannot obtain exclusive access to locked queue '{grounds.name}' {_VHOST}: connection {grounds.owner} has "
        "declared it, and it is deleted with that connection. Others may publish to it"
    )


def _owned_otherwise(grounds: OwnedOtherwise) -> str:
    received, current = str(not grounds.is_owned).lower(), str(grounds.is_owned).lower()
    begins = f"cannot obtain exclusive access to locked queue '{grounds.name}' {_VHOST}"
    return f"{begins}: received exclusive '{received}' but current is '{current}'"


def _in_use(grounds: InExclusiveUse) -> str:
    return f"queue '{grounds.name}' {_VHOST} in exclusive use"


def _other_queue(grounds: QueueOtherwise | QueueGivenOtherwise) -> str:
    return _inequivalent("queue", grounds.name, grounds.key, grounds.here, grounds.wanted)


def _other_exchange(grounds: ExchangeOtherwise) -> str:
    return _inequivalent("exchange", grounds.name, *grounds.difference)


def _inequivalent(kind: str, name: str, setting: str, here: object, wanted: object) -> str:
    received, current = value_of(setting, wanted), value_of(setting, here)
    begins = f"inequivalent arg '{argument_of(setting)}' for {kind} '{name}' {_VHOST}"
    return f"{begins}: received {received} but current is {current}"


def _forbidden(grounds: NoRight) -> str:
    kind, _, name = grounds.address.removeprefix("/").partition("/")
    if kind not in ("queue", "exchange"):
        return str(grounds)
    exchange, slash, key = name.partition("/")
    is_key = kind == "exchange" and bool(slash)
    what = f"topic '{key}' in exchange '{exchange}'" if is_key else f"{kind} '{name}'"
    why = f"{grounds.lacking} {grounds.address}"
    return f"{grounds.right} access to {what} {_VHOST} refused for user '{grounds.user}': {why}"


WORDS: Mapping[type[Grounds], Callable[[Any], str]] = {
    NoSuchQueue: _no_queue,
    QueueNotDeclared: _no_queue,
    NobodyAsks: _no_asker,
    NoSuchExchange: _no_exchange,
    Locked: _locked,
    OwnedOtherwise: _owned_otherwise,
    InExclusiveUse: _in_use,
    QueueOtherwise: _other_queue,
    QueueGivenOtherwise: _other_queue,
    ExchangeOtherwise: _other_exchange,
    NoRight: _forbidden,
}


def in_words(sentence: str, grounds: Grounds | None) -> str:
    """Returns what an AMQP client is told in place of that sentence; without grounds, the sentence itself."""
    return sentence if grounds is None else WORDS[type(grounds)](grounds)


def login_refused(sentence: str, mechanism: str) -> str:
    """Returns the sentence for a refused login. sentence: what a STOMP client is told."""
    why = sentence.rstrip(".")
    if sentence.startswith("CONNECT needs"):
        why = "it takes the name of a user of this broker with the password, or one of the tokens, of that user"
        if mechanism == "EXTERNAL":
            why = "no user of this broker is recognised by what this connection proves"
    return f"Login was refused using authentication mechanism {mechanism}: {why}"


def secret_refused(user: str) -> str:
    """Returns the sentence for a refused connection.update-secret."""
    return f"New secret was refused: it must be a password or a token of the user '{user}', who has logged in"
