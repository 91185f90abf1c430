"""CC and BCC: further keys, of which receivers see the former."""

import pytest

from radiator.model.amqp_properties import Properties, parse
from radiator.model.amqp_tables import encode_table
from radiator.protocols.amqp.copies import with_copies
from radiator.protocols.amqp.frame import BrokenAmqp


def copies(**headers: object) -> tuple[tuple[str, ...], dict[str, object]]:
    keys, data = with_copies(Properties(content_type="a/b", table=encode_table(headers)))
    properties = parse(data)
    assert properties.content_type == "a/b"
    return keys, properties.headers


def test_both_are_keys_once_each_and_bcc_is_nobody_elses_business() -> None:
    assert copies(CC=["a", "b"], BCC=["b", "c"], n=1) == (("a", "b", "c"), {"CC": ["a", "b"], "n": 1})
    assert copies(BCC=["c"]) == (("c",), {})
    assert copies(ACCOUNT="x") == ((), {"ACCOUNT": "x"}), "it is looked at wherever the letters stand"


@pytest.mark.parametrize("wrong", ["a", 1, ["a", 1], {"a": "b"}])
@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_anything_but_a_list_of_keys_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(BrokenAmqp, match=f"invalid '{name}' header") as broken:
        copies(**{name: wrong})
    assert broken.value.code == 406
