"""The schemas of a binding are in the description of the API."""

from radiator.protocols.http.administration import ASKINGS
from radiator.protocols.http.binding_schemas import ARGUMENTS, BOUND_KEY


def test_the_body_of_a_bind_has_both() -> None:
    asking = next(asking for asking in ASKINGS if asking.do == "bind")
    assert asking.body == ("key", "arguments", "queue")
    bodies = asking.route.operation.bodies
    assert bodies is not None
    properties = bodies["application/json"]["properties"]
    assert (properties["key"], properties["arguments"]) == (BOUND_KEY, ARGUMENTS)
