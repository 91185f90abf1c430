"""Finds where a message goes from an exchange that leads on: through others that it is bound to, to an alternate where
one routes it nowhere, and by headers. Each exchange is visited once, so that a cycle ends.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from radiator.core.queues.target import Target
from radiator.core.routing.exchange import Exchange
from radiator.core.routing.matcher import Headers
from radiator.model.errors import Refusal
from radiator.model.settings import FANOUT, HEADERS, TOPIC
from radiator.model.validation import words_mistake

VISITED_MAX = 256  # refuse: exchanges that one message goes through
VISITED_STEPS_MAX = 50_000  # refuse: steps of matching in all of them, of some 0.4 µs each


@dataclass(slots=True)
class Ways:
    """targets: by queue or log, the exchange that it was found by first. steps: the cost of the matching. visited: each
    exchange, and the one that led to it, None for the first.
    """

    targets: dict[Target, Exchange] = field(default_factory=dict)
    steps: int = 0
    visited: dict[Exchange, Exchange | None] = field(default_factory=dict)


def find_ways(
    all_: Mapping[str, Exchange],
    first: Exchange,
    keys: Sequence[str],
    headers: Headers,
    without: Collection[Target],
    is_dead_letter: bool = False,
) -> Ways:
    """Returns where a message with these keys goes from `first`; targets in `without` get nothing. Raises Refusal where
    it would go through too many exchanges, or reaches one of type topic that takes no such key. A dead letter has
    no sender to tell, and passes that exchange by instead.
    """
    ways = Ways(visited={first: None})
    waiting = deque([first])
    while waiting:
        one = waiting.popleft()
        before = one.steps
        targets, onward = _bound(one, keys, headers, is_dead_letter)
        ways.steps += one.steps - before
        reached = [target for target in targets if target not in without]
        for target in reached:
            ways.targets.setdefault(target, one)
        if not reached and not onward:
            alternate = all_.get(one.settings.alternate or "")
            onward = [alternate] if alternate is not None else []
        for following in onward:
            if following not in ways.visited:
                ways.visited[following] = one
                waiting.append(following)
        if len(ways.visited) > VISITED_MAX or ways.steps > VISITED_STEPS_MAX:
            raise Refusal(
                "too-many-bindings",
                f"A message to {first.address} goes through more than {VISITED_MAX} exchanges, or through bindings "
                f"that take more than {VISITED_STEPS_MAX} steps: bind queues to exchanges nearer to it.",
            )
    return ways


def _bound(
    one: Exchange, keys: Sequence[str], headers: Headers, is_dead_letter: bool
) -> tuple[Collection[Target], Collection[Exchange]]:
    """Returns the targets and the exchanges bound to this exchange that get the message."""
    if one.type in (FANOUT, HEADERS):
        keys = keys[:1]  # they do not matter
    elif one.type == TOPIC and is_dead_letter:
        keys = [key for key in keys if not words_mistake(key)]
    else:
        for key in keys:
            one.check_key(key, for_send=True)
    targets: dict[Target, None] = {}
    onward: dict[Exchange, None] = {}
    for key in keys:
        targets.update(dict.fromkeys(one.matching(key, headers)))
        if one.onward is not None:
            onward.update(dict.fromkeys(one.onward.matching(key, headers)))
    return targets, onward
