from radiator.commands import *
from radiator.replies import *
from tests.broker.node import Node
from radiator.settings import *


def send(c, d, b, **k):
    return Send(c, d, k.pop("headers", b""), 2, b, **k)


def test_worked_example():
    n = Node()
    n.open(1, 2)
    for s, d in ((b"a", "/queue/Q1"), (b"b", "/queue/Q2"), (b"c", "/topic/T1")):
        n.say(Subscribe(1, s, d, CLIENT_INDIVIDUAL))
    n.say(send(2, "/queue/Q1", b"M1", receipt=b"1"), send(2, "/queue/Q1", b"M2"))
    d = n.take(1)
    assert [x.message.body for x in d] == [b"M1"]
    assert n.receipts(2) == [b"1"]
    n.say(send(2, "/queue/Q2", b"M3"))
    assert n.bodies(1) == []
    n.say(Ack(1, d[0].message_id))
    d = n.take(1)
    assert [x.message.body for x in d] == [b"M3"]
    n.say(send(2, "/topic/T1", b"M4"))
    assert n.bodies(1) == [b"M4"]
    n.say(Ack(1, d[0].message_id))
    d = n.take(1)
    assert [x.message.body for x in d] == [b"M2"]
    n.say(Ack(1, d[0].message_id))
    assert n.bodies(1) == []
    print(n.broker.stats())


def test_backlog():
    n = Node()
    n.open(1, 2)
    for i in range(3000):
        n.say(send(2, "/queue/Q", b"%d" % i))
    n.say(Subscribe(1, b"s", "/queue/Q", AUTO))
    assert n.bodies(1) == [b"%d" % i for i in range(3000)]
    n = n.crashed()
    assert not n.disk.platter.messages


def test_dlq_purge_move():
    n = Node(
        Declarations(
            queues={"a": QueueSettings(dead_letter="d", max_redeliveries=1), "d": QueueSettings()}, create_queues=True
        )
    )
    n.open(1, 2)
    n.say(send(2, "/queue/a", b"x"))
    n.say(Subscribe(1, b"s", "/queue/a", CLIENT))
    for i in range(2):
        d = n.take(1)
        assert len(d) == 1 and d[0].redeliveries == i
        n.say(Nack(1, d[0].message_id))
    assert n.take(1) == []
    n.say(Subscribe(2, b"s", "/queue/d", CLIENT))
    print(n.take(2))
    for i in range(1500):
        n.say(send(1, "/queue/b", b"%d" % i))
    n.say(Subscribe(1, b"t", "/temp-queue/t"))
    n.say(send(1, "/admin", b'{"do":"move","from":"b","to":"c","count":1200}', reply_to="t"))
    print(n.take(1))
    n.say(send(1, "/admin", b'{"do":"purge","queue":"b"}', reply_to="t"))
    print(n.take(1))
    n.say(send(1, "/admin", b'{"do":"peek","queue":"c","count":3}', reply_to="t"))
    print(n.take(1))
    n.say(send(1, "/admin", b'{"do":"delete","queue":"c"}', reply_to="t"))
    print(n.take(1))
    assert len(n.disk.platter.messages) == 1, len(n.disk.platter.messages)
    n.stop()
    n = n.again_on(n.disk.platter)
    n.open(5)
    n.say(Subscribe(5, b"s", "/queue/d"))
    print(n.take(5))
