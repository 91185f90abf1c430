"""A method that is a request of the administration."""

from radiator.model.administration import PurgeQueue
from radiator.model.answers import Purged
from radiator.model.errors import Refusal
from radiator.protocols.amqp.method_request import MethodRequest


def test_a_method_gives_its_command_and_makes_frames_of_its_answer() -> None:
    command = PurgeQueue("q")
    asking = MethodRequest(command, lambda answer: b"\xce%d" % answer.purged)  # type: ignore[union-attr]
    assert asking.read(b"whatever") is command
    assert asking.whole(Purged(3)) == b"\xce3"
    assert "".join(asking.pieces(Purged(3))).encode("latin-1") == b"\xce3"
    assert asking.refusal(Refusal("locked", "Queue 'q' is another's.")) == b"Queue 'q' is another's."
