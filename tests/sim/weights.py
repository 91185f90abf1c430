"""What the broker does not weigh holds nothing: an idle connection is looked at again only once it wakes."""

from radiator.core.memory import held_by
from radiator.core.parts import Parts


def idle_hold_nothing(parts: Parts) -> None:
    """Raises AssertionError for a connection that would hold memory which no bound sees."""
    awake = set(parts.clients.awake)
    waiting = {*parts.blocking.connections.values(), *parts.applying.deliveries}
    if not parts.context.is_stopping:
        assert parts.admission.lacks.all.keys() <= waiting, "the plan of one that waits for nothing is remembered"
    for connection in parts.connections.values():
        if connection.is_idle:
            held = held_by(connection)
            assert held == 0, f"{connection.address} is idle and holds {held} bytes"
            assert connection not in awake, f"{connection.address} would be weighed twice"
        else:
            assert connection.is_closing or connection in awake or parts.rounds.looks is not None, (
                f"{connection.address} is awake and would never be weighed"
            )
