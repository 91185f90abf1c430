"""The bytes of a batch are its operations again, and nothing else is taken for some."""

from random import Random
from types import SimpleNamespace

import pytest

from radiator.model.errors import DamagedRecord
from radiator.model.limits import UNAPPLIED_BYTES, UNAPPLIED_ROWS
from radiator.storage.codec.operations import (
    Delete,
    DeleteFirst,
    DeleteIfPresent,
    DeleteRange,
    Insert,
    MakeTable,
    Operation,
    Require,
    RequireAbsent,
    RequireEmpty,
    Upsert,
    UpsertIndexed,
    decode_operations,
    encode_operations,
    pieces,
    rows_changed,
)

KEYS = [b"", b"k", b"\0" * 511]
ROWS = [(b"k", b""), (b"l" * 511, b"v" * 70_000)]
EACH: list[Operation] = [
    MakeTable(b"t"),
    Insert(b"t", ROWS),
    Upsert(b"t", [(b"k", b"v")]),
    Delete(b"t", KEYS),
    DeleteIfPresent(b"t", []),
    DeleteRange(b"t", b"a", b"\xff" * 12),
    DeleteFirst((b"t", b"u"), b"a", b"b", 2**64 - 1, True, b"p", 12),
    DeleteFirst((b"t",), b"", b"b", 0, False, b"p", 0),
    UpsertIndexed(b"t", b"k", b"v" * 20, b"i", b""),
    Require(b"t", KEYS),
    RequireAbsent(b"t", KEYS),
    RequireEmpty(b"t", b"a", b"b"),
]


def encoded(*operations: Operation) -> bytes:
    return b"".join(encode_operations(operations))


@pytest.mark.parametrize("operation", EACH, ids=lambda one: type(one).__name__)
def test_each_operation_comes_back_as_it_was(operation: Operation) -> None:
    assert decode_operations(encoded(operation)) == [operation]


def test_a_batch_comes_back_in_its_order() -> None:
    assert decode_operations(encoded(*EACH, *EACH)) == [*EACH, *EACH]
    assert decode_operations(b"") == []


def test_the_bytes_are_those_of_the_page() -> None:
    """docs/FORMAT.md, "The write-ahead log"."""
    written = encoded(Insert(b"t", [(b"key", b"value")]), Delete(b"t", [b"key"]))
    assert written.hex(" ") == (
        "02 00 00 00 01 74 00 00 00 01 00 03 00 00 00 05 6b 65 79 76 61 6c 75 65"
        " 04 00 00 00 01 74 00 00 00 01 00 03 6b 65 79"
    )


def test_what_is_cut_or_of_no_kind_is_damaged() -> None:
    whole = encoded(*EACH[:-1])
    ends = {len(encoded(*EACH[:count])) for count in range(len(EACH))}
    chance = Random(1)
    for end in [1, 2, 5, *chance.sample(range(len(whole)), 200)]:
        if end not in ends:
            with pytest.raises(DamagedRecord):
                decode_operations(whole[:end])
    for kind in (0, len(EACH), 0x7F, 0xFF):
        with pytest.raises(DamagedRecord, match=f"of kind {kind}, which this Radiator does not know"):
            decode_operations(bytes([kind]))


def entry_with(rows: int, value_bytes: int = 1) -> SimpleNamespace:
    keys = [(b"%06d" % number, b"v" * value_bytes) for number in range(rows)]
    return SimpleNamespace(operations=b"".join(encode_operations([Insert(b"messages", keys)])))


def test_entries_are_carried_out_in_pieces_of_few_rows() -> None:
    counts = [1, UNAPPLIED_ROWS - 1, 1, UNAPPLIED_ROWS, 3 * UNAPPLIED_ROWS, 2, 3]
    entries = [entry_with(rows) for rows in counts]
    found = [*pieces(entries)]
    assert [[rows_changed(one) for one in operations] for operations, _ in found] == [
        [1, UNAPPLIED_ROWS - 1], [1], [UNAPPLIED_ROWS], [3 * UNAPPLIED_ROWS], [2, 3],
    ]  # fmt: skip
    assert [id(last) for _, last in found] == [id(entries[at]) for at in (1, 2, 3, 4, 6)]
    assert [*pieces([])] == []


def test_entries_are_carried_out_in_pieces_of_few_bytes() -> None:
    assert [len(operations) for operations, _ in pieces(entry_with(1, UNAPPLIED_BYTES // 2) for _ in range(3))] == [
        1
    ] * 3
    assert [len(operations) for operations, _ in pieces(entry_with(1, UNAPPLIED_BYTES // 4) for _ in range(5))] == [
        3,
        2,
    ]


def test_the_rows_that_an_operation_changes_are_counted() -> None:
    keys, rows = [b"a", b"b"], [(b"a", b"1"), (b"b", b"2")]
    operations: list[tuple[Operation, int]] = [
        (Insert(b"t", rows), 2),
        (Upsert(b"t", rows), 2),
        (Delete(b"t", keys), 2),
        (DeleteIfPresent(b"t", keys), 2),
        (DeleteFirst((b"t", b"u"), b"", b"z", 7, False, b"p"), 14),
        (UpsertIndexed(b"t", b"a", b"v", b"u", b"i"), 3),
        (DeleteRange(b"t", b"", b"z"), 1),
    ]
    for operation, count in operations:
        assert rows_changed(operation) == count, operation
