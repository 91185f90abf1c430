"""Rules of rights: which are none, and which addresses they are for."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from radiator.model.addresses import KINDS
from radiator.model.patterns import matches
from radiator.model.rights import (
    ADMIN,
    DECLARE,
    EVERYTHING,
    FREE,
    OPERATOR,
    READ,
    RIGHTS,
    SEE,
    VIEWER,
    WRITE,
    Rules,
    as_words,
    canonical,
    pattern_words,
    rule_contains,
    rule_mistake,
)

RULES = [
    "/#",
    "/queue/orders",
    "/queue/orders.#",
    "/queue/#",
    "/queue/a/b",
    "/queue/a..b",
    "/fanout/x",
    "/topic/prices.*",
    "/topic/*.*.*",
    "/exchange/shop",
    "/exchange/shop/",
    "/exchange/shop/#",
    "/exchange/#",
    "/exchange/shop.*/eu.#",
    "/log/audit",
    "/log/journal",
    "/app/etl.*",
    "/app/jobs/1",
    f"/queue/{'x' * 255}",
]
MISTAKES = [
    ("", "begins with no `/`"),
    ("orders", "/queue/orders"),
    ("#", "begins with no `/`"),
    ("/", "is not a rule: it must begin with /queue/, "),
    ("/queue", "is not a rule"),
    ("/queue/", "is not a rule"),
    ("/qeue/orders", "is not a rule"),
    ("/*/orders", "is not a rule"),
    ("/#/orders", "is not a rule"),
    ("/amq/queue/orders", "write /queue/orders"),
    ("/temp-queue/x", "needs no right"),
    ("/reply-queue/#", "needs no right"),
    ("/admin", "needs no right"),
    ("/exchange//x", "names nothing"),
    ("/log/$checkout/orders/group", "write /queue/orders"),
    ("/queue/orders*", "'orders*'"),
    ("/exchange/shop/eu#", "'eu#'"),
    ("/topic/*.*.*.*", "4 wildcards"),
    ("/exchange/*.*/*.*", "4 wildcards"),
    ("/queue/a\nb", "control character"),
    (f"/queue/{'x' * 256}", "256 bytes"),
    (f"/exchange/x/{'k' * 256}", "routing key"),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_taken(rule: str) -> None:
    assert rule_mistake(rule) == "" == rule_mistake(rule, WRITE)


@pytest.mark.parametrize(("rule", "sentence"), MISTAKES)
def test_what_is_no_rule_says_what_would_be_right(rule: str, sentence: str) -> None:
    assert sentence in rule_mistake(rule)


def test_an_app_is_written_to_and_nothing_else() -> None:
    for right in (READ, DECLARE, SEE):
        assert rule_mistake("/app/etl", right) == (
            f"is for the versions of an app, which take `write`: it does nothing under `{right}`"
        )
    assert "'a*'" in rule_mistake("/app/a*", WRITE) and "is not a rule" in rule_mistake("/app/", WRITE)


def test_admin_is_of_the_broker_as_a_whole() -> None:
    assert rule_mistake(EVERYTHING, ADMIN) == ""
    assert "write /#" in rule_mistake("/queue/orders", ADMIN)


# ---- what a rule is for ---------------------------------------------------------------------------------------------

FOR = [
    ("/#", "/queue/a"),
    ("/#", "/exchange/x/"),
    ("/queue/#", "/queue/a.b"),
    ("/queue/#", "/amq/queue/a.b"),
    ("/queue/orders", "/amq/queue/orders"),
    ("/queue/orders.#", "/queue/orders"),
    ("/queue/a/b", "/queue/a/b"),
    ("/queue/*", "/queue/a/b"),  # a slash is a character like any other
    ("/queue/*", "/queue/#"),
    ("/exchange/shop", "/exchange/shop/eu.x"),
    ("/exchange/shop", "/exchange/shop"),
    ("/exchange/#", "/exchange/shop.a/eu.x"),
    ("/exchange/shop/", "/exchange/shop"),
    ("/exchange/shop/eu.#", "/exchange/shop/eu"),
    ("/exchange/*/eu", "/exchange/shop/eu"),
    ("/queue/orders", "/log/$checkout/orders/group"),
    ("/queue/a/b", "/log/$checkout/a/b/group"),
    ("/queue/%u.{user}.(a|b)", "/queue/%u.{user}.(a|b)"),  # neither a regular expression nor a place for a name
]
NOT_FOR = [
    ("/queue/orders", "/queue/orders.eu"),
    ("/queue/orders", "/topic/orders"),
    ("/queue/#", "/log/a"),
    ("/queue/%u", "/queue/ann"),
    ("/queue/{user}", "/queue/ann"),
    ("/queue/a|b", "/queue/a"),
    ("/queue/a?.+", "/queue/a.b"),
    ("/queue/orders.*", "/queue/orders"),
    ("/queue/Orders", "/queue/orders"),
    ("/exchange/shop/", "/exchange/shop/eu"),
    ("/exchange/shop/eu", "/exchange/shop/"),
    ("/exchange/shop/eu.#", "/exchange/shop/us"),
    ("/exchange/#/eu", "/exchange/shop/x.eu"),
    ("/exchange/#/eu", "/exchange/shop/x.\n.eu"),  # who could write that had two keys in one
    ("/queue/#", "/queue/x\n"),
    ("/log/#", "/log/$checkout/orders/group"),
    ("/log/orders", "/queue/orders"),
]


@pytest.mark.parametrize(("rule", "address"), FOR)
def test_a_rule_is_for_an_address(rule: str, address: str) -> None:
    assert matches(pattern_words(rule), as_words(canonical(address)).replace("#", "x"))
    assert rule_contains(rule, canonical(address).replace("#", "x"))


@pytest.mark.parametrize(("rule", "address"), NOT_FOR)
def test_a_rule_is_not_for_an_address(rule: str, address: str) -> None:
    assert not matches(pattern_words(rule), as_words(canonical(address)))
    assert not rule_contains(rule, canonical(address))


CONTAINED = [
    ("/topic/#", "/topic/#"),
    ("/topic/prices.#", "/topic/prices.*.eu"),
    ("/topic/prices.#", "/topic/prices.#"),
    ("/topic/*.#", "/topic/#.a"),
    ("/topic/#.*", "/topic/#"),  # a name has a word at least
    ("/exchange/*.#/#.*", "/exchange/#"),
    ("/exchange/shop/#", "/exchange/shop"),
    ("/exchange/#", "/exchange/shop"),
    ("/#", "/exchange/#"),
]
NOT_CONTAINED = [
    ("/topic/prices.*", "/topic/prices.#"),
    ("/topic/prices.*", "/topic/*"),
    ("/topic/prices.eu", "/topic/prices.*"),
    ("/topic/*", "/topic/#"),
    ("/exchange/shop/eu.#", "/exchange/shop"),
    ("/exchange/shop/eu.#", "/exchange/shop/#"),
    ("/exchange/shop", "/exchange/#"),
    ("/topic/#", "/#"),
]


@pytest.mark.parametrize(("rule", "pattern"), CONTAINED)
def test_a_rule_contains_a_pattern(rule: str, pattern: str) -> None:
    assert rule_contains(rule, pattern)


@pytest.mark.parametrize(("rule", "pattern"), NOT_CONTAINED)
def test_a_rule_does_not_contain_what_it_only_meets(rule: str, pattern: str) -> None:
    assert not rule_contains(rule, pattern)


@given(
    some.sampled_from([kind for kind in KINDS if kind not in FREE]),
    some.text("ab.*#", max_size=8),
)
def test_a_rule_that_is_taken_contains_itself_and_is_in_everything(kind: str, name: str) -> None:
    rule = f"/{kind}/{name}"
    if not rule_mistake(rule):
        assert rule_contains(rule, rule) and rule_contains(EVERYTHING, rule)
        assert rule_contains(f"/{kind}/#", rule) and not rule_contains("/log/other", rule)


# ---- roles ----------------------------------------------------------------------------------------------------------


def test_a_role_gives_its_rights_on_everything_beside_those_of_the_rules() -> None:
    assert {right: Rules(role=OPERATOR).of(right) for right in RIGHTS} == dict.fromkeys(RIGHTS, (EVERYTHING,))
    viewer = Rules(role=VIEWER, read=("/queue/a",))
    assert viewer.of(SEE) == (EVERYTHING,) and viewer.of(READ) == ("/queue/a",) and viewer.of(ADMIN) == ()
    assert all(Rules().of(right) == () for right in RIGHTS)
