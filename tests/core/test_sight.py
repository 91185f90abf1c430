"""What one client may see of all."""

import pytest

from radiator.core.authorization import Authorization
from radiator.core.rights import Rights
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.sight import Sight
from radiator.core.usage import Usages
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.rights import OPERATOR, VIEWER, Rules
from radiator.model.users import User
from tests.core.bare import connection, context


def sight(rules: Rules | None) -> Sight:
    """Of a user with these; None: there are no users."""
    rights = None if rules is None else Rights({"ann": User(name="ann", rules=rules)}, 1000)
    client = connection()
    client.principal = Principal("ann", RecognisedBy.PASSWORD)
    return Sight(Authorization(rights, Usages(context(), lambda waitable: None)), client)


@pytest.mark.parametrize("rules", [None, Rules(role=OPERATOR), Rules(role=VIEWER), Rules(see=("/#",))])
def test_who_sees_everything_sees_what_has_no_address_too(rules: Rules | None) -> None:
    found = sight(rules)
    assert found.is_everything and found.queue("q") and found.queue(f"{OUTBOX_PREFIX}b") and found.of("peer", "b")


def test_who_sees_some_sees_those() -> None:
    found = sight(Rules(see=("/queue/mine.#",)))
    assert not found.is_everything and found.queue("mine.a") and not found.queue("other")
    assert not found.of("log", "mine.a") and not found.of("peer", "mine.a") and not found.of("broker", "disk")
    assert sight(Rules(see=("/log/*",))).of("log", "l")


def test_all_queues_are_not_everything() -> None:
    found = sight(Rules(see=("/queue/#",)))
    assert not found.is_everything and found.queue("q") and not found.queue(f"{OUTBOX_PREFIX}b")
