from radiator.model.checks import Check, flag, whole
from radiator.tools.config.mistakes import Mistakes
from radiator.tools.config.tables import settings

CHECKS: dict[str, Check] = {"is_on": flag, "count": whole(1, 3)}


def test_what_is_right_is_kept_and_all_else_is_a_mistake() -> None:
    mistakes = Mistakes()
    assert settings(("t",), {"is_on": True, "count": 4, "is_onn": True}, CHECKS, mistakes) == {"is_on": True}
    assert mistakes.found == [
        (("t", "count"), "is 4; it must be a whole number from 1 to 3"),
        (("t", "is_onn"), 'is not a setting of this table; did you mean "is_on"?'),
    ]


def test_what_is_no_table_has_nothing() -> None:
    mistakes = Mistakes()
    assert settings(("t",), 3, CHECKS, mistakes) == {}
    assert mistakes.found == [(("t",), "is 3; it must be a table")]


def test_a_setting_that_is_gone_says_what_to_write_instead() -> None:
    mistakes = Mistakes()
    settings(("server",), {"allow_anonymous": True}, CHECKS, mistakes)
    assert '[user."anonymous"]' in mistakes.found[0][1]
