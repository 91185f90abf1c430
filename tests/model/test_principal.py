"""Who a connection is, and what has shown it."""

import pytest

from radiator.model.principal import ANYONE, Principal, RecognisedBy, node_principal, unix_principal


def test_who_is_recognised_by_another_is_another() -> None:
    node = node_principal("uid:5")
    process = unix_principal(5, 6)
    assert (process.name, process.uid, process.gid) == ("uid:5", 5, 6) and node.uid is None
    assert node != process and {node.recognised_by, process.recognised_by} == {
        RecognisedBy.LINK_PROOF,
        RecognisedBy.PEER_CREDENTIALS,
    }


def test_equal_principals_are_one() -> None:
    assert len({unix_principal(5, 6), unix_principal(5, 6), unix_principal(6, 6)}) == 2


def test_anyone_was_recognised_by_nothing() -> None:
    assert Principal("anyone") == ANYONE and ANYONE.recognised_by is RecognisedBy.NOTHING


def test_nobody_changes_who_somebody_is() -> None:
    with pytest.raises(AttributeError):
        ANYONE.name = "root"  # type: ignore[misc]  # that is the point
