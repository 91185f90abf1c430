"""Headers that mean something to other brokers: which of them ask for anything."""

import re
from pathlib import Path

import pytest

from radiator.model.keys import key_sources
from radiator.protocols.stomp.unheeded import OF_SEND, OF_SUBSCRIBE, unheeded


@pytest.mark.parametrize("header", [*OF_SEND])
def test_each_header_of_a_send_that_asks_for_something_is_found(header: bytes) -> None:
    assert unheeded({b"a": b"1", header: b"9"}, OF_SEND) == header


@pytest.mark.parametrize("header", [*OF_SUBSCRIBE])
@pytest.mark.parametrize("value", [b"0", b"false", b"False", b"", b" 0 "])
def test_one_that_asks_for_nothing_is_not(header: bytes, value: bytes) -> None:
    assert unheeded({header: value}, OF_SUBSCRIBE) is None
    assert unheeded({header: b"true"}, OF_SUBSCRIBE) == header


@pytest.mark.parametrize(("value", "found"), [(b"0", None), (b"4", None), (b"5", b"priority"), (b"", b"priority")])
def test_the_priority_that_clients_say_by_themselves_asks_for_nothing(value: bytes, found: bytes | None) -> None:
    assert unheeded({b"priority": value}, OF_SEND) == found


def test_the_first_of_the_table_is_told_and_others_are_passed_over() -> None:
    first, second = [*OF_SEND][:2]
    assert unheeded({second: b"9", first: b"9"}, OF_SEND) == first
    assert unheeded({second: b"9", first: b"0"}, OF_SEND) == second
    assert unheeded({b"content-type": b"text/plain"}, OF_SEND) is None


def test_each_has_a_sentence_that_says_what_serves_instead() -> None:
    for sentence in (*OF_SEND.values(), *OF_SUBSCRIBE.values()):
        assert sentence.endswith(".") and " " in sentence


@pytest.mark.parametrize("header", [b"JMSXGroupID", b"_AMQ_GROUP_ID"])
def test_a_group_is_told_which_setting_keeps_its_order(header: bytes) -> None:
    sentence = OF_SEND[header]
    (key,) = re.findall(r'partition_key = "([^"]*)"', sentence)
    assert key_sources(key) == (f"header:{header.decode()}",)


def test_the_page_names_each_of_them() -> None:
    page = (Path(__file__).parents[3] / "docs/PROTOCOL.md").read_text(encoding="utf-8")
    of_send = page.partition("\nSome headers ask other brokers for something: ")[2].partition(". Here they have")[0]
    of_subscribe = page.partition("\n- `no-local`, ")[2].partition(" have no effect")[0] + "`no-local`"
    assert {name.decode() for name in OF_SEND} <= set(re.findall("`(.+?)`", of_send))
    assert {name.decode() for name in OF_SUBSCRIBE} <= set(re.findall("`(.+?)`", of_subscribe))
