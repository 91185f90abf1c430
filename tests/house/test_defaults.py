"""Default bounds beside each other: none is below what another lets a client do that does nothing wrong.

A bound that makes somebody wait needs room for nothing. One that closes, drops or refuses needs room for the largest
frame, and for a second one where the first may be on its way still. A new bound that does such a thing gets a row.
"""

import re
from pathlib import Path

import pytest

from radiator.core.routing.temp_queues import TEMP_SETTINGS
from radiator.model import limits
from radiator.model.limits import CLIENT_LIMITS, MIB, Limits
from radiator.model.replies import MESSAGE_COST_BYTES
from radiator.model.settings import MEMORY_BYTES_MAX

DEFAULT = Limits()
FRAME = DEFAULT.max_frame_bytes
TIGHT = limits.MEMORY_TIGHT * DEFAULT.max_memory_bytes
SHOWN_MAX = 4 / 3 + 0.1  # base64, and the words around it

# what must be at least as large as what: the bound, what it is compared with, and what happens where that is not so
PAIRS = {
    "a topic's subscriber is closed": (DEFAULT.outbox_max_bytes, 2 * FRAME),
    "a client that reads slowly is closed for what TLS answers it": (limits.TLS_UNSENT_BYTES, 2 * limits.WRITE_BYTES),
    "a link drops topic messages": (limits.LINK_OUTBOX_BYTES, 2 * FRAME),
    "a subscriber of an exchange is closed": (MEMORY_BYTES_MAX, 2 * FRAME),
    "a temp queue drops replies": (TEMP_SETTINGS.max_bytes or 0, 2 * FRAME),
    "a memory queue refuses a message for ever": (MEMORY_BYTES_MAX, FRAME),
    "a transaction of two messages is refused": (DEFAULT.max_batch_bytes, 2 * FRAME),
    "a frame is refused for its headers alone": (FRAME, DEFAULT.max_header_bytes),
    "CONNECT is refused for its headers": (limits.CONNECT_MAX_BYTES, 2 * limits.ID_MAX_BYTES),
    "an answer to peek finds no room": (TEMP_SETTINGS.max_bytes or 0, SHOWN_MAX * limits.PEEK_BODIES_BYTES),
    "a WebSocket message that is one frame is too long": (
        FRAME + limits.WEBSOCKET_MORE_BYTES,
        FRAME + DEFAULT.max_header_bytes,
    ),
    "our client cannot read what another sent": (CLIENT_LIMITS.max_frame_bytes, FRAME + DEFAULT.max_header_bytes),
    "our client cannot read headers that were escaped": (CLIENT_LIMITS.max_header_bytes, 2 * DEFAULT.max_header_bytes),
    "our client cannot read an answer to peek": (CLIENT_LIMITS.max_frame_bytes, SHOWN_MAX * limits.PEEK_BODIES_BYTES),
    "the largest holder of memory is closed for one batch": (TIGHT, 2 * DEFAULT.max_batch_bytes),
    "the largest holder of memory is closed for one topic": (TIGHT, 8 * DEFAULT.outbox_max_bytes),
    "one address fills the half-open places": (DEFAULT.max_half_open, 2 * DEFAULT.max_half_open_per_address),
    "a frame is cut whose pauses are allowed": (DEFAULT.frame_timeout_s, 2 * DEFAULT.connect_timeout_s),
    "a client is closed before its heart-beat is due": (2 * DEFAULT.heart_beat_ms[1], DEFAULT.heart_beat_ms[0]),
}


@pytest.mark.parametrize("what_happens", PAIRS)
def test_default_has_room_for_what_another_allows(what_happens: str) -> None:
    bound, needed = PAIRS[what_happens]
    assert bound >= needed, f"{what_happens}: {bound} < {needed}"


def test_two_largest_frames_fit_with_what_the_broker_counts_for_each() -> None:
    """A default has that much more; see subscribe_topic."""
    assert DEFAULT.has_default_outbox and MESSAGE_COST_BYTES < MIB


def test_every_setting_that_closes_or_drops_by_bytes_has_a_row() -> None:
    source = (Path(limits.__file__)).read_text()
    rows = re.findall(r"^ *([A-Za-z_]+)(?:: int)? = .*# *(?:close|drop)\b.*$", source, re.MULTILINE)
    in_bytes = {name for name in rows if name.lower().endswith("_bytes")}
    here = Path(__file__).read_text()
    # what strangers, refused ones and links that are not proved yet may say
    aside = {"LINGER_BYTES", "GREETING_MAX_BYTES"}
    missing = {name for name in in_bytes - aside if name not in here}
    assert not missing, f"no row in PAIRS for {missing}"
