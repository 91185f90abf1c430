"""Programs that tests run in a process of their own: `python -m tests.client.programs NAME ADDRESS`."""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Literal

from radiator.client import Client, ConnectionLost, Reconnect

SOON = Reconnect(first_s=0.01, most_s=0.1, timeout_s=10)


def in_child(what: Callable[[], None]) -> int:
    """Runs it in a forked child: 0 if it raised nothing. By a pipe: gevent's waitpid misses a SIGCHLD now and then."""
    result, report = os.pipe()
    if os.fork() == 0:
        try:
            what()
            os.write(report, b"0")
        except BaseException as failed:  # noqa: BLE001
            print(f"the child failed: {failed!r}", file=sys.stderr, flush=True)
        os._exit(0)
    os.close(report)
    time.sleep(0)  # lets greenlets run
    answer = os.read(result, 1)
    os.close(result)
    return 0 if answer == b"0" else 1


def fork(address: str) -> None:
    """The child's copy is dead, says so, and leaves the parent's connection alone."""
    client = Client(address)
    client.subscribe("/queue/forked", ack="client-individual")
    client.send("/queue/forked", "before", confirm=False)
    inherited = client.fileno()

    def child() -> None:
        try:
            os.fstat(inherited)
        except OSError:
            pass
        else:
            raise AssertionError("the parent's socket is still open in the child")
        for call in (client.receive, client.pump, client.begin, lambda: client.send("/queue/forked")):
            try:
                call()
            except ConnectionLost as lost:
                assert "was forked" in str(lost), lost
            else:
                raise AssertionError(f"{call} went on in the child")
        assert (client.unconfirmed, client.waiting) == (0, 0)
        client.close()
        client.abandon()
        with Client(address) as own:
            own.send("/queue/forked", "child")

    assert in_child(child) == 0
    bodies = set()
    for _ in range(2):
        message = client.receive(10)
        assert message is not None
        bodies.add(message.body)
        client.ack(message)
    assert bodies == {b"before", b"child"}
    client.close()


def fork_and_reconnect(address: str) -> None:
    """The child opens a connection of its own at its first call, without the parent's subscriptions and SENDs."""
    for heart_beats in ("calls", "thread"):
        _fork_and_reconnect(address, heart_beats)


def _fork_and_reconnect(address: str, heart_beats: "Literal['calls', 'thread']") -> None:
    client = Client(address, reconnect=SOON, dedup=True, heart_beats=heart_beats)
    client.subscribe("/queue/forked.again", ack="client-individual")
    old = client.connections

    def child() -> None:
        assert not client.is_open
        client.send("/queue/forked.again", "child")
        assert client.connections == old + 1
        assert client.receive(0.1) is None
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("radiator.client") == (heart_beats == "thread"), names
        client.close()

    assert in_child(child) == 0
    message = client.receive(10)
    assert message is not None
    assert (message.body, message.headers["redelivered"]) == (b"child", "false")
    client.ack(message)
    assert client.connections == old
    client.close()


def fork_under_load(address: str) -> None:
    """Forks while threads hold the lock, lead, and wait: no child waits for a thread that it does not have."""
    client = Client(address, heart_beats="thread")
    client.subscribe("/topic/nothing")
    is_over = threading.Event()

    def send() -> None:
        while not is_over.is_set():
            client.send("/topic/load", b"x" * 1000)

    threads = [threading.Thread(target=send) for _ in range(3)]
    waiting = threading.Thread(target=lambda: client.receive(), daemon=True)
    for thread in (waiting, *threads):
        thread.start()

    def child() -> None:
        try:
            client.send("/topic/load")
        except ConnectionLost:
            return
        raise AssertionError("a child sent on its parent's connection")

    for _ in range(30):
        assert in_child(child) == 0
    is_over.set()
    for thread in threads:
        thread.join()
    client.send("/topic/nothing", "the end")
    waiting.join(10)
    client.close()


def patched(address: str) -> None:
    """Under gevent each thread is a greenlet: whoever waits lets the others run."""
    import gevent

    ticks = 0

    def tick() -> None:
        nonlocal ticks
        while True:
            gevent.sleep(0.005)
            ticks += 1

    ticking = gevent.spawn(tick)
    with Client(address, reconnect=SOON, heart_beats="thread", heart_beat_ms=(100, 100)) as client:
        client.subscribe("/queue/greenlets", ack="client-individual", prefetch=5)

        def receive() -> int:
            for count in range(100):
                message = client.receive(10)
                assert message is not None, f"only {count} came"
                client.ack(message)
            return 100

        receiving = gevent.spawn(receive)
        sending = [gevent.spawn(client.send_many, "/queue/greenlets", ["x"] * 20) for _ in range(5)]
        gevent.joinall([receiving, *sending], timeout=20, raise_error=True)
        assert receiving.value == 100
        before = ticks
        assert client.receive(0.3) is None
        assert ticks - before > 10, "nothing ran while the client waited"
        connection = client._channel.connection
        assert connection is not None
        before_s = connection.sent_at_s
        gevent.sleep(0.3)
        assert connection.sent_at_s > before_s, "no heart-beat was sent"

        def child() -> None:
            client.send("/queue/greenlets", "child")
            client.close()

        assert in_child(child) == 0
        message = client.receive(10)
        assert message is not None
        assert message.body == b"child"
        client.ack(message)
        connection.hang_up()
        client.send("/queue/greenlets", "again")
        assert client.connections == 2
    ticking.kill()


def without_poll(address: str) -> None:
    """`eventlet` takes `select.poll` away."""
    import select

    del select.poll
    with Client(address) as client:
        client.send_many("/queue/unpolled", [b"x" * 100_000] * 50)
        client.subscribe("/queue/unpolled", ack="client-individual", prefetch=10)
        for _ in range(50):
            message = client.receive(10)
            assert message is not None
            client.ack(message, confirm=False)


if __name__ == "__main__":
    name, broker_address = sys.argv[1:]
    globals()[name](broker_address)
