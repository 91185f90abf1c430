"""Addresses: which kind and name one has, and what is wrong with it."""

import pytest

from radiator.model.addresses import (
    ADDRESS_MAX_BYTES,
    ADMIN,
    KINDS,
    QUEUE,
    TOPIC,
    address_mistake,
    name_in,
    queue_address,
    split,
)
from radiator.model.errors import Refusal
from radiator.model.limits import NAME_MAX_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_is_a_kind_and_a_name_that_may_have_slashes(kind: str) -> None:
    assert split(f"/{kind}/a/b") == (kind, "a/b")


@pytest.mark.parametrize(
    ("address", "parts"), [(ADMIN, ("admin", "")), ("/amq/queue/a", ("amq/queue", "a")), ("/queue/ä€", (QUEUE, "ä€"))]
)
def test_other_addresses_there_are(address: str, parts: tuple[str, str]) -> None:
    assert split(address) == parts


@pytest.mark.parametrize(
    "address", ["", "/", "q", "queue/a", "xqueue/a", "/queue", "/queue/", "/nothing/a", "/admin/a"]
)
def test_what_is_of_no_known_kind_is_refused_with_those_there_are(address: str) -> None:
    with pytest.raises(Refusal, match="is not a destination: one begins with /queue/") as refused:
        split(address)
    assert refused.value.code == "unknown-destination"


@pytest.mark.parametrize("text", ["a/b", "/queue/a/b", "/amq/queue/a/b"])
def test_a_queue_is_named_by_its_name_or_its_addresses(text: str) -> None:
    assert name_in(QUEUE, text) == "a/b"


@pytest.mark.parametrize(("kind", "text"), [(QUEUE, "/topic/a"), (TOPIC, "/queue/a"), (TOPIC, "/amq/queue/a")])
def test_the_address_of_something_else_is_no_name(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="the address of something else; write NAME or"):
        name_in(kind, text)


def test_a_queue_that_has_two_addresses_is_named_by_one() -> None:
    assert queue_address("/amq/queue/a") == queue_address("/queue/a") == "/queue/a"
    assert queue_address("/topic/amq/queue/a") == "/topic/amq/queue/a"


@pytest.mark.parametrize("prefix", ["/queue/", "/amq/queue/", "/topic/", "/exchange/", "/exchange/x/"])
def test_a_name_has_at_most_so_many_bytes_of_utf_8(prefix: str) -> None:
    longest = "ä" * (NAME_MAX_BYTES // 2) + "a"
    assert address_mistake(prefix + longest) == ""
    assert "more than 255 bytes" in address_mistake(prefix + longest + "a") or "of 256 bytes" in address_mistake(
        prefix + longest + "a"
    )
    assert len((prefix + longest).encode()) <= ADDRESS_MAX_BYTES


@pytest.mark.parametrize("address", ["/queue/", "/amq/queue/", "/exchange//key"])
def test_a_name_is_not_empty(address: str) -> None:
    assert "names nothing" in address_mistake(address)


@pytest.mark.parametrize("character", ["\0", "\n", "\x1f", "\x7f", "\x9f"])
def test_a_name_has_no_control_characters(character: str) -> None:
    assert "control character" in address_mistake(f"/queue/a{character}b")
    assert address_mistake("/queue/a\xa0b ~") == ""
