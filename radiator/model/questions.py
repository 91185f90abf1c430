"""What may be asked before it is done: where a message would go, and whether a user may do something."""

from dataclasses import dataclass

from radiator.model.numbers import Rows


@dataclass(slots=True)
class FindRoute:
    """Where a message goes that is sent to the exchange with that key, and that header block, which is not escaped:
    RouteFound.
    """

    exchange: str
    key: str
    headers: bytes = b""


@dataclass(slots=True)
class AskRight:
    """Whether a user has a right on an address, which may be `/#`: RightJudged. Refused (`no-such-user`) where the user
    is none. right: of RIGHTS (rights.py).
    """

    user: str
    right: str
    destination: str


# ---- answers ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RouteTarget:
    """destination: of a queue or log. key: of a binding of it that matches; there may be more, and it gets one copy.
    through: the exchanges that it goes through behind the one that it is sent to, in order.
    """

    destination: str
    key: str
    through: list[str]


@dataclass(slots=True)
class RouteFound:
    """targets: the first of `count`. sentence: what becomes of such a message."""

    targets: Rows[RouteTarget]
    count: int
    sentence: str


@dataclass(slots=True)
class RightJudged:
    """rule: a rule that gives the right; None: there is none, or none is needed. sentence: why."""

    allowed: bool
    rule: str | None
    sentence: str
