"""The command line reads which kinds there are from the one table: a tenth one needs no line of it."""

from collections.abc import Iterator

import pytest

from radiator.model.addresses import KINDS, declared_kinds
from radiator.tools.cli import parser
from radiator.tools.cli.describe import _FORMED, formed
from radiator.tools.cli.stats import _others
from radiator.tools.cli.things import Thing
from tests.core.kinds.sink import SINK, added


@pytest.fixture
def sinks() -> Iterator[None]:
    with added():
        yield


@pytest.mark.parametrize("command", ["declare", "describe", "delete", "why"])
def test_it_is_named_as_the_others_are(sinks: None, command: str) -> None:
    for words in ([SINK, "s"], ["/sink/s"]):
        assert parser().parse_args([command, *words]).what == Thing(SINK, "s")


def test_its_numbers_are_shown(sinks: None) -> None:
    numbers = {"accepted": 2, "max_bytes": 4}
    assert formed(SINK, "s", {"ok": True, **numbers}).split() == ["sink", "s", "accepted", "2", "max", "bytes", "4"]
    shown = _others({"sinks": {"s": numbers}, "topics": {"t": {"subscribers": 1}}, "counters": {}}).split("\n")
    assert [line.split() for line in shown] == [
        ["topic", "subscribers"], ["t", "1"], [], ["sink", "accepted", "max", "bytes"], ["s", "2", "4"],
    ]  # fmt: skip


def test_without_its_row_nobody_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["describe", "/sink/s"])
    assert "'/sink/s' is not an address" in capsys.readouterr().err


def test_each_kind_that_is_declared_is_described_in_its_own_way() -> None:
    assert set(_FORMED) == set(declared_kinds()) <= set(KINDS)
