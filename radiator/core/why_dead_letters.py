"""Says why a queue's dead letters are dropped by their exchange, and that a queue without dead letters drops
messages.
"""

from radiator.core.queues.queue import Queue
from radiator.core.routing.destinations import Destinations
from radiator.model.checks import shown
from radiator.model.errors import count_text
from radiator.model.settings import HEADERS


def of_dead_letters(destinations: Destinations, asked: Queue) -> str:
    """Returns a sentence that holds now; "": they are not, or it has none of that kind, or that depends on each
    message's key.
    """
    exchange, key = asked.settings.dead_letter_exchange, asked.settings.dead_letter_key
    if exchange is None:
        return _of_dropped(asked)
    dropped = "Its dead letters are dropped and counted:"
    if exchange and exchange not in destinations.exchanges.all:
        return f"{dropped} /exchange/{exchange} is not declared."
    found = destinations.exchanges.all[exchange] if exchange else None
    if key is None or (found is not None and found.type == HEADERS):
        if found is None or found.bindings or not found.is_plain:
            return ""
        return f"{dropped} /exchange/{exchange} has no binding."
    if destinations.dead_letter_targets(exchange, key)[0]:
        return ""
    if not exchange:
        return f"{dropped} there is no /queue/{key}."
    return f"{dropped} no binding of /exchange/{exchange} matches the key {shown(key)}."


def _of_dropped(asked: Queue) -> str:
    """Returns a sentence if the queue drops messages that are redelivered too often; "": it does not."""
    most = asked.settings.drop_after_redeliveries
    if most is None:
        return ""
    dropped = f"{count_text(asked.ledger.dropped, 'message')} dropped so far"
    return (
        f"It drops messages that come back more than {count_text(most, 'time')} (drop_after_redeliveries); {dropped}."
    )
