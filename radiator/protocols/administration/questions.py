"""Reads the requests of model/questions.py and model/returning.py."""

from radiator.model import administration as commands
from radiator.model.addresses import EXCHANGE, QUEUE, address_mistake
from radiator.model.administration import AdminCommand
from radiator.model.checks import shown
from radiator.model.errors import Refusal
from radiator.model.limits import RETURNED_IDS_MAX
from radiator.model.rights import ADMIN, APP, EVERYTHING, RIGHTS, WRITE
from radiator.model.story import message_id_in
from radiator.model.users import user_name_mistake
from radiator.model.validation import mistake
from radiator.protocols.administration.asked import Asked


def route(asked: Asked) -> AdminCommand:
    """Reads `route`. Like the other readers, raises Refusal `bad-request`."""
    asked.has_only(EXCHANGE, "key", "headers")
    name, key = asked.name(EXCHANGE), asked.text("key", "a routing key", "")
    wrong = _address_mistake(f"/{EXCHANGE}/{name}/{key}")
    if wrong:
        raise mistake("key", f"is not one that a SEND could have: the address {wrong}; it is {shown(key)}")
    return commands.FindRoute(name, key, _block(asked.given["headers"]) if "headers" in asked else b"")


def _block(headers: object) -> bytes:
    """Returns the headers of the message that is asked about, as lines NAME:VALUE."""
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise mistake(
            "headers", f'must be names and values, as text, such as {{"format": "pdf"}}; it is {shown(headers)}'
        )
    lines = [f"{name}:{value}" for name, value in headers.items()]
    if any("\n" in line or ":" in name for line, name in zip(lines, headers, strict=True)):
        raise mistake("headers", f"must be of one line each, and names have no colon; it is {shown(headers)}")
    return "".join(line + "\n" for line in lines).encode("utf-8", "replace")


def may(asked: Asked) -> AdminCommand:
    """Reads `may`: whether a user has a right on an address."""
    asked.has_only("user", "right", "destination")
    user = asked.text("user", "the name of a user")
    if wrong := user_name_mistake(user):
        raise mistake("user", f"must be the name of a user; {shown(user)} {wrong}")
    right = asked.text("right", f"one of {', '.join(RIGHTS)}")
    if right not in RIGHTS:
        raise mistake("right", f"must be one of {', '.join(RIGHTS)}; it is {shown(right)}")
    address = asked.text("destination", f"an address, or {EVERYTHING}", EVERYTHING if right == ADMIN else None)
    return commands.AskRight(user, right, _judged(address, right))


def _judged(address: str, right: str) -> str:
    """Returns the address to be judged, which must be one that this right can be given on."""
    if address == EVERYTHING:
        return address
    if right == ADMIN:
        raise mistake("destination", f"is {shown(address)}, and `{ADMIN}` is of the broker as a whole: leave it out")
    is_app = address.startswith(f"/{APP}/")
    if is_app and right != WRITE:
        raise mistake("destination", f"is {shown(address)}, and the versions of an app take `{WRITE}`, not `{right}`")
    wrong = _address_mistake(address)
    if wrong or not address.startswith("/"):
        wrong = wrong or "begins with no `/`"
        raise mistake("destination", f"must be an address, such as /queue/orders; {shown(address)} {wrong}")
    return address


def _address_mistake(address: str) -> str:
    try:
        address.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair in it"
    return address_mistake(address)


def give_back(asked: Asked) -> AdminCommand:
    """Reads `return`."""
    asked.has_only(QUEUE, "message_ids", "count")
    name = asked.name(QUEUE)
    if "message_ids" not in asked:
        return commands.ReturnMessages(name, None, asked.whole("count", None) if "count" in asked else None)
    if "count" in asked:
        raise Refusal("bad-request", "`return` has `message_ids`, or `count`, or neither; this has both.")
    given = asked.given["message_ids"]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise mistake("message_ids", f"must be a list of message-ids; it is {shown(given)}")
    if not 1 <= len(given) <= RETURNED_IDS_MAX:
        raise mistake("message_ids", f"must be 1 to {RETURNED_IDS_MAX} message-ids, each once; it has {len(given)}")
    try:
        ids = tuple(map(message_id_in, given))
    except ValueError as error:
        raise mistake("message_ids", str(error)) from error
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise mistake("message_ids", f"must be message-ids, each once; it has {shown(twice)} more than once")
    return commands.ReturnMessages(name, ids)
