"""What runners write, read: pieces of what they have written."""

import json

from tests.suites.counting import WHY_MAX_CHARACTERS, Outcome, outcome

PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="6">
<testcase classname="t.test_one.TestA" name="test_good" time="0.1" />
<testcase classname="t.test_one.TestA" name="test_bad"><failure message="AssertionError: 0 != 1&#10;more">trace</failure></testcase>
<testcase classname="t.test_one.TestA" name="test_left_out"><skipped message="no Docker">x</skipped></testcase>
<testcase classname="t.test_one.TestA" name="test_setup"><error message="">
  gone
</error></testcase>
<testcase classname="t.test_one.TestA" name="test_again"><failure message="once" /></testcase>
<testcase classname="t.test_one.TestA" name="test_again" />
</testsuite></testsuites>"""  # noqa: E501

NODE = """<testsuites>
<testcase name="/a/b/bitset.test.js" classname="test"><failure message="test failed"/></testcase>
<undefined name="Callback API"><testsuite name="channel open"><testcase name="at all" classname="test"/></testsuite>
<testsuite name="Connect"><testcase name="at all" classname="test">
<failure message="'Radiator' == 'RabbitMQ'"/></testcase>
<testcase name="later" classname="test"><skipped type="skipped" message="true"/></testcase></testsuite></undefined>
</testsuites>"""


def test_of_pytest_the_last_try_counts() -> None:
    failed = {"t.test_one.TestA.test_bad": "AssertionError: 0 != 1", "t.test_one.TestA.test_setup": "gone"}
    found = outcome("pytest", PYTEST)
    assert found == Outcome(2, 1, failed) and found.tests == 5
    assert outcome("phpunit", PYTEST) == found


def test_of_node_namesakes_are_different_tests() -> None:
    failed = {"bitset.test.js": "test failed", "at all (2)": "'Radiator' == 'RabbitMQ'"}
    assert outcome("node", NODE) == Outcome(1, 1, failed)


def test_of_rspec_other_lines_stand_around() -> None:
    examples = [
        {"full_description": "Queue\n  is there", "status": "passed"},
        {"full_description": "Queue is there", "status": "failed", "exception": {"message": "\nexpected: 1\n got: 2"}},
        {"full_description": "Queue is not", "status": "pending"},
    ]
    written = "a warning\n" + json.dumps({"version": "3.12"} | {"examples": examples}) + "\nthe end"
    assert outcome("rspec", written) == Outcome(1, 1, {"Queue is there (2)": "expected: 1"})


def test_of_go_what_a_test_has_printed_is_why() -> None:
    lines = [
        {"Action": "run", "Test": "TestA"},
        {"Action": "output", "Test": "TestA", "Output": "=== RUN   TestA\n"},
        {"Action": "output", "Test": "TestA", "Output": "    a_test.go:7: no\n"},
        {"Action": "output", "Test": "TestA", "Output": "--- FAIL: TestA (0.00s)\n"},
        {"Action": "fail", "Test": "TestA"},
        {"Action": "pass", "Test": "TestA/within"},
        {"Action": "skip", "Test": "TestB"},
        {"Action": "fail", "Package": "amqp091"},
    ]
    written = "# a line of the compiler\n" + "\n".join(map(json.dumps, lines))
    assert outcome("go", written) == Outcome(1, 1, {"TestA": "a_test.go:7: no"})


def test_nothing_written_is_no_test() -> None:
    assert outcome("rspec", "").tests == outcome("go", "").tests == 0


def test_why_is_one_short_line() -> None:
    for length in (WHY_MAX_CHARACTERS, WHY_MAX_CHARACTERS + 1):
        written = f'<a><testcase classname="c" name="n"><failure message="{"x" * length}"/></testcase></a>'
        assert len(outcome("pytest", written).failed["c.n"]) == WHY_MAX_CHARACTERS
    silent = '<a><testcase classname="c" name="n"><failure/></testcase></a>'
    assert outcome("pytest", silent).failed == {"c.n": "it does not say why"}
