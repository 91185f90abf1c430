"""Requests that ask before something is done: `route`, where a message would go; `may`, whether a user has a right."""

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from radiator.core.answers import rested
from radiator.core.ports import AnsweringPort
from radiator.core.queues.target import Target
from radiator.core.request import Request
from radiator.core.rights import Granted, Need, Rights, granting, needs_for, refusal_of
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.exchange import Exchange
from radiator.core.routing.exchanges import Exchanges
from radiator.core.routing.matcher import Headers
from radiator.core.routing.ways import Ways
from radiator.model.administration import AskRight, FindRoute
from radiator.model.errors import Refusal, count_text
from radiator.model.limits import LOOKED_AT_PER_COPY, ROUTED_TARGETS
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.questions import RightJudged, RouteFound, RouteTarget
from radiator.model.rights import ADMIN, EVERYTHING
from radiator.model.users import User

JUDGED_AT_ONCE = 50  # bindings, or rules, that are judged one by one in one turn, some 20 µs each


class QuestionsPort(AnsweringPort, Protocol):
    """The parts of the broker that these requests may use."""

    @property
    def destinations(self) -> Destinations: ...


# ---- route ----------------------------------------------------------------------------------------------------------


def route(request: Request[QuestionsPort], command: FindRoute) -> None:
    """Answers with the queues and logs that a SEND of that key goes into, as far as an answer has room."""
    exchanges = request.parts.destinations.exchanges
    exchange = exchanges.get(command.exchange)
    exchange.check_key(command.key, for_send=True)
    headers = Headers(command.headers)
    ways = exchanges.ways(exchange, (command.key,), headers)
    request.costs((ways.steps + len(ways.visited)) * LOOKED_AT_PER_COPY + len(ways.targets))
    first, count = [*islice(ways.targets.items(), ROUTED_TARGETS)], len(ways.targets)
    sentence = _route_sentence(f"/exchange/{command.exchange}/{command.key}", count)
    request.answer_in_slices(
        lambda: RouteFound(Rows(_targets(exchanges, ways, command.key, headers, first)), count, sentence)
    )


def _targets(
    exchanges: Exchanges, ways: Ways, key: str, headers: Headers, targets: list[tuple[Target, Exchange]]
) -> Iterator[RouteTarget | PauseRow]:
    """Yields a row for each target, with a binding of it that matches; none for one that is no longer bound."""
    for target, exchange in targets:
        bound = [one for name, one in exchanges.bound.get(target, ()) if name == exchange.name]
        if key in bound:
            bound = [key]  # the usual one is looked at alone
        for one in rested(bound, JUDGED_AT_ONCE):
            if one is PAUSE:
                yield PAUSE
            elif exchange.would_match(one, target, key, headers) and (exchange.name, one) in exchanges.bound.get(
                target, ()
            ):
                yield RouteTarget(target.address, one, _through(ways, exchange))
                break


def _through(ways: Ways, last: Exchange) -> list[str]:
    """Returns the addresses of the exchanges after the first on the way to that one, in order."""
    way = []
    one, before = last, ways.visited[last]
    while before is not None:
        way.append(one.address)
        one, before = before, ways.visited[before]
    return way[::-1]


def _route_sentence(address: str, count: int) -> str:
    if not count:
        return (
            f"No binding matches {address}: a SEND to it is dropped, counted as unrouted, and receipted; with "
            "mandatory:true it is refused (no-subscriber)."
        )
    where = count_text(count, "destination")
    many = " each" if count > 1 else ""
    return f"A SEND to {address} goes into {where}: one copy{many}, however many bindings of it match."


# ---- may ------------------------------------------------------------------------------------------------------------


def may(request: Request[QuestionsPort], command: AskRight) -> None:
    """Answers whether that user has that right there, by which rule, or why not."""
    authorization = request.parts.authorization
    rights = authorization.authorizer
    if not isinstance(rights, Rights):
        request.answer(RightJudged(True, None, "There are no users: whoever gets in may do everything."))
        return
    user, granted = rights.users.get(command.user), rights.granted.get(command.user)
    if user is None or granted is None:
        raise Refusal("no-such-user", f"There is no user {command.user!r:.80}: `stats` of the section `users` has all.")
    address = command.destination
    needs = needs_for(command.right, address)
    if not needs:
        request.answer(RightJudged(True, None, f"{address} needs no right: anybody who gets in may use it."))
        return
    lacking = next((need for need in needs if not rights.may(granted, need)), None)
    if lacking is not None:
        request.answer(RightJudged(False, None, str(refusal_of(granted.name, lacking))))
        return
    request.answer_in_slices(lambda: _judged(user, granted, needs[0], address))


def _judged(user: User, granted: Granted, need: Need, address: str) -> Iterator[RightJudged | PauseRow]:
    """Yields PAUSEs, then by which rule the user has the right."""
    rule = EVERYTHING
    for one in rested(granting(granted, need), JUDGED_AT_ONCE):
        if one is PAUSE:
            yield PAUSE
        elif one is not None:
            rule = one
            break
    right, role = need.right, user.rules.role
    what = "administer the broker" if right == ADMIN else f"{right} {address}"
    if role and rule == EVERYTHING and EVERYTHING not in getattr(user.rules, right):
        why = f"the role `{role}` gives `{right}` on everything"
    else:
        why = f"the rule {rule} of `{right}` {'contains' if need.is_pattern else 'matches'} it"
    yield RightJudged(True, rule, f"The user {user.name} may {what}: {why}.")
