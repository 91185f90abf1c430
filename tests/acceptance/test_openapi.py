"""Requests made from the OpenAPI document, right and wrong ones, at a real broker: what it answers is what it says."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from radiator.model.limits import AWAIT_MAX_MS
from radiator.protocols.http.openapi import PATH, document
from radiator.protocols.http.routes import ROUTES
from tests.broker_process import BrokerProcess
from tests.server.web import OPEN, port_of

EXAMPLES = 30
WAIT_MS = 10
NAMES = ["a", "b"]
CONFIG = (
    OPEN
    + """
[queue.a]
dedup_window_s = 60
[log.a]
partitions = 2
[exchange.a]
type = "topic"
bindings = [{ key = "#", queue = "a" }]
[fanout.a]
children = ["b"]
"""
)
BROKEN = """
import radiator.protocols.administration.answers as answers
from radiator.tools.cli import main
first = answers._members
answers._members = lambda record: {**first(record), "more": 1}
main()
"""
CHECKS: list[Callable[..., bool | None]] = [
    checks.status_code_conformance,  # also: of 500 and above nothing but 503
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.unsupported_method,
]


def strict(part: Any, is_answer: bool = False) -> Any:
    """The document as a test wants it: an answer has no member that it does not name."""
    if isinstance(part, list):
        return [strict(one, is_answer) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: strict(one, is_answer or key in ("responses", "schemas")) for key, one in part.items()}
    return {"additionalProperties": False, **found} if is_answer and "properties" in found else found


def of_what_is_there(part: Any) -> Any:
    """With names of what the broker has, or may have, wherever one is wanted."""
    if isinstance(part, list):
        return [of_what_is_there(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {key: one if key in ("responses", "components") else of_what_is_there(one) for key, one in part.items()}
    if found.get("in") == "path" or found.get("name") == "queue":
        found["schema"] = {"enum": NAMES}
    return {key: {"enum": NAMES} if key in ("to", "queue", "dead_letter") else one for key, one in found.items()}


def made(written: Any, modes: list[schemathesis.GenerationMode]) -> Any:
    schema = schemathesis.openapi.from_dict(written)
    schema.config.generation.update(modes=modes)
    schema.config.checks.negative_data_rejection.expected_statuses = ["4XX", "503"]
    return schema


WRITTEN = strict(json.loads(json.dumps(document(ROUTES))))
WRITTEN["paths"] = {path: found for path, found in WRITTEN["paths"].items() if not path.endswith("/events")}  # no end
ANY = made(WRITTEN, [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE])
OF_WHAT_IS_THERE = made(of_what_is_there(WRITTEN), [schemathesis.GenerationMode.POSITIVE])
some = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as running:
        running.wait_for_log("listening address=http://")
        yield f"http://127.0.0.1:{port_of(running.log, 'http')}"
        assert running.is_running and "Traceback" not in running.log, running.log


def judged(case: schemathesis.Case, address: str, more: list[Callable[..., bool | None]]) -> None:
    """Asks, and holds the answer against the document. AssertionError, or a FailureGroup."""
    wait_ms = case.body.get("wait_ms") if isinstance(case.body, dict) else None
    if isinstance(wait_ms, int) and WAIT_MS < wait_ms <= AWAIT_MAX_MS:
        case.body["wait_ms"] = WAIT_MS
    case.validate_response(case.call(base_url=address), checks=[*CHECKS, *more])


def test_the_document_is_the_one_that_is_served(address: str) -> None:
    with urllib.request.urlopen(address + PATH) as answer:
        assert json.load(answer) == json.loads(json.dumps(document(ROUTES)))
        assert answer.headers["Cache-Control"] == "max-age=300"


@ANY.parametrize()
@some
def test_what_is_right_is_answered_so_and_what_is_wrong_refused(case: schemathesis.Case, address: str) -> None:
    judged(case, address, [checks.negative_data_rejection])


@OF_WHAT_IS_THERE.parametrize()
@some
def test_what_is_there_is_answered_as_the_document_says(case: schemathesis.Case, address: str) -> None:
    judged(case, address, [])


def test_an_answer_with_more_than_the_document_is_found(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, CONFIG, ("-c", BROKEN)) as running:
        running.wait_for_log("listening address=http://")
        address = f"http://127.0.0.1:{port_of(running.log, 'http')}"
        case = OF_WHAT_IS_THERE["/v1/queues/{queue}/why"]["GET"].Case(path_parameters={"queue": "a"})
        with pytest.raises(FailureGroup, match="1 distinct failure") as found:
            judged(case, address, [])
        assert "'more' was unexpected" in str(found.value.exceptions[0].message)  # type: ignore[attr-defined]
