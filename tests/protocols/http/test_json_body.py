"""What is a JSON object, and how many values it may have."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.limits import HTTP_BATCH_BYTES, HTTP_JSON_VALUES
from radiator.protocols.http.head import BadRequest
from radiator.protocols.http.json_body import parsed


def refusal(body: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parsed(body)
    return caught.value


def test_an_object_is_read_with_and_without_a_byte_order_mark() -> None:
    assert (
        parsed(b'{"a": [1, {"b": null}]}') == parsed(b'\xef\xbb\xbf{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    )


@pytest.mark.parametrize(("body", "why"), [
    (b"", "not JSON"), (b"[]", "must be a JSON object; it begins with '[]'"), (b"{", "at character 1"),
    (b'{"a":1,"a":2}', "an object has 'a' twice"), (b'{"a":NaN}', "NaN is not a number"),
    (b'{"a":"\xff"}', "not UTF-8"),
    (b'{"a":' + b"9" * 5000 + b"}", "4300 digits"), (b'{"a":' + b"[" * 20_000, "nested too deeply"),
    ('{"a":1}'.encode("utf-16"), "not UTF-8"), ('{"a":1}'.encode("utf-16-le"), "not JSON"),
])  # fmt: skip
def test_what_is_none_is_refused(body: bytes, why: str) -> None:
    assert why in str(refusal(body)) and refusal(body).status == 400


def test_a_key_that_is_there_twice_is_found_in_time_among_very_many() -> None:
    names = [f"{number:05}" for number in range(HTTP_JSON_VALUES - 2)]
    body = "".join(("{", ",".join(f'"{name}":0' for name in [*names, names[-1]]), "}")).encode()
    began_s = time.process_time()
    assert f"an object has '{names[-1]}' twice" in str(refusal(body))
    assert time.process_time() - began_s < 1


def elements(count: int, one: str = "1") -> bytes:
    """With the object and its array two values more."""
    return ('{"a":[' + ",".join([one] * count) + "]}").encode()


@pytest.mark.parametrize(
    "one", ["1", "null", '"x"', '""', '"a,b[c{d"', r'"\",\\"', r'"\\\",[\\"', '"' + "," * 20 + '"']
)
def test_so_many_values_and_no_more_whatever_stands_in_texts(one: str) -> None:
    most = HTTP_JSON_VALUES - 1  # the object is one, and where elements begin one stands for the first
    assert len(parsed(elements(most, one))["a"]) == most
    assert refusal(elements(most + 1, one)).status == 413


def test_members_and_containers_are_values() -> None:
    for one in ("{}", "[]"):
        parsed(elements((HTTP_JSON_VALUES - 1) // 2, one))
        assert refusal(elements((HTTP_JSON_VALUES - 1) // 2 + 1, one)).status == 413
    names = ",".join(f'"{number}":{number}' for number in range(HTTP_JSON_VALUES + 1))
    assert refusal(b"{%b}" % names.encode()).status == 413


@pytest.mark.parametrize("body", [
    b'{"a":' + b"[" * (HTTP_BATCH_BYTES - 5), b"{" * HTTP_BATCH_BYTES, b'{"a":[' + b'"",' * (HTTP_BATCH_BYTES // 3),
    elements(HTTP_BATCH_BYTES // 2 - 10), b'{"a":[' + b"{}," * (HTTP_BATCH_BYTES // 3),
    b'"' * HTTP_BATCH_BYTES + b"," * 99_999,
    b'{"a":"' + b'\\"' * (HTTP_BATCH_BYTES // 2) + b"," * 99_999,
])  # fmt: skip
def test_the_worst_is_refused_in_no_time(body: bytes) -> None:
    began_s = time.process_time()
    refusal(body)
    assert time.process_time() - began_s < 0.1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a,"\\[]{}:')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from(',"\\[{')), inner),
)


def count(value: Any) -> int:
    """Of its members, elements, arrays and objects; the first element of each is counted with it."""
    if isinstance(value, list):
        return max(1, len(value)) + sum(map(count, value))
    if isinstance(value, dict):
        return max(1, len(value)) + sum(map(count, value.values()))
    return 0


@given(st.dictionaries(st.text(), VALUES), st.integers(-1, 0))
def test_what_is_counted_is_exact(value: dict[str, Any], less: int) -> None:
    body = json.dumps(value, separators=(",", ":")).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("radiator.protocols.http.json_body.HTTP_JSON_VALUES", count(value) + less)
        if less:
            assert refusal(body).status == 413
        else:
            assert parsed(body) == value
