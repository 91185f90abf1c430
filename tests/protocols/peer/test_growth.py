"""What a client may say at the very limit goes from node to node, whatever brokers add to it on its way."""

import pytest

from radiator.model.commands import Open, Send
from radiator.model.limits import NAME_MAX_BYTES, NODE_NAME_MAX_BYTES, PATH_HOPS_MAX, Limits
from radiator.model.peer import Transfer
from radiator.model.settings import Declarations, QueueSettings
from radiator.protocols.peer.frame import Frames, encode
from radiator.protocols.peer.spec import AFTER_PROOF
from radiator.protocols.stomp.session import StompSession
from tests.core.cluster.nodes import Nodes
from tests.core.words import ack, header, nack, subscribe
from tests.sim.disk import Platter

NAMES = [letter * NODE_NAME_MAX_BYTES for letter in "abcdefghi"]
CHILD = ":" * NAME_MAX_BYTES  # each takes two bytes in a header
DECLARED = Declarations(
    queues={
        CHILD: QueueSettings(scope="cluster", dead_letter="dead", max_redeliveries=2**16 - 1),
        "dead": QueueSettings(scope="cluster"),
    },
    fanouts={"f": (CHILD,)},
    cluster_fanouts=frozenset({"f"}),
)


class LongNodes(Nodes):
    """With long names, and store ids as they are."""

    def start(self, name: str, platter: Platter) -> None:
        super().start(name, Platter(store_id=name[:16]))


def largest(version: int) -> Send:
    """Lines and bytes as many as may be; all but a few are colons, which a client may leave raw."""
    limits = Limits()
    session = StompSession(1, "s", limits)
    (opened,) = session.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % version)
    assert isinstance(opened, Open)
    lines = b"destination:/fanout/f\n" + b"a:\n" * (limits.max_headers - 2) + b"b:"
    room = limits.max_header_bytes - len(b"SEND\n" + lines + b"\n\n")
    (command,) = session.receive(b"SEND\n" + lines + b":" * room + b"\n\n\0")
    assert isinstance(command, Send)
    for over in (b"SEND\nc:\n", b"SEND\nc"):  # one line or one byte more is refused
        refused = StompSession(1, "s", limits)
        refused.receive(b"CONNECT\naccept-version:1.%d\nhost:h\n\n\0" % version)
        block = lines + b":" * (room - (3 if over.endswith(b"\n") else 0)) + b"\n\n\0"
        assert not isinstance(refused.receive(over + block)[0], Send)
    return command


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_a_node_has_accepted_every_other_takes(version: int) -> None:
    """Copies of a fanout go to all nodes, and one consumer has them all. What it rejects goes on as a dead letter."""
    nodes = LongNodes(NAMES, declarations=DECLARED)  # type: ignore[arg-type]
    first, *_, last = (nodes[name] for name in NAMES)
    first.open(1)
    first.say(largest(version))
    nodes.run()
    last.open(1)
    last.say(subscribe(1, CHILD))
    kept = 0
    for _ in range(2 * len(NAMES)):
        nodes.wait(1)
        for copy in last.messages(1):
            kept += 1
            last.say(nack(copy, requeue=False) if kept == len(NAMES) else ack(copy))
    assert kept == len(NAMES)
    for name in reversed(NAMES[:-1]):
        nodes[name].open(2)
        nodes[name].say(subscribe(2, "dead"))
        for _ in range(3):
            nodes.wait(1)
        (letter,) = nodes[name].messages(2)
        nodes[name].close(2)
        for entry in nodes[name].broker.destinations.queues.all["dead"].in_memory():
            entry.was_out = False  # so that its path grows on
    block = letter.message.headers
    path = header(letter.message, b"node-path")
    assert path is not None and len(path) == PATH_HOPS_MAX * (NODE_NAME_MAX_BYTES + 1) - 1
    assert block.count(b"\n") == Limits().max_headers - 1 + 6  # all but `destination`, and what nodes add
    assert len(block) > (2 if version else 1) * Limits().max_header_bytes
    heard = [word for _, _, word in nodes.heard]
    assert sum(isinstance(word, Transfer) for word in heard) == 2 * (len(NAMES) - 1) + PATH_HOPS_MAX
    for word in heard:
        assert list(Frames(Limits(), AFTER_PROOF).words(encode(word))) == [word]
