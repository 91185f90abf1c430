"""Tests mirror the package: each file of its floors has a test file of its own, of its name, in the same folder."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
FLOORS = ("auth", "core", "model", "storage", "protocols", "server", "client")

WITHOUT = {
    "client/errors.py": "classes without a method: tests/client raises each",
    "core/cluster/neighbour.py": "data, and a Protocol: tests/core/cluster/test_neighbours.py",
    "core/kinds/kind.py": "the contract of kinds: tests/core/kinds/test_table.py holds each kind to it",
    "core/parts.py": "makes the parts and joins them: every test of a broker needs it",
    "core/routing/surroundings.py": "a Protocol: tests/core/routing/test_queues.py",
    "model/administration.py": "data alone: tests/protocols/administration has every command",
    "model/answers.py": "data alone: tests/protocols/administration has every answer",
    "model/connections.py": "data alone: tests/protocols/administration has every request and answer",
    "model/bounds.py": "data alone: tests/core/test_bounds.py",
    "model/consumers.py": "data alone: tests/protocols/administration has every request and answer",
    "model/disk.py": "data alone: tests/core/admin/test_itself.py",
    "model/itself.py": "names what other files have: tests/core/admin/test_itself.py",
    "model/leases.py": "data alone: tests/core/test_leases.py and test_settlements.py",
    "protocols/administration/asked.py": "a request: tests/protocols/administration/test_requests.py",
    "model/log_lines.py": "data alone: tests/server/test_last_lines.py",
    "model/overview.py": "data alone: tests/protocols/administration has every request and answer",
    "core/overview/attention.py": "data alone: tests/core/admin/test_attention.py",
    "model/numbers.py": "data alone: tests/core/test_stats.py",
    "model/peeking.py": "data alone: tests/protocols/administration has every request and answer",
    "model/questions.py": "data alone: tests/core/admin/test_questions.py",
    "model/reads.py": "data alone: tests/contracts answers each",
    "model/recovery.py": "data alone: tests/storage/lmdb/test_start.py",
    "model/rendering.py": "a Protocol: tests/protocols/administration has the one there is",
    "model/replies.py": "data alone: tests/protocols/stomp encodes each",
    "protocols/amqp/spec.py": "constants alone: tests/protocols/amqp",
    "protocols/peer/spec.py": "the table of words: tests/protocols/peer/test_frame.py says each of them",
    "protocols/stomp/spec.py": "the table of commands and headers: tests/conformance",
    "server/shared.py": "data alone",
    "storage/contract.py": "a Protocol: tests/contracts holds two stores to it",
}
"""Files that have none, and why."""


def wanted(file: str) -> Path:
    """Where its test file must be."""
    path = Path(file)
    return CHECKOUT / "tests" / path.parent / f"test_{path.name}"


def files() -> list[str]:
    package = CHECKOUT / "radiator"
    found = [file for floor in FLOORS for file in (package / floor).rglob("*.py") if file.name != "__init__.py"]
    return sorted(str(file.relative_to(package)) for file in found)


def test_each_file_has_a_test_file_or_a_reason() -> None:
    there = files()
    assert len(there) > 200
    wrong = [f"radiator/{file} has no {wanted(file).relative_to(CHECKOUT)}" for file in there if lacks(file)]
    assert wrong == []


def lacks(file: str) -> bool:
    test = wanted(file)
    return file not in WITHOUT and not (test.exists() and "\ndef test_" in test.read_text())


def test_no_reason_is_given_for_a_file_that_has_tests() -> None:
    assert [file for file in WITHOUT if wanted(file).exists()] == []


def test_each_exception_is_there() -> None:
    assert set(WITHOUT) <= set(files()), set(WITHOUT) - set(files())
