"""The table of suites: as it is, as it may be, and what is wrong with one."""

import pytest

from tests.suites.table import ClientSuite, Pinned, WrongTable, in_markdown, suites

SHA_256, COMMIT = "a" * 64, "b" * 40
LEAST = f"""
[[suite]]
name = "one"
title = "One 1.0"
source = {{ pypi = "one", version = "1.0", digest = "{SHA_256}" }}
runner = "pytest"
passed = 3
"""
FAILS = '[[suite.fails]]\ntests = ["a", "b"]\nwhy = "they want more"\n'


def read(text: str) -> ClientSuite:
    (suite,) = suites(text)
    return suite


def test_the_table_as_it_is() -> None:
    found = suites()
    assert [suite.name for suite in found][:2] == ["pika", "kombu"]
    assert all(suite.passed > 50 for suite in found)


def test_what_is_left_out_has_a_value() -> None:
    suite = read(LEAST)
    assert suite.source == Pinned("1.0", SHA_256, pypi="one")
    assert (suite.arguments, suite.listen, suite.skipped, suite.failed) == ((), ("amqp://127.0.0.1:5672",), 0, 0)


def test_known_failures_and_their_row() -> None:
    suite = read(LEAST + 'skipped = 2\nrabbitmq = "4 pass"\n' + FAILS)
    assert (suite.failed, suite.known[0].why) == (2, "they want more")
    assert in_markdown([suite]).splitlines()[2] == "| One 1.0 | 7 | 3 | 2 | 2: they want more | 4 pass |"
    assert in_markdown([read(LEAST)]).splitlines()[2] == "| One 1.0 | 3 | 3 | 0 | 0 | not tried |"


def test_sources_of_git_have_a_commit() -> None:
    text = LEAST.replace('pypi = "one"', 'git = "https://example.org/one"').replace(SHA_256, COMMIT)
    assert read(text).source == Pinned("1.0", COMMIT, git="https://example.org/one")


@pytest.mark.parametrize(("text", "sentence"), [
    ("[other]\n", r"The table has \['other'\]"),
    (LEAST + LEAST, "'one' is the name of two suites"),
    (LEAST.replace("passed = 3", ""), "one: it has no 'passed'"),
    (LEAST.replace("passed = 3", 'passed = "3"'), "one: 'passed' is '3'; it is a int"),
    (LEAST + "colour = 1", "one: 'colour' is no key of a suite"),
    (LEAST.replace('"pytest"', '"nose"'), "the runner is 'nose'; it is one of pytest"),
    (LEAST.replace(SHA_256, SHA_256[1:]), "of pypi it is 64 hexadecimal digits"),
    (LEAST.replace(SHA_256, SHA_256 + "a"), "of pypi it is 64 hexadecimal digits"),
    (LEAST.replace(SHA_256, "g" * 64), "of pypi it is 64 hexadecimal digits"),
    (LEAST.replace('pypi = "one"', 'pypi = "one", git = "x"'), "it has `pypi` or `git`"),
    (LEAST.replace('pypi = "one", ', ""), "it has `pypi` or `git`"),
    (LEAST + FAILS.replace("they want more", "They want more."), "is no sentence for a table"),
    (LEAST + FAILS.replace("they want more", "a | b"), "is no sentence for a table"),
    (LEAST + FAILS.replace("they want more", ""), "is no sentence for a table"),
    (LEAST + FAILS.replace('"a", "b"', ""), "at least one"),
    (LEAST + FAILS + FAILS, "'a' fails for two causes"),
])  # fmt: skip
def test_what_is_no_table_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(WrongTable, match=sentence):
        suites(text)
