"""Reads the requests `bind` and `unbind`."""

from collections.abc import Callable

from radiator.model.administration import AdminCommand
from radiator.model.checks import shown
from radiator.model.errors import Refusal
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.header_bindings import ARGUMENTS_MAX_BYTES, arguments_key
from radiator.model.limits import NAME_MAX_BYTES
from radiator.model.validation import LOG_PREFIX, exchange_name_mistake, mistake
from radiator.protocols.administration.asked import Asked


def binding(command: Callable[[str, str, str], AdminCommand]) -> Callable[[Asked], AdminCommand]:
    """Returns a reader that makes this command (of exchange, key and target). The reader raises Refusal
    `bad-request`.
    """

    def reader(asked: Asked) -> AdminCommand:
        asked.has_only("exchange", "key", "arguments", "queue")
        queue = asked.text("queue", "the name of a queue, /log/NAME or /exchange/NAME")
        is_address = queue.startswith((LOG_PREFIX, EXCHANGE_PREFIX))
        target = queue if is_address else asked.name("queue")
        bare = target.removeprefix(LOG_PREFIX).removeprefix(EXCHANGE_PREFIX) if is_address else target
        key = _key(asked)
        most = ARGUMENTS_MAX_BYTES if key.startswith("{") else NAME_MAX_BYTES
        for name, text, at_most in (("key", key, most), ("queue", bare, NAME_MAX_BYTES)):
            if len(text.encode("utf-8", "surrogatepass")) > at_most:
                wrong = f"it has {len(text)} characters: {shown(text)}"
                raise Refusal("bad-request", f"`{name}` has at most {at_most} bytes; {wrong}.")
        if target.startswith(EXCHANGE_PREFIX) and (wrong := exchange_name_mistake(bare)):
            raise mistake("queue", f"is {shown(target)}, an exchange which {wrong}")
        return command(asked.name("exchange"), key, target)

    return reader


def _key(asked: Asked) -> str:
    """Returns the key, or the arguments that an exchange of type headers has in its place."""
    if "arguments" not in asked:
        return asked.text("key", "a routing key", "")
    if "key" in asked:
        raise Refusal("bad-request", "A binding has a `key`, or `arguments` (type headers); this has both.")
    try:
        return arguments_key(asked.given["arguments"])
    except ValueError as error:
        raise mistake("arguments", str(error)) from None
