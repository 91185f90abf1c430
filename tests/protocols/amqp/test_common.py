"""What channels share is one object of their connection."""

from radiator.protocols.amqp.common import CommonToChannels


def test_each_connection_has_its_own() -> None:
    one, other = (CommonToChannels(4096, 1, 1, "ann", str, can_cancel=False) for _ in range(2))
    one.own_queues["amq.gen-1"] = None
    one.out.append(b"frame")
    assert (other.own_queues, other.out) == ({}, [])
