"""Rows of prepared transactions and of producer-ids."""

import pytest

from radiator.model.commands import Send
from radiator.model.errors import DamagedRecord
from radiator.model.writes import (
    KeepApp,
    KeepTransaction,
)
from radiator.storage.codec import transactions


def test_rows_of_prepared_transactions_are_written_as_the_format_says() -> None:
    assert transactions.transaction_key(258).hex() == "0000000000000102"
    assert transactions.send_key(258, 5).hex() == "0000000000000102" + "00000005"
    assert transactions.app_key("a") == b"a"
    numbers = "".join(f"{number:016x}" for number in range(1, 5))
    assert (
        transactions.encode_transaction(b"k", KeepTransaction(1, "n", 1, 2, 3, 4))[:-4].hex() == "01" + numbers + "6e"
    )
    send = Send(0, "/queue/a", b"k:v\n", 1, b"hello", expires_ms=5, deliver_at_ms=6, dedup_id=b"i")
    assert transactions.encode_send(b"k", send)[:-4].hex() == (
        "01" + "1d" + "0008" + "0001" + "00000004" + f"{5:016x}{6:016x}" + b"/queue/aik:v\nhello".hex()
    )
    assert transactions.encode_app(b"a", KeepApp("a", 1, 2))[:-4].hex() == "01" + f"{1:016x}{2:016x}"


@pytest.mark.parametrize("number", [0, 1, 2**32 - 1])
def test_keys_of_sends_sort_by_transaction_and_number_and_give_both_back(number: int) -> None:
    key = transactions.send_key(258, number)
    assert transactions.split_send_key(key) == (258, number) and key.startswith(transactions.transaction_key(258))
    assert transactions.send_key(258, number) < transactions.send_key(259, 0)


@pytest.mark.parametrize("name", ["", "ö", "n" * 255])
def test_a_transaction_survives_the_round_trip(name: str) -> None:
    key = transactions.transaction_key(7)
    kept = KeepTransaction(7, name, 2**64 - 1, 1, 2, 3)
    value = transactions.encode_transaction(key, kept)
    assert transactions.decode_transaction(key, value) == kept
    for at in range(len(value)):
        with pytest.raises(DamagedRecord):
            transactions.decode_transaction(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    with pytest.raises(DamagedRecord):
        transactions.decode_transaction(transactions.transaction_key(8), value)


def test_what_was_not_given_with_a_send_is_not_given_back() -> None:
    key = transactions.send_key(1, 0)
    for given in ({}, {"expires_ms": 0}, {"deliver_at_ms": 0}, {"dedup_id": b""}, {"expires_ms": 5, "dedup_id": b"d"}):
        send = Send(0, "/queue/ö", b"a:b\n", 1, b"body", **given)
        assert transactions.decode_send(key, transactions.encode_send(key, send)) == send


@pytest.mark.parametrize("version", [0, 10**15 - 1])
def test_a_version_survives_the_round_trip(version: int) -> None:
    key = transactions.app_key("ä")
    app = KeepApp("ä", version, 5)
    assert transactions.decode_app(key, transactions.encode_app(key, app)) == app
    with pytest.raises(DamagedRecord):
        transactions.decode_app(b"other", transactions.encode_app(key, app))
