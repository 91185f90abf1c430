"""A message as JSON has it."""

from radiator.model.amqp_properties import Properties, encode, stored_block
from radiator.model.headers import ESCAPING_ALL
from radiator.model.message import Message
from radiator.protocols.http.members import members


def test_a_message_has_its_headers_unescaped_and_of_a_name_the_first() -> None:
    message = Message("/queue/q", b"a\\cb:c\\nd\nn:1\nn:2\n", ESCAPING_ALL, b"hello", 1234, 0)
    assert members(message) == {
        "destination": "/queue/q", "timestamp": 1234, "headers": {"a:b": "c\nd", "n": "1"}, "body": "hello",
    }  # fmt: skip


def test_a_message_from_amqp_has_its_properties_as_headers() -> None:
    block, _ = stored_block(encode(Properties(content_type="a", priority=3)))
    found = members(Message("/queue/q", block, ESCAPING_ALL, b"", 1, 0))
    assert found["headers"] == {"content-type": "a", "priority": "3"}


def test_a_body_that_is_no_text_is_base64() -> None:
    found = members(Message("/queue/q", b"", ESCAPING_ALL, b"\xff\0", 1, 0))
    assert found["body_base64"] == "/wA=" and "body" not in found
    assert members(Message("/queue/q", b"", ESCAPING_ALL, b"", 1, 0))["body"] == ""
