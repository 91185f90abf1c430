"""Fanouts by name: of config.toml, of an earlier run, and declared now; what is on the disk of each."""

import pytest

from radiator.core.routing.fanouts import Fanouts
from radiator.core.usage import Usages
from radiator.model.errors import Refusal
from radiator.model.settings import Declarations
from radiator.model.writes import DropDeclared, KeepDeclared
from tests.core import bare


def fanouts(**declared: tuple[str, ...]) -> Fanouts:
    context = bare.context()
    return Fanouts(Declarations(fanouts=declared), context, Usages(context, lambda waitable: None))


def test_one_that_is_declared_is_found_and_another_refused() -> None:
    some = fanouts(f=("a", "b"))
    assert some.get("f").children == ("a", "b")
    with pytest.raises(Refusal, match="/fanout/g is not declared") as refused:
        some.get("g")
    assert refused.value.code == "no-such-destination"


def test_one_that_is_declared_now_is_kept_and_taken_back() -> None:
    some = fanouts()
    some.add("g", ("ä",))
    some.delete("g")
    keep, drop = some.context.open.writes
    assert isinstance(keep, KeepDeclared) and keep.name == "g" and '"children"' in keep.text
    assert isinstance(drop, DropDeclared) and "g" not in some.all


def test_one_of_the_configuration_stays() -> None:
    some = fanouts(f=("a",))
    with pytest.raises(Refusal, match="remove it there") as refused:
        some.delete("f")
    assert refused.value.code == "declared" and not some.context.open.writes


def test_the_configuration_wins_over_an_earlier_run_and_gives_back_what_it_hid() -> None:
    some = fanouts(f=("a",))
    some.recover("f", ("old",))
    some.recover("g", ("own",))
    assert (some.get("f").children, some.get("g").children) == (("a",), ("own",))
    some.use(["f"], {})
    assert some.get("f").children == ("old",)
    some.use([], {"g": ("new",), "h": ("c",)})
    assert (some.get("g").children, some.get("h").children) == (("new",), ("c",))
    some.use(["g", "h"], {})
    assert some.get("g").children == ("own",) and "h" not in some.all
    assert not some.context.open.writes, "a reload writes nothing"


def test_what_it_has_accepted_is_counted_on_over_a_reload() -> None:
    some = fanouts(f=("a",))
    some.get("f").accepted = 5
    some.use(["f"], {"f": ("b",)})
    assert (some.get("f").accepted, some.get("f").children) == (5, ("b",))
