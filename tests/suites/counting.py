"""What came of a suite, from what its runner has written: each test by a name, and which of them failed."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"
WHY_MAX_CHARACTERS = 200


@dataclass(slots=True)
class Outcome:
    """failed: the name of each test that failed, with the first line of why."""

    passed: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def tests(self) -> int:
        return self.passed + self.skipped + len(self.failed)


def outcome(runner: str, written: str) -> Outcome:
    """written: what the runner has reported. Where one test is there twice its last result counts, since it was tried
    again; it counts once.
    """
    results: dict[str, tuple[str, str]] = {}
    for name, verdict, why in _READERS[runner](written):
        results[name] = (verdict, why)
    found = Outcome()
    for name, (verdict, why) in results.items():
        if verdict == FAILED:
            found.failed[name] = _first_line(why)
        elif verdict == SKIPPED:
            found.skipped += 1
        else:
            found.passed += 1
    return found


def _first_line(why: str) -> str:
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return lines[0][:WHY_MAX_CHARACTERS] if lines else "it does not say why"


def _verdict(case: ElementTree.Element) -> tuple[str, str]:
    for kind, verdict in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        element = case.find(kind)
        if element is not None:
            return verdict, element.get("message") or element.text or ""
    return PASSED, ""


def _of_junit(written: str) -> Iterator[tuple[str, str, str]]:
    """A test is CLASS.NAME."""
    for case in ElementTree.fromstring(written).iter("testcase"):
        yield (f"{case.get('classname')}.{case.get('name')}", *_verdict(case))


def _of_node(written: str) -> Iterator[tuple[str, str, str]]:
    """A test is its name alone: node writes the suites about it in the wrong places. Namesakes are different tests, and
    have a number: node does not try again. A test that is a file has its name without the path.
    """
    numbered = _Numbered()
    for case in ElementTree.fromstring(written).iter("testcase"):
        name = str(case.get("name"))
        yield (numbered(name.rpartition("/")[2] if name.endswith(".test.js") else name), *_verdict(case))


class _Numbered:
    """Gives the second of one name ` (2)`."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def __call__(self, name: str) -> str:
        self._times[name] += 1
        return name if self._times[name] == 1 else f"{name} ({self._times[name]})"


def _of_rspec(written: str) -> Iterator[tuple[str, str, str]]:
    """A test is what its description says. Other lines may stand before and behind the JSON."""
    found = re.search(r'\{"version":.*\}', written)
    verdicts = {"passed": PASSED, "pending": SKIPPED}
    numbered = _Numbered()
    for example in json.loads(found[0])["examples"] if found else []:
        name = numbered(re.sub(r"\s+", " ", example["full_description"]))
        yield name, verdicts.get(example["status"], FAILED), example.get("exception", {}).get("message", "")


def _of_go(written: str) -> Iterator[tuple[str, str, str]]:
    """A test is its name, that of one in another with a / before it. Why: what it has printed."""
    verdicts = {"pass": PASSED, "skip": SKIPPED, "fail": FAILED}
    printed: dict[str, str] = {}
    for line in written.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        name = event.get("Test")
        if name and event["Action"] == "output" and not event["Output"].lstrip().startswith(("=== ", "--- ")):
            printed[name] = printed.get(name, "") + event["Output"]
        elif name and event["Action"] in verdicts:
            yield name, verdicts[event["Action"]], printed.get(name, "")


_READERS = {"pytest": _of_junit, "phpunit": _of_junit, "node": _of_node, "rspec": _of_rspec, "go": _of_go}
