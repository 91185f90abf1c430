"""A SEND with several keys: what each of them is an address of."""

from radiator.model.addresses import EXCHANGE, EXISTING, QUEUE, split
from radiator.model.commands import Send
from radiator.model.errors import Refusal

MORE_KEYS_MAX = 1000  # refuse: further keys of one SEND


def addresses_of(send: Send) -> tuple[str, ...]:
    """The address that it names, and one for each further key. Raises Refusal where it goes to no exchange or queue."""
    if not send.more_keys:
        return (send.destination,)
    kind, name = split(send.destination)
    if kind not in (EXCHANGE, QUEUE, EXISTING):
        raise Refusal("bad-request", f"{send.destination} takes no further keys: an exchange does, or a queue.")
    if len(send.more_keys) > MORE_KEYS_MAX:
        raise Refusal(
            "bad-request",
            f"A message to {send.destination} has {len(send.more_keys)} further keys: at most {MORE_KEYS_MAX}.",
        )
    before = f"/{EXCHANGE}/{name.partition('/')[0]}/" if kind == EXCHANGE else f"/{kind}/"
    return (send.destination, *(f"{before}{key}" for key in send.more_keys))
